//! Passages read one after the other, by any predictor.
//!
//! A text is read line by line, so that its numbers are the same whether its lines come at once or one at a time.

use super::memory::Past;
use super::reader::{Passage, Read, Reading};
use super::{Continuation, Memory, Word, likeliest};
use crate::predictor::{Predictor, Snapshot};
use crate::vocabulary::Vocabulary;
use std::sync::Arc;

/// Words whose distributions are computed at a time.
const BLOCK: usize = 20;

/// A predictor that reads.
pub(super) struct OneByOne {
    predictor: Box<dyn Predictor>,
    eos: u32,
    unk: Option<u32>,
    /// The memory that the predictor is in right now, if it is one that was given out.
    at: Option<Snapshot>,
}

impl OneByOne {
    pub(super) fn new(predictor: Box<dyn Predictor>, vocabulary: &Vocabulary) -> OneByOne {
        OneByOne { predictor, eos: vocabulary.eos(), unk: vocabulary.unk(), at: None }
    }

    /// Goes back to a memory, or to where nothing was read.
    fn go_to(&mut self, memory: Option<&Memory>) {
        let at = self.at.take();
        match memory.map(|memory| &memory.0) {
            Some(Past::Snapshot(snapshot)) if at.is_some_and(|at| Arc::ptr_eq(&at, snapshot)) => {}
            Some(Past::Snapshot(snapshot)) => self.predictor.restore(snapshot),
            _ => self.predictor.reset(),
        }
    }

    fn memory(&mut self) -> Memory {
        let snapshot = self.predictor.snapshot();
        self.at = Some(Arc::clone(&snapshot));
        Memory(Past::Snapshot(snapshot))
    }

    /// The log-probability of each target while the inputs are read.
    fn logprobs(&mut self, passage: &Passage<'_>, stop: &dyn Fn() -> bool) -> Option<Vec<f64>> {
        let (inputs, targets) = (passage.inputs, passage.targets);
        let text: Vec<u32> = inputs.iter().chain(targets.last()).copied().collect();
        debug_assert_eq!(text[1..], *targets);
        let (mut logprobs, mut from) = (Vec::with_capacity(targets.len()), 0);
        while from + 1 < text.len() {
            // Up to the end of the line, which the next one begins with.
            let to = (from + 1..text.len() - 1).find(|&at| text[at] == self.eos).unwrap_or(text.len() - 1);
            let line = self.predictor.target_probabilities(&text[from..=to], stop)?;
            logprobs.extend(line.iter().map(|p| p.ln()));
            from = to;
        }
        Some(logprobs)
    }

    /// The likeliest words after each of some words that are read.
    fn likeliest(&mut self, words: &[u32], top: usize, stop: &dyn Fn() -> bool) -> Option<Vec<Vec<(u32, f64)>>> {
        let vocab = self.predictor.vocab();
        let (mut all, mut distributions) = (Vec::new(), vec![0.0; BLOCK * vocab]);
        for words in words.chunks(BLOCK) {
            if stop() {
                return None;
            }
            let out = &mut distributions[..words.len() * vocab];
            self.predictor.distributions(words, out);
            all.extend(out.chunks_exact(vocab).map(|y| likeliest(y, top)));
        }
        Some(all)
    }

    fn distribution(&mut self) -> Vec<f32> {
        let mut out = vec![0.0; self.predictor.vocab()];
        self.predictor.distribution(&mut out);
        out
    }
}

impl Read for OneByOne {
    fn read(&mut self, passages: &[Passage<'_>], stop: &dyn Fn() -> bool) -> Option<Vec<Reading>> {
        let mut readings = Vec::with_capacity(passages.len());
        for passage in passages {
            let mut reading = Reading::default();
            if !passage.targets.is_empty() && passage.top > 0 {
                self.go_to(passage.from);
                reading.likeliest = self.likeliest(passage.inputs, passage.top, stop)?;
            }
            if !passage.targets.is_empty() {
                self.go_to(passage.from);
                reading.logprobs = self.logprobs(passage, stop)?;
            } else if passage.keep {
                self.go_to(passage.from);
                if !self.predictor.observe_until(passage.inputs, stop) {
                    return None;
                }
            }
            reading.memory = passage.keep.then(|| self.memory());
            readings.push(reading);
        }
        Some(readings)
    }

    fn distributions(&mut self, memories: &[&Memory]) -> Vec<f32> {
        let mut all = Vec::with_capacity(memories.len() * self.predictor.vocab());
        for memory in memories {
            self.go_to(Some(memory));
            all.extend(self.distribution());
        }
        all
    }

    /// What remembers or learns does so from the drawn words, too.
    fn tell(&mut self, texts: Vec<Continuation>, words: usize, top: usize, take: &mut dyn FnMut(usize, Word) -> bool) {
        for (number, Continuation { memory, mut unread, mut sampler, .. }) in texts.into_iter().enumerate() {
            self.go_to(Some(&memory));
            for _ in 0..words {
                self.predictor.observe(&unread);
                let word = sampler.draw(&self.distribution(), self.unk, top);
                unread = vec![word.id];
                if !take(number, word) {
                    break;
                }
            }
        }
    }
}
