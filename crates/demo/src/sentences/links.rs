//! Sentences held together over a distance: questions, pairs of conjunctions, comparisons, two things at once.

use crate::inflection::{ing, past, plain};
use crate::phrase::{Phrase, any, either, inflected, many, maybe, one_of, seq};
use crate::voice::{Tense, Who, people, person, present, somebody, somewhere, subject, tenses, timed};
use crate::words::*;

/// Actions: verbs with their objects.
type Actions = &'static [(&'static str, &'static str)];

const DUTIES: Actions = &[
    ("wash", "the_dishes the_car the_windows the_towels"),
    ("feed/fed/feeding", "the_dog the_hens the_cat the_horses the_birds"),
    ("repair", "the_clock the_roof the_bicycle the_fence"),
    ("cook", "dinner the_fish some_rice the_vegetables"),
    ("paint", "the_door the_wall a_picture the_fence"),
    ("write/wrote/writing", "a_letter a_poem the_report the_story"),
    ("clean", "the_kitchen the_stable the_shoes the_car"),
];

const PASTIMES: Actions = &[
    ("eat/ate/eating", "an_apple the_cake some_bread a_sandwich the_soup"),
    ("read/read/reading", "the_newspaper a_book the_letter a_novel"),
    ("drink/drank/drinking", "tea coffee some_milk the_wine"),
    ("play", "the_piano chess football the_flute cards"),
    ("drive/drove/driving", "the_car the_truck the_bus the_tractor"),
    ("sing/sang/singing", "a_song the_hymn a_lullaby"),
    ("pick", "flowers the_apples berries cherries mushrooms"),
];

/// Comparatives that go with people and animals, and with things and places.
const LIVING: &str = "older taller stronger younger faster bigger smaller braver";
const LIFELESS: &str = "older bigger smaller cheaper heavier prettier";

pub(super) fn sentences() -> Phrase {
    either![6 => questions(), 4 => pairs(), 3 => comparisons(), 4 => at_once(), 3 => afterwards(), 2 => reported()]
}

/// One action, the verb put into some form.
fn act(actions: Actions, form: fn(&str) -> String) -> Phrase {
    one_of(actions, |&(verb, objects)| seq![inflected(verb, form), any(objects)])
}

fn any_act(form: fn(&str) -> String) -> Phrase {
    either![1 => act(DUTIES, form), 1 => act(PASTIMES, form)]
}

/// Two different actions in one sentence.
fn two_acts(sentence: impl Fn(Actions, Actions) -> Phrase) -> Phrase {
    either![1 => sentence(DUTIES, PASTIMES), 1 => sentence(PASTIMES, DUTIES)]
}

/// One action of a subject in some tense.
fn acts(who: Who, tense: Tense) -> Phrase {
    one_of(&[DUTIES, PASTIMES], |actions| one_of(actions, |&(verb, objects)| seq![tense.does(who, verb), any(objects)]))
}

/// A question ends in its mark; its verb stays plain.
fn questions() -> Phrase {
    let wonder = any("why when where");
    people(|who| {
        let does = if matches!(who, Who::She | Who::He) { "does" } else { "do" };
        either![
            3 => seq!["did", subject(who), any_act(plain), maybe(0.4, Tense::Past.time()), "?"],
            2 => seq![does, subject(who), any_act(plain), maybe(0.4, Tense::Present.time()), "?"],
            2 => seq!["will", subject(who), any_act(plain), maybe(0.4, Tense::Future.time()), "?"],
            2 => seq![&wonder, either![2 => "did", 1 => does, 1 => "will"], subject(who), any_act(plain), "?"],
            1 => seq![
                "who", any("helped saw met called visited"), somebody(),
                either![2 => somewhere(), 1 => Tense::Past.time()], "?",
            ],
        ]
    })
}

/// "either ... or", "both ... and", "neither ... nor", "not only ... but also"
fn pairs() -> Phrase {
    tenses(|tense| {
        let two = |first: &str, second: &str, who: Who| {
            let (she, he) = (person(Who::She), person(Who::He));
            let both = either![1 => seq![first, &she, second, &he], 1 => seq![first, &he, second, &she]];
            timed(tense, seq![both, acts(who, tense)])
        };
        either![
            2 => two("either", "or", Who::It),
            2 => two("both", "and", Who::They),
            1 => two("neither", "nor", Who::It),
            1 => two("not only", "but also", Who::It),
            1 => people(|who| seq![
                subject(who), any("can should must"), "either",
                two_acts(|one, other| seq![act(one, plain), "or", act(other, plain)]), "."
            ]),
        ]
    })
}

fn comparisons() -> Phrase {
    let degree = maybe(0.4, any("much a_little far even"));
    let whose = any("my his her your our their");
    let than = |is: &str, comparatives: &str| seq![is, &degree, any(comparatives), "than"];
    let (large, small) = (any("horse elephant lion wolf bear cow tiger"), any("dog mouse cat fox hen goat rabbit"));
    let (town, wild) = (any(TOWN_PLACES), any(WILD_PLACES));
    either![
        1 => seq!["the", &large, than("is", LIVING), "the", &small, "."],
        1 => seq!["the", &small, than("is", LIVING), "the", &large, "."],
        1 => seq![person(Who::She), than("is", LIVING), person(Who::He), "."],
        1 => seq![person(Who::He), than("is", LIVING), person(Who::She), "."],
        1 => seq!["the", any(FOLK), than("are", LIVING), &whose, any(RELATIVES), "."],
        1 => seq!["the", &town, than("is", LIFELESS), "the", &wild, "."],
        1 => seq!["the", &wild, than("is", LIFELESS), "the", &town, "."],
        2 => seq!["this", any(POSSESSIONS), than("is", LIFELESS), &whose, any(POSSESSIONS), "."],
        2 => seq!["these", many(POSSESSIONS), than("are", LIFELESS), &whose, many(POSSESSIONS), "."],
    ]
}

/// "while anna was reading the newspaper , her brother washed the car ."
fn at_once() -> Phrase {
    people(|who| {
        let other = either![1 => seq![who.possessive(), any(FAMILY)], 1 => somebody()];
        either![
            3 => two_acts(|one, two| seq!["while", subject(who), who.was(), act(one, ing), ",", &other, act(two, past), "."]),
            2 => seq![
                subject(who), who.was(), any_act(ing), "when", &other,
                any("arrived came_home called left fell_asleep"), ".",
            ],
            1 => seq![subject(who), present(who, "like love enjoy"), any_act(ing), "."],
        ]
    })
}

/// "before the boy washed the dishes , he read a book ."
fn afterwards() -> Phrase {
    people(|who| {
        either![
            2 => two_acts(|one, two| {
                seq![any("before after when"), person(who), act(one, past), ",", who.pronoun(), act(two, past), "."]
            }),
            2 => two_acts(|one, two| {
                seq![
                    person(who), act(one, past), any("and but"), any("then later afterwards"), who.pronoun(),
                    act(two, past), ".",
                ]
            }),
            1 => seq![person(who), any_act(past), any("together_with for without"), who.possessive(), any(FAMILY), "."],
        ]
    })
}

/// "tom said that he could cook dinner ."
fn reported() -> Phrase {
    people(|who| {
        either![
            2 => seq![
                person(who), any("said thought hoped knew believed"), "that", who.pronoun(),
                any("could would should"), any_act(plain), ".",
            ],
            1 => seq![
                person(who), any("asked wondered"), any("whether if"), who.pronoun(), any("could should"),
                any_act(plain), ".",
            ],
            1 => seq![
                person(who), any("promised forgot decided tried wanted"), "to", any_act(plain),
                maybe(0.4, Tense::Past.time()), ".",
            ],
        ]
    })
}
