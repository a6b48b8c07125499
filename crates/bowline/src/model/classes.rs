//! A softmax in two steps: `y_w = softmax(C h)_c softmax(W_c h)_w`, where `c` is the class of word `w` and `W_c` has the rows of its
//! words.
//!
//! To learn from a word, its class's logits and the logits within its class are enough: the rows of a window are put together by
//! the class of their target, and each class is a small classifier for its own. To predict, `log y` of all words is made of all logits:
//! `log y_w = z_w - log sum_{v in c} e^{z_v} + log softmax(C h)_c`, whose softmax is `y` again.

use super::classifier::{WindowLoss, Words};
use crate::classes::WordClasses;
use crate::compute::Compute;
use crate::layout::TensorId;
use crate::params::Params;
use crate::spec::ModelSpec;
use bowline_kernels::loss::{self, Loss};
use bowline_kernels::{Buffer, Into, Isa, Mat, PackedB, Team, gemm, gemm_alone};

/// The buffers and packed weights.
pub(super) struct Classes {
    isa: Isa,
    weight: TensorId,
    /// `C^T`, (d, K), and `C`, (K, d), for the way back.
    weights: PackedB,
    weights_back: PackedB,
    /// (T B, K): logits of the classes, then their gradient.
    logits: Buffer,
    losses: Vec<Loss>,
    within: Vec<Within>,
}

/// The classifier within a class, and the rows of a window that it learns from.
struct Within {
    isa: Isa,
    rows: Vec<usize>,
    /// `W_c^T`, (d, n), `W_c`, (n, d), and `h`, (rows, d).
    weights: PackedB,
    weights_back: PackedB,
    seen: PackedB,
    /// (rows, d), (rows, n) and (rows, d).
    h: Vec<f32>,
    logits: Vec<f32>,
    d_h: Vec<f32>,
    ce: f64,
}

impl Classes {
    /// None if the model has no classes.
    pub(super) fn new(spec: &ModelSpec, compute: &Compute) -> Option<Classes> {
        let (classes, weight) = (spec.output.classes?, spec.layout().classes?);
        let isa = compute.isa;
        let packed = || PackedB::new(isa, compute.precision);
        let within = || Within {
            isa,
            rows: Vec::new(),
            weights: packed(),
            weights_back: packed(),
            seen: packed(),
            h: Vec::new(),
            logits: Vec::new(),
            d_h: Vec::new(),
            ce: 0.0,
        };
        Some(Classes {
            isa,
            weight,
            weights: packed(),
            weights_back: packed(),
            logits: Buffer::new(),
            losses: Vec::new(),
            within: (0..classes).map(|_| within()).collect(),
        })
    }

    /// Takes new weights of the classes. Those of the words within them are taken as they are needed.
    pub(super) fn pack(&mut self, team: &Team, params: &Params, for_backward: bool) {
        let matrix = Mat::new(params.of(self.weight), self.within.len(), params.spec().width());
        self.weights.pack(team, matrix.t());
        if for_backward {
            self.weights_back.pack(team, matrix);
        }
    }

    /// Logits `W h`, (rows, V) in `z`, to `log y`, given `h`, (rows, d).
    pub(super) fn link(&self, classes: &WordClasses, h: &[f32], z: &mut [f32]) {
        let (k, d) = (self.within.len(), self.weights.shape().0);
        let rows = h.len() / d;
        let mut of_classes = vec![0.0; rows * k];
        gemm_alone(Mat::new(h, rows, d), &self.weights, &mut of_classes, Into::Overwrite);
        let vocab = z.len() / rows.max(1);
        for (z, of_classes) in z.chunks_exact_mut(vocab).zip(of_classes.chunks_exact(k)) {
            let all = loss::log_sum(self.isa, of_classes, None);
            for (class, &logit) in of_classes.iter().enumerate() {
                let z = &mut z[classes.words(class)];
                let shift = -all.minus_log_of(f64::from(logit)) - loss::log_sum(self.isa, z, None).value();
                z.iter_mut().for_each(|z| *z = (f64::from(*z) + shift) as f32);
            }
        }
    }

    /// The loss of a window, `scale * sum CE`, its gradient by `h` (into `d_h`) and by the weights, which is overwritten. The word
    /// vectors' gradient is zero afterwards, ready to be added to.
    pub(super) fn train(
        &mut self,
        team: &Team,
        (params, classes): (&Params, &WordClasses),
        words: Words<'_>,
        d_h: &mut [f32],
        d_params: &mut Params,
        scratch: &mut PackedB,
    ) -> WindowLoss {
        let Words { h, targets, scale, .. } = words;
        let (isa, k, d, rows) = (self.isa, self.within.len(), params.spec().width(), targets.len());
        self.within.iter_mut().for_each(|within| within.rows.clear());
        targets.iter().enumerate().for_each(|(row, &word)| self.within[classes.class(word)].rows.push(row));
        // The classes: z = C h, d_h = d_z C, d_C = d_z^T h
        self.logits.grow(rows * k);
        self.losses.resize(rows, Loss::default());
        let z = &mut self.logits[..rows * k];
        gemm(team, Mat::new(h, rows, d), &self.weights, z, Into::Overwrite);
        for ((z, &word), loss) in z.chunks_exact_mut(k).zip(targets).zip(&mut self.losses) {
            *loss = loss::cross_entropy(isa, z, None, classes.class(word), scale, None);
        }
        gemm(team, Mat::new(z, rows, k), &self.weights_back, d_h, Into::Overwrite);
        scratch.pack(team, Mat::new(h, rows, d));
        gemm(team, Mat::new(z, rows, k).t(), scratch, d_params.of_mut(self.weight), Into::Overwrite);
        // The words within each class.
        let mut rest = d_params.classifier_mut();
        let own = |(class, within)| {
            let words = classes.words(class);
            let (d_weights, after) = std::mem::take(&mut rest).split_at_mut(words.len() * d);
            rest = after;
            (within, words, d_weights)
        };
        let jobs: Vec<_> = self.within.iter_mut().enumerate().map(own).collect();
        team.for_each(jobs.into_iter(), |(within, of_class, d_weights): (&mut Within, _, _)| {
            let matrix = Mat::new(&params.classifier()[of_class.start * d..of_class.end * d], of_class.len(), d);
            within.train(matrix, (words, of_class.start), d_weights);
        });
        for within in &self.within {
            for (&row, from) in within.rows.iter().zip(within.d_h.chunks_exact(d)) {
                d_h[row * d..][..d].iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
        d_params.embedding_mut().fill(0.0);
        let of_classes: f64 = self.losses.iter().map(|loss| loss.ce).sum();
        WindowLoss { ce: of_classes + self.within.iter().map(|within| within.ce).sum::<f64>(), kl: 0.0 }
    }
}

impl Within {
    /// The loss of its rows, the gradient by their `h`, and that by `W_c`, whose first word is `first`, into `d_weights`.
    fn train(&mut self, matrix: Mat<'_>, (words, first): (Words<'_>, usize), d_weights: &mut [f32]) {
        let ((n, d), rows) = (matrix.shape(), self.rows.len());
        self.ce = 0.0;
        if rows == 0 {
            return d_weights.fill(0.0);
        }
        self.h.clear();
        self.rows.iter().for_each(|&row| self.h.extend_from_slice(&words.h[row * d..][..d]));
        self.weights.pack_alone(matrix.t());
        self.weights_back.pack_alone(matrix);
        self.logits.resize(rows * n, 0.0);
        self.d_h.resize(rows * d, 0.0);
        gemm_alone(Mat::new(&self.h, rows, d), &self.weights, &mut self.logits, Into::Overwrite);
        for (z, &row) in self.logits.chunks_exact_mut(n).zip(&self.rows) {
            let target = words.targets[row] as usize - first;
            self.ce += loss::cross_entropy(self.isa, z, None, target, words.scale, None).ce;
        }
        gemm_alone(Mat::new(&self.logits, rows, n), &self.weights_back, &mut self.d_h, Into::Overwrite);
        self.seen.pack_alone(Mat::new(&self.h, rows, d));
        gemm_alone(Mat::new(&self.logits, rows, n).t(), &self.seen, d_weights, Into::Overwrite);
    }
}
