//! The oracle: one training window of the variational-dropout LSTM language model in plain f64 loops, forward and
//! backward by hand. It is slow and obviously right; the fast path has to agree with it.
//!
//! The words:
//! - a *window* is `steps` consecutive words of `batch` independent streams; position `(t, b)` lies at `t * batch + b`;
//! - the *state* is each layer's `h` and `c` for each stream. The `h` that is carried is the raw one, without a mask;
//! - a *mask* holds 0 or 1/keep for each stream and unit. One is drawn for the word vectors (`m_x`) and one for each
//!   layer (`m_l`); all steps of a window share them (appendix A of Inan, Khosravi, Socher 2017). A mask acts where a
//!   vector is consumed: `m_l` on the way into the layer's own next step and into the layer above (or the
//!   classifier), so the state carried in meets the mask of the window that consumes it. `c` is never masked;
//! - the *loss* is the sum over the steps and the mean over the streams of `CE + alpha * KL(y~ || y^)`, with
//!   `alpha = gamma * tau` (equation 3.3 and appendix A);
//! - the weights are one flat vector in the order of [`Architecture::tensors`].
//!
//! Equation numbers are the paper's, counted by section.

// Each test binary that includes the oracle uses a part of it.
#![allow(dead_code)]
// Plain loops over indices, as the equations have them.
#![allow(clippy::needless_range_loop)]

pub mod case;
pub mod cell;
pub mod layout;
pub mod loss;
pub mod sgd;

use bowline::architecture::Architecture;
use cell::CellTrace;
use layout::Layout;
use loss::Prediction;

/// The words of one window, `(t, b)` at `t * batch + b`.
#[derive(Clone, Debug)]
pub struct Window {
    /// Number of steps, `T`.
    pub steps: usize,
    /// Number of streams, `B`.
    pub batch: usize,
    /// The word that is read at each position.
    pub inputs: Vec<u32>,
    /// The word that is to be predicted there: the next one of the stream.
    pub targets: Vec<u32>,
}

/// The dropout masks of one window, already scaled: each value is 0 or 1/keep.
#[derive(Clone, Debug)]
pub struct Masks {
    /// `m_x`, (B, d): on the input word vector.
    pub input: Vec<f64>,
    /// `m_l` for each layer, (B, d): on that layer's `h` wherever it is consumed.
    pub layers: Vec<Vec<f64>>,
}

/// What is carried from one window to the next: (B, d) for each layer.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The unmasked `h`.
    pub h: Vec<Vec<f64>>,
    /// The cells.
    pub c: Vec<Vec<f64>>,
}

impl State {
    /// The state at the start of a text.
    pub fn zeros(architecture: Architecture, batch: usize) -> State {
        let zeros = vec![vec![0.0; batch * architecture.hidden]; architecture.layers];
        State { h: zeros.clone(), c: zeros }
    }
}

/// The augmented loss of section 3.
#[derive(Clone, Copy, Debug)]
pub struct Augment {
    /// The temperature.
    pub tau: f64,
    /// The weight of the augmented loss, divided by the temperature.
    pub gamma: f64,
    /// Whether the gradient flows through `y~` into the word vectors; otherwise `y~` counts as a constant.
    pub flow: bool,
}

impl Augment {
    /// The weight of the augmented loss, `alpha = gamma * tau`.
    pub fn alpha(&self) -> f64 {
        self.gamma * self.tau
    }
}

/// What a pass over a window yields.
#[derive(Clone, Debug)]
pub struct Output {
    /// `(1/B) * sum over t, b of (CE + alpha * KL)`: what the gradient belongs to.
    pub loss: f64,
    /// The cross-entropy, mean over all positions.
    pub mean_ce: f64,
    /// `KL(y~ || y^)`, mean over all positions; 0 without the augmented loss.
    pub mean_kl: f64,
    /// `z = W h + b` at each position, (T, B, V).
    pub logits: Vec<f64>,
    /// The gradient of the loss by each weight, in the weights' flat order.
    pub gradient: Vec<f64>,
    /// The state after the window.
    pub state: State,
}

/// All that defines a pass over a window, except the weights.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    /// What the model is made of.
    pub architecture: Architecture,
    /// The words.
    pub window: &'a Window,
    /// The state carried in.
    pub state: &'a State,
    /// The dropout masks; `None` is evaluation.
    pub masks: Option<&'a Masks>,
    /// The augmented loss; `None` is plain cross-entropy.
    pub augment: Option<Augment>,
}

/// Everything the forward pass computed.
struct Forward {
    /// `[t * batch + b][layer]`.
    cells: Vec<Vec<CellTrace>>,
    /// `[t * batch + b]`.
    predictions: Vec<Prediction>,
    state: State,
}

impl Pass<'_> {
    /// The whole pass: forward, loss, backward.
    pub fn run(&self, params: &[f64]) -> Output {
        let forward = self.forward(params, params);
        let positions = (self.window.steps * self.window.batch) as f64;
        let sum = |f: fn(&Prediction) -> f64| forward.predictions.iter().map(f).sum::<f64>();
        Output {
            loss: self.total(&forward.predictions),
            mean_ce: sum(|p| p.ce) / positions,
            mean_kl: sum(|p| p.kl) / positions,
            logits: forward.predictions.iter().flat_map(|p| p.logits.iter().copied()).collect(),
            gradient: self.backward(params, &forward),
            state: forward.state,
        }
    }

    /// The loss alone, with `y~` computed from `target_params` instead of `params`. Holding `target_params` fixed
    /// while `params` moves is what "no gradient through `y~`" means.
    pub fn loss(&self, params: &[f64], target_params: &[f64]) -> f64 {
        self.total(&self.forward(params, target_params).predictions)
    }

    /// Equation 3.3, summed over the steps, mean over the streams.
    fn total(&self, predictions: &[Prediction]) -> f64 {
        let alpha = self.augment.map_or(0.0, |a| a.alpha());
        predictions.iter().map(|p| p.ce + alpha * p.kl).sum::<f64>() / self.window.batch as f64
    }

    fn forward(&self, params: &[f64], target_params: &[f64]) -> Forward {
        let (d, layout) = (self.architecture.hidden, Layout::new(self.architecture));
        let mut state = self.state.clone();
        let (mut cells, mut predictions) = (Vec::new(), Vec::new());
        for t in 0..self.window.steps {
            for b in 0..self.window.batch {
                let (at, stream) = (t * self.window.batch + b, b * d..(b + 1) * d);
                // Equation 2.1: x_t = L y*_{t-1}, then the mask m_x.
                let x = layout.word_vector(params, self.window.inputs[at]);
                let mut below = self.masked_input(b, x);
                // Equation 2.2: h_t = f(x_t, h_{t-1}), one LSTM above the other.
                let mut column = Vec::new();
                for layer in 0..self.architecture.layers {
                    let h_before = self.masked_state(layer, b, &state.h[layer][stream.clone()]);
                    let c_before = &state.c[layer][stream.clone()];
                    let cell = CellTrace::forward(&layout.layers[layer], params, &below, &h_before, c_before);
                    below = self.masked_state(layer, b, &cell.h);
                    state.h[layer][stream.clone()].copy_from_slice(&cell.h);
                    state.c[layer][stream.clone()].copy_from_slice(&cell.c);
                    column.push(cell);
                }
                let target = self.window.targets[at];
                predictions.push(Prediction::forward(&layout, params, target_params, below, target, self.augment));
                cells.push(column);
            }
        }
        Forward { cells, predictions, state }
    }

    /// Back through the window. No gradient leaves through the state that was carried in.
    fn backward(&self, params: &[f64], forward: &Forward) -> Vec<f64> {
        let (a, layout) = (self.architecture, Layout::new(self.architecture));
        let mut gradient = vec![0.0; params.len()];
        // The loss is a mean over the streams, so each position counts 1/B.
        let weight = 1.0 / self.window.batch as f64;
        for b in 0..self.window.batch {
            // The gradient by each layer's raw h and c that comes back from the next step.
            let mut d_h_next = vec![vec![0.0; a.hidden]; a.layers];
            let mut d_c_next = vec![vec![0.0; a.hidden]; a.layers];
            for t in (0..self.window.steps).rev() {
                let at = t * self.window.batch + b;
                let mut d_above = forward.predictions[at].backward(&layout, params, weight, &mut gradient);
                for layer in (0..a.layers).rev() {
                    let cell = &forward.cells[at][layer];
                    // h is consumed above and by the next step, both times through the same mask.
                    let mut d_h = self.masked_state(layer, b, &d_above);
                    add(&mut d_h, &d_h_next[layer]);
                    let back = cell.backward(&layout.layers[layer], params, &d_h, &d_c_next[layer], &mut gradient);
                    d_h_next[layer] = self.masked_state(layer, b, &back.h_before);
                    d_c_next[layer] = back.c_before;
                    d_above = back.x;
                }
                let d_x = self.masked_input(b, &d_above);
                add(&mut gradient[layout.word_range(self.window.inputs[at])], &d_x);
            }
        }
        gradient
    }

    /// `m_x * x` for stream `b`.
    fn masked_input(&self, b: usize, x: &[f64]) -> Vec<f64> {
        self.masks.map_or_else(|| x.to_vec(), |m| times_row(&m.input, b, x))
    }

    /// `m_l * h` for stream `b`.
    fn masked_state(&self, layer: usize, b: usize, h: &[f64]) -> Vec<f64> {
        self.masks.map_or_else(|| h.to_vec(), |m| times_row(&m.layers[layer], b, h))
    }
}

/// Row `b` of a mask times `x`, element by element.
fn times_row(mask: &[f64], b: usize, x: &[f64]) -> Vec<f64> {
    (0..x.len()).map(|k| mask[b * x.len() + k] * x[k]).collect()
}

/// `to += from`.
fn add(to: &mut [f64], from: &[f64]) {
    assert_eq!(to.len(), from.len());
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}
