//! The classifier, `y = softmax(W h + b)` (equation 3), the loss and its gradient, and the augmented loss's `y~`.
//!
//! The logits of a window are worked on in blocks of rows: product, loss and gradient, product back, while a block is
//! still in the cache.

use super::classes::Classes;
use super::gram::{Gram, GramLoss};
use super::pointer::Outlook;
use super::question::Question;
use super::sum_product::SumProduct;
use crate::compute::Compute;
use crate::params::Params;
use crate::spec::ModelSpec;
use bowline_kernels::loss::{self, Augment, Bias, Loss};
use bowline_kernels::{Buffer, Into, Isa, Mat, PackedB, Team, elementwise, gemm, gemm_alone, rows_per_job};
use std::sync::{Mutex, PoisonError};

/// Rows of logits in a block, at most. How many are taken changes nothing but the speed.
const BLOCK: usize = 120;

/// Rows whose shares of the bias's gradient are added up first; blocks are multiples of it.
pub(super) const BIAS_ROWS: usize = 10;

/// Logits that an evaluation has at a time, at most: 64 MB of them.
const EVALUATED: usize = 16 << 20;

pub(super) fn block(rows: usize, team: &Team) -> usize {
    rows_per_job(rows, team.threads(), BLOCK)
}

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

/// What only the augmented loss needs; empty without it.
struct Augmented {
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
            augmented: Augmented {
                embedding: PackedB::new(isa, precision),
                embedding_back: PackedB::new(isa, precision),
                distinct: Vec::new(),
                place: Vec::new(),
                vectors: Buffer::new(),
                targets: Buffer::new(),
                log_targets: Buffer::new(),
                negentropies: Vec::new(),
                counts: Vec::new(),
                sums: Buffer::new(),
                d_scores: Buffer::new(),
            },
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

    /// `y~` of a word of the window: by the target, or by the row when given.
    fn target(&self, augment: AugmentedLoss, row: usize, target: u32, scale: f32) -> Augment<'_> {
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
    fn take_given_targets(&mut self, rows: usize) {
        let aug = &mut self.augmented;
        aug.targets.grow(rows * self.vocab);
        aug.negentropies.resize(rows.max(aug.negentropies.len()), 0.0);
        for (negentropy, y) in aug.negentropies.iter_mut().zip(aug.targets.chunks_exact(self.vocab)).take(rows) {
            *negentropy = y.iter().filter(|&&y| y > 0.0).map(|&y| f64::from(y) * f64::from(y).ln()).sum();
        }
    }

    /// `y~ = softmax(L^T u / tau)` (section 3), once for each different target word of the window.
    fn estimate_targets(&mut self, team: &Team, params: &Params, targets: &[u32], augment: AugmentedLoss) {
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
        super::embedding::forward(params.embedding(), &aug.distinct, None, d, &mut aug.vectors[..n * d]);
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
    fn flow_back(
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
        super::embedding::backward(&sums[..n * d], &aug.distinct, None, d, d_params.embedding_mut());
        (self.augmented.d_scores, self.augmented.sums) = (d_scores, sums);
    }
}

impl Augmented {
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
