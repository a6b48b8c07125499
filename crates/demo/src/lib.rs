//! The built-in corpus: everyday English from a small probabilistic grammar, and the truth about it.
//!
//! The *grammar* (in `sentences`, with its word lists) says with which probability each sentence is said; sentences
//! are independent of each other. Words come in groups of meaning, and the groups choose each other: one eats food,
//! drives vehicles and wears clothes; a trade has its tools, its places and its works; a month has its weather. Some
//! of it must be remembered over many words: the number and gender of the subject, the tense a time sets, the second
//! half of "either ... or", the question mark a question ends in. Within a group words are distributed as by Zipf's
//! law, so there are rare words.
//!
//! The grammar is compiled to a finite automaton (in `automaton`). From it sentences are drawn ([`splits`]), and from
//! it the exact distribution of the next word after any beginning is computed ([`Truth`]), and with that the least
//! perplexity any model can have and the divergence of a model from the truth ([`Yardstick`], [`Floor`]).
#![forbid(unsafe_code)]

mod automaton;
mod draw;
mod error;
mod inflection;
mod phrase;
mod sentences;
#[cfg(test)]
mod tests;
mod trades;
mod truth;
mod voice;
mod words;
mod yardstick;

pub use error::NotOfThisGrammar;
pub use truth::{Beliefs, Truth};
pub use yardstick::{Floor, Yardstick};

/// The seed of the corpus that is meant when no seed is named. With it every word of the grammar occurs in train.
pub const DEFAULT_SEED: u64 = 1;

/// Words of the training split, at least, each line's `<eos>` counted; it ends with the sentence that reaches this.
pub const TRAIN_TOKENS: usize = 150_000;

/// Words of the valid and of the test split, likewise.
pub const HELD_OUT_TOKENS: usize = 15_000;

/// The three texts of the corpus: one sentence a line, words separated by single spaces, without `<eos>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    /// The text to learn from.
    pub train: String,
    /// The text to choose by.
    pub valid: String,
    /// The text to report on.
    pub test: String,
}

/// The corpus of a seed: the same bytes on every platform.
pub fn splits(seed: u64) -> Splits {
    Truth::new().splits(seed)
}

impl Truth {
    /// Like [`splits`], for those who have the grammar at hand.
    pub fn splits(&self, seed: u64) -> Splits {
        let text = |stream, tokens| draw::text(&self.automaton, &mut draw::Stream::new(seed, stream), tokens);
        Splits { train: text(1, TRAIN_TOKENS), valid: text(2, HELD_OUT_TOKENS), test: text(3, HELD_OUT_TOKENS) }
    }
}
