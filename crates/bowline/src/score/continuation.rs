//! A text that goes on word by word.

use super::reader::{Passage, Read};
use super::{Memory, Sampler, Sampling, Word};
use crate::corpus::Stranger;

/// A text and how it goes on. Its words follow from the text before, the sampling and the seed, and from nothing else.
#[derive(Clone, Debug)]
pub struct Continuation {
    pub(super) memory: Memory,
    /// Words of the text that the memory does not hold yet.
    pub(super) unread: Vec<u32>,
    /// Those of them that the vocabulary lacks.
    pub(super) strangers: Vec<Stranger>,
    pub(super) sampler: Sampler,
}

impl Continuation {
    /// After a text that is not read yet, and that begins with the `<eos>` before its first sentence. Different `sample`
    /// numbers give different continuations with the same seed.
    pub fn new(text: Vec<u32>, sampling: Sampling, seed: u64, sample: u64) -> Continuation {
        let sampler = Sampler::new(sampling, seed, sample);
        Continuation { memory: Memory::default(), unread: text, strangers: Vec::new(), sampler }
    }

    /// The same where some words of the text are not in the vocabulary.
    pub fn with_strangers(self, strangers: Vec<Stranger>) -> Continuation {
        Continuation { strangers, ..self }
    }

    /// After a text that was read already.
    pub fn after(memory: Memory, sampling: Sampling, seed: u64, sample: u64) -> Continuation {
        Continuation { memory, ..Continuation::new(Vec::new(), sampling, seed, sample) }
    }

    /// Adds words that are given, not drawn.
    pub fn push(&mut self, words: &[u32]) {
        self.unread.extend(words);
    }
}

/// Draws the next word of each text and adds it to the text.
pub(super) fn extend(
    reader: &mut dyn Read,
    texts: &mut [&mut Continuation],
    unk: Option<u32>,
    top: usize,
) -> Vec<Word> {
    let passages: Vec<_> = texts
        .iter()
        .map(|c| {
            let (from, inputs, strangers) = (Some(&c.memory), &c.unread[..], &c.strangers[..]);
            Passage { from, inputs, strangers, keep: true, ..Passage::default() }
        })
        .collect();
    let readings = reader.read(&passages, &|| false).unwrap_or_default();
    for (text, reading) in texts.iter_mut().zip(readings) {
        if let Some(memory) = reading.memory {
            text.memory = memory;
        }
        text.unread.clear();
        text.strangers.clear();
    }
    let memories: Vec<_> = texts.iter().map(|text| &text.memory).collect();
    let distributions = reader.distributions(&memories);
    let vocab = distributions.len() / texts.len().max(1);
    let draw = |(y, text): (&[f32], &mut &mut Continuation)| {
        let word = text.sampler.draw(y, unk, top);
        text.unread.push(word.id);
        word
    };
    distributions.chunks_exact(vocab.max(1)).zip(texts).map(draw).collect()
}
