//! Words to vectors, `x_t = L y*_{t-1}` (equation 1), with the input's masks, and the way back.

use super::dropout::{Masks, Site, there};

/// `out` (T, B, d): the vector of each word, times the masks of its place.
pub fn forward(embedding: &[f32], ids: &[u32], masks: Option<&Masks>, width: usize, out: &mut [f32]) {
    let d = width;
    let masks = InputMasks::of(masks);
    for (i, (&id, out)) in ids.iter().zip(out.chunks_exact_mut(d)).enumerate() {
        let vector = &embedding[id as usize * d..][..d];
        match masks.values(i, d) {
            None => out.copy_from_slice(vector),
            Some(mask) => out.iter_mut().zip(vector).zip(mask).for_each(|((out, x), m)| *out = x * m),
        }
        if let Some(factor) = masks.word(i) {
            out.iter_mut().for_each(|x| *x *= factor);
        }
    }
}

/// Adds `d_out` (T, B, d), the gradient by what [`forward`] gave, to the rows of `d_embedding`, in the order of `ids`.
pub fn backward(d_out: &[f32], ids: &[u32], masks: Option<&Masks>, width: usize, d_embedding: &mut [f32]) {
    let d = width;
    let masks = InputMasks::of(masks);
    for (i, (&id, d_out)) in ids.iter().zip(d_out.chunks_exact(d)).enumerate() {
        let row = &mut d_embedding[id as usize * d..][..d];
        let factor = masks.word(i).unwrap_or(1.0);
        match masks.values(i, d) {
            None => row.iter_mut().zip(d_out).for_each(|(r, g)| *r += g * factor),
            Some(mask) => row.iter_mut().zip(d_out).zip(mask).for_each(|((r, g), m)| *r += g * m * factor),
        }
    }
}

/// The masks of the input's two sites.
#[derive(Clone, Copy, Default)]
struct InputMasks<'a> {
    values: Option<&'a [f32]>,
    words: Option<&'a [f32]>,
}

impl<'a> InputMasks<'a> {
    fn of(masks: Option<&'a Masks>) -> InputMasks<'a> {
        masks.map_or_else(InputMasks::default, |m| {
            // Masks by gate are those of the first layer, which consumes the vector.
            let values = there(&m.input).filter(|_| !m.per_gate.contains(Site::Input));
            InputMasks { values, words: there(&m.words) }
        })
    }

    /// The mask of the `i`th word's vector; a held one begins anew at every step.
    fn values(&self, i: usize, d: usize) -> Option<&'a [f32]> {
        self.values.map(|mask| &mask[i * d % mask.len()..][..d])
    }

    fn word(&self, i: usize) -> Option<f32> {
        self.words.map(|words| words[i])
    }
}
