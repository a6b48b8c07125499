//! Who speaks of whom, and when: the hidden variables that most sentences share.
//!
//! [`Who`] is the person a sentence is about; it decides pronouns and verb endings. [`Tense`] is the time it is about;
//! it decides verb forms and which time expressions fit. Both are chosen once for a sentence and then agree all along.

use super::inflection::{past, plain, third_person};
use super::phrase::{Phrase, a, any, either, inflected, many, maybe, seq, zipf};
use super::trades::TRADES;
use super::words::*;

/// The person (or animal) a sentence is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// A woman or girl.
    She,
    /// A man or boy.
    He,
    /// Several people or animals.
    They,
    /// The speaker and others.
    We,
    /// The speaker.
    I,
    /// An animal.
    It,
}

impl Who {
    pub(super) fn pronoun(self) -> &'static str {
        self.pick(["she", "he", "they", "we", "i", "it"])
    }

    pub(super) fn possessive(self) -> &'static str {
        self.pick(["her", "his", "their", "our", "my", "its"])
    }

    pub(super) fn reflexive(self) -> &'static str {
        self.pick(["herself", "himself", "themselves", "ourselves", "myself", "itself"])
    }

    pub(super) fn was(self) -> &'static str {
        self.pick(["was", "was", "were", "were", "was", "was"])
    }

    pub(super) fn is(self) -> &'static str {
        self.pick(["is", "is", "are", "are", "am", "is"])
    }

    pub(super) fn has(self) -> &'static str {
        self.pick(["has", "has", "have", "have", "have", "has"])
    }

    /// Whether the verb takes its -s.
    fn takes_s(self) -> bool {
        matches!(self, Who::She | Who::He | Who::It)
    }

    fn pick(self, forms: [&'static str; 6]) -> &'static str {
        forms[self as usize]
    }
}

/// The time a sentence is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    Past,
    Present,
    Future,
}

impl Tense {
    /// One verb of a list in the form that agrees with the subject: "baked", "bakes", "will bake".
    pub(super) fn does(self, who: Who, verbs: &str) -> Phrase {
        match self {
            Tense::Past => seq![maybe(0.25, any(MANNER)), inflected(verbs, past)],
            Tense::Present => seq![maybe(0.35, any(FREQUENCY)), present(who, verbs)],
            Tense::Future => seq![
                "will",
                maybe(0.25, either![1 => any("soon probably certainly perhaps gladly"), 1 => any(MANNER)]),
                inflected(verbs, plain)
            ],
        }
    }

    /// Like [`Tense::does`], without an adverb: for the weather and other things that have no manners.
    pub(super) fn simply_does(self, who: Who, verbs: &str) -> Phrase {
        match self {
            Tense::Past => inflected(verbs, past),
            Tense::Present => present(who, verbs),
            Tense::Future => seq!["will", inflected(verbs, plain)],
        }
    }

    /// The form of "to be": "was", "is", "will be".
    pub(super) fn is(self, who: Who) -> &'static str {
        match self {
            Tense::Past => who.was(),
            Tense::Present => who.is(),
            Tense::Future => "will be",
        }
    }

    /// A time that fits.
    pub(super) fn time(self) -> Phrase {
        let own = match self {
            Tense::Past => either![
                6 => any("yesterday recently today once earlier"),
                4 => seq!["last", any(SPANS)],
                3 => seq!["on", any(DAYS)],
                2 => seq![any(NUMBERS), any("days weeks years months hours"), "ago"],
            ],
            Tense::Present => either![
                5 => seq!["every", any(RECURRING)],
                2 => any("today nowadays now again"),
                2 => seq!["on", many(DAYS)],
            ],
            Tense::Future => either![
                6 => any("tomorrow tonight later today again"),
                4 => seq!["next", any(SPANS)],
                2 => seq!["on", any(DAYS)],
                1 => seq!["in", any(NUMBERS), any("days weeks months years hours")],
            ],
        };
        either![8 => own, 3 => any(PARTS_OF_DAY), 1 => seq!["in", any(MONTHS)]]
    }
}

/// The present form of one of the verbs, without more: "bakes", "bake".
pub(super) fn present(who: Who, verbs: &str) -> Phrase {
    inflected(verbs, if who.takes_s() { third_person } else { plain })
}

/// A sentence about some person.
pub(super) fn people(sentence: impl Fn(Who) -> Phrase) -> Phrase {
    either![
        30 => sentence(Who::She), 30 => sentence(Who::He), 20 => sentence(Who::They),
        8 => sentence(Who::We), 10 => sentence(Who::I)
    ]
}

/// A sentence at some time.
pub(super) fn tenses(sentence: impl Fn(Tense) -> Phrase) -> Phrase {
    either![5 => sentence(Tense::Past), 3 => sentence(Tense::Present), 2 => sentence(Tense::Future)]
}

/// A statement, at some time, about some person; the time may be named before or after what is told.
pub(super) fn telling(clause: impl Fn(Who, Tense) -> Phrase) -> Phrase {
    tenses(|tense| timed(tense, people(|who| clause(who, tense))))
}

/// A woman or a man: for what people do singly.
pub(super) fn anyone(sentence: impl Fn(Who) -> Phrase) -> Phrase {
    either![1 => sentence(Who::She), 1 => sentence(Who::He)]
}

/// A statement with its full stop; the time may be named before or after the clause.
pub(super) fn timed(tense: Tense, clause: Phrase) -> Phrase {
    either![
        1 => seq![tense.time(), maybe(0.25, ","), &clause, "."],
        3 => seq![&clause, maybe(0.55, tense.time()), "."],
    ]
}

/// The subject of a sentence, possibly just a pronoun.
pub(super) fn subject(who: Who) -> Phrase {
    match who {
        Who::We => either![4 => "we", 1 => seq!["my", any(FAMILY), "and i"]],
        Who::I | Who::It => who.pronoun().into(),
        _ => either![1 => who.pronoun(), 5 => person(who)],
    }
}

/// A person named or described; for the speaker, the pronoun.
pub(super) fn person(who: Who) -> Phrase {
    let noun = |noun: Phrase| seq![adjectives(PERSON_ADJECTIVES), noun];
    let owner = || any("my our their his her your");
    match who {
        Who::She => either![
            5 => any(NAMES_OF_WOMEN), 3 => seq![owner(), any(WOMEN_OF_THE_FAMILY)],
            2 => the(noun(any(WOMEN))), 1 => the(noun(trade_names(false))),
        ],
        Who::He => either![
            5 => any(NAMES_OF_MEN), 3 => seq![owner(), any(MEN_OF_THE_FAMILY)],
            2 => the(noun(any(MEN))), 1 => the(noun(trade_names(false))),
        ],
        Who::They => either![
            2 => seq![any(NAMES_OF_WOMEN), "and", any(NAMES_OF_MEN)],
            2 => seq![owner(), any(RELATIVES)],
            3 => these(noun(any(FOLK))),
            1 => these(noun(trade_names(true))),
        ],
        Who::We | Who::I | Who::It => who.pronoun().into(),
    }
}

/// Somebody as the object of a verb: "his sister", "the old sailor", "emma".
pub(super) fn somebody() -> Phrase {
    either![2 => person(Who::She), 2 => person(Who::He), 1 => person(Who::They)]
}

/// An adjective of a list, sometimes with its degree, or none.
pub(super) fn adjectives(list: &str) -> Phrase {
    either![50 => any(list), 5 => seq![any("very rather"), any(list)], 45 => seq![]]
}

/// In whose company something is done: "with anna", "with her brother".
pub(super) fn company(who: Who) -> Phrase {
    seq![
        "with",
        either![
            3 => any(NAMES_OF_WOMEN), 3 => any(NAMES_OF_MEN), 3 => seq![who.possessive(), any(FAMILY)],
            2 => seq![who.possessive(), any(RELATIVES)], 1 => seq!["the", any(FOLK)],
        ],
    ]
}

/// To whom something is given or told; nobody gives to himself.
pub(super) fn receiver(who: Who) -> Phrase {
    let pronouns = if matches!(who, Who::I | Who::We) { "him her them" } else { "me us him her them" };
    either![
        2 => any(pronouns), 2 => any(NAMES_OF_WOMEN), 2 => any(NAMES_OF_MEN),
        3 => seq![who.possessive(), any(FAMILY)], 2 => seq!["the", any(FOLK)],
    ]
}

/// Any trade, by name.
pub(super) fn trade_names(plural: bool) -> Phrase {
    let names = TRADES.iter().map(|trade| trade.name).collect::<Vec<_>>().join(" ");
    if plural { many(&names) } else { any(&names) }
}

/// One place of a list of places with their prepositions ("in_the_garden"), perhaps with an adjective.
pub(super) fn at(places: &str) -> Phrase {
    let items = places.split_whitespace().enumerate().map(|(rank, place)| {
        let spoken = match place.split_once("_the_") {
            Some((preposition, noun)) => {
                let noun = seq![adjectives(PLACE_ADJECTIVES), any(noun)];
                let shown = either![7 => "the", 1 => any("this that")];
                seq![any(preposition), if place.ends_with('s') { "the".into() } else { shown }, noun]
            }
            None => any(place),
        };
        (zipf(rank), spoken)
    });
    Phrase::choice(items.collect())
}

/// One thing, pointed out: mostly "the", but also "a", "this", "that".
pub(super) fn the(noun: Phrase) -> Phrase {
    either![7 => seq!["the", &noun], 2 => a(&noun), 1 => seq![any("this that"), &noun]]
}

/// Several things, pointed out: mostly "the", but also "these", "some", "three".
pub(super) fn these(nouns: Phrase) -> Phrase {
    either![6 => seq!["the", &nouns], 3 => seq![any("these those many some most several"), &nouns], 1 => seq![any(NUMBERS), &nouns]]
}

/// Somewhere in the country.
pub(super) fn outdoors() -> Phrase {
    seq![any("near by beside"), the(seq![adjectives(PLACE_ADJECTIVES), any(WILD_PLACES)])]
}

/// Somewhere in town or in the country.
pub(super) fn somewhere() -> Phrase {
    let in_town = seq![any("near at behind in_front_of"), the(seq![adjectives(PLACE_ADJECTIVES), any(TOWN_PLACES)])];
    either![3 => in_town, 2 => outdoors()]
}
