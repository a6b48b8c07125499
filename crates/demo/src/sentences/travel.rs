//! Vehicles and the ways they go; countries, their cities and languages.

use crate::phrase::{Phrase, a, any, either, maybe, one_of, seq};
use crate::voice::{Tense, Who, adjectives, at, company, people, person, somewhere, subject, telling};
use crate::words::*;

/// Verb, vehicles, ways.
#[rustfmt::skip]
const RIDES: &[(&str, &str, &str)] = &[
    ("drive/drove/driving", "car truck van bus taxi lorry tractor",
        "to_the_village along_the_road through_the_town across_the_bridge to_the_station"),
    ("ride/rode/riding", "bicycle horse motorcycle pony donkey camel",
        "along_the_lane through_the_forest to_school across_the_field down_the_hill"),
    ("sail", "boat ship yacht", "across_the_lake to_the_island around_the_bay along_the_coast"),
    ("fly/flew/flying", "plane helicopter balloon", "over_the_mountains above_the_clouds to_the_airport over_the_sea"),
    ("row", "canoe raft boat", "down_the_river across_the_pond to_the_shore"),
    ("push", "wheelbarrow cart sledge", "up_the_hill along_the_path through_the_snow across_the_yard"),
];

/// Country, cities, language.
#[rustfmt::skip]
const COUNTRIES: &[(&str, &str, &str)] = &[
    ("france", "paris", "french"), ("italy", "rome venice", "italian"), ("germany", "berlin hamburg", "german"),
    ("spain", "madrid", "spanish"), ("england", "london oxford", "english"), ("greece", "athens", "greek"),
    ("russia", "moscow", "russian"), ("norway", "oslo", "norwegian"), ("japan", "tokyo", "japanese"),
];

/// Parts of vehicles: one, several.
const PARTS: (&str, &str) = ("engine door roof window horn", "wheels brakes tyres windows");

pub(super) fn sentences() -> Phrase {
    either![
        6 => telling(riding),
        1 => one_of(RIDES, |&(_, vehicles, _)| parts(vehicles)),
        4 => telling(by_train),
        4 => abroad(),
    ]
}

fn riding(who: Who, tense: Tense) -> Phrase {
    let rides = one_of(RIDES, |&(verb, vehicles, ways)| {
        let looks = maybe(0.45, either![2 => any(COLOURS), 3 => any("old new small big fast heavy little")]);
        seq![
            tense.does(who, verb),
            either![
                2 => a(seq![&looks, any(vehicles)]),
                2 => seq!["the", &looks, any(vehicles)],
                2 => seq![who.possessive(), &looks, any(vehicles)],
            ],
            maybe(0.75, at(ways)),
            maybe(0.3, either![1 => any(MANNER), 2 => company(who)]),
        ]
    });
    seq![subject(who), rides]
}

/// "the wheels of the old truck are broken ."
fn parts(vehicles: &str) -> Phrase {
    let whole = seq!["of", any("the my his her our your"), adjectives(THING_ADJECTIVES), any(vehicles)];
    let state = seq![maybe(0.3, any("very rather quite")), any("dirty new dusty shiny rusty old"), "."];
    either![
        1 => seq!["the", any(PARTS.0), &whole, either![3 => "is", 2 => "was"], &state],
        1 => seq!["the", any(PARTS.1), &whole, either![3 => "are", 2 => "were"], &state],
    ]
}

fn by_train(who: Who, tense: Tense) -> Phrase {
    let places = any("town the_city the_coast the_mountains the_village the_capital the_island");
    let public = any("train bus ferry tram coach");
    let deeds = either![
        3 => seq![
            tense.does(who, "take/took/taking catch/caught/catching"), "the", any("first last next early late"),
            &public, "to", &places,
        ],
        2 => seq![tense.does(who, "travel/travelled/travelling go/went/going return"), "to", &places, "by", &public],
        2 => seq![tense.does(who, "wait rest stop/stopped/stopping"), somewhere()],
        2 => seq![
            tense.does(who, "visit leave/left/leaving"), "the", adjectives(PLACE_ADJECTIVES),
            either![2 => any(TOWN_PLACES), 1 => any(WILD_PLACES)],
        ],
    ];
    seq![subject(who), deeds, maybe(0.35, company(who))]
}

/// "the girl from rome speaks italian ."
fn abroad() -> Phrase {
    let there = |then: &dyn Fn(&str) -> Phrase| {
        one_of(COUNTRIES, |&(country, cities, language)| {
            seq![either![2 => any(country), 3 => any(cities)], then(language)]
        })
    };
    either![
        4 => telling(|who, tense| seq![
            subject(who), tense.does(who, "travel/travelled/travelling go/went/going move"), "to",
            there(&|language| either![
                2 => seq!["to learn", language],
                2 => seq!["to visit", who.possessive(), either![2 => any(FAMILY), 1 => any(RELATIVES)]],
                2 => seq!["by", any("train plane ship bus")],
            ]),
        ]),
        3 => people(|who| match who {
            Who::We | Who::I => seq!["in", there(&|language| seq![
                maybe(0.25, ","), who.pronoun(), any("learned spoke studied"), language, "with", who.possessive(), any(RELATIVES), "."
            ])],
            _ => {
                let speaks = if who == Who::They { "speak understand teach" } else { "speaks understands teaches" };
                seq![person(who), "from", there(&|language| seq![
                    maybe(0.4, any(FREQUENCY)), any(speaks), language, maybe(0.4, seq!["to", who.possessive(), any(RELATIVES)]), "."
                ])]
            }
        }),
        2 => people(|who| seq![
            "when", subject(who), any("lived stayed worked"), "in", there(&|language| seq![
                ",", who.pronoun(), any("spoke learned studied"), language, maybe(0.4, Tense::Present.time()), "."
            ])
        ]),
    ]
}
