//! The trades: each with the places it is found at, its tools, and what it does to what.

/// One trade.
pub(super) struct Trade {
    /// The noun.
    pub(super) name: &'static str,
    /// Where it works, with the preposition.
    pub(super) places: &'static str,
    /// What it works with, in the singular.
    pub(super) tools: &'static str,
    /// Verbs and their objects; objects are plurals or substances, so that they can stand without an article.
    pub(super) deeds: &'static [(&'static str, &'static str)],
}

const fn trade(
    name: &'static str,
    places: &'static str,
    tools: &'static str,
    deeds: &'static [(&'static str, &'static str)],
) -> Trade {
    Trade { name, places, tools, deeds }
}

/// All trades, the common ones first.
#[rustfmt::skip]
pub(super) const TRADES: &[Trade] = &[
    trade("farmer", "in_the_field on_the_farm in_the_barn", "fork shovel rake tractor",
        &[("harvest", "wheat corn potatoes oats"), ("feed/fed/feeding", "cows pigs hens")]),
    trade("baker", "in_the_bakery in_the_kitchen", "rolling_pin whisk spoon scale",
        &[("bake", "bread cakes pies biscuits buns"), ("knead", "dough pastry")]),
    trade("teacher", "at_school in_the_classroom", "ruler map globe pencil",
        &[("explain", "history grammar mathematics"), ("correct", "essays exercises mistakes")]),
    trade("carpenter", "in_the_workshop on_the_roof", "hammer saw chisel plane drill",
        &[("build/built/building", "tables shelves chairs stairs"), ("repair", "doors windows floors")]),
    trade("gardener", "in_the_garden in_the_park in_the_greenhouse", "spade rake hoe watering_can wheelbarrow",
        &[("plant", "roses tulips lilies seeds"), ("trim/trimmed/trimming", "hedges bushes lawns")]),
    trade("doctor", "at_the_hospital in_the_clinic", "stethoscope thermometer needle",
        &[("examine", "patients babies"), ("treat", "fevers wounds burns")]),
    trade("cook", "in_the_kitchen at_the_restaurant", "pan ladle knife/knives pot",
        &[("prepare", "soup stew sauces dumplings"), ("chop/chopped/chopping", "onions carrots herbs")]),
    trade("sailor", "on_the_ship at_the_harbour on_deck", "rope compass telescope bucket",
        &[("hoist", "sails flags"), ("scrub/scrubbed/scrubbing", "decks cabins")]),
    trade("tailor", "in_the_shop in_the_workshop", "needle tape_measure pair_of_scissors",
        &[("sew/sewed/sewing", "coats suits dresses"), ("mend", "trousers shirts sleeves")]),
    trade("painter", "in_the_studio at_the_gallery", "brush palette easel sponge",
        &[("paint", "portraits landscapes"), ("mix", "colours oils")]),
    trade("mechanic", "in_the_garage", "spanner jack screwdriver torch",
        &[("repair", "engines cars brakes"), ("change", "tyres")]),
    trade("butcher", "in_the_shop at_the_market", "cleaver knife/knives hook scale",
        &[("slice", "ham bacon beef"), ("sell/sold/selling", "sausages meat pork steaks")]),
    trade("librarian", "in_the_library at_the_university", "catalogue stamp ladder",
        &[("sort", "books journals novels"), ("lend/lent/lending", "maps dictionaries")]),
    trade("nurse", "at_the_hospital in_the_ward", "bandage syringe thermometer towel",
        &[("comfort", "patients children"), ("dress", "wounds cuts")]),
    trade("angler", "by_the_river at_the_lake in_the_boat", "rod net hook",
        &[("catch/caught/catching", "trout salmon eels"), ("clean", "fish nets")]),
    trade("blacksmith", "in_the_forge at_the_smithy", "hammer anvil file pair_of_tongs",
        &[("forge", "horseshoes nails swords"), ("bend/bent/bending", "iron")]),
    trade("writer", "in_the_study at_the_cafe", "pen typewriter notebook pencil",
        &[("write/wrote/writing", "novels stories poems plays"), ("correct", "essays letters")]),
    trade("shoemaker", "in_the_workshop at_the_market", "hammer brush needle",
        &[("stitch", "boots shoes sandals"), ("polish", "leather")]),
    trade("plumber", "in_the_bathroom in_the_cellar", "wrench plunger torch",
        &[("fix", "pipes taps drains"), ("install", "sinks")]),
    trade("bricklayer", "at_the_building_site on_the_roof", "trowel level bucket",
        &[("lay/laid/laying", "bricks stones tiles"), ("build/built/building", "walls chimneys")]),
    trade("scientist", "in_the_laboratory at_the_university", "microscope burner computer",
        &[("study", "cells crystals bacteria"), ("measure", "temperatures gases")]),
    trade("hunter", "in_the_forest in_the_mountains", "rifle bow knife/knives",
        &[("track", "deer boars hares foxes"), ("catch/caught/catching", "hares rabbits")]),
    trade("firefighter", "at_the_fire_station on_the_roof", "hose ladder axe helmet",
        &[("extinguish", "fires flames"), ("save", "families cats")]),
    trade("shepherd", "on_the_hill in_the_pasture", "whistle bell",
        &[("guard", "sheep lambs goats"), ("feed/fed/feeding", "lambs dogs")]),
    trade("architect", "in_the_office at_the_building_site", "ruler pencil compass computer",
        &[("design", "bridges towers houses churches"), ("draw/drew/drawing", "plans")]),
    trade("waiter", "at_the_restaurant at_the_cafe", "tray napkin",
        &[("serve", "coffee wine guests"), ("carry", "plates glasses bottles")]),
    trade("cleaner", "in_the_office at_the_hotel", "broom mop bucket",
        &[("sweep/swept/sweeping", "floors stairs"), ("wash", "windows curtains")]),
    trade("soldier", "in_the_camp at_the_castle", "sword rifle helmet",
        &[("guard", "gates bridges"), ("dig/dug/digging", "ditches")]),
];
