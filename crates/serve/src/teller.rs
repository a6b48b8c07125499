//! A predictor that answers jobs, one after the other.
//!
//! Every sequence begins with nothing read, and so does each of its continuations: an empty cache, the trained weights, no
//! state. What one request teaches never reaches another.
//!
//! The numbers are those of the command line: log-probabilities those of `bowline score`, which reads a text line by line,
//! and distributions those of `bowline next`, which reads a phrase at once.

use crate::engine::{Part, Sequence, Waiting};
use crate::metrics::ModelMetrics;
use bowline::predictor::{Predictor, Telling};
use bowline::score::{Reading, likeliest};
use std::sync::atomic::Ordering;

/// Words whose distributions are computed at a time.
const BLOCK: usize = 20;

/// A worker's predictor for a model.
pub struct Teller {
    /// What predicts.
    pub predictor: Box<dyn Predictor>,
    /// The id of `<eos>`.
    pub eos: u32,
    /// The id of `<unk>`.
    pub unk: Option<u32>,
}

impl Teller {
    /// Answers a job from beginning to end, or until nobody wants to hear it any more.
    pub fn answer(&mut self, waiting: &Waiting, metrics: &ModelMetrics) {
        for (number, sequence) in waiting.job.sequences.iter().enumerate() {
            let Some(reading) = self.read(sequence, &|| waiting.given_up()) else { return };
            metrics.batches.fetch_add(1, Ordering::Relaxed);
            metrics.scored.fetch_add(reading.logprobs.len() as u64, Ordering::Relaxed);
            if !waiting.say(Part::Read(number, reading)) {
                return;
            }
        }
        for (number, sequence) in waiting.job.sequences.iter().enumerate() {
            for (draw, how) in sequence.draws.iter().enumerate() {
                let chance = (how.sampling, how.seed, how.sample);
                let predictor = self.predictor.as_mut();
                let telling = Telling::until(predictor, &sequence.inputs, self.unk, chance, &|| waiting.given_up());
                let Some(mut telling) = telling else { return };
                for _ in 0..how.words {
                    let word = telling.next(how.top);
                    let end = word.id == self.eos;
                    metrics.batches.fetch_add(1, Ordering::Relaxed);
                    metrics.generated.fetch_add(1, Ordering::Relaxed);
                    if !waiting.say(Part::Word(number, draw, word)) || waiting.given_up() {
                        return;
                    }
                    if end {
                        break;
                    }
                }
            }
        }
    }

    /// The log-probability of each word but the first, and the likeliest words in its place, as far as they are wanted.
    /// `None` if it was stopped.
    fn read(&mut self, sequence: &Sequence, stop: &dyn Fn() -> bool) -> Option<Reading> {
        let mut reading = Reading::default();
        if !sequence.score {
            return Some(reading);
        }
        let ids = &sequence.inputs;
        self.predictor.reset();
        let mut from = 0;
        while from + 1 < ids.len() {
            // Up to the end of the line, which the next one begins with.
            let to = (from + 1..ids.len() - 1).find(|&at| ids[at] == self.eos).unwrap_or(ids.len() - 1);
            let line = self.predictor.target_probabilities(&ids[from..=to], stop)?;
            reading.logprobs.extend(line.iter().map(|p| p.ln()));
            from = to;
        }
        if sequence.top > 0 {
            let vocab = self.predictor.vocab();
            let mut distributions = vec![0.0; BLOCK * vocab];
            self.predictor.reset();
            for words in ids[..ids.len() - 1].chunks(BLOCK) {
                if stop() {
                    return None;
                }
                let out = &mut distributions[..words.len() * vocab];
                self.predictor.distributions(words, out);
                reading.likeliest.extend(out.chunks_exact(vocab).map(|y| likeliest(y, sequence.top)));
            }
        }
        Some(reading)
    }
}
