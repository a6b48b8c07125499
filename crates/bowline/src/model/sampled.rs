//! The classifier's loss over the words of a [`Sample`], and its gradient, which only their rows have.
//!
//! The rows of the words are gathered into a small matrix, the corrections are added to their biases, and the loss is that of
//! a classifier with so few words. Its gradient goes back into the rows it came from. The rows that have one are noted
//! ([`Touched`]), so that nothing has to pass over the whole matrix.

use super::classifier::{BIAS_ROWS, WindowLoss, Words, block, or_nothing};
use super::sample::Sample;
use crate::compute::Compute;
use crate::optim::{Touched, each_row};
use crate::params::Params;
use bowline_kernels::loss::{self, Bias, Loss};
use bowline_kernels::{Buffer, Into, Isa, Mat, PackedB, Team, elementwise, gemm, gemm_alone};

/// The buffers of such a loss.
pub(super) struct Sampled {
    isa: Isa,
    /// (n, d): the rows of the words; then their gradient.
    rows: Buffer,
    /// The same, for the way forward and back.
    weights: PackedB,
    weights_back: PackedB,
    /// The biases with their corrections, and `e^(b - max b)`.
    bias: Vec<f32>,
    exp_bias: Vec<f32>,
    /// The targets as places in the sample.
    targets: Vec<u32>,
    /// (T B, n): logits, then their gradient.
    logits: Buffer,
    losses: Vec<Loss>,
    /// (T B / BIAS_ROWS, n): shares of the bias's gradient; (n): their sum.
    d_bias: Buffer,
    d_bias_sum: Vec<f32>,
    pub(super) touched: Touched,
}

impl Sampled {
    pub(super) fn new(compute: &Compute) -> Sampled {
        let (isa, precision) = (compute.isa, compute.precision);
        Sampled {
            isa,
            rows: Buffer::new(),
            weights: PackedB::new(isa, precision),
            weights_back: PackedB::new(isa, precision),
            bias: Vec::new(),
            exp_bias: Vec::new(),
            targets: Vec::new(),
            logits: Buffer::new(),
            losses: Vec::new(),
            d_bias: Buffer::new(),
            d_bias_sum: Vec::new(),
            touched: Touched::default(),
        }
    }

    /// The loss of a window over the words of the sample, `scale * sum CE`, its gradient by `h` (into `d_h`) and by the weights of
    /// the classifier. The word vectors' gradient is zero afterwards in the rows of `inputs` that are none of the sample's,
    /// ready to be added to. `d_params` must be the same each time: of the last window's gradient only what was touched is
    /// cleared.
    pub(super) fn train(
        &mut self,
        team: &Team,
        params: &Params,
        (words, inputs, sample): (Words<'_>, &[u32], &Sample),
        d_h: &mut [f32],
        d_params: &mut Params,
        scratch: &mut PackedB,
    ) -> WindowLoss {
        let Words { h, targets, scale, .. } = words;
        let (isa, n, d, rows) = (self.isa, sample.words.len(), params.spec().width(), targets.len());
        self.touched.begin(team, d_params, inputs, &sample.words);
        self.gather(team, params, sample);
        self.targets.clear();
        self.targets.extend(targets.iter().map(|target| {
            // The targets are in every sample.
            sample.words.partition_point(|word| word < target) as u32
        }));
        let has_bias = params.classifier_bias().is_some();
        if has_bias {
            self.d_bias.resize(rows.div_ceil(BIAS_ROWS) * n);
            self.d_bias.fill(0.0);
        }
        self.logits.grow(rows * n);
        self.losses.resize(rows.max(self.losses.len()), Loss::default());
        let max = self.bias.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        self.exp_bias.clear();
        self.exp_bias.extend(self.bias.iter().map(|b| (b - max).exp()));
        let bias = Bias { values: &self.bias, exp: &self.exp_bias, max };
        let (weights, weights_back) = (&self.weights, &self.weights_back);
        let block = block(rows, team);
        let jobs = self.logits[..rows * n]
            .chunks_mut(block * n)
            .zip(h.chunks(block * d))
            .zip(d_h.chunks_mut(block * d))
            .zip(self.targets.chunks(block))
            .zip(self.losses.chunks_mut(block))
            .zip(or_nothing(self.d_bias.chunks_mut(block / BIAS_ROWS * n)));
        team.for_each(jobs, |(((((z, h), d_h), targets), losses), d_bias)| {
            // z = W h, for the words of the sample
            gemm_alone(Mat::new(h, targets.len(), d), weights, z, Into::Overwrite);
            for (i, ((z, &target), loss)) in z.chunks_exact_mut(n).zip(targets).zip(losses).enumerate() {
                let d_bias = has_bias.then(|| &mut d_bias[i / BIAS_ROWS * n..][..n]);
                *loss = loss::cross_entropy(isa, z, Some(bias), target as usize, scale, d_bias);
            }
            // d_h = d_z W
            gemm_alone(Mat::new(z, targets.len(), n), weights_back, d_h, Into::Overwrite);
        });
        // d_W = d_z^T h
        scratch.pack(team, Mat::new(h, rows, d));
        let d_logits = Mat::new(&self.logits[..rows * n], rows, n);
        gemm(team, d_logits.t(), scratch, &mut self.rows[..n * d], Into::Overwrite);
        let gradient = &self.rows;
        each_row(team, d_params.classifier_mut(), d, &sample.words, |i, row| {
            row.copy_from_slice(&gradient[i * d..][..d]);
        });
        if let Some(d_b) = d_params.classifier_bias_mut() {
            self.d_bias_sum.resize(n, 0.0);
            elementwise::column_sums(team, isa, &self.d_bias, &mut self.d_bias_sum);
            d_b.fill(0.0);
            sample.words.iter().zip(&self.d_bias_sum).for_each(|(&word, &d)| d_b[word as usize] = d);
        }
        WindowLoss { ce: self.losses[..rows].iter().map(|loss| loss.ce).sum(), kl: 0.0 }
    }

    /// The rows and biases of the words, packed and corrected.
    fn gather(&mut self, team: &Team, params: &Params, sample: &Sample) {
        let (n, d, matrix) = (sample.words.len(), params.spec().width(), params.classifier());
        self.rows.grow(n * d);
        const ROWS: usize = 256;
        let jobs = self.rows[..n * d].chunks_mut(ROWS * d).zip(sample.words.chunks(ROWS));
        team.for_each(jobs, |(to, words)| {
            for (to, &word) in to.chunks_exact_mut(d).zip(words) {
                to.copy_from_slice(&matrix[word as usize * d..][..d]);
            }
        });
        let rows = Mat::new(&self.rows[..n * d], n, d);
        self.weights.pack(team, rows.t());
        self.weights_back.pack(team, rows);
        self.bias.clear();
        let bias = params.classifier_bias();
        let own = |word: u32| bias.map_or(0.0, |bias| bias[word as usize]);
        self.bias
            .extend(sample.words.iter().zip(&sample.corrections).map(|(&word, correction)| own(word) + correction));
    }
}
