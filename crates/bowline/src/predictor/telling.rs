//! A text that a predictor continues word by word.

use super::Predictor;
use crate::score::{Sampler, Sampling, Word};

/// A predictor that makes up how a text goes on: each word is drawn from its distribution and then read, so that what
/// remembers or learns does so from these words, too.
pub struct Telling<'a> {
    predictor: &'a mut dyn Predictor,
    sampler: Sampler,
    unk: Option<u32>,
    /// The last drawn word, which is read when another one is wanted.
    unread: Option<u32>,
    distribution: Vec<f32>,
}

impl<'a> Telling<'a> {
    /// Has the predictor forget everything and read `text`, whose first word is usually the `<eos>` before a sentence.
    /// `unk` is the id of `<unk>`; different `sample` numbers give different texts with the same seed.
    pub fn new(
        predictor: &'a mut dyn Predictor,
        text: &[u32],
        unk: Option<u32>,
        (sampling, seed, sample): (Sampling, u64, u64),
    ) -> Telling<'a> {
        predictor.reset();
        predictor.observe(text);
        Telling::at(predictor, unk, Sampler::new(sampling, seed, sample))
    }

    /// The same, given up in the middle of the text as soon as `stop` says so.
    pub fn until(
        predictor: &'a mut dyn Predictor,
        text: &[u32],
        unk: Option<u32>,
        (sampling, seed, sample): (Sampling, u64, u64),
        stop: &dyn Fn() -> bool,
    ) -> Option<Telling<'a>> {
        predictor.reset();
        let read = predictor.observe_until(text, stop);
        read.then(|| Telling::at(predictor, unk, Sampler::new(sampling, seed, sample)))
    }

    /// From what the predictor has read on.
    fn at(predictor: &'a mut dyn Predictor, unk: Option<u32>, sampler: Sampler) -> Telling<'a> {
        let distribution = vec![0.0; predictor.vocab()];
        Telling { predictor, sampler, unk, unread: None, distribution }
    }

    /// Draws the next word; `top` asks for the likeliest words besides.
    pub fn next(&mut self, top: usize) -> Word {
        if let Some(word) = self.unread.take() {
            self.predictor.observe(&[word]);
        }
        self.predictor.distribution(&mut self.distribution);
        let word = self.sampler.draw(&self.distribution, self.unk, top);
        self.unread = Some(word.id);
        word
    }
}
