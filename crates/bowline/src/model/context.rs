//! The last words side by side, as a feed-forward network reads them: `h_t = [x_{t-n+1}; ..; x_t]`, oldest first. The window
//! reaches back into the words read before it, and so does the gradient: these are inputs like the others. A word before the first
//! one has a vector of zeros.

use super::layer::Shape;
use super::state::Part;
use crate::spec::ModelSpec;

/// The words of a window and those before it.
pub(super) struct Context {
    /// `n`.
    words: usize,
    /// Size of a word vector.
    width: usize,
    /// (n - 1 + T, B): each word as its id and 1; 0 is none.
    ids: Vec<u32>,
}

impl Context {
    /// None if the model reads a word at a time.
    pub(super) fn new(spec: &ModelSpec) -> Option<Context> {
        Some(Context { words: spec.input.context?, width: spec.input.width, ids: Vec::new() })
    }

    /// The vectors of the last words after each word of a window, (T, B, n d) into `out`. The last words are carried in and out.
    pub(super) fn forward(
        &mut self,
        embedding: &[f32],
        inputs: &[u32],
        carried: &mut Part,
        (steps, batch): Shape,
        out: &mut [f32],
    ) {
        let n = self.words;
        self.ids.clear();
        // What is carried ends with the word before the window, and is one longer than the window needs.
        for i in 1..n {
            self.ids.extend(carried.values.iter().skip(i).step_by(n).take(batch).map(|&word| word as u32));
        }
        self.ids.extend(inputs.iter().map(|word| word + 1));
        for (row, out) in out.chunks_exact_mut(n * self.width).enumerate().take(steps * batch) {
            for (i, out) in out.chunks_exact_mut(self.width).enumerate() {
                look_up(embedding, self.ids[row + i * batch], out);
            }
        }
        for (b, carried) in carried.values.chunks_exact_mut(n).enumerate().take(batch) {
            let last = self.ids[(steps - 1) * batch + b..].iter().step_by(batch);
            carried.iter_mut().zip(last).for_each(|(to, &word)| *to = word as f32);
        }
    }

    /// Adds the gradient by what [`Context::forward`] gave, (T, B, n d), to the rows of `d_embedding`, in the order of the places.
    pub(super) fn backward(&self, d_out: &[f32], (_, batch): Shape, d_embedding: &mut [f32]) {
        let d = self.width;
        for (row, d_out) in d_out.chunks_exact(self.words * d).enumerate() {
            for (i, d_x) in d_out.chunks_exact(d).enumerate() {
                let Some(id) = self.ids[row + i * batch].checked_sub(1) else { continue };
                let row = &mut d_embedding[id as usize * d..][..d];
                row.iter_mut().zip(d_x).for_each(|(sum, x)| *sum += x);
            }
        }
    }
}

/// The vectors of the words that a state of one stream carries, (n d).
pub(super) fn after(embedding: &[f32], width: usize, carried: &Part) -> Vec<f32> {
    let mut out = vec![0.0; carried.values.len() * width];
    for (out, &word) in out.chunks_exact_mut(width).zip(&carried.values) {
        look_up(embedding, word as u32, out);
    }
    out
}

fn look_up(embedding: &[f32], word: u32, out: &mut [f32]) {
    match word.checked_sub(1) {
        Some(id) => out.copy_from_slice(&embedding[id as usize * out.len()..][..out.len()]),
        None => out.fill(0.0),
    }
}
