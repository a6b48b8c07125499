//! Reading, telling, studying.

use crate::phrase::{Phrase, a, any, either, maybe, seq};
use crate::voice::{Tense, Who, at, company, receiver, subject, telling};
use crate::words::*;

pub(super) fn sentences() -> Phrase {
    either![4 => telling(reading), 3 => telling(story), 3 => telling(studying)]
}

/// What a book may be about.
fn topic() -> Phrase {
    either![
        3 => a(seq![maybe(0.5, any("brave wicked clever kind lonely friendly terrible golden poor")), any(HEROES)]),
        2 => either![1 => any(ARTS), 1 => any(SCIENCES)],
        1 => any("animals stars plants ships gardens castles horses birds planets"),
    ]
}

fn reading(who: Who, tense: Tense) -> Phrase {
    let text = seq![maybe(0.4, any("long short new good interesting boring funny old sad exciting")), any(READING)];
    seq![
        subject(who),
        tense.does(who, "read/read/reading write/wrote/writing buy/bought/buying finish borrow find/found/finding"),
        either![3 => a(&text), 1 => seq!["the", &text]],
        maybe(0.6, seq!["about", topic()]),
        maybe(0.2, at("in_bed on_the_train in_the_garden in_the_library by_the_window")),
    ]
}

fn story(who: Who, tense: Tense) -> Phrase {
    let tale =
        seq![maybe(0.4, any("long short funny sad true strange")), any("story joke fairy_tale secret legend riddle")];
    seq![
        subject(who),
        tense.does(who, "tell/told/telling promise"),
        receiver(who),
        a(tale),
        maybe(0.7, seq!["about", topic()])
    ]
}

fn studying(who: Who, tense: Tense) -> Phrase {
    let one = either![1 => any(ARTS), 1 => any(SCIENCES)];
    let two =
        either![2 => &one, 1 => seq![any(ARTS), "and", any(SCIENCES)], 1 => seq![any(SCIENCES), "and", any(ARTS)]];
    seq![
        subject(who),
        either![
            3 => seq![
                tense.does(who, "study learn teach/taught/teaching"), &two,
                maybe(0.4, at("at_the_university at_school in_the_library at_home")), maybe(0.25, company(who)),
            ],
            2 => seq![
                tense.does(who, "pass fail prepare"), either![1 => "the", 1 => who.possessive()],
                maybe(0.4, any("first last difficult easy final")), &one, any("exam test"),
            ],
        ],
    ]
}
