//! A naive version of every kernel, in f64, that the tests compare the fast ones with.

use crate::gemm::Into;
use crate::matrix::Mat;
use crate::recurrent::Unit;

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

pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What a unit computes in a step: from the inputs' share of its gates, the products with the state, and what it carries, to
/// what it carries on and its state.
fn cell(unit: Unit, x: &[f64], p: &[f64], carried: f64) -> (f64, f64) {
    match unit {
        Unit::Lstm | Unit::CoupledLstm => {
            let (i, f, o) = (sigmoid(x[0] + p[0]), sigmoid(x[1] + p[1]), sigmoid(x[3] + p[3]));
            let i = if unit == Unit::CoupledLstm { i.min(1.0 - f) } else { i };
            let c = f * carried + i * (x[2] + p[2]).tanh();
            (c, o * c.tanh())
        }
        Unit::Gru => {
            let (r, z) = (sigmoid(x[0] + p[0]), sigmoid(x[1] + p[1]));
            let h = (1.0 - z) * (x[2] + r * p[2]).tanh() + z * carried;
            (h, h)
        }
        Unit::RnnTanh => (0.0, (x[0] + p[0]).tanh()),
        Unit::RnnSigmoid => (0.0, sigmoid(x[0] + p[0])),
        Unit::RnnRelu => (0.0, (x[0] + p[0]).max(0.0)),
        Unit::Highway => {
            let t = sigmoid(x[1] + p[1]);
            let s = (x[0] + p[0]).tanh() * t + carried * (1.0 - t);
            (s, s)
        }
    }
}

/// The chain of a layer through time; the fields are those of [`crate::recurrent::Window`] and [`crate::recurrent::Levels`].
/// There is no way back: the tests take difference quotients.
#[derive(Clone)]
pub(crate) struct Chain {
    pub unit: Unit,
    pub steps: usize,
    pub batch: usize,
    pub d: usize,
    pub weights: Vec<Vec<f64>>,
    pub bias: Option<Vec<f64>>,
    pub shortcut: Option<Vec<f64>>,
    /// (L, T, B, G d): the inputs' share, and something to be added to the products.
    pub gates: Vec<f64>,
    pub offsets: Vec<f64>,
    /// (B, d): what is carried in, and for each mask the masked state.
    pub carried: Vec<f64>,
    pub states: Vec<Vec<f64>>,
    /// (T, B, d), one for all gates or one for each.
    pub masks: Option<Vec<Vec<f64>>>,
}

/// What came of it.
pub(crate) struct Chained {
    /// (T, B, d): after each step what is carried, the state with each mask, and without.
    pub carried: Vec<f64>,
    pub states: Vec<Vec<f64>>,
    pub outputs: Vec<f64>,
}

impl Chain {
    pub(crate) fn run(&self) -> Chained {
        let (levels, gates, d, step) = (self.weights.len(), self.unit.gates(), self.d, self.batch * self.d);
        let parts = self.states.len();
        let mut out = Chained { carried: Vec::new(), states: vec![Vec::new(); parts], outputs: Vec::new() };
        let (mut carried, mut before) = (self.carried.clone(), self.states.clone());
        for t in 0..self.steps {
            let mut found = before.clone();
            for l in 0..levels {
                let top = l + 1 == levels;
                let (mut left, mut output) = (vec![vec![0.0; step]; parts], vec![0.0; step]);
                for (b, u) in (0..self.batch).flat_map(|b| (0..d).map(move |u| (b, u))) {
                    let gate = |k: usize| ((l * self.steps + t) * self.batch + b) * gates * d + k * d + u;
                    let times = |w: &[f64], states: &[Vec<f64>], k: usize| -> f64 {
                        let (row, state) = (&w[(k * d + u) * d..][..d], &states[k.min(parts - 1)][b * d..][..d]);
                        row.iter().zip(state).map(|(w, h)| w * h).sum()
                    };
                    let x: Vec<f64> = (0..gates).map(|k| self.gates[gate(k)]).collect();
                    let product = |k: usize| {
                        let bias = self.bias.as_ref().filter(|_| l == 0).map_or(0.0, |bias| bias[k * d + u]);
                        let shortcut = self.shortcut.as_ref().filter(|_| top).map_or(0.0, |w| times(w, &before, k));
                        times(&self.weights[l], &found, k) + shortcut + bias + self.offsets[gate(k)]
                    };
                    let p: Vec<f64> = (0..gates).map(product).collect();
                    let at = b * d + u;
                    (carried[at], output[at]) = cell(self.unit, &x, &p, carried[at]);
                    let consumed = (t + usize::from(top)).min(self.steps - 1);
                    for (p, left) in left.iter_mut().enumerate() {
                        left[at] = output[at] * self.masks.as_ref().map_or(1.0, |m| m[p][consumed * step + at]);
                    }
                }
                found.clone_from(&left);
                if top {
                    out.outputs.extend(&output);
                    out.states.iter_mut().zip(&left).for_each(|(all, left)| all.extend(left));
                    out.carried.extend(&carried);
                    before = left;
                }
            }
        }
        out
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
