//! The house: rooms with their furniture and things.

use crate::phrase::{Phrase, a, any, either, many, maybe, one_of, seq};
use crate::voice::{Tense, Who, adjectives, company, people, subject, telling, the};
use crate::words::*;

/// One room.
struct Room {
    name: &'static str,
    /// Furniture: things are on, under, beside or behind it.
    furniture: &'static str,
    /// Things that are there.
    things: &'static str,
}

const fn room(name: &'static str, furniture: &'static str, things: &'static str) -> Room {
    Room { name, furniture, things }
}

#[rustfmt::skip]
const ROOMS: &[Room] = &[
    room("kitchen", "table stove shelf", "cup plate pan knife/knives fork spoon bowl jar"),
    room("living room", "sofa armchair fireplace piano", "lamp cushion newspaper vase candle clock"),
    room("bedroom", "bed wardrobe chair", "pillow blanket mirror clock"),
    room("study", "desk bookcase chair", "book pen letter map picture"),
    room("bathroom", "bathtub stool washbasin", "towel toothbrush comb bottle"),
    room("cellar", "barrel bench shelf", "bottle basket lantern box"),
    room("nursery", "cradle cupboard chest", "doll ball kite balloon"),
    room("hall", "bench cabinet door", "umbrella hat letter key bag"),
];

/// The rooms in general, for those that are cleaned, painted, slept in.
const NAMES: &str = "kitchen living_room bedroom study bathroom cellar nursery hall attic";

pub(super) fn sentences() -> Phrase {
    either![
        5 => telling(placing),
        2 => people(putting_away),
        5 => one_of(ROOMS, there_is),
        2 => one_of(ROOMS, lying),
        3 => telling(chores),
    ]
}

fn looks() -> Phrase {
    maybe(0.55, either![2 => any(THING_ADJECTIVES), 1 => any(COLOURS)])
}

fn place(room: &Room) -> Phrase {
    let furniture = the(seq![adjectives(THING_ADJECTIVES), any(room.furniture)]);
    seq![any("on under beside behind"), furniture, maybe(0.3, seq!["in the", room.name])]
}

fn placing(who: Who, tense: Tense) -> Phrase {
    let verbs = "put/put/putting leave/left/leaving find/found/finding see/saw/seeing place hide/hid/hiding";
    let thing = one_of(ROOMS, |room| {
        seq![
            either![2 => "the", 1 => who.possessive()],
            looks(),
            either![2 => any(room.things), 1 => many(room.things)],
            place(room)
        ]
    });
    seq![subject(who), tense.does(who, verbs), thing]
}

/// "in the kitchen , anna cleaned the cups and put them on the shelf ."
fn putting_away(who: Who) -> Phrase {
    let takes = || seq![subject(who), any("took found cleaned wrapped picked_up repaired"), "the"];
    let thing = |room: &Room| {
        let ending = |pronoun: &str| seq!["and", any("put hid left placed"), pronoun, place(room), "."];
        either![
            2 => seq![looks(), any(room.things), ending("it")],
            1 => seq![looks(), many(room.things), ending("them")],
        ]
    };
    either![
        1 => one_of(ROOMS, |room| seq!["in the", room.name, ",", takes(), thing(room)]),
        1 => seq![takes(), one_of(ROOMS, thing)],
    ]
}

/// "there are three cups on the table in the kitchen ."
fn there_is(room: &Room) -> Phrase {
    let one = a(seq![looks(), any(room.things)]);
    let several = seq![either![3 => any(NUMBERS), 2 => any("some many several no")], looks(), many(room.things)];
    either![
        3 => seq!["there", either![2 => "is", 1 => "was"], &one, place(room), "."],
        3 => seq!["there", either![2 => "are", 1 => "were"], &several, place(room), "."],
        1 => seq!["is there", &one, place(room), "?"],
        1 => seq!["are there any", looks(), many(room.things), place(room), "?"],
        1 => seq!["in the", room.name, "there", either![2 => seq!["is", &one], 2 => seq!["are", &several]], "."],
    ]
}

/// "the cups beside the old stove are dirty ."
fn lying(room: &Room) -> Phrase {
    let state = seq![
        maybe(0.3, any("very rather quite")),
        any("old dirty clean new dusty broken expensive heavy useless"),
        "."
    ];
    let whose = seq![any("the my your our her his"), maybe(0.3, any(COLOURS))];
    either![
        1 => seq![&whose, any(room.things), place(room), either![2 => "is", 1 => "was"], &state],
        1 => seq![&whose, many(room.things), place(room), either![2 => "are", 1 => "were"], &state],
    ]
}

fn chores(who: Who, tense: Tense) -> Phrase {
    seq![
        subject(who),
        either![
            3 => seq![tense.does(who, "clean sweep/swept/sweeping"), "the", adjectives(PLACE_ADJECTIVES), any(NAMES)],
            2 => seq![
                tense.does(who, "paint"), "the", any("walls door ceiling floor"), "of the", any(NAMES),
                any(COLOURS),
            ],
            1 => seq![
                tense.does(who, "sleep/slept/sleeping sit/sat/sitting wait"), maybe(0.3, any(MANNER)), "in the",
                adjectives(PLACE_ADJECTIVES), any(NAMES)
            ],
        ],
        maybe(0.3, company(who)),
    ]
}
