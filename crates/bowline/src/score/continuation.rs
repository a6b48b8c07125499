//! A text that goes on word by word.

use super::{Memory, Passage, Reader, Sampler, Sampling, Word};

/// A text and how it goes on. Its words follow from the text before, the sampling and the seed, and from nothing else.
#[derive(Clone, Debug)]
pub struct Continuation {
    memory: Memory,
    /// Words of the text that the memory does not hold yet.
    unread: Vec<u32>,
    sampler: Sampler,
}

impl Continuation {
    /// After `prompt`, the beginning of a sentence at the beginning of a text. Different `sample` numbers give different
    /// continuations with the same seed.
    pub fn new(reader: &Reader, prompt: &[u32], sampling: Sampling, seed: u64, sample: u64) -> Continuation {
        let unread = std::iter::once(reader.model().vocabulary.eos()).chain(prompt.iter().copied()).collect();
        Continuation { memory: reader.start(), unread, sampler: Sampler::new(sampling, seed, sample) }
    }

    /// After a text that was read already.
    pub fn after(memory: Memory, sampling: Sampling, seed: u64, sample: u64) -> Continuation {
        Continuation { memory, unread: Vec::new(), sampler: Sampler::new(sampling, seed, sample) }
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
            let word = continuation.sampler.draw(y, unk, top);
            continuation.unread.push(word.id);
            word
        };
        distributions.chunks_exact(vocab).zip(continuations).map(draw).collect()
    }
}
