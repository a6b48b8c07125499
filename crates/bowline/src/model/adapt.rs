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

use super::lstm::ByColumns;
use super::{Network, State};
use crate::batch::Window;
use crate::params::Params;
use bowline_kernels::adapt::{self, Rule, Weights};
use bowline_kernels::{Buffer, Into, Mat, gemm};
use std::ops::Range;

/// What moves the weights, and the room it needs. The trained weights in it never change.
pub struct Adaptation {
    trained: Params,
    scale: Option<Params>,
    rule: Rule,
    /// (T, d): what the classifier saw, and the gradient by it.
    h: Buffer,
    d_h: Vec<f32>,
    /// (V, T): logits, then their gradient.
    z: ByColumns,
    /// (4d, T): a layer's gates, then their gradient.
    gates: ByColumns,
    log_sums: Vec<f64>,
    partial: Buffer,
    /// The rows of an untied embedding that have moved.
    moved: Vec<u32>,
    has_moved: Vec<bool>,
}

/// Where the classifier is in a model's flat buffer.
struct Parts {
    matrix: Range<usize>,
    bias: Range<usize>,
}

impl Parts {
    fn of(params: &Params) -> Parts {
        let a = params.architecture();
        let (words, d) = (a.vocab * a.hidden, a.hidden);
        let end = words + a.layers * (8 * d * d + 4 * d);
        let matrix = if a.tied { 0..words } else { end..end + words };
        Parts { bias: if a.tied { 0..0 } else { matrix.end..matrix.end + a.vocab }, matrix }
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
        let a = trained.architecture();
        Adaptation {
            rule: Rule { rate: rate as f32, decay: decay as f32, epsilon, mean: mean as f32 },
            h: Buffer::new(),
            d_h: Vec::new(),
            z: ByColumns::new(network.isa()),
            gates: ByColumns::new(network.isa()),
            log_sums: Vec::new(),
            partial: Buffer::new(),
            moved: Vec::new(),
            has_moved: vec![false; a.vocab],
            trained,
            scale,
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
        self.moved.clear();
        self.has_moved.fill(false);
    }

    /// The logits (V, T) of the last window that the network read, `Z^T = W H^T`.
    fn logits(&mut self, network: &Network, params: &Params, steps: usize) {
        let a = params.architecture();
        self.h.resize(steps * a.hidden);
        self.h.copy_from_slice(network.hidden(steps, 1));
        let h = &self.h;
        let ByColumns { states, values } = &mut self.z;
        states.pack_columns_alone(a.hidden, steps, |t| &h[t * a.hidden..(t + 1) * a.hidden]);
        values.resize(a.vocab * steps, 0.0);
        gemm(network.team(), Mat::new(params.classifier(), a.vocab, a.hidden), states, values, Into::Overwrite);
    }

    /// `-log y_target` of the last window that the network read, at each temperature: (T, temperatures) into `nll`.
    pub fn classify(
        &mut self,
        network: &Network,
        params: &Params,
        targets: &[u32],
        temperatures: &[f32],
        nll: &mut [f64],
    ) {
        self.logits(network, params, targets.len());
        self.losses(network, params, targets, temperatures, nll);
    }

    fn losses(&mut self, network: &Network, params: &Params, targets: &[u32], temperatures: &[f32], nll: &mut [f64]) {
        let (steps, bias) = (targets.len(), params.classifier_bias());
        self.log_sums.resize(steps, 0.0);
        for (i, &temperature) in temperatures.iter().enumerate() {
            let inverse = 1.0 / temperature;
            adapt::log_sums(network.isa(), &self.z.values, bias, steps, inverse, &mut self.log_sums);
            for (t, &target) in targets.iter().enumerate() {
                let logit = self.z.values[target as usize * steps + t] + bias.map_or(0.0, |b| b[target as usize]);
                nll[t * temperatures.len() + i] = self.log_sums[t] - f64::from(logit * inverse);
            }
        }
    }

    /// The distribution that `h` (d) means at a temperature, (V) into `out`.
    pub fn distribution(&mut self, network: &Network, params: &Params, h: &[f32], temperature: f32, out: &mut [f32]) {
        let a = params.architecture();
        self.z.states.pack_columns_alone(a.hidden, 1, |_| h);
        gemm(network.team(), Mat::new(params.classifier(), a.vocab, a.hidden), &self.z.states, out, Into::Overwrite);
        if let Some(bias) = params.classifier_bias() {
            out.iter_mut().zip(bias).for_each(|(z, b)| *z += b);
        }
        out.iter_mut().for_each(|z| *z *= 1.0 / temperature);
        bowline_kernels::loss::softmax(network.isa(), out, None);
    }
}

impl Network {
    /// Takes new recurrent weights. The others are read where they lie.
    pub fn pack_recurrent(&mut self, params: &Params) {
        for (l, layer) in self.layers.iter_mut().enumerate() {
            layer.pack_recurrent(&self.team, &params.layer(l));
        }
    }

    /// [`Network::read`] of one stream whose weights are moving.
    pub fn read_moving(&mut self, params: &Params, window: &Window, state: &mut State, adaptation: &mut Adaptation) {
        assert!(window.batch == 1 && window.steps <= self.steps * self.batch);
        let (d, steps) = (self.architecture.hidden, window.steps);
        super::embedding::forward(params.embedding(), &window.inputs, None, d, &mut self.inputs[..steps * d]);
        for l in 0..self.layers.len() {
            let (below, above) = self.layers.split_at_mut(l);
            let x = below.last().map_or(&self.inputs[..steps * d], |layer| layer.output(steps, 1));
            let (params, room) = (params.layer(l), &mut adaptation.gates);
            above[0].forward_unpacked(&self.team, &params, x, &mut state.layers[l], steps, room);
        }
    }

    /// Scores a segment (`nll` as in [`Adaptation::classify`]), then moves the weights and takes the new recurrent ones.
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
        let (steps, isa) = (segment.steps, self.isa);
        let d = self.architecture.hidden;
        adaptation.logits(self, params, steps);
        adaptation.losses(self, params, &segment.targets, temperatures, nll);
        // dZ = Y - Y*
        let Adaptation { trained, scale, rule, h, d_h, z, gates, log_sums, partial, moved, has_moved } = adaptation;
        let (rule, scale, z) = (*rule, scale.as_ref(), &mut z.values);
        if temperatures != [1.0] {
            adapt::log_sums(isa, z, params.classifier_bias(), steps, 1.0, log_sums);
        }
        adapt::distributions(&self.team, isa, z, params.classifier_bias(), log_sums);
        for (t, &target) in segment.targets.iter().enumerate() {
            z[target as usize * steps + t] -= 1.0;
        }
        // The classifier: the gradient by what it saw, and its step.
        let parts = Parts::of(params);
        let part = |params: &mut Params, range: Range<usize>, f: &mut dyn FnMut(Weights<'_>)| {
            f(Weights {
                now: &mut params.data_mut()[range.clone()],
                trained: &trained.data()[range.clone()],
                scale: scale.map(|r| &r.data()[range]),
            });
        };
        d_h.resize(steps * d, 0.0);
        part(params, parts.matrix, &mut |weights| {
            adapt::matrix_step(&self.team, isa, weights, z, h, steps, rule, d_h, partial);
        });
        if !parts.bias.is_empty() {
            let d_bias: Vec<f32> = z.chunks_exact(steps).map(|row| row.iter().sum()).collect();
            part(params, parts.bias, &mut |weights| adapt::step(&self.team, isa, weights, &d_bias, rule));
        }
        // The layers: the way back through their gates, then the step of each matrix, which gives the gradient below it.
        self.d_above[..steps * d].copy_from_slice(d_h);
        for l in (0..self.layers.len()).rev() {
            let (below, above) = self.layers.split_at_mut(l);
            let x = below.last().map_or(&self.inputs[..steps * d], |layer| layer.output(steps, 1));
            let d_output = &self.d_above[..steps * d];
            let before = above[0].backward_unpacked(&self.team, steps, d_output, &mut self.unused, gates);
            let d_gates = &gates.values;
            let [w_ih, w_hh, bias] = params.layer_ranges(l);
            part(params, w_ih, &mut |weights| {
                let d_x = &mut self.d_below[..steps * d];
                adapt::matrix_step(&self.team, isa, weights, d_gates, x, steps, rule, d_x, partial);
            });
            part(params, w_hh, &mut |weights| {
                // What it gives has gone down the chain already.
                adapt::matrix_step(&self.team, isa, weights, d_gates, before, steps, rule, d_h, partial);
            });
            let d_bias: Vec<f32> = d_gates.chunks_exact(steps).map(|row| row.iter().sum()).collect();
            part(params, bias, &mut |weights| adapt::step(&self.team, isa, weights, &d_bias, rule));
            std::mem::swap(&mut self.d_above, &mut self.d_below);
        }
        // The embedding: a tied one has made its way back with the classifier; of another one, the rows that ever moved do.
        if !self.architecture.tied {
            let nothing = vec![0.0; d];
            for &word in moved.iter() {
                let row = word as usize * d..(word as usize + 1) * d;
                part(params, row, &mut |weights| adapt::step(&self.team, isa, weights, &nothing, rule));
            }
        }
        let forward = Rule { decay: 0.0, ..rule };
        for (&word, d_x) in segment.inputs.iter().zip(self.d_above[..steps * d].chunks_exact(d)) {
            if !std::mem::replace(&mut has_moved[word as usize], true) {
                moved.push(word);
            }
            let row = word as usize * d..(word as usize + 1) * d;
            part(params, row, &mut |weights| adapt::step(&self.team, isa, weights, d_x, forward));
        }
        self.pack_recurrent(params);
    }
}
