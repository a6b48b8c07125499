//! The model at work: embedding, LSTM layers, classifier and loss, strung together for one window.

pub mod adapt;
pub mod classifier;
pub mod dropout;
pub mod embedding;
mod gram;
pub mod lstm;
pub mod question;

use crate::architecture::Architecture;
use crate::batch::Window;
use crate::params::Params;
pub use adapt::Adaptation;
use bowline_kernels::{Buffer, Isa, PackedB, Precision, Team};
pub use classifier::{AugmentedForm, AugmentedLoss, Classifier, WindowLoss};
pub use dropout::{KeepProb, Masks};
pub use lstm::{LayerState, Lstm};
pub use question::Question;
use std::sync::Arc;

/// The state of all layers between two windows.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// From below.
    pub layers: Vec<LayerState>,
}

impl State {
    /// The state before the first word.
    pub fn zeros(architecture: Architecture, batch: usize) -> State {
        let zeros = vec![0.0; batch * architecture.hidden];
        State { layers: vec![LayerState { h: zeros.clone(), c: zeros }; architecture.layers] }
    }

    /// Takes the values of another state of the same size.
    pub fn copy_from(&mut self, other: &State) {
        for (to, from) in self.layers.iter_mut().zip(&other.layers) {
            to.h.copy_from_slice(&from.h);
            to.c.copy_from_slice(&from.c);
        }
    }

    /// Back to the state before the first word.
    pub fn reset(&mut self) {
        for layer in &mut self.layers {
            layer.h.fill(0.0);
            layer.c.fill(0.0);
        }
    }
}

/// What a network is for; it decides which buffers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Forward and backward.
    Train,
    /// Forward alone.
    Evaluate,
}

/// The buffers and packed weights of a model for windows of at most `steps` by `batch`. Allocated once; a training step
/// allocates nothing after the first.
pub struct Network {
    architecture: Architecture,
    isa: Isa,
    team: Arc<Team>,
    steps: usize,
    batch: usize,
    /// (T, B, d): the word vectors, masked.
    inputs: Buffer,
    layers: Vec<Lstm>,
    classifier: Classifier,
    /// (T, B, d), twice: the gradient on its way down.
    d_above: Buffer,
    d_below: Buffer,
    /// (B, d).
    unused: Buffer,
    scratch: PackedB,
}

impl Network {
    /// Room for windows of at most `steps` by `batch`.
    pub fn new(
        architecture: Architecture,
        team: Arc<Team>,
        isa: Isa,
        purpose: Use,
        steps: usize,
        batch: usize,
    ) -> Network {
        let d = architecture.hidden;
        let rows = steps * batch;
        let gradient = if purpose == Use::Train { rows * d } else { 0 };
        bowline_kernels::make_room(&team);
        Network {
            architecture,
            isa,
            steps,
            batch,
            inputs: Buffer::zeros(rows * d),
            layers: (0..architecture.layers).map(|_| Lstm::new(isa, team.threads(), d, steps, batch)).collect(),
            classifier: Classifier::new(isa, architecture.vocab, d, rows),
            d_above: Buffer::zeros(gradient),
            d_below: Buffer::zeros(gradient),
            unused: Buffer::zeros(batch * d),
            scratch: PackedB::new(isa, Precision::F32),
            team,
        }
    }

    /// The same with the operands of its products rounded so: of the layers' products with their inputs and states and of
    /// the classifier's, forward and back. Weights, states, sums, the loss and the gradient stay f32. The precision must be
    /// available ([`Precision::available`]).
    pub fn with_precision(mut self, precision: Precision) -> Network {
        let threads = self.team.threads();
        self.layers.iter_mut().for_each(|layer| layer.set_precision(precision, threads));
        self.classifier.set_precision(precision);
        self.scratch = PackedB::new(self.isa, precision);
        self
    }

    /// The team that works on it.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// The team, to share it.
    pub fn shared_team(&self) -> &Arc<Team> {
        &self.team
    }

    /// Room for the next training window's `y~`, (T, B, V), where they are given ([`AugmentedForm::Given`]).
    pub fn given_targets(&mut self, rows: usize) -> &mut [f32] {
        self.classifier.given_targets(rows)
    }

    /// The instruction set it uses.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Takes new weights.
    pub fn pack(&mut self, params: &Params, purpose: Use) {
        let for_backward = purpose == Use::Train;
        for (l, layer) in self.layers.iter_mut().enumerate() {
            layer.pack(&self.team, &params.layer(l), for_backward);
        }
        self.classifier.pack(&self.team, params, for_backward);
    }

    /// Runs the layers over a window; the last one's output is what the classifier sees.
    fn run_layers(&mut self, params: &Params, window: &Window, state: &mut State, masks: Option<&Masks>) {
        let shape = (window.steps, window.batch);
        // A window may be of another shape than the buffers, as long as its steps, and the carried one, have room.
        assert!(
            window.batch <= self.batch && window.steps * window.batch <= self.steps * self.batch,
            "the window is larger than the network's room"
        );
        let rows = window.steps * window.batch;
        let d = self.architecture.hidden;
        let x = &mut self.inputs[..rows * d];
        embedding::forward(params.embedding(), &window.inputs, masks.map(|m| &m.input[..]), d, x);
        for l in 0..self.layers.len() {
            let (below, above) = self.layers.split_at_mut(l);
            let x = below.last().map_or(&self.inputs[..rows * d], |layer| layer.output(shape.0, shape.1));
            let mask = masks.map(|m| &m.states[l][..]);
            above[0].forward(&self.team, params.layer(l).bias, x, &mut state.layers[l], mask, shape);
        }
    }

    fn output(&self, window: &Window) -> &[f32] {
        let below = &self.inputs[..window.inputs.len() * self.architecture.hidden];
        self.layers.last().map_or(below, |layer| layer.output(window.steps, window.batch))
    }

    /// The loss of a window, `J = (1 / B) sum_{t, b} (CE + alpha KL)` (equations 4 and 8), as sums over its words, and the
    /// gradient of `J` in `gradient`. The weights must have been given to [`Network::pack`].
    pub fn train(
        &mut self,
        params: &Params,
        window: &Window,
        state: &mut State,
        masks: Option<&Masks>,
        augment: Option<AugmentedLoss>,
        gradient: &mut Params,
    ) -> WindowLoss {
        self.train_until(params, window, state, masks, augment, gradient, &|| false).unwrap_or_default()
    }

    /// [`Network::train`], given up as soon as `stop` says so; then there is no loss, and state and gradient are void.
    #[allow(clippy::too_many_arguments)]
    pub fn train_until(
        &mut self,
        params: &Params,
        window: &Window,
        state: &mut State,
        masks: Option<&Masks>,
        augment: Option<AugmentedLoss>,
        gradient: &mut Params,
        stop: &dyn Fn() -> bool,
    ) -> Option<WindowLoss> {
        if stop() {
            return None;
        }
        self.run_layers(params, window, state, masks);
        if stop() {
            return None;
        }
        let (d, rows) = (self.architecture.hidden, window.inputs.len());
        let shape = (window.steps, window.batch);
        let below = &self.inputs[..rows * d];
        let h = self.layers.last().map_or(below, |layer| layer.output(shape.0, shape.1));
        let loss = self.classifier.train(
            &self.team,
            params,
            h,
            &window.targets,
            1.0 / window.batch as f32,
            augment,
            &mut self.d_above[..rows * d],
            gradient,
            &mut self.scratch,
        );
        for l in (0..self.layers.len()).rev() {
            if stop() {
                return None;
            }
            let (below, above) = self.layers.split_at_mut(l);
            let x = below.last().map_or(&self.inputs[..rows * d], |layer| layer.output(shape.0, shape.1));
            above[0].backward(
                &self.team,
                &params.layer(l),
                x,
                masks.map(|m| &m.states[l][..]),
                shape,
                &self.d_above[..rows * d],
                &mut gradient.layer_mut(l),
                &mut self.d_below[..rows * d],
                &mut self.scratch,
                &mut self.unused,
            );
            std::mem::swap(&mut self.d_above, &mut self.d_below);
        }
        let mask = masks.map(|m| &m.input[..]);
        embedding::backward(&self.d_above[..rows * d], &window.inputs, mask, d, gradient.embedding_mut());
        Some(loss)
    }

    /// `-log y_target` of every word of a window, without dropout, into `nll`.
    pub fn evaluate(&mut self, params: &Params, window: &Window, state: &mut State, nll: &mut [f64]) {
        self.read(params, window, state, None);
        self.classify(params, (window.steps, window.batch), &window.targets, &[1.0], nll);
    }

    /// Reads a window and answers questions about what comes after some of its words. The window's targets are not used.
    pub fn answer(&mut self, params: &Params, window: &Window, state: &mut State, questions: &mut [Question]) {
        self.run_layers(params, window, state, None);
        let (d, rows) = (self.architecture.hidden, window.inputs.len());
        let below = &self.inputs[..rows * d];
        let h = self.layers.last().map_or(below, |layer| layer.output(window.steps, window.batch));
        self.classifier.answer(&self.team, params, h, questions);
    }

    /// `y`, the distribution of the next word, after every word of a window: (T, B, V) into `out`.
    pub fn probabilities(&mut self, params: &Params, window: &Window, state: &mut State, out: &mut [f32]) {
        self.read(params, window, state, None);
        self.distributions(params, self.output(window), 1.0, out);
    }

    /// Runs the layers over a window, without the classifier; [`Network::hidden`] is what they give.
    pub fn read(&mut self, params: &Params, window: &Window, state: &mut State, masks: Option<&Masks>) {
        self.run_layers(params, window, state, masks);
    }

    /// What the classifier sees after every word of the window that was read last, (T, B, d).
    pub fn hidden(&self, steps: usize, batch: usize) -> &[f32] {
        let below = &self.inputs[..steps * batch * self.architecture.hidden];
        self.layers.last().map_or(below, |layer| layer.output(steps, batch))
    }

    /// `-log y_target` of every word of the window of `(steps, batch)` that was read last, at each of the temperatures:
    /// (T, B, temperatures) into `nll`.
    pub fn classify(
        &mut self,
        params: &Params,
        (steps, batch): (usize, usize),
        targets: &[u32],
        temperatures: &[f32],
        nll: &mut [f64],
    ) {
        let below = &self.inputs[..steps * batch * self.architecture.hidden];
        let h = self.layers.last().map_or(below, |layer| layer.output(steps, batch));
        self.classifier.evaluate(&self.team, params, h, targets, temperatures, nll);
    }

    /// The distribution that each row of `h` (rows, d) means at a temperature: (rows, V) into `out`.
    pub fn distributions(&self, params: &Params, h: &[f32], temperature: f32, out: &mut [f32]) {
        self.classifier.probabilities(&self.team, params, h, temperature, out);
    }
}
