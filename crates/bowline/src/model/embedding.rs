//! Words to vectors, `x_t = L y*_{t-1}` (equation 1), with the input's mask, and the way back.

/// `out` (T, B, d): the vector of each word, times the mask (B, d) of its stream.
pub fn forward(embedding: &[f32], ids: &[u32], mask: Option<&[f32]>, hidden: usize, out: &mut [f32]) {
    let d = hidden;
    for (i, (&id, out)) in ids.iter().zip(out.chunks_exact_mut(d)).enumerate() {
        let vector = &embedding[id as usize * d..][..d];
        match mask {
            None => out.copy_from_slice(vector),
            Some(mask) => {
                let mask = &mask[i * d % mask.len()..][..d];
                for ((out, x), m) in out.iter_mut().zip(vector).zip(mask) {
                    *out = x * m;
                }
            }
        }
    }
}

/// Adds `d_out` (T, B, d), the gradient by what [`forward`] gave, to the rows of `d_embedding`, in the order of `ids`.
pub fn backward(d_out: &[f32], ids: &[u32], mask: Option<&[f32]>, hidden: usize, d_embedding: &mut [f32]) {
    let d = hidden;
    for (i, (&id, d_out)) in ids.iter().zip(d_out.chunks_exact(d)).enumerate() {
        let row = &mut d_embedding[id as usize * d..][..d];
        match mask {
            None => row.iter_mut().zip(d_out).for_each(|(r, g)| *r += g),
            Some(mask) => {
                let mask = &mask[i * d % mask.len()..][..d];
                for ((r, g), m) in row.iter_mut().zip(d_out).zip(mask) {
                    *r += g * m;
                }
            }
        }
    }
}
