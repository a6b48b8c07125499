//! A text that goes on word by word.

use super::sampling::chance;
use super::{Memory, Passage, Reader, Sampling};
use crate::rng::{Purpose, Stream};

/// A text and how it goes on. Its words follow from the text before, the sampling and the seed, and from nothing else.
#[derive(Clone, Debug)]
pub struct Continuation {
    memory: Memory,
    /// Words of the text that the memory does not hold yet.
    unread: Vec<u32>,
    sampling: Sampling,
    stream: Stream,
    drawn: u32,
}

/// A word that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// Its id.
    pub id: u32,
    /// The natural logarithm of its probability as the model says it, before temperature and the rest.
    pub logprob: f64,
    /// The likeliest words and their `log y`, likeliest first, if any were asked for.
    pub likeliest: Vec<(u32, f64)>,
}

impl Continuation {
    /// After `prompt`, the beginning of a sentence at the beginning of a text. Different `sample` numbers give different
    /// continuations with the same seed.
    pub fn new(reader: &Reader, prompt: &[u32], sampling: Sampling, seed: u64, sample: u64) -> Continuation {
        let unread = std::iter::once(reader.model().vocabulary.eos()).chain(prompt.iter().copied()).collect();
        let stream = Stream::new(seed, Purpose::Samples, sample);
        Continuation { memory: reader.start(), unread, sampling, stream, drawn: 0 }
    }

    /// Adds words that are given, not drawn.
    pub fn push(&mut self, words: &[u32]) {
        self.unread.extend(words);
    }
}

impl Reader {
    /// Brings the memories of some texts up to their ends.
    fn catch_up(&mut self, continuations: &mut [&mut Continuation]) {
        let passages: Vec<_> = continuations
            .iter()
            .map(|c| Passage { from: Some(&c.memory), inputs: &c.unread, keep: true, ..Passage::default() })
            .collect();
        let readings = self.read(&passages);
        for (continuation, reading) in continuations.iter_mut().zip(readings) {
            if let Some(memory) = reading.memory {
                continuation.memory = memory;
            }
            continuation.unread.clear();
        }
    }

    /// The distribution of the next word of each text, (n, V).
    pub fn next_distributions(&mut self, continuations: &mut [&mut Continuation]) -> Vec<f32> {
        self.catch_up(continuations);
        let memories: Vec<_> = continuations.iter().map(|c| &c.memory).collect();
        self.distributions(&memories)
    }

    /// Draws the next word of each text and adds it to the text; `top` asks for the likeliest words besides.
    pub fn extend(&mut self, continuations: &mut [&mut Continuation], top: usize) -> Vec<Word> {
        let (vocab, unk) = (self.model().vocabulary.len(), self.model().vocabulary.unk());
        let distributions = self.next_distributions(continuations);
        let draw = |(y, continuation): (&[f32], &mut &mut Continuation)| {
            let id = continuation.sampling.draw(y, unk, chance(&continuation.stream, continuation.drawn));
            continuation.drawn += 1;
            continuation.unread.push(id);
            let log = |id: u32| f64::from(y[id as usize]).ln();
            let mut likeliest: Vec<u32> = if top > 0 { (0..vocab as u32).collect() } else { Vec::new() };
            likeliest.sort_unstable_by(|&a, &b| y[b as usize].total_cmp(&y[a as usize]).then(a.cmp(&b)));
            let likeliest = likeliest.into_iter().take(top).map(|id| (id, log(id))).collect();
            Word { id, logprob: log(id), likeliest }
        };
        distributions.chunks_exact(vocab).zip(continuations).map(draw).collect()
    }
}
