//! A recency cache ([`crate::predictor::recency_cache`]) on top of another predictor.

use super::{Predictor, Snapshot, inside};
use crate::error::Result;
use crate::predictor::recency_cache::{RecencyCache, RecencySettings};
use std::sync::Arc;

/// A predictor with a recency cache.
pub struct Recency {
    inner: Box<dyn Predictor>,
    empty: RecencyCache,
    cache: RecencyCache,
}

impl Recency {
    /// Puts a cache on top of a predictor that has read nothing yet.
    pub fn new(inner: Box<dyn Predictor>, settings: RecencySettings, eos: u32) -> Result<Recency> {
        let empty = RecencyCache::new(settings, eos)?;
        Ok(Recency { inner, cache: empty.clone(), empty })
    }
}

impl Predictor for Recency {
    fn vocab(&self) -> usize {
        self.inner.vocab()
    }

    fn reset(&mut self) {
        self.inner.reset();
        self.cache = self.empty.clone();
    }

    fn observe(&mut self, words: &[u32]) {
        self.inner.observe(words);
        words.iter().for_each(|&word| self.cache.update(word));
    }

    fn observe_until(&mut self, words: &[u32], stop: &dyn Fn() -> bool) -> bool {
        words.iter().for_each(|&word| self.cache.update(word));
        self.inner.observe_until(words, stop)
    }

    fn snapshot(&mut self) -> Snapshot {
        Arc::new((self.inner.snapshot(), self.cache.clone()))
    }

    fn restore(&mut self, snapshot: &Snapshot) {
        let (inner, cache): &(Snapshot, RecencyCache) = inside(snapshot);
        self.inner.restore(inner);
        self.cache.clone_from(cache);
    }

    fn distribution(&mut self, out: &mut [f32]) {
        self.inner.distribution(out);
        self.cache.mix(out);
    }

    fn target_probabilities(&mut self, ids: &[u32], stop: &dyn Fn() -> bool) -> Option<Vec<f64>> {
        let mut p = self.inner.target_probabilities(ids, stop)?;
        for (pair, p) in ids.windows(2).zip(&mut p) {
            self.cache.update(pair[0]);
            *p = self.cache.probability(*p, pair[1]);
        }
        Some(p)
    }
}
