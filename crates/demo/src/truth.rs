//! The grammar as a language model: the exact distribution of the next word.
//!
//! A [`Beliefs`] is what a listener knows after the words so far: the probability of standing at each node of the
//! automaton. Hearing a word is one step of the forward recursion: every edge with that word carries its node's
//! probability on, and the result is divided by its sum, which is the probability the word had. Nothing is sampled and
//! nothing is estimated; the numbers are exact up to the rounding of `f64`.

use std::collections::HashMap;

use super::automaton::{Automaton, EOS, Edge};
use super::phrase::Phrase;
use super::sentences;

/// The true language model of the built-in corpus.
pub struct Truth {
    pub(super) automaton: Automaton,
    index: HashMap<String, usize>,
}

/// What the words so far say about where the speaker stands. After `<eos>` this is [`Truth::start`] again.
#[derive(Clone, Debug, PartialEq)]
pub struct Beliefs {
    /// (node, probability), ordered by node, summing to one.
    nodes: Vec<(u32, f64)>,
}

impl Truth {
    /// Compiles the grammar. This takes most of a second: make one and keep it.
    pub fn new() -> Truth {
        Truth::of(&sentences::sentence())
    }

    /// The true model of any grammar, given as the phrase of a whole sentence.
    pub(super) fn of(sentence: &Phrase) -> Truth {
        let automaton = Automaton::new(sentence);
        let index = automaton.words.iter().cloned().enumerate().map(|(index, word)| (word, index)).collect();
        Truth { automaton, index }
    }

    /// Every word the grammar can say, and `<eos>`, which has index 0.
    pub fn words(&self) -> &[String] {
        &self.automaton.words
    }

    /// The index of a word in [`Truth::words`].
    pub fn word_index(&self, word: &str) -> Option<usize> {
        self.index.get(word).copied()
    }

    /// The index of `<eos>`.
    pub fn eos(&self) -> usize {
        debug_assert_eq!(self.automaton.words[0], EOS);
        0
    }

    /// The beginning of a sentence.
    pub fn start(&self) -> Beliefs {
        Beliefs { nodes: vec![(Automaton::START, 1.0)] }
    }

    /// The words that may come next with their exact probabilities, ordered by index; the others have probability 0.
    pub fn distribution(&self, state: &Beliefs) -> Vec<(usize, f64)> {
        let mut dense = vec![0.0; self.automaton.words.len()];
        for &(node, weight) in &state.nodes {
            for edge in self.automaton.edges(node) {
                dense[edge.word as usize] += weight * edge.probability;
            }
        }
        dense.into_iter().enumerate().filter(|&(_, probability)| probability > 0.0).collect()
    }

    /// The state after one more word; `None` if the grammar cannot say it here.
    pub fn advance(&self, state: &Beliefs, word: usize) -> Option<Beliefs> {
        self.follow(state, |edges| {
            // Edges are ordered by word.
            let first = edges.partition_point(|edge| (edge.word as usize) < word);
            let alike = edges[first..].iter().take_while(|edge| edge.word as usize == word).count();
            edges[first..first + alike].iter()
        })
    }

    /// The state after one more word of which it is only known that `is_candidate` holds for it; `None` if the grammar
    /// can say no such word here.
    pub fn advance_any(&self, state: &Beliefs, is_candidate: impl Fn(usize) -> bool) -> Option<Beliefs> {
        self.follow(state, |edges| edges.iter().filter(|edge| is_candidate(edge.word as usize)))
    }

    /// One step of the recursion, along the edges that are taken from those of each node.
    fn follow<'a, Edges>(&'a self, state: &Beliefs, taken: impl Fn(&'a [Edge]) -> Edges) -> Option<Beliefs>
    where
        Edges: Iterator<Item = &'a Edge>,
    {
        let mut nodes: Vec<(u32, f64)> = Vec::new();
        for &(node, weight) in &state.nodes {
            nodes.extend(taken(self.automaton.edges(node)).map(|edge| (edge.next, weight * edge.probability)));
        }
        nodes.sort_by_key(|&(node, _)| node);
        nodes.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
        let total: f64 = nodes.iter().map(|(_, weight)| weight).sum();
        nodes.iter_mut().for_each(|(_, weight)| *weight /= total);
        (!nodes.is_empty()).then_some(Beliefs { nodes })
    }

    /// The exact entropy of the next word, in nats.
    pub fn entropy(&self, state: &Beliefs) -> f64 {
        entropy(&self.distribution(state))
    }
}

impl Default for Truth {
    fn default() -> Truth {
        Truth::new()
    }
}

/// The entropy of a distribution given by its positive probabilities, in nats.
pub(super) fn entropy<Word>(distribution: &[(Word, f64)]) -> f64 {
    -distribution.iter().map(|&(_, probability)| probability * probability.ln()).sum::<f64>()
}
