//! A polynomial for each word: the upper half of a sum-product network (Cheng et al. 2014) as a function of its logits.
//!
//! With `B_j = b_j + sum_{k=1..K} a_{jk} M_j^k`, the way from `M` to `z = log B` and back: `d_M = r B'(M)`,
//! `d_{a_jk} = sum_t r_t M_t^k` and `d_b = sum_t r_t` with `r = d_z / B`.
//!
//! Polynomials are evaluated from the highest power down, in f64: the tenth power of a sum above 7000 is more than f32 holds. All is
//! plain arithmetic on several words side by side, which the compiler turns into whole registers where the function around it has
//! them. No sum of products is fused, so that the bits are the same with every instruction set.

use crate::cpu::Isa;
use crate::simd::{Simd, multiversion};

/// A `B` below this counts as this: weights may all have come down to 0.
const LEAST: f64 = 1e-10;

/// Words side by side: a cache line of f32.
const LANES: usize = 16;

/// The highest power that there can be.
pub const MOST_POWERS: usize = 32;

/// The coefficients of the polynomials of `V` words.
#[derive(Clone, Copy, Debug)]
pub struct Polynomials<'a> {
    /// `a` by power, (K, V).
    weights: &'a [f32],
    /// `b`, (V).
    bias: &'a [f32],
}

impl<'a> Polynomials<'a> {
    /// From `a` by power, (K, V), and `b`, (V).
    pub fn new(weights: &'a [f32], bias: &'a [f32]) -> Polynomials<'a> {
        let powers = weights.len() / bias.len().max(1);
        assert!(powers <= MOST_POWERS && weights.len() == powers * bias.len());
        Polynomials { weights, bias }
    }

    fn powers(&self) -> usize {
        self.weights.len() / self.bias.len().max(1)
    }

    /// `log B` in the place of `M`, (V).
    pub fn logits(&self, isa: Isa, m: &mut [f32]) {
        assert_eq!(m.len(), self.bias.len());
        // SAFETY: the lengths were checked here and when the coefficients were taken.
        unsafe { logits(isa, self.powers(), self.weights.as_ptr(), self.bias.as_ptr(), m.as_mut_ptr(), m.len()) };
    }

    /// From the gradient by `log B`, in `d`, to that by `M`, in its place, and to `r`; each (V).
    pub fn back(&self, isa: Isa, m: &[f32], d: &mut [f32], ratios: &mut [f32]) {
        let n = self.bias.len();
        assert!(m.len() == n && d.len() == n && ratios.len() == n);
        let (weights, bias) = (self.weights.as_ptr(), self.bias.as_ptr());
        // SAFETY: the lengths were checked here and when the coefficients were taken.
        unsafe { back(isa, self.powers(), weights, bias, m.as_ptr(), d.as_mut_ptr(), ratios.as_mut_ptr(), n) };
    }
}

/// From `M` and `r` of some rows, (rows, V) each, to the gradient of the coefficients of the words from `first` on: `d_bias`, one
/// for each of them, and `d_weights`, (words, K). The rows are added in their order.
pub fn coefficients(
    isa: Isa,
    (m, r): (&[f32], &[f32]),
    vocab: usize,
    first: usize,
    (d_weights, d_bias): (&mut [f32], &mut [f32]),
) {
    let words = d_bias.len();
    assert!(m.len() == r.len() && vocab > 0 && m.len().is_multiple_of(vocab) && first + words <= vocab);
    let powers = d_weights.len() / words.max(1);
    assert!(powers <= MOST_POWERS && d_weights.len() == powers * words);
    for start in (0..words).step_by(LANES) {
        let lanes = LANES.min(words - start);
        let mut sums = [[0.0; LANES]; MOST_POWERS + 1];
        let at = first + start;
        // SAFETY: every row has `vocab` values, of which `lanes` are from `at` on.
        unsafe {
            power_sums(isa, powers, &mut sums, m.as_ptr().add(at), r.as_ptr().add(at), m.len() / vocab, vocab, lanes);
        }
        for lane in 0..lanes {
            d_bias[start + lane] = sums[0][lane] as f32;
            let d_weights = &mut d_weights[(start + lane) * powers..][..powers];
            d_weights.iter_mut().zip(&sums[1..]).for_each(|(d, sum)| *d = sum[lane] as f32);
        }
    }
}

multiversion! {
    /// # Safety
    /// `weights` has (powers, n) values, `bias` and `m` have n.
    unsafe fn logits = logits_generic(powers: usize, weights: *const f32, bias: *const f32, m: *mut f32, n: usize)
}

#[inline(always)]
unsafe fn logits_generic<S: Simd>(powers: usize, weights: *const f32, bias: *const f32, m: *mut f32, n: usize) {
    for start in (0..n).step_by(LANES) {
        let lanes = LANES.min(n - start);
        // SAFETY: `lanes` values are there from `start` on, in each row of the weights, too.
        unsafe {
            let x = take(m.add(start), lanes);
            let mut sum = [0.0; LANES];
            for k in (0..powers).rev() {
                let a = take(weights.add(k * n + start), lanes);
                for i in 0..LANES {
                    sum[i] = (sum[i] + a[i]) * x[i];
                }
            }
            let b = take(bias.add(start), lanes);
            for i in 0..LANES {
                sum[i] = ln((sum[i] + b[i]).max(LEAST));
            }
            put(m.add(start), lanes, &sum);
        }
    }
}

multiversion! {
    /// # Safety
    /// `weights` has (powers, n) values, all others have n.
    unsafe fn back = back_generic(
        powers: usize,
        weights: *const f32,
        bias: *const f32,
        m: *const f32,
        d: *mut f32,
        ratios: *mut f32,
        n: usize,
    )
}

#[inline(always)]
unsafe fn back_generic<S: Simd>(
    powers: usize,
    weights: *const f32,
    bias: *const f32,
    m: *const f32,
    d: *mut f32,
    ratios: *mut f32,
    n: usize,
) {
    for start in (0..n).step_by(LANES) {
        let lanes = LANES.min(n - start);
        // SAFETY: `lanes` values are there from `start` on, in each row of the weights, too.
        unsafe {
            let x = take(m.add(start), lanes);
            // The value without b, divided by M, and its slope.
            let (mut value, mut slope) = ([0.0; LANES], [0.0; LANES]);
            for k in (0..powers).rev() {
                let a = take(weights.add(k * n + start), lanes);
                for i in 0..LANES {
                    slope[i] = slope[i] * x[i] + value[i];
                    value[i] = value[i] * x[i] + a[i];
                }
            }
            let (b, d_z) = (take(bias.add(start), lanes), take(d.add(start), lanes));
            let mut r = [0.0; LANES];
            for i in 0..LANES {
                let all = value[i] * x[i] + b[i];
                // Below the least there is no slope.
                r[i] = if all > LEAST { d_z[i] / all } else { 0.0 };
                slope[i] = r[i] * (slope[i] * x[i] + value[i]);
            }
            put(ratios.add(start), lanes, &r);
            put(d.add(start), lanes, &slope);
        }
    }
}

multiversion! {
    /// Adds `r M^k` of every row to the sums of power `k`.
    ///
    /// # Safety
    /// `m` and `r` have `rows` rows, `stride` apart, of `lanes` values each.
    unsafe fn power_sums = power_sums_generic(
        powers: usize,
        sums: &mut [[f64; LANES]; MOST_POWERS + 1],
        m: *const f32,
        r: *const f32,
        rows: usize,
        stride: usize,
        lanes: usize,
    )
}

#[inline(always)]
unsafe fn power_sums_generic<S: Simd>(
    powers: usize,
    sums: &mut [[f64; LANES]; MOST_POWERS + 1],
    m: *const f32,
    r: *const f32,
    rows: usize,
    stride: usize,
    lanes: usize,
) {
    for row in 0..rows {
        // SAFETY: the caller's promise.
        let (m, mut power) = unsafe { (take(m.add(row * stride), lanes), take(r.add(row * stride), lanes)) };
        for sum in &mut sums[..=powers] {
            for i in 0..LANES {
                sum[i] += power[i];
                power[i] *= m[i];
            }
        }
    }
}

/// The first `lanes` of [`LANES`] values; the others are 0.
///
/// # Safety
/// `lanes` values are there, and at most [`LANES`].
#[inline(always)]
unsafe fn take(from: *const f32, lanes: usize) -> [f64; LANES] {
    let mut out = [0.0; LANES];
    if lanes == LANES {
        // SAFETY: all of them are there.
        (0..LANES).for_each(|i| out[i] = f64::from(unsafe { *from.add(i) }));
    } else {
        // SAFETY: the caller's promise.
        (0..lanes).for_each(|i| out[i] = f64::from(unsafe { *from.add(i) }));
    }
    out
}

/// The way back of [`take`].
///
/// # Safety
/// As for [`take`].
#[inline(always)]
unsafe fn put(to: *mut f32, lanes: usize, values: &[f64; LANES]) {
    if lanes == LANES {
        // SAFETY: all of them are there.
        (0..LANES).for_each(|i| unsafe { *to.add(i) = values[i] as f32 });
    } else {
        // SAFETY: the caller's promise.
        (0..lanes).for_each(|i| unsafe { *to.add(i) = values[i] as f32 });
    }
}

/// The natural logarithm of a normal, positive number, to 1e-12: with `x = 2^e m` and `m` between the root of a half and that of 2,
/// `ln x = e ln 2 + 2 artanh s` with `s = (m - 1) / (m + 1)`. No branches and no conversion of whole numbers, so that the
/// compiler can work on several at once.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const ROOT_OF_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    /// The bits of 2^52: a whole number below that, added to them, is added to 2^52.
    const WHOLE: u64 = 0x4330_0000_0000_0000;
    const OFFSET: f64 = 4_503_599_627_370_496.0 + 1024.0;
    // The exponent, 1024 too large, so that it is no negative number.
    let exponent = x.to_bits().wrapping_sub(ROOT_OF_HALF).wrapping_add(1024 << 52) >> 52;
    let m = f64::from_bits(x.to_bits().wrapping_sub(exponent << 52).wrapping_add(1024 << 52));
    let e = f64::from_bits(WHOLE + exponent) - OFFSET;
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 1.0 / 17.0;
    for odd in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / odd;
    }
    e * std::f64::consts::LN_2 + 2.0 * s * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::numbers;

    #[test]
    fn logarithms_are_those_of_the_library() {
        let mut x = 1e-10;
        while x < 1e300 {
            let (found, truth) = (ln(x), x.ln());
            assert!((found - truth).abs() <= 1e-12 * truth.abs().max(1.0), "{x}: {found} {truth}");
            x *= 1.000_93;
        }
        assert_eq!(ln(1.0), 0.0);
    }

    /// The equations as they stand.
    #[test]
    fn values_slopes_and_sums_are_the_equations_on_every_instruction_set() {
        for (vocab, powers) in [(1, 1), (16, 3), (37, 10), (64, 10)] {
            let positive = |seed: u32, n: usize| numbers(seed, n).into_iter().map(f32::abs).collect::<Vec<f32>>();
            let (weights, bias, rows) = (positive(1, powers * vocab), positive(2, vocab), 3);
            let (m, d) = (positive(3, rows * vocab), numbers(4, rows * vocab));
            let polynomials = Polynomials::new(&weights, &bias);
            let a = |j: usize, k: usize| f64::from(weights[(k - 1) * vocab + j]);
            let mut all = Vec::new();
            for isa in Isa::available() {
                let (mut z, mut d_m, mut r) = (m.clone(), d.clone(), vec![0.0; rows * vocab]);
                for row in 0..rows {
                    let at = row * vocab..(row + 1) * vocab;
                    polynomials.logits(isa, &mut z[at.clone()]);
                    polynomials.back(isa, &m[at.clone()], &mut d_m[at.clone()], &mut r[at]);
                }
                let close = |found: f32, truth: f64| (f64::from(found) - truth).abs() <= 1e-6 * truth.abs().max(1e-3);
                for (i, &m) in m.iter().enumerate() {
                    let (j, m) = (i % vocab, f64::from(m));
                    let value = f64::from(bias[j]) + (1..=powers).map(|k| a(j, k) * m.powi(k as i32)).sum::<f64>();
                    let slope: f64 = (1..=powers).map(|k| k as f64 * a(j, k) * m.powi(k as i32 - 1)).sum();
                    assert!(close(z[i], value.ln()) && close(r[i], f64::from(d[i]) / value), "{isa:?}, {i}");
                    assert!(close(d_m[i], f64::from(d[i]) / value * slope), "{isa:?}, {i}");
                }
                // The words from the second on, in two parts.
                let (mut d_weights, mut d_bias) = (vec![9.0; vocab * powers], vec![9.0; vocab]);
                for (first, end) in [(0, 1), (1, vocab)] {
                    let (d_weights, d_bias) = (&mut d_weights[first * powers..end * powers], &mut d_bias[first..end]);
                    coefficients(isa, (&m, &r), vocab, first, (d_weights, d_bias));
                }
                for j in 0..vocab {
                    let sum = |k: i32| -> f64 {
                        (0..rows).map(|t| f64::from(r[t * vocab + j]) * f64::from(m[t * vocab + j]).powi(k)).sum()
                    };
                    assert!(close(d_bias[j], sum(0)), "{isa:?}, {j}");
                    (0..powers).for_each(|k| assert!(close(d_weights[j * powers + k], sum(k as i32 + 1)), "{isa:?}"));
                }
                all.push((z, d_m, d_weights));
            }
            assert!(all.iter().all(|one| *one == all[0]), "one instruction set has other bits");
        }
    }

    #[test]
    fn words_whose_weights_are_all_0_have_the_least_value_and_no_slope() {
        let (weights, bias) = ([0.0; 4], [0.0; 2]);
        let polynomials = Polynomials::new(&weights, &bias);
        let (mut z, mut d, mut r) = ([3.0, 0.0], [1.0, -1.0], [9.0; 2]);
        polynomials.logits(Isa::detect(), &mut z);
        polynomials.back(Isa::detect(), &[3.0, 0.0], &mut d, &mut r);
        assert!(z.iter().all(|z| (z + 23.025_85).abs() < 1e-4), "{z:?}");
        assert_eq!((d, r), ([0.0; 2], [0.0; 2]));
    }
}
