//! The upper half of a sum-product network (Cheng et al. 2014).
//!
//! Below it `M = A h`; each word has a polynomial of its own, `B_j = b_j + sum_{k=1..K} a_{jk} M_j^k`, and
//! `p_j = B_j / sum_l B_l`. All weights are at least 0, so all `B` are. With `z_j = log B_j` that is a softmax of `z`, and
//! everything that is known of one holds. The kernels have the way from `M` to `z` and back; here is what they need.

use crate::layout::SumProductTensors;
use crate::params::Params;
use crate::spec::ModelSpec;
use bowline_kernels::polynomial::{Polynomials, coefficients};
use bowline_kernels::{Buffer, Isa, Team};

/// Words whose gradients are one job.
const BLOCK: usize = 64;

/// The polynomials' buffers and coefficients.
pub(super) struct SumProduct {
    isa: Isa,
    tensors: SumProductTensors,
    /// The coefficients by power, (K, V).
    by_power: Vec<f32>,
    /// (T B, V) each: `M`, and `r`, the gradient by `z` divided by `B`.
    sums: Buffer,
    ratios: Buffer,
}

impl SumProduct {
    /// None if the model has no polynomials. Room comes with the first window that is learned from.
    pub(super) fn new(spec: &ModelSpec, isa: Isa) -> Option<SumProduct> {
        let (powers, tensors) = (spec.output.sum_product?, spec.layout().sum_product?);
        let by_power = vec![0.0; powers * spec.vocab];
        Some(SumProduct { isa, tensors, by_power, sums: Buffer::new(), ratios: Buffer::new() })
    }

    /// Takes new weights.
    pub(super) fn pack(&mut self, params: &Params) {
        let (weights, vocab) = (params.of(self.tensors.weight), params.spec().vocab);
        let powers = weights.len() / vocab;
        for (k, row) in self.by_power.chunks_exact_mut(vocab).enumerate() {
            row.iter_mut().zip(weights[k..].iter().step_by(powers)).for_each(|(to, from)| *to = *from);
        }
    }

    /// Those of the weights that were packed.
    pub(super) fn polynomials<'a>(&'a self, params: &'a Params) -> Polynomials<'a> {
        Polynomials::new(&self.by_power, params.of(self.tensors.bias))
    }

    /// Takes the room for `M` and `r` of a window, `values` in each, until [`SumProduct::backward`] gets it back.
    pub(super) fn room(&mut self, values: usize) -> (Buffer, Buffer) {
        let (mut sums, mut ratios) = (std::mem::take(&mut self.sums), std::mem::take(&mut self.ratios));
        sums.grow(values);
        ratios.grow(values);
        (sums, ratios)
    }

    /// From `M` and `r`, `values` of each, to the gradient of the coefficients, which is overwritten.
    pub(super) fn backward(&mut self, team: &Team, values: usize, filled: (Buffer, Buffer), gradient: &mut Params) {
        let (isa, vocab, SumProductTensors { weight, bias }) = (self.isa, gradient.spec().vocab, self.tensors);
        let powers = self.by_power.len() / vocab;
        (self.sums, self.ratios) = filled;
        let (sums, ratios) = (&self.sums[..values], &self.ratios[..values]);
        let mut d_bias = vec![0.0; vocab];
        let jobs = gradient.of_mut(weight).chunks_mut(BLOCK * powers).zip(d_bias.chunks_mut(BLOCK));
        team.for_each(jobs.enumerate(), |(block, d)| coefficients(isa, (sums, ratios), vocab, block * BLOCK, d));
        gradient.of_mut(bias).copy_from_slice(&d_bias);
    }
}
