//! Products of bf16 numbers with f32 sums.
//!
//! A bf16 is the upper half of an f32: the same range, 8 bits of precision. Operands are rounded to the nearest one (ties
//! to even) and stand in pairs, two neighbours of the sum over `k` in 32 bits, the first in the lower half: so the
//! instruction of the CPU takes them. A pair travels as the bits of an f32; it is never computed with as one.

use crate::cpu::Isa;
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
            Precision::Bf16 => isa == Isa::Avx512 && cpu_has_bf16(),
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

    pub(crate) fn pairs(self) -> bool {
        self != Precision::F32
    }

    /// Terms of a sum over `k` elements.
    pub(crate) fn terms(self, k: usize) -> usize {
        if self.pairs() { k.div_ceil(2) } else { k }
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

/// One or two neighbours; a missing one is 0.
#[inline(always)]
pub(crate) fn pair(elements: &[f32]) -> f32 {
    pair_of(elements[0], elements.get(1).copied().unwrap_or(0.0))
}

/// Pairs of neighbours of one row.
#[inline(always)]
pub(crate) fn pair_row(from: &[f32], out: &mut [f32]) {
    let (pairs, last) = from.as_chunks::<2>();
    for (out, &[first, second]) in out.iter_mut().zip(pairs) {
        *out = pair_of(first, second);
    }
    if let [last] = last {
        out[pairs.len()] = pair_of(*last, 0.0);
    }
}

/// Pairs of what stands at the same place in two rows.
#[inline(always)]
pub(crate) fn pair_rows(first: &[f32], second: &[f32], out: &mut [f32]) {
    for ((out, &first), &second) in out.iter_mut().zip(first).zip(second) {
        *out = pair_of(first, second);
    }
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

/// Terms are pairs of bf16, multiplied as the f32 that they are. The products are exact, so only the sums are rounded; the
/// second of the pair comes first, as the CPU's instruction is specified.
pub(crate) struct Pairs;

impl<S: Simd> Product<S> for Pairs {
    #[inline(always)]
    unsafe fn add(sum: S::V, a: S::V, b: S::V) -> S::V {
        // SAFETY: the caller's promise.
        unsafe {
            let sum = S::fma(S::upper_halves(a), S::upper_halves(b), sum);
            S::fma(S::lower_halves(a), S::lower_halves(b), sum)
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use native::{native_panels, native_spin};

#[cfg(target_arch = "x86_64")]
mod native {
    use super::Product;
    use crate::gemm::{Block, panels};
    use crate::pack::Strided;
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
    pub(crate) unsafe fn native_panels(a: Strided, b: *const f32, c: *mut f32, block: Block) {
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
            let x = Avx512::splat(std::hint::black_box(super::pair(&[1e-4, 1e-4])));
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
pub(crate) unsafe fn native_panels(_: crate::pack::Strided, _: *const f32, _: *mut f32, _: crate::gemm::Block) {
    unreachable!("there is no bf16 on this CPU")
}

/// Never called, as above.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn native_spin(_: usize) -> f64 {
    unreachable!("there is no bf16 on this CPU")
}

/// The nearest bf16, as an f32.
pub(crate) fn nearest(x: f32) -> f32 {
    f32::from_bits(rounded(x) & 0xFFFF_0000)
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
        assert_eq!(bits(pair(&[1.0, -2.0])), bits(-2.0) | bits(1.0) >> 16);
        assert_eq!(bits(pair(&[1.0])), bits(1.0) >> 16);
        let mut out = [9.0; 2];
        pair_row(&[1.0, -2.0, 3.0], &mut out);
        assert_eq!(out.map(f32::to_bits), [bits(pair(&[1.0, -2.0])), bits(pair(&[3.0]))]);
        pair_rows(&[1.0, 5.0], &[-2.0, 7.0], &mut out);
        assert_eq!(out.map(f32::to_bits), [bits(pair(&[1.0, -2.0])), bits(pair(&[5.0, 7.0]))]);
    }
}
