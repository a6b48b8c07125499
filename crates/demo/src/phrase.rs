//! Phrases: the building blocks the grammar is written in.
//!
//! A *phrase* is a recipe for a run of words: one word out of a *group* (a weighted list), phrases one after another,
//! a weighted choice between phrases, or a phrase behind the article that suits its first word. A choice is made
//! without memory; what must agree over a distance (a gender, a tense, a trade) is therefore chosen once, at the
//! outside, by a choice between whole sentences: that choice is the *hidden variable*.

use std::rc::Rc;

use super::inflection;

/// A recipe for a run of words; cheap to clone.
#[derive(Clone)]
pub(super) struct Phrase(pub(super) Rc<Node>);

/// What a phrase is made of. Weights are positive and need not sum to one.
pub(super) enum Node {
    /// Exactly one word of a group.
    Group(Vec<(String, f64)>),
    /// One after another; none at all is the empty phrase.
    Sequence(Vec<Phrase>),
    /// Exactly one of these.
    Choice(Vec<(f64, Phrase)>),
    /// "a" or "an" (whichever suits the word that follows), then the phrase, which must not be empty.
    Article(Phrase),
}

impl Phrase {
    fn new(node: Node) -> Phrase {
        Phrase(Rc::new(node))
    }

    /// The phrases one after another.
    pub(super) fn sequence(parts: Vec<Phrase>) -> Phrase {
        Phrase::new(Node::Sequence(parts))
    }

    /// One of the phrases, in proportion to the weights.
    pub(super) fn choice(parts: Vec<(f64, Phrase)>) -> Phrase {
        Phrase::new(Node::Choice(parts))
    }
}

/// The words of a text in their order.
impl From<&str> for Phrase {
    fn from(text: &str) -> Phrase {
        let word = |word: &str| Phrase::new(Node::Group(vec![(word.to_owned(), 1.0)]));
        let mut words: Vec<Phrase> = text.split_whitespace().map(word).collect();
        if words.len() == 1 { words.remove(0) } else { Phrase::sequence(words) }
    }
}

impl From<&Phrase> for Phrase {
    fn from(phrase: &Phrase) -> Phrase {
        phrase.clone()
    }
}

/// Phrases (or texts) one after another.
macro_rules! seq {
    ($($part:expr),* $(,)?) => { $crate::phrase::Phrase::sequence(vec![$($crate::phrase::Phrase::from($part)),*]) };
}
/// A choice: `either![3 => this, 1 => that]`.
macro_rules! either {
    ($($weight:expr => $part:expr),* $(,)?) => {
        $crate::phrase::Phrase::choice(vec![$((f64::from($weight), $crate::phrase::Phrase::from($part))),*])
    };
}
pub(super) use {either, seq};

/// No words at all.
pub(super) fn nothing() -> Phrase {
    Phrase::sequence(Vec::new())
}

/// The phrase with this probability, otherwise nothing.
pub(super) fn maybe(probability: f64, phrase: impl Into<Phrase>) -> Phrase {
    Phrase::choice(vec![(probability, phrase.into()), (1.0 - probability, nothing())])
}

/// "a" or "an", then the phrase.
pub(super) fn a(phrase: impl Into<Phrase>) -> Phrase {
    Phrase::new(Node::Article(phrase.into()))
}

/// The weight of the item at `rank` (from 0) of a list: Zipf's law, with the head a little lowered.
pub(super) fn zipf(rank: usize) -> f64 {
    1.0 / (rank as f64 + 5.0)
}

/// One item of a list, earlier ones more often. Items are separated by spaces; `_` joins the words of one item
/// ("ice_cream"); of a noun with its plural ("knife/knives") the singular is taken.
pub(super) fn any(list: &str) -> Phrase {
    inflected(list, inflection::singular)
}

/// Like [`any`], but in the plural.
pub(super) fn many(list: &str) -> Phrase {
    inflected(list, inflection::plural)
}

/// Like [`any`], with each item put into some form.
pub(super) fn inflected(list: &str, form: impl Fn(&str) -> String) -> Phrase {
    let items = list.split_whitespace().enumerate().map(|(rank, item)| (form(item), zipf(rank)));
    let (single, joined): (Vec<_>, Vec<_>) = items.partition(|(text, _)| !text.contains('_'));
    let mut parts: Vec<(f64, Phrase)> =
        joined.iter().map(|(text, weight)| (*weight, Phrase::from(text.replace('_', " ").as_str()))).collect();
    if !single.is_empty() {
        parts.push((single.iter().map(|(_, weight)| weight).sum(), Phrase::new(Node::Group(single))));
    }
    Phrase::choice(parts)
}

/// A hidden variable: one of the values, earlier ones a little more often, and the phrase that it makes.
pub(super) fn one_of<T>(values: &[T], phrase: impl Fn(&T) -> Phrase) -> Phrase {
    let weight = |rank: usize| 1.0 / (rank as f64 + 10.0);
    Phrase::choice(values.iter().enumerate().map(|(rank, value)| (weight(rank), phrase(value))).collect())
}
