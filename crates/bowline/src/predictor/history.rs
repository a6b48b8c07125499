//! The neural cache: what followed when the network was in a similar state?
//!
//! After the word `x_t` the network is in the state `h_t`, and the cache holds the pairs `(h_i, x_{i+1})` of the last
//! `window` positions before. Its distribution (Grave et al. 2017, equation 3) is
//!
//! `p_cache(w) ~ sum_{i: x_{i+1} = w} exp(theta h_t . h_i)`
//!
//! and the whole is `(1 - lambda) p + lambda p_cache`. The cache works with what there is from the second word on; before
//! that it is empty, and the prediction is the network's alone.
//!
//! For a block of words all products `h_t . h_i` are one matrix product; of each row a band of consecutive positions counts,
//! which ends just before the word's own.

use bowline_kernels::{Into, Isa, Mat, PackedB, Precision, Team, gemm, loss};

/// The thetas and windows for which a pass over a text gives the cache's probabilities at once.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheGrid {
    /// Each `theta`.
    pub thetas: Vec<f64>,
    /// Each window, the smallest first.
    pub windows: Vec<usize>,
}

impl CacheGrid {
    /// Number of pairs of a theta and a window.
    pub fn len(&self) -> usize {
        self.thetas.len() * self.windows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The words and the states of a history.
pub(super) type Pairs = (Vec<u32>, Vec<f32>);

/// The pairs, oldest first.
pub(super) struct History {
    isa: Isa,
    hidden: usize,
    /// Pairs that are needed.
    window: usize,
    /// (n, d): the states. There may be one more than words: the last one's successor is not known yet.
    states: Vec<f32>,
    words: Vec<u32>,
    packed: PackedB,
    scores: Vec<f32>,
}

impl History {
    pub(super) fn new(isa: Isa, hidden: usize, window: usize) -> History {
        let (states, words, packed, scores) = (Vec::new(), Vec::new(), PackedB::new(isa, Precision::F32), Vec::new());
        History { isa, hidden, window, states, words, packed, scores }
    }

    pub(super) fn reset(&mut self) {
        self.states.clear();
        self.words.clear();
    }

    /// What it remembers.
    pub(super) fn pairs(&self) -> Pairs {
        (self.words.clone(), self.states.clone())
    }

    /// Remembers that and nothing else.
    pub(super) fn set_pairs(&mut self, (words, states): &Pairs) {
        self.words.clone_from(words);
        self.states.clone_from(states);
    }

    /// Takes words and the states after them; gives the number of pairs that were complete before the second of them.
    pub(super) fn push(&mut self, words: &[u32], states: &[f32]) -> usize {
        // What is too old goes when there is much of it.
        let old = self.words.len().saturating_sub(self.window);
        if old > self.window + 1000 {
            self.words.drain(..old);
            self.states.drain(..old * self.hidden);
        }
        let known = if self.states.is_empty() { &words[1..] } else { words };
        let base = self.words.len() + known.len() + 1 - words.len();
        self.words.extend_from_slice(known);
        self.states.extend_from_slice(states);
        base
    }

    /// For a block that [`History::push`] has just taken (`base` is what it gave): `p_cache(target)` of each word, for each
    /// theta and each window, (words, thetas, windows) into `out`; NaN where the cache is empty.
    pub(super) fn targets(&mut self, team: &Team, base: usize, targets: &[u32], grid: &CacheGrid, out: &mut [f64]) {
        let (d, isa, rows) = (self.hidden, self.isa, targets.len());
        let widest = grid.windows.iter().copied().max().unwrap_or(0).min(self.window);
        let first = base.saturating_sub(widest);
        let end = base + rows - 1;
        let columns = end - first;
        if columns > 0 {
            // S = H_block H^T
            self.packed.pack(team, Mat::new(&self.states[first * d..end * d], columns, d).t());
            self.scores.resize(rows * columns, 0.0);
            let block = Mat::new(&self.states[base * d..(base + rows) * d], rows, d);
            gemm(team, block, &self.packed, &mut self.scores, Into::Overwrite);
        }
        let words = &self.words;
        let empty = std::iter::repeat_with(|| &mut [][..]);
        let scores = self.scores.chunks_mut(columns.max(1)).chain(empty);
        let jobs = scores.zip(out.chunks_mut(grid.len())).zip(targets).enumerate();
        team.for_each(jobs, |(t, ((scores, out), &target))| {
            let now = base + t; // the pairs before this one are known
            let band = now.saturating_sub(widest)..now;
            if band.is_empty() {
                return out.fill(f64::NAN);
            }
            let scores = &scores[band.start - first..band.end - first];
            let mut weights = Vec::with_capacity(scores.len());
            for (&theta, out) in grid.thetas.iter().zip(out.chunks_mut(grid.windows.len())) {
                let weigh = |weights: &mut Vec<f32>, scores: &[f32]| {
                    weights.clear();
                    weights.extend(scores.iter().map(|s| s * theta as f32));
                    loss::softmax(isa, weights, None);
                };
                weigh(&mut weights, scores);
                let (mut total, mut matched, mut at) = (0.0f64, 0.0f64, band.end);
                for (&window, out) in grid.windows.iter().zip(out) {
                    let start = now.saturating_sub(window.min(widest));
                    for i in (start..at).rev() {
                        let weight = f64::from(weights[i - band.start]);
                        total += weight;
                        if words[i] == target {
                            matched += weight;
                        }
                    }
                    at = start;
                    *out = matched / total;
                    if total < 1e-20 {
                        // All the weight is on older positions: f32 has lost the others.
                        let mut own = Vec::new();
                        weigh(&mut own, &scores[start - band.start..]);
                        let hit = |(i, w): (usize, &f32)| if words[start + i] == target { f64::from(*w) } else { 0.0 };
                        *out = own.iter().enumerate().map(hit).sum();
                    }
                }
            }
        });
    }

    /// Mixes the cache's distribution of the next word into `out`.
    pub(super) fn mix(&mut self, theta: f64, lambda: f64, out: &mut [f32]) {
        let (n, d) = (self.words.len(), self.hidden);
        let first = n.saturating_sub(self.window);
        if n == first || self.states.len() < d {
            return;
        }
        let state = &self.states[self.states.len() - d..];
        self.packed.pack_columns_alone(d, 1, |_| state);
        let mut weights = vec![0.0; n - first];
        let states = Mat::new(&self.states[first * d..n * d], n - first, d);
        bowline_kernels::gemm_alone(states, &self.packed, &mut weights, Into::Overwrite);
        weights.iter_mut().for_each(|s| *s *= theta as f32);
        loss::softmax(self.isa, &mut weights, None);
        out.iter_mut().for_each(|p| *p *= (1.0 - lambda) as f32);
        for (&word, weight) in self.words[first..].iter().zip(weights) {
            out[word as usize] += lambda as f32 * weight;
        }
    }
}
