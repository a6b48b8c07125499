//! The trunk of a network, from the words of a window to what the classifier sees: word vectors, layers, their sum and the
//! projection, with the features of topics beside both ends. Forward, then backward.

use super::characters::Characters;
use super::context::{self, Context};
use super::embedding;
use super::features::{self, Features, without_features};
use super::layer::{Backward, Layer, Shape};
use super::pass::Pass;
use super::projection::Projection;
use super::state::{Part, State};
use super::sum::Sum;
use crate::batch::Window;
use crate::compute::Compute;
use crate::params::Params;
use crate::spec::ModelSpec;
use bowline_kernels::{Buffer, PackedB};

/// The parts, each with its buffers and packed weights.
pub(super) struct Trunk {
    pub(super) spec: ModelSpec,
    /// (T, B, d): the word vectors, masked; or those of several words side by side.
    pub(super) inputs: Buffer,
    pub(super) characters: Option<Characters>,
    context: Option<Context>,
    features: Option<Features>,
    pub(super) layers: Vec<Layer>,
    sum: Option<Sum>,
    pub(super) projection: Option<Projection>,
}

/// The gradient on its way down, (T, B, d), and room for the next one.
pub(super) struct Down {
    pub above: Buffer,
    pub below: Buffer,
}

impl Down {
    pub(super) fn swap(&mut self) {
        std::mem::swap(&mut self.above, &mut self.below);
    }
}

impl Trunk {
    pub(super) fn new(spec: &ModelSpec, compute: &Compute, steps: usize, batch: usize) -> Trunk {
        let rows = steps * batch;
        Trunk {
            inputs: Buffer::zeros(rows * spec.vectors()),
            characters: Characters::new(spec, compute, rows),
            context: Context::new(spec),
            features: Features::new(spec, rows),
            layers: (0..spec.layers.len()).map(|l| Layer::new(spec, l, compute, steps, batch)).collect(),
            sum: Sum::new(spec, compute, rows),
            projection: Projection::new(spec, compute, rows),
            spec: spec.clone(),
        }
    }

    /// Takes new weights.
    pub(super) fn pack(&mut self, params: &Params, pass: Pass<'_>, for_backward: bool) {
        if let Some(characters) = &mut self.characters {
            characters.pack(params, for_backward);
        }
        for (l, layer) in self.layers.iter_mut().enumerate() {
            layer.pack(params, pass.of_layer(l, &self.spec), for_backward);
        }
        if let Some(projection) = &mut self.projection {
            projection.pack(params);
        }
    }

    /// Reads a window. `words` is what the state remembers of the words before it, `parts` what the layers carry.
    pub(super) fn read(
        &mut self,
        params: &Params,
        window: &Window,
        (mut words, mut parts): (Option<&mut Part>, &mut [Part]),
        pass: Pass<'_>,
    ) {
        let shape = (window.steps, window.batch);
        let x = &mut self.inputs[..shape.0 * shape.1 * self.spec.vectors()];
        match (&mut self.characters, &mut self.context, &mut words) {
            (Some(characters), ..) => characters.forward(params, &window.inputs, pass.masks, x),
            (_, Some(context), Some(words)) => context.forward(params.embedding(), &window.inputs, words, shape, x),
            _ => embedding::forward(params.embedding(), &window.inputs, pass.masks, self.spec.input.width, x),
        }
        self.read_features(params, window, words);
        for l in 0..self.layers.len() {
            let (of_layer, above) = parts.split_at_mut(self.spec.layers[l].state().len());
            parts = above;
            let masks = pass.of_layer(l, &self.spec);
            let (layer, x) = self.layer(l, shape);
            layer.forward(params, x, of_layer, masks, shape);
        }
        if let Some(sum) = &mut self.sum {
            sum.forward(&self.layers, pass.of_sum(), shape);
        }
        if let Some(mut projection) = self.projection.take() {
            projection.forward(params, self.last(shape), pass.of_projection().output, shape);
            self.projection = Some(projection);
        }
        self.add_features(shape);
    }

    /// The features of the window beside its word vectors, where the model has any.
    pub(super) fn read_features(&mut self, params: &Params, window: &Window, words: Option<&mut Part>) {
        if let (Some(features), Some(topics), Some(words)) = (&mut self.features, params.topics(), words) {
            let rows = window.inputs.len();
            features.read(topics, window, words);
            features.beside_inputs(&self.inputs[..rows * self.spec.input.width], rows);
        }
    }

    /// The features of the window beside what the classifier sees.
    pub(super) fn add_features(&mut self, shape: Shape) {
        if let Some(mut features) = self.features.take() {
            let rows = shape.0 * shape.1;
            features.beside_seen(&self.seen(shape)[..rows * self.spec.projected()], rows);
            self.features = Some(features);
        }
    }

    /// Layer `l` and what it reads: the layer below, or word vectors with the features beside them.
    pub(super) fn layer(&mut self, l: usize, shape: Shape) -> (&mut Layer, &[f32]) {
        let (below, layers) = self.layers.split_at_mut(l);
        let bottom = self.features.as_ref().map_or(&self.inputs[..], Features::inputs);
        (&mut layers[0], below.last().map_or(bottom, |layer| layer.output(shape)))
    }

    /// What the last layer gives, or the sum of all, or what is below them: (T, B, d).
    pub(super) fn last(&self, shape: Shape) -> &[f32] {
        match (&self.sum, self.layers.last()) {
            (Some(sum), _) => sum.output(shape),
            (None, Some(layer)) => layer.output(shape),
            (None, None) => &self.inputs[..shape.0 * shape.1 * self.spec.vectors()],
        }
    }

    /// What the classifier sees: the projection, or the last layer, with the features beside it.
    pub(super) fn seen(&self, shape: Shape) -> &[f32] {
        match (&self.features, &self.projection) {
            (Some(features), _) => features.seen(shape),
            (None, Some(projection)) => projection.output(shape),
            (None, None) => self.last(shape),
        }
    }

    /// What the last layer gave, or all together, of one stream in this state; without layers, the words side by side.
    pub(super) fn last_of(&self, params: &Params, state: &State) -> Vec<f32> {
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
    pub(super) fn seen_of(&self, params: &Params, state: &State, h: &[f32]) -> Vec<f32> {
        let mut seen = self.projection.as_ref().map_or_else(|| h.to_vec(), |projection| projection.of(params, h));
        if let (Some(topics), Some(words)) = (params.topics(), state.parts.first()) {
            seen.extend(features::after(topics, self.spec.features(), words));
        }
        seen
    }

    /// From the gradient by what the classifier saw to that by [`Trunk::last`], both `down.above`.
    pub(super) fn backward_to_last(
        &self,
        params: &Params,
        shape: Shape,
        pass: Pass<'_>,
        (gradient, down): (&mut Params, &mut Down),
        scratch: &mut PackedB,
    ) {
        let (rows, projected) = (shape.0 * shape.1, self.spec.projected());
        without_features(&mut down.above, rows, projected + self.spec.features(), projected);
        if let Some(projection) = &self.projection {
            let back = Backward {
                params,
                x: self.last(shape),
                masks: pass.of_projection(),
                shape,
                d_output: &mut down.above[..rows * projected],
                d_raw: None,
            };
            let d_h = &mut down.below[..rows * self.spec.inputs(self.layers.len())];
            projection.backward(back, gradient, d_h, scratch);
            down.swap();
        }
    }

    /// From there to the gradient of all weights below. None if `stop` says so: then the gradient is void.
    pub(super) fn backward(
        &mut self,
        params: &Params,
        window: &Window,
        pass: Pass<'_>,
        (gradient, down): (&mut Params, &mut Down),
        scratch: &mut PackedB,
        stop: &dyn Fn() -> bool,
    ) -> Option<()> {
        let (rows, shape) = (window.inputs.len(), (window.steps, window.batch));
        if let Some(sum) = &mut self.sum {
            sum.backward(&mut down.above[..rows * self.spec.inputs(self.layers.len())], pass.of_sum(), shape);
        }
        // Above the last layer there is the sum alone.
        let sum = self.sum.take();
        for l in (0..self.layers.len()).rev() {
            if stop() {
                self.sum = sum;
                return None;
            }
            let d_raw = sum.as_ref().filter(|_| l + 1 < self.layers.len()).map(|sum| sum.gradient(shape));
            let (masks, units) = (pass.of_layer(l, &self.spec), self.spec.layers[l].units);
            let d_x = &mut down.below[..rows * self.spec.inputs(l)];
            let (layer, x) = self.layer(l, shape);
            let d_output = &mut down.above[..rows * units];
            layer.backward(Backward { params, x, masks, shape, d_output, d_raw }, gradient, d_x, scratch);
            down.swap();
        }
        self.sum = sum;
        let (d, vectors) = (self.spec.input.width, self.spec.vectors());
        without_features(&mut down.above, rows, self.spec.inputs(0), vectors);
        let d_x = &down.above[..rows * vectors];
        match (&mut self.characters, &self.context) {
            (Some(characters), _) => characters.backward(params, (d_x, pass.masks), gradient, scratch),
            (None, Some(context)) => context.backward(d_x, shape, gradient.embedding_mut()),
            (None, None) => embedding::backward(d_x, &window.inputs, pass.masks, d, gradient.embedding_mut()),
        }
        Some(())
    }
}
