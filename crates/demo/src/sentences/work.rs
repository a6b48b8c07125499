//! Trades at work. The trade is hidden: the name, a place, a tool or a deed may be what gives it away first.

use crate::inflection::{past, plain};
use crate::phrase::{Phrase, a, any, either, inflected, many, maybe, one_of, seq};
use crate::trades::{TRADES, Trade};
use crate::voice::{
    Tense, Who, adjectives, anyone, at, company, person, somewhere, subject, telling, tenses, the, these, timed,
};
use crate::words::*;

pub(super) fn sentences() -> Phrase {
    either![
        56 => tenses(|tense| timed(tense, workers(|who| one_of(TRADES, |trade| at_work(trade, who, tense))))),
        9 => tenses(|tense| one_of(TRADES, |trade| workers(|who| place_first(trade, who, tense)))),
        10 => workers(|who| one_of(TRADES, |trade| tool_first(trade, who))),
        7 => one_of(TRADES, skill),
        16 => telling(order),
        6 => workers(|who| one_of(TRADES, |trade| tool_missing(trade, who))),
        5 => apprentice(),
    ]
}

/// Trades do not show the gender; it comes out where a pronoun does.
fn workers(sentence: impl Fn(Who) -> Phrase) -> Phrase {
    either![3 => sentence(Who::She), 3 => sentence(Who::He), 2 => sentence(Who::They)]
}

/// "the old baker from the village": between the noun and its verb there may be words of another number.
fn worker(trade: &Trade, who: Who) -> Phrase {
    let name = if who == Who::They { many(trade.name) } else { any(trade.name) };
    let more = either![
        3 => seq!["from the", adjectives(PLACE_ADJECTIVES), any("village town valley islands city mountains coast")],
        2 => seq!["with the", any(COLOURS), any("hat apron boots gloves scarf coat bag")],
        2 => seq!["near the", any(TOWN_PLACES)],
    ];
    let worker = seq![adjectives(PERSON_ADJECTIVES), name, maybe(0.2, more)];
    if who == Who::They { these(worker) } else { the(worker) }
}

/// What is worked on: "bread", "the new tables".
fn works(list: &str) -> Phrase {
    let adjective = maybe(0.5, any("new old other good first last small fine big best"));
    either![
        4 => seq!["the", &adjective, any(list)],
        3 => seq![any(list)],
        2 => seq![any("some more enough most_of_the all_the"), any(list)],
    ]
}

/// What can be done to the works of every trade.
const COMMON_DEEDS: &str = "check find/found/finding describe need choose/chose/choosing show \
    bring/brought/bringing";

/// A deed of the trade, the verb put into some form.
fn deed(trade: &Trade, verb_form: impl Fn(&str) -> Phrase) -> Phrase {
    one_of(trade.deeds, |(verb, objects)| seq![verb_form(verb), works(objects)])
}

/// A deed of the trade, or a common one.
fn any_deed(trade: &Trade, who: Who, tense: Tense) -> Phrase {
    either![
        2 => deed(trade, |verb| tense.does(who, verb)),
        1 => seq![tense.does(who, COMMON_DEEDS), one_of(trade.deeds, |(_, objects)| works(objects))],
    ]
}

fn plain_deed(trade: &Trade) -> Phrase {
    deed(trade, |verb| inflected(verb, plain))
}

fn tool(trade: &Trade, who: Who) -> Phrase {
    let common = any("basket bag knife rope box lamp ladder bucket cloth brush");
    let tool = seq![adjectives(THING_ADJECTIVES), either![3 => any(trade.tools), 1 => common]];
    either![2 => a(&tool), 2 => seq![who.possessive(), &tool], 1 => seq!["the", &tool]]
}

/// "the old baker baked bread with a rolling pin in the bakery"
fn at_work(trade: &Trade, who: Who, tense: Tense) -> Phrase {
    let with_tool = seq!["with", tool(trade, who)];
    let place = either![3 => at(trade.places), 2 => somewhere()];
    let others = either![
        2 => company(who),
        1 => seq!["for", either![1 => any(NAMES_OF_WOMEN), 1 => any(NAMES_OF_MEN), 1 => seq!["the", any(FOLK)]]],
    ];
    seq![
        worker(trade, who),
        any_deed(trade, who, tense),
        either![
            3 => seq![&with_tool, maybe(0.5, &place)], 3 => &place, 2 => &others, 2 => any(MANNER), 2 => seq![]
        ],
    ]
}

/// "in the bakery , the old baker kneads dough with her whisk ."
fn place_first(trade: &Trade, who: Who, tense: Tense) -> Phrase {
    seq![
        at(trade.places),
        ",",
        worker(trade, who),
        deed(trade, |verb| tense.does(who, verb)),
        maybe(0.5, seq!["with", tool(trade, who)]),
        "."
    ]
}

/// "the baker took her rolling pin and kneaded the dough ."
fn tool_first(trade: &Trade, who: Who) -> Phrase {
    seq![
        worker(trade, who),
        any("took found fetched borrowed cleaned picked_up"),
        tool(trade, who),
        maybe(0.2, seq!["from", somebodys()]),
        "and",
        maybe(0.4, any("then slowly soon carefully quickly patiently later")),
        deed(trade, |verb| inflected(verb, past)),
        ".",
    ]
}

fn somebodys() -> Phrase {
    either![1 => person(Who::She), 1 => person(Who::He)]
}

/// "a good baker knows how to knead dough ."
fn skill(trade: &Trade) -> Phrase {
    let adjective = any("good young clever careful experienced skilled");
    let needs = either![
        3 => a(seq![adjectives(THING_ADJECTIVES), any(trade.tools)]),
        2 => any("patience time strong_hands good_eyes luck courage practice"),
    ];
    let needs = either![
        2 => &needs,
        1 => seq![a(any(trade.tools)), "and", any("patience time strong_hands good_eyes luck courage practice")],
    ];
    either![
        2 => seq![a(seq![&adjective, any(trade.name)]), any("knows_how learns has_time"), "to", plain_deed(trade), "."],
        2 => seq![a(seq![&adjective, any(trade.name)]), any("needs has wants"), &needs, "."],
        2 => seq![
            any("most many some all"), many(trade.name), any("know_how learn have_time"), "to", plain_deed(trade),
            ".",
        ],
        2 => seq![any("good young old most many"), many(trade.name), any("need have want"), &needs, "."],
    ]
}

/// "my aunt asked the carpenter to repair the windows"
fn order(who: Who, tense: Tense) -> Phrase {
    let request = |join: &str| {
        one_of(TRADES, |trade| seq![the(seq![adjectives(PERSON_ADJECTIVES), any(trade.name)]), join, plain_deed(trade)])
    };
    seq![
        subject(who),
        either![
            3 => seq![tense.does(who, "ask help pay/paid/paying"), request("to")],
            1 => seq![tense.does(who, "watch see/saw/seeing"), request("")],
        ],
    ]
}

/// "without her rolling pin the baker can not knead the dough ."
fn tool_missing(trade: &Trade, who: Who) -> Phrase {
    let can_not = either![3 => "can not", 1 => "could not"];
    either![
        3 => seq!["without", tool(trade, who), maybe(0.25, ","), worker(trade, who), &can_not, plain_deed(trade), "."],
        2 => seq![
            "if the", any(trade.tools), "is", any("broken lost missing stolen"), ",", worker(trade, who), "can not",
            plain_deed(trade), "."
        ],
        2 => seq![
            worker(trade, who), either![1 => who.has(), 1 => "had"], any("lost forgotten broken"), who.possessive(),
            any(trade.tools), "and", &can_not, plain_deed(trade), "."
        ],
    ]
}

/// "either the baker or her apprentice will knead the dough ."
fn apprentice() -> Phrase {
    let modal = any("will must should can");
    either![
        3 => anyone(|who| one_of(TRADES, |trade| seq![
            "either the", any(trade.name), "or", who.possessive(), any("apprentice assistant son daughter partner"), &modal,
            plain_deed(trade), "."
        ])),
        2 => one_of(TRADES, |trade| seq![
            "both the", many(trade.name), "and their", any("apprentices assistants children partners"), &modal,
            plain_deed(trade), "."
        ]),
        2 => one_of(TRADES, |trade| seq![
            "neither the", any(trade.name), "nor", anyone(person), any("could would wanted_to"), plain_deed(trade), "."
        ]),
    ]
}
