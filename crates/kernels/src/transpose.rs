//! A few rows of a matrix turned into columns, by squares of 8 x 8 that stay in registers.

use crate::cpu::Isa;

/// Rows that are turned together.
pub(crate) const SIDE: usize = 8;

/// `to[i * stride + j] = rows[j][i]` for rows of one length, from the first `i` to the last. With a stride below 8 only so
/// many rows count: what the others write is written over by the next column, and after the last column it stays.
pub(crate) fn transpose(isa: Isa, rows: [&[f32]; SIDE], to: &mut [f32], stride: usize) {
    let n = rows[0].len();
    assert!(rows.iter().all(|row| row.len() == n) && stride > 0);
    assert!(n == 0 || to.len() >= (n - 1) * stride + SIDE);
    let squares = if isa == Isa::PORTABLE { 0 } else { n / SIDE * SIDE };
    #[cfg(target_arch = "x86_64")]
    if squares > 0 {
        // SAFETY: an Isa other than PORTABLE exists only where the CPU has AVX2; rows and `to` are as long as asserted.
        unsafe { x86::squares(rows.map(<[f32]>::as_ptr), to.as_mut_ptr(), stride, squares) };
    }
    for i in squares..n {
        for (to, row) in to[i * stride..].iter_mut().zip(rows) {
            *to = row[i];
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::SIDE;
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU has AVX2; `rows` have `n` elements, a multiple of 8, and `to` has n rows of 8 elements, `stride` apart.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn squares(rows: [*const f32; SIDE], to: *mut f32, stride: usize, n: usize) {
        for i in (0..n).step_by(SIDE) {
            // SAFETY: the caller's promise.
            let r = unsafe { rows.map(|row| _mm256_loadu_ps(row.add(i))) };
            // Neighbours of neighbouring rows, then of pairs of rows, then of the halves.
            let pairs = [0, 2, 4, 6].map(|j| (_mm256_unpacklo_ps(r[j], r[j + 1]), _mm256_unpackhi_ps(r[j], r[j + 1])));
            let quads = [0, 2].map(|j| {
                let ((a, c), (b, d)) = (pairs[j], pairs[j + 1]);
                [
                    _mm256_shuffle_ps::<0x44>(a, b),
                    _mm256_shuffle_ps::<0xEE>(a, b),
                    _mm256_shuffle_ps::<0x44>(c, d),
                    _mm256_shuffle_ps::<0xEE>(c, d),
                ]
            });
            let [first, second] = quads;
            for j in 0..SIDE {
                let (upper, lower) = (first[j % 4], second[j % 4]);
                let column = if j < 4 {
                    _mm256_permute2f128_ps::<0x20>(upper, lower)
                } else {
                    _mm256_permute2f128_ps::<0x31>(upper, lower)
                };
                // SAFETY: the caller's promise.
                unsafe { _mm256_storeu_ps(to.add((i + j) * stride), column) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::numbers;

    #[test]
    fn rows_become_columns_and_nothing_else_changes() {
        for isa in Isa::available() {
            for (n, stride) in [(0, 8), (1, 8), (8, 8), (21, 16), (200, 24), (1, 4), (29, 6), (200, 4)] {
                let from = numbers(1, SIDE * n);
                let rows: [&[f32]; SIDE] = std::array::from_fn(|j| &from[j * n..(j + 1) * n]);
                let mut to = vec![7.0; n * stride + SIDE];
                transpose(isa, rows, &mut to, stride);
                for (i, row) in to[..n * stride].chunks_exact(stride).enumerate() {
                    for (j, &x) in row.iter().enumerate() {
                        assert_eq!(x, if j < SIDE { from[j * n + i] } else { 7.0 }, "{isa:?} {n} {stride}");
                    }
                }
            }
        }
    }
}
