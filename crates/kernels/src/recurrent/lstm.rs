//! Long short-term memory (Hochreiter and Schmidhuber 1997), without peepholes. Gates in the order i, f, g, o:
//!
//! i, f, o = sigmoid(..), g = tanh(..), c = f c' + i g, h = o tanh(c).
//!
//! In the coupled form (Melis et al. 2018) the input gate lets in no more than the forget gate makes room for:
//! c = f c' + min(1 - f, i) g.

use super::chain::{Backward, Cell, Forward, Kept, MOST};
use crate::math::{sigmoid, tanh};
use crate::simd::Simd;

/// It carries `c` and keeps `tanh(c)` for the way back.
pub(super) struct Lstm<const COUPLED: bool>;

impl<const COUPLED: bool> Cell for Lstm<COUPLED> {
    const GATES: usize = 4;
    const CARRIES: bool = true;
    const SAVES: bool = true;
    const SPLITS: bool = false;

    #[inline(always)]
    unsafe fn forward<S: Simd>(inputs: [S::V; MOST], products: [S::V; MOST], carried: S::V) -> Forward<S> {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe {
            let i = sigmoid::<S>(S::add(inputs[0], products[0]));
            let f = sigmoid::<S>(S::add(inputs[1], products[1]));
            let g = tanh::<S>(S::add(inputs[2], products[2]));
            let o = sigmoid::<S>(S::add(inputs[3], products[3]));
            let lets_in = if COUPLED { S::min(i, S::sub(S::splat(1.0), f)) } else { i };
            let c = S::fma(f, carried, S::mul(lets_in, g));
            let tanh_c = tanh::<S>(c);
            Forward { activations: [i, f, g, o], carried: c, saved: tanh_c, h: S::mul(o, tanh_c) }
        }
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(kept: Kept<S>, d_h: S::V, d_carried: S::V) -> Backward<S> {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe {
            let one = S::splat(1.0);
            let ([i, f, g, o], tanh_c) = (kept.activations, kept.saved);
            // h = o tanh(c)
            let d_o = S::mul(d_h, tanh_c);
            let through_tanh = S::sub(one, S::mul(tanh_c, tanh_c));
            let d_c = S::fma(S::mul(d_h, o), through_tanh, d_carried);
            // c = f c' + i g
            let mut d_i = S::mul(d_c, g);
            let mut d_f = S::mul(d_c, kept.carried);
            let mut lets_in = i;
            if COUPLED {
                // Where 1 - f is the smaller one, i has no say.
                lets_in = S::min(i, S::sub(one, f));
                let (rest, zero) = (S::sub(i, lets_in), S::splat(0.0));
                d_f = S::sub(d_f, S::select_abs_lt(rest, f32::MIN_POSITIVE, zero, d_i));
                d_i = S::select_abs_lt(rest, f32::MIN_POSITIVE, d_i, zero);
            }
            let d_g = S::mul(d_c, lets_in);
            // through the activations: sigmoid' = y (1 - y), tanh' = 1 - y^2
            let d_i = S::mul(d_i, S::mul(i, S::sub(one, i)));
            let d_f = S::mul(d_f, S::mul(f, S::sub(one, f)));
            let d_g = S::mul(d_g, S::sub(one, S::mul(g, g)));
            let d_o = S::mul(d_o, S::mul(o, S::sub(one, o)));
            let d_gates = [d_i, d_f, d_g, d_o];
            Backward { d_inputs: d_gates, d_products: d_gates, d_carried: S::mul(d_c, f) }
        }
    }
}
