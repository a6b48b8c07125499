//! Choosing a word from a distribution.

use crate::rng::{Purpose, Stream};

/// How a word is drawn. The steps come in this order: `<unk>` is left out unless allowed, the temperature sharpens or
/// flattens what is left, `top_k` and then `top_p` leave only the likeliest, and chance picks one by its share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Probabilities are raised to the power `1 / temperature`; at 0 the likeliest word is taken.
    pub temperature: f64,
    /// Only so many of the likeliest words; 0 for all.
    pub top_k: usize,
    /// Only the likeliest words that together have this probability; 1 for all.
    pub top_p: f64,
    /// Whether `<unk>` may be drawn.
    pub unk: bool,
}

impl Default for Sampling {
    /// Words as likely as the model says, but for `<unk>`.
    fn default() -> Sampling {
        Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, unk: false }
    }
}

impl Sampling {
    /// The word that `chance`, from 0 up to but not including 1, picks from `distribution`; `unk` is the id of `<unk>`.
    pub fn draw(&self, distribution: &[f32], unk: Option<u32>, chance: f64) -> u32 {
        let left_out = unk.filter(|_| !self.unk);
        let mut words: Vec<u32> = (0..distribution.len() as u32).filter(|&id| Some(id) != left_out).collect();
        let likelier =
            |&a: &u32, &b: &u32| distribution[b as usize].total_cmp(&distribution[a as usize]).then(a.cmp(&b));
        let Some(likeliest) = words.iter().copied().min_by(likelier) else { return 0 };
        if self.temperature <= 0.0 || self.top_k == 1 {
            return likeliest;
        }
        if self.top_k > 0 && self.top_k < words.len() {
            words.select_nth_unstable_by(self.top_k - 1, likelier);
            words.truncate(self.top_k);
        }
        if self.top_p < 1.0 || self.top_k > 0 {
            words.sort_unstable_by(likelier);
        }
        // Relative to the likeliest, so that no temperature leaves nothing.
        let most = f64::from(distribution[likeliest as usize]).ln();
        let weight = |id: u32| ((f64::from(distribution[id as usize]).ln() - most) / self.temperature).exp();
        let weights: Vec<f64> = words.iter().map(|&id| weight(id)).collect();
        let mut total: f64 = weights.iter().sum();
        if self.top_p < 1.0 {
            let enough = self.top_p * total;
            let mut sum = 0.0;
            let kept = weights.iter().take_while(|&&weight| {
                let wanted = sum < enough;
                sum += if wanted { weight } else { 0.0 };
                wanted
            });
            words.truncate(kept.count().max(1));
            total = sum;
        }
        let mut left = chance * total;
        for (&id, weight) in words.iter().zip(weights) {
            left -= weight;
            if left < 0.0 {
                return id;
            }
        }
        // Only rounding leads here; a word that cannot be is not the answer.
        words.into_iter().rev().find(|&id| distribution[id as usize] > 0.0).unwrap_or(likeliest)
    }
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

/// Draws the words of one text, one after the other. What it draws follows from the distributions, the sampling, the seed
/// and the number of the sample alone.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    stream: Stream,
    drawn: u32,
}

impl Sampler {
    /// Different `sample` numbers give different texts with the same seed.
    pub fn new(sampling: Sampling, seed: u64, sample: u64) -> Sampler {
        Sampler { sampling, stream: Stream::new(seed, Purpose::Samples, sample), drawn: 0 }
    }

    /// Draws the next word from its distribution; `unk` is the id of `<unk>`, `top` asks for the likeliest words besides.
    pub fn draw(&mut self, distribution: &[f32], unk: Option<u32>, top: usize) -> Word {
        let id = self.sampling.draw(distribution, unk, chance(&self.stream, self.drawn));
        self.drawn += 1;
        Word { id, logprob: f64::from(distribution[id as usize]).ln(), likeliest: likeliest(distribution, top) }
    }
}

/// The `top` likeliest words of a distribution with the logarithms of their probabilities, likeliest first (of equals, the
/// one with the smaller id).
pub fn likeliest(distribution: &[f32], top: usize) -> Vec<(u32, f64)> {
    let mut words: Vec<u32> = if top > 0 { (0..distribution.len() as u32).collect() } else { Vec::new() };
    words.sort_unstable_by(|&a, &b| distribution[b as usize].total_cmp(&distribution[a as usize]).then(a.cmp(&b)));
    words.into_iter().take(top).map(|id| (id, f64::from(distribution[id as usize]).ln())).collect()
}

/// The `index`-th number of a stream, from 0 up to but not including 1, of 53 bits.
fn chance(stream: &Stream, index: u32) -> f64 {
    let [a, b, ..] = stream.block(index);
    ((u64::from(a) << 32 | u64::from(b)) >> 11) as f64 / (1u64 << 53) as f64
}
