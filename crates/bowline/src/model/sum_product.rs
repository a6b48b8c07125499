//! The upper half of a sum-product network (Cheng et al. 2014) as a function of each logit.
//!
//! Below it `M = A h`; each word has a polynomial of its own, `B_j = b_j + sum_{k=1..K} a_{jk} M_j^k`, and
//! `p_j = B_j / sum_l B_l`. All weights are at least 0, so all `B` are. With `z_j = log B_j` that is a softmax of `z`, and
//! everything that is known of one holds: here is only the way from `M` to `z` and back,
//! `d_M = r B'(M)`, `d_{a_jk} = sum_t r_t M_t^k`, `d_b = sum_t r_t` with `r = d_z / B`.
//!
//! Polynomials are evaluated from the highest power down, in f64: the tenth power of a sum above 7000 is more than f32 holds.

use crate::layout::SumProductTensors;
use crate::params::Params;
use crate::spec::{MOST_POWERS, ModelSpec};
use bowline_kernels::{Buffer, Team};

/// A `B` below this counts as this: weights may all have come down to 0.
const LEAST: f64 = 1e-10;

/// Words whose gradients are one job: a cache line of each row.
const BLOCK: usize = 16;

/// The polynomials' buffers.
pub(super) struct SumProduct {
    powers: usize,
    tensors: SumProductTensors,
    /// (T B, V) each: `M`, and `r`.
    sums: Buffer,
    ratios: Buffer,
}

/// The coefficients of the polynomials.
#[derive(Clone, Copy)]
pub(super) struct Polynomials<'a> {
    powers: usize,
    /// (V, K) and (V).
    weights: &'a [f32],
    bias: &'a [f32],
}

impl SumProduct {
    /// None if the model has no polynomials. Room comes with the first window that is learned from.
    pub(super) fn new(spec: &ModelSpec) -> Option<SumProduct> {
        let (powers, tensors) = (spec.output.sum_product?, spec.layout().sum_product?);
        Some(SumProduct { powers, tensors, sums: Buffer::new(), ratios: Buffer::new() })
    }

    pub(super) fn polynomials<'a>(&self, params: &'a Params) -> Polynomials<'a> {
        let SumProductTensors { weight, bias } = self.tensors;
        Polynomials { powers: self.powers, weights: params.of(weight), bias: params.of(bias) }
    }

    /// Room for `M` and `r` of a window, (rows, V) each.
    pub(super) fn room(&mut self, values: usize) -> (&mut [f32], &mut [f32]) {
        self.sums.grow(values);
        self.ratios.grow(values);
        (&mut self.sums[..values], &mut self.ratios[..values])
    }

    /// From `M` and `r` of `rows` words to the gradient of the coefficients, which is overwritten.
    pub(super) fn backward(&self, team: &Team, rows: usize, gradient: &mut Params) {
        let SumProductTensors { weight, bias } = self.tensors;
        let (powers, vocab) = (self.powers, gradient.spec().vocab);
        let mut d_bias = vec![0.0; vocab];
        let jobs = gradient.of_mut(weight).chunks_mut(BLOCK * powers).zip(d_bias.chunks_mut(BLOCK));
        team.for_each(jobs.enumerate(), |(block, (d_weights, d_bias))| {
            for (i, (d_weights, d_bias)) in d_weights.chunks_exact_mut(powers).zip(d_bias).enumerate() {
                let (mut sums, at) = ([0.0; MOST_POWERS + 1], block * BLOCK + i);
                for row in 0..rows {
                    let (m, mut power) =
                        (f64::from(self.sums[row * vocab + at]), f64::from(self.ratios[row * vocab + at]));
                    for sum in &mut sums[..=powers] {
                        *sum += power;
                        power *= m;
                    }
                }
                *d_bias = sums[0] as f32;
                d_weights.iter_mut().zip(&sums[1..]).for_each(|(d, sum)| *d = *sum as f32);
            }
        });
        gradient.of_mut(bias).copy_from_slice(&d_bias);
    }
}

impl Polynomials<'_> {
    /// `log B` in the place of `M`, (V).
    pub(super) fn logits(&self, m: &mut [f32]) {
        for ((m, a), b) in m.iter_mut().zip(self.weights.chunks_exact(self.powers)).zip(self.bias) {
            let x = f64::from(*m);
            let value = a.iter().rev().fold(0.0, |sum, &a| (sum + f64::from(a)) * x) + f64::from(*b);
            *m = value.max(LEAST).ln() as f32;
        }
    }

    /// From the gradient by `log B`, in `d`, to that by `M`, in its place, and to `r`; each (V).
    pub(super) fn back(&self, m: &[f32], d: &mut [f32], ratios: &mut [f32]) {
        let polynomials = self.weights.chunks_exact(self.powers).zip(self.bias);
        for (((d, ratio), &m), (a, &b)) in d.iter_mut().zip(ratios).zip(m).zip(polynomials) {
            let m = f64::from(m);
            // The value without b, divided by M, and its slope.
            let (mut value, mut slope) = (0.0, 0.0);
            for &a in a.iter().rev() {
                slope = slope * m + value;
                value = value * m + f64::from(a);
            }
            let all = value * m + f64::from(b);
            // Below the least there is no slope.
            let r = if all > LEAST { f64::from(*d) / all } else { 0.0 };
            *ratio = r as f32;
            *d = (r * (slope * m + value)) as f32;
        }
    }
}
