//! exp, tanh and the logistic function for whole registers, accurate to a few units in the last place.

use crate::simd::Simd;

/// `e^x`. Below about -87 the result is 0, above 88.7 it stays at the largest finite power (never infinite).
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`; `e^r` is its Taylor polynomial of degree 7 (truncation below 6e-9 relative),
/// and `2^n` goes straight into the exponent bits.
#[inline(always)]
pub(crate) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the CPU feature.
    unsafe {
        let x = S::min(S::max(x, S::splat(-88.0)), S::splat(88.0));
        let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        // ln 2 in two parts, so that n * ln 2 is taken away exactly.
        let r = S::fma(n, S::splat(-0.693_359_4), x);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        let mut p = S::splat(1.0 / 5040.0);
        for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = S::fma(p, r, S::splat(c));
        }
        // n is at most 127; at -127 the exponent bits are 0, so the tail of very small values becomes 0.
        S::mul(p, S::exp2i(n))
    }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the CPU feature.
    unsafe {
        let one = S::splat(1.0);
        S::div(one, S::add(one, exp::<S>(S::sub(S::splat(0.0), x))))
    }
}

/// `tanh x`: its Taylor polynomial near 0, where `(e^2x - 1) / (e^2x + 1)` would lose digits, that quotient elsewhere.
#[inline(always)]
pub(crate) unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the CPU feature.
    unsafe {
        let one = S::splat(1.0);
        let s = S::mul(x, x);
        let mut p = S::splat(-1382.0 / 155_925.0);
        for c in [62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0] {
            p = S::fma(p, s, S::splat(c));
        }
        let small = S::fma(S::mul(p, s), x, x);
        let e = exp::<S>(S::add(x, x));
        let large = S::div(S::sub(e, one), S::add(e, one));
        S::select_abs_lt(x, 0.25, small, large)
    }
}

/// `x^n` for a whole number `n >= 1`, by repeated squaring.
#[inline(always)]
pub(crate) unsafe fn powi<S: Simd>(x: S::V, n: u32) -> S::V {
    // SAFETY: the caller vouches for the CPU feature.
    unsafe {
        let (mut square, mut rest) = (x, n);
        while rest & 1 == 0 {
            square = S::mul(square, square);
            rest >>= 1;
        }
        let mut out = square;
        rest >>= 1;
        while rest != 0 {
            square = S::mul(square, square);
            if rest & 1 == 1 {
                out = S::mul(out, square);
            }
            rest >>= 1;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::simd::multiversion;

    #[inline(always)]
    unsafe fn all_generic<S: Simd>(x: *const f32, out: *mut f32) {
        // SAFETY: the test gives 16 readable and 64 writable elements.
        unsafe {
            let v = S::load(x);
            S::store(out, exp::<S>(v));
            S::store(out.add(16), sigmoid::<S>(v));
            S::store(out.add(32), tanh::<S>(v));
            S::store(out.add(48), powi::<S>(v, 20));
        }
    }
    multiversion! { unsafe fn all = all_generic(x: *const f32, out: *mut f32) }

    #[test]
    fn they_agree_with_f64_to_a_few_units_in_the_last_place() {
        for isa in Isa::available() {
            let mut worst = [0.0f64; 4];
            for i in -88_000..=88_000i32 {
                let x = i as f32 * 1e-3;
                let mut out = [0.0f32; 64];
                // SAFETY: the arrays are as large as the kernel asks.
                unsafe { all(isa, [x; 16].as_ptr(), out.as_mut_ptr()) };
                let y = f64::from(x);
                let truth = [y.exp(), 1.0 / (1.0 + (-y).exp()), y.tanh(), y.powi(20)];
                for (k, &t) in truth.iter().enumerate() {
                    if (t.abs() > 1e-37 || k == 2) && t.abs() < 1e37 {
                        let error = (f64::from(out[16 * k]) - t).abs() / t.abs().max(1e-30);
                        worst[k] = worst[k].max(error);
                    }
                }
            }
            assert!(worst[0] < 2.5e-7 && worst[1] < 3.5e-7 && worst[2] < 3.5e-7, "{isa:?}: {worst:?}");
            assert!(worst[3] < 20.0 * 1.2e-7, "{isa:?}: {worst:?}");
        }
    }

    #[test]
    fn far_ends_stay_finite() {
        for isa in Isa::available() {
            for x in [-1e30f32, -200.0, 200.0, 1e30] {
                let mut out = [0.0f32; 64];
                // SAFETY: the arrays are as large as the kernel asks.
                unsafe { all(isa, [x; 16].as_ptr(), out.as_mut_ptr()) };
                assert!(out[0].is_finite() && (0.0..=1.0).contains(&out[16]) && out[32].abs() == 1.0, "{isa:?} {x}");
            }
        }
    }
}
