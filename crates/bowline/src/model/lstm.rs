//! One LSTM layer over a window (Hochreiter and Schmidhuber 1997, without peepholes), forward and backward.
//!
//! i, f, o = sigmoid(W_ih x + W_hh h~ + b), g = tanh(..), c = f c' + i g, h = o tanh(c), h~ = m h: the mask `m` of the
//! window stands wherever the state is consumed, and the state that is carried to the next window is the unmasked `h`.

use crate::params::{LayerParams, LayerParamsMut};
use bowline_kernels::adapt::{self, Columns};
use bowline_kernels::recurrent::{self, RecurrentWeights};
use bowline_kernels::{Buffer, Into, Isa, Mat, PackedB, Precision, Team, elementwise, gemm};

/// The state of one layer between two windows, (B, d) each.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerState {
    /// `h`, without a mask.
    pub h: Vec<f32>,
    /// `c`.
    pub c: Vec<f32>,
}

/// Room for a product with a matrix as it lies, `W X^T`.
pub(super) struct ByColumns {
    /// `X^T`, (d, T).
    pub(super) states: Columns,
    /// The result: a row for each row of the matrix, and a column for each step and some more ([`Columns::stride`]).
    pub(super) values: Buffer,
}

impl ByColumns {
    pub(super) fn new(isa: Isa) -> ByColumns {
        ByColumns { states: Columns::new(isa), values: Buffer::new() }
    }

    /// `w X^T`, plus `start` in each column, for `x` (T, d).
    pub(super) fn product(&mut self, team: &Team, w: &[f32], x: &[f32], d: usize, start: Option<&[f32]>) {
        self.states.take(x, d);
        self.values.resize(w.len() / d * self.states.stride());
        adapt::product(team, w, &self.states, start, &mut self.values);
    }
}

/// The buffers and packed weights of a layer, allocated once.
pub struct Lstm {
    isa: Isa,
    hidden: usize,
    recurrent: RecurrentWeights,
    /// `W_ih^T`, (d, 4d).
    input_weights: PackedB,
    /// (T, B, 4d): gates, then their activations, then the gradient before them.
    gates: Buffer,
    /// (T + 1, B, d).
    cells: Buffer,
    /// (T, B, d).
    tanh_cells: Buffer,
    /// (T + 1, B, d): `h~`, the first step being the carried state.
    states: Buffer,
    /// (B, d).
    d_cell: Buffer,
}

impl Lstm {
    /// Room for windows of `steps` by `batch`.
    pub fn new(isa: Isa, threads: usize, hidden: usize, steps: usize, batch: usize) -> Lstm {
        let step = batch * hidden;
        Lstm {
            isa,
            hidden,
            recurrent: RecurrentWeights::new(isa, Precision::F32, threads, hidden),
            input_weights: PackedB::new(isa, Precision::F32),
            gates: Buffer::zeros(steps * 4 * step),
            cells: Buffer::zeros((steps + 1) * step),
            tanh_cells: Buffer::zeros(steps * step),
            states: Buffer::zeros((steps + 1) * step),
            d_cell: Buffer::zeros(step),
        }
    }

    /// Rounds the operands of its products so; weights must be packed anew.
    pub(super) fn set_precision(&mut self, precision: Precision, threads: usize) {
        self.recurrent = RecurrentWeights::new(self.isa, precision, threads, self.hidden);
        self.input_weights = PackedB::new(self.isa, precision);
    }

    /// Takes new weights; once per window when training, once for all when evaluating.
    pub fn pack(&mut self, team: &Team, params: &LayerParams<'_>, for_backward: bool) {
        let d = self.hidden;
        self.input_weights.pack(team, Mat::new(params.w_ih, 4 * d, d).t());
        self.recurrent.pack(team, params.w_hh, for_backward);
    }

    /// Takes new recurrent weights alone, as [`Lstm::forward_unpacked`] needs them.
    pub(super) fn pack_recurrent(&mut self, team: &Team, params: &LayerParams<'_>) {
        self.recurrent.pack(team, params.w_hh, true);
    }

    /// From the inputs (T, B, d) to [`Lstm::output`]; `state` is carried in and out.
    pub fn forward(
        &mut self,
        team: &Team,
        bias: &[f32],
        x: &[f32],
        state: &mut LayerState,
        mask: Option<&[f32]>,
        (steps, batch): (usize, usize),
    ) {
        let d = self.hidden;
        let gates = &mut self.gates[..steps * batch * 4 * d];
        team.for_each(gates.chunks_mut(batch * 4 * d), |gates| {
            gates.chunks_exact_mut(4 * d).for_each(|row| row.copy_from_slice(bias));
        });
        gemm(team, Mat::new(x, steps * batch, d), &self.input_weights, gates, Into::Accumulate);
        self.chain(team, state, mask, (steps, batch));
    }

    /// [`Lstm::forward`] of one stream without masks, with `W_ih` as it lies: for weights that change after every few words,
    /// so that packing them would not pay. The gates' inputs are computed as `W_ih X^T`; every sum has its terms in the same
    /// order.
    pub(super) fn forward_unpacked(
        &mut self,
        team: &Team,
        params: &LayerParams<'_>,
        x: &[f32],
        state: &mut LayerState,
        steps: usize,
        room: &mut ByColumns,
    ) {
        let d = self.hidden;
        room.product(team, params.w_ih, &x[..steps * d], d, Some(params.bias));
        let stride = room.states.stride();
        for (t, gates) in self.gates.chunks_exact_mut(4 * d).take(steps).enumerate() {
            gates.iter_mut().zip(room.values[t..].iter().step_by(stride)).for_each(|(to, x)| *to = *x);
        }
        self.chain(team, state, None, (steps, 1));
    }

    /// From the inputs' share of the gates to the states, step by step.
    fn chain(&mut self, team: &Team, state: &mut LayerState, mask: Option<&[f32]>, (steps, batch): (usize, usize)) {
        let step = batch * self.hidden;
        self.cells[..step].copy_from_slice(&state.c);
        self.states[..step].copy_from_slice(&state.h);
        if let Some(mask) = mask {
            self.states[..step].iter_mut().zip(mask).for_each(|(h, m)| *h *= m);
        }
        let mut window = recurrent::Window {
            steps,
            batch,
            gates: &mut self.gates[..steps * 4 * step],
            cells: &mut self.cells[..(steps + 1) * step],
            tanh_cells: &mut self.tanh_cells[..steps * step],
            states: &mut self.states[..(steps + 1) * step],
            last_state: &mut state.h,
            mask,
        };
        recurrent::forward(team, &self.recurrent, &mut window);
        state.c.copy_from_slice(&self.cells[steps * step..(steps + 1) * step]);
    }

    /// `h~` of every step, (T, B, d).
    pub fn output(&self, steps: usize, batch: usize) -> &[f32] {
        let step = batch * self.hidden;
        &self.states[step..(steps + 1) * step]
    }

    /// From `d_output` to the gradient of the weights and of the inputs (`d_x`). Follows a [`Lstm::forward`] of the same
    /// window; `unused` is a state-sized buffer, `scratch` room for a packed matrix.
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &mut self,
        team: &Team,
        params: &LayerParams<'_>,
        x: &[f32],
        mask: Option<&[f32]>,
        (steps, batch): (usize, usize),
        d_output: &[f32],
        d_params: &mut LayerParamsMut<'_>,
        d_x: &mut [f32],
        scratch: &mut PackedB,
        unused: &mut [f32],
    ) {
        let (d, rows) = (self.hidden, steps * batch);
        self.chain_back(team, mask, (steps, batch), d_output, unused);
        let d_gates = Mat::new(&self.gates[..rows * 4 * d], rows, 4 * d);
        // gates = x W_ih^T + h~' W_hh^T + b, where h~' is the masked state of the step before
        scratch.pack(team, Mat::new(x, rows, d));
        gemm(team, d_gates.t(), scratch, d_params.w_ih, Into::Overwrite);
        scratch.pack(team, Mat::new(&self.states, rows, d));
        gemm(team, d_gates.t(), scratch, d_params.w_hh, Into::Overwrite);
        elementwise::column_sums(team, self.isa, &self.gates[..rows * 4 * d], d_params.bias);
        scratch.pack(team, Mat::new(params.w_ih, 4 * d, d));
        gemm(team, d_gates, scratch, d_x, Into::Overwrite);
    }

    /// From `d_output` to the gradient by the gates before their activation.
    fn chain_back(
        &mut self,
        team: &Team,
        mask: Option<&[f32]>,
        (steps, batch): (usize, usize),
        d_output: &[f32],
        unused: &mut [f32],
    ) {
        let step = batch * self.hidden;
        let mut window = recurrent::Window {
            steps,
            batch,
            gates: &mut self.gates[..steps * 4 * step],
            cells: &mut self.cells[..(steps + 1) * step],
            tanh_cells: &mut self.tanh_cells[..steps * step],
            states: &mut self.states[..(steps + 1) * step],
            last_state: unused,
            mask,
        };
        recurrent::backward(team, &self.recurrent, &mut window, d_output, &mut self.d_cell);
    }

    /// [`Lstm::backward`] of what [`Lstm::forward_unpacked`] read, as far as the gates: the gradient by them before their
    /// activation, by columns, is left in `room`. What `W_hh` was multiplied with, (T, d), is returned.
    pub(super) fn backward_unpacked(
        &mut self,
        team: &Team,
        steps: usize,
        d_output: &[f32],
        unused: &mut [f32],
        room: &mut ByColumns,
    ) -> &[f32] {
        let d = self.hidden;
        self.chain_back(team, None, (steps, 1), d_output, unused);
        let stride = room.states.stride();
        room.values.resize(4 * d * stride);
        for (t, gates) in self.gates.chunks_exact(4 * d).take(steps).enumerate() {
            room.values[t..].iter_mut().step_by(stride).zip(gates).for_each(|(to, x)| *to = *x);
        }
        &self.states[..steps * d]
    }
}
