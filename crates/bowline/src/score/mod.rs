//! Sentences: how likely are they, and how do they continue?
//!
//! A *sentence* is a line of text. It is read as in training: an `<eos>` comes before its first word,
//! and the `<eos>` after its last word is predicted like a word. What the network knows after some words is a *memory*;
//! a sentence starts from the empty one, or from that of another sentence. A *passage* is some words to read after a memory,
//! with questions about what comes next. The [`Reader`] reads many passages side by side; scoring
//! ([`Reader::score`]) and generating ([`Reader::tell`]) are made of that.
//!
//! Invariant: what is said about a passage does not depend, in any bit, on the passages it was read together with, on
//! their order, on how many there are, or on the number of threads.

mod continuation;
mod lines;
mod map;
mod memory;
pub mod nbest;
mod neighbours;
mod one_by_one;
pub mod pairs;
mod reader;
pub mod rescore;
mod sampling;
mod sentence;
mod side_by_side;
mod surprisal;

pub use continuation::Continuation;
pub use lines::Lines;
pub use map::{Place, word_map};
pub use memory::Memory;
pub use neighbours::{Neighbour, neighbours, similar_spelling};
pub use reader::{Passage, Reader, Reading};
pub use sampling::{Sampler, Sampling, Word, likeliest};
pub use sentence::{Scored, Sentence};
pub use surprisal::{Outlook, Surprisal};

#[cfg(test)]
mod tests;
