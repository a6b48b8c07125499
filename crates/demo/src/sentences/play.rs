//! Music, sports and games.

use crate::phrase::{Phrase, a, any, either, maybe, one_of, seq};
use crate::voice::{Tense, Who, at, company, receiver, somewhere, subject, telling};

/// Instruments and what else is done with them.
const INSTRUMENTS: &[(&str, &str)] = &[
    ("violin guitar cello harp viola banjo ukulele", "tune"),
    ("flute trumpet clarinet oboe horn trombone", "clean"),
    ("piano organ accordion", "tune"),
    ("drum xylophone gong", "clean"),
];

/// Sports and games with where they are played.
const GAMES: &[(&str, &str)] = &[
    ("football tennis cricket rugby hockey", "in_the_park in_the_stadium on_the_lawn on_the_field"),
    ("chess cards dominoes dice", "at_the_table in_the_living_room at_the_club by_the_fire"),
    ("basketball volleyball", "in_the_gym at_school in_the_hall"),
    ("marbles tag", "in_the_garden in_the_yard in_the_street"),
];

/// Exercise with where it is taken.
const EXERCISE: &[(&str, &str)] = &[
    ("swim/swam/swimming dive", "in_the_lake in_the_river in_the_sea"),
    ("walk run/ran/running", "in_the_park along_the_river through_the_forest"),
    ("ski", "on_the_ice in_the_mountains down_the_slope"),
    ("climb", "in_the_hills in_the_mountains in_the_forest"),
];

/// Music in general.
const MUSIC: &str = "song waltz march melody tune hymn lullaby ballad";

pub(super) fn sentences() -> Phrase {
    either![5 => telling(music), 3 => telling(games), 3 => telling(exercise)]
}

fn games(who: Who, tense: Tense) -> Phrase {
    let game = one_of(GAMES, |&(games, places)| {
        seq![any(games), maybe(0.4, company(who)), maybe(0.5, either![3 => at(places), 1 => somewhere()])]
    });
    seq![subject(who), tense.does(who, "play win/won/winning"), game]
}

fn exercise(who: Who, tense: Tense) -> Phrase {
    let likes = tense.does(who, "like love learn");
    let sport = one_of(EXERCISE, |&(verbs, places)| {
        let place = either![3 => at(places), 1 => somewhere()];
        either![
            3 => seq![tense.does(who, verbs), maybe(0.3, company(who)), &place],
            2 => seq![&likes, "to", any(verbs), maybe(0.3, company(who)), &place],
        ]
    });
    seq![subject(who), sport]
}

fn music(who: Who, tense: Tense) -> Phrase {
    let stage = at("at_the_concert in_the_orchestra in_the_church on_the_stage at_the_festival in_the_band");
    let piece = a(seq![maybe(0.5, any("slow sad merry short famous old")), any(MUSIC)]);
    let deeds = either![
        4 => seq![
            tense.does(who, "play practise"), "the", one_of(INSTRUMENTS, |&(instruments, _)| any(instruments)),
            either![2 => &stage, 2 => company(who), 1 => seq!["for", receiver(who)], 3 => seq![]],
        ],
        2 => one_of(INSTRUMENTS, |&(instruments, verbs)| {
            seq![
                tense.does(who, verbs), "the", maybe(0.5, any("old new big small heavy expensive little")),
                any(instruments),
            ]
        }),
        2 => seq![
            tense.does(who, "play"), &piece, "on the", one_of(INSTRUMENTS, |&(instruments, _)| any(instruments)),
        ],
        2 => seq![
            tense.does(who, "sing/sang/singing whistle"), &piece,
            maybe(0.5, either![1 => &stage, 1 => company(who)]),
        ],
    ];
    seq![subject(who), deeds]
}
