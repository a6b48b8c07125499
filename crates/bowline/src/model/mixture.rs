//! A mixture of softmaxes in the place of one (Yang, Dai, Salakhutdinov, Cohen 2018, "Breaking the softmax bottleneck").
//!
//! The last layer's output `h` gives every softmax a vector and a share; the classifier's matrix is one for all:
//!
//! `e_k = m tanh(W_k h + b_k)`, `pi = softmax(W_pi h)`, `P(w) = sum_k pi_k y_k(w)` with `y_k = softmax(W e_k + b)`.
//!
//! The `e_k` are one projection, `K` times as wide as a row of `W`, with its mask `m`. So a word has `K` rows of logits. The
//! loss is `-log P(y) = -log sum_k exp(log pi_k + log y_k(y))`. With the softmaxes' shares of the word that came,
//! `gamma_k = pi_k y_k(y) / P(y)`, its gradient by the logits of a softmax is the one that the softmax would have alone, times
//! `gamma_k`, and by those of the shares it is `pi_k - gamma_k`.
//!
//! All that a distribution needs besides the weights is the *outlook* of a word, a row `[e_1 (d) .. e_K (d) | pi (K)]`.

use super::classifier::{Classifier, Words, temper};
use super::layer::{Backward, Shape};
use super::pass::LayerMasks;
use super::pointer::softmax;
use super::projection::Projection;
use crate::compute::Compute;
use crate::layout::ProjectionTensors;
use crate::params::Params;
use crate::spec::{Activation, ModelSpec, ProjectionSpec};
use bowline_kernels::loss;
use bowline_kernels::{Buffer, Into, Mat, PackedB, elementwise, gemm, gemm_alone};
use std::sync::{Mutex, PoisonError};

/// Rows of logits that one thread works on at a time, about.
const BLOCK: usize = 120;

/// Blocks whose logits are kept at a time; the gradient of the classifier's matrix is summed up over them.
const BLOCKS: usize = 10;

/// Words in a block. It does not depend on the number of threads, so no sum does.
fn block(softmaxes: usize) -> usize {
    (BLOCK / softmaxes).max(1)
}

/// Rows of logits that are kept at a time.
pub(crate) fn logits_at_a_time(softmaxes: usize) -> usize {
    BLOCKS * block(softmaxes) * softmaxes
}

/// The mixture's buffers and packed weights.
pub(super) struct Mixture {
    compute: Compute,
    /// `K`.
    softmaxes: usize,
    vocab: usize,
    /// Width of an `e_k`.
    d: usize,
    /// Words in a block.
    block: usize,
    /// `W_pi h`.
    prior: Projection,
    /// Width of `h`.
    inputs: usize,
    /// (T, B, K d + K).
    outlook: Buffer,
    /// (words of some blocks, K, V): logits, then their gradient.
    logits: Buffer,
    /// (T, B, K): `log pi_k + log y_k(y)`, then `gamma_k`.
    posteriors: Vec<f64>,
    losses: Vec<f64>,
    /// (blocks, V): their shares of the bias's gradient.
    d_bias: Buffer,
    /// (T, B, K): the gradient by `W_pi h`, and (T, B, d_h): through it by `h`.
    d_prior: Buffer,
    through_prior: Buffer,
    /// Room for a block's vectors and logits each, as often as ever was needed at a time.
    rooms: Mutex<Vec<Vec<f32>>>,
}

impl Mixture {
    /// Room for `rows` words; none if the model has one softmax.
    pub(super) fn new(spec: &ModelSpec, compute: &Compute, rows: usize) -> Option<Mixture> {
        let (weight, inputs) = (spec.layout().prior?, spec.inputs(spec.layers.len()));
        let softmaxes = spec.softmaxes();
        let prior = ProjectionSpec { width: softmaxes, activation: Activation::Linear, bias: false };
        Some(Mixture {
            compute: compute.clone(),
            softmaxes,
            vocab: spec.vocab,
            d: spec.width(),
            block: block(softmaxes),
            prior: Projection::with(prior, ProjectionTensors { weight, bias: None }, inputs, compute, rows),
            inputs,
            outlook: Buffer::zeros(rows * spec.outlook()),
            logits: Buffer::new(),
            posteriors: Vec::new(),
            losses: Vec::new(),
            d_bias: Buffer::new(),
            d_prior: Buffer::new(),
            through_prior: Buffer::new(),
            rooms: Mutex::new(Vec::new()),
        })
    }

    /// Takes new weights.
    pub(super) fn pack(&mut self, params: &Params) {
        self.prior.pack(params);
    }

    fn width(&self) -> usize {
        self.softmaxes * (self.d + 1)
    }

    /// From `h`, (T, B, d_h), and `e`, (T, B, K d), to [`Mixture::outlook`].
    pub(super) fn forward(&mut self, params: &Params, h: &[f32], e: &[f32], shape: Shape) {
        self.prior.forward(params, h, None, shape);
        let (k, width) = (self.softmaxes, self.width());
        let rows = self.prior.output(shape).chunks_exact(k).zip(e.chunks_exact(k * self.d));
        for (row, (scores, e)) in self.outlook.chunks_exact_mut(width).zip(rows) {
            tell(e, scores, row);
        }
    }

    /// The outlook after every word of the window that was read last, (T, B, K d + K).
    pub(super) fn outlook(&self, (steps, batch): Shape) -> &[f32] {
        &self.outlook[..steps * batch * self.width()]
    }

    /// The outlook of one stream whose last layer gave `h`, and the projection `e`.
    pub(super) fn after(&self, params: &Params, h: &[f32], e: &[f32]) -> Vec<f32> {
        let mut row = vec![0.0; self.width()];
        tell(e, &self.prior.of(params, h), &mut row);
        row
    }

    /// The loss of a window, its gradient by `e` (`words.h`, into `d_e`), (T, B, K d), and by the classifier's weights,
    /// overwriting it. [`Mixture::prior_backward`] goes on from there.
    pub(super) fn train(
        &mut self,
        classifier: &Classifier,
        params: &Params,
        Words { h: e, targets, scale, .. }: Words<'_>,
        (d_params, d_e): (&mut Params, &mut [f32]),
        scratch: &mut PackedB,
    ) -> f64 {
        let (team, isa) = (&*self.compute.team, self.compute.isa);
        let (k, v, d, rows, block) = (self.softmaxes, self.vocab, self.d, targets.len(), self.block);
        let (width, bias) = (self.width(), classifier.bias(params));
        self.logits.grow(rows.min(BLOCKS * block) * k * v);
        self.posteriors.resize(self.posteriors.len().max(rows * k), 0.0);
        self.losses.resize(self.losses.len().max(rows), 0.0);
        self.d_prior.grow(rows * k);
        let shares_of_bias = if bias.is_some() { rows.div_ceil(block) } else { 0 };
        self.d_bias.grow(shares_of_bias * v);
        self.d_bias.fill(0.0);
        for first in (0..rows).step_by(BLOCKS * block) {
            let some = first..rows.min(first + BLOCKS * block);
            let vectors = some.start * k * d..some.end * k * d;
            let d_bias = &mut self.d_bias[(first / block * v).min(shares_of_bias * v)..];
            let mut d_bias = d_bias.chunks_mut(v);
            let jobs = self.logits[..some.len() * k * v]
                .chunks_mut(block * k * v)
                .zip(e[vectors.clone()].chunks(block * k * d))
                .zip(d_e[vectors.clone()].chunks_mut(block * k * d))
                .zip(targets[some.clone()].chunks(block))
                .zip(self.outlook[first * width..].chunks(block * width))
                .zip(self.posteriors[first * k..some.end * k].chunks_mut(block * k))
                .zip(self.d_prior[first * k..some.end * k].chunks_mut(block * k))
                .zip(self.losses[some.clone()].chunks_mut(block))
                .map(|job| (job, d_bias.next()));
            team.for_each(jobs, |(job, mut d_bias)| {
                let (((((((z, e), d_e), targets), outlooks), posteriors), d_prior), losses) = job;
                gemm_alone(Mat::new(e, targets.len() * k, d), &classifier.weights, z, Into::Overwrite);
                let words = z.chunks_exact_mut(k * v).zip(targets).zip(outlooks.chunks_exact(width)).zip(losses);
                let shares = posteriors.chunks_exact_mut(k).zip(d_prior.chunks_exact_mut(k));
                for ((((z, &target), outlook), loss), (gamma, d_prior)) in words.zip(shares) {
                    let (pi, target) = (&outlook[k * d..], target as usize);
                    for ((gamma, pi), z) in gamma.iter_mut().zip(pi).zip(z.chunks_exact(v)) {
                        *gamma = f64::from(*pi).ln() - loss::minus_log_probability(isa, z, bias, target);
                    }
                    let log_p = log_sum(gamma);
                    *loss = -log_p;
                    let by_softmax = gamma.iter_mut().zip(d_prior).zip(pi).zip(z.chunks_exact_mut(v));
                    for (((gamma, d_prior), pi), z) in by_softmax {
                        *gamma = (*gamma - log_p).exp();
                        *d_prior = (f64::from(scale) * (f64::from(*pi) - *gamma)) as f32;
                        let scale = (f64::from(scale) * *gamma) as f32;
                        loss::cross_entropy(isa, z, bias, target, scale, d_bias.as_deref_mut());
                    }
                }
                // d_e = d_z W
                gemm_alone(Mat::new(z, targets.len() * k, v), &classifier.weights_back, d_e, Into::Overwrite);
            });
            // d_W = d_z^T e
            let d_logits = Mat::new(&self.logits, some.len() * k, v);
            scratch.pack(team, Mat::new(&e[vectors], some.len() * k, d));
            let into = if first == 0 { Into::Overwrite } else { Into::Accumulate };
            gemm(team, d_logits.t(), scratch, d_params.classifier_mut(), into);
        }
        if let Some(d_b) = d_params.classifier_bias_mut() {
            elementwise::column_sums(team, isa, &self.d_bias, d_b);
        }
        if !params.spec().output.tied {
            d_params.embedding_mut().fill(0.0);
        }
        self.losses[..rows].iter().sum()
    }

    /// The gradient of the loss through the shares: by `h`, added to `d_h`, (T, B, d_h), and by `W_pi`. Follows
    /// [`Mixture::train`] of the same window.
    pub(super) fn prior_backward(
        &mut self,
        (params, h, shape): (&Params, &[f32], Shape),
        (gradient, d_h): (&mut Params, &mut [f32]),
        scratch: &mut PackedB,
    ) {
        let rows = shape.0 * shape.1;
        self.through_prior.grow(rows * self.inputs);
        let (masks, through_prior) = (LayerMasks::default(), &mut self.through_prior[..rows * self.inputs]);
        let d_output = &mut self.d_prior[..rows * self.softmaxes];
        self.prior.backward(
            Backward { params, x: h, masks, shape, d_output, d_raw: None },
            gradient,
            through_prior,
            scratch,
        );
        d_h.iter_mut().zip(&*through_prior).for_each(|(sum, d)| *sum += d);
    }

    /// `-log P(y)` of the word after each outlook at each of the temperatures: (rows, temperatures) into `nll`. A temperature
    /// is that of every softmax.
    pub(super) fn evaluate(
        &self,
        (classifier, params): (&Classifier, &Params),
        (outlooks, targets): (&[f32], &[u32]),
        (temperatures, nll): (&[f32], &mut [f64]),
    ) {
        let (isa, block, n) = (self.compute.isa, self.block, temperatures.len());
        let bias = classifier.bias(params);
        let jobs = outlooks.chunks(block * self.width()).zip(targets.chunks(block)).zip(nll.chunks_mut(block * n));
        self.compute.team.for_each(jobs, |((outlooks, targets), nll)| {
            let (mut tempered, mut logs) = (Vec::new(), Vec::new());
            let mut words = targets.iter().zip(nll.chunks_exact_mut(n));
            self.each(classifier, outlooks, |pi, z| {
                let Some((&target, nll)) = words.next() else { return };
                for (nll, &temperature) in nll.iter_mut().zip(temperatures) {
                    logs.clear();
                    logs.extend(pi.iter().zip(z.chunks_exact(self.vocab)).map(|(pi, z)| {
                        let minus_log = if temperature == 1.0 {
                            loss::minus_log_probability(isa, z, bias, target as usize)
                        } else {
                            temper(z, bias, temperature, &mut tempered);
                            loss::minus_log_probability(isa, &tempered, None, target as usize)
                        };
                        f64::from(*pi).ln() - minus_log
                    }));
                    *nll = -log_sum(&logs);
                }
            });
        });
    }

    /// `P`, (rows, V), for each outlook, at a temperature of every softmax.
    pub(super) fn distributions(
        &self,
        (classifier, params): (&Classifier, &Params),
        (outlooks, temperature): (&[f32], f32),
        out: &mut [f32],
    ) {
        let (isa, block, v) = (self.compute.isa, self.block, self.vocab);
        let bias = classifier.bias(params);
        let jobs = outlooks.chunks(block * self.width()).zip(out.chunks_mut(block * v));
        self.compute.team.for_each(jobs, |(outlooks, out)| {
            let (mut tempered, mut words) = (Vec::new(), out.chunks_exact_mut(v));
            self.each(classifier, outlooks, |pi, z| {
                let Some(p) = words.next() else { return };
                p.fill(0.0);
                for (pi, z) in pi.iter().zip(z.chunks_exact_mut(v)) {
                    if temperature == 1.0 {
                        loss::softmax(isa, z, bias);
                    } else {
                        temper(z, bias, temperature, &mut tempered);
                        z.copy_from_slice(&tempered);
                        loss::softmax(isa, z, None);
                    }
                    p.iter_mut().zip(&*z).for_each(|(p, y)| *p += pi * y);
                }
            });
        });
    }

    /// Calls `f` with the shares and the logits, (K, V), of each of a block's outlooks, one after the other.
    fn each(&self, classifier: &Classifier, outlooks: &[f32], mut f: impl FnMut(&[f32], &mut [f32])) {
        let (k, v, d) = (self.softmaxes, self.vocab, self.d);
        let words = outlooks.len() / self.width();
        // Free room is as good as any other: what is in it is overwritten.
        let rooms = || self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = rooms().pop().unwrap_or_default();
        room.resize(room.len().max(words * k * (d + v)), 0.0);
        let (e, z) = room[..words * k * (d + v)].split_at_mut(words * k * d);
        for (e, outlook) in e.chunks_exact_mut(k * d).zip(outlooks.chunks_exact(self.width())) {
            e.copy_from_slice(&outlook[..k * d]);
        }
        gemm_alone(Mat::new(e, words * k, d), &classifier.weights, z, Into::Overwrite);
        for (outlook, z) in outlooks.chunks_exact(self.width()).zip(z.chunks_exact_mut(k * v)) {
            f(&outlook[k * d..], z);
        }
        rooms().push(room);
    }
}

/// The outlook of a word: what the softmaxes see, and their shares.
fn tell(e: &[f32], scores: &[f32], row: &mut [f32]) {
    let (vectors, pi) = row.split_at_mut(e.len());
    vectors.copy_from_slice(e);
    pi.copy_from_slice(scores);
    softmax(pi);
}

/// `log sum_k e^(x_k)`.
fn log_sum(x: &[f64]) -> f64 {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + x.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}
