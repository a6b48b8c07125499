//! The gated recurrent unit (Cho et al. 2014) as PyTorch has it, the reset gate on the product. Gates in the order r, z, n:
//!
//! r, z = sigmoid(x + p), n = tanh(x + r p), h = (1 - z) n + z h', where x are the inputs' shares and p the products with the
//! masked state, each with a bias of its own.
//!
//! The mask of the state stands before the matrix alone: the h' that goes past it is whole.

use super::chain::{Backward, Cell, Forward, Kept, MOST};
use crate::math::{sigmoid, tanh};
use crate::simd::Simd;

/// It carries `h`, without its mask, and keeps the product of `n` for the way back.
pub(super) struct Gru;

impl Cell for Gru {
    const GATES: usize = 3;
    const CARRIES: bool = true;
    const SAVES: bool = true;
    const SPLITS: bool = true;

    #[inline(always)]
    unsafe fn forward<S: Simd>(inputs: [S::V; MOST], products: [S::V; MOST], carried: S::V) -> Forward<S> {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe {
            let r = sigmoid::<S>(S::add(inputs[0], products[0]));
            let z = sigmoid::<S>(S::add(inputs[1], products[1]));
            let n = tanh::<S>(S::fma(r, products[2], inputs[2]));
            let h = S::fma(z, S::sub(carried, n), n);
            Forward { activations: [r, z, n, carried], carried: h, saved: products[2], h }
        }
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(kept: Kept<S>, d_h: S::V, d_carried: S::V) -> Backward<S> {
        // SAFETY: the caller vouches for the CPU feature.
        unsafe {
            let one = S::splat(1.0);
            let [r, z, n, _] = kept.activations;
            // h is both the state and what is carried on.
            let d_h = S::add(d_h, d_carried);
            // h = (1 - z) n + z h'
            let d_n = S::mul(d_h, S::sub(one, z));
            let d_z = S::mul(d_h, S::sub(kept.carried, n));
            // through the activations: sigmoid' = y (1 - y), tanh' = 1 - y^2
            let d_n = S::mul(d_n, S::sub(one, S::mul(n, n)));
            let d_z = S::mul(d_z, S::mul(z, S::sub(one, z)));
            let d_r = S::mul(S::mul(d_n, kept.saved), S::mul(r, S::sub(one, r)));
            Backward {
                d_inputs: [d_r, d_z, d_n, d_h],
                d_products: [d_r, d_z, S::mul(d_n, r), d_h],
                d_carried: S::mul(d_h, z),
            }
        }
    }
}
