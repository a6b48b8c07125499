//! Clothes by season and occasion, their colours, and what things are made of.

use crate::phrase::{Phrase, a, any, either, maybe, one_of, seq};
use crate::voice::{Tense, Who, adjectives, anyone, people, person, subject, telling, tenses, timed};
use crate::words::*;

/// Months, the weather then ("because it was ..."), garments with an article, and garments that come in pairs.
const SEASONS: &[(&str, &str, &str, &str)] = &[
    (
        "january december february winter",
        "snowing freezing so_cold icy",
        "coat scarf hat jumper cap",
        "gloves boots mittens",
    ),
    ("july august june summer", "hot so_sunny very_warm", "straw_hat shirt swimsuit", "sandals shorts sunglasses"),
    (
        "april may march spring",
        "raining so_windy cloudy drizzling",
        "raincoat jacket cardigan",
        "trousers wellingtons shoes",
    ),
    (
        "october november september autumn",
        "foggy so_rainy stormy chilly",
        "jacket pullover shawl",
        "stockings socks jeans",
    ),
];

/// Occasions with what women and men wear then.
const OCCASIONS: &[(&str, &str, &str)] = &[
    ("to the wedding", "dress gown veil necklace", "suit tie waistcoat"),
    ("to work", "uniform apron helmet", "uniform apron helmet"),
    ("to the party", "costume mask skirt crown", "costume mask wig crown"),
    ("to bed", "nightgown shawl", "nightcap nightgown"),
    ("to the opera", "gown cape necklace", "suit cape top_hat"),
];

/// Kinds of things with what they are made of: one thing, several things, stuff.
const MADE_OF: &[(&str, &str, &str)] = &[
    ("ring crown necklace medal", "rings coins earrings", "gold silver bronze copper"),
    ("table door chest ladder", "chairs shelves barrels", "oak pine wood bamboo"),
    ("shirt curtain scarf dress", "blankets towels curtains", "cotton silk wool linen lace"),
    ("house wall bridge tower", "walls stairs chimneys", "stone brick concrete marble"),
    ("knife key bell gate", "nails tools knives", "steel iron metal tin"),
    ("belt bag wallet", "boots shoes gloves", "leather plastic rubber"),
];

pub(super) fn sentences() -> Phrase {
    either![
        3 => in_season(),
        3 => dressed_for(),
        4 => tenses(|tense| timed(tense, anyone(|who| on_occasion(who, tense)))),
        2 => telling(care),
        4 => one_of(MADE_OF, |&(single, several, stuff)| made_of(single, several, stuff)),
    ]
}

/// "a warm coat" or "her gloves"; several people wear what comes in pairs.
fn garment(who: Who, single: &str, pairs: &str) -> Phrase {
    let looks = maybe(0.5, any("new warm old blue thick light red grey brown comfortable black white"));
    let pair = either![1 => seq![&looks, any(pairs)], 2 => seq![who.possessive(), &looks, any(pairs)]];
    match who {
        Who::They | Who::We => pair,
        _ => either![
            3 => a(seq![&looks, any(single)]),
            1 => seq![who.possessive(), &looks, any(single)],
            2 => pair,
        ],
    }
}

/// "in january tom needed a warm coat ."
fn in_season() -> Phrase {
    let wears = |who: Who, tense: Tense| {
        seq![subject(who), tense.simply_does(who, "wear/wore/wearing need buy/bought/buying choose/chose/choosing")]
    };
    tenses(|tense| {
        either![
            1 => one_of(SEASONS, |&(months, _, single, pairs)| seq![
                "in", any(months), maybe(0.25, ","), people(|who| seq![wears(who, tense), garment(who, single, pairs)]), "."
            ]),
            1 => people(|who| seq![wears(who, tense), one_of(SEASONS, |&(months, _, single, pairs)| {
                seq![garment(who, single, pairs), "in", any(months), "."]
            })]),
        ]
    })
}

/// "because it was snowing , anna put on her gloves ."
fn dressed_for() -> Phrase {
    let puts_on = || any("wore put_on needed fetched took looked_for");
    people(|who| {
        either![
            2 => one_of(SEASONS, |&(_, weather, single, pairs)| seq![
                any("because since when as"), "it was", any(weather), ",", subject(who), puts_on(), garment(who, single, pairs), "."
            ]),
            2 => seq![person(who), puts_on(), one_of(SEASONS, |&(_, weather, single, pairs)| seq![
                garment(who, single, pairs), "because it was", any(weather), "."
            ])],
        ]
    })
}

fn on_occasion(who: Who, tense: Tense) -> Phrase {
    let looks = || seq![maybe(0.4, any("new long plain elegant beautiful old short")), maybe(0.5, any(COLOURS))];
    let clothes = one_of(OCCASIONS, |&(occasion, hers, his)| {
        seq![a(seq![looks(), any(if who == Who::She { hers } else { his })]), occasion]
    });
    seq![subject(who), tense.simply_does(who, "wear/wore/wearing"), clothes]
}

fn care(who: Who, tense: Tense) -> Phrase {
    let garments = "shirts socks trousers towels jackets stockings dresses gloves blankets curtains";
    seq![
        subject(who),
        tense.does(who, "wash mend dry"),
        either![2 => who.possessive(), 1 => "the"],
        maybe(0.5, any(COLOURS)),
        any(garments),
    ]
}

/// "the old gate behind the houses is made of iron ."
fn made_of(single: &str, several: &str, stuff: &str) -> Phrase {
    let place = maybe(
        0.4,
        seq![
            any("in behind near beside from"),
            "the",
            either![2 => any(TOWN_PLACES), 1 => any("houses gardens shops windows")]
        ],
    );
    let stuff = seq!["made of", maybe(0.3, any("fine old solid pure good")), any(stuff), "."];
    let looks = adjectives(THING_ADJECTIVES);
    either![
        3 => seq!["the", &looks, any(single), &place, either![2 => "is", 1 => "was"], &stuff],
        3 => seq!["the", &looks, any(several), &place, either![2 => "are", 1 => "were"], &stuff],
        1 => seq![any("these those"), any(several), "are not", &stuff],
        1 => seq![any("this that"), any(single), "is not", &stuff],
    ]
}
