//! A model that learns from the text it is being evaluated on: *dynamic evaluation* (Mikolov et al. 2010; Krause et al.,
//! "Dynamic evaluation of neural sequence models", 2018).
//!
//! A *segment* is a few words of one stream. Its words are scored first; then the weights take a step along the gradient of
//! that loss, and a step back towards their trained values: with `r` the root mean square of each weight's gradient on the
//! training text and `r_mean` its mean over all weights,
//!
//! `theta <- theta + min(lambda r / r_mean, 1) (theta_0 - theta) - eta g / (r + epsilon r_mean)`
//!
//! (Krause et al., equations 5 to 8; the plain form has `theta <- theta + lambda (theta_0 - theta) - eta g`). Dropout is
//! off, nothing is clipped, and the state goes on as the weights before the step computed it.
//!
//! The layers take their step at once. The classifier's is put off until the next segment is read, when its matrix has to be
//! gone through anyway ([`bowline_kernels::adapt`]); whoever wants to see the weights before that calls
//! [`Adaptation::finish`].

use super::features::without_features;
use super::pass::LayerMasks;
use super::{Network, State};
use crate::batch::Window;
use crate::params::Params;
use bowline_kernels::adapt::{self, Classifier, Columns, Pending, Reading, Rule, Scale, Weights};
use bowline_kernels::{Buffer, Isa, Team};
use std::ops::Range;

/// Room for a product with a matrix as it lies, `W X^T`.
pub(super) struct ByColumns {
    /// `X^T`, (d, T).
    pub(super) states: Columns,
    /// The result: a row for each row of the matrix, and a column for each step and some more ([`Columns::stride`]).
    pub(super) values: Buffer,
}

impl ByColumns {
    fn new(isa: Isa) -> ByColumns {
        ByColumns { states: Columns::new(isa), values: Buffer::new() }
    }

    /// `w X^T`, plus `start` in each column, for `x` (T, d).
    pub(super) fn product(&mut self, team: &Team, w: &[f32], x: &[f32], d: usize, start: Option<&[f32]>) {
        self.states.take(x, d);
        self.values.resize(w.len() / d * self.states.stride());
        adapt::product(team, w, &self.states, start, &mut self.values);
    }

    /// The transpose of `rows`, (T, width), for as many steps as the last product had.
    pub(super) fn columns_of(&mut self, rows: &[f32], width: usize) -> &[f32] {
        let stride = self.states.stride();
        self.values.resize(width * stride);
        for (t, row) in rows.chunks_exact(width).enumerate() {
            self.values[t..].iter_mut().step_by(stride).zip(row).for_each(|(to, x)| *to = *x);
        }
        &self.values
    }
}

/// What moves the weights, and the room it needs. The trained weights in it never change.
pub struct Adaptation {
    trained: Params,
    /// One for each weight.
    scale: Option<Vec<Scale>>,
    rule: Rule,
    /// (T, d): what the classifier saw of the last segment.
    h: Buffer,
    /// A row for each word of the vocabulary: the logits of the last segment.
    z: ByColumns,
    /// A row for each gate of a layer's units: before their activation, then the gradient by it.
    gates: ByColumns,
    log_sums: Vec<f64>,
    /// (T, d): the gradient by what the classifier saw.
    d_h: Vec<f32>,
    room: Buffer,
    pending: Option<Left>,
    /// The rows of an untied embedding that have moved.
    moved: Vec<u32>,
    has_moved: Vec<bool>,
}

/// What the last segment has left for the classifier to do.
struct Left {
    /// (T, d): what the classifier saw.
    h: Vec<f32>,
    targets: Vec<u32>,
    minus_log_sums: Vec<f32>,
    /// The words of a tied embedding that were read, and the gradient by what they were read as.
    inputs: Vec<u32>,
    d_inputs: Vec<f32>,
}

impl Left {
    fn pending(&self) -> Pending<'_> {
        let Left { h, targets, minus_log_sums, inputs, d_inputs } = self;
        Pending { h, targets, minus_log_sums, rows: inputs, gradients: d_inputs }
    }
}

/// Where the classifier is in a model's flat buffer.
struct Parts {
    matrix: Range<usize>,
    bias: Range<usize>,
}

impl Parts {
    fn of(params: &Params) -> Parts {
        let layout = params.layout();
        let end = params.data().len();
        Parts {
            matrix: layout.range(layout.classifier),
            bias: layout.classifier_bias.map_or(end..end, |bias| layout.range(bias)),
        }
    }

    /// The classifier to be moved.
    fn classifier<'a>(
        &self,
        params: &'a mut Params,
        trained: &'a Params,
        scale: Option<&'a [Scale]>,
    ) -> Classifier<'a> {
        // The bias comes after the matrix, whichever that is.
        let (before, after) = params.data_mut().split_at_mut(self.bias.start);
        let weights = |now, range: &Range<usize>| Weights {
            now,
            trained: &trained.data()[range.clone()],
            scale: scale.map(|r| &r[range.clone()]),
        };
        let bias = &mut after[..self.bias.len()];
        let bias = if bias.is_empty() { None } else { Some(weights(bias, &self.bias)) };
        Classifier { matrix: weights(&mut before[self.matrix.clone()], &self.matrix), bias }
    }
}

impl Adaptation {
    /// `epsilon` is relative to the mean of `scale`.
    pub fn new(
        network: &Network,
        trained: Params,
        scale: Option<Params>,
        rate: f64,
        decay: f64,
        epsilon: f64,
    ) -> Adaptation {
        let mean = scale.as_ref().map_or(1.0, |r| {
            let sum: f64 = r.data().iter().map(|&x| f64::from(x)).sum();
            (sum / r.data().len().max(1) as f64).max(f64::from(f32::MIN_POSITIVE))
        });
        let epsilon = (epsilon * mean) as f32;
        let vocab = trained.spec().vocab;
        Adaptation {
            rule: Rule { rate: rate as f32, decay: decay as f32, epsilon, mean: mean as f32 },
            h: Buffer::new(),
            z: ByColumns::new(network.isa()),
            gates: ByColumns::new(network.isa()),
            log_sums: Vec::new(),
            d_h: Vec::new(),
            room: Buffer::new(),
            pending: None,
            moved: Vec::new(),
            has_moved: vec![false; vocab],
            trained,
            scale: scale.map(|r| r.data().iter().map(|&r| Scale::nearest(r)).collect()),
        }
    }

    /// The weights before the first step.
    pub fn trained(&self) -> &Params {
        &self.trained
    }

    /// What the classifier saw of the last segment or window, (T, d).
    pub fn hidden(&self) -> &[f32] {
        &self.h
    }

    /// Puts the trained weights back, bit for bit.
    pub fn restore(&mut self, params: &mut Params) {
        params.data_mut().copy_from_slice(self.trained.data());
        self.pending = None;
        self.moved.clear();
        self.has_moved.fill(false);
    }

    /// Does what the last segment has left to be done.
    pub fn finish(&mut self, network: &Network, params: &mut Params) {
        let Some(left) = self.pending.take() else { return };
        let classifier = Parts::of(params).classifier(params, &self.trained, self.scale.as_deref());
        let (d, pending) = (self.trained.spec().width(), Some((left.pending(), self.rule)));
        adapt::pass(network.team(), network.isa(), classifier, d, &mut self.z.values, pending, None, &mut self.room);
    }

    /// The logits of the last window that the network read, their sums and `Y W`, after the step that was left.
    fn read(&mut self, network: &Network, params: &mut Params, steps: usize) {
        let d = params.spec().width();
        self.h.resize(steps * d);
        self.h.copy_from_slice(network.hidden(steps, 1));
        self.z.states.take(&self.h, d);
        let stride = self.z.states.stride();
        if self.pending.as_ref().is_some_and(|left| left.minus_log_sums.len() != stride) {
            self.finish(network, params);
        }
        self.z.values.resize(params.spec().vocab * stride);
        self.log_sums.resize(stride, 0.0);
        self.d_h.resize(steps * d, 0.0);
        let left = self.pending.take();
        let classifier = Parts::of(params).classifier(params, &self.trained, self.scale.as_deref());
        let pending = left.as_ref().map(|left| (left.pending(), self.rule));
        let Adaptation { z, d_h, log_sums, room, .. } = self;
        let reading = Some(Reading { columns: &z.states, y_w: d_h, log_sums });
        adapt::pass(network.team(), network.isa(), classifier, d, &mut z.values, pending, reading, room);
    }

    /// `-log y_target` of the last window that the network read, at each temperature: (T, temperatures) into `nll`. Nothing
    /// may be left to be done.
    pub fn classify(
        &mut self,
        network: &Network,
        params: &Params,
        targets: &[u32],
        temperatures: &[f32],
        nll: &mut [f64],
    ) {
        assert!(self.pending.is_none(), "a step is left to be taken");
        let d = params.spec().width();
        self.h.resize(targets.len() * d);
        self.h.copy_from_slice(network.hidden(targets.len(), 1));
        self.z.product(network.team(), params.classifier(), &self.h, d, None);
        self.log_sums.resize(self.z.states.stride(), 0.0);
        for (i, &temperature) in temperatures.iter().enumerate() {
            self.log_sums_at(network, params, temperature);
            self.losses(params, targets, (i, temperature), temperatures.len(), nll);
        }
    }

    fn log_sums_at(&mut self, network: &Network, params: &Params, temperature: f32) {
        let (bias, inverse) = (params.classifier_bias(), 1.0 / temperature);
        adapt::log_sums(network.team(), network.isa(), &self.z.values, bias, inverse, &mut self.log_sums);
    }

    /// The losses at the `i`th of `n` temperatures, from the logits and the sums at it.
    fn losses(&self, params: &Params, targets: &[u32], (i, temperature): (usize, f32), n: usize, nll: &mut [f64]) {
        let (stride, bias) = (self.z.states.stride(), params.classifier_bias());
        for (t, &target) in targets.iter().enumerate() {
            let logit = self.z.values[target as usize * stride + t] + bias.map_or(0.0, |b| b[target as usize]);
            nll[t * n + i] = self.log_sums[t] - f64::from(logit * (1.0 / temperature));
        }
    }

    /// The distribution that `h` (d) means at a temperature, (V) into `out`. Nothing may be left to be done.
    pub fn distribution(&mut self, network: &Network, params: &Params, h: &[f32], temperature: f32, out: &mut [f32]) {
        assert!(self.pending.is_none(), "a step is left to be taken");
        self.z.product(network.team(), params.classifier(), h, h.len(), None);
        let stride = self.z.states.stride();
        out.iter_mut().zip(self.z.values.iter().step_by(stride)).for_each(|(to, z)| *to = *z);
        if let Some(bias) = params.classifier_bias() {
            out.iter_mut().zip(bias).for_each(|(z, b)| *z += b);
        }
        out.iter_mut().for_each(|z| *z *= 1.0 / temperature);
        bowline_kernels::loss::softmax(network.isa(), out, None);
    }
}

impl Network {
    /// Takes new recurrent weights. The others are read where they lie, but for those of layers with rounds.
    pub fn pack_recurrent(&mut self, params: &Params) {
        self.trunk.layers.iter_mut().for_each(|layer| layer.pack_moving(params));
    }

    /// [`Network::read`] of one stream whose weights are moving.
    pub fn read_moving(&mut self, params: &Params, window: &Window, state: &mut State, adaptation: &mut Adaptation) {
        assert!(window.batch == 1 && window.steps <= self.steps * self.batch);
        let (d, steps, spec) = (self.trunk.spec.input.width, window.steps, &self.trunk.spec);
        let Adaptation { trained, scale, rule, z, gates, pending, .. } = adaptation;
        let inputs = &mut self.trunk.inputs[..steps * d];
        match pending.as_ref().filter(|_| spec.output.tied) {
            None => super::embedding::forward(params.embedding(), &window.inputs, None, d, inputs),
            Some(left) => {
                let scale = scale.as_ref().map(|r| &r[..params.embedding().len()]);
                let weights = (params.embedding(), trained.embedding(), scale);
                let isa = self.compute.isa;
                adapt::rows_after(isa, weights, &z.values, left.pending(), *rule, &window.inputs, inputs);
            }
        }
        let trunk = &mut self.trunk;
        let (words, _, mut parts) = state.split_mut(&trunk.spec);
        trunk.read_features(params, window, words);
        for l in 0..trunk.layers.len() {
            let (of_layer, above) = parts.split_at_mut(trunk.spec.layers[l].state().len());
            parts = above;
            let (layer, x) = trunk.layer(l, (steps, 1));
            layer.forward_unpacked(params, x, of_layer, steps, gates);
        }
        if let Some(mut projection) = trunk.projection.take() {
            projection.pack(params);
            projection.forward(params, trunk.last((steps, 1)), None, (steps, 1));
            trunk.projection = Some(projection);
        }
        trunk.add_features((steps, 1));
    }

    /// Scores a segment (`nll` as in [`Adaptation::classify`]), then moves the weights and takes the new recurrent ones. The
    /// classifier's step is left for the next segment, or for [`Adaptation::finish`].
    pub fn adapt(
        &mut self,
        params: &mut Params,
        segment: &Window,
        state: &mut State,
        adaptation: &mut Adaptation,
        temperatures: &[f32],
        nll: &mut [f64],
    ) {
        self.read_moving(params, segment, state, adaptation);
        let (steps, compute) = (segment.steps, self.compute.clone());
        let (team, isa) = (&*compute.team, compute.isa);
        let d = self.trunk.spec.width();
        adaptation.read(self, params, steps);
        let minus_log_sums = adaptation.log_sums.iter().map(|&x| -x as f32).collect();
        for (i, &temperature) in temperatures.iter().enumerate() {
            if temperature != 1.0 || i > 0 {
                adaptation.log_sums_at(self, params, temperature);
            }
            adaptation.losses(params, &segment.targets, (i, temperature), temperatures.len(), nll);
        }
        let Adaptation { trained, scale, rule, h, d_h, gates, room, pending, moved, has_moved, .. } = adaptation;
        let (rule, scale) = (*rule, scale.as_deref());
        // dH = Y W - Y* W
        for (d_h, &target) in d_h.chunks_exact_mut(d).zip(&segment.targets) {
            let row = &params.classifier()[target as usize * d..][..d];
            d_h.iter_mut().zip(row).for_each(|(d_h, w)| *d_h -= w);
        }
        let part = |params: &mut Params, range: Range<usize>, f: &mut dyn FnMut(Weights<'_>)| {
            f(Weights {
                now: &mut params.data_mut()[range.clone()],
                trained: &trained.data()[range.clone()],
                scale: scale.map(|r| &r[range]),
            });
        };
        // The layers: the way back through their gates, then the step of each matrix, which gives the gradient below it.
        let (trunk, down) = (&mut self.trunk, &mut self.down);
        down.above[..steps * d].copy_from_slice(d_h);
        let d = trunk.spec.projected();
        without_features(&mut down.above, steps, trunk.spec.width(), d);
        if let Some(projection) = &trunk.projection {
            let h = trunk.last((steps, 1));
            let (d_output, d_x) = (&mut down.above[..steps * d], &mut down.below[..h.len()]);
            projection.backward_unpacked(h, d_output, gates, &mut |met| {
                let range = params.range(met.tensor);
                part(params, range, &mut |weights| match met.with {
                    None => adapt::step(team, isa, weights, &met.row_sums(steps), rule),
                    Some((x, width)) => {
                        let d_x = Some(&mut d_x[..]);
                        adapt::matrix_step(team, isa, weights, met.d_rows, met.stride, x, width, rule, d_x, room);
                    }
                });
            });
            down.swap();
        }
        for l in (0..trunk.layers.len()).rev() {
            let (inputs, units) = (trunk.spec.inputs(l), trunk.spec.layers[l].units);
            let (layer, x) = trunk.layer(l, (steps, 1));
            let (d_output, d_x) = (&mut down.above[..steps * units], &mut down.below[..steps * inputs]);
            d_x.fill(0.0);
            let mut d_level = vec![0.0; d_x.len()];
            layer.back_through_rounds(LayerMasks::default(), (steps, 1), x, d_output, d_x);
            layer.backward_unpacked(params, x, d_output, gates, &mut |params, met| {
                let (range, stride) = (params.range(met.tensor), met.stride);
                part(params, range, &mut |weights| match met.with {
                    None => adapt::step(team, isa, weights, &met.row_sums(steps), rule),
                    Some((x, width)) => {
                        let d_level = met.below.then_some(&mut d_level[..]);
                        adapt::matrix_step(team, isa, weights, met.d_rows, stride, x, width, rule, d_level, room);
                    }
                });
                if met.below {
                    d_x.iter_mut().zip(&d_level).for_each(|(sum, d_x)| *sum += d_x);
                }
            });
            layer.direct_gradient(d_x, (steps, 1));
            down.swap();
        }
        let mut left = Left {
            h: h.to_vec(),
            targets: segment.targets.clone(),
            minus_log_sums,
            inputs: Vec::new(),
            d_inputs: Vec::new(),
        };
        let d = self.trunk.spec.input.width;
        without_features(&mut self.down.above, steps, self.trunk.spec.inputs(0), d);
        let d_inputs = &self.down.above[..steps * d];
        if self.trunk.spec.output.tied {
            // The embedding moves with the classifier.
            (left.inputs, left.d_inputs) = (segment.inputs.clone(), d_inputs.to_vec());
        } else {
            // Of a matrix of its own, the rows that ever moved make their way back, and those that were read move on.
            let nothing = vec![0.0; d];
            for &word in moved.iter() {
                let row = word as usize * d..(word as usize + 1) * d;
                part(params, row, &mut |weights| adapt::step(team, isa, weights, &nothing, rule));
            }
            let forward = Rule { decay: 0.0, ..rule };
            for (&word, d_x) in segment.inputs.iter().zip(d_inputs.chunks_exact(d)) {
                if !std::mem::replace(&mut has_moved[word as usize], true) {
                    moved.push(word);
                }
                let row = word as usize * d..(word as usize + 1) * d;
                part(params, row, &mut |weights| adapt::step(team, isa, weights, d_x, forward));
            }
        }
        *pending = Some(left);
        // Rows of a tied embedding are read ahead of the step that is left ([`adapt::rows_after`]), which knows of no bias.
        if self.trunk.spec.output.tied && self.trunk.spec.output.bias {
            adaptation.finish(self, params);
        }
        self.pack_recurrent(params);
    }
}
