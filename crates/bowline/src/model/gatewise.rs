//! A layer whose inputs have a mask for each gate, as in Gal and Ghahramani's untied form: each gate `k` has a product of its own,
//! `W_k (m_k x)`, where otherwise one product serves all gates. The same for the state is done by the chain
//! ([`bowline_kernels::recurrent::Levels::parts`]), with the weights that are kept here.

use super::layer::{Shape, times};
use crate::compute::Compute;
use bowline_kernels::recurrent::RecurrentWeights;
use bowline_kernels::{Buffer, Into, Mat, PackedB, gemm};

/// The sizes of a layer, `(G, d, d_x)`.
type Sizes = (usize, usize, usize);

/// Packed weights by gate, and room for a gate's product. Empty until they are first needed.
#[derive(Default)]
pub(super) struct Gatewise {
    /// Of each level where the inputs enter, gate after gate: `W_k^T`, (d_x, d).
    inputs: Vec<PackedB>,
    /// Of each level, gate after gate.
    pub(super) recurrent: Vec<RecurrentWeights>,
    /// (T, B, d_x): the inputs with a gate's mask, or the gradient by them.
    masked: Buffer,
    /// (T, B, d): a gate's product.
    product: Buffer,
}

/// The `k`th of `parts` equal parts of a mask.
pub(super) fn part(mask: &[f32], k: usize, parts: usize) -> &[f32] {
    &mask[k * (mask.len() / parts)..][..mask.len() / parts]
}

impl Gatewise {
    /// Takes a level's `W_ih`, (G d, d_x).
    pub(super) fn pack_inputs(&mut self, compute: &Compute, level: usize, w_ih: &[f32], (gates, d, inputs): Sizes) {
        while self.inputs.len() < (level + 1) * gates {
            self.inputs.push(PackedB::new(compute.isa, compute.precision));
        }
        for (packed, w) in self.inputs[level * gates..].iter_mut().zip(w_ih.chunks_exact(d * inputs)) {
            packed.pack(&compute.team, Mat::new(w, d, inputs).t());
        }
    }

    /// Takes a level's `W_hh`, (G d, d).
    pub(super) fn pack_recurrent(
        &mut self,
        compute: &Compute,
        level: usize,
        w_hh: &[f32],
        (gates, d, _): Sizes,
        for_backward: bool,
    ) {
        while self.recurrent.len() < (level + 1) * gates {
            self.recurrent.push(RecurrentWeights::new(compute.isa, compute.precision, compute.team.threads(), 1, d));
        }
        for (packed, w) in self.recurrent[level * gates..].iter_mut().zip(w_hh.chunks_exact(d * d)) {
            packed.pack(&compute.team, w, for_backward);
        }
    }

    /// Adds `W_k (m_k x)` to the `k`th gate of `out`, (T, B, G d), for a level's gates.
    pub(super) fn forward(
        &mut self,
        compute: &Compute,
        level: usize,
        (x, mask): (&[f32], &[f32]),
        out: &mut [f32],
        ((steps, batch), (gates, d, inputs)): (Shape, Sizes),
    ) {
        let rows = steps * batch;
        self.product.grow(rows * d);
        for k in 0..gates {
            self.mask(compute, x, part(mask, k, gates), batch * inputs);
            let x = Mat::new(&self.masked, rows, inputs);
            gemm(&compute.team, x, &self.inputs[level * gates + k], &mut self.product[..rows * d], Into::Overwrite);
            let product = &self.product[..rows * d];
            compute.team.for_each(out.chunks_exact_mut(gates * d).zip(product.chunks_exact(d)), |(out, product)| {
                out[k * d..][..d].iter_mut().zip(product).for_each(|(out, p)| *out += p);
            });
        }
    }

    /// `x`, (T, B, d_x), with a gate's mask.
    fn mask(&mut self, compute: &Compute, x: &[f32], mask: &[f32], step: usize) {
        self.masked.grow(x.len());
        self.masked[..x.len()].copy_from_slice(x);
        times(compute, &mut self.masked[..x.len()], mask, step);
    }

    /// From the gradient by a level's gates, (T, B, G d), to that by `W_ih`, overwritten, and by the inputs, which is added to
    /// `d_x`.
    pub(super) fn backward(
        &mut self,
        compute: &Compute,
        (x, mask): (&[f32], &[f32]),
        (d_gates, w_ih): (&[f32], &[f32]),
        (d_w_ih, d_x): (&mut [f32], &mut [f32]),
        scratch: &mut PackedB,
        ((steps, batch), (gates, d, inputs)): (Shape, Sizes),
    ) {
        let (rows, team) = (steps * batch, &*compute.team);
        let x = &x[..rows * inputs];
        for k in 0..gates {
            let mask = part(mask, k, gates);
            let d_gate = Mat::new(d_gates, rows, gates * d).columns(k * d..(k + 1) * d);
            self.mask(compute, x, mask, batch * inputs);
            let of_gate = k * d * inputs..(k + 1) * d * inputs;
            scratch.pack(team, Mat::new(&self.masked, rows, inputs));
            gemm(team, d_gate.t(), scratch, &mut d_w_ih[of_gate.clone()], Into::Overwrite);
            scratch.pack(team, Mat::new(&w_ih[of_gate], d, inputs));
            let d_masked = &mut self.masked[..rows * inputs];
            gemm(team, d_gate, scratch, d_masked, Into::Overwrite);
            times(compute, d_masked, mask, batch * inputs);
            d_x.iter_mut().zip(&*d_masked).for_each(|(sum, d)| *sum += d);
        }
    }
}
