//! The classifier and the loss at one position: equations 2.3, 2.4 and 3.1 to 3.7.

use super::Augment;
use super::layout::Layout;
use super::{classes, sum_product};

/// What the classifier and the loss computed at one position.
pub struct Prediction {
    pub h: Vec<f64>,
    target: u32,
    /// `z = W h + b`.
    pub logits: Vec<f64>,
    /// `W h`, where polynomials make the logits of it.
    sums: Vec<f64>,
    /// `CE(y* || y)`.
    pub ce: f64,
    augmented: Option<Augmented>,
    /// `KL(y~ || y^)`, or 0.
    pub kl: f64,
}

struct Augmented {
    augment: Augment,
    /// `W h`, without the bias.
    scores: Vec<f64>,
    /// `L^T u`.
    similarities: Vec<f64>,
}

impl Prediction {
    /// `h` is the last layer's, masked. `y~` is made of the word vectors of `target_params`.
    pub fn forward(
        layout: &Layout,
        params: &[f64],
        target_params: &[f64],
        h: Vec<f64>,
        target: u32,
        augment: Option<Augment>,
    ) -> Prediction {
        let scores = rows_times(&params[layout.classifier.clone()], &h);
        // Equation 2.3: y = softmax(W h + b); b = 0 when tied.
        let sums = scores.clone();
        let mut logits = classes::logits(layout, params, &h, sum_product::logits(layout, params, &sums));
        if let Some(bias) = layout.bias.clone() {
            for i in 0..layout.vocab {
                logits[i] += params[bias.start + i];
            }
        }
        // Equation 2.4: J = CE(y* || y).
        let ce = -log_softmax(&logits)[target as usize];
        let augmented = augment.map(|augment| {
            // Equation 3.6: u = L y*, the raw vector of the target; equation 3.7 needs L^T u.
            let u = layout.word_vector(target_params, target);
            let similarities = rows_times(&target_params[layout.embedding.clone()], u);
            Augmented { augment, scores, similarities }
        });
        let kl = augmented.as_ref().map_or(0.0, |a| augmented_loss(&a.scores, &a.similarities, a.augment.tau));
        Prediction { h, target, logits, sums, ce, augmented, kl }
    }

    /// Adds to each logit what belongs to its word, and takes the cross-entropy anew.
    pub fn correct(&mut self, corrections: &[f64]) {
        self.logits.iter_mut().zip(corrections).for_each(|(z, c)| *z += c);
        self.ce = -log_softmax(&self.logits)[self.target as usize];
    }

    /// Adds `weight` times the gradient by the weights to `gradient` and returns `weight` times the gradient by `h`.
    pub fn backward(&self, layout: &Layout, params: &[f64], weight: f64, gradient: &mut [f64]) -> Vec<f64> {
        // dCE/dz = y - y*.
        let mut d_logits: Vec<f64> = log_softmax(&self.logits).iter().map(|l| weight * l.exp()).collect();
        d_logits[self.target as usize] -= weight;
        if let Some(bias) = layout.bias.clone() {
            super::add(&mut gradient[bias], &d_logits);
        }
        // W h enters y through the logits, and y^ without the bias.
        let (d_logits, mut d_h) = classes::backward(layout, params, (&self.h, &self.sums), d_logits, gradient);
        let mut d_scores = sum_product::backward(layout, params, &self.sums, &d_logits, gradient);
        if let Some(a) = &self.augmented {
            let weight = weight * a.augment.alpha();
            let by_scores = gradient_by_scores(&a.scores, &a.similarities, a.augment.tau);
            for i in 0..layout.vocab {
                d_scores[i] += weight * by_scores[i];
            }
            if a.augment.flow {
                let d_similarities = gradient_by_similarities(&a.scores, &a.similarities, a.augment.tau);
                self.flow_into_word_vectors(layout, params, weight, &d_similarities, gradient);
            }
        }
        for i in 0..layout.vocab {
            for k in 0..layout.seen {
                let at = layout.classifier.start + i * layout.seen + k;
                gradient[at] += d_scores[i] * self.h[k];
                d_h[k] += d_scores[i] * params[at];
            }
        }
        d_h
    }

    /// `s_i = <l_i, u>` with `u = l_target`: a word's vector receives `ds_i u`, the target's also `sum_i ds_i l_i`.
    fn flow_into_word_vectors(&self, layout: &Layout, params: &[f64], weight: f64, d_s: &[f64], gradient: &mut [f64]) {
        let target = layout.word_range(self.target);
        for (i, d_s) in d_s.iter().enumerate() {
            let word = layout.word_range(i as u32);
            for k in 0..layout.words {
                gradient[word.start + k] += weight * d_s * params[target.start + k];
                gradient[target.start + k] += weight * d_s * params[word.start + k];
            }
        }
    }
}

/// Equations 3.1, 3.2 and 3.7: `J_aug = KL(y~ || y^)` with `y^ = softmax(W h / tau)`, `y~ = softmax(L^T u / tau)`.
pub fn augmented_loss(scores: &[f64], similarities: &[f64], tau: f64) -> f64 {
    let (log_hat, log_tilde) = (at_temperature(scores, tau), at_temperature(similarities, tau));
    log_tilde.iter().zip(&log_hat).map(|(tilde, hat)| tilde.exp() * (tilde - hat)).sum()
}

/// Equation 3.4: the gradient of `J_aug` by `W h` is `(y^ - y~) / tau`.
pub fn gradient_by_scores(scores: &[f64], similarities: &[f64], tau: f64) -> Vec<f64> {
    let (log_hat, log_tilde) = (at_temperature(scores, tau), at_temperature(similarities, tau));
    log_hat.iter().zip(&log_tilde).map(|(hat, tilde)| (hat.exp() - tilde.exp()) / tau).collect()
}

/// The gradient of `J_aug` by `s = L^T u`: `y~_i (log(y~_i / y^_i) - J_aug) / tau`.
pub fn gradient_by_similarities(scores: &[f64], similarities: &[f64], tau: f64) -> Vec<f64> {
    let (log_hat, log_tilde) = (at_temperature(scores, tau), at_temperature(similarities, tau));
    let loss = augmented_loss(scores, similarities, tau);
    log_tilde.iter().zip(&log_hat).map(|(tilde, hat)| tilde.exp() * (tilde - hat - loss) / tau).collect()
}

/// `log softmax(x / tau)`.
pub fn at_temperature(x: &[f64], tau: f64) -> Vec<f64> {
    log_softmax(&x.iter().map(|x| x / tau).collect::<Vec<f64>>())
}

/// `log softmax(x)`, with the largest value subtracted first so that nothing overflows.
pub fn log_softmax(x: &[f64]) -> Vec<f64> {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = largest + x.iter().map(|x| (x - largest).exp()).sum::<f64>().ln();
    x.iter().map(|x| x - log_sum).collect()
}

/// A matrix, row by row, times a vector.
pub fn rows_times(matrix: &[f64], x: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(m, x)| m * x).sum()).collect()
}
