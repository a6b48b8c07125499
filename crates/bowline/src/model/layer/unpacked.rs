//! A layer of one stream whose weights change after every few words, as in dynamic evaluation: its matrices are read where they
//! lie, because packing them would not pay. A layer with rounds meets them in every step, so there it does.

use super::Layer;
use crate::layout::TensorId;
use crate::model::adapt::ByColumns;
use crate::model::pass::LayerMasks;
use crate::model::state::Part;
use crate::params::Params;

impl Layer {
    /// Takes the new weights that are not read where they lie.
    pub(in crate::model) fn pack_moving(&mut self, params: &Params) {
        if self.mogrifier.is_some() {
            self.pack(params, LayerMasks::default(), true);
        } else {
            self.pack_recurrent(params, LayerMasks::default(), true);
        }
    }

    /// [`Layer::forward`] of one stream without masks, with `W_ih` as it lies: for weights that change after every few words,
    /// so that packing them would not pay. The gates' inputs are computed as `W_ih X^T`; every sum has its terms in the same
    /// order.
    pub(in crate::model) fn forward_unpacked(
        &mut self,
        params: &Params,
        x: &[f32],
        state: &mut [Part],
        steps: usize,
        room: &mut ByColumns,
    ) {
        if self.mogrifier.is_some() {
            // The way back asks for the stride of this many steps.
            room.states.take(&x[..steps * self.inputs], self.inputs);
            return self.forward(params, x, state, LayerMasks::default(), (steps, 1));
        }
        let width = self.unit.gates() * self.hidden;
        for l in 0..self.tensors.levels.len() {
            let level = self.tensors.levels[l];
            let at = self.of_level(l, (steps, 1));
            let Some(w_ih) = level.w_ih else {
                self.fill_with_bias(params.of(level.bias), at.clone(), width);
                if l < self.direct {
                    self.add_inputs(l, &x[..steps * self.inputs], at);
                }
                continue;
            };
            let bias = Some(params.of(level.bias));
            room.product(&self.compute.team, params.of(w_ih), &x[..steps * self.inputs], self.inputs, bias);
            let stride = room.states.stride();
            for (t, gates) in self.gates[at].chunks_exact_mut(width).enumerate() {
                gates.iter_mut().zip(room.values[t..].iter().step_by(stride)).for_each(|(to, x)| *to = *x);
            }
        }
        self.chain(params, state, LayerMasks::default(), (steps, 1));
    }

    /// [`Layer::backward`] of what [`Layer::forward_unpacked`] read, as far as the gates; then, for each of the layer's tensors,
    /// `each` is given the gradient by what it was multiplied with: [`Met`]. A layer with rounds has gone that way already
    /// ([`Layer::back_through_rounds`]).
    pub(in crate::model) fn backward_unpacked(
        &mut self,
        params: &mut Params,
        x: &[f32],
        d_output: &mut [f32],
        room: &mut ByColumns,
        each: &mut dyn FnMut(&mut Params, Met<'_>),
    ) {
        let (d, width) = (self.hidden, self.unit.gates() * self.hidden);
        let steps = d_output.len() / d;
        let shape = (steps, 1);
        if let Some(rounds) = self.mogrifier.take() {
            let (stride, level, (given, found)) = (room.states.stride(), self.tensors.levels[0], rounds.given());
            let d_rows = room.columns_of(&self.gates[..steps * width], width);
            for (tensor, from, width) in [(level.w_ih, given, self.inputs), (Some(level.w_hh), found, d)] {
                if let Some(tensor) = tensor {
                    let with = Some((&from[..steps * width], width));
                    each(params, Met { tensor, d_rows, stride, with, below: false });
                }
            }
            each(params, Met { tensor: level.bias, d_rows, stride, with: None, below: false });
            rounds.met(steps, room, &mut |met| each(params, met));
            self.mogrifier = Some(rounds);
            return;
        }
        self.chain_back(params, LayerMasks::default(), shape, d_output);
        let top = self.recurrent.len() - 1;
        let stride = room.states.stride();
        for (l, level) in self.tensors.levels.iter().enumerate() {
            let by_inputs = room.columns_of(&self.gates[self.of_level(l, shape)], width);
            if let Some(tensor) = level.w_ih {
                each(
                    params,
                    Met {
                        tensor,
                        d_rows: by_inputs,
                        stride,
                        with: Some((&x[..steps * self.inputs], self.inputs)),
                        below: true,
                    },
                );
            }
            each(params, Met { tensor: level.bias, d_rows: by_inputs, stride, with: None, below: false });
            let by_products = room.columns_of(self.d_products(l, shape), width);
            let found = Some((self.found(l, 0, shape), d));
            each(params, Met { tensor: level.w_hh, d_rows: by_products, stride, with: found, below: false });
            if let Some(tensor) = self.tensors.product_bias {
                each(params, Met { tensor, d_rows: by_products, stride, with: None, below: false });
            }
            if let Some(tensor) = self.tensors.shortcut.filter(|_| l == top) {
                let found = Some((self.found(0, 0, shape), d));
                each(params, Met { tensor, d_rows: by_products, stride, with: found, below: false });
            }
        }
    }
}

/// One of a layer's tensors on the way back.
pub(in crate::model) struct Met<'a> {
    pub tensor: TensorId,
    /// The gradient by the products, a row for each row of the tensor, a column for each step ([`ByColumns`]).
    pub d_rows: &'a [f32],
    /// Length of a row of that.
    pub stride: usize,
    /// What a matrix was multiplied with, (T, width), and the width; none for a bias.
    pub with: Option<(&'a [f32], usize)>,
    /// Whether that is the layer's input, whose gradient is wanted.
    pub below: bool,
}

impl Met<'_> {
    /// The gradient of a bias: the sum over the steps.
    pub(in crate::model) fn row_sums(&self, steps: usize) -> Vec<f32> {
        self.d_rows.chunks_exact(self.stride).map(|row| row[..steps].iter().sum()).collect()
    }
}
