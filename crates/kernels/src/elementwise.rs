//! Passes over the flat buffers: norms, sums of columns, the step of gradient descent.

use crate::cpu::Isa;
use crate::simd::{Simd, multiversion};
use crate::team::{SMALL_PASS, Team};

/// Pieces into which a buffer is divided: a fixed number, so that a sum does not depend on the number of threads.
const PIECES: usize = 64;

fn piece(n: usize) -> usize {
    n.div_ceil(PIECES).max(1)
}

/// `sum x^2`, in f64.
pub fn squared_norm(team: &Team, isa: Isa, x: &[f32]) -> f64 {
    let mut sums = [0.0f64; PIECES];
    team.for_each_unless(x.len() < SMALL_PASS, sums.iter_mut().zip(x.chunks(piece(x.len()))), |(sum, x)| {
        // SAFETY: pointer and length are of one slice.
        *sum = x.chunks(4096).map(|x| unsafe { squares(isa, x.as_ptr(), x.len()) }).sum();
    });
    sums.iter().sum()
}

/// Scales every row of `x`, of `columns` elements, to length 1; a row of zeros stays.
pub fn normalize_rows(team: &Team, isa: Isa, x: &mut [f32], columns: usize) {
    assert!(columns > 0 && x.len().is_multiple_of(columns));
    let (small, rows) = (x.len() < SMALL_PASS, piece(x.len()).div_ceil(columns));
    team.for_each_unless(small, x.chunks_mut(rows * columns), |rows| {
        for row in rows.chunks_exact_mut(columns) {
            // SAFETY: pointer and length are of one slice.
            let squared: f64 = row.chunks(4096).map(|x| unsafe { squares(isa, x.as_ptr(), x.len()) }).sum();
            if squared > 0.0 {
                let factor = squared.sqrt().recip() as f32;
                row.iter_mut().for_each(|x| *x *= factor);
            }
        }
    });
}

/// `x += factor * (y + pull * x)`. A pull that is too weak to change `x` by itself still counts beside `y`.
pub fn add_scaled(team: &Team, isa: Isa, x: &mut [f32], factor: f32, y: &[f32], pull: f32) {
    assert_eq!(x.len(), y.len());
    let (small, piece) = (x.len() < SMALL_PASS, piece(x.len()));
    team.for_each_unless(small, x.chunks_mut(piece).zip(y.chunks(piece)), |(x, y)| {
        // SAFETY: pointers and length are of two slices of one length.
        unsafe { axpy(isa, x.as_mut_ptr(), factor, y.as_ptr(), pull, x.len()) };
    });
}

/// `out[j] = sum_i x[i][j]` for a row-major `x` with `out.len()` columns.
pub fn column_sums(team: &Team, isa: Isa, x: &[f32], out: &mut [f32]) {
    let n = out.len();
    assert!(n > 0 && x.len().is_multiple_of(n));
    let piece = piece(n).next_multiple_of(64);
    team.for_each_unless(x.len() < SMALL_PASS, out.chunks_mut(piece).enumerate(), |(p, out)| {
        out.fill(0.0);
        for row in x.chunks_exact(n) {
            // SAFETY: the piece's columns are inside the row.
            unsafe { axpy(isa, out.as_mut_ptr(), 1.0, row[p * piece..].as_ptr(), 0.0, out.len()) };
        }
    });
}

multiversion! {
    /// # Safety
    /// `x` has `n` elements.
    unsafe fn squares = squares_generic(x: *const f32, n: usize) -> f64
}

#[inline(always)]
unsafe fn squares_generic<S: Simd>(x: *const f32, n: usize) -> f64 {
    // SAFETY: the caller's promise.
    unsafe {
        let (whole, mut sum) = (n / S::LANES * S::LANES, S::splat(0.0));
        for at in (0..whole).step_by(S::LANES) {
            let v = S::load(x.add(at));
            sum = S::fma(v, v, sum);
        }
        let v = S::load_partial(x.add(whole), n - whole, 0.0);
        S::sum(S::fma(v, v, sum))
    }
}

multiversion! {
    /// # Safety
    /// `x` and `y` have `n` elements.
    unsafe fn axpy = axpy_generic(x: *mut f32, factor: f32, y: *const f32, pull: f32, n: usize)
}

#[inline(always)]
unsafe fn axpy_generic<S: Simd>(x: *mut f32, factor: f32, y: *const f32, pull: f32, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (whole, a, pull) = (n / S::LANES * S::LANES, S::splat(factor), S::splat(pull));
        for at in (0..whole).step_by(S::LANES) {
            let old = S::load(x.add(at));
            S::store(x.add(at), S::fma(a, S::fma(pull, old, S::load(y.add(at))), old));
        }
        let rest = n - whole;
        let old = S::load_partial(x.add(whole), rest, 0.0);
        let y = S::fma(pull, old, S::load_partial(y.add(whole), rest, 0.0));
        S::store_partial(x.add(whole), rest, S::fma(a, y, old));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::numbers;

    #[test]
    fn they_agree_with_plain_loops_at_any_number_of_threads() {
        for isa in Isa::available() {
            for n in [0, 1, 9, 64, 1000, 10_007] {
                let (x, y) = (numbers(1, n), numbers(2, n));
                let norm: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
                let sums: Vec<f64> = (1..=3).map(|t| squared_norm(&Team::new(t), isa, &x)).collect();
                assert!((sums[0] - norm).abs() <= 1e-5 * norm && sums.iter().all(|&s| s == sums[0]));
                for pull in [0.0, 0.75] {
                    let mut moved = x.clone();
                    add_scaled(&Team::new(2), isa, &mut moved, -0.5, &y, pull);
                    let want = x.iter().zip(&y).map(|(x, y)| x - 0.5 * (y + pull * x));
                    assert!(moved.iter().zip(want).all(|(m, want)| (m - want).abs() < 1e-6));
                }
            }
            let x = numbers(3, 13 * 205);
            let mut out = vec![9.0; 205];
            column_sums(&Team::new(2), isa, &x, &mut out);
            for (j, got) in out.iter().enumerate() {
                let want: f64 = (0..13).map(|i| f64::from(x[i * 205 + j])).sum();
                assert!((f64::from(*got) - want).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn a_pull_too_weak_by_itself_counts_beside_what_is_added() {
        // A quarter and three eighths of the distance from 1 to the next smaller number; together more than half of it.
        let step = f32::EPSILON / 2.0;
        let after = |isa, y: f32, pull| {
            let mut x = [1.0];
            add_scaled(&Team::new(1), isa, &mut x, -1.0, &[y], pull);
            x[0]
        };
        for isa in Isa::available() {
            assert_eq!((after(isa, 0.25 * step, 0.0), after(isa, 0.0, 0.375 * step)), (1.0, 1.0));
            assert_eq!(after(isa, 0.25 * step, 0.375 * step), 1.0 - step);
        }
    }

    #[test]
    fn rows_get_length_1_at_any_number_of_threads_and_rows_of_zeros_stay() {
        for isa in Isa::available() {
            for (rows, columns) in [(1, 1), (7, 3), (301, 37)] {
                let mut x = numbers(4, rows * columns);
                x[..columns].fill(0.0);
                let scaled = [1, 2, 3].map(|threads| {
                    let mut scaled = x.clone();
                    normalize_rows(&Team::new(threads), isa, &mut scaled, columns);
                    scaled
                });
                assert!(scaled.iter().all(|other| *other == scaled[0]));
                assert!(scaled[0][..columns].iter().all(|&x| x == 0.0));
                for (row, before) in scaled[0].chunks(columns).zip(x.chunks(columns)).skip(1) {
                    let length: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
                    assert!((length - 1.0).abs() < 1e-6, "{length}");
                    assert!(row.iter().zip(before).all(|(a, b)| a.signum() == b.signum() || *b == 0.0));
                }
            }
        }
    }
}
