//! The augmented loss at high temperature, to second order: a cheap approximation for tied models.
//!
//! With `W = L^T` the two distributions of `J_aug = KL(y~ || y^)` have the logits `L^T u / tau` and `L^T h / tau`. When
//! `tau` is high, both are nearly uniform, and to second order
//!
//! ```text
//! J_aug = Var_i(delta_i) / (2 tau^2),   delta_i = <l_i, v>,   v = h - u
//! ```
//!
//! with the variance taken uniformly over the words `i`: what eq. 15 of the paper says of the gradient, integrated. The
//! variance is `v^T C v`, where `C` is the covariance of the word vectors, (d, d), so no logits of `y~` are needed.
//! `C` and its gradient would still cost a pass over the vocabulary each; so every window takes a different share of the
//! words, in turn, and scales up. It is an approximation of an approximation: the
//! shares' mean differs from the whole by the variance between the shares' own means, which is small when they are large.

use super::classifier::Words;
use super::embedding;
use bowline_kernels::{Buffer, Into, Isa, Mat, PackedB, Precision, Team, elementwise, gemm};

/// Rows that are worked on together: a fixed number, so that no sum depends on that of the threads.
const BLOCK: usize = 50;

/// What the loss is computed with.
#[derive(Clone, Copy)]
pub(super) struct GramLoss {
    pub(super) tau: f32,
    pub(super) gamma: f32,
    pub(super) flow: bool,
    /// One word in so many is used, beginning with word `turn % shares`.
    pub(super) shares: usize,
    pub(super) turn: u64,
    /// Factor of the whole loss, `1 / B`.
    pub(super) scale: f32,
}

/// Room to work in.
pub(super) struct Gram {
    isa: Isa,
    /// One operand at a time; f32 in any case, as the covariance is a difference of large sums.
    packed: PackedB,
    /// (n, d): the vectors of this turn's words, less their mean.
    words: Buffer,
    mean: Vec<f32>,
    /// (d, d): `sum_i l_i l_i^T` of those.
    moment: Buffer,
    /// (T B, d): `v`, and the moment times it.
    v: Buffer,
    moment_v: Buffer,
    /// (d, d): `sum_t v_t h_t^T`.
    outer: Buffer,
    /// (n, d).
    d_words: Buffer,
    /// `<v, C v>` of each block of rows.
    squares: Vec<f64>,
}

impl Gram {
    /// Without room yet.
    pub(super) fn new(isa: Isa) -> Gram {
        Gram {
            isa,
            packed: PackedB::new(isa, Precision::F32),
            words: Buffer::new(),
            mean: Vec::new(),
            moment: Buffer::new(),
            v: Buffer::new(),
            moment_v: Buffer::new(),
            outer: Buffer::new(),
            d_words: Buffer::new(),
            squares: Vec::new(),
        }
    }

    /// Adds the loss's gradient to `d_h` and `d_embedding`; returns the sum of `J_aug` over the rows of `h`.
    pub(super) fn train(
        &mut self,
        team: &Team,
        loss: GramLoss,
        embedding: &[f32],
        words: Words<'_>,
        d_h: &mut [f32],
        d_embedding: &mut [f32],
    ) -> f64 {
        let Words { h, targets, .. } = words;
        let d = h.len() / targets.len();
        let (rows, vocab) = (targets.len(), embedding.len() / d);
        let shares = loss.shares.min(vocab);
        let first = (loss.turn % shares as u64) as usize;
        let n = (vocab - first).div_ceil(shares);
        self.center(team, embedding, d, first, shares, n);
        let words = Mat::new(&self.words[..n * d], n, d);
        // C n = sum_i l_i l_i^T
        self.packed.pack(team, words);
        self.moment.resize(d * d);
        gemm(team, words.t(), &self.packed, &mut self.moment, Into::Overwrite);
        // v = h - u
        self.v.grow(rows * d);
        let blocks = self.v[..rows * d].chunks_mut(BLOCK * d).zip(h.chunks(BLOCK * d)).zip(targets.chunks(BLOCK));
        team.for_each(blocks, |((v, h), targets)| {
            embedding::forward(embedding, targets, None, d, v);
            v.iter_mut().zip(h).for_each(|(v, h)| *v = h - *v);
        });
        let v = Mat::new(&self.v[..rows * d], rows, d);
        // C v, then J_aug = <v, C v> / (2 tau^2) and d_h = (gamma / tau) C v
        self.packed.pack(team, Mat::new(&self.moment, d, d));
        self.moment_v.grow(rows * d);
        let moment_v = &mut self.moment_v[..rows * d];
        gemm(team, v, &self.packed, moment_v, Into::Overwrite);
        let factor = loss.scale * loss.gamma / (loss.tau * n as f32);
        self.squares.clear();
        self.squares.resize(rows.div_ceil(BLOCK), 0.0);
        let blocks = self.v[..rows * d].chunks(BLOCK * d).zip(moment_v.chunks(BLOCK * d));
        let blocks = blocks.zip(d_h.chunks_mut(BLOCK * d)).zip(&mut self.squares);
        team.for_each(blocks, |(((v, moment_v), d_h), squares)| {
            *squares = v.chunks_exact(d).zip(moment_v.chunks_exact(d)).map(|(v, x)| f64::from(dot(v, x))).sum();
            d_h.iter_mut().zip(moment_v).for_each(|(d_h, x)| *d_h += factor * x);
        });
        let squares: f64 = self.squares.iter().sum();
        // d_l_i = (gamma / (tau n)) sum_t <v_t, l_i> h_t; through both distributions when the gradient flows, so v for h
        self.packed.pack(team, if loss.flow { v } else { Mat::new(h, rows, d) });
        self.outer.resize(d * d);
        gemm(team, v.t(), &self.packed, &mut self.outer, Into::Overwrite);
        self.packed.pack(team, Mat::new(&self.outer, d, d));
        self.d_words.grow(n * d);
        gemm(team, words, &self.packed, &mut self.d_words[..n * d], Into::Overwrite);
        let apart = shares * d;
        let blocks = d_embedding[first * d..].chunks_mut(BLOCK * apart).zip(self.d_words[..n * d].chunks(BLOCK * d));
        team.for_each(blocks, |(d_embedding, d_words)| {
            for (g, row) in d_embedding.chunks_mut(apart).zip(d_words.chunks_exact(d)) {
                g.iter_mut().zip(row).for_each(|(g, x)| *g += factor * x);
            }
        });
        if loss.flow {
            for (&word, row) in targets.iter().zip(moment_v.chunks_exact(d)) {
                let at = word as usize * d;
                d_embedding[at..at + d].iter_mut().zip(row).for_each(|(g, x)| *g -= factor * x);
            }
        }
        squares / (2.0 * n as f64 * f64::from(loss.tau) * f64::from(loss.tau))
    }

    /// The vectors of this turn's words, less their mean.
    fn center(&mut self, team: &Team, embedding: &[f32], d: usize, first: usize, shares: usize, n: usize) {
        // The first turn has the most words, so later ones need no more room.
        self.words.grow(n * d);
        self.mean.resize(d, 0.0);
        let words = &mut self.words[..n * d];
        let blocks = words.chunks_mut(BLOCK * d).zip(embedding[first * d..].chunks(BLOCK * shares * d));
        team.for_each(blocks, |(words, vectors)| {
            for (word, vector) in words.chunks_exact_mut(d).zip(vectors.chunks(shares * d)) {
                word.copy_from_slice(&vector[..d]);
            }
        });
        elementwise::column_sums(team, self.isa, words, &mut self.mean);
        self.mean.iter_mut().for_each(|mean| *mean /= n as f32);
        let mean = &self.mean;
        team.for_each(words.chunks_mut(BLOCK * d), |words| {
            for word in words.chunks_exact_mut(d) {
                word.iter_mut().zip(mean).for_each(|(x, mean)| *x -= mean);
            }
        });
    }
}

/// The sum of the products, in eight sums side by side.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0f32; 8];
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}
