//! The step of an optimiser that remembers something of each weight: one pass over weights, gradient and memory.

use crate::cpu::Isa;
use crate::simd::{Simd, multiversion};
use crate::team::{SMALL_PASS, Team};

/// Weights that are moved by one thread at a time.
const PIECE: usize = 16_384;

/// A step of Adam (Kingma and Ba 2015).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// How far a step goes.
    pub rate: f32,
    /// How much of the mean gradient stays; 0 needs no memory of it.
    pub beta1: f32,
    /// How much of the mean squared gradient stays.
    pub beta2: f32,
    /// Added to the root of it.
    pub epsilon: f32,
    /// Factor on the gradient.
    pub scale: f32,
    /// Part of the weights that is added to the scaled gradient.
    pub pull: f32,
    /// Part of the weights that is taken away besides the step (Loshchilov and Hutter 2019).
    pub shrink: f32,
    /// `1 - beta1^t` and `1 - beta2^t` in step `t`, counted from 1: what the means lack for having begun at zero.
    pub corrections: (f32, f32),
}

/// The weights, what they moved by, and what is remembered of them; all of one length, but `mean` may be empty if
/// [`Adam::beta1`] is 0.
pub struct Moved<'a> {
    /// `theta`.
    pub weights: &'a mut [f32],
    /// `g`.
    pub gradient: &'a [f32],
    /// `m`.
    pub mean: &'a mut [f32],
    /// `v`.
    pub square: &'a mut [f32],
}

/// With `g <- scale g + pull theta`: `m <- beta1 m + (1 - beta1) g`, `v <- beta2 v + (1 - beta2) g^2`,
/// `theta <- theta - rate (m / c1) / (sqrt(v / c2) + epsilon) - shrink theta`.
pub fn adam(team: &Team, isa: Isa, step: Adam, moved: Moved<'_>) {
    let Moved { weights, gradient, mean, square } = moved;
    let n = weights.len();
    assert!(gradient.len() == n && square.len() == n && (mean.len() == n || (mean.is_empty() && step.beta1 == 0.0)));
    let means = mean.chunks_mut(PIECE).map(Some).chain(std::iter::repeat_with(|| None));
    let jobs = weights.chunks_mut(PIECE).zip(gradient.chunks(PIECE)).zip(square.chunks_mut(PIECE)).zip(means);
    team.for_each_unless(n < SMALL_PASS, jobs, |(((weights, gradient), square), mean)| {
        let mean = mean.map_or(std::ptr::null_mut(), <[f32]>::as_mut_ptr);
        // SAFETY: the pointers are of slices of one length, and that of the mean may be null.
        unsafe { pass(isa, step, weights.as_mut_ptr(), gradient.as_ptr(), mean, square.as_mut_ptr(), weights.len()) };
    });
}

multiversion! {
    /// # Safety
    /// `theta`, `g`, `m` and `v` have `n` elements; `m` may be null.
    unsafe fn pass = pass_generic(step: Adam, theta: *mut f32, g: *const f32, m: *mut f32, v: *mut f32, n: usize)
}

/// Plain arithmetic, which the compiler turns into whole registers where the function around it has them. No sum of
/// products is fused, so that the bits are the same with every instruction set.
#[inline(always)]
unsafe fn pass_generic<S: Simd>(step: Adam, theta: *mut f32, g: *const f32, m: *mut f32, v: *mut f32, n: usize) {
    let Adam { rate, beta1, beta2, epsilon, scale, pull, shrink, corrections: (c1, c2) } = step;
    let (rate, root) = (rate / c1, c2.sqrt());
    for i in 0..n {
        // SAFETY: the caller's promise.
        unsafe {
            let old = *theta.add(i);
            let gradient = scale * *g.add(i) + pull * old;
            let mut mean = gradient;
            if !m.is_null() {
                mean = beta1 * *m.add(i) + (1.0 - beta1) * gradient;
                *m.add(i) = mean;
            }
            let square = beta2 * *v.add(i) + (1.0 - beta2) * (gradient * gradient);
            *v.add(i) = square;
            *theta.add(i) = old - rate * mean / (square.sqrt() / root + epsilon) - shrink * old;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{numbers, wide};

    /// The equations in f64.
    fn naive(step: Adam, theta: &mut [f64], g: &[f32], m: &mut [f64], v: &mut [f64]) {
        let [rate, beta1, beta2, epsilon] = [step.rate, step.beta1, step.beta2, step.epsilon].map(f64::from);
        let [scale, pull, shrink] = [step.scale, step.pull, step.shrink].map(f64::from);
        let (c1, c2) = (f64::from(step.corrections.0), f64::from(step.corrections.1));
        for i in 0..theta.len() {
            let g = scale * f64::from(g[i]) + pull * theta[i];
            m[i] = beta1 * m[i] + (1.0 - beta1) * g;
            v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
            theta[i] -= rate * (m[i] / c1) / ((v[i] / c2).sqrt() + epsilon) + shrink * theta[i];
        }
    }

    #[test]
    fn five_steps_are_the_equations_on_every_instruction_set_and_any_number_of_threads() {
        for (n, beta1) in [(1, 0.9), (37, 0.0), (50_001, 0.9), (50_001, 0.0)] {
            let mut all = Vec::new();
            for (isa, threads) in Isa::available().into_iter().flat_map(|isa| [(isa, 1), (isa, 3)]) {
                let mut theta = numbers(1, n);
                let (mut exact, mut m64, mut v64) = (wide(&theta), vec![0.0; n], vec![0.0; n]);
                let (mut m, mut v) = (vec![0.0; if beta1 > 0.0 { n } else { 0 }], vec![0.0; n]);
                for t in 1..=5 {
                    let corrections = (1.0 - f32::powi(beta1, t), 1.0 - f32::powi(0.99, t));
                    let step = Adam {
                        rate: 0.01,
                        beta1,
                        beta2: 0.99,
                        epsilon: 1e-5,
                        scale: 0.5,
                        pull: 0.02,
                        shrink: 0.003,
                        corrections,
                    };
                    let g = numbers(10 + t as u32, n);
                    let moved = Moved { weights: &mut theta, gradient: &g, mean: &mut m, square: &mut v };
                    adam(&Team::new(threads), isa, step, moved);
                    naive(step, &mut exact, &g, &mut m64, &mut v64);
                }
                for (found, exact) in theta.iter().zip(&exact).chain(v.iter().zip(&v64)).chain(m.iter().zip(&m64)) {
                    assert!(
                        (f64::from(*found) - exact).abs() < 1e-5 * exact.abs().max(0.1),
                        "{isa:?}: {found} {exact}"
                    );
                }
                all.push(theta);
            }
            assert!(all.iter().all(|theta| *theta == all[0]), "{n}, {beta1}");
        }
    }
}
