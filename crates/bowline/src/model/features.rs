//! The features of topics in a network: beside the word vectors under the first layer, and beside what the classifier sees.
//!
//! `h = f(W [x; f] + ..)` and `y = softmax(V [h; f] + b)`: with the matrices written as blocks, Mikolov and Zweig's
//! `F f` and `G f` (2012). No gradient flows into the features.

use super::layer::Shape;
use super::state::Part;
use crate::batch::Window;
use crate::spec::ModelSpec;
use crate::topics::{Topics, TopicsSpec};
use bowline_kernels::Buffer;

/// The name of the carried part of the state: the last words of each stream, oldest first, each as its id and 1; 0 is none.
pub(super) const WORDS: &str = "words";

/// The features of a window, and the vectors with them.
pub(super) struct Features {
    spec: TopicsSpec,
    /// (T, B, k).
    values: Buffer,
    /// (T, B, d_x + k).
    inputs: Buffer,
    /// (T, B, d_h + k).
    seen: Buffer,
    /// `d_h + k`.
    width: usize,
    /// The words of one stream, the carried ones first.
    words: Vec<u32>,
}

impl Features {
    /// Room for `rows` words; none if the model has no topics.
    pub(super) fn new(spec: &ModelSpec, rows: usize) -> Option<Features> {
        let topics = spec.input.topics?;
        Some(Features {
            spec: topics,
            values: Buffer::zeros(rows * topics.count),
            inputs: Buffer::zeros(rows * spec.inputs(0)),
            seen: Buffer::zeros(rows * spec.width()),
            width: spec.width(),
            words: Vec::new(),
        })
    }

    /// The features after each word of a window. The last words are carried in and out.
    pub(super) fn read(&mut self, topics: &Topics, window: &Window, carried: &mut Part) {
        let (k, batch, words) = (self.spec.count, window.batch, &mut self.words);
        for (b, carried) in carried.values.chunks_exact_mut(self.spec.window).enumerate() {
            recall(carried, words);
            let known = words.len();
            words.extend(window.inputs.iter().skip(b).step_by(batch));
            for t in 0..window.steps {
                let out = &mut self.values[(t * batch + b) * k..][..k];
                topics.features(words[..known + t + 1].iter().copied(), out);
            }
            let last = &words[words.len().saturating_sub(carried.len())..];
            let (none, some) = carried.split_at_mut(carried.len() - last.len());
            none.fill(0.0);
            some.iter_mut().zip(last).for_each(|(to, &word)| *to = (word + 1) as f32);
        }
    }

    /// `[x; f]` of every word, (T, B, d_x + k), from `x`, (T, B, d_x).
    pub(super) fn beside_inputs(&mut self, x: &[f32], rows: usize) {
        beside(x, &self.values[..rows * self.spec.count], rows, &mut self.inputs);
    }

    /// `[h; f]` of every word, (T, B, d_h + k), from `h`, (T, B, d_h).
    pub(super) fn beside_seen(&mut self, h: &[f32], rows: usize) {
        beside(h, &self.values[..rows * self.spec.count], rows, &mut self.seen);
    }

    /// [`Features::beside_inputs`].
    pub(super) fn inputs(&self) -> &[f32] {
        &self.inputs
    }

    /// [`Features::beside_seen`].
    pub(super) fn seen(&self, (steps, batch): Shape) -> &[f32] {
        &self.seen[..steps * batch * self.width]
    }
}

/// The words that were carried, oldest first.
fn recall(carried: &[f32], words: &mut Vec<u32>) {
    words.clear();
    words.extend(carried.iter().filter(|&&word| word > 0.0).map(|&word| word as u32 - 1));
}

/// The features after the words that a state of one stream carries, (k).
pub(super) fn after(topics: &Topics, count: usize, carried: &Part) -> Vec<f32> {
    let (mut words, mut out) = (Vec::new(), vec![0.0; count]);
    recall(&carried.values, &mut words);
    topics.features(words.into_iter(), &mut out);
    out
}

fn beside(x: &[f32], f: &[f32], rows: usize, out: &mut [f32]) {
    let (k, d) = (f.len() / rows.max(1), x.len() / rows.max(1));
    for ((x, f), out) in x.chunks_exact(d).zip(f.chunks_exact(k)).zip(out.chunks_exact_mut(d + k)) {
        out[..d].copy_from_slice(x);
        out[d..].copy_from_slice(f);
    }
}

/// Leaves the first `keep` of every `width` values, close together: the gradient without that of the features.
pub(super) fn without_features(d: &mut [f32], rows: usize, width: usize, keep: usize) {
    if width != keep {
        (1..rows).for_each(|row| d.copy_within(row * width..row * width + keep, row * keep));
    }
}
