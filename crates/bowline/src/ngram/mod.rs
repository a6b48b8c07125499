//! N-gram models: the next word from the few words before it.
//!
//! An *n-gram* is a sequence of `n` words; its last word is the one that is predicted, those before it are the *context*.
//! The *order* of a model is the length of its longest n-grams. A model in *back-off form* has a probability for every
//! n-gram it keeps, and for every context a *back-off weight* `b`: a word that never followed the context has
//!
//! ```text
//! p(w | w1 .. wk) = b(w1 .. wk) p(w | w2 .. wk)        (b = 1 for a context the model does not have)
//! ```
//!
//! [`NgramModel`] is a model of that form. [`NgramModel::train`] estimates one from a text by interpolated modified
//! Kneser-Ney smoothing, [`arpa::read`] reads one from the ARPA file of another tool, and [`NgramModel::interpolate`] makes
//! one of several. A model with interpolated smoothing has this form too: its n-grams are already interpolated.
//!
//! *Sentences.* Every sentence is predicted by itself: its first word from a context that is only the beginning of a
//! sentence, its end (`<eos>`) like any word. The beginning has no id of its own: as a context `<eos>` is the beginning of
//! a sentence (`<s>` in ARPA files), as a predicted word the end of one (`</s>`). It never occurs inside an n-gram.
//! The vocabulary is closed: `<unk>`, if the model has it, is a word like the others.

pub mod arpa;
mod counts;
mod interpolate;
mod kneser_ney;
mod model;
pub(crate) mod tensors;
#[cfg(test)]
pub(crate) mod tests;

pub use kneser_ney::{Discounts, FALLBACK, check_thresholds};
pub use model::{MAX_ORDER, NgramModel, NgramState};
