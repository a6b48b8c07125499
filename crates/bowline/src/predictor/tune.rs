//! Finding a network's settings on the validation text.
//!
//! A pass over the text with the network as trained gives the probabilities at all temperatures, and with many caches, at
//! once ([`Neural::streams`]); a cache's `lambda` is then a weight of a mixture of two ([`em`]). Its `theta` and window are
//! found coarse to fine: a coarse grid on the text's beginning, widened as long as the best lies at its edge, and a fine
//! one around that best on the whole text. The settings of dynamic evaluation need a pass each: they are found on the
//! text's beginning, coarse to fine, within a bounded time. So is how many units the samples of Monte-Carlo dropout keep.

use super::{
    CacheGrid, CacheSettings, DynamicForm, DynamicSettings, MonteCarloSettings, Neural, NeuralSettings, Source,
    Streams, em, short,
};
use crate::error::Result;
use crate::model::KeepProb;
use std::time::{Duration, Instant};

/// What a search is told and says. `watch(what, share)` hears what is being done and the share of it that is done, and stops
/// the search by saying false.
pub struct Tuner<'a> {
    /// The network.
    pub source: &'a Source,
    /// The validation text.
    pub valid: &'a [u32],
    /// Time for the search of dynamic evaluation's settings, and for that of Monte-Carlo dropout's.
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
/// The coarse grid of the cache: each value is about twice the one before. It covers the thetas of networks of usual sizes;
/// what lies beyond is found by widening it.
const THETAS: [f64; 7] = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2];
const WINDOWS: [usize; 8] = [60, 125, 250, 500, 1000, 2000, 4000, 8000];
/// The smallest and the largest theta of a widened grid, and how much a value of it is above the one before.
const EXTREMES: [f64; 2] = [1e-3, 200.0];
const STEP: f64 = 2.0;
/// The fine grid, relative to the best of the coarse one.
const FINE_THETAS: [f64; 7] = [0.5, 0.65, 0.8, 1.0, 1.25, 1.55, 2.0];
const FINE_WINDOWS: [f64; 7] = [0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0];
/// Words of the text's beginning that the coarse grid is tried on.
const COARSE_WORDS: usize = 15_000;
/// The smallest and the largest beginning of the text that dynamic evaluation's settings are tried on.
const SHORTEST: usize = 3_000;
const LONGEST: usize = 20_000;
/// The same for Monte-Carlo dropout.
const SHORTEST_SAMPLED: usize = 1_000;
const LONGEST_SAMPLED: usize = 10_000;
/// Shares of the units dropped in training that are tried: a network's samples, averaged, may do better with fewer.
const DROPPED: [f64; 6] = [1.0, 2.0 / 3.0, 0.5, 1.0 / 3.0, 0.2, 0.1];

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
        let temperatures = if dynamic.is_some() { &TEMPERATURES[3..4] } else { &TEMPERATURES[..] };
        let Some(coarse) = self.coarse_cache(dynamic)? else { return Ok(None) };
        let grid = fine(coarse, self.valid.len());
        let Some(Streams { mut network, cache }) = self.pass(what, self.valid.len(), dynamic, temperatures, &grid)?
        else {
            return Ok(None);
        };

        let scores: Vec<f64> = network.iter().map(|p| perplexity(p)).collect();
        let best = smallest(&scores);
        let settings = peak(temperatures, &scores, best);
        let temperature = Found { settings, perplexity: scores[best], probabilities: network[best].clone() };
        let plain = network.swap_remove(temperatures.iter().position(|&t| t == 1.0).unwrap_or(0));
        let (best, settings) = best_cache(&plain, &cache, &grid);
        let probabilities = Streams::mixed(&plain, &cache[best], settings.lambda);
        let cache = Found { settings, perplexity: perplexity(&probabilities), probabilities };
        let plain = Found { settings: (), perplexity: perplexity(&plain), probabilities: plain };
        Ok(Some((plain, temperature, cache)))
    }

    /// One pass over the first `words` of the text with a cache of all of a grid's thetas and windows.
    fn pass(
        &mut self,
        what: &str,
        words: usize,
        dynamic: Option<DynamicSettings>,
        temperatures: &[f64],
        grid: &CacheGrid,
    ) -> Result<Option<Streams>> {
        let window = grid.windows.iter().copied().max().unwrap_or(1);
        let cache = Some(CacheSettings { window, ..CacheSettings::default() });
        let mut network = Neural::new(self.source, &NeuralSettings { cache, dynamic, ..NeuralSettings::default() })?;
        let (watch, total) = (&mut *self.watch, words.max(1) as f64);
        let mut show = |at| watch(what, at as f64 / total);
        Ok(network.streams(&self.valid[..words], temperatures, grid, &mut show))
    }

    /// The best cache of the coarse grid, on the beginning of the text. The thetas are widened until the best one is not at
    /// their edge. `None` if it was stopped.
    fn coarse_cache(&mut self, dynamic: Option<DynamicSettings>) -> Result<Option<CacheSettings>> {
        let words = COARSE_WORDS.min(self.valid.len());
        // A window as long as the text remembers all of it, and so would a longer one.
        let windows: Vec<usize> = (0..WINDOWS.len())
            .filter(|&i| i == 0 || WINDOWS[i - 1] < self.valid.len())
            .map(|i| WINDOWS[i].min(self.valid.len().max(1)))
            .collect();
        let mut grid = CacheGrid { thetas: THETAS.to_vec(), windows };
        loop {
            let pass = self.pass("cache, coarse", words, dynamic, &[1.0], &grid)?;
            let Some(Streams { network, cache }) = pass else { return Ok(None) };
            let (best, settings) = best_cache(&network[0], &cache, &grid);
            // A cache that helps nowhere has no best theta.
            let wider = if settings.lambda == 0.0 { None } else { widened(&grid, best / grid.windows.len()) };
            match wider {
                Some(thetas) => grid.thetas = thetas,
                None => return Ok(Some(settings)),
            }
        }
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

    /// How many units the samples of Monte-Carlo dropout had best keep, starting from `start`. `None` if it was stopped.
    pub fn monte_carlo(&mut self, start: MonteCarloSettings) -> Result<Option<MonteCarloSettings>> {
        let trial = |tuner: &mut Tuner<'_>, settings: MonteCarloSettings, words: usize| {
            let settings = NeuralSettings { monte_carlo: Some(settings), ..NeuralSettings::default() };
            tuner.score(&format!("Monte-Carlo dropout: {}", settings.describe()), settings, words)
        };
        let began = Instant::now();
        let mut words = SHORTEST_SAMPLED.min(self.valid.len());
        let Some(_) = trial(self, start, words)? else { return Ok(None) };
        let per_word = began.elapsed().as_secs_f64() / words.max(1) as f64;
        let most = (self.time.as_secs_f64() / DROPPED.len() as f64 / per_word) as usize;
        words = most.clamp(SHORTEST_SAMPLED, LONGEST_SAMPLED).min(self.valid.len());
        let (mut best, mut least) = (start, f64::INFINITY);
        for share in DROPPED {
            let keep = KeepProb(digits(1.0 - share * (1.0 - f64::from(start.keep.0))) as f32);
            let settings = MonteCarloSettings { keep, masks: start.masks.dropping(share), ..start };
            let Some(score) = trial(self, settings, words)? else { return Ok(None) };
            if score < least {
                (best, least) = (settings, score);
            }
        }
        Ok(Some(best))
    }

    fn trial(&mut self, settings: DynamicSettings, words: usize) -> Result<Option<f64>> {
        let what = format!("dynamic evaluation: rate {}, decay {}", short(settings.rate), short(settings.decay));
        self.score(&what, NeuralSettings { dynamic: Some(settings), ..NeuralSettings::default() }, words)
    }

    /// The perplexity of the first `words`.
    fn score(&mut self, what: &str, settings: NeuralSettings, words: usize) -> Result<Option<f64>> {
        let mut network = Neural::new(self.source, &settings)?;
        let none = CacheGrid { thetas: Vec::new(), windows: Vec::new() };
        let watch = &mut *self.watch;
        let ids = &self.valid[..words];
        let pass = network.streams(ids, &[1.0], &none, &mut |at| watch(what, at as f64 / words.max(1) as f64));
        Ok(pass.map(|pass| {
            let score = perplexity(&pass.network[0]);
            if score.is_finite() { score } else { f64::MAX }
        }))
    }
}

/// Where in a grid the cache is that goes best with the network, given both their probabilities; and its settings.
fn best_cache(network: &[f64], cache: &[Vec<f64>], grid: &CacheGrid) -> (usize, CacheSettings) {
    let fits: Vec<_> = cache.iter().map(|cache| em(&[network, cache])).collect();
    let best = smallest(&fits.iter().map(|fit| fit.perplexity).collect::<Vec<_>>());
    let (theta, window) = (grid.thetas[best / grid.windows.len()], grid.windows[best % grid.windows.len()]);
    (best, CacheSettings { window, theta, lambda: digits(fits[best].weights[1]) })
}

/// More thetas on the side where the best one is the last; `None` if it is not, or if that would be too far.
fn widened(grid: &CacheGrid, best: usize) -> Option<Vec<f64>> {
    let (first, last) = (*grid.thetas.first()?, *grid.thetas.last()?);
    let thetas: Vec<f64> = if best == 0 {
        // The best one stays among them, so that it can be inside.
        [first / (STEP * STEP * STEP), first / (STEP * STEP), first / STEP, first, first * STEP].to_vec()
    } else if best + 1 == grid.thetas.len() {
        [last / STEP, last, last * STEP, last * STEP * STEP, last * STEP * STEP * STEP].to_vec()
    } else {
        return None;
    };
    thetas.iter().all(|theta| (EXTREMES[0]..=EXTREMES[1]).contains(theta)).then_some(thetas)
}

/// The fine grid around the best of the coarse one.
fn fine(coarse: CacheSettings, words: usize) -> CacheGrid {
    let window = |factor: f64| ((coarse.window as f64 * factor).round() as usize).clamp(1, words.max(1));
    let mut windows: Vec<usize> = FINE_WINDOWS.iter().map(|&factor| window(factor)).collect();
    windows.dedup();
    CacheGrid { thetas: FINE_THETAS.iter().map(|factor| four_digits(factor * coarse.theta)).collect(), windows }
}

/// The first four digits of a number.
fn four_digits(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
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

    #[test]
    fn a_grid_is_widened_where_its_best_is_at_the_edge_and_not_for_ever() {
        let grid = |thetas: &[f64]| CacheGrid { thetas: thetas.to_vec(), windows: vec![10] };
        assert_eq!(widened(&grid(&[1.0, 2.0, 4.0]), 1), None);
        assert_eq!(widened(&grid(&[1.0, 2.0, 4.0]), 2), Some(vec![2.0, 4.0, 8.0, 16.0, 32.0]));
        assert_eq!(widened(&grid(&[1.0, 2.0, 4.0]), 0), Some(vec![0.125, 0.25, 0.5, 1.0, 2.0]));
        let (mut last, mut thetas, mut rounds) = (0.0, THETAS.to_vec(), 0);
        while let Some(wider) = widened(&grid(&thetas), thetas.len() - 1) {
            (last, thetas, rounds) = (wider[wider.len() - 1], wider, rounds + 1);
        }
        assert!(last > 20.0 && last <= EXTREMES[1] && rounds < 5, "{last} {rounds}");
        let fine = fine(CacheSettings { window: 60, theta: 0.4, lambda: 0.1 }, 100);
        assert_eq!(fine.windows, [15, 30, 42, 60, 84, 100]);
        assert_eq!(fine.thetas, [0.2, 0.26, 0.32, 0.4, 0.5, 0.62, 0.8]);
    }
}
