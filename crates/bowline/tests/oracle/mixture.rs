//! A mixture of softmaxes at one position (Yang et al. 2018): `P(w) = sum_k pi_k softmax(W e_k + b)_w` with
//! `pi = softmax(W_pi h)`, where the projection gives all `e_k` after each other.

use super::layout::Layout;
use super::loss::{Prediction, log_softmax};
use super::unit::Product;

/// What the softmaxes and the loss computed at one position.
pub struct Mixed {
    /// One for each softmax.
    softmaxes: Vec<Prediction>,
    prior: Product,
    log_pi: Vec<f64>,
}

impl Mixed {
    /// `h` is the last layer's, masked; `e` is the projection, masked.
    pub fn forward(layout: &Layout, params: &[f64], (h, e): (&[f64], &[f64]), target: u32) -> Mixed {
        let prior = Product::new(layout.place("prior.weight"), h, &[]);
        let one = |e: &[f64]| Prediction::forward(layout, params, params, e.to_vec(), target, None);
        let softmaxes = e.chunks(layout.seen).map(one).collect();
        let log_pi = log_softmax(&prior.value(params));
        Mixed { softmaxes, prior, log_pi }
    }

    /// `-log P(y)`.
    pub fn ce(&self) -> f64 {
        -self.softmaxes.iter().zip(&self.log_pi).map(|(y, log_pi)| (log_pi - y.ce).exp()).sum::<f64>().ln()
    }

    /// `log P(w)` of every word.
    pub fn log_probabilities(&self) -> Vec<f64> {
        let logs: Vec<Vec<f64>> = self.softmaxes.iter().map(|y| log_softmax(&y.logits)).collect();
        let p = |w: usize| logs.iter().zip(&self.log_pi).map(|(log_y, log_pi)| (log_pi + log_y[w]).exp()).sum::<f64>();
        (0..logs[0].len()).map(|w| p(w).ln()).collect()
    }

    /// Adds `weight` times the gradient by the weights to `gradient` and returns it by `h`, through the shares alone, and by `e`.
    pub fn backward(&self, layout: &Layout, params: &[f64], weight: f64, gradient: &mut [f64]) -> (Vec<f64>, Vec<f64>) {
        let p = (-self.ce()).exp();
        // P is linear in pi_k and in y_k(y): what share of it comes from each softmax.
        let share = |k: usize| (self.log_pi[k] - self.softmaxes[k].ce).exp() / p;
        let mut d_e = Vec::new();
        for (k, softmax) in self.softmaxes.iter().enumerate() {
            d_e.extend(softmax.backward(layout, params, weight * share(k), gradient));
        }
        // -log P by pi_k, then through the softmax of the shares.
        let by_pi: Vec<f64> = self.softmaxes.iter().map(|y| -(-y.ce).exp() / p).collect();
        let pi: Vec<f64> = self.log_pi.iter().map(|x| x.exp()).collect();
        let along: f64 = by_pi.iter().zip(&pi).map(|(by, pi)| by * pi).sum();
        let d_scores: Vec<f64> = by_pi.iter().zip(&pi).map(|(by, pi)| weight * pi * (by - along)).collect();
        (self.prior.backward(params, &d_scores, gradient), d_e)
    }
}
