//! A register of f32 lanes, the same few operations on each instruction set.
//!
//! A kernel is written once, generic over [`Simd`], as an `#[inline(always)]` function, and turned into one function per
//! instruction set by [`multiversion!`]; the operations below inline into a function that has the CPU feature switched on.

/// How much of a product is summed up in registers at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Rows: each costs one broadcast a term.
    pub(crate) rows: usize,
    /// Registers side by side: each costs one load a term.
    pub(crate) registers: usize,
}

/// One instruction set's register and its operations.
///
/// # Safety
/// Every method may be called only on a CPU that has the instruction set; pointers must be valid for `LANES` (or for
/// `n <= LANES`) elements.
pub(crate) trait Simd: Copy {
    /// A register of `LANES` f32.
    type V: Copy;
    /// Lanes in a register.
    const LANES: usize;
    /// The tile of a product: so many rows by so many registers, whose sums all stay in registers.
    const TILE: Tile;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// `1 / a` to within two units in the last place, sooner than by a division.
    unsafe fn inverse(a: Self::V) -> Self::V;
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, fused where the CPU can.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Nearest integer, as a float.
    unsafe fn round(a: Self::V) -> Self::V;
    /// `2^n` for integral `n` within -126..=127.
    unsafe fn exp2i(n: Self::V) -> Self::V;
    /// `if |x| < limit { a } else { b }`, lane by lane.
    unsafe fn select_abs_lt(x: Self::V, limit: f32, a: Self::V, b: Self::V) -> Self::V;

    /// Lanes whose upper 16 bits are in memory, and whose lower ones are zero.
    unsafe fn load_upper(p: *const u16) -> Self::V;
    /// The first `n` of those, the others 1.
    #[inline(always)]
    unsafe fn load_upper_partial(p: *const u16, n: usize) -> Self::V {
        let mut lanes = [0x3F80u16; 16];
        // SAFETY: the caller vouches for n <= LANES readable elements; LANES <= 16.
        unsafe {
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
            Self::load_upper(lanes.as_ptr())
        }
    }

    /// Asks for a cache line that will be read or written soon; any address will do.
    #[inline(always)]
    unsafe fn prefetch(_p: *const f32) {}

    /// [`Simd::prefetch`] of what will be needed later: into the second cache, so as not to crowd the first.
    #[inline(always)]
    unsafe fn prefetch_far(_p: *const f32) {}

    /// The first `n` lanes from memory, the others `fill`.
    #[inline(always)]
    unsafe fn load_partial(p: *const f32, n: usize, fill: f32) -> Self::V {
        let mut lanes = [fill; 16];
        // SAFETY: the caller vouches for n <= LANES readable elements; LANES <= 16.
        unsafe {
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
            Self::load(lanes.as_ptr())
        }
    }

    /// Stores the first `n` lanes.
    #[inline(always)]
    unsafe fn store_partial(p: *mut f32, n: usize, v: Self::V) {
        let mut lanes = [0.0f32; 16];
        // SAFETY: the caller vouches for n <= LANES writable elements; LANES <= 16.
        unsafe {
            Self::store(lanes.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n);
        }
    }

    /// A whole register, or its first `n` lanes where `WHOLE` is false.
    #[inline(always)]
    unsafe fn load_some<const WHOLE: bool>(p: *const f32, n: usize) -> Self::V {
        // SAFETY: the caller's promise.
        unsafe { if WHOLE { Self::load(p) } else { Self::load_partial(p, n, 0.0) } }
    }

    /// Stores a whole register, or its first `n` lanes where `WHOLE` is false.
    #[inline(always)]
    unsafe fn store_some<const WHOLE: bool>(p: *mut f32, n: usize, v: Self::V) {
        // SAFETY: the caller's promise.
        unsafe { if WHOLE { Self::store(p, v) } else { Self::store_partial(p, n, v) } }
    }

    /// Sum of the lanes, in lane order, in f64.
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f64 {
        let mut lanes = [0.0f32; 16];
        // SAFETY: LANES <= 16.
        unsafe { Self::store(lanes.as_mut_ptr(), v) };
        lanes[..Self::LANES].iter().map(|&x| f64::from(x)).sum()
    }

    /// Largest of the lanes.
    #[inline(always)]
    unsafe fn largest(v: Self::V) -> f32 {
        let mut lanes = [0.0f32; 16];
        // SAFETY: LANES <= 16.
        unsafe { Self::store(lanes.as_mut_ptr(), v) };
        lanes[..Self::LANES].iter().copied().fold(f32::NEG_INFINITY, f32::max)
    }
}

/// Plain Rust.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn map2(a: [f32; 8], b: [f32; 8], f: impl Fn(f32, f32) -> f32) -> [f32; 8] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Portable {
    type V = [f32; 8];
    const LANES: usize = 8;
    // Two of the 16 registers of four lanes make one of ours: 8 sums, 2 columns, a row, a product.
    const TILE: Tile = Tile { rows: 4, registers: 1 };

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        // SAFETY: the caller vouches for 8 readable elements.
        unsafe { p.cast::<[f32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        // SAFETY: the caller vouches for 8 writable elements.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| x + y)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| x - y)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| x * y)
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| x / y)
    }
    #[inline(always)]
    unsafe fn inverse(a: Self::V) -> Self::V {
        a.map(|x| 1.0 / x)
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| if x < y { x } else { y })
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn round(a: Self::V) -> Self::V {
        // Adding and taking away 1.5 * 2^23 rounds to the nearest integer for |x| < 2^22, which is all that exp asks for.
        const MAGIC: f32 = 12_582_912.0;
        a.map(|x| (x + MAGIC) - MAGIC)
    }
    #[inline(always)]
    unsafe fn exp2i(n: Self::V) -> Self::V {
        n.map(|x| f32::from_bits(((x as i32 + 127) << 23) as u32))
    }
    #[inline(always)]
    unsafe fn select_abs_lt(x: Self::V, limit: f32, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if x[i].abs() < limit { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn load_upper(p: *const u16) -> Self::V {
        // SAFETY: the caller vouches for 8 readable elements.
        unsafe { p.cast::<[u16; 8]>().read_unaligned() }.map(|x| f32::from_bits(u32::from(x) << 16))
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Simd, Tile};
    use std::arch::x86_64::*;

    /// 8 lanes with fused multiply-add.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2;

    /// 16 lanes.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512;

    /// Writes the methods of [`Simd`] that are one intrinsic each.
    macro_rules! intrinsics {
        ($($name:ident($($arg:ident: $ty:ty),*) $(-> $out:ty)? = $body:expr;)*) => {
            $(
                #[inline(always)]
                unsafe fn $name($($arg: $ty),*) $(-> $out)? {
                    // SAFETY: the caller vouches for the CPU feature and for the pointers.
                    unsafe { $body }
                }
            )*
        };
    }

    /// All bits set in the first `n <= 8` lanes.
    #[inline(always)]
    unsafe fn first_lanes(n: usize) -> __m256i {
        const ONES_THEN_ZEROS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: n <= 8, so the eight values from 8 - n on are inside the array.
        unsafe { _mm256_loadu_si256(ONES_THEN_ZEROS.as_ptr().add(8 - n).cast()) }
    }

    impl Simd for Avx2 {
        type V = __m256;
        const LANES: usize = 8;
        // 12 sums, 2 columns and a row of the 16 registers.
        const TILE: Tile = Tile { rows: 6, registers: 2 };
        intrinsics! {
            splat(x: f32) -> __m256 = _mm256_set1_ps(x);
            load(p: *const f32) -> __m256 = _mm256_loadu_ps(p);
            store(p: *mut f32, v: __m256) = _mm256_storeu_ps(p, v);
            add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
            sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
            mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
            div(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
            inverse(a: __m256) -> __m256 = {
                // A table's value good to 11 bits, and a step of Newton's method.
                let y = _mm256_rcp_ps(a);
                _mm256_fmadd_ps(y, _mm256_fnmadd_ps(a, y, _mm256_set1_ps(1.0)), y)
            };
            max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
            min(a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
            fma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
            round(a: __m256) -> __m256 = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
            exp2i(n: __m256) -> __m256 = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(
                _mm256_cvtps_epi32(n), _mm256_set1_epi32(127))));
            select_abs_lt(x: __m256, limit: f32, a: __m256, b: __m256) -> __m256 = {
                let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
                _mm256_blendv_ps(b, a, _mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, _mm256_set1_ps(limit)))
            };
            load_partial(p: *const f32, n: usize, fill: f32) -> __m256 = {
                let mask = first_lanes(n);
                _mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask))
            };
            store_partial(p: *mut f32, n: usize, v: __m256) = _mm256_maskstore_ps(p, first_lanes(n), v);
            load_upper(p: *const u16) -> __m256 = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(
                _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))));
            prefetch(p: *const f32) = _mm_prefetch::<_MM_HINT_T0>(p.cast());
            prefetch_far(p: *const f32) = _mm_prefetch::<_MM_HINT_T1>(p.cast());
        }
    }

    impl Simd for Avx512 {
        type V = __m512;
        const LANES: usize = 16;
        // 24 sums and 3 columns of the 32 registers; a row comes from memory with the multiplication.
        const TILE: Tile = Tile { rows: 8, registers: 3 };
        intrinsics! {
            splat(x: f32) -> __m512 = _mm512_set1_ps(x);
            load(p: *const f32) -> __m512 = _mm512_loadu_ps(p);
            store(p: *mut f32, v: __m512) = _mm512_storeu_ps(p, v);
            add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
            sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
            mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
            div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
            inverse(a: __m512) -> __m512 = {
                let y = _mm512_rcp14_ps(a);
                _mm512_fmadd_ps(y, _mm512_fnmadd_ps(a, y, _mm512_set1_ps(1.0)), y)
            };
            max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
            min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
            fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
            round(a: __m512) -> __m512 = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
            exp2i(n: __m512) -> __m512 = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(
                _mm512_cvtps_epi32(n), _mm512_set1_epi32(127))));
            select_abs_lt(x: __m512, limit: f32, a: __m512, b: __m512) -> __m512 = {
                let less = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(x), _mm512_set1_ps(limit));
                _mm512_mask_blend_ps(less, b, a)
            };
            load_partial(p: *const f32, n: usize, fill: f32) -> __m512 =
                _mm512_mask_loadu_ps(_mm512_set1_ps(fill), ((1u32 << n) - 1) as __mmask16, p);
            store_partial(p: *mut f32, n: usize, v: __m512) =
                _mm512_mask_storeu_ps(p, ((1u32 << n) - 1) as __mmask16, v);
            load_upper(p: *const u16) -> __m512 = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(
                _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))));
            prefetch(p: *const f32) = _mm_prefetch::<_MM_HINT_T0>(p.cast());
            prefetch_far(p: *const f32) = _mm_prefetch::<_MM_HINT_T1>(p.cast());
        }
    }
}

/// Makes, of a kernel generic over [`Simd`], a function that takes the [`crate::Isa`] first and runs the version for it.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident = $generic:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)?) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name(isa: $crate::Isa, $($arg: $ty),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx2($($arg: $ty),*) $(-> $out)? {
                    // SAFETY: the feature is on in this function; the rest is the caller's promise.
                    unsafe { $generic::<$crate::simd::Avx2>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma,avx512f")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx512($($arg: $ty),*) $(-> $out)? {
                    // SAFETY: as above.
                    unsafe { $generic::<$crate::simd::Avx512>($($arg),*) }
                }
                // SAFETY: an Isa exists only where the CPU has it.
                unsafe {
                    match isa.kind() {
                        $crate::cpu::Kind::Avx512 => return avx512($($arg),*),
                        $crate::cpu::Kind::Avx2 => return avx2($($arg),*),
                        $crate::cpu::Kind::Portable => {}
                    }
                }
            }
            let _ = isa;
            // SAFETY: the caller's promise.
            unsafe { $generic::<$crate::simd::Portable>($($arg),*) }
        }
    };
}
pub(crate) use multiversion;
