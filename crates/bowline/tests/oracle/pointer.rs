//! The pointer sentinel mixture (Merity et al. 2017) at each position of a window:
//! `q = tanh(Q h + b)`, `a = softmax([q . h_i .., q . s])`, `p(w) = g y_w + sum_{i: w_i = w} a_i` with `g` the sentinel's share,
//! and the loss `-log p(y) - log(g + sum_{i: w_i = y} a_i)`.

use super::layout::Layout;
use super::{Window, add};

/// What a stream brings into the window: its last words, oldest first, and what the classifier saw after each.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    pub words: Vec<u32>,
    pub states: Vec<Vec<f64>>,
}

/// What the pointer computed at one position.
pub struct Pointed {
    query: Vec<f64>,
    /// The words that can be pointed to: of the window by their position, and `None` for those carried in; with their states.
    keys: Vec<(Option<usize>, u32, Vec<f64>)>,
    /// Their shares, and the sentinel's.
    shares: Vec<f64>,
    target: u32,
    /// The classifier's probability of the target.
    own: f64,
}

impl Pointed {
    /// At position `at` of the window, where the classifier has seen `h`.
    pub fn forward(
        (layout, params): (&Layout, &[f64]),
        (window, carried, looks_back): (&Window, &Carried, usize),
        h: &[Vec<f64>],
        (at, own): (usize, f64),
    ) -> Pointed {
        let (weight, bias) = (layout.place("pointer.query.weight"), layout.place("pointer.query.bias"));
        let d = h[at].len();
        let row = |i: usize| &params[weight.start + i * d..][..d];
        let query: Vec<f64> = (0..d).map(|i| (dot(row(i), &h[at]) + params[bias.start + i]).tanh()).collect();
        let mut keys: Vec<(Option<usize>, u32, Vec<f64>)> = Vec::new();
        for (&word, state) in carried.words.iter().zip(&carried.states) {
            keys.push((None, word, state.clone()));
        }
        for other in (at % window.batch..=at).step_by(window.batch) {
            keys.push((Some(other), window.inputs[other], h[other].clone()));
        }
        let keys = keys.split_off(keys.len().saturating_sub(looks_back));
        let mut scores: Vec<f64> = keys.iter().map(|(_, _, state)| dot(&query, state)).collect();
        scores.push(dot(&query, &params[layout.place("pointer.sentinel")]));
        let shares = super::loss::log_softmax(&scores).iter().map(|x| x.exp()).collect();
        Pointed { query, keys, shares, target: window.targets[at], own }
    }

    fn gate(&self) -> f64 {
        self.shares[self.keys.len()]
    }

    fn mass(&self) -> f64 {
        self.keys.iter().zip(&self.shares).filter(|(key, _)| key.1 == self.target).map(|(_, share)| share).sum()
    }

    /// `-log p(y)`.
    pub fn ce(&self) -> f64 {
        -(self.gate() * self.own + self.mass()).ln()
    }

    /// The whole loss.
    pub fn loss(&self) -> f64 {
        self.ce() - (self.gate() + self.mass()).ln()
    }

    /// The factor of the classifier's own gradient: `-log p` by `log y_target`.
    pub fn share(&self) -> f64 {
        self.gate() * self.own / (self.gate() * self.own + self.mass())
    }

    /// Adds `weight` times the gradient by the weights to `gradient`, and by what the classifier saw to `d_h`.
    pub fn backward(
        &self,
        (layout, params): (&Layout, &[f64]),
        (h, at, weight): (&[Vec<f64>], usize, f64),
        gradient: &mut [f64],
        d_h: &mut [Vec<f64>],
    ) {
        let (p, guided) = (self.gate() * self.own + self.mass(), self.gate() + self.mass());
        let mut by_share: Vec<f64> =
            self.keys.iter().map(|key| if key.1 == self.target { -1.0 / p - 1.0 / guided } else { 0.0 }).collect();
        by_share.push(-self.own / p - 1.0 / guided);
        let along = dot(&by_share, &self.shares);
        let by_score: Vec<f64> =
            by_share.iter().zip(&self.shares).map(|(by, share)| weight * share * (by - along)).collect();
        let d = self.query.len();
        let sentinel = layout.place("pointer.sentinel");
        let mut d_query = vec![0.0; d];
        for (by_score, (place, _, state)) in by_score.iter().zip(&self.keys) {
            (0..d).for_each(|k| d_query[k] += by_score * state[k]);
            if let Some(place) = place {
                (0..d).for_each(|k| d_h[*place][k] += by_score * self.query[k]);
            }
        }
        for k in 0..d {
            d_query[k] += by_score[self.keys.len()] * params[sentinel.start + k];
            gradient[sentinel.start + k] += by_score[self.keys.len()] * self.query[k];
        }
        let (weights, bias) = (layout.place("pointer.query.weight"), layout.place("pointer.query.bias"));
        let d_a: Vec<f64> = d_query.iter().zip(&self.query).map(|(d, q)| d * (1.0 - q * q)).collect();
        add(&mut gradient[bias], &d_a);
        for i in 0..d {
            for k in 0..d {
                gradient[weights.start + i * d + k] += d_a[i] * h[at][k];
                d_h[at][k] += d_a[i] * params[weights.start + i * d + k];
            }
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
