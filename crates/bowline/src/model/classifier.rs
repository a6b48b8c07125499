//! The classifier, `y = softmax(W h + b)` (equation 3), the loss and its gradient.
//!
//! The logits of a window are worked on in blocks of rows: product, loss and gradient, product back, while a block is
//! still in the cache.

mod targets;

use super::classes::Classes;
use super::gram::{Gram, GramLoss};
use super::pointer::Outlook;
use super::question::Question;
use super::sum_product::SumProduct;
use crate::compute::Compute;
use crate::params::Params;
use crate::spec::ModelSpec;
use bowline_kernels::loss::{self, Bias, Loss};
use bowline_kernels::{Buffer, Into, Isa, Mat, PackedB, Team, elementwise, gemm, gemm_alone, rows_per_job};
use std::sync::{Mutex, PoisonError};
use targets::Augmented;
pub use targets::{AugmentedForm, AugmentedLoss};

/// Rows of logits in a block, at most. How many are taken changes nothing but the speed.
const BLOCK: usize = 120;

/// Rows whose shares of the bias's gradient are added up first; blocks are multiples of it.
pub(super) const BIAS_ROWS: usize = 10;

/// Logits that an evaluation has at a time, at most: 64 MB of them.
const EVALUATED: usize = 16 << 20;

pub(super) fn block(rows: usize, team: &Team) -> usize {
    rows_per_job(rows, team.threads(), BLOCK)
}

/// The classifier's buffers and packed weights, allocated once.
pub struct Classifier {
    isa: Isa,
    vocab: usize,
    hidden: usize,
    /// `W^T`, (d, V).
    pub(super) weights: PackedB,
    /// `W`, (V, d), for the way back.
    pub(super) weights_back: PackedB,
    /// `e^(b - max b)` and `max b`, when there is a bias.
    exp_bias: Vec<f32>,
    max_bias: f32,
    /// (T B, V): logits, then their gradient.
    logits: Buffer,
    losses: Vec<Loss>,
    /// Buffers for a block of asked rows and their logits each, as many as ever were in use at a time.
    answers: Mutex<Vec<Vec<f32>>>,
    /// (T B / BIAS_ROWS, V): shares of the bias's gradient, when there is a bias.
    d_bias: Buffer,
    /// What the products go through before they are logits, where they do.
    sum_product: Option<SumProduct>,
    classes: Option<Classes>,
    augmented: Augmented,
    gram: Gram,
}

/// The words of a window as the classifier learns from them.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    /// What it sees, (rows, d).
    pub h: &'a [f32],
    /// The words to be predicted.
    pub targets: &'a [u32],
    /// The weight of a word in the loss.
    pub scale: f32,
    /// The augmented loss, where there is one.
    pub augment: Option<AugmentedLoss>,
    /// The outlooks of the words, (rows, d + 1 + 2 L), where a pointer predicts them, too; empty where none does.
    pub outlook: &'a [f32],
}

/// Sums of the losses of the words of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowLoss {
    /// Sum of the cross-entropies, in nats.
    pub ce: f64,
    /// Sum of `KL(y~ || y^)`.
    pub kl: f64,
}

impl Classifier {
    /// Room for `rows` words at a time.
    pub fn new(compute: &Compute, spec: &ModelSpec, rows: usize) -> Classifier {
        let (isa, precision) = (compute.isa, compute.precision);
        let (vocab, hidden) = (spec.vocab, spec.width());
        Classifier {
            isa,
            vocab,
            hidden,
            weights: PackedB::new(isa, precision),
            weights_back: PackedB::new(isa, precision),
            exp_bias: Vec::new(),
            max_bias: 0.0,
            logits: Buffer::zeros(rows * vocab),
            losses: vec![Loss::default(); rows],
            answers: Mutex::new(Vec::new()),
            d_bias: Buffer::new(),
            sum_product: SumProduct::new(spec, isa),
            classes: Classes::new(spec, compute),
            augmented: Augmented::new(compute),
            gram: Gram::new(isa),
        }
    }

    /// Takes new weights; once per window when training, once for all when evaluating.
    pub fn pack(&mut self, team: &Team, params: &Params, for_backward: bool) {
        if let Some(classes) = &mut self.classes {
            classes.pack(team, params, for_backward);
            if for_backward {
                return;
            }
        }
        let matrix = Mat::new(params.classifier(), self.vocab, self.hidden);
        self.weights.pack(team, matrix.t());
        if for_backward {
            self.weights_back.pack(team, matrix);
        }
        if let Some(sum_product) = &mut self.sum_product {
            sum_product.pack(params);
        }
        if let Some(bias) = params.classifier_bias() {
            let max = bias.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            self.exp_bias.clear();
            self.exp_bias.extend(bias.iter().map(|b| (b - max).exp()));
            self.max_bias = max;
        }
    }

    /// Products with `h`, (rows, d), to logits: what a sum-product network or classes make of them, nothing otherwise.
    fn link(&self, params: &Params, h: &[f32], z: &mut [f32]) {
        if let (Some(of), Some(classes)) = (&self.classes, params.classes()) {
            of.link(classes, h, z);
        }
        if let Some(sum_product) = &self.sum_product {
            let polynomials = sum_product.polynomials(params);
            z.chunks_exact_mut(self.vocab).for_each(|z| polynomials.logits(self.isa, z));
        }
    }

    pub(super) fn bias<'a>(&'a self, params: &'a Params) -> Option<Bias<'a>> {
        params.classifier_bias().map(|values| Bias { values, exp: &self.exp_bias, max: self.max_bias })
    }

    /// Writes `-log y_target` of each row of `h` (rows, d) at each of the temperatures (the logits are divided by them; 1 is
    /// the model as trained) to `nll`, (rows, temperatures).
    pub fn evaluate(
        &mut self,
        team: &Team,
        params: &Params,
        h: &[f32],
        targets: &[u32],
        temperatures: &[f32],
        nll: &mut [f64],
    ) {
        let (isa, v, d, n) = (self.isa, self.vocab, self.hidden, temperatures.len());
        let mut logits = std::mem::take(&mut self.logits);
        let bias = self.bias(params);
        // With a large vocabulary the logits of a window are worked on part by part, always in the same memory.
        let part = (EVALUATED / v / BIAS_ROWS * BIAS_ROWS).max(BIAS_ROWS);
        for ((h, targets), nll) in h.chunks(part * d).zip(targets.chunks(part)).zip(nll.chunks_mut(part * n)) {
            let block = block(targets.len(), team);
            let jobs = logits.chunks_mut(block * v).zip(h.chunks(block * d));
            team.for_each(
                jobs.zip(targets.chunks(block)).zip(nll.chunks_mut(block * n)),
                |(((z, h), targets), nll)| {
                    gemm_alone(Mat::new(h, targets.len(), d), &self.weights, z, Into::Overwrite);
                    self.link(params, h, &mut z[..targets.len() * v]);
                    let mut tempered = Vec::new();
                    for ((z, &target), nll) in z.chunks_exact(v).zip(targets).zip(nll.chunks_exact_mut(n)) {
                        for (nll, &temperature) in nll.iter_mut().zip(temperatures) {
                            let (z, bias) = if temperature == 1.0 {
                                (z, bias)
                            } else {
                                temper(z, bias, temperature, &mut tempered);
                                (&tempered[..], None)
                            };
                            *nll = loss::minus_log_probability(isa, z, bias, target as usize);
                        }
                    }
                },
            );
        }
        self.logits = logits;
    }

    /// Answers each question from its row of `h`, (rows, d). The logits of a block are gone when the next one comes.
    pub fn answer(&mut self, team: &Team, params: &Params, h: &[f32], questions: &mut [Question]) {
        let (isa, v, d) = (self.isa, self.vocab, self.hidden);
        let bias = self.bias(params);
        let block = block(questions.len(), team);
        // A free buffer is as good as any other: what is in it is overwritten.
        let free = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        team.for_each(questions.chunks_mut(block), |questions| {
            let (rows, room) = (questions.len(), block * (d + v));
            let mut buffer = free().pop().unwrap_or_default();
            buffer.resize(buffer.len().max(room), 0.0);
            let (asked, logits) = buffer[..rows * (d + v)].split_at_mut(rows * d);
            for (to, question) in asked.chunks_exact_mut(d).zip(&*questions) {
                to.copy_from_slice(&h[question.row * d..][..d]);
            }
            gemm_alone(Mat::new(asked, rows, d), &self.weights, logits, Into::Overwrite);
            self.link(params, asked, logits);
            for (z, question) in logits.chunks_exact(v).zip(questions) {
                question.answer(z, bias.map(|bias| bias.values), loss::log_sum(isa, z, bias));
            }
            free().push(buffer);
        });
    }

    /// Writes `y`, (rows, V), for each row of `h`, (rows, d), at a temperature.
    pub fn probabilities(&self, team: &Team, params: &Params, h: &[f32], temperature: f32, out: &mut [f32]) {
        let (isa, v, d) = (self.isa, self.vocab, self.hidden);
        let bias = self.bias(params);
        let block = block(h.len() / d, team);
        team.for_each(out.chunks_mut(block * v).zip(h.chunks(block * d)), |(z, h)| {
            gemm_alone(Mat::new(h, h.len() / d, d), &self.weights, z, Into::Overwrite);
            self.link(params, h, z);
            if temperature == 1.0 {
                return z.chunks_exact_mut(v).for_each(|z| loss::softmax(isa, z, bias));
            }
            let mut tempered = Vec::new();
            for z in z.chunks_exact_mut(v) {
                temper(z, bias, temperature, &mut tempered);
                z.copy_from_slice(&tempered);
                loss::softmax(isa, z, None);
            }
        });
    }

    /// The loss of a window, `scale * sum (cross CE + gamma tau KL)`, its gradient by `h` (into `d_h`) and by the weights: into
    /// the classifier's part of `d_params`, overwriting it, and, when the gradient flows through `y~`, into the embedding's
    /// (which is overwritten too; without flow an untied embedding's gradient is set to zero).
    pub fn train(
        &mut self,
        team: &Team,
        params: &Params,
        words: Words<'_>,
        d_h: &mut [f32],
        d_params: &mut Params,
        scratch: &mut PackedB,
    ) -> WindowLoss {
        if let (Some(of), Some(classes)) = (&mut self.classes, params.classes()) {
            return of.train(team, (params, classes), words, d_h, d_params, scratch);
        }
        let Words { h, targets, scale, augment, outlook } = words;
        let (isa, v, d, rows) = (self.isa, self.vocab, self.hidden, targets.len());
        let tied = params.spec().output.tied;
        let gram = augment.and_then(|augment| match augment.form {
            AugmentedForm::Exact | AugmentedForm::Given => None,
            AugmentedForm::Gram { shares, turn } => {
                let AugmentedLoss { tau, gamma, flow, .. } = augment;
                Some(GramLoss { tau, gamma, flow, shares, turn, scale })
            }
        });
        assert!(tied || gram.is_none(), "the second-order form is for tied models");
        let cross = scale * augment.map_or(1.0, |augment| augment.cross);
        let augment = augment.filter(|_| gram.is_none());
        match augment {
            Some(augment) if augment.form == AugmentedForm::Exact => {
                self.estimate_targets(team, params, targets, augment)
            }
            Some(_) => self.take_given_targets(rows),
            None => {}
        }
        let mut logits = std::mem::take(&mut self.logits);
        let mut losses = std::mem::take(&mut self.losses);
        let mut d_bias = std::mem::take(&mut self.d_bias);
        if params.classifier_bias().is_some() {
            d_bias.grow(rows.div_ceil(BIAS_ROWS) * v);
            d_bias.fill(0.0);
        }
        let mut room = self.sum_product.as_mut().map(|sum_product| sum_product.room(rows * v));
        let polynomials = self.sum_product.as_ref().map(|sum_product| sum_product.polynomials(params));
        let (sums, ratios) = match &mut room {
            Some((sums, ratios)) => (&mut sums[..rows * v], &mut ratios[..rows * v]),
            None => (&mut [][..], &mut [][..]),
        };
        let bias = self.bias(params);
        let block = block(rows, team);
        let sums_and_ratios = or_nothing(sums.chunks_mut(block * v)).zip(or_nothing(ratios.chunks_mut(block * v)));
        let d_bias_blocks = or_nothing(d_bias.chunks_mut(block / BIAS_ROWS * v));
        let jobs = logits[..rows * v]
            .chunks_mut(block * v)
            .zip(h.chunks(block * d))
            .zip(d_h.chunks_mut(block * d))
            .zip(targets.chunks(block))
            .zip(losses.chunks_mut(block))
            .zip(d_bias_blocks)
            .zip(sums_and_ratios)
            .zip((0..rows).step_by(block));
        team.for_each(jobs, |(((((((z, h), d_h), targets), losses), d_bias), (sums, ratios)), first)| {
            // z = W h
            gemm_alone(Mat::new(h, targets.len(), d), &self.weights, z, Into::Overwrite);
            if let Some(polynomials) = polynomials {
                sums.copy_from_slice(z);
                z.chunks_exact_mut(v).for_each(|z| polynomials.logits(isa, z));
            }
            for (i, ((z, &target), loss)) in z.chunks_exact_mut(v).zip(targets).zip(losses).enumerate() {
                let d_bias = bias.map(|_| &mut d_bias[i / BIAS_ROWS * v..][..v]);
                let aug = augment.map(|a| self.target(a, first + i, target, a.gamma * scale));
                let cross = match outlook.len() / rows {
                    0 => cross,
                    width => {
                        let seen = Outlook::of(&outlook[(first + i) * width..][..width], d);
                        let nll = loss::minus_log_probability(isa, z, bias, target as usize);
                        cross * seen.share(target, nll) as f32
                    }
                };
                *loss = match aug {
                    None => loss::cross_entropy(isa, z, bias, target as usize, cross, d_bias),
                    Some(aug) => loss::augmented(isa, z, bias, target as usize, cross, aug, d_bias),
                };
            }
            if let Some(polynomials) = polynomials {
                let rows = z.chunks_exact_mut(v).zip(ratios.chunks_exact_mut(v)).zip(sums.chunks_exact(v));
                rows.for_each(|((z, ratios), sums)| polynomials.back(isa, sums, z, ratios));
            }
            // d_h = d_z W
            gemm_alone(Mat::new(z, targets.len(), v), &self.weights_back, d_h, Into::Overwrite);
        });
        // d_W = d_z^T h
        let d_logits = Mat::new(&logits[..rows * v], rows, v);
        scratch.pack(team, Mat::new(h, rows, d));
        gemm(team, d_logits.t(), scratch, d_params.classifier_mut(), Into::Overwrite);
        if let (Some(sum_product), Some(room)) = (&mut self.sum_product, room) {
            sum_product.backward(team, rows * v, room, d_params);
        }
        if let Some(d_b) = d_params.classifier_bias_mut() {
            elementwise::column_sums(team, isa, &d_bias, d_b);
        }
        self.d_bias = d_bias;
        self.logits = logits;
        let mut sum = WindowLoss::default();
        for loss in &losses[..rows] {
            sum.ce += loss.ce;
            sum.kl += loss.kl;
        }
        self.losses = losses;
        match augment {
            Some(augment) if augment.flow => {
                self.flow_back(team, params, (words, augment), d_params, scratch);
            }
            _ if !tied => d_params.embedding_mut().fill(0.0),
            _ => {}
        }
        if let Some(gram) = gram {
            let (embedding, d_embedding) = (params.embedding(), d_params.embedding_mut());
            sum.kl += self.gram.train(team, gram, embedding, words, d_h, d_embedding);
        }
        sum
    }

    /// `-log y_target` of each of the words of the window that was learned from last.
    pub(super) fn cross_entropies(&self, rows: usize, out: &mut Vec<f64>) {
        out.clear();
        out.extend(self.losses[..rows].iter().map(|loss| loss.ce));
    }
}

/// `(z + b) / temperature`.
pub(super) fn temper(z: &[f32], bias: Option<Bias<'_>>, temperature: f32, out: &mut Vec<f32>) {
    let inverse = 1.0 / temperature;
    out.clear();
    match bias {
        Some(bias) => out.extend(z.iter().zip(bias.values).map(|(z, b)| (z + b) * inverse)),
        None => out.extend(z.iter().map(|z| z * inverse)),
    }
}

/// The blocks, and when there are no more, empty ones for ever: for a buffer that not every model has.
pub(super) fn or_nothing<'a>(blocks: impl Iterator<Item = &'a mut [f32]>) -> impl Iterator<Item = &'a mut [f32]> {
    blocks.chain(std::iter::repeat_with(|| &mut [][..]))
}
