//! The oracle: one training window of a recurrent language model in plain f64 loops, forward and backward by hand. It is slow and obviously right; the fast path has to agree with it.
//!
//! The words:
//! - a *window* is `steps` consecutive words of `batch` independent streams; position `(t, b)` lies at `t * batch + b`;
//! - the *state* is what each layer carries for each stream, such as an LSTM's `h` and `c`. The `h` that is carried is the raw
//!   one, without a mask;
//! - a *mask* holds 0 or 1/keep for each step, stream and unit. A mask acts where a vector is consumed: that of a layer's
//!   *state* on the way into the layer's own next step, that of its *output* on the way into the layer above (or the
//!   classifier), so the state carried in meets the mask of the window that consumes it. What else a layer carries is never
//!   masked. In the paper (appendix A of Inan, Khosravi, Socher 2017) all steps of a window share a mask, and state and output
//!   have the same;
//! - the *loss* is the sum over the steps and the mean over the streams of `CE + alpha * KL(y~ || y^)`, with
//!   `alpha = gamma * tau` (equation 3.3 and appendix A);
//! - the weights are one flat vector in the order of the model's layout.
//!
//! Equation numbers are the paper's, counted by section.

// Each test binary that includes the oracle uses a part of it.
#![allow(dead_code)]
// Plain loops over indices, as the equations have them.
#![allow(clippy::needless_range_loop)]

pub mod case;
pub mod characters;
pub mod check;
pub mod classes;
pub mod layout;
pub mod loss;
pub mod mixture;
pub mod pointer;
pub mod sgd;
pub mod sum_product;
pub mod topics;
pub mod unit;

use bowline::spec::{LayerSpec, ModelSpec};
use characters::Spelled;
use layout::Layout;
use loss::{Prediction, log_softmax};
use mixture::Mixed;
use pointer::{Carried, Pointed};
use unit::{Product, Read, Step, activation, slope, sum, times};

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
    /// (T, B, d): on the input word vector.
    pub input: Vec<f64>,
    /// (T, B, d) for each layer: on its `h` where its own next step consumes it.
    pub states: Vec<Vec<f64>>,
    /// (T, B, d) for each layer: on its `h` where the layer above or the classifier consumes it.
    pub outputs: Vec<Vec<f64>>,
    /// (T, B, p): on the projection.
    pub projection: Vec<f64>,
    /// (T, B, d_x) for each layer and gate: on the layer's input where that gate consumes it; or empty.
    pub gate_inputs: Vec<Vec<Vec<f64>>>,
    /// (T, B, d) for each layer and gate, in the place of `states`; or empty.
    pub gate_states: Vec<Vec<Vec<f64>>>,
}

impl Masks {
    /// The paper's: one for the word vectors and one for each layer, (B, d), the same at all steps.
    pub fn held(steps: usize, input: &[f64], layers: &[Vec<f64>]) -> Masks {
        let all = |mask: &[f64]| mask.repeat(steps);
        let layers: Vec<Vec<f64>> = layers.iter().map(|mask| all(mask)).collect();
        let (outputs, projection, none) = (layers.clone(), Vec::new(), Vec::new());
        Masks { input: all(input), states: layers, outputs, projection, gate_inputs: none.clone(), gate_states: none }
    }
}

/// What is carried from one window to the next: (B, d) for each part of each layer, in the order of the fast path's.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The parts of the lowest layer first.
    pub parts: Vec<Vec<f64>>,
}

impl State {
    /// The state at the start of a text.
    pub fn zeros(spec: &ModelSpec, batch: usize) -> State {
        let parts = |layer: &LayerSpec| vec![vec![0.0; batch * layer.units]; layer.state().len()];
        State { parts: spec.layers.iter().flat_map(parts).collect() }
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
    /// `z = W h + b` at each position, (T, B, V); of a mixture of softmaxes, `log P`.
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
    pub spec: &'a ModelSpec,
    /// The words.
    pub window: &'a Window,
    /// The state carried in.
    pub state: &'a State,
    /// The dropout masks; `None` is evaluation.
    pub masks: Option<&'a Masks>,
    /// The augmented loss; `None` is plain cross-entropy.
    pub augment: Option<Augment>,
    /// Activation regularisation: the weights of `T mean(y^2)` and of `T mean((h_t - h_{t-1})^2)`, where `y` is the last layer's
    /// output with its mask and `h` without.
    pub activity: [f64; 2],
    /// `[t * batch + b]`: features beside the word vectors and beside what the classifier sees; empty if there are none.
    pub features: &'a [Vec<f64>],
    /// What a pointer remembers of each stream.
    pub pointed: &'a [Carried],
    /// What is added to the logit of each word when the loss is over a sample of them: minus infinity for those that are not in
    /// it; empty if it is over all.
    pub corrections: &'a [f64],
    /// The symbols of each word of the vocabulary, where words are read by them.
    pub spelling: &'a [Vec<usize>],
    /// The words before the window of each stream, where several are read side by side.
    pub context: &'a [Vec<u32>],
}

/// Everything the forward pass computed.
struct Forward {
    /// `[t * batch + b]`, where words are read by their characters.
    words: Vec<Option<Spelled>>,
    /// `[t * batch + b][layer]`.
    steps: Vec<Vec<Box<dyn Step>>>,
    /// `[t * batch + b]`; of a mixture of softmaxes, there are these instead.
    predictions: Vec<Prediction>,
    mixtures: Vec<Mixed>,
    /// `[t * batch + b]`, where the model has a pointer.
    pointers: Vec<Pointed>,
    /// `[t * batch + b]`: the last layer's output, with its mask, and the projection before its own.
    outputs: Vec<Vec<f64>>,
    projections: Vec<Option<(Product, Vec<f64>)>>,
    state: State,
}

impl Pass<'_> {
    /// The whole pass: forward, loss, backward.
    pub fn run(&self, params: &[f64]) -> Output {
        let forward = self.forward(params, params);
        let positions = (self.window.steps * self.window.batch) as f64;
        let sum = |f: fn(&Prediction) -> f64| forward.predictions.iter().map(f).sum::<f64>();
        let pointed: f64 = forward.pointers.iter().map(Pointed::ce).sum();
        let mixed: f64 = forward.mixtures.iter().map(Mixed::ce).sum();
        let own = if forward.pointers.is_empty() { sum(|p| p.ce) } else { pointed };
        let logits = forward.predictions.iter().flat_map(|p| p.logits.clone());
        Output {
            loss: self.total(&forward),
            mean_ce: (own + mixed) / positions,
            mean_kl: sum(|p| p.kl) / positions,
            logits: logits.chain(forward.mixtures.iter().flat_map(Mixed::log_probabilities)).collect(),
            gradient: self.backward(params, &forward),
            state: forward.state,
        }
    }

    /// The loss alone, with `y~` computed from `target_params` instead of `params`. Holding `target_params` fixed
    /// while `params` moves is what "no gradient through `y~`" means.
    pub fn loss(&self, params: &[f64], target_params: &[f64]) -> f64 {
        self.total(&self.forward(params, target_params))
    }

    /// Equation 3.3, summed over the steps, mean over the streams.
    fn total(&self, forward: &Forward) -> f64 {
        let alpha = self.augment.map_or(0.0, |a| a.alpha());
        let words: f64 = match forward.pointers.as_slice() {
            [] => forward.predictions.iter().map(|p| p.ce + alpha * p.kl).sum(),
            pointers => pointers.iter().map(Pointed::loss).sum(),
        };
        let words = words + forward.mixtures.iter().map(Mixed::ce).sum::<f64>();
        words / self.window.batch as f64 + self.activity_loss(forward)
    }

    fn activity_loss(&self, forward: &Forward) -> f64 {
        if self.activity == [0.0; 2] {
            return 0.0;
        }
        let (steps, batch) = (self.window.steps, self.window.batch);
        let squares = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
        let d = forward.outputs[0].len();
        let size: f64 = forward.outputs.iter().map(|y| squares(y)).sum();
        let h: Vec<Vec<f64>> = (0..steps * batch).map(|at| self.last(forward, at)).collect();
        let change: f64 = (batch..steps * batch)
            .map(|at| squares(&(0..d).map(|k| h[at][k] - h[at - batch][k]).collect::<Vec<_>>()))
            .sum();
        let [ar, tar] = self.activity;
        let changes = ((steps - 1) * batch * d).max(1) as f64;
        ar * size / (batch * d) as f64 + tar * steps as f64 * change / changes
    }

    /// The last layer's `h`, without a mask.
    fn last(&self, forward: &Forward, at: usize) -> Vec<f64> {
        forward.steps[at].last().unwrap().state().swap_remove(0)
    }

    /// The gradient of the activity's loss by the last layer's `h` at a position.
    fn activity_gradient(&self, forward: &Forward, at: usize) -> Vec<f64> {
        let (steps, batch, d) = (self.window.steps, self.window.batch, forward.outputs[at].len());
        let [ar, tar] = self.activity;
        let mask = self.row(|m| &m.outputs[self.spec.layers.len() - 1], at, d);
        let h = |at: usize| self.last(forward, at);
        let by_change = 2.0 * tar * steps as f64 / ((steps - 1) * batch * d).max(1) as f64;
        let mut out =
            times(&forward.outputs[at], &mask).iter().map(|y| 2.0 * ar * y / (batch * d) as f64).collect::<Vec<_>>();
        for k in 0..d {
            if at >= batch {
                out[k] += by_change * (h(at)[k] - h(at - batch)[k]);
            }
            if at + batch < steps * batch {
                out[k] -= by_change * (h(at + batch)[k] - h(at)[k]);
            }
        }
        out
    }

    fn forward(&self, params: &[f64], target_params: &[f64]) -> Forward {
        let layout = Layout::new(self.spec);
        let mut state = self.state.clone();
        let (mut words, mut steps, mut predictions, mut mixtures) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut outputs, mut projections) = (Vec::new(), Vec::new());
        for t in 0..self.window.steps {
            for b in 0..self.window.batch {
                let at = t * self.window.batch + b;
                // Equation 2.1: x_t = L y*_{t-1}, then its mask.
                let characters = self.spec.input.characters.as_ref();
                let word = self.window.inputs[at];
                let spelled = |spec| Spelled::new(&layout, params, spec, &self.spelling[word as usize]);
                let spelled = characters.map(spelled);
                let side_by_side = |word: &Option<u32>| match word {
                    Some(word) => layout.word_vector(params, *word).to_vec(),
                    None => vec![0.0; layout.words],
                };
                let x = match &spelled {
                    Some(word) => word.vector.clone(),
                    None => self.last_words(at).iter().flat_map(side_by_side).collect(),
                };
                let mut below = times(&x, &self.row(|m| &m.input, at, x.len()));
                let features = self.features.get(at).map_or(&[][..], |f| f);
                below.extend(features);
                // Equation 2.2: h_t = f(x_t, h_{t-1}), one layer above the other.
                let (mut column, mut parts) = (Vec::new(), &mut state.parts[..]);
                let mut total = vec![0.0; self.spec.inputs(self.spec.layers.len())];
                for (l, layer) in self.spec.layers.iter().enumerate() {
                    let (of_layer, above) = parts.split_at_mut(layer.state().len());
                    parts = above;
                    let stream = b * layer.units..(b + 1) * layer.units;
                    let before: Vec<Vec<f64>> = of_layer.iter().map(|part| part[stream.clone()].to_vec()).collect();
                    let input_masks = self.by_gate(|m| m.gate_inputs.get(l), at, below.len());
                    let mut masks = self.by_gate(|m| m.gate_states.get(l), at, layer.units);
                    if masks.is_empty() {
                        masks.push(self.row(|m| &m.states[l], at, layer.units));
                    }
                    let read = Read { x: &below, input_masks: &input_masks, state: &before, masks: &masks };
                    let step = unit::step(&layout, layer, l, params, &read);
                    let after = step.state();
                    for (part, values) in of_layer.iter_mut().zip(&after) {
                        part[stream.clone()].copy_from_slice(values);
                    }
                    let mask = self.row(|m| &m.outputs[l], at, layer.units);
                    below = times(&after[0], &mask);
                    if self.spec.output.sum_layers {
                        // The classifier sees the sum of all layers, with the last one's mask.
                        add(&mut total, &after[0]);
                        below = if l + 1 == self.spec.layers.len() { times(&total, &mask) } else { below };
                    }
                    column.push(step);
                }
                outputs.push(below.clone());
                projections.push(self.project(&layout, params, &mut below, at));
                below.extend(features);
                let target = self.window.targets[at];
                if self.spec.output.mixture.is_some() {
                    mixtures.push(Mixed::forward(&layout, params, (&outputs[at], &below), target));
                } else {
                    let augment = self.augment;
                    let mut prediction = Prediction::forward(&layout, params, target_params, below, target, augment);
                    prediction.correct(self.corrections);
                    predictions.push(prediction);
                }
                steps.push(column);
                words.push(spelled);
            }
        }
        let pointers = self.point(&layout, params, &predictions);
        Forward { words, steps, predictions, mixtures, pointers, outputs, projections, state }
    }

    /// The words that are read at a position, oldest first: one, or as many as are read side by side.
    fn last_words(&self, at: usize) -> Vec<Option<u32>> {
        let (batch, count) = (self.window.batch, self.spec.input.context.unwrap_or(1));
        let before = self.context.get(at % batch).into_iter().flatten().copied();
        let so_far = (at % batch..=at).step_by(batch).map(|at| self.window.inputs[at]);
        let all: Vec<Option<u32>> = vec![None; count].into_iter().chain(before.chain(so_far).map(Some)).collect();
        all[all.len() - count..].to_vec()
    }

    /// The pointers, where the model has one: each sees what the classifier saw before.
    fn point(&self, layout: &Layout, params: &[f64], predictions: &[Prediction]) -> Vec<Pointed> {
        let Some(pointer) = self.spec.output.pointer else { return Vec::new() };
        let h: Vec<Vec<f64>> = predictions.iter().map(|p| p.h.clone()).collect();
        let one = |at: usize| {
            let own = log_softmax(&predictions[at].logits)[self.window.targets[at] as usize].exp();
            let carried = &self.pointed[at % self.window.batch];
            Pointed::forward((layout, params), (self.window, carried, pointer.window), &h, (at, own))
        };
        (0..h.len()).map(one).collect()
    }

    /// Back through the window. No gradient leaves through the state that was carried in.
    fn backward(&self, params: &[f64], forward: &Forward) -> Vec<f64> {
        let layout = Layout::new(self.spec);
        let mut gradient = vec![0.0; params.len()];
        // The loss is a mean over the streams, so each position counts 1/B.
        let weight = 1.0 / self.window.batch as f64;
        // What the pointers of later positions do to each of them.
        let h: Vec<Vec<f64>> = forward.predictions.iter().map(|p| p.h.clone()).collect();
        let mut d_h = vec![vec![0.0; self.spec.width()]; h.len()];
        for (at, pointed) in forward.pointers.iter().enumerate() {
            pointed.backward((&layout, params), (&h, at, weight), &mut gradient, &mut d_h);
        }
        for b in 0..self.window.batch {
            // The gradient by each layer's state, unmasked, that comes back from the next step.
            let nothing = |layer: &LayerSpec| vec![vec![0.0; layer.units]; layer.state().len()];
            let mut d_next: Vec<Vec<Vec<f64>>> = self.spec.layers.iter().map(nothing).collect();
            for t in (0..self.window.steps).rev() {
                let at = t * self.window.batch + b;
                let share = forward.pointers.get(at).map_or(1.0, Pointed::share);
                let (by_shares, mut d_above) = match forward.mixtures.get(at) {
                    Some(mixed) => mixed.backward(&layout, params, weight, &mut gradient),
                    None => {
                        let prediction = &forward.predictions[at];
                        let mut d_above = prediction.backward(&layout, params, weight * share, &mut gradient);
                        add(&mut d_above, &d_h[at]);
                        (Vec::new(), d_above)
                    }
                };
                // Features are constants.
                d_above.truncate(self.spec.projected());
                if let Some((product, y)) = &forward.projections[at] {
                    d_above = self.project_back(&layout, params, (product, y), &d_above, at, &mut gradient);
                }
                if !by_shares.is_empty() {
                    add(&mut d_above, &by_shares);
                }
                if self.spec.output.sum_layers {
                    let last = self.spec.layers.len() - 1;
                    let d_sum = times(&d_above, &self.row(|m| &m.outputs[last], at, d_above.len()));
                    (0..last).for_each(|l| add(&mut d_next[l][0], &d_sum));
                }
                if let Some(last) = d_next.last_mut() {
                    add(&mut last[0], &self.activity_gradient(forward, at));
                }
                for (l, layer) in self.spec.layers.iter().enumerate().rev() {
                    // h is consumed above and by the next step.
                    add(&mut d_next[l][0], &times(&d_above, &self.row(|m| &m.outputs[l], at, layer.units)));
                    let (d_x, d_before) = forward.steps[at][l].backward(params, &d_next[l], &mut gradient);
                    (d_above, d_next[l]) = (d_x, d_before);
                }
                let d_x = times(&d_above, &self.row(|m| &m.input, at, self.spec.vectors()));
                match (&forward.words[at], &self.spec.input.characters) {
                    (Some(word), Some(spec)) => word.backward(&layout, params, spec, &d_x, &mut gradient),
                    _ => {
                        for (word, d_x) in self.last_words(at).iter().zip(d_x.chunks(layout.words)) {
                            word.iter().for_each(|&word| add(&mut gradient[layout.word_range(word)], d_x));
                        }
                    }
                }
            }
        }
        gradient
    }

    /// `f(P h + b)` in the place of `h`, with its mask; what the way back needs is returned.
    fn project(&self, layout: &Layout, params: &[f64], h: &mut Vec<f64>, at: usize) -> Option<(Product, Vec<f64>)> {
        let spec = self.spec.output.projection.as_ref()?;
        let product = Product::new(layout.place("projection.weight"), h, &[]);
        let width = self.spec.projected();
        let bias = layout.find("projection.bias").map_or(vec![0.0; width], |bias| params[bias].to_vec());
        let a = sum(&[&product.value(params), &bias]);
        let y: Vec<f64> = a.iter().map(|&a| activation(spec.activation, a)).collect();
        *h = times(&y, &self.row(|m| &m.projection, at, width));
        Some((product, y))
    }

    fn project_back(
        &self,
        layout: &Layout,
        params: &[f64],
        (product, y): (&Product, &[f64]),
        d: &[f64],
        at: usize,
        gradient: &mut [f64],
    ) -> Vec<f64> {
        let f = self.spec.output.projection.as_ref().map_or(Default::default(), |spec| spec.activation);
        let d = times(d, &self.row(|m| &m.projection, at, y.len()));
        let d_a: Vec<f64> = d.iter().zip(y).map(|(d, &y)| d * slope(f, y)).collect();
        if let Some(bias) = layout.find("projection.bias") {
            add(&mut gradient[bias], &d_a);
        }
        product.backward(params, &d_a, gradient)
    }

    /// The `width` values at a position of a layer's masks, gate by gate; none if it has none.
    fn by_gate(&self, masks: impl Fn(&Masks) -> Option<&Vec<Vec<f64>>>, at: usize, width: usize) -> Vec<Vec<f64>> {
        let gates = self.masks.and_then(masks).into_iter().flatten();
        gates.map(|mask| mask[at * width..][..width].to_vec()).collect()
    }

    /// A mask's `width` values at a position; ones without masks.
    fn row(&self, mask: impl Fn(&Masks) -> &Vec<f64>, at: usize, width: usize) -> Vec<f64> {
        let mask = self.masks.map(mask).filter(|mask| !mask.is_empty());
        mask.map_or_else(|| vec![1.0; width], |mask| mask[at * width..][..width].to_vec())
    }
}

/// `to += from`.
fn add(to: &mut [f64], from: &[f64]) {
    assert_eq!(to.len(), from.len());
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}
