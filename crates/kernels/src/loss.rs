//! The loss of one word and its gradient by the logits, in two passes over a row of logits that is still in cache.
//!
//! A row holds `z = W h`, one value per word of the vocabulary, without the bias. With `x = (z - max z) / tau`:
//! `y^ = softmax(z / tau)` has the numerators `e^x`, and `y = softmax(z + b)` the numerators `e^(tau x) e^b`; for a whole
//! `tau` the second are powers of the first, so that one exponential serves both distributions.

use crate::cpu::Isa;
use crate::math::{exp, powi};
use crate::simd::{Simd, multiversion};

/// Elements after which a running f32 sum is added to the f64 total.
const SUM_BLOCK: usize = 512;

/// The classifier's bias in the forms the passes need.
#[derive(Clone, Copy)]
pub struct Bias<'a> {
    /// `b`.
    pub values: &'a [f32],
    /// `e^(b - max b)`.
    pub exp: &'a [f32],
    /// `max b`.
    pub max: f32,
}

/// What the augmented loss (section 3 of the paper) adds to the loss of one word.
#[derive(Clone, Copy)]
pub struct Augment<'a> {
    /// The temperature.
    pub tau: f32,
    /// Factor of its gradient by the logits, `y^ - y~`: the weight of `J_aug` in the loss, divided by the temperature.
    pub scale: f32,
    /// `y~`, the estimate of the true distribution.
    pub target: &'a [f32],
    /// `sum_i y~_i log y~_i`.
    pub target_negentropy: f64,
}

/// The two parts of the loss of one word.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Cross-entropy, `-log y_target`, in nats.
    pub ce: f64,
    /// `J_aug = KL(y~ || y^)`.
    pub kl: f64,
}

/// Replaces `z` by `scale * (y - y*)`, the gradient of `scale * CE` by the logits, and adds it to `d_bias`.
pub fn cross_entropy(
    isa: Isa,
    z: &mut [f32],
    bias: Option<Bias<'_>>,
    target: usize,
    scale: f32,
    mut d_bias: Option<&mut [f32]>,
) -> Loss {
    let n = z.len();
    check_bias(bias, n);
    let target_logit = biased(z, bias, target);
    assert!(d_bias.as_ref().is_none_or(|d| d.len() == n));
    let d_bias_ptr = d_bias.as_mut().map_or(std::ptr::null_mut(), |d| d.as_mut_ptr());
    // SAFETY: z, the bias and its gradient have n elements, and the gradient is borrowed mutably.
    let sum = unsafe { softmax_times(isa, z.as_mut_ptr(), bias_ptr(bias), n, scale, d_bias_ptr) };
    z[target] -= scale;
    if let Some(d_bias) = d_bias {
        d_bias[target] -= scale;
    }
    Loss { ce: sum.minus_log_of(target_logit), kl: 0.0 }
}

/// `-log y_target`; the row is left alone.
pub fn minus_log_probability(isa: Isa, z: &[f32], bias: Option<Bias<'_>>, target: usize) -> f64 {
    log_sum(isa, z, bias).minus_log_of(biased(z, bias, target))
}

/// `z_target + b_target`, rounded as the passes over the row round it.
fn biased(z: &[f32], bias: Option<Bias<'_>>, target: usize) -> f64 {
    f64::from(bias.map_or(z[target], |b| z[target] + b.values[target]))
}

/// `log sum_i e^(x_i)` in two parts. The first may be so large that the second is lost beside it; so they are kept apart until
/// one of the `x` has been taken away from the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogSum {
    /// `max x`.
    pub max: f64,
    /// `log sum_i e^(x_i - max x)`.
    pub rest: f64,
}

impl LogSum {
    /// `log sum_i e^(x_i)`.
    pub fn value(self) -> f64 {
        self.max + self.rest
    }

    /// `log sum_i e^(x_i) - x` for one of the `x`: never below 0, and right to the last digit where the largest stands far above
    /// the others.
    pub fn minus_log_of(self, x: f64) -> f64 {
        (self.max - x) + self.rest
    }
}

/// Replaces `z` by `y = softmax(z + b)`.
pub fn softmax(isa: Isa, z: &mut [f32], bias: Option<Bias<'_>>) {
    check_bias(bias, z.len());
    // SAFETY: z and the bias have n elements.
    unsafe { softmax_times(isa, z.as_mut_ptr(), bias_ptr(bias), z.len(), 1.0, std::ptr::null_mut()) };
}

/// `log sum_i e^(z_i + b_i)`; the row is left alone.
pub fn log_sum(isa: Isa, z: &[f32], bias: Option<Bias<'_>>) -> LogSum {
    check_bias(bias, z.len());
    // SAFETY: z and the bias have n elements.
    unsafe { log_sum_exp_row(isa, z.as_ptr(), bias_ptr(bias), z.len()) }
}

/// Replaces `z` by the gradient of `scale * CE + aug.scale * tau * KL(y~ || y^)` by the logits:
/// `scale * (y - y*) + aug.scale * (y^ - y~)`. Only the first half of it is added to `d_bias`: `y^` has no bias.
pub fn augmented(
    isa: Isa,
    z: &mut [f32],
    bias: Option<Bias<'_>>,
    target: usize,
    scale: f32,
    aug: Augment<'_>,
    mut d_bias: Option<&mut [f32]>,
) -> Loss {
    let n = z.len();
    check_bias(bias, n);
    assert_eq!(aug.target.len(), n);
    assert!(d_bias.as_ref().is_none_or(|d| d.len() == n));
    let target_z = f64::from(z[target]);
    let mut sums = [0.0f64; 4];
    // SAFETY: z, the bias and the target have n elements.
    unsafe {
        augmented_row(
            isa,
            z.as_mut_ptr(),
            bias.map_or(std::ptr::null(), |b| b.exp.as_ptr()),
            aug.target.as_ptr(),
            n,
            aug.tau,
            whole(aug.tau),
            aug.scale,
            scale,
            d_bias.as_mut().map_or(std::ptr::null_mut(), |d| d.as_mut_ptr()),
            sums.as_mut_ptr(),
        );
    }
    z[target] -= scale;
    if let Some(d_bias) = d_bias {
        d_bias[target] -= scale;
    }
    losses(sums, target_z, bias, target, aug.target_negentropy)
}

/// The gradient through `y~` of all words of a window with one target, by its scores `s = L^T u`.
///
/// Each of them adds `aug.scale * y~_i (log(y~_i / y^_i) - J_aug)`, in which the partition function of `y^` cancels. What is
/// left is linear in the logits, so the sum over the `count` words needs no more than the sum of their logits without bias:
/// `z` holds it and becomes `aug.scale * y~_i (count (log y~_i - sum_j y~_j log y~_j) - (z_i - sum_j y~_j z_j) / tau)`.
pub fn flow(isa: Isa, z: &mut [f32], count: usize, aug: Augment<'_>, log_target: &[f32]) {
    let n = z.len();
    assert!(aug.target.len() == n && log_target.len() == n);
    let (target, log_target, negentropy) = (aug.target.as_ptr(), log_target.as_ptr(), aug.target_negentropy as f32);
    // SAFETY: all rows have n elements.
    unsafe { flow_row(isa, z.as_mut_ptr(), target, log_target, n, aug.tau, aug.scale, count as f32, negentropy) };
}

/// Replaces `s = L^T u` by `y~ = softmax(s / tau)` and, if asked, puts `log y~` beside it. Returns `sum y~ log y~`.
pub fn target_distribution(isa: Isa, s: &mut [f32], tau: f32, log: Option<&mut [f32]>) -> f64 {
    let n = s.len();
    assert!(log.as_ref().is_none_or(|l| l.len() == n));
    // SAFETY: both rows have n elements.
    unsafe { target_row(isa, s.as_mut_ptr(), log.map_or(std::ptr::null_mut(), |l| l.as_mut_ptr()), n, tau) }
}

fn check_bias(bias: Option<Bias<'_>>, n: usize) {
    assert!(bias.is_none_or(|b| b.values.len() == n && b.exp.len() == n));
}

fn bias_ptr(bias: Option<Bias<'_>>) -> *const f32 {
    bias.map_or(std::ptr::null(), |b| b.values.as_ptr())
}

/// `tau` as a whole number, or 0 if it is none (then a second exponential is needed).
fn whole(tau: f32) -> u32 {
    if (1.0..=1024.0).contains(&tau) && tau.fract() == 0.0 { tau as u32 } else { 0 }
}

/// From `[max z, sum e^x, sum e^(tau x) e^(b - max b), sum y~ x]` to the two losses.
fn losses(sums: [f64; 4], target_z: f64, bias: Option<Bias<'_>>, target: usize, negentropy: f64) -> Loss {
    let [max, sum, sum_y, dot] = sums;
    // log y_target = (z_t - max z) + (b_t - max b) - log(sum_y), and log y^_i = x_i - log(sum).
    let target_bias = bias.map_or(0.0, |b| f64::from(b.values[target]) - f64::from(b.max));
    Loss { ce: sum_y.ln() - (target_z - max) - target_bias, kl: negentropy - dot + sum.ln() }
}

/// Runs `body` for every register of `n` elements with `load`/`store` closures; the lanes beyond the end read `fill`.
/// After every block the `$sum => $total` pairs are emptied into their f64 totals.
macro_rules! row {
    ($S:ident, $n:expr, $fill:expr, [$($sum:ident => $total:expr),*], |$at:ident, $load:ident, $store:ident| $body:block) => {{
        let whole = $n / $S::LANES * $S::LANES;
        let mut block = 0;
        while block < whole {
            let end = (block + SUM_BLOCK).min(whole);
            $(let mut $sum = $S::splat(0.0);)*
            let mut $at = block;
            while $at < end {
                #[allow(unused_variables)]
                let $load = |p: *const f32| $S::load(p.add($at));
                #[allow(unused_variables)]
                let $store = |p: *mut f32, v: $S::V| $S::store(p.add($at), v);
                $body
                $at += $S::LANES;
            }
            $($total += $S::sum($sum);)*
            block = end;
        }
        if whole < $n {
            let ($at, rest) = (whole, $n - whole);
            $(let mut $sum = $S::splat(0.0);)*
            #[allow(unused_variables)]
            let $load = |p: *const f32| $S::load_partial(p.add($at), rest, $fill);
            #[allow(unused_variables)]
            let $store = |p: *mut f32, v: $S::V| $S::store_partial(p.add($at), rest, v);
            $body
            $($total += $S::sum($sum);)*
        }
    }};
}

/// A logit so low that its exponential is 0: what the lanes beyond the end of a row hold.
const NOTHING: f32 = -1e30;

/// The largest of `z + bias` (bias may be null).
#[inline(always)]
unsafe fn row_max<S: Simd>(z: *const f32, bias: *const f32, n: usize) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let mut max = S::splat(f32::NEG_INFINITY);
        row!(S, n, NOTHING, [], |at, load, store| {
            let x = if bias.is_null() { load(z) } else { S::add(load(z), load(bias)) };
            max = S::max(max, x);
        });
        S::largest(max)
    }
}

multiversion! {
    /// `z` becomes `scale * softmax(z + bias)`, which is also added to `d_bias`; returns `log sum e^(z + bias)`. `bias` and
    /// `d_bias` may be null.
    ///
    /// # Safety
    /// All rows have `n` elements.
    unsafe fn softmax_times = softmax_times_generic(
        z: *mut f32, bias: *const f32, n: usize, scale: f32, d_bias: *mut f32,
    ) -> LogSum
}

#[inline(always)]
unsafe fn softmax_times_generic<S: Simd>(
    z: *mut f32,
    bias: *const f32,
    n: usize,
    scale: f32,
    d_bias: *mut f32,
) -> LogSum {
    // SAFETY: the caller's promise.
    unsafe {
        let max = row_max::<S>(z, bias, n);
        let minus_max = S::splat(-max);
        let mut total = 0.0f64;
        row!(S, n, NOTHING, [sum => total], |at, load, store| {
            let x = if bias.is_null() { load(z) } else { S::add(load(z), load(bias)) };
            let e = exp::<S>(S::add(x, minus_max));
            sum = S::add(sum, e);
            store(z, e);
        });
        let factor = S::splat((f64::from(scale) / total) as f32);
        row!(S, n, 0.0, [], |at, load, store| {
            let y = S::mul(load(z), factor);
            store(z, y);
            if !d_bias.is_null() {
                store(d_bias, S::add(load(d_bias), y));
            }
        });
        LogSum { max: f64::from(max), rest: total.ln() }
    }
}

multiversion! {
    /// # Safety
    /// `z` and `bias` (which may be null) have `n` elements.
    unsafe fn log_sum_exp_row = log_sum_exp_generic(z: *const f32, bias: *const f32, n: usize) -> LogSum
}

#[inline(always)]
unsafe fn log_sum_exp_generic<S: Simd>(z: *const f32, bias: *const f32, n: usize) -> LogSum {
    // SAFETY: the caller's promise.
    unsafe {
        let max = row_max::<S>(z, bias, n);
        let minus_max = S::splat(-max);
        let mut total = 0.0f64;
        row!(S, n, NOTHING, [sum => total], |at, load, store| {
            let x = if bias.is_null() { load(z) } else { S::add(load(z), load(bias)) };
            sum = S::add(sum, exp::<S>(S::add(x, minus_max)));
        });
        LogSum { max: f64::from(max), rest: total.ln() }
    }
}

multiversion! {
    /// # Safety
    /// `s` and `log` (which may be null) have `n` elements.
    unsafe fn target_row = target_generic(s: *mut f32, log: *mut f32, n: usize, tau: f32) -> f64
}

#[inline(always)]
unsafe fn target_generic<S: Simd>(s: *mut f32, log: *mut f32, n: usize, tau: f32) -> f64 {
    // SAFETY: the caller's promise.
    unsafe {
        let max = row_max::<S>(s, std::ptr::null(), n);
        let (minus_max, inverse_tau) = (S::splat(-max), S::splat(1.0 / tau));
        let (mut total, mut weighted) = (0.0f64, 0.0f64);
        row!(S, n, NOTHING, [sum => total, dot => weighted], |at, load, store| {
            let x = S::mul(S::add(load(s), minus_max), inverse_tau);
            let e = exp::<S>(x);
            sum = S::add(sum, e);
            dot = S::fma(e, S::max(x, S::splat(-1e4)), dot);
            if !log.is_null() {
                store(log, x);
            }
            store(s, e);
        });
        let log_total = total.ln();
        let factor = S::splat((1.0 / total) as f32);
        row!(S, n, 0.0, [], |at, load, store| {
            store(s, S::mul(load(s), factor));
        });
        if !log.is_null() {
            let minus = S::splat(-log_total as f32);
            row!(S, n, 0.0, [], |at, load, store| {
                store(log, S::add(load(log), minus));
            });
        }
        weighted / total - log_total
    }
}

/// `e^(tau x)`, which is `e` to the power of `tau` where `tau` is a whole number.
#[inline(always)]
unsafe fn numerator<S: Simd>(e: S::V, x: S::V, tau: f32, whole_tau: u32) -> S::V {
    // SAFETY: the caller vouches for the CPU feature.
    unsafe { if whole_tau != 0 { powi::<S>(e, whole_tau) } else { exp::<S>(S::mul(x, S::splat(tau))) } }
}

multiversion! {
    /// `exp_bias` and `d_bias` may be null; `whole_tau` is `tau` or 0; `sums` gets what `losses` reads.
    ///
    /// # Safety
    /// All rows have `n` elements, `sums` 4.
    unsafe fn augmented_row = augmented_generic(
        z: *mut f32, exp_bias: *const f32, target: *const f32, n: usize, tau: f32, whole_tau: u32,
        aug_scale: f32, scale: f32, d_bias: *mut f32, sums: *mut f64,
    )
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn augmented_generic<S: Simd>(
    z: *mut f32,
    exp_bias: *const f32,
    target: *const f32,
    n: usize,
    tau: f32,
    whole_tau: u32,
    aug_scale: f32,
    scale: f32,
    d_bias: *mut f32,
    sums: *mut f64,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let max = row_max::<S>(z, std::ptr::null(), n);
        let (minus_max, inverse_tau) = (S::splat(-max), S::splat(1.0 / tau));
        let (mut total, mut total_y, mut total_dot) = (0.0f64, 0.0f64, 0.0f64);
        row!(S, n, NOTHING, [sum => total, sum_y => total_y, dot => total_dot], |at, load, store| {
            let x = S::mul(S::add(load(z), minus_max), inverse_tau);
            let e = exp::<S>(x);
            let mut y = numerator::<S>(e, x, tau, whole_tau);
            if !exp_bias.is_null() {
                y = S::mul(y, load(exp_bias));
            }
            sum = S::add(sum, e);
            sum_y = S::add(sum_y, y);
            // y~ is never negative; the lanes beyond the end of the row are, and count as 0.
            let t = S::max(load(target), S::splat(0.0));
            dot = S::fma(t, S::max(x, S::splat(-1e4)), dot);
            // With a whole tau the first pass leaves e for the second; otherwise z stays and e is computed again.
            if whole_tau != 0 {
                store(z, e);
            }
        });
        let (factor_y, factor) =
            (S::splat((f64::from(scale) / total_y) as f32), S::splat((f64::from(aug_scale) / total) as f32));
        let minus_aug = S::splat(-aug_scale);
        row!(S, n, 0.0, [], |at, load, store| {
            let stored = load(z);
            let x = S::mul(S::add(stored, minus_max), inverse_tau);
            let e = if whole_tau != 0 { stored } else { exp::<S>(x) };
            let mut y = S::mul(numerator::<S>(e, x, tau, whole_tau), factor_y);
            if !exp_bias.is_null() {
                y = S::mul(y, load(exp_bias));
            }
            store(z, S::add(y, S::fma(e, factor, S::mul(load(target), minus_aug))));
            if !d_bias.is_null() {
                store(d_bias, S::add(load(d_bias), y));
            }
        });
        for (i, value) in [f64::from(max), total, total_y, total_dot].into_iter().enumerate() {
            *sums.add(i) = value;
        }
    }
}

multiversion! {
    /// # Safety
    /// All rows have `n` elements.
    unsafe fn flow_row = flow_generic(
        z: *mut f32, target: *const f32, log_target: *const f32, n: usize, tau: f32, scale: f32, count: f32, negentropy: f32,
    )
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn flow_generic<S: Simd>(
    z: *mut f32,
    target: *const f32,
    log_target: *const f32,
    n: usize,
    tau: f32,
    scale: f32,
    count: f32,
    negentropy: f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut mean = 0.0f64;
        row!(S, n, 0.0, [dot => mean], |at, load, store| {
            dot = S::fma(load(target), load(z), dot);
        });
        let (minus_mean, minus_inverse_tau) = (S::splat(-mean as f32), S::splat(-1.0 / tau));
        let (scale, count, minus_negentropy) = (S::splat(scale), S::splat(count), S::splat(-negentropy));
        row!(S, n, 0.0, [], |at, load, store| {
            let excess = S::mul(S::add(load(z), minus_mean), minus_inverse_tau);
            let difference = S::fma(count, S::add(load(log_target), minus_negentropy), excess);
            store(z, S::mul(S::mul(load(target), scale), difference));
        });
    }
}

#[cfg(test)]
mod tests;
