//! Finding a cache's settings on the validation split.
//!
//! What the cache knows about each word ([`Evidence`]) depends on the window and the horizon alone, and is found in one
//! pass. For a strength, the weight with the smallest perplexity is then found by expectation maximisation: it is the mean
//! posterior probability that a word came from the cache. So the search is coarse over windows, horizons and strengths, and
//! fine around the best of them.

use super::{Evidence, RecencyCache, RecencySettings};
use crate::error::Result;

/// The best settings found, and how good they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuned {
    /// The settings.
    pub settings: RecencySettings,
    /// Perplexity with them, on the text they were tuned on.
    pub perplexity: f64,
}

const WINDOWS: [usize; 3] = [500, 2000, 8000];
const HORIZONS: [f64; 4] = [100.0, 300.0, 1000.0, 0.0];
const STRENGTHS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// The second, finer round goes by this factor.
const FINE: f64 = std::f64::consts::SQRT_2;

/// Finds the settings that predict a text best; `model` is `-log p` of every word of `ids` after the first.
pub fn tune(eos: u32, ids: &[u32], model: &[f64]) -> Result<Tuned> {
    let model: Vec<f64> = model.iter().map(|&nll| (-nll).exp()).collect();
    let mut best = Tuned { settings: RecencySettings::default(), perplexity: f64::INFINITY };
    for window in WINDOWS {
        for horizon in HORIZONS {
            // A horizon far beyond the window is none.
            if horizon < 2.0 * window as f64 {
                try_all(&mut best, eos, ids, &model, window, horizon, &STRENGTHS)?;
            }
        }
    }
    let RecencySettings { window, horizon, strength, .. } = best.settings;
    for factor in [1.0 / FINE, 1.0, FINE] {
        // Round numbers: the text cannot tell them from their neighbours.
        let strengths = [1.0 / FINE, 1.0, FINE].map(|factor| (100.0 * strength * factor).round() / 100.0);
        try_all(&mut best, eos, ids, &model, window, (horizon * factor).round(), &strengths)?;
    }
    Ok(best)
}

fn try_all(
    best: &mut Tuned,
    eos: u32,
    ids: &[u32],
    model: &[f64],
    window: usize,
    horizon: f64,
    strengths: &[f64],
) -> Result<()> {
    let settings = RecencySettings { window, horizon, ..RecencySettings::default() };
    let mut cache = RecencyCache::new(settings, eos)?;
    let mut evidence: Vec<Evidence> = Vec::with_capacity(model.len());
    for (at, &word) in ids.iter().enumerate() {
        if at > 0 {
            evidence.push(cache.evidence(word));
        }
        cache.update(word);
    }
    for &strength in strengths {
        // The cache has seen the first word, so it is never empty here.
        let cache: Vec<f64> = evidence.iter().map(|e| e.probability(strength).unwrap_or(0.0)).collect();
        let (weight, perplexity) = best_weight(model, &cache);
        if perplexity < best.perplexity {
            *best = Tuned { settings: RecencySettings { weight, strength, ..settings }, perplexity };
        }
    }
    Ok(())
}

/// The weight of the second of two predictors that gives the smallest perplexity, and that perplexity.
fn best_weight(model: &[f64], cache: &[f64]) -> (f64, f64) {
    const ROUNDS: usize = 30;
    let words = model.len().max(1) as f64;
    let mut weight = 0.15;
    for _ in 0..ROUNDS {
        let posterior =
            |(&m, &c): (&f64, &f64)| if c > 0.0 { weight * c / ((1.0 - weight) * m + weight * c) } else { 0.0 };
        let next = model.iter().zip(cache).map(posterior).sum::<f64>() / words;
        let change = (next - weight).abs();
        weight = next;
        if change < 1e-5 {
            break;
        }
    }
    // Four digits are all that the text can tell.
    let weight = (weight * 1e4).round() / 1e4;
    let nll = model.iter().zip(cache).map(|(&m, &c)| -((1.0 - weight) * m + weight * c).ln()).sum::<f64>();
    (weight, (nll / words).exp())
}
