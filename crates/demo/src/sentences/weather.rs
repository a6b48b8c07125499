//! The weather, season by season.

use crate::phrase::{Phrase, any, either, maybe, one_of, seq};
use crate::voice::{Tense, Who, tenses};
use crate::words::*;

/// Months and seasons, adjectives, what "it" does, and what comes and goes.
#[rustfmt::skip]
const SEASONS: &[(&str, &str, &str, &str)] = &[
    ("january december february winter", "cold snowy icy freezing", "snow hail", "snow wind ice frost"),
    ("july august june summer", "hot sunny dry warm", "drizzle", "sun heat thunderstorm breeze"),
    ("april may march spring", "mild rainy warm windy", "rain drizzle", "rain wind sun rainbow"),
    ("october november september autumn", "foggy rainy windy cloudy stormy", "rain storm", "fog mist storm rain wind"),
];

pub(super) fn sentences() -> Phrase {
    one_of(SEASONS, |&(months, adjectives, verbs, movers)| {
        tenses(|tense| {
            let month = seq!["in", any(months)];
            let weather = weather(adjectives, verbs, movers, tense);
            either![
                3 => seq![&month, maybe(0.25, ","), &weather, "."],
                2 => seq![&weather, &month, "."],
                1 => closed(adjectives, movers, tense),
            ]
        })
    })
}

fn weather(adjectives: &str, verbs: &str, movers: &str, tense: Tense) -> Phrase {
    let degree = maybe(0.4, any("very quite rather"));
    let more = maybe(0.3, seq![any("and but"), any("quiet pleasant bright unpleasant grey beautiful dark")]);
    let place = either![
        2 => seq!["in the", any("mountains valley north south city west village east hills")],
        1 => seq!["by the", any("sea lake river coast")],
        1 => seq!["near the", any(WILD_PLACES)],
    ];
    let weather = either![
        3 => seq![any("the_weather it"), tense.is(Who::It), degree, any(adjectives), more],
        3 => seq![
            "it", tense.simply_does(Who::It, verbs), maybe(0.4, any("heavily all_day gently all_night for_hours")),
        ],
        2 => seq![
            "the", any(movers),
            tense.simply_does(Who::It, "come/came/coming begin/began/beginning stop/stopped/stopping return"),
        ],
    ];
    seq![weather, maybe(0.45, place)]
}

/// "because of the fog , the road was closed ."
fn closed(adjectives: &str, movers: &str, tense: Tense) -> Phrase {
    either![
        2 => seq![
            "because of the", any(movers), ",", "the", either![1 => any("road street path"), 1 => any(TOWN_PLACES)],
            tense.is(Who::It), any("closed empty quiet dark"), ".",
        ],
        1 => seq![
            "the", any(adjectives), any("weather morning night evening day"), tense.is(Who::It),
            any("over beautiful unpleasant terrible pleasant"), ".",
        ],
    ]
}
