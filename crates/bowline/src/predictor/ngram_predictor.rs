//! An n-gram model as a predictor. The first word that it reads counts as the first of a sentence.

use super::{Predictor, Snapshot, inside};
use crate::ngram::{NgramModel, NgramState};
use std::sync::Arc;

/// An n-gram model that predicts.
pub struct Ngram {
    model: Arc<NgramModel>,
    state: NgramState,
}

impl Ngram {
    /// A predictor that has read nothing yet.
    pub fn new(model: Arc<NgramModel>) -> Ngram {
        Ngram { state: model.start(), model }
    }
}

impl Predictor for Ngram {
    fn vocab(&self) -> usize {
        self.model.vocab()
    }

    fn reset(&mut self) {
        self.state = self.model.start();
    }

    fn observe(&mut self, words: &[u32]) {
        for &word in words {
            self.model.step(&mut self.state, word);
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        Arc::new(self.state)
    }

    fn restore(&mut self, snapshot: &Snapshot) {
        self.state = *inside(snapshot);
    }

    fn distribution(&mut self, out: &mut [f32]) {
        self.model.distribution_after(&self.state, out);
    }

    fn target_probabilities(&mut self, ids: &[u32], stop: &dyn Fn() -> bool) -> Option<Vec<f64>> {
        let mut out = Vec::with_capacity(ids.len());
        for (i, pair) in ids.windows(2).enumerate() {
            if i % 10_000 == 0 && stop() {
                return None;
            }
            self.observe(&pair[..1]);
            out.push(self.model.probability_after(&self.state, pair[1]));
        }
        Some(out)
    }
}
