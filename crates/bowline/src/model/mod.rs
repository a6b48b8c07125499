//! The model at work: embedding, layers, classifier and loss, strung together for one window.

pub mod adapt;
mod characters;
mod classes;
pub mod classifier;
mod context;
pub mod dropout;
pub mod embedding;
mod features;
mod gatewise;
mod gram;
mod layer;
mod mixture;
mod mogrifier;
mod pass;
mod pointer;
mod projection;
pub mod question;
mod sample;
mod sampled;
mod state;
mod sum;
mod sum_product;
mod trunk;

use crate::batch::Window;
use crate::compute::Compute;
use crate::optim::Touched;
use crate::params::Params;
use crate::spec::ModelSpec;
pub use adapt::Adaptation;
use adapt::ByColumns;
use bowline_kernels::loss::LogSum;
use bowline_kernels::{Buffer, Isa, PackedB, Team};
pub use characters::word_vectors;
pub use classifier::{AugmentedForm, AugmentedLoss, Classifier, WindowLoss, Words};
pub use dropout::{Dropout, KeepProb, Masks, Site, Sites};

use mixture::Mixture;
pub(crate) use mixture::logits_at_a_time;
pub use pass::{Activity, Pass};
pub(crate) use pointer::Outlook;
use pointer::Pointer;
pub use question::Question;
pub use sample::{Sample, Sampler};
use sampled::Sampled;
pub use state::{Part, State};
use trunk::{Down, Trunk};

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
    compute: Compute,
    steps: usize,
    batch: usize,
    trunk: Trunk,
    classifier: Classifier,
    /// In the place of the classifier, where the loss is over a sample of the words.
    sampled: Option<Sampled>,
    pointer: Option<Pointer>,
    mixture: Option<Mixture>,
    /// For the pointer: the classifier's own loss of each word.
    losses: Vec<f64>,
    down: Down,
    scratch: PackedB,
}

impl Network {
    /// Room for windows of at most `steps` by `batch`. The operands of the products with inputs and states and of the
    /// classifier's, forward and back, are rounded as `compute` says; weights, states, sums, the loss and the gradient are f32.
    pub fn new(spec: &ModelSpec, compute: Compute, purpose: Use, steps: usize, batch: usize) -> Network {
        let rows = steps * batch;
        // A mixture has room of its own for its logits.
        let classified = if spec.output.mixture.is_some() { 0 } else { rows };
        let gradient = if purpose == Use::Train { rows * spec.widest() } else { 0 };
        bowline_kernels::make_room(&compute.team);
        Network {
            trunk: Trunk::new(spec, &compute, steps, batch),
            classifier: Classifier::new(&compute, spec, classified),
            sampled: None,
            mixture: Mixture::new(spec, &compute, rows),
            pointer: Pointer::new(spec, &compute, rows),
            losses: Vec::new(),
            down: Down { above: Buffer::zeros(gradient), below: Buffer::zeros(gradient) },
            scratch: PackedB::new(compute.isa, compute.precision),
            compute,
            steps,
            batch,
        }
    }

    /// What the model is made of.
    pub fn spec(&self) -> &ModelSpec {
        &self.trunk.spec
    }

    /// Who computes.
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// The team that works on it.
    pub fn team(&self) -> &Team {
        &self.compute.team
    }

    /// The instruction set it uses.
    pub fn isa(&self) -> Isa {
        self.compute.isa
    }

    /// Room for the next training window's `y~`, (T, B, V), where they are given ([`AugmentedForm::Given`]).
    pub fn given_targets(&mut self, rows: usize) -> &mut [f32] {
        self.classifier.given_targets(rows)
    }

    /// Takes new weights.
    pub fn pack(&mut self, params: &Params, purpose: Use) {
        self.pack_masked(params, purpose, Pass::default());
    }

    /// The same, with the masks of the recurrent matrices.
    pub fn pack_masked(&mut self, params: &Params, purpose: Use, pass: Pass<'_>) {
        let for_backward = purpose == Use::Train;
        self.trunk.pack(params, pass, for_backward);
        if let Some(pointer) = &mut self.pointer {
            pointer.pack(params);
        }
        if let Some(mixture) = &mut self.mixture {
            mixture.pack(params);
        }
        if pass.sample.is_none() {
            self.classifier.pack(&self.compute.team, params, for_backward);
        }
    }

    /// Makes words outside the vocabulary known to a network that reads characters and was packed for evaluation: the `i`th has
    /// the id `V + i` in windows that are read, until others are spelled.
    pub fn spell(&mut self, params: &Params, words: &[String]) {
        if let Some(characters) = &mut self.trunk.characters {
            characters.spell(params, words);
        }
    }

    /// The rows of the gradient that the last window touched, where its loss was over a sample of the words.
    pub fn touched(&self) -> Option<&Touched> {
        self.sampled.as_ref().map(|sampled| &sampled.touched)
    }

    /// Runs the layers over a window, without the classifier; [`Network::hidden`] is what they give.
    pub fn read(&mut self, params: &Params, window: &Window, state: &mut State, masks: Option<&Masks>) {
        self.read_for(params, window, state, Pass { masks, ..Pass::default() });
    }

    fn read_for(&mut self, params: &Params, window: &Window, state: &mut State, pass: Pass<'_>) {
        let shape = (window.steps, window.batch);
        // A window may be of another shape than the buffers, as long as its steps, and the carried one, have room.
        assert!(
            window.batch <= self.batch && window.steps * window.batch <= self.steps * self.batch,
            "the window is larger than the network's room"
        );
        let (words, pointed, parts) = state.split_mut(&self.trunk.spec);
        self.trunk.read(params, window, (words, parts), pass);
        if let Some(pointer) = &mut self.pointer {
            pointer.forward(params, &window.inputs, self.trunk.seen(shape), pointed, shape);
        }
        if let (Some(mixture), Some(projection)) = (&mut self.mixture, &self.trunk.projection) {
            mixture.forward(params, self.trunk.last(shape), projection.output(shape), shape);
        }
    }

    /// What the classifier sees after every word of the window that was read last, or the last layer's output where several
    /// softmaxes see different things: (T, B, [`ModelSpec::hidden`]).
    pub fn hidden(&self, steps: usize, batch: usize) -> &[f32] {
        let shape = (steps, batch);
        if self.mixture.is_some() { self.trunk.last(shape) } else { self.trunk.seen(shape) }
    }

    /// All that the distribution of the next word is computed from, after every word of the window that was read last,
    /// (T, B, [`ModelSpec::outlook`]).
    pub fn outlook(&self, steps: usize, batch: usize) -> &[f32] {
        match (&self.pointer, &self.mixture) {
            (Some(pointer), _) => pointer.outlook((steps, batch)),
            (None, Some(mixture)) => mixture.outlook((steps, batch)),
            (None, None) => self.hidden(steps, batch),
        }
    }

    /// The outlook of one stream in this state.
    pub fn outlook_of(&self, params: &Params, state: &State) -> Vec<f32> {
        let h = self.trunk.last_of(params, state);
        let seen = self.trunk.seen_of(params, state, &h);
        match (&self.pointer, &self.mixture) {
            (Some(pointer), _) => pointer.after(params, state.pointer(&self.trunk.spec), &seen),
            (None, Some(mixture)) => mixture.after(params, &h, &seen),
            (None, None) => seen,
        }
    }

    /// The loss of a window, `J = (1 / B) sum_{t, b} (CE + alpha KL)` (equations 4 and 8; `B` counts the streams of all shards),
    /// as sums over its words, and the gradient of `J` in `gradient`. The weights must have been given to [`Network::pack`].
    pub fn train(
        &mut self,
        params: &Params,
        window: &Window,
        state: &mut State,
        pass: Pass<'_>,
        gradient: &mut Params,
    ) -> WindowLoss {
        self.train_until(params, window, state, pass, gradient, &|| false).unwrap_or_default()
    }

    /// [`Network::train`], given up as soon as `stop` says so; then there is no loss, and state and gradient are void.
    pub fn train_until(
        &mut self,
        params: &Params,
        window: &Window,
        state: &mut State,
        pass: Pass<'_>,
        gradient: &mut Params,
        stop: &dyn Fn() -> bool,
    ) -> Option<WindowLoss> {
        if stop() {
            return None;
        }
        self.read_for(params, window, state, pass);
        if stop() {
            return None;
        }
        let shape = (window.steps, window.batch);
        let loss = self.train_output(params, window, pass, gradient);
        let way = (&mut *gradient, &mut self.down);
        self.trunk.backward_to_last(params, shape, pass, way, &mut self.scratch);
        if let Some(mixture) = &mut self.mixture {
            let (h, d_h) = (self.trunk.last(shape), &mut self.down.above);
            let d_h = &mut d_h[..h.len()];
            mixture.prior_backward((params, h, shape), (gradient, d_h), &mut self.scratch);
        }
        self.trunk.backward(params, window, pass, (gradient, &mut self.down), &mut self.scratch, stop)?;
        Some(loss)
    }

    /// The loss of the window that was read last, with its gradient by the weights of the output and by what it saw.
    fn train_output(&mut self, params: &Params, window: &Window, pass: Pass<'_>, gradient: &mut Params) -> WindowLoss {
        let (rows, shape, spec) = (window.inputs.len(), (window.steps, window.batch), &self.trunk.spec);
        let h = self.trunk.seen(shape);
        let outlook = self.pointer.as_ref().map_or(&[][..], |pointer| pointer.outlook(shape));
        let (scale, augment) = (1.0 / (pass.shards * window.batch) as f32, pass.augment);
        let words = Words { h, targets: &window.targets, scale, augment, outlook };
        let d_h = &mut self.down.above[..rows * (spec.projected() + spec.features())];
        let (team, scratch) = (&self.compute.team, &mut self.scratch);
        let mut loss = match (&mut self.mixture, pass.sample) {
            (Some(mixture), _) => {
                let ce = mixture.train(&self.classifier, params, words, (gradient, d_h), scratch);
                WindowLoss { ce, kl: 0.0 }
            }
            (None, None) => self.classifier.train(team, params, words, d_h, gradient, scratch),
            (None, Some(sample)) => {
                let sampled = self.sampled.get_or_insert_with(|| Sampled::new(&self.compute));
                sampled.train(team, params, (words, &window.inputs, sample), d_h, gradient, scratch)
            }
        };
        if let Some(pointer) = &mut self.pointer {
            self.classifier.cross_entropies(rows, &mut self.losses);
            let mixed = |row: usize| {
                let seen = Outlook::of(&pointer.outlook(shape)[row * spec.outlook()..][..spec.outlook()], spec.width());
                seen.mixed(window.targets[row], self.losses[row])
            };
            loss.ce = (0..rows).map(mixed).sum();
            let learned = (&window.targets[..], &self.losses[..], scale);
            pointer.backward((params, h, shape), learned, (gradient, d_h), scratch);
        }
        loss
    }

    /// `-log y_target` of every word of a window, without dropout, into `nll`.
    pub fn evaluate(&mut self, params: &Params, window: &Window, state: &mut State, nll: &mut [f64]) {
        self.read(params, window, state, None);
        self.classify(params, (window.steps, window.batch), &window.targets, &[1.0], nll);
    }

    /// Reads a window and answers questions about what comes after some of its words. The window's targets are not used.
    pub fn answer(&mut self, params: &Params, window: &Window, state: &mut State, questions: &mut [Question]) {
        let shape = (window.steps, window.batch);
        self.read(params, window, state, None);
        if self.pointer.is_none() && self.mixture.is_none() {
            let h = self.trunk.seen(shape);
            return self.classifier.answer(&self.compute.team, params, h, questions);
        }
        let mut y = vec![0.0; self.trunk.spec.vocab];
        for question in questions {
            let width = self.trunk.spec.outlook();
            let outlooks = self.outlook(window.steps, window.batch);
            self.distributions(params, &outlooks[question.row * width..][..width], 1.0, &mut y);
            y.iter_mut().for_each(|y| *y = y.ln());
            question.answer(&y, None, LogSum { max: 0.0, rest: 0.0 });
        }
    }

    /// `y`, the distribution of the next word, after every word of a window: (T, B, V) into `out`.
    pub fn probabilities(&mut self, params: &Params, window: &Window, state: &mut State, out: &mut [f32]) {
        self.read(params, window, state, None);
        self.distributions(params, self.outlook(window.steps, window.batch), 1.0, out);
    }

    /// `-log y_target` of every word of the window of `(steps, batch)` that was read last, at each of the temperatures:
    /// (T, B, temperatures) into `nll`.
    pub fn classify(
        &mut self,
        params: &Params,
        shape: (usize, usize),
        targets: &[u32],
        temperatures: &[f32],
        nll: &mut [f64],
    ) {
        if let Some(mixture) = &self.mixture {
            let outlooks = mixture.outlook(shape);
            return mixture.evaluate((&self.classifier, params), (outlooks, targets), (temperatures, nll));
        }
        let h = self.trunk.seen(shape);
        self.classifier.evaluate(&self.compute.team, params, h, targets, temperatures, nll);
        let Some(pointer) = &self.pointer else { return };
        let rows = pointer.outlook(shape).chunks_exact(self.trunk.spec.outlook());
        for ((row, &target), nll) in rows.zip(targets).zip(nll.chunks_exact_mut(temperatures.len())) {
            let seen = Outlook::of(row, self.trunk.spec.width());
            nll.iter_mut().for_each(|nll| *nll = seen.mixed(target, *nll));
        }
    }

    /// The distribution that each [outlook](Network::outlook) means: (rows, V) into `out`. A temperature is the classifier's.
    pub fn distributions(&self, params: &Params, outlooks: &[f32], temperature: f32, out: &mut [f32]) {
        if let Some(mixture) = &self.mixture {
            return mixture.distributions((&self.classifier, params), (outlooks, temperature), out);
        }
        if self.pointer.is_none() {
            return self.classifier.probabilities(&self.compute.team, params, outlooks, temperature, out);
        }
        let rows =
            || outlooks.chunks_exact(self.trunk.spec.outlook()).map(|row| Outlook::of(row, self.trunk.spec.width()));
        let h: Vec<f32> = rows().flat_map(|seen| seen.h).copied().collect();
        self.classifier.probabilities(&self.compute.team, params, &h, temperature, out);
        out.chunks_exact_mut(self.trunk.spec.vocab).zip(rows()).for_each(|(y, seen)| seen.mix(y));
    }
}
