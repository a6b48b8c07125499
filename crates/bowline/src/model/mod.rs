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
mod pointer;
mod projection;
pub mod question;
mod sample;
mod sampled;
mod state;
mod sum;
mod sum_product;

use crate::batch::Window;
use crate::compute::Compute;
use crate::optim::Touched;
use crate::params::Params;
use crate::spec::ModelSpec;
pub use adapt::Adaptation;
use adapt::ByColumns;
use bowline_kernels::loss::LogSum;
use bowline_kernels::{Buffer, Isa, PackedB, Team};
use characters::Characters;
pub use characters::word_vectors;
pub use classifier::{AugmentedForm, AugmentedLoss, Classifier, WindowLoss, Words};
use context::Context;
use dropout::there;
pub use dropout::{Dropout, KeepProb, Masks, Site, Sites};
use features::{Features, without_features};
pub use layer::Activity;
use layer::{Backward, Layer, LayerMasks};
use mixture::Mixture;
pub(crate) use mixture::logits_at_a_time;
pub(crate) use pointer::Outlook;
use pointer::Pointer;
use projection::Projection;
pub use question::Question;
pub use sample::{Sample, Sampler};
use sampled::Sampled;
pub use state::{Part, State};
use sum::Sum;

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
    spec: ModelSpec,
    compute: Compute,
    steps: usize,
    batch: usize,
    /// (T, B, d): the word vectors, masked; or those of several words side by side.
    inputs: Buffer,
    characters: Option<Characters>,
    context: Option<Context>,
    features: Option<Features>,
    layers: Vec<Layer>,
    sum: Option<Sum>,
    projection: Option<Projection>,
    classifier: Classifier,
    /// In the place of the classifier, where the loss is over a sample of the words.
    sampled: Option<Sampled>,
    pointer: Option<Pointer>,
    mixture: Option<Mixture>,
    /// For the pointer: the classifier's own loss of each word.
    losses: Vec<f64>,
    /// (T, B, d), twice: the gradient on its way down.
    d_above: Buffer,
    d_below: Buffer,
    scratch: PackedB,
}

/// What a window is read with, besides the weights and the words: the dropout masks and the augmented loss, where there are
/// any.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// The masks of the window.
    pub masks: Option<&'a Masks>,
    /// The augmented loss.
    pub augment: Option<AugmentedLoss>,
    /// What the last layer's activity costs.
    pub activity: Activity,
    /// The words that the loss is computed over, where it is not the whole vocabulary. No augmented loss, pointer, mixture or
    /// shards then.
    pub sample: Option<&'a Sample>,
    /// The window is one of so many equal shards of a batch, whose loss is the sum of theirs.
    pub shards: usize,
}

impl Default for Pass<'_> {
    fn default() -> Self {
        Pass { masks: None, augment: None, activity: Activity::default(), sample: None, shards: 1 }
    }
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
            inputs: Buffer::zeros(rows * spec.vectors()),
            characters: Characters::new(spec, &compute, rows),
            context: Context::new(spec),
            features: Features::new(spec, rows),
            layers: (0..spec.layers.len()).map(|l| Layer::new(spec, l, &compute, steps, batch)).collect(),
            sum: Sum::new(spec, &compute, rows),
            projection: Projection::new(spec, &compute, rows),
            classifier: Classifier::new(&compute, spec, classified),
            sampled: None,
            mixture: Mixture::new(spec, &compute, rows),
            pointer: Pointer::new(spec, &compute, rows),
            losses: Vec::new(),
            d_above: Buffer::zeros(gradient),
            d_below: Buffer::zeros(gradient),
            scratch: PackedB::new(compute.isa, compute.precision),
            spec: spec.clone(),
            compute,
            steps,
            batch,
        }
    }

    /// What the model is made of.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
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
        if let Some(characters) = &mut self.characters {
            characters.pack(params, for_backward);
        }
        for (l, layer) in self.layers.iter_mut().enumerate() {
            layer.pack(params, pass.of_layer(l, &self.spec), for_backward);
        }
        if let Some(projection) = &mut self.projection {
            projection.pack(params);
        }
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
        if let Some(characters) = &mut self.characters {
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
        let (d, rows) = (self.spec.input.width, shape.0 * shape.1);
        let x = &mut self.inputs[..rows * self.spec.vectors()];
        let (mut words, pointed, mut parts) = state.split_mut(&self.spec);
        match (&mut self.characters, &mut self.context, &mut words) {
            (Some(characters), ..) => characters.forward(params, &window.inputs, pass.masks, x),
            (_, Some(context), Some(words)) => context.forward(params.embedding(), &window.inputs, words, shape, x),
            _ => embedding::forward(params.embedding(), &window.inputs, pass.masks, d, x),
        }
        self.read_features(params, window, words);
        for l in 0..self.layers.len() {
            let (of_layer, above) = parts.split_at_mut(self.spec.layers[l].state().len());
            parts = above;
            let (below, layers) = self.layers.split_at_mut(l);
            let x = below.last().map_or(bottom(&self.features, &self.inputs), |layer| layer.output(shape));
            layers[0].forward(params, x, of_layer, pass.of_layer(l, &self.spec), shape);
        }
        if let Some(sum) = &mut self.sum {
            sum.forward(&self.layers, pass.of_sum(), shape);
        }
        if let Some(projection) = &mut self.projection {
            let h = last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape);
            projection.forward(params, h, pass.of_projection().output, shape);
        }
        self.add_features(shape);
        if let Some(pointer) = &mut self.pointer {
            let h = seen(
                &self.features,
                &self.projection,
                last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape),
                shape,
            );
            pointer.forward(params, &window.inputs, h, pointed, shape);
        }
        if let (Some(mixture), Some(projection)) = (&mut self.mixture, &self.projection) {
            let h = last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape);
            mixture.forward(params, h, projection.output(shape), shape);
        }
    }

    /// The features of the window beside its word vectors, where the model has any.
    fn read_features(&mut self, params: &Params, window: &Window, words: Option<&mut Part>) {
        if let (Some(features), Some(topics), Some(words)) = (&mut self.features, params.topics(), words) {
            let rows = window.inputs.len();
            features.read(topics, window, words);
            features.beside_inputs(&self.inputs[..rows * self.spec.input.width], rows);
        }
    }

    /// The features of the window beside what the classifier sees.
    fn add_features(&mut self, shape: (usize, usize)) {
        if let Some(features) = &mut self.features {
            let rows = shape.0 * shape.1;
            let h = seen(
                &None,
                &self.projection,
                last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape),
                shape,
            );
            features.beside_seen(&h[..rows * self.spec.projected()], rows);
        }
    }

    /// What the classifier sees after every word of the window that was read last, or the last layer's output where several
    /// softmaxes see different things: (T, B, [`ModelSpec::hidden`]).
    pub fn hidden(&self, steps: usize, batch: usize) -> &[f32] {
        let shape = (steps, batch);
        if self.mixture.is_some() {
            return last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape);
        }
        seen(
            &self.features,
            &self.projection,
            last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape),
            shape,
        )
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
        let h = self.last_of(params, state);
        let seen = self.seen_of(params, state, &h);
        match (&self.pointer, &self.mixture) {
            (Some(pointer), _) => pointer.after(params, state.pointer(&self.spec), &seen),
            (None, Some(mixture)) => mixture.after(params, &h, &seen),
            (None, None) => seen,
        }
    }

    /// What the last layer gave, or all together, of one stream in this state; without layers, the words side by side.
    fn last_of(&self, params: &Params, state: &State) -> Vec<f32> {
        let layers = self.spec.layers.len();
        if let (0, Some(_), Some(words)) = (layers, &self.context, state.parts.first()) {
            return context::after(params.embedding(), self.spec.input.width, words);
        }
        let summed = if self.sum.is_some() { layers } else { 1 };
        let mut h = vec![0.0; self.spec.inputs(layers)];
        for part in (layers.saturating_sub(summed)..layers).filter_map(|l| state.part(&format!("h_l{l}"))) {
            h.iter_mut().zip(&part.values).for_each(|(sum, h)| *sum += h);
        }
        h
    }

    /// What the classifier sees of one stream in this state, whose last layer gave `h`.
    fn seen_of(&self, params: &Params, state: &State, h: &[f32]) -> Vec<f32> {
        let mut seen = self.projection.as_ref().map_or_else(|| h.to_vec(), |projection| projection.of(params, h));
        if let (Some(topics), Some(words)) = (params.topics(), state.parts.first()) {
            seen.extend(features::after(topics, self.spec.features(), words));
        }
        seen
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
        let (rows, shape) = (window.inputs.len(), (window.steps, window.batch));
        let h = seen(
            &self.features,
            &self.projection,
            last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape),
            shape,
        );
        let outlook = self.pointer.as_ref().map_or(&[][..], |pointer| pointer.outlook(shape));
        let (scale, augment) = (1.0 / (pass.shards * window.batch) as f32, pass.augment);
        let words = Words { h, targets: &window.targets, scale, augment, outlook };
        let d_h = &mut self.d_above[..rows * (self.spec.projected() + self.spec.features())];
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
            let width = self.spec.outlook();
            let mixed = |row: usize| {
                let seen = Outlook::of(&pointer.outlook(shape)[row * width..][..width], self.spec.width());
                seen.mixed(window.targets[row], self.losses[row])
            };
            loss.ce = (0..rows).map(mixed).sum();
            let learned = (&window.targets[..], &self.losses[..], scale);
            pointer.backward((params, h, shape), learned, (gradient, d_h), &mut self.scratch);
        }
        let projected = self.spec.projected();
        without_features(&mut self.d_above, rows, projected + self.spec.features(), projected);
        if let Some(projection) = &self.projection {
            let back = Backward {
                params,
                x: last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape),
                masks: pass.of_projection(),
                shape,
                d_output: &mut self.d_above[..rows * projected],
                d_raw: None,
            };
            let d_h = &mut self.d_below[..rows * self.spec.inputs(self.layers.len())];
            projection.backward(back, gradient, d_h, &mut self.scratch);
            if let Some(mixture) = &mut self.mixture {
                let h = last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape);
                mixture.prior_backward((params, h, shape), (gradient, d_h), &mut self.scratch);
            }
            std::mem::swap(&mut self.d_above, &mut self.d_below);
        }
        if let Some(sum) = &mut self.sum {
            sum.backward(&mut self.d_above[..rows * self.spec.inputs(self.layers.len())], pass.of_sum(), shape);
        }
        for l in (0..self.layers.len()).rev() {
            if stop() {
                return None;
            }
            // Above the last layer there is the sum alone.
            let above_is_sum = l + 1 == self.layers.len();
            let (below, above) = self.layers.split_at_mut(l);
            let back = Backward {
                params,
                x: below.last().map_or(bottom(&self.features, &self.inputs), |layer| layer.output(shape)),
                masks: pass.of_layer(l, &self.spec),
                shape,
                d_output: &mut self.d_above[..rows * self.spec.layers[l].units],
                d_raw: self.sum.as_ref().filter(|_| !above_is_sum).map(|sum| sum.gradient(shape)),
            };
            let d_x = &mut self.d_below[..rows * self.spec.inputs(l)];
            above[0].backward(back, gradient, d_x, &mut self.scratch);
            std::mem::swap(&mut self.d_above, &mut self.d_below);
        }
        let (d, vectors) = (self.spec.input.width, self.spec.vectors());
        without_features(&mut self.d_above, rows, self.spec.inputs(0), vectors);
        let d_x = &self.d_above[..rows * vectors];
        match (&mut self.characters, &self.context) {
            (Some(characters), _) => characters.backward(params, (d_x, pass.masks), gradient, &mut self.scratch),
            (None, Some(context)) => context.backward(d_x, shape, gradient.embedding_mut()),
            (None, None) => embedding::backward(d_x, &window.inputs, pass.masks, d, gradient.embedding_mut()),
        }
        Some(loss)
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
            let h = seen(
                &self.features,
                &self.projection,
                last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape),
                shape,
            );
            return self.classifier.answer(&self.compute.team, params, h, questions);
        }
        let mut y = vec![0.0; self.spec.vocab];
        for question in questions {
            let width = self.spec.outlook();
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
        let h = seen(
            &self.features,
            &self.projection,
            last(&self.sum, &self.layers, (&self.inputs, self.spec.vectors()), shape),
            shape,
        );
        self.classifier.evaluate(&self.compute.team, params, h, targets, temperatures, nll);
        let Some(pointer) = &self.pointer else { return };
        let rows = pointer.outlook(shape).chunks_exact(self.spec.outlook());
        for ((row, &target), nll) in rows.zip(targets).zip(nll.chunks_exact_mut(temperatures.len())) {
            let seen = Outlook::of(row, self.spec.width());
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
        let rows = || outlooks.chunks_exact(self.spec.outlook()).map(|row| Outlook::of(row, self.spec.width()));
        let h: Vec<f32> = rows().flat_map(|seen| seen.h).copied().collect();
        self.classifier.probabilities(&self.compute.team, params, &h, temperature, out);
        out.chunks_exact_mut(self.spec.vocab).zip(rows()).for_each(|(y, seen)| seen.mix(y));
    }
}

/// What the classifier sees: the projection, or the last layer, with the features beside it. (Not a method of the network, whose
/// other parts can then be used at the same time.)
fn seen<'a>(
    features: &'a Option<Features>,
    projection: &'a Option<Projection>,
    last: &'a [f32],
    shape: (usize, usize),
) -> &'a [f32] {
    match (features, projection) {
        (Some(features), _) => features.seen(shape),
        (None, Some(projection)) => projection.output(shape),
        (None, None) => last,
    }
}

/// What the last layer gives, or the sum of all, or what is below them.
fn last<'a>(
    sum: &'a Option<Sum>,
    layers: &'a [Layer],
    (inputs, width): (&'a [f32], usize),
    shape: (usize, usize),
) -> &'a [f32] {
    match (sum, layers.last()) {
        (Some(sum), _) => sum.output(shape),
        (None, Some(layer)) => layer.output(shape),
        (None, None) => &inputs[..shape.0 * shape.1 * width],
    }
}

/// What the first layer reads: word vectors, with the features beside them.
fn bottom<'a>(features: &'a Option<Features>, inputs: &'a [f32]) -> &'a [f32] {
    features.as_ref().map_or(inputs, Features::inputs)
}

impl<'a> Pass<'a> {
    /// The masks of layer `l`: in the paper's scheme one for both places where its state is consumed. Where the classifier sees the
    /// sum of all layers, the last one's output has no mask of its own.
    fn of_layer(&self, l: usize, spec: &ModelSpec) -> LayerMasks<'a> {
        let (top, sum) = (l + 1 == spec.layers.len(), spec.output.sum_layers);
        let masks = self.of_one(l, spec.layers.len());
        let output = masks.output.filter(|_| !(top && sum));
        LayerMasks { output, apart: masks.apart || sum, raw: sum, ..masks }
    }

    /// The mask of the sum of all layers: that of the last one's output.
    fn of_sum(&self) -> Option<&'a [f32]> {
        self.masks.and_then(|masks| masks.outputs.last().or(masks.states.last())).and_then(|mask| there(mask))
    }

    fn of_one(&self, l: usize, layers: usize) -> LayerMasks<'a> {
        let activity = if l + 1 == layers { self.activity.divided(self.shards) } else { Activity::default() };
        let Some(masks) = self.masks else {
            return LayerMasks { activity, apart: activity != Activity::default(), ..LayerMasks::default() };
        };
        let (state, weights) = (there(&masks.states[l]), masks.weights.get(l).map_or(&[][..], |weights| weights));
        let paper = LayerMasks { state, output: state, weights, activity, ..LayerMasks::default() };
        let Some(output) = masks.outputs.get(l) else { return paper };
        // A mask for each gate of the layer that consumes a vector is that layer's affair.
        let by_gate = |site: Site| masks.per_gate.contains(site);
        let (site, below) = if l == 0 { (Site::Input, &masks.input) } else { (Site::Between, &masks.outputs[l - 1]) };
        LayerMasks {
            input: there(below).filter(|_| by_gate(site)),
            per_gate: state.is_some() && by_gate(Site::State),
            output: there(output).filter(|_| l + 1 == layers || !by_gate(Site::Between)),
            apart: true,
            ..paper
        }
    }

    /// The mask of the projection, as that of an output.
    fn of_projection(&self) -> LayerMasks<'a> {
        LayerMasks { output: self.masks.and_then(|m| there(&m.projection)), ..LayerMasks::default() }
    }
}
