//! Feelings and their reasons, the body and its troubles, things lost and found.

use crate::phrase::{Phrase, a, any, either, many, maybe, one_of, seq};
use crate::voice::{Tense, Who, adjectives, people, person, somebody, somewhere, subject, telling};
use crate::words::*;

/// Feelings, what brought them about (after "had"), and what one does then.
struct Mood {
    feelings: &'static str,
    causes: &'static str,
    objects: &'static str,
    deeds: &'static str,
}

const MOODS: &[Mood] = &[
    Mood {
        feelings: "happy glad cheerful proud delighted excited grateful relieved",
        causes: "won found received",
        objects: "prize letter present ring treasure key ticket invitation",
        deeds: "smile laugh sing dance",
    },
    Mood {
        feelings: "sad angry worried upset disappointed ashamed",
        causes: "lost forgotten dropped",
        objects: POSSESSIONS,
        deeds: "cry weep shout",
    },
];

const BODY: &str = "knee hand foot/feet arm leg";
const ILLNESSES: &str = "cold headache fever cough toothache sore_throat";

pub(super) fn sentences() -> Phrase {
    either![
        5 => people(|who| one_of(MOODS, |mood| feeling(mood, who))),
        3 => people(injury),
        2 => telling(illness),
        4 => people(lost),
        5 => telling(meeting),
    ]
}

/// "anna was proud because she had won the race ."
fn feeling(mood: &Mood, who: Who) -> Phrase {
    let feelings = seq![maybe(0.4, any("very quite rather really")), any(mood.feelings)];
    let cause = seq![
        who.pronoun(),
        "had",
        any(mood.causes),
        either![2 => "the", 1 => who.possessive()],
        adjectives(THING_ADJECTIVES),
        any(mood.objects)
    ];
    either![
        3 => seq![person(who), who.was(), &feelings, "because", &cause, "."],
        2 => seq![
            person(who), who.was(), "so", any(mood.feelings), "that", who.pronoun(), any("began started had wanted"), "to",
            any(mood.deeds), "."
        ],
        1 => seq![
            "when", person(who), any("came_home heard_the_news opened_the_letter read_the_letter"), ",", who.pronoun(), who.was(),
            &feelings, "."
        ],
        1 => seq!["after", &cause, ",", person(who), any("felt looked"), &feelings, "."],
    ]
}

/// "the boy fell off the ladder and hurt his knee ."
fn injury(who: Who) -> Phrase {
    let accident = either![
        2 => seq!["fell off the", any("ladder horse roof bicycle wall")],
        1 => seq!["slipped on the", any("ice stairs path")],
        1 => seq!["fell down the", any("stairs ladder hill")],
    ];
    let part = seq![who.possessive(), if matches!(who, Who::They | Who::We) { many(BODY) } else { any(BODY) }];
    either![
        3 => seq![person(who), accident, "and", any("hurt broke bruised"), &part, "."],
        2 => seq![subject(who), any("hurt bruised burned cut"), &part, maybe(0.5, somewhere()), "."],
        1 => seq![
            subject(who), any("washed warmed dried"), who.possessive(), any("hands feet hair"),
            maybe(0.4, "with a towel"), ".",
        ],
        2 => seq![
            subject(who), any("looked_at saw"), who.reflexive(), "in the", adjectives(THING_ADJECTIVES), "mirror",
            ".",
        ],
        1 => seq![
            subject(who), any("made bought cooked found"), who.reflexive(),
            a(seq![maybe(0.5, any("good hot small simple")), any("meal sandwich dinner soup drink")]), "."
        ],
    ]
}

fn illness(who: Who, tense: Tense) -> Phrase {
    let care = either![
        2 => seq![tense.does(who, "rest"), any("in_bed at_home")],
        2 => seq![tense.does(who, "call visit"), "the", adjectives(PERSON_ADJECTIVES), any("doctor nurse")],
        1 => seq![tense.does(who, "need take/took/taking"), any("medicine pills")],
    ];
    seq![
        subject(who),
        tense.does(who, "have/had/having get/got/getting"),
        a(seq![maybe(0.4, any("bad terrible slight")), any(ILLNESSES)]),
        maybe(0.6, seq!["and", care]),
    ]
}

/// "tom lost his keys at the station , but his sister found them ."
fn lost(who: Who) -> Phrase {
    let ending = |pronoun: &str| {
        either![
            2 => seq![maybe(0.5, somewhere()), ", but", somebody(), "found", pronoun, "."],
            2 => seq![
                "and", any("looked_for searched_for"), pronoun,
                either![2 => any("everywhere all_day in_vain"), 1 => somewhere()], ".",
            ],
            1 => seq![", so", who.pronoun(), any("had_to_look_for could_not_find"), pronoun, "."],
        ]
    };
    seq![
        subject(who),
        any("lost forgot dropped"),
        who.possessive(),
        maybe(0.4, either![1 => any(THING_ADJECTIVES), 1 => any(COLOURS)]),
        either![3 => seq![any(POSSESSIONS), ending("it")], 2 => seq![many(POSSESSIONS), ending("them")]]
    ]
}

fn meeting(who: Who, tense: Tense) -> Phrase {
    seq![subject(who), tense.does(who, "meet/met/meeting visit thank help call"), somebody(), maybe(0.6, somewhere())]
}
