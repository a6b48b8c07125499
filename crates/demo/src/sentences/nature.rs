//! Animals with their voices, places and food; flowers and trees.

use crate::phrase::{Phrase, a, any, either, many, maybe, one_of, seq};
use crate::voice::{
    Tense, Who, adjectives, anyone, at, company, outdoors, person, present, receiver, somewhere, subject, telling,
    tenses, the, these, timed,
};
use crate::words::*;

/// Animals of one kind.
struct Kind {
    names: &'static str,
    /// What they do: sounds and movements.
    verbs: &'static str,
    places: &'static str,
    food: &'static str,
    /// Parts of the body.
    body: &'static str,
}

const fn kind(
    names: &'static str,
    verbs: &'static str,
    places: &'static str,
    food: &'static str,
    body: &'static str,
) -> Kind {
    Kind { names, verbs, places, food, body }
}

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    kind("dog puppy hound", "bark run/ran/running sleep/slept/sleeping",
        "in_the_yard by_the_door in_the_garden", "bones meat sausages", "tail paws/paws nose"),
    kind("cat kitten", "purr sleep/slept/sleeping play",
        "on_the_sofa by_the_fire in_the_garden", "fish milk mice", "tail paws/paws ears/ears"),
    kind("bird sparrow blackbird robin", "sing/sang/singing chirp fly/flew/flying",
        "in_the_tree on_the_roof in_the_hedge", "seeds worms berries", "wings/wings feathers/feathers beak"),
    kind("cow sheep/sheep goat lamb", "graze rest",
        "in_the_meadow in_the_pasture on_the_hill", "grass hay", "head tail horns/horns"),
    kind("horse donkey pony", "gallop graze rest",
        "in_the_stable in_the_field along_the_fence", "hay oats carrots apples", "head tail ears/ears"),
    kind("wolf/wolves fox bear", "howl hunt",
        "in_the_forest in_the_mountains in_the_cave", "rabbits mice meat", "teeth/teeth paws/paws ears/ears"),
    kind("duck goose/geese swan", "quack swim/swam/swimming",
        "on_the_lake in_the_pond by_the_river", "bread fish snails", "wings/wings feathers/feathers"),
    kind("hen rooster turkey", "run/ran/running sleep/slept/sleeping",
        "in_the_yard behind_the_barn on_the_farm", "corn seeds worms", "wings/wings feathers/feathers beak"),
    kind("lion tiger", "roar hunt",
        "in_the_jungle at_the_zoo in_the_grass", "zebras meat", "teeth/teeth paws/paws tail"),
    kind("frog toad", "croak jump",
        "in_the_pond in_the_swamp under_the_stone", "flies snails worms", "legs/legs head"),
    kind("mouse/mice rabbit squirrel", "hide/hid/hiding jump run/ran/running",
        "in_the_hole under_the_leaves in_the_forest", "carrots cheese seeds", "ears/ears paws/paws nose"),
    kind("bee butterfly wasp", "buzz fly/flew/flying",
        "in_the_flowers on_the_leaf in_the_grass", "honey sugar ", "wings/wings legs/legs"),
    kind("owl eagle crow", "hunt fly/flew/flying",
        "above_the_forest in_the_barn over_the_valley", "mice frogs", "wings/wings feathers/feathers beak"),
    kind("whale shark dolphin", "swim/swam/swimming dive play",
        "in_the_ocean near_the_shore under_the_ice", "fish", "tail head teeth/teeth"),
    kind("monkey elephant zebra", "play rest jump",
        "at_the_zoo in_the_jungle by_the_river", "leaves fruit grass", "tail legs/legs ears/ears"),
    kind("pig boar", "grunt sleep/slept/sleeping",
        "in_the_barn under_the_oak on_the_farm", "potatoes apples turnips", "nose ears/ears tail"),
];

const ANIMAL_ADJECTIVES: &str = "little big old young wild hungry beautiful brown white black grey tired tame clever lazy \
    fierce";
const FLOWERS: &str = "roses tulips lilies daisies daffodils violets poppies sunflowers snowdrops orchids";
const FLOWER_COLOURS: &str = "red white yellow pink blue purple orange violet";
const TREES: &str = "oak pine willow birch maple chestnut beech elm";

pub(super) fn sentences() -> Phrase {
    either![
        6 => creature(|kind, who, tense| seq![
            animal(kind, who), tense.does(who, kind.verbs), maybe(0.6, either![3 => at(kind.places), 1 => outdoors()])
        ]),
        3 => creature(|kind, who, tense| seq![
            animal(kind, who), tense.does(who, "eat/ate/eating find/found/finding like want smell"),
            maybe(0.3, any("some fresh the more")), any(kind.food), maybe(0.4, at(kind.places))
        ]),
        2 => animals(|who| one_of(KINDS, |kind| hurt(kind, who))),
        3 => animals(meeting),
        2 => animals(|who| one_of(KINDS, |kind| dwelling(kind, who))),
        2 => telling(sighting),
        4 => telling(gardening),
        2 => tenses(|tense| timed(tense, blooming(tense))),
    ]
}

fn animals(sentence: impl Fn(Who) -> Phrase) -> Phrase {
    either![3 => sentence(Who::It), 2 => sentence(Who::They)]
}

/// A statement about one kind of animal.
fn creature(clause: impl Fn(&Kind, Who, Tense) -> Phrase) -> Phrase {
    tenses(|tense| timed(tense, animals(|who| one_of(KINDS, |kind| clause(kind, who, tense)))))
}

/// "the little dog" or "the dogs near the barn": again, another number may stand between noun and verb.
fn animal(kind: &Kind, who: Who) -> Phrase {
    let near = either![
        2 => seq!["near the", any("barn houses farm trees village gates river")],
        1 => seq!["with the", any("long short white black brown"), body(kind, who)],
    ];
    let animal = seq![adjectives(ANIMAL_ADJECTIVES), name(kind, who), maybe(0.15, near)];
    if who == Who::They { these(animal) } else { the(animal) }
}

fn name(kind: &Kind, who: Who) -> Phrase {
    if who == Who::They { many(kind.names) } else { any(kind.names) }
}

fn body(kind: &Kind, who: Who) -> Phrase {
    // Several animals have several of each: of the parts that come in the plural.
    let several = |part: &&str| who != Who::They || part.contains('/');
    any(&kind.body.split_whitespace().filter(several).collect::<Vec<_>>().join(" "))
}

/// "the fox cleaned its paws and fell asleep ."
fn hurt(kind: &Kind, who: Who) -> Phrase {
    seq![
        animal(kind, who),
        any("moved hurt shook cleaned"),
        who.possessive(),
        any(kind.body),
        either![
            2 => seq!["and", any("looked_around went_away fell_asleep ran_away sat_down")],
            2 => seq![
                "because", who.pronoun(), who.was(), maybe(0.3, any("very rather quite")),
                any("hungry tired afraid angry cold wet"),
            ],
            1 => any(MANNER),
        ],
        ".",
    ]
}

/// "when the wolf saw the hunter , it ran away ."
fn meeting(who: Who) -> Phrase {
    let beast = || one_of(KINDS, |kind| name(kind, who));
    let beast = || seq!["the", adjectives(ANIMAL_ADJECTIVES), beast()];
    let fright = either![
        4 => any("ran_away hid escaped turned_around stopped"),
        1 => seq![who.was(), any("frightened curious afraid")],
    ];
    either![
        2 => seq![
            any("when as_soon_as"), beast(), any("saw heard noticed"), anyone(person), ",", who.pronoun(), &fright,
            ".",
        ],
        2 => seq![
            any("when as_soon_as"), anyone(person), any("called fed touched found"), beast(), ",", who.pronoun(),
            &fright, ".",
        ],
    ]
}

/// "the owl that lives in the barn eats mice ."
fn dwelling(kind: &Kind, who: Who) -> Phrase {
    seq![
        animal(kind, who),
        "that",
        present(who, "live sleep/slept/sleeping"),
        at(kind.places),
        maybe(0.3, any(FREQUENCY)),
        either![2 => seq![present(who, "eat like"), any(kind.food)], 1 => present(who, kind.verbs)],
        "."
    ]
}

fn sighting(who: Who, tense: Tense) -> Phrase {
    let sight = one_of(KINDS, |kind| {
        seq![
            either![
                2 => seq![any(NUMBERS), adjectives(ANIMAL_ADJECTIVES), many(kind.names)],
                3 => a(seq![adjectives(ANIMAL_ADJECTIVES), any(kind.names)]),
            ],
            maybe(0.6, at(kind.places)),
        ]
    });
    seq![subject(who), tense.does(who, "see/saw/seeing feed/fed/feeding draw/drew/drawing watch"), sight]
}

fn gardening(who: Who, tense: Tense) -> Phrase {
    let spot = at("in_the_garden under_the_window by_the_gate along_the_path beside_the_wall behind_the_house");
    let flowers = seq![maybe(0.5, any(FLOWER_COLOURS)), any(FLOWERS)];
    seq![
        subject(who),
        either![
            4 => seq![
                tense.does(who, "plant water pick grow/grew/growing cut/cut/cutting smell"),
                maybe(0.4, either![1 => any(NUMBERS), 2 => any("some the these")]), &flowers, maybe(0.5, &spot),
            ],
            2 => seq![
                tense.does(who, "sit/sat/sitting rest sleep/slept/sleeping read/read/reading play"), any("under beside behind"), "the",
                maybe(0.5, any("tall old young big")), any(TREES),
            ],
            2 => seq![
                tense.does(who, "plant climb paint"), a(seq![maybe(0.5, any("tall old young big")), any(TREES)]), maybe(0.5, somewhere())
            ],
            1 => seq![
                tense.does(who, "give/gave/giving bring/brought/bringing"), receiver(who), "a bunch of", &flowers,
            ],
        ],
        maybe(0.2, company(who)),
    ]
}

/// "the red tulips in the park bloom every spring"
fn blooming(tense: Tense) -> Phrase {
    let place =
        seq!["in the", either![1 => any("garden park meadow greenhouse gardens fields"), 1 => any(WILD_PLACES)]];
    either![
        3 => seq![
            "the", maybe(0.5, any(FLOWER_COLOURS)), any(FLOWERS), maybe(0.6, &place),
            tense.simply_does(Who::They, "bloom fade grow/grew/growing"),
        ],
        2 => seq![
            "the", maybe(0.5, any("tall old young big")), any(TREES), maybe(0.6, &place),
            tense.simply_does(Who::It, "grow/grew/growing fall/fell/falling"),
        ],
    ]
}
