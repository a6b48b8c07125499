//! The augmented loss's `y~`: estimated from the word vectors or given, and the gradient through it (section 3).

use super::{Classifier, Words, block, or_nothing};
use crate::compute::Compute;
use crate::model::embedding;
use crate::params::Params;
use bowline_kernels::loss::{self, Augment};
use bowline_kernels::{Buffer, Into, Mat, PackedB, Team, gemm, gemm_alone};

/// How the augmented loss is to be computed (section 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AugmentedLoss {
    /// Temperature of `y^` and `y~`.
    pub tau: f32,
    /// `alpha / tau`, where `alpha` is the weight of `J_aug` in the loss.
    pub gamma: f32,
    /// The weight of the cross-entropy in the loss: 1, but for the mixtures of section 5.2.
    pub cross: f32,
    /// Whether the gradient flows through `y~` into the embedding.
    pub flow: bool,
    /// Exactly, or to second order.
    pub form: AugmentedForm,
}

/// How `KL(y~ || y^)` is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AugmentedForm {
    /// As it stands.
    Exact,
    /// As it stands, with the `y~` that [`Classifier::given_targets`] was filled with in the place of the embedding's.
    Given,
    /// To second order (tied models only), from one word of the vocabulary in `shares`, another one each `turn`.
    Gram {
        /// One word in so many.
        shares: usize,
        /// The number of the training step.
        turn: u64,
    },
}

/// What only the augmented loss needs; empty without it.
pub(super) struct Augmented {
    /// `L`, (d, V), and `L^T`, (V, d), where the classifier has a matrix of its own.
    embedding: PackedB,
    embedding_back: PackedB,
    /// The different targets of the window, and for each word of the vocabulary its place among them.
    distinct: Vec<u32>,
    place: Vec<u32>,
    /// (n, d): their vectors `u`.
    vectors: Buffer,
    /// (n, V): their `y~`; and `log y~` when the gradient flows.
    targets: Buffer,
    log_targets: Buffer,
    negentropies: Vec<f64>,
    /// When the gradient flows, how many words have each of these targets; (n, d): the sum of their `h`, then the gradient by
    /// `u`; and (n, V): the sum of their logits, then the gradient by `s = L^T u`.
    counts: Vec<usize>,
    sums: Buffer,
    d_scores: Buffer,
}

impl Classifier {
    /// `y~` of a word of the window: by the target, or by the row when given.
    pub(super) fn target(&self, augment: AugmentedLoss, row: usize, target: u32, scale: f32) -> Augment<'_> {
        let place = match augment.form {
            AugmentedForm::Given => row,
            _ => self.augmented.place[target as usize] as usize,
        };
        self.augmented.target(place, self.vocab, augment.tau, scale)
    }

    /// Room for a `y~` of one's own for each of the next window's `rows` words, (rows, V), as [`AugmentedForm::Given`]
    /// wants it.
    pub fn given_targets(&mut self, rows: usize) -> &mut [f32] {
        self.augmented.targets.grow(rows * self.vocab);
        &mut self.augmented.targets[..rows * self.vocab]
    }

    /// `sum_i y~_i log y~_i` of what [`Classifier::given_targets`] was filled with.
    pub(super) fn take_given_targets(&mut self, rows: usize) {
        let aug = &mut self.augmented;
        aug.targets.grow(rows * self.vocab);
        aug.negentropies.resize(rows.max(aug.negentropies.len()), 0.0);
        for (negentropy, y) in aug.negentropies.iter_mut().zip(aug.targets.chunks_exact(self.vocab)).take(rows) {
            *negentropy = y.iter().filter(|&&y| y > 0.0).map(|&y| f64::from(y) * f64::from(y).ln()).sum();
        }
    }

    /// `y~ = softmax(L^T u / tau)` (section 3), once for each different target word of the window.
    pub(super) fn estimate_targets(&mut self, team: &Team, params: &Params, targets: &[u32], augment: AugmentedLoss) {
        let (isa, v, d) = (self.isa, self.vocab, self.hidden);
        let tied = params.spec().output.tied;
        let aug = &mut self.augmented;
        aug.place.resize(v, u32::MAX);
        for &word in &aug.distinct {
            aug.place[word as usize] = u32::MAX;
        }
        aug.distinct.clear();
        aug.distinct.reserve(targets.len());
        for &word in targets {
            let place = &mut aug.place[word as usize];
            if *place == u32::MAX {
                *place = aug.distinct.len() as u32;
                aug.distinct.push(word);
            }
        }
        let n = aug.distinct.len();
        // All buffers are as large as the largest window needs, so that later windows allocate nothing.
        aug.vectors.grow(targets.len() * d);
        aug.targets.grow(targets.len().min(v) * v);
        aug.negentropies.resize(targets.len().max(aug.negentropies.len()), 0.0);
        if augment.flow {
            aug.log_targets.grow(targets.len().min(v) * v);
            aug.counts.resize(targets.len().max(aug.counts.len()), 0);
            aug.sums.grow(targets.len() * d);
            aug.d_scores.grow(targets.len().min(v) * v);
        }
        embedding::forward(params.embedding(), &aug.distinct, None, d, &mut aug.vectors[..n * d]);
        if !tied {
            aug.embedding.pack(team, Mat::new(params.embedding(), v, d).t());
        }
        let embedding = if tied { &self.weights } else { &aug.embedding };
        let log_rows = if augment.flow { n * v } else { 0 };
        let block = block(n, team);
        let logs = or_nothing(aug.log_targets[..log_rows].chunks_mut(block * v));
        let jobs = aug.targets[..n * v]
            .chunks_mut(block * v)
            .zip(logs)
            .zip(aug.vectors[..n * d].chunks(block * d))
            .zip(aug.negentropies[..n].chunks_mut(block));
        team.for_each(jobs, |(((s, log), u), negentropies)| {
            gemm_alone(Mat::new(u, negentropies.len(), d), embedding, s, Into::Overwrite);
            let mut log = log.chunks_exact_mut(v);
            for (s, negentropy) in s.chunks_exact_mut(v).zip(negentropies) {
                *negentropy = loss::target_distribution(isa, s, augment.tau, log.next());
            }
        });
    }

    /// The gradient through `y~`: with `s = L^T u`, `d_L += u d_s^T`, and `d_u = L d_s` goes to the target's vector. Words
    /// with the same target are taken together ([`loss::flow`]).
    pub(super) fn flow_back(
        &mut self,
        team: &Team,
        params: &Params,
        (words, augment): (Words<'_>, AugmentedLoss),
        d_params: &mut Params,
        scratch: &mut PackedB,
    ) {
        let (isa, v, d, tied) = (self.isa, self.vocab, self.hidden, params.spec().output.tied);
        let (h, targets, scale) = (words.h, words.targets, augment.gamma * words.scale);
        let aug = &mut self.augmented;
        if !tied {
            aug.embedding_back.pack(team, Mat::new(params.embedding(), v, d));
        }
        let n = aug.distinct.len();
        let mut d_scores = std::mem::take(&mut aug.d_scores);
        let mut sums = std::mem::take(&mut aug.sums);
        aug.counts[..n].fill(0);
        sums[..n * d].fill(0.0);
        for (&target, h) in targets.iter().zip(h.chunks_exact(d)) {
            let place = aug.place[target as usize] as usize;
            aug.counts[place] += 1;
            sums[place * d..][..d].iter_mut().zip(h).for_each(|(sum, h)| *sum += h);
        }
        let aug = &self.augmented;
        let back = if tied { &self.weights_back } else { &aug.embedding_back };
        let block = block(n, team);
        let jobs =
            d_scores[..n * v].chunks_mut(block * v).zip(sums[..n * d].chunks_mut(block * d)).zip((0..n).step_by(block));
        team.for_each(jobs, |((d_s, sums), first)| {
            let rows = sums.len() / d;
            // sum_t z_t = W sum_t h_t
            gemm_alone(Mat::new(sums, rows, d), &self.weights, d_s, Into::Overwrite);
            for (place, d_s) in (first..).zip(d_s.chunks_exact_mut(v)) {
                let log_target = &aug.log_targets[place * v..][..v];
                loss::flow(isa, d_s, aug.counts[place], aug.target(place, v, augment.tau, scale), log_target);
            }
            // d_u = L d_s
            gemm_alone(Mat::new(d_s, rows, v), back, sums, Into::Overwrite);
        });
        // d_L += u d_s^T
        scratch.pack(team, Mat::new(&aug.vectors[..n * d], n, d));
        let into = if tied { Into::Accumulate } else { Into::Overwrite };
        gemm(team, Mat::new(&d_scores[..n * v], n, v).t(), scratch, d_params.embedding_mut(), into);
        embedding::backward(&sums[..n * d], &aug.distinct, None, d, d_params.embedding_mut());
        (self.augmented.d_scores, self.augmented.sums) = (d_scores, sums);
    }
}

impl Augmented {
    pub(super) fn new(compute: &Compute) -> Augmented {
        Augmented {
            embedding: PackedB::new(compute.isa, compute.precision),
            embedding_back: PackedB::new(compute.isa, compute.precision),
            distinct: Vec::new(),
            place: Vec::new(),
            vectors: Buffer::new(),
            targets: Buffer::new(),
            log_targets: Buffer::new(),
            negentropies: Vec::new(),
            counts: Vec::new(),
            sums: Buffer::new(),
            d_scores: Buffer::new(),
        }
    }

    /// `y~` of the target at a place among the different ones.
    fn target(&self, place: usize, vocab: usize, tau: f32, scale: f32) -> Augment<'_> {
        Augment {
            tau,
            scale,
            target: &self.targets[place * vocab..][..vocab],
            target_negentropy: self.negentropies[place],
        }
    }
}
