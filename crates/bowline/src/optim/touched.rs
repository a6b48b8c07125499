//! A gradient that is zero in most rows of its two largest matrices.
//!
//! With a vocabulary of hundreds of thousands of words, the word vectors and the classifier's matrix are nearly all of the
//! weights, and a window learns from a few thousand of their rows. Only these are cleared, measured and moved. The gradient
//! is whole all the same: the other rows are zero, and whoever has to pass over all weights (Adam, weight decay, a mean of
//! the weights) can.

use super::Rule;
use crate::compute::Compute;
use crate::params::Params;
use bowline_kernels::{Team, elementwise};
use std::ops::Range;

/// Rows of a matrix in a job.
const BLOCK: usize = 4096;

/// The rows that a window has touched, in ascending order.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Whether all other rows are known to be zero.
    known: bool,
    /// Of the word vectors.
    vectors: Vec<u32>,
    /// Of the classifier's own matrix; those of a tied one are among the word vectors.
    classifier: Vec<u32>,
}

/// A matrix of which some rows are touched: where it is, its width, the rows.
type Matrix<'a> = (Range<usize>, usize, &'a [u32]);

impl Touched {
    /// Clears the gradient of the window before, and notes the rows of the next one: those of its `inputs`, and those that its
    /// classifier has.
    pub(crate) fn begin(&mut self, team: &Team, gradient: &mut Params, inputs: &[u32], classified: &[u32]) {
        for (range, width, rows) in self.matrices(gradient) {
            let matrix = &mut gradient.data_mut()[range];
            match self.known {
                true => each_row(team, matrix, width, rows, |_, row| row.fill(0.0)),
                false => matrix.fill(0.0),
            }
        }
        if gradient.spec().input.characters.is_some() {
            // The vectors of characters: few, and all of them are touched.
            gradient.embedding_mut().fill(0.0);
        }
        self.known = true;
        self.vectors.clear();
        self.vectors.extend(inputs);
        self.classifier.clear();
        let own = if gradient.spec().output.tied { &mut self.vectors } else { &mut self.classifier };
        own.extend(classified);
        self.vectors.sort_unstable();
        self.vectors.dedup();
    }

    fn matrices(&self, params: &Params) -> Vec<Matrix<'_>> {
        let (spec, layout) = (params.spec(), params.layout());
        let mut all = Vec::new();
        if spec.input.characters.is_none() {
            all.push((params.range(layout.embedding), spec.input.width, &self.vectors[..]));
        }
        if !spec.output.tied {
            all.push((params.range(layout.classifier), spec.width(), &self.classifier[..]));
        }
        all.sort_by_key(|(range, ..)| range.start);
        all
    }

    /// What lies between the matrices.
    fn rest(&self, params: &Params) -> Vec<Range<usize>> {
        let (mut rest, mut at) = (Vec::new(), 0);
        for (range, ..) in self.matrices(params) {
            rest.push(at..range.start);
            at = range.end;
        }
        rest.push(at..params.data().len());
        rest.retain(|range| !range.is_empty());
        rest
    }

    /// The Euclidean norm of the gradient.
    pub fn norm(&self, compute: &Compute, gradient: &Params) -> f64 {
        const ROWS: usize = 64;
        let (team, isa) = (&compute.team, compute.isa);
        let norm = |range: Range<usize>| elementwise::squared_norm(team, isa, &gradient.data()[range]);
        let mut sum: f64 = self.rest(gradient).into_iter().map(norm).sum();
        for (range, width, rows) in self.matrices(gradient) {
            let matrix = &gradient.data()[range];
            let mut sums = vec![0.0f64; rows.len().div_ceil(ROWS)];
            team.for_each(sums.iter_mut().zip(rows.chunks(ROWS)), |(sum, rows)| {
                *sum = rows.iter().map(|&row| squares(&matrix[row as usize * width..][..width])).sum();
            });
            sum += sums.iter().sum::<f64>();
        }
        sum.sqrt()
    }

    /// Whether a step of gradient descent moves the touched rows alone.
    pub fn suffices(&self, rule: &Rule, params: &Params) -> bool {
        rule.weight_decay == 0.0 || (rule.spare_vectors && params.spec().output.tied)
    }

    /// [`step`](super::step) where that [suffices](Touched::suffices).
    pub fn step(&self, compute: &Compute, params: &mut Params, gradient: &Params, norm: f64, rule: Rule) {
        let scale = if norm > rule.clip { rule.clip / norm } else { 1.0 };
        let (factor, pull) = (-(rule.learning_rate * scale) as f32, (rule.weight_decay / scale) as f32);
        let (team, isa) = (&compute.team, compute.isa);
        for range in self.rest(params) {
            let weights = &mut params.data_mut()[range.clone()];
            elementwise::add_scaled(team, isa, weights, factor, &gradient.data()[range], pull);
        }
        for (range, width, rows) in self.matrices(params) {
            let slopes = &gradient.data()[range.clone()];
            each_row(team, &mut params.data_mut()[range], width, rows, |i, row| {
                let slopes = &slopes[rows[i] as usize * width..][..width];
                row.iter_mut().zip(slopes).for_each(|(weight, slope)| *weight += factor * slope);
            });
        }
    }
}

/// `sum x^2`.
fn squares(x: &[f32]) -> f64 {
    let (mut sums, eights) = ([0.0f64; 8], x.chunks_exact(8));
    let rest: f64 = eights.remainder().iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    for eight in eights {
        sums.iter_mut().zip(eight).for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
    }
    sums.iter().sum::<f64>() + rest
}

/// Calls `each` with the `i`-th of some rows of a matrix, which are in ascending order; on all members of the team.
pub(crate) fn each_row(
    team: &Team,
    matrix: &mut [f32],
    width: usize,
    rows: &[u32],
    each: impl Fn(usize, &mut [f32]) + Sync,
) {
    let jobs = matrix.chunks_mut(BLOCK * width).enumerate().map(|(block, part)| {
        let before = |end: usize| rows.partition_point(|&row| (row as usize) < end);
        (block * BLOCK, part, before(block * BLOCK)..before((block + 1) * BLOCK))
    });
    team.for_each(jobs, |(first, part, places)| {
        for place in places {
            each(place, &mut part[(rows[place] as usize - first) * width..][..width]);
        }
    });
}
