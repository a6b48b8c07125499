//! Products of bf16 numbers with f32 sums.
//!
//! A bf16 is the upper half of an f32: the same range, 8 bits of precision. Operands are rounded to the nearest one (ties
//! to even) and stand in pairs, two neighbours of the sum over `k` in 32 bits, the first in the lower half: so the
//! instruction of the CPU takes them. A pair travels as the bits of an f32; it is never computed with as one.

use crate::cpu::{Isa, Kind};
use crate::simd::Simd;

/// What the operands of matrix products are rounded to. Sums, weights, states and gradients are f32 in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Not rounded.
    F32,
    /// Rounded to bf16 and multiplied by the CPU's own instruction (`avx512_bf16`).
    Bf16,
    /// Rounded to bf16 and multiplied by f32 instructions: slower than f32, for any CPU, to see what the rounding does.
    Bf16Emulated,
}

impl Precision {
    /// Whether this CPU can do it with an instruction set that it has.
    pub fn available(self, isa: Isa) -> bool {
        match self {
            Precision::F32 | Precision::Bf16Emulated => true,
            Precision::Bf16 => isa.kind() == Kind::Avx512 && cpu_has_bf16(),
        }
    }

    /// All that this CPU can do with the instruction set. Tests run each of them.
    pub fn all_available(isa: Isa) -> Vec<Precision> {
        let all = [Precision::F32, Precision::Bf16Emulated, Precision::Bf16];
        all.into_iter().filter(|precision| precision.available(isa)).collect()
    }

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Bf16Emulated => "bf16-emulated",
        }
    }

    /// Terms of a sum over `k` elements.
    pub(crate) fn terms(self, k: usize) -> usize {
        match self {
            Precision::F32 => k,
            Precision::Bf16 => k.div_ceil(2),
            Precision::Bf16Emulated => k.next_multiple_of(2),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn cpu_has_bf16() -> bool {
    is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_has_bf16() -> bool {
    false
}

/// The bits of the nearest bf16 in the upper half, whatever in the lower. A NaN stays one.
#[inline(always)]
fn rounded(x: f32) -> u32 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1));
    if x.is_nan() { bits | 0x0040_0000 } else { nearest }
}

#[inline(always)]
fn pair_of(first: f32, second: f32) -> f32 {
    f32::from_bits(rounded(first) >> 16 | rounded(second) & 0xFFFF_0000)
}

/// The terms of one row of `k` elements from term `first` on.
///
/// An emulated term is one rounded element. The CPU's instruction adds the second of a pair first, so here the two stand the
/// other way round, and f32 instructions add the same products (which are exact) in the same order.
#[inline(always)]
pub(crate) fn round_row(precision: Precision, row: &[f32], first: usize, out: &mut [f32]) {
    let pairs =
        if precision == Precision::Bf16 { first..first + out.len() } else { first / 2..(first + out.len()) / 2 };
    let (whole, last) = row.as_chunks::<2>();
    let pair = |at: usize| match whole.get(at) {
        Some(&pair) => pair,
        None => [last[0], 0.0],
    };
    if precision == Precision::Bf16 {
        let inside = pairs.end.min(whole.len()) - pairs.start;
        for (out, &[first, second]) in out.iter_mut().zip(&whole[pairs.start..]) {
            *out = pair_of(first, second);
        }
        out[inside..]
            .iter_mut()
            .zip(pairs.start + inside..)
            .for_each(|(out, at)| *out = pair_of(pair(at)[0], pair(at)[1]));
    } else {
        for (out, at) in out.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
            let [first, second] = pair(at);
            *out = [nearest(second), nearest(first)];
        }
    }
}

/// One term of `out.len()` neighbouring columns, of which `row(k)` gives the elements `k < count`.
#[inline(always)]
pub(crate) fn round_term<'a>(
    precision: Precision,
    count: usize,
    term: usize,
    out: &mut [f32],
    row: impl Fn(usize) -> &'a [f32],
) {
    let one = |out: &mut [f32], k: usize| {
        if k < count { out.iter_mut().zip(row(k)).for_each(|(out, &x)| *out = nearest(x)) } else { out.fill(0.0) }
    };
    match precision {
        Precision::Bf16 if 2 * term + 1 < count => {
            for ((out, &first), &second) in out.iter_mut().zip(row(2 * term)).zip(row(2 * term + 1)) {
                *out = pair_of(first, second);
            }
        }
        Precision::Bf16 => out.iter_mut().zip(row(2 * term)).for_each(|(out, &first)| *out = pair_of(first, 0.0)),
        // The neighbour: the second of a pair comes first.
        Precision::Bf16Emulated => one(out, term ^ 1),
        Precision::F32 => out.iter_mut().zip(row(term)).for_each(|(out, &x)| *out = x),
    }
}

/// The nearest bf16, as an f32.
#[inline(always)]
pub(crate) fn nearest(x: f32) -> f32 {
    f32::from_bits(rounded(x) & 0xFFFF_0000)
}

/// How the product of two terms is added to a sum.
pub(crate) trait Product<S: Simd> {
    /// # Safety
    /// The CPU has the instruction set.
    unsafe fn add(sum: S::V, a: S::V, b: S::V) -> S::V;
}

/// Terms are f32.
pub(crate) struct Single;

impl<S: Simd> Product<S> for Single {
    #[inline(always)]
    unsafe fn add(sum: S::V, a: S::V, b: S::V) -> S::V {
        // SAFETY: the caller's promise.
        unsafe { S::fma(a, b, sum) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use native::{native_panels, native_spin};

#[cfg(target_arch = "x86_64")]
mod native {
    use super::Product;
    use crate::gemm::{Block, panels};
    use crate::peak::SUMS;
    use crate::simd::{Avx512, Simd};
    use std::arch::x86_64::{__m512, __m512bh, _mm512_dpbf16_ps};

    /// Terms are pairs of bf16, multiplied by `vdpbf16ps`.
    pub(super) struct Native;

    impl Product<Avx512> for Native {
        #[inline(always)]
        unsafe fn add(sum: __m512, a: __m512, b: __m512) -> __m512 {
            // SAFETY: the caller vouches for the CPU feature; the types are two names for the same 512 bits.
            unsafe {
                let (a, b) = (std::mem::transmute::<__m512, __m512bh>(a), std::mem::transmute::<__m512, __m512bh>(b));
                _mm512_dpbf16_ps(sum, a, b)
            }
        }
    }

    /// One block of a product.
    ///
    /// # Safety
    /// The CPU has the features; the rest as for the other versions.
    #[target_feature(enable = "avx2,fma,avx512f,avx512bf16")]
    pub(crate) unsafe fn native_panels(a: *const f32, b: *const f32, c: *mut f32, block: Block) {
        // SAFETY: the features are on in this function; the rest is the caller's promise.
        unsafe { panels::<Avx512, Native>(a, b, c, block) }
    }

    /// Multiplies and adds with everything in registers, for the measurement of the peak.
    ///
    /// # Safety
    /// The CPU has the features.
    #[target_feature(enable = "avx2,fma,avx512f,avx512bf16")]
    pub(crate) unsafe fn native_spin(rounds: usize) -> f64 {
        // SAFETY: the features are on in this function.
        unsafe {
            let x = Avx512::splat(std::hint::black_box(super::pair_of(1e-4, 1e-4)));
            let mut sums = [Avx512::splat(std::hint::black_box(1.0)); SUMS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = Native::add(*sum, x, x);
                }
            }
            sums.iter().map(|&sum| Avx512::sum(sum)).sum()
        }
    }
}

/// Never called: [`Precision::Bf16`] is not available here.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn native_panels(_: *const f32, _: *const f32, _: *mut f32, _: crate::gemm::Block) {
    unreachable!("there is no bf16 on this CPU")
}

/// Never called, as above.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn native_spin(_: usize) -> f64 {
    unreachable!("there is no bf16 on this CPU")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::numbers;

    #[test]
    fn rounding_goes_to_the_nearest_and_from_the_middle_to_even() {
        // 1 + 2^-7 is the next bf16 after 1.
        let next = 1.0 + 2f32.powi(-7);
        for (x, want) in [
            (1.0, 1.0),
            (1.0 + 2f32.powi(-9), 1.0),
            (1.0 + 2f32.powi(-8), 1.0),
            (1.0 + 2f32.powi(-8) + 2f32.powi(-20), next),
            (next + 2f32.powi(-8), 1.0 + 2f32.powi(-6)),
            (-0.0, -0.0),
            (f32::INFINITY, f32::INFINITY),
            (f32::MAX, f32::INFINITY),
            (f32::MIN_POSITIVE, f32::MIN_POSITIVE),
        ] {
            assert_eq!(nearest(x).to_bits(), f32::to_bits(want), "{x:e}");
            assert_eq!(nearest(-x).to_bits(), f32::to_bits(-want), "{x:e}");
        }
        assert!(nearest(f32::NAN).is_nan() && nearest(f32::from_bits(0x7F80_0001)).is_nan());
        assert!(nearest(f32::from_bits(0xFFFF_FFFF)).is_nan());
        for x in numbers(1, 1000) {
            let error = (nearest(x) - x).abs();
            assert!(error <= x.abs() * 2f32.powi(-8) && nearest(nearest(x)) == nearest(x));
        }
    }

    #[test]
    fn a_pair_holds_its_first_element_in_the_lower_half() {
        let bits = |x: f32| x.to_bits();
        assert_eq!(bits(pair_of(1.0, -2.0)), bits(-2.0) | bits(1.0) >> 16);
        let mut out = [9.0; 2];
        round_row(Precision::Bf16, &[1.0, -2.0, 3.0], 0, &mut out);
        assert_eq!(out.map(bits), [bits(pair_of(1.0, -2.0)), bits(pair_of(3.0, 0.0))]);
        round_row(Precision::Bf16, &[1.0, -2.0, 3.0, 4.0, 5.0], 1, &mut out);
        assert_eq!(out.map(bits), [bits(pair_of(3.0, 4.0)), bits(pair_of(5.0, 0.0))]);
        let rows = [[1.0, 5.0], [-2.0, 7.0], [3.0, 8.0]];
        round_term(Precision::Bf16, 3, 0, &mut out, |k| &rows[k]);
        assert_eq!(out.map(bits), [bits(pair_of(1.0, -2.0)), bits(pair_of(5.0, 7.0))]);
        round_term(Precision::Bf16, 3, 1, &mut out, |k| &rows[k]);
        assert_eq!(out.map(bits), [bits(pair_of(3.0, 0.0)), bits(pair_of(8.0, 0.0))]);
    }

    #[test]
    fn emulated_terms_are_single_and_the_second_of_a_pair_comes_first() {
        let mut out = [9.0; 4];
        round_row(Precision::Bf16Emulated, &[1.0, -2.0, 3.0], 0, &mut out);
        assert_eq!(out, [-2.0, 1.0, 0.0, 3.0]);
        let rows = [[1.0, 5.0], [-2.0, 7.0], [3.0, 8.0]];
        let mut out = [9.0; 2];
        let terms = [0, 1, 2, 3].map(|term| {
            round_term(Precision::Bf16Emulated, 3, term, &mut out, |k| &rows[k]);
            out
        });
        assert_eq!(terms, [[-2.0, 7.0], [1.0, 5.0], [0.0, 0.0], [3.0, 8.0]]);
    }
}
