//! One recurrent layer over a window, forward and backward, whatever its unit: the products with the inputs here, the chain
//! through time in [`bowline_kernels::recurrent`].
//!
//! The state `h` is consumed in two places: by the next step, as `m h` with the mask of the state, and by the layer above. In
//! the paper's scheme that one sees the same `m h`, and there is nothing to copy; otherwise (`apart`) it sees `h` with a mask of
//! its own. The state that is carried to the next window is `h` without a mask.

mod unpacked;

use super::gatewise::{Gatewise, part};
use super::mogrifier::Mogrifier;
use super::pass::{Activity, LayerMasks};
use super::state::Part;
use crate::compute::Compute;
use crate::layout::{LayerTensors, LevelTensors};
use crate::params::Params;
use crate::spec::{ModelSpec, Unit as UnitSpec};
use bowline_kernels::recurrent::{self, Levels, RecurrentWeights, Unit, Window};
use bowline_kernels::{Buffer, Into, Mat, PackedB, elementwise, gemm};
use std::ops::Range;
use std::sync::Arc;
pub(super) use unpacked::Met;

/// Steps and streams of a window.
pub(super) type Shape = (usize, usize);

/// The buffers and packed weights of a layer, allocated once. `L` levels of `G` gates.
pub(super) struct Layer {
    pub(super) compute: Compute,
    pub(super) unit: Unit,
    pub(super) inputs: usize,
    pub(super) hidden: usize,
    /// Levels whose gates the inputs are added to as they are ([`crate::spec::LayerSpec::direct`]).
    direct: usize,
    pub(super) tensors: LayerTensors,
    /// `W_ih^T`, (d_x, G d), of each level where the inputs enter.
    pub(super) input_weights: Vec<PackedB>,
    pub(super) recurrent: Vec<RecurrentWeights>,
    shortcut: Option<RecurrentWeights>,
    /// The rounds before each step, where the layer has any.
    pub(super) mogrifier: Option<Mogrifier>,
    /// In the place of these where the masks are by gate.
    gatewise: Gatewise,
    /// (L, T, B, G d): gates, then their activations, then the gradient before them.
    pub(super) gates: Buffer,
    /// (L, T, B, G d): the gradient by the products with the state, where that is another one.
    d_products: Buffer,
    /// (L, T + 1, B, d).
    pub(super) carried: Buffer,
    /// (L, T, B, d).
    pub(super) saved: Buffer,
    /// (P, L, T + 1, B, d): `m h` with each of the P masks, the first step of the last level being the carried state.
    pub(super) states: Buffer,
    /// (T, B, d): what the layer above sees, where that is apart.
    pub(super) outputs: Buffer,
    /// (T, B, d): the same before its mask, where that is needed.
    raw: Buffer,
    /// A recurrent matrix with its mask.
    masked_weights: Buffer,
    /// Whether it was in the window that was read last.
    pub(super) apart: bool,
    /// (B, d).
    pub(super) d_carried: Buffer,
    /// (B, d).
    pub(super) unused: Buffer,
}

impl Layer {
    /// Room for windows of `steps` by `batch` of layer `l`.
    pub(super) fn new(spec: &ModelSpec, l: usize, compute: &Compute, steps: usize, batch: usize) -> Layer {
        let tensors = spec.layout().layers.swap_remove(l);
        let (unit, d) = (spec.layers[l].unit.kernel(), spec.layers[l].units);
        let (levels, step, rows) = (tensors.levels.len(), batch * d, steps * batch * d);
        let if_so = |there: bool, n: usize| Buffer::zeros(if there { n } else { 0 });
        let weights = || RecurrentWeights::new(compute.isa, compute.precision, compute.team.threads(), unit.gates(), d);
        let rank = if let UnitSpec::Mogrifier { rank, .. } = spec.layers[l].unit { rank } else { 0 };
        let input_weights = |_: &LevelTensors| PackedB::new(compute.isa, compute.precision);
        Layer {
            compute: compute.clone(),
            unit,
            inputs: spec.inputs(l),
            hidden: d,
            direct: if spec.layers[l].direct { spec.layers[l].unit.levels().entered } else { 0 },
            input_weights: tensors.levels.iter().map(input_weights).collect(),
            recurrent: (0..levels).map(|_| weights()).collect(),
            shortcut: tensors.shortcut.map(|_| weights()),
            mogrifier: Mogrifier::new(&tensors, (spec.inputs(l), d, rank), compute, (steps * batch, batch)),
            gatewise: Gatewise::default(),
            gates: Buffer::zeros(levels * rows * unit.gates()),
            d_products: if_so(unit.splits(), levels * rows * unit.gates()),
            carried: if_so(unit.carries(), levels * (rows + step)),
            saved: if_so(unit.saves(), levels * rows),
            states: Buffer::zeros(levels * (rows + step)),
            outputs: Buffer::new(),
            raw: Buffer::new(),
            masked_weights: Buffer::new(),
            apart: false,
            d_carried: Buffer::zeros(step),
            unused: Buffer::zeros(step),
            tensors,
        }
    }

    /// Takes new weights; once per window when training, once for all when evaluating.
    pub(super) fn pack(&mut self, params: &Params, masks: LayerMasks<'_>, for_backward: bool) {
        let gates = self.unit.gates() * self.hidden;
        let sizes = self.sizes();
        for (l, (level, packed)) in self.tensors.levels.iter().zip(&mut self.input_weights).enumerate() {
            match level.w_ih.map(|w_ih| params.of(w_ih)) {
                Some(w_ih) if masks.input.is_some() => self.gatewise.pack_inputs(&self.compute, l, w_ih, sizes),
                Some(w_ih) => packed.pack(&self.compute.team, Mat::new(w_ih, gates, self.inputs).t()),
                None => {}
            }
        }
        self.pack_recurrent(params, masks, for_backward && self.mogrifier.is_none());
        if let (Some(rounds), [level, ..]) = (&mut self.mogrifier, &self.tensors.levels[..]) {
            let w_hh = if masks.weights.is_empty() { params.of(level.w_hh) } else { &self.masked_weights[..] };
            let matrices = level.w_ih.filter(|_| for_backward).map(|w_ih| (params.of(w_ih), w_hh));
            rounds.pack(&self.compute, params, matrices, (gates, self.inputs, self.hidden));
        }
    }

    /// Takes new recurrent weights alone, as [`Layer::forward_unpacked`] needs them.
    pub(super) fn pack_recurrent(&mut self, params: &Params, masks: LayerMasks<'_>, for_backward: bool) {
        let sizes = self.sizes();
        for (l, (level, weights)) in self.tensors.levels.iter().zip(&mut self.recurrent).enumerate() {
            let mut w_hh = params.of(level.w_hh);
            if let Some(mask) = masks.weights.get(l) {
                self.masked_weights.resize(w_hh.len());
                self.masked_weights.copy_from_slice(w_hh);
                times(&self.compute, &mut self.masked_weights, mask, self.hidden);
                w_hh = &self.masked_weights;
            }
            if masks.per_gate {
                self.gatewise.pack_recurrent(&self.compute, l, w_hh, sizes, for_backward);
            } else {
                weights.pack(&self.compute.team, w_hh, for_backward);
            }
        }
        if let (Some(shortcut), Some(weights)) = (self.tensors.shortcut, &mut self.shortcut) {
            weights.pack(&self.compute.team, params.of(shortcut), for_backward);
        }
    }

    /// `(G, d, d_x)`.
    fn sizes(&self) -> (usize, usize, usize) {
        (self.unit.gates(), self.hidden, self.inputs)
    }

    /// How many masks the state has.
    fn parts(&self, masks: LayerMasks<'_>) -> usize {
        if masks.per_gate { self.unit.gates() } else { 1 }
    }

    /// Where level `l` is in `gates` and `d_products`.
    fn of_level(&self, l: usize, (steps, batch): Shape) -> Range<usize> {
        let len = steps * batch * self.unit.gates() * self.hidden;
        l * len..(l + 1) * len
    }

    /// From the states with one mask to those with the next.
    fn part(&self, (steps, batch): Shape) -> usize {
        self.recurrent.len() * (steps + 1) * batch * self.hidden
    }

    /// Where the last level's first step is in `states` and `carried`.
    fn first(&self, (steps, batch): Shape) -> usize {
        (self.recurrent.len() - 1) * (steps + 1) * batch * self.hidden
    }

    /// From the inputs (T, B, d_x) to [`Layer::output`]; the state is carried in and out.
    pub(super) fn forward(
        &mut self,
        params: &Params,
        x: &[f32],
        state: &mut [Part],
        masks: LayerMasks<'_>,
        shape: Shape,
    ) {
        if self.mogrifier.is_some() {
            return self.forward_by_steps(params, x, state, masks, shape);
        }
        let (rows, width) = (shape.0 * shape.1, self.unit.gates() * self.hidden);
        for l in 0..self.tensors.levels.len() {
            let level = self.tensors.levels[l];
            let at = self.of_level(l, shape);
            self.fill_with_bias(params.of(level.bias), at.clone(), shape.1 * width);
            if let (Some(_), Some(mask)) = (level.w_ih, masks.input) {
                let (x, sizes) = (&x[..rows * self.inputs], self.sizes());
                self.gatewise.forward(&self.compute, l, (x, mask), &mut self.gates[at], (shape, sizes));
            } else if level.w_ih.is_some() {
                let x = Mat::new(x, rows, self.inputs);
                gemm(&self.compute.team, x, &self.input_weights[l], &mut self.gates[at], Into::Accumulate);
            } else if l < self.direct {
                self.add_inputs(l, x, at);
            }
        }
        self.chain(params, state, masks, shape);
    }

    fn fill_with_bias(&mut self, bias: &[f32], at: Range<usize>, step: usize) {
        self.compute.team.for_each(self.gates[at].chunks_mut(step), |gates| {
            gates.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias));
        });
    }

    /// Adds the inputs of level `l` to its gates.
    fn add_inputs(&mut self, l: usize, x: &[f32], at: Range<usize>) {
        let width = self.unit.gates() * self.hidden;
        for (gates, x) in self.gates[at].chunks_exact_mut(width).zip(x.chunks_exact(self.inputs)) {
            gates.iter_mut().zip(&x[l * width..]).for_each(|(gate, x)| *gate += x);
        }
    }

    /// The gradient by inputs that were added to the gates; of others, nothing changes.
    pub(super) fn direct_gradient(&self, d_x: &mut [f32], shape: Shape) {
        let width = self.unit.gates() * self.hidden;
        for l in 0..self.direct {
            let d_gates = self.gates[self.of_level(l, shape)].chunks_exact(width);
            for (d_x, d_gates) in d_x.chunks_exact_mut(self.inputs).zip(d_gates) {
                d_x[l * width..][..width].copy_from_slice(d_gates);
            }
        }
    }

    /// From the inputs' share of the gates to the states, step by step. The first part of the state is `h`; the second is what
    /// the unit carries, unless that is `h` too.
    fn chain(&mut self, params: &Params, state: &mut [Part], masks: LayerMasks<'_>, shape: Shape) {
        let (steps, step, first) = (shape.0, shape.1 * self.hidden, self.first(shape));
        if self.unit.carries() {
            let carried = state.last().map_or(&[][..], |part| &part.values);
            self.carried[first..first + step].copy_from_slice(carried);
        }
        let h = &mut state[0].values;
        let (parts, len) = (self.parts(masks), self.part(shape));
        self.states.grow(parts * len);
        for k in 0..parts {
            let states = &mut self.states[k * len + first..][..step];
            states.copy_from_slice(h);
            if let Some(mask) = masks.state {
                states.iter_mut().zip(part(mask, k, parts)).for_each(|(h, m)| *h *= m);
            }
        }
        let outputs = if masks.apart { steps * step } else { 0 };
        self.outputs.grow(outputs);
        self.apart = masks.apart;
        let (unit, team) = (self.unit, Arc::clone(&self.compute.team));
        let (levels, mut window) = self.window(params, masks, shape);
        window.last_state = h;
        recurrent::forward(unit, &team, &levels, &mut window);
        if let (true, [_, carried]) = (self.unit.carries(), &mut *state) {
            carried.values.copy_from_slice(&self.carried[first + steps * step..][..step]);
        }
        self.finish_outputs(masks, shape);
    }

    /// The mask on what the layer above sees, where that is apart.
    pub(super) fn finish_outputs(&mut self, masks: LayerMasks<'_>, (steps, batch): Shape) {
        let outputs = if self.apart { steps * batch * self.hidden } else { 0 };
        if masks.raw || !masks.activity.is_off() {
            self.raw.grow(outputs);
            self.raw[..outputs].copy_from_slice(&self.outputs[..outputs]);
        }
        if let (true, Some(mask)) = (self.apart, masks.output) {
            times(&self.compute, &mut self.outputs[..outputs], mask, batch * self.hidden);
        }
    }

    /// [`Layer::output`] without its mask, where the window was read for it.
    pub(super) fn unmasked(&self, (steps, batch): Shape) -> &[f32] {
        &self.raw[..steps * batch * self.hidden]
    }

    /// The chain's view of the buffers.
    fn window<'a>(
        &'a mut self,
        params: &'a Params,
        masks: LayerMasks<'a>,
        (steps, batch): Shape,
    ) -> (Levels<'a>, Window<'a>) {
        let (levels, unit, rows, step) =
            (self.recurrent.len(), self.unit, steps * batch * self.hidden, batch * self.hidden);
        let parts = self.parts(masks);
        let if_so = |there: bool, n: usize| if there { n } else { 0 };
        let window = Window {
            steps,
            batch,
            gates: &mut self.gates[..levels * rows * unit.gates()],
            d_products: &mut self.d_products[..if_so(unit.splits(), levels * rows * unit.gates())],
            carried: &mut self.carried[..if_so(unit.carries(), levels * (rows + step))],
            saved: &mut self.saved[..if_so(unit.saves(), levels * rows)],
            states: &mut self.states[..parts * levels * (rows + step)],
            outputs: &mut self.outputs[..if_so(masks.apart, rows)],
            last_state: &mut self.unused[..step],
            mask: masks.state,
        };
        let bias = self.tensors.product_bias.map(|id| params.of(id));
        let weights = if masks.per_gate { &self.gatewise.recurrent } else { &self.recurrent };
        (Levels { weights, parts, bias, shortcut: self.shortcut.as_ref() }, window)
    }

    /// What the layer above sees of every step, (T, B, d).
    pub(super) fn output(&self, shape: Shape) -> &[f32] {
        let (steps, step) = (shape.0, shape.1 * self.hidden);
        if self.apart {
            &self.outputs[..steps * step]
        } else {
            &self.states[self.first(shape) + step..][..steps * step]
        }
    }

    /// What level `l` found in every step, with the `k`th mask, (T, B, d).
    fn found(&self, l: usize, k: usize, shape: Shape) -> &[f32] {
        let ((steps, batch), d) = (shape, self.hidden);
        let at = if l == 0 { self.first(shape) } else { ((l - 1) * (steps + 1) + 1) * batch * d };
        &self.states[k * self.part(shape) + at..][..steps * batch * d]
    }

    /// The gradient by the products of level `l` with the state, (T, B, G d).
    fn d_products(&self, l: usize, shape: Shape) -> &[f32] {
        if self.unit.splits() {
            &self.d_products[self.of_level(l, shape)]
        } else {
            &self.gates[self.of_level(l, shape)]
        }
    }

    /// From `d_output`, which is used up, to the gradient of the weights and of the inputs (`d_x`). Follows a
    /// [`Layer::forward`] of the same window.
    pub(super) fn backward(
        &mut self,
        pass: Backward<'_>,
        gradient: &mut Params,
        d_x: &mut [f32],
        scratch: &mut PackedB,
    ) {
        if self.mogrifier.is_some() {
            return self.backward_by_steps(pass, gradient, d_x, scratch);
        }
        let Backward { params, x, masks, shape, d_output, d_raw } = pass;
        let (d, rows, width) = (self.hidden, shape.0 * shape.1, self.unit.gates() * self.hidden);
        self.through_outputs(masks, shape, d_output, d_raw);
        self.chain_back(params, masks, shape, d_output);
        // gates = x W_ih^T + h~' W_hh^T + b, where h~' is the masked state that the level found
        self.backward_to_inputs(params, (x, masks.input), gradient, d_x, scratch, shape);
        let (team, isa) = (&*self.compute.team, self.compute.isa);
        let parts = self.parts(masks);
        for (l, level) in self.tensors.levels.iter().enumerate() {
            let d_w_hh = gradient.of_mut(level.w_hh);
            for (k, d_w_hh) in d_w_hh.chunks_exact_mut(width / parts * d).enumerate() {
                scratch.pack(team, Mat::new(self.found(l, k, shape), rows, d));
                let of_part = k * (width / parts)..(k + 1) * (width / parts);
                let d_products = Mat::new(self.d_products(l, shape), rows, width).columns(of_part);
                gemm(team, d_products.t(), scratch, d_w_hh, Into::Overwrite);
            }
            if let Some(mask) = masks.weights.get(l) {
                times(&self.compute, d_w_hh, mask, d);
            }
            let gates = &self.gates[self.of_level(l, shape)];
            elementwise::column_sums(team, isa, gates, gradient.of_mut(level.bias));
        }
        if let Some(bias) = self.tensors.product_bias {
            elementwise::column_sums(team, isa, self.d_products(0, shape), gradient.of_mut(bias));
        }
        if let Some(shortcut) = self.tensors.shortcut {
            scratch.pack(team, Mat::new(self.found(0, 0, shape), rows, d));
            let d_products = Mat::new(self.d_products(self.recurrent.len() - 1, shape), rows, width);
            gemm(team, d_products.t(), scratch, gradient.of_mut(shortcut), Into::Overwrite);
        }
    }

    /// The part of [`Layer::backward`] that has to do with the inputs.
    fn backward_to_inputs(
        &mut self,
        params: &Params,
        (x, mask): (&[f32], Option<&[f32]>),
        gradient: &mut Params,
        d_x: &mut [f32],
        scratch: &mut PackedB,
        shape: Shape,
    ) {
        let (rows, width, sizes) = (shape.0 * shape.1, self.unit.gates() * self.hidden, self.sizes());
        let mut gatewise = std::mem::take(&mut self.gatewise);
        let team = &*self.compute.team;
        let entered = || self.tensors.levels.iter().enumerate().filter_map(|(l, level)| Some((l, level.w_ih?)));
        let gates = |l: usize| &self.gates[self.of_level(l, shape)];
        if self.direct > 0 {
            self.direct_gradient(d_x, shape);
        } else if let Some(mask) = mask {
            d_x.fill(0.0);
            for (l, w_ih) in entered() {
                let into = (gradient.of_mut(w_ih), &mut *d_x);
                let by = (gates(l), params.of(w_ih));
                gatewise.backward(&self.compute, (x, mask), by, into, scratch, (shape, sizes));
            }
        } else {
            scratch.pack(team, Mat::new(x, rows, self.inputs));
            for (l, w_ih) in entered() {
                gemm(team, Mat::new(gates(l), rows, width).t(), scratch, gradient.of_mut(w_ih), Into::Overwrite);
            }
            let mut into = Into::Overwrite;
            for (l, w_ih) in entered() {
                scratch.pack(team, Mat::new(params.of(w_ih), width, self.inputs));
                gemm(team, Mat::new(gates(l), rows, width), scratch, d_x, into);
                into = Into::Accumulate;
            }
        }
        self.gatewise = gatewise;
    }

    /// From the gradient by [`Layer::output`] to that by the states, where they are apart; `d_raw` is the gradient by
    /// [`Layer::unmasked`].
    pub(super) fn through_outputs(
        &self,
        masks: LayerMasks<'_>,
        shape: Shape,
        d_output: &mut [f32],
        d_raw: Option<&[f32]>,
    ) {
        let step = shape.1 * self.hidden;
        let Activity { ar, tar } = masks.activity;
        let rows = d_output.len();
        let (ar, tar) = (2.0 * ar / step as f32, 2.0 * tar * shape.0 as f32 / ((rows - step).max(1)) as f32);
        if ar > 0.0 {
            d_output.iter_mut().zip(&self.outputs[..rows]).for_each(|(d, y)| *d += ar * y);
        }
        if let (true, Some(mask)) = (self.apart, masks.output) {
            times(&self.compute, d_output, mask, step);
        }
        if let Some(d_raw) = d_raw {
            d_output.iter_mut().zip(d_raw).for_each(|(d, raw)| *d += raw);
        }
        if tar > 0.0 {
            for (i, (before, now)) in self.raw[..rows].iter().zip(&self.raw[step..rows]).enumerate() {
                let change = tar * (now - before);
                d_output[i] -= change;
                d_output[i + step] += change;
            }
        }
    }

    /// From the gradient by the states, as the layer above sees them, to that by the gates before their activation.
    fn chain_back(&mut self, params: &Params, masks: LayerMasks<'_>, shape: Shape, d_output: &[f32]) {
        let step = shape.1 * self.hidden;
        let mut d_carried = std::mem::take(&mut self.d_carried);
        let (unit, team) = (self.unit, Arc::clone(&self.compute.team));
        let (levels, mut window) = self.window(params, masks, shape);
        recurrent::backward(unit, &team, &levels, &mut window, d_output, &mut d_carried[..step]);
        self.d_carried = d_carried;
    }
}

/// What [`Layer::backward`] has to go by.
pub(super) struct Backward<'a> {
    pub params: &'a Params,
    /// (T, B, d_x).
    pub x: &'a [f32],
    pub masks: LayerMasks<'a>,
    pub shape: Shape,
    /// (T, B, d).
    pub d_output: &'a mut [f32],
    /// (T, B, d): the gradient by the output without its mask, where something sees that.
    pub d_raw: Option<&'a [f32]>,
}

/// `x *= mask`, for a mask of one step of `step` values, or of all.
pub(super) fn times(compute: &Compute, x: &mut [f32], mask: &[f32], step: usize) {
    compute.team.for_each(x.chunks_mut(step).enumerate(), |(t, x)| {
        let mask = if mask.len() == step { mask } else { &mask[t * step..][..step] };
        x.iter_mut().zip(mask).for_each(|(x, m)| *x *= m);
    });
}
