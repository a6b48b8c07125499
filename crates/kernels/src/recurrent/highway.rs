//! One level of a recurrent highway network (Zilly et al. 2017), with the carry gate 1 - t. Gates in the order h, t:
//!
//! h = tanh(..), t = sigmoid(..), s = (h - s') t + s'.
//!
//! The mask of the state stands before the matrices alone: the s' that is carried past them is whole.

use super::chain::{Backward, Cell, Forward, Kept, MOST};
use crate::math::{sigmoid, tanh};
use crate::simd::Simd;

/// It carries `s`, without its mask.
pub(super) struct Highway;

impl Cell for Highway {
    const GATES: usize = 2;
    const CARRIES: bool = true;
    const SAVES: bool = false;
    const SPLITS: bool = false;

    #[inline(always)]
    unsafe fn forward<S: Simd>(inputs: [S::V; MOST], products: [S::V; MOST], carried: S::V) -> Forward<S> {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe {
            let h = tanh::<S>(S::add(inputs[0], products[0]));
            let t = sigmoid::<S>(S::add(inputs[1], products[1]));
            let s = S::fma(S::sub(h, carried), t, carried);
            Forward { activations: [h, t, carried, carried], carried: s, saved: carried, h: s }
        }
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(kept: Kept<S>, d_h: S::V, d_carried: S::V) -> Backward<S> {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe {
            let one = S::splat(1.0);
            let [h, t, ..] = kept.activations;
            // s is both the state and what is carried on.
            let d_s = S::add(d_h, d_carried);
            let d_t = S::mul(S::mul(d_s, S::sub(h, kept.carried)), S::mul(t, S::sub(one, t)));
            let d_h = S::mul(S::mul(d_s, t), S::sub(one, S::mul(h, h)));
            let d_gates = [d_h, d_t, d_s, d_s];
            Backward { d_inputs: d_gates, d_products: d_gates, d_carried: S::mul(d_s, S::sub(one, t)) }
        }
    }
}
