//! A naive version of every kernel, in f64, that the tests compare the fast ones with.

use crate::gemm::Into;
use crate::matrix::Mat;

/// `A B`, or `C + A B`.
pub(crate) fn gemm(a: Mat<'_>, b: Mat<'_>, c: &[f32], into: Into) -> Vec<f64> {
    let ((m, k), (_, n)) = (a.shape(), b.shape());
    let mut out = Vec::with_capacity(m * n);
    for i in 0..m {
        for j in 0..n {
            let start = if into == Into::Accumulate { f64::from(c[i * n + j]) } else { 0.0 };
            out.push((0..k).fold(start, |sum, p| sum + f64::from(a.at(i, p)) * f64::from(b.at(p, j))));
        }
    }
    out
}

/// Numbers in -0.5..0.5, always the same for a seed.
pub(crate) fn numbers(seed: u32, n: usize) -> Vec<f32> {
    let mut x = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        (f64::from(x) / f64::from(u32::MAX) - 0.5) as f32
    };
    (0..n).map(|_| next()).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The chain of an LSTM layer through time; the fields are those of [`crate::recurrent::Window`].
pub(crate) struct Lstm {
    steps: usize,
    batch: usize,
    d: usize,
    pub gates: Vec<f64>,
    pub cells: Vec<f64>,
    pub states: Vec<f64>,
    pub last: Vec<f64>,
}

impl Lstm {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn forward(
        steps: usize,
        batch: usize,
        d: usize,
        w_hh: &[f32],
        gates: &[f32],
        cell: &[f32],
        state: &[f32],
        mask: Option<&[f32]>,
    ) -> Lstm {
        let (w_hh, mut gates) = (wide(w_hh), wide(gates));
        let (mut cells, mut states, mut last) = (wide(cell), wide(state), vec![0.0; batch * d]);
        for t in 0..steps {
            for b in 0..batch {
                let before = states[(t * batch + b) * d..][..d].to_vec();
                for u in 0..d {
                    let gate = |k: usize| {
                        let row = &w_hh[(k * d + u) * d..][..d];
                        let sum: f64 = row.iter().zip(&before).map(|(w, h)| w * h).sum();
                        gates[(t * batch + b) * 4 * d + k * d + u] + sum
                    };
                    let (i, f, g, o) = (sigmoid(gate(0)), sigmoid(gate(1)), gate(2).tanh(), sigmoid(gate(3)));
                    let c = f * cells[(t * batch + b) * d + u] + i * g;
                    for (k, x) in [i, f, g, o].into_iter().enumerate() {
                        gates[(t * batch + b) * 4 * d + k * d + u] = x;
                    }
                    let h = o * c.tanh();
                    cells.push(c);
                    states.push(h * mask.map_or(1.0, |m| f64::from(m[b * d + u])));
                    last[b * d + u] = h;
                }
            }
        }
        Lstm { steps, batch, d, gates, cells, states, last }
    }

    /// Replaces the activations in `gates` by the gradient before them.
    pub(crate) fn backward(&mut self, w_hh: &[f32], mask: Option<&[f32]>, d_states: &[f32]) {
        let (batch, d) = (self.batch, self.d);
        let w_hh = wide(w_hh);
        let mut d_cell = vec![0.0; batch * d];
        for t in (0..self.steps).rev() {
            for b in 0..batch {
                let mut through_time = vec![0.0; d];
                if t + 1 < self.steps {
                    for (row, w) in w_hh.chunks(d).enumerate() {
                        let d_gate = self.gates[((t + 1) * batch + b) * 4 * d + row];
                        for (sum, w) in through_time.iter_mut().zip(w) {
                            *sum += d_gate * w;
                        }
                    }
                }
                for u in 0..d {
                    let at = (t * batch + b) * d + u;
                    let gate = |k: usize| (t * batch + b) * 4 * d + k * d + u;
                    let [i, f, g, o] = [0, 1, 2, 3].map(|k| self.gates[gate(k)]);
                    let tanh_c = self.cells[at + batch * d].tanh();
                    let d_h =
                        (f64::from(d_states[at]) + through_time[u]) * mask.map_or(1.0, |m| f64::from(m[b * d + u]));
                    let d_c = d_cell[b * d + u] + d_h * o * (1.0 - tanh_c * tanh_c);
                    d_cell[b * d + u] = d_c * f;
                    self.gates[gate(0)] = d_c * g * i * (1.0 - i);
                    self.gates[gate(1)] = d_c * self.cells[at] * f * (1.0 - f);
                    self.gates[gate(2)] = d_c * i * (1.0 - g * g);
                    self.gates[gate(3)] = d_h * tanh_c * o * (1.0 - o);
                }
            }
        }
    }
}

/// The parts of the loss of one word.
pub(crate) struct Loss {
    pub ce: f64,
    pub kl: f64,
    pub log_sum: f64,
}

fn log_softmax(x: &[f64]) -> (Vec<f64>, f64) {
    let max = x.iter().copied().fold(f64::MIN, f64::max);
    let log_sum = max + x.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
    (x.iter().map(|x| x - log_sum).collect(), log_sum)
}

/// CE, and with `augment = (s, tau, gamma)` also `gamma tau KL(softmax(s / tau) || softmax(z / tau))`; then the gradient
/// of the whole by `z` and by `s`.
pub(crate) fn loss(
    z: &[f32],
    bias: Option<&[f32]>,
    target: usize,
    augment: Option<(&[f32], f32, f32)>,
) -> (Loss, Vec<f64>, Vec<f64>) {
    let z = wide(z);
    let with_bias: Vec<f64> = z.iter().enumerate().map(|(i, z)| z + bias.map_or(0.0, |b| f64::from(b[i]))).collect();
    let (log_y, log_sum) = log_softmax(&with_bias);
    let mut d_z: Vec<f64> = log_y.iter().map(|y| y.exp()).collect();
    d_z[target] -= 1.0;
    let (mut kl, mut d_s) = (0.0, vec![0.0; z.len()]);
    if let Some((s, tau, gamma)) = augment {
        let (tau, gamma) = (f64::from(tau), f64::from(gamma));
        let (log_hat, _) = log_softmax(&z.iter().map(|z| z / tau).collect::<Vec<_>>());
        let (log_tilde, _) = log_softmax(&s.iter().map(|&s| f64::from(s) / tau).collect::<Vec<_>>());
        kl = log_tilde.iter().zip(&log_hat).map(|(t, h)| t.exp() * (t - h)).sum();
        for i in 0..z.len() {
            d_z[i] += gamma * (log_hat[i].exp() - log_tilde[i].exp());
            d_s[i] = gamma * log_tilde[i].exp() * (log_tilde[i] - log_hat[i] - kl);
        }
    }
    (Loss { ce: -log_y[target], kl, log_sum }, d_z, d_s)
}
