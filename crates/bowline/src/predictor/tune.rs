//! Finding a network's settings on the validation text.
//!
//! A pass over the text with the network as trained gives the probabilities at all temperatures, and with all caches, at
//! once ([`Neural::streams`]); a cache's `lambda` is then a weight of a mixture of two ([`em`]). The settings of dynamic
//! evaluation need a pass each: they are found on the text's beginning, coarse to fine, within a bounded time.

use super::{
    CacheGrid, CacheSettings, DynamicForm, DynamicSettings, Neural, NeuralSettings, Source, Streams, em, short,
};
use crate::error::Result;
use std::time::{Duration, Instant};

/// What a search is told and says. `watch(what, share)` hears what is being done and the share of it that is done, and stops
/// the search by saying false.
pub struct Tuner<'a> {
    /// The network.
    pub source: &'a Source,
    /// The validation text.
    pub valid: &'a [u32],
    /// Time for the search of dynamic evaluation's settings.
    pub time: Duration,
    /// Who listens.
    pub watch: &'a mut dyn FnMut(&str, f64) -> bool,
}

/// Settings and the perplexity on the validation text, with the probabilities of its words.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The best settings.
    pub settings: T,
    /// The perplexity with them.
    pub perplexity: f64,
    /// The probability of each word.
    pub probabilities: Vec<f64>,
}

const TEMPERATURES: [f64; 8] = [0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.25];
const THETAS: [f64; 7] = [0.05, 0.1, 0.2, 0.3, 0.45, 0.7, 1.0];
const WINDOWS: [usize; 5] = [250, 500, 1000, 2000, 4000];
/// The smallest and the largest beginning of the text that dynamic evaluation's settings are tried on.
const SHORTEST: usize = 3_000;
const LONGEST: usize = 20_000;

/// A setting, made so many times larger.
type Change = fn(&mut DynamicSettings, f64);

/// `exp(mean -log p)`.
pub fn perplexity(probabilities: &[f64]) -> f64 {
    let sum: f64 = probabilities.iter().map(|p| p.ln()).sum();
    (-sum / probabilities.len().max(1) as f64).exp()
}

impl Tuner<'_> {
    /// The best temperature, and the best cache, of the network as trained (or, with `dynamic`, as it learns; then the
    /// temperature stays 1). `None` if it was stopped.
    #[allow(clippy::type_complexity)]
    pub fn one_pass(
        &mut self,
        dynamic: Option<DynamicSettings>,
    ) -> Result<Option<(Found<()>, Found<f64>, Found<CacheSettings>)>> {
        let what = if dynamic.is_some() { "cache on dynamic evaluation" } else { "temperature and cache" };
        let widest = CacheSettings { window: WINDOWS[WINDOWS.len() - 1], ..CacheSettings::default() };
        let settings = NeuralSettings { cache: Some(widest), dynamic, ..NeuralSettings::default() };
        let mut network = Neural::new(self.source, &settings)?;
        let temperatures = if dynamic.is_some() { &TEMPERATURES[3..4] } else { &TEMPERATURES[..] };
        let grid = CacheGrid { thetas: THETAS.to_vec(), windows: WINDOWS.to_vec() };
        let (total, watch) = (self.valid.len().max(1) as f64, &mut *self.watch);
        let pass = network.streams(self.valid, temperatures, &grid, &mut |at| watch(what, at as f64 / total));
        let Some(Streams { mut network, cache }) = pass else { return Ok(None) };

        let scores: Vec<f64> = network.iter().map(|p| perplexity(p)).collect();
        let best = smallest(&scores);
        let settings = peak(temperatures, &scores, best);
        let temperature = Found { settings, perplexity: scores[best], probabilities: network[best].clone() };
        let plain = network.swap_remove(temperatures.iter().position(|&t| t == 1.0).unwrap_or(0));
        let fits: Vec<_> = cache.iter().map(|cache| em(&[&plain, cache])).collect();
        let best = smallest(&fits.iter().map(|fit| fit.perplexity).collect::<Vec<_>>());
        let settings = CacheSettings {
            theta: THETAS[best / WINDOWS.len()],
            window: WINDOWS[best % WINDOWS.len()],
            lambda: digits(fits[best].weights[1]),
        };
        let probabilities = Streams::mixed(&plain, &cache[best], settings.lambda);
        let cache = Found { settings, perplexity: perplexity(&probabilities), probabilities };
        let plain = Found { settings: (), perplexity: perplexity(&plain), probabilities: plain };
        Ok(Some((plain, temperature, cache)))
    }

    /// The best settings of dynamic evaluation, starting from `start`: rate, decay, and for the RMS form epsilon. `None` if
    /// it was stopped.
    pub fn dynamic(&mut self, start: DynamicSettings) -> Result<Option<DynamicSettings>> {
        let began = Instant::now();
        let mut tried: Vec<(DynamicSettings, f64)> = Vec::new();
        // The first trial says how long a word takes, and so how many words fit.
        let mut words = SHORTEST.min(self.valid.len());
        let Some(_) = self.trial(start, words)? else { return Ok(None) };
        let per_word = began.elapsed().as_secs_f64() / words.max(1) as f64;
        let most = (self.time.as_secs_f64() / 14.0 / per_word) as usize;
        words = most.clamp(SHORTEST, LONGEST).min(self.valid.len());
        let mut best = start;
        let moves: [(Change, &[f64]); 4] = [
            (|s, f| s.rate *= f, &[1.0, 2.0, 0.5, 4.0, 0.25, 8.0]),
            (|s, f| s.decay *= f, &[0.2, 4.0]),
            (|s, f| s.epsilon *= f, &[4.0, 0.25]),
            (|s, f| s.rate *= f, &[1.4, 0.7]),
        ];
        for (change, factors) in moves {
            let from = best;
            for &factor in factors {
                if began.elapsed() > self.time && !tried.is_empty() {
                    return Ok(Some(best));
                }
                let mut next = from;
                change(&mut next, factor);
                next.decay = next.decay.min(1.0);
                if tried.iter().any(|(done, _)| *done == next)
                    || (next.form == DynamicForm::Sgd && next.epsilon != from.epsilon)
                {
                    continue;
                }
                let Some(score) = self.trial(next, words)? else { return Ok(None) };
                let known = tried.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
                tried.push((next, score));
                if score < known {
                    best = next;
                } else if factors.len() > 4 && score > 1.15 * known {
                    // Far beyond the best rate there is nothing to look for.
                    break;
                }
            }
        }
        Ok(Some(best))
    }

    fn trial(&mut self, settings: DynamicSettings, words: usize) -> Result<Option<f64>> {
        let what = format!("dynamic evaluation: rate {}, decay {}", short(settings.rate), short(settings.decay));
        let all = NeuralSettings { dynamic: Some(settings), ..NeuralSettings::default() };
        let mut network = Neural::new(self.source, &all)?;
        let none = CacheGrid { thetas: Vec::new(), windows: Vec::new() };
        let watch = &mut *self.watch;
        let ids = &self.valid[..words];
        let pass = network.streams(ids, &[1.0], &none, &mut |at| watch(&what, at as f64 / words.max(1) as f64));
        Ok(pass.map(|pass| {
            let score = perplexity(&pass.network[0]);
            if score.is_finite() { score } else { f64::MAX }
        }))
    }
}

fn smallest(scores: &[f64]) -> usize {
    (0..scores.len()).min_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
}

/// Four digits are all that a text can tell.
fn digits(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

/// Where the parabola through the best point and its neighbours is lowest.
fn peak(at: &[f64], scores: &[f64], best: usize) -> f64 {
    if best == 0 || best + 1 >= at.len() {
        return at[best];
    }
    let ([x0, x1, x2], [y0, y1, y2]) =
        ([at[best - 1], at[best], at[best + 1]], [scores[best - 1], scores[best], scores[best + 1]]);
    let (left, right) = ((y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1));
    let bend = (right - left) / (x2 - x0);
    if bend <= 0.0 {
        return x1;
    }
    // The parabola's slope is `left` in the middle of the first two points, and grows by `2 bend`.
    digits((0.5 * (x0 + x1) - left / (2.0 * bend)).clamp(x0, x2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_a_parabola_is_found_between_the_points() {
        let at = [0.9, 1.0, 1.1, 1.25];
        let scores = at.map(|x: f64| 7.0 + (x - 1.03) * (x - 1.03));
        assert_eq!(peak(&at, &scores, smallest(&scores)), 1.03);
        assert_eq!(peak(&at, &[1.0, 2.0, 3.0, 4.0], 0), 0.9);
    }
}
