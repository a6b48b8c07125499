//! The Mogrifier (Melis, Kočiský, Blunsom 2020): before every step of an LSTM, its input and its state gate each other in turn.
//!
//! With `x` and the state `h` of the step before, both with their masks, in the rounds `r = 0 .. R - 1`
//!
//! `x <- 2 sigmoid(U_r D_r h + b_r) * x` where `r` is even, `h <- 2 sigmoid(U_r D_r x + b_r) * h` where it is odd,
//!
//! with `D_r`, (k, from), and `U_r`, (to, k), of a low rank `k`. What comes of the last rounds is what the gates are computed from.
//! So the products with the inputs depend on the state, and the layer goes step by step: its rounds, its two products, and
//! the chain of [`bowline_kernels::recurrent`] for a window of one step.

use super::adapt::ByColumns;
use super::layer::{Backward, Layer, Met, Shape, times};
use super::pass::LayerMasks;
use super::state::Part;
use crate::compute::Compute;
use crate::layout::{LayerTensors, RoundTensors};
use crate::params::Params;
use bowline_kernels::recurrent::{self, Levels, Window};
use bowline_kernels::{Buffer, Into, Mat, PackedB, Team, elementwise, gating, gemm};

/// What a layer with rounds has besides an LSTM's buffers. `T` steps, `B` streams, `d` units.
pub(super) struct Mogrifier {
    rounds: Vec<Round>,
    /// (T, B, d): the state of the step before with its mask, as the rounds find it.
    found: Buffer,
    /// `W_ih`, (4 d, d_x), and `W_hh`, (4 d, d), for the way back.
    w_ih_back: PackedB,
    w_hh_back: PackedB,
    /// (B, d): the gradient by the state of the step before.
    d_state: Buffer,
}

/// One round: the vector `u` gates the vector `y`.
struct Round {
    tensors: RoundTensors,
    /// Widths of `u` and of `y`, and the rank.
    from: usize,
    to: usize,
    rank: usize,
    /// `D^T` and `U^T`; `D` and `U` for the way back.
    down: PackedB,
    up: PackedB,
    down_back: PackedB,
    up_back: PackedB,
    /// (T, B, k): `D u`, and the gradient by it.
    low: Buffer,
    d_low: Buffer,
    /// (T, B, to): `s = sigmoid(U D u + b)`, then the gradient before the function.
    gates: Buffer,
    /// (T, B, to): `2 s y`.
    turned: Buffer,
}

impl Mogrifier {
    /// Room for `rows` words in steps of `batch`; none if the layer has no rounds.
    pub(super) fn new(
        tensors: &LayerTensors,
        (inputs, units, rank): (usize, usize, usize),
        compute: &Compute,
        (rows, batch): (usize, usize),
    ) -> Option<Mogrifier> {
        let packed = || PackedB::new(compute.isa, compute.precision);
        let round = |(r, &tensors): (usize, &RoundTensors)| {
            let (from, to) = if r % 2 == 0 { (units, inputs) } else { (inputs, units) };
            Round {
                tensors,
                from,
                to,
                rank,
                down: packed(),
                up: packed(),
                down_back: packed(),
                up_back: packed(),
                low: Buffer::zeros(rows * rank),
                d_low: Buffer::new(),
                gates: Buffer::zeros(rows * to),
                turned: Buffer::zeros(rows * to),
            }
        };
        (!tensors.rounds.is_empty()).then(|| Mogrifier {
            rounds: tensors.rounds.iter().enumerate().map(round).collect(),
            found: Buffer::zeros(rows * units),
            w_ih_back: packed(),
            w_hh_back: packed(),
            d_state: Buffer::zeros(batch * units),
        })
    }

    /// Takes new weights; `matrices` are `W_ih` and `W_hh`, the latter with its mask.
    pub(super) fn pack(
        &mut self,
        compute: &Compute,
        params: &Params,
        matrices: Option<(&[f32], &[f32])>,
        (gates, inputs, units): (usize, usize, usize),
    ) {
        let team = &*compute.team;
        for round in &mut self.rounds {
            let down = Mat::new(params.of(round.tensors.down), round.rank, round.from);
            let up = Mat::new(params.of(round.tensors.up), round.to, round.rank);
            round.down.pack(team, down.t());
            round.up.pack(team, up.t());
            if matrices.is_some() {
                round.down_back.pack(team, down);
                round.up_back.pack(team, up);
            }
        }
        if let Some((w_ih, w_hh)) = matrices {
            self.w_ih_back.pack(team, Mat::new(w_ih, gates, inputs));
            self.w_hh_back.pack(team, Mat::new(w_hh, gates, units));
        }
    }

    /// The rounds of step `t`, which find the inputs `x`, (T, B, d_x).
    fn turn(&mut self, compute: &Compute, params: &Params, x: &[f32], (t, batch): (usize, usize)) {
        let team = &*compute.team;
        for r in 0..self.rounds.len() {
            let (before, rest) = self.rounds.split_at_mut(r);
            let round = &mut rest[0];
            let (u, y) = (of_step(gates_by(before, &self.found), t, batch * round.from), gated(before, x, &self.found));
            let (low_at, at) = (t * batch * round.rank, t * batch * round.to);
            let low = &mut round.low[low_at..low_at + batch * round.rank];
            gemm(team, Mat::new(u, batch, round.from), &round.down, low, Into::Overwrite);
            let gates = &mut round.gates[at..at + batch * round.to];
            let bias = params.of(round.tensors.bias);
            gates.chunks_exact_mut(round.to).for_each(|row| row.copy_from_slice(bias));
            gemm(team, Mat::new(low, batch, round.rank), &round.up, gates, Into::Accumulate);
            let turned = &mut round.turned[at..at + batch * round.to];
            gating::forward(team, compute.isa, gates, of_step(y, t, batch * round.to), turned);
        }
    }

    /// What only the way back needs.
    fn make_room(&mut self, rows: usize) {
        self.rounds.iter_mut().for_each(|round| round.d_low.grow(rows * round.rank));
    }

    /// From the gradients by what the rounds of step `t` gave, (B, d_x) and (B, d), to those by what they found.
    fn turn_back(&mut self, compute: &Compute, x: &[f32], (d_x, d_h): (&mut [f32], &mut [f32]), t: usize) {
        let (team, batch) = (&*compute.team, d_x.len() / self.rounds[0].to);
        for r in (0..self.rounds.len()).rev() {
            let (before, rest) = self.rounds.split_at_mut(r);
            let round = &mut rest[0];
            let (d_y, d_u) = if r % 2 == 0 { (&mut *d_x, &mut *d_h) } else { (&mut *d_h, &mut *d_x) };
            let (low_at, at) = (t * batch * round.rank, t * batch * round.to);
            let gates = &mut round.gates[at..at + batch * round.to];
            let y = of_step(gated(before, x, &self.found), t, batch * round.to);
            gating::backward(team, compute.isa, gates, y, d_y);
            let d_low = &mut round.d_low[low_at..low_at + batch * round.rank];
            gemm(team, Mat::new(gates, batch, round.to), &round.up_back, d_low, Into::Overwrite);
            gemm(team, Mat::new(d_low, batch, round.rank), &round.down_back, d_u, Into::Accumulate);
        }
    }

    /// The gradient by the rounds' weights, from all steps at once.
    fn gradient(&self, compute: &Compute, rows: usize, gradient: &mut Params, scratch: &mut PackedB) {
        let team = &*compute.team;
        for (r, round) in self.rounds.iter().enumerate() {
            let (to, rank) = (rows * round.to, rows * round.rank);
            // a = U (D u) + b
            scratch.pack(team, Mat::new(&round.low, rows, round.rank));
            let d_a = Mat::new(&round.gates, rows, round.to);
            gemm(team, d_a.t(), scratch, gradient.of_mut(round.tensors.up), Into::Overwrite);
            elementwise::column_sums(team, compute.isa, &round.gates[..to], gradient.of_mut(round.tensors.bias));
            scratch.pack(team, Mat::new(gates_by(&self.rounds[..r], &self.found), rows, round.from));
            let d_low = Mat::new(&round.d_low[..rank], rows, round.rank);
            gemm(team, d_low.t(), scratch, gradient.of_mut(round.tensors.down), Into::Overwrite);
        }
    }

    /// The same as what a step of dynamic evaluation is made from ([`Layer::backward_unpacked`]), of one stream.
    pub(super) fn met(&self, steps: usize, room: &mut ByColumns, each: &mut dyn FnMut(Met<'_>)) {
        let stride = room.states.stride();
        for (r, round) in self.rounds.iter().enumerate() {
            let &Round { tensors: RoundTensors { down, up, bias }, from, to, rank, .. } = round;
            let d_rows = room.columns_of(&round.gates[..steps * to], to);
            each(Met { tensor: up, d_rows, stride, with: Some((&round.low[..steps * rank], rank)), below: false });
            each(Met { tensor: bias, d_rows, stride, with: None, below: false });
            let d_rows = room.columns_of(&round.d_low[..steps * rank], rank);
            let u = &gates_by(&self.rounds[..r], &self.found)[..steps * from];
            each(Met { tensor: down, d_rows, stride, with: Some((u, from)), below: false });
        }
    }

    /// What the gates are computed from: the inputs, (T, B, d_x), and the states, (T, B, d), after the last rounds.
    pub(super) fn given(&self) -> (&[f32], &[f32]) {
        let n = self.rounds.len();
        let last = |parity: usize| (0..n).rev().find(|r| r % 2 == parity).map(|r| &self.rounds[r].turned[..]);
        // There is a round at least, and the first is one of the inputs.
        (last(0).unwrap_or(&[]), last(1).unwrap_or(&self.found))
    }
}

/// The vector `u` of the round after some: what the last of them gave, or the state.
fn gates_by<'a>(before: &'a [Round], found: &'a [f32]) -> &'a [f32] {
    before.last().map_or(found, |round| &round.turned)
}

/// The vector `y` of the round after some: what the last but one gave, or what came in.
fn gated<'a>(before: &'a [Round], x: &'a [f32], found: &'a [f32]) -> &'a [f32] {
    match before {
        [] => x,
        [_] => found,
        [.., round, _] => &round.turned,
    }
}

/// Step `t` of a mask or of a vector, of `step` values; a held mask is that of all steps.
fn of_step(values: &[f32], t: usize, step: usize) -> &[f32] {
    if values.len() == step { values } else { &values[t * step..][..step] }
}

impl Layer {
    /// [`Layer::forward`] of a layer with rounds.
    pub(super) fn forward_by_steps(
        &mut self,
        params: &Params,
        x: &[f32],
        state: &mut [Part],
        masks: LayerMasks<'_>,
        shape: Shape,
    ) {
        let (Some(mut rounds), [h, c]) = (self.mogrifier.take(), state) else { return };
        let ((steps, batch), d) = (shape, self.hidden);
        let (step, inputs, width) = (batch * d, batch * self.inputs, self.unit.gates() * batch * d);
        let x = &x[..steps * inputs];
        self.carried[..step].copy_from_slice(&c.values);
        self.outputs.grow(steps * step);
        self.apart = true;
        rounds.found[..step].copy_from_slice(&h.values);
        if let Some(mask) = masks.state {
            let mask = of_step(mask, 0, step);
            rounds.found[..step].iter_mut().zip(mask).for_each(|(h, m)| *h *= m);
        }
        let bias = params.of(self.tensors.levels[0].bias);
        for t in 0..steps {
            rounds.turn(&self.compute, params, x, (t, batch));
            let (given, found) = rounds.given();
            let gates = &mut self.gates[t * width..][..width];
            gates.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias));
            let given = Mat::new(&given[t * inputs..], batch, self.inputs);
            gemm(&self.compute.team, given, &self.input_weights[0], gates, Into::Accumulate);
            self.states[..step].copy_from_slice(&found[t * step..][..step]);
            // What the step leaves meets the mask of the next one.
            let mask = masks.state.map(|mask| of_step(mask, (t + 1).min(steps - 1), step));
            self.one_step(t, batch, mask, &mut h.values, |unit, team, levels, window| {
                recurrent::forward(unit, team, levels, window);
            });
            if t + 1 < steps {
                rounds.found[(t + 1) * step..][..step].copy_from_slice(&self.states[step..2 * step]);
            }
        }
        c.values.copy_from_slice(&self.carried[steps * step..][..step]);
        self.mogrifier = Some(rounds);
        self.finish_outputs(masks, shape);
    }

    /// The chain of step `t` alone; `states` holds what it finds, and gets what it leaves.
    fn one_step(
        &mut self,
        t: usize,
        batch: usize,
        mask: Option<&[f32]>,
        last_state: &mut [f32],
        run: impl FnOnce(recurrent::Unit, &Team, &Levels<'_>, &mut Window<'_>),
    ) {
        let (step, width) = (batch * self.hidden, self.unit.gates() * batch * self.hidden);
        let mut window = Window {
            steps: 1,
            batch,
            gates: &mut self.gates[t * width..][..width],
            d_products: &mut [],
            carried: &mut self.carried[t * step..][..2 * step],
            saved: &mut self.saved[t * step..][..step],
            states: &mut self.states[..2 * step],
            outputs: &mut self.outputs[t * step..][..step],
            last_state,
            mask,
        };
        let levels = Levels { weights: &self.recurrent, parts: 1, bias: None, shortcut: None };
        run(self.unit, &self.compute.team, &levels, &mut window);
    }

    /// [`Layer::backward`] of a layer with rounds.
    pub(super) fn backward_by_steps(
        &mut self,
        pass: Backward<'_>,
        gradient: &mut Params,
        d_x: &mut [f32],
        scratch: &mut PackedB,
    ) {
        let Backward { x, masks, shape, d_output, d_raw, .. } = pass;
        self.through_outputs(masks, shape, d_output, d_raw);
        self.back_through_rounds(masks, shape, x, d_output, d_x);
        let Some(rounds) = self.mogrifier.take() else { return };
        let (compute, rows, d) = (self.compute.clone(), shape.0 * shape.1, self.hidden);
        let (team, gates) = (&*compute.team, self.unit.gates() * d);
        // gates = x W_ih^T + h W_hh^T + b, with what the last rounds gave
        let (level, (given, found)) = (self.tensors.levels[0], rounds.given());
        let d_gates = Mat::new(&self.gates, rows, gates);
        for (tensor, from, width) in [(level.w_ih, given, self.inputs), (Some(level.w_hh), found, d)] {
            if let Some(tensor) = tensor {
                scratch.pack(team, Mat::new(from, rows, width));
                gemm(team, d_gates.t(), scratch, gradient.of_mut(tensor), Into::Overwrite);
            }
        }
        if let Some(mask) = masks.weights.first() {
            times(&compute, gradient.of_mut(level.w_hh), mask, d);
        }
        elementwise::column_sums(team, compute.isa, &self.gates[..rows * gates], gradient.of_mut(level.bias));
        rounds.gradient(&compute, rows, gradient, scratch);
        self.mogrifier = Some(rounds);
    }

    /// From `d_output`, the gradient by the states of a layer with rounds, which is used up, to that by its gates and by all
    /// that its rounds gave, which stay in their buffers, and to that by its inputs, `d_x`. Nothing for other layers.
    pub(super) fn back_through_rounds(
        &mut self,
        masks: LayerMasks<'_>,
        (steps, batch): Shape,
        x: &[f32],
        d_output: &mut [f32],
        d_x: &mut [f32],
    ) {
        let Some(mut rounds) = self.mogrifier.take() else { return };
        let d = self.hidden;
        let (step, inputs, gates) = (batch * d, batch * self.inputs, self.unit.gates() * d);
        let (rows, x) = (steps * batch, &x[..steps * inputs]);
        let (compute, mut d_carried) = (self.compute.clone(), std::mem::take(&mut self.d_carried));
        let (team, mut unused) = (&*compute.team, std::mem::take(&mut self.unused));
        d_carried[..step].fill(0.0);
        rounds.make_room(rows);
        let mut d_state = std::mem::take(&mut rounds.d_state);
        d_state[..step].fill(0.0);
        for t in (0..steps).rev() {
            let (d_output, d_state) = (&mut d_output[t * step..][..step], &mut d_state[..step]);
            // h is consumed above and by the next step.
            d_output.iter_mut().zip(&*d_state).for_each(|(d, through_time)| *d += through_time);
            self.one_step(t, batch, None, &mut unused[..step], |unit, team, levels, window| {
                recurrent::backward_on(unit, team, levels, window, d_output, &mut d_carried[..step]);
            });
            let (d_gates, d_x) = (&self.gates[t * batch * gates..], &mut d_x[t * inputs..][..inputs]);
            gemm(team, Mat::new(d_gates, batch, gates), &rounds.w_ih_back, d_x, Into::Overwrite);
            gemm(team, Mat::new(d_gates, batch, gates), &rounds.w_hh_back, d_state, Into::Overwrite);
            rounds.turn_back(&compute, x, (d_x, &mut *d_state), t);
            if let Some(mask) = masks.state {
                d_state.iter_mut().zip(of_step(mask, t, step)).for_each(|(d, m)| *d *= m);
            }
        }
        (self.d_carried, self.unused, rounds.d_state) = (d_carried, unused, d_state);
        self.mogrifier = Some(rounds);
    }
}
