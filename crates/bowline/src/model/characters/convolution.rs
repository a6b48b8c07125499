//! A convolution over the symbols of words, with the largest value of each map kept.
//!
//! `y_f = tanh(max_p (sum_j <w_{f,j}, c_{s_{p+j}}>) + b_f)`, over all places `p` of the word, filled up or not. There are few
//! symbols, so what each would add at each offset `j` is computed once, `q_{s,j,f} = <w_{f,j}, c_s>`: then a place costs as many
//! additions as it has symbols, not products, and the gradient by `q` goes back to weights and vectors in two products.

use crate::characters::PAD;
use crate::compute::Compute;
use crate::layout::TensorId;
use crate::params::Params;
use bowline_kernels::{Buffer, Into, Mat, PackedB, Precision, gemm};
use std::ops::Range;

/// Maps that are worked on together, in registers and the nearest cache.
const BLOCK: usize = 64;

/// The convolution of one width.
pub(super) struct Convolution {
    compute: Compute,
    /// `k`, `m`, `c`.
    width: usize,
    maps: usize,
    inputs: usize,
    /// Where its maps are among those of all convolutions.
    columns: Range<usize>,
    vectors: TensorId,
    weight: TensorId,
    bias: TensorId,
    /// (k, m, c) each: the weights by offset, and their gradient.
    by_offset: Buffer,
    d_by_offset: Buffer,
    /// (S, k, m): `q`.
    table: Buffer,
    d_table: Buffer,
    packed: PackedB,
}

impl Convolution {
    /// Of a width and number of maps, the first of which is `first` of all, over vectors of `inputs` values.
    pub(super) fn new(
        compute: &Compute,
        (width, maps, weight, bias): (usize, usize, TensorId, TensorId),
        (vectors, inputs): (TensorId, usize),
        first: usize,
    ) -> Convolution {
        Convolution {
            compute: compute.clone(),
            width,
            maps,
            inputs,
            columns: first..first + maps,
            vectors,
            weight,
            bias,
            by_offset: Buffer::zeros(width * maps * inputs),
            d_by_offset: Buffer::new(),
            table: Buffer::new(),
            d_table: Buffer::new(),
            packed: PackedB::new(compute.isa, Precision::F32),
        }
    }

    pub(super) fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// Takes new weights.
    pub(super) fn pack(&mut self, params: &Params) {
        let (k, m, c) = (self.width, self.maps, self.inputs);
        for (f, of_map) in params.of(self.weight).chunks_exact(k * c).enumerate() {
            for (j, w) in of_map.chunks_exact(c).enumerate() {
                self.by_offset[(j * m + f) * c..][..c].copy_from_slice(w);
            }
        }
        let vectors = params.of(self.vectors);
        let symbols = vectors.len() / c;
        self.table.grow(symbols * k * m);
        self.packed.pack(&self.compute.team, Mat::new(&self.by_offset, k * m, c).t());
        gemm(&self.compute.team, Mat::new(vectors, symbols, c), &self.packed, &mut self.table, Into::Overwrite);
        self.table[PAD * k * m..][..k * m].fill(0.0);
    }

    /// `y` (m) of a word's symbols, and for each map the place of the largest value.
    pub(super) fn forward(&self, params: &Params, symbols: &[f32], y: &mut [f32], places: &mut [u32]) {
        let (k, m) = (self.width, self.maps);
        // From the first place on where there is nothing but padding, all are alike.
        let used = symbols.iter().position(|&symbol| symbol as usize == PAD).unwrap_or(symbols.len());
        let last = used.min(symbols.len() - k);
        let bias = params.of(self.bias);
        for first in (0..m).step_by(BLOCK) {
            let n = BLOCK.min(m - first);
            let (y, places) = (&mut y[first..first + n], &mut places[first..first + n]);
            y.fill(f32::NEG_INFINITY);
            for p in 0..=last {
                let mut sums = [0.0f32; BLOCK];
                for (j, &symbol) in symbols[p..p + k].iter().enumerate() {
                    let row = &self.table[(symbol as usize * k + j) * m + first..][..n];
                    sums.iter_mut().zip(row).for_each(|(sum, q)| *sum += q);
                }
                for ((y, place), &sum) in y.iter_mut().zip(&mut *places).zip(&sums) {
                    (*y, *place) = if sum > *y { (sum, p as u32) } else { (*y, *place) };
                }
            }
            y.iter_mut().zip(&bias[first..]).for_each(|(y, b)| *y = (*y + b).tanh());
        }
    }

    /// From the gradient by the sums before `tanh` to that by the bias and by `q`. Word by word, so that no sum depends on the
    /// number of threads. A word is its symbols, its gradient (m) and its places (m).
    pub(super) fn back_to_table<'a>(&mut self, words: impl Iterator<Item = (&'a [f32], &'a [f32], &'a [u32])>) {
        let (k, m) = (self.width, self.maps);
        self.d_table.resize(self.table.len() + m);
        self.d_table.fill(0.0);
        let (d_table, d_bias) = self.d_table.split_at_mut(self.table.len());
        for (symbols, d, places) in words {
            d_bias.iter_mut().zip(d).for_each(|(sum, d)| *sum += d);
            for (f, (&d, &place)) in d.iter().zip(places).enumerate() {
                for (j, &symbol) in symbols[place as usize..][..k].iter().enumerate() {
                    d_table[(symbol as usize * k + j) * m + f] += d;
                }
            }
        }
        // Padding has no vector, whatever its row holds.
        d_table[PAD * k * m..][..k * m].fill(0.0);
    }

    /// From there to the gradient of the weights, and of the vectors, to which it is added.
    pub(super) fn backward(&mut self, params: &Params, gradient: &mut Params) {
        let (k, m, c, team) = (self.width, self.maps, self.inputs, &*self.compute.team);
        let (d_table, d_bias) = self.d_table.split_at(self.table.len());
        gradient.of_mut(self.bias).copy_from_slice(d_bias);
        let symbols = d_table.len() / (k * m);
        let d_table = Mat::new(d_table, symbols, k * m);
        // d_c = d_q w
        self.packed.pack(team, Mat::new(&self.by_offset, k * m, c));
        gemm(team, d_table, &self.packed, gradient.of_mut(self.vectors), Into::Accumulate);
        // d_w = d_q^T c
        self.packed.pack(team, Mat::new(params.of(self.vectors), symbols, c));
        self.d_by_offset.grow(k * m * c);
        gemm(team, d_table.t(), &self.packed, &mut self.d_by_offset, Into::Overwrite);
        for (f, of_map) in gradient.of_mut(self.weight).chunks_exact_mut(k * c).enumerate() {
            for (j, d_w) in of_map.chunks_exact_mut(c).enumerate() {
                d_w.copy_from_slice(&self.d_by_offset[(j * m + f) * c..][..c]);
            }
        }
    }
}
