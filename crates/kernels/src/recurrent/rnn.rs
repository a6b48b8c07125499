//! The simple recurrent unit (Elman 1990): h = f(..), with tanh, the logistic function or a rectifier for f.

use super::chain::{Backward, Cell, Forward, Kept, MOST};
use crate::math;
use crate::simd::Simd;
use std::marker::PhantomData;

/// A function whose slope is known from its value.
pub(super) trait Activation {
    unsafe fn value<S: Simd>(x: S::V) -> S::V;
    /// The slope where the value is `y`.
    unsafe fn slope<S: Simd>(y: S::V) -> S::V;
}

pub(super) struct Tanh;
pub(super) struct Sigmoid;
pub(super) struct Relu;

impl Activation for Tanh {
    #[inline(always)]
    unsafe fn value<S: Simd>(x: S::V) -> S::V {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe { math::tanh::<S>(x) }
    }

    #[inline(always)]
    unsafe fn slope<S: Simd>(y: S::V) -> S::V {
        // SAFETY: as above.
        unsafe { S::sub(S::splat(1.0), S::mul(y, y)) }
    }
}

impl Activation for Sigmoid {
    #[inline(always)]
    unsafe fn value<S: Simd>(x: S::V) -> S::V {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe { math::sigmoid::<S>(x) }
    }

    #[inline(always)]
    unsafe fn slope<S: Simd>(y: S::V) -> S::V {
        // SAFETY: as above.
        unsafe { S::mul(y, S::sub(S::splat(1.0), y)) }
    }
}

impl Activation for Relu {
    #[inline(always)]
    unsafe fn value<S: Simd>(x: S::V) -> S::V {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe { S::max(x, S::splat(0.0)) }
    }

    #[inline(always)]
    unsafe fn slope<S: Simd>(y: S::V) -> S::V {
        // SAFETY: as above.
        unsafe { S::select_abs_lt(y, f32::MIN_POSITIVE, S::splat(0.0), S::splat(1.0)) }
    }
}

/// It carries nothing but its state, which is all the way back needs.
pub(super) struct Rnn<A>(PhantomData<A>);

impl<A: Activation> Cell for Rnn<A> {
    const GATES: usize = 1;
    const CARRIES: bool = false;
    const SAVES: bool = false;
    const SPLITS: bool = false;

    #[inline(always)]
    unsafe fn forward<S: Simd>(inputs: [S::V; MOST], products: [S::V; MOST], carried: S::V) -> Forward<S> {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe {
            let h = A::value::<S>(S::add(inputs[0], products[0]));
            Forward { activations: [h, carried, carried, carried], carried, saved: carried, h }
        }
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(kept: Kept<S>, d_h: S::V, d_carried: S::V) -> Backward<S> {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe {
            let d = S::mul(d_h, A::slope::<S>(kept.activations[0]));
            let d_gates = [d, d_carried, d_carried, d_carried];
            Backward { d_inputs: d_gates, d_products: d_gates, d_carried }
        }
    }
}
