//! The passes of a model that learns while it is being evaluated.
//!
//! The classifier's matrix `W` (V, d) is far larger than anything else in a small model, and a few words give it a gradient
//! of low rank, `dZ^T H`. Writing that gradient down, packing `W` anew for the next words and going over both again would
//! cost more than the arithmetic. So `W` is read where it lies, with the words of the segment in the lanes of registers
//! (`columns`); the gradient of a matrix is applied where it is computed (`matrix`); and all that a segment does to the
//! classifier is one pass over its rows, which begins with the step that the segment before has left (`classifier`).
//!
//! What has a column for each word has its rows padded to whole registers: see [`Columns::stride`].

mod classifier;
mod columns;
mod matrix;

pub use classifier::{Classifier, Pending, Reading, pass, rows_after};
pub use columns::{Columns, log_sums, product};
pub use matrix::matrix_step;

use crate::bf16;
use crate::cpu::Isa;
use crate::simd::{Simd, multiversion};
use crate::team::{SMALL_PASS, Team};

/// Pieces into which the rows of a matrix are divided at most: their number does not depend on that of the threads, so that
/// no sum does.
const PIECES: usize = 16;

/// Rows of a piece of a matrix.
fn piece_rows(rows: usize) -> usize {
    rows.div_ceil(PIECES).max(200).min(rows).max(1)
}

/// How a weight follows its gradient `g` and returns to its trained value `x0`:
/// `x <- x + min(decay r / mean, 1) (x0 - x) - rate g / (r + epsilon)`, or without `r` as if it were 1 (and `epsilon` 0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// How far a step goes.
    pub rate: f32,
    /// Share of the way back to the trained value that each step makes.
    pub decay: f32,
    /// Added to `r`, where there is one.
    pub epsilon: f32,
    /// The mean of all `r`.
    pub mean: f32,
}

/// How large a weight's gradient usually is, to 8 bits (bf16): more would be lost in how it was found, and it goes through
/// the memory with every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Scale(u16);

impl Scale {
    /// The nearest there is.
    pub fn nearest(x: f32) -> Scale {
        Scale((bf16::nearest(x).to_bits() >> 16) as u16)
    }

    /// What it stands for.
    pub fn value(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// The same values for some weights: those to be moved, their trained values, and the root mean square of their gradients
/// where the rule is scaled by it.
pub struct Weights<'a> {
    /// To be moved.
    pub now: &'a mut [f32],
    /// As trained.
    pub trained: &'a [f32],
    /// `r`.
    pub scale: Option<&'a [Scale]>,
}

impl Weights<'_> {
    fn check(&self) {
        assert_eq!(self.now.len(), self.trained.len());
        assert!(self.scale.is_none_or(|r| r.len() == self.now.len()));
    }
}

/// One step of the rule for all weights.
pub fn step(team: &Team, isa: Isa, weights: Weights<'_>, gradient: &[f32], rule: Rule) {
    weights.check();
    let n = gradient.len();
    assert_eq!(weights.now.len(), n);
    let piece = n.div_ceil(64).max(1);
    let scales = pieces_or_nothing(weights.scale, piece);
    let jobs = weights.now.chunks_mut(piece).zip(weights.trained.chunks(piece)).zip(gradient.chunks(piece)).zip(scales);
    team.for_each_unless(n < SMALL_PASS, jobs, |(((x, x0), g), r)| {
        let r = r.map_or(std::ptr::null(), <[Scale]>::as_ptr);
        // SAFETY: the pieces are of one length.
        unsafe { step_row(isa, x.as_mut_ptr(), x0.as_ptr(), g.as_ptr(), r, x.len(), rule) };
    });
}

/// The pieces of what there may be, and for nothing as much of it as is wanted.
fn pieces_or_nothing<'a, T: Sync>(
    r: Option<&'a [T]>,
    piece: usize,
) -> Box<dyn Iterator<Item = Option<&'a [T]>> + Send + 'a> {
    match r {
        Some(r) => Box::new(r.chunks(piece).map(Some)),
        None => Box::new(std::iter::repeat(None)),
    }
}

/// `decay` and `rate` of one register, where they are scaled by `r`.
#[inline(always)]
unsafe fn scaled<S: Simd>(r: S::V, rule: Rule) -> (S::V, S::V) {
    // SAFETY: the caller vouches for the CPU feature.
    unsafe {
        let decay = S::min(S::mul(r, S::splat(rule.decay / rule.mean)), S::splat(1.0));
        (decay, S::mul(S::splat(rule.rate), S::inverse(S::add(r, S::splat(rule.epsilon)))))
    }
}

/// The rule for one register, with its `decay` and `rate`.
#[inline(always)]
unsafe fn moved<S: Simd>(x: S::V, x0: S::V, g: S::V, (decay, rate): (S::V, S::V)) -> S::V {
    // SAFETY: the caller vouches for the CPU feature.
    unsafe { S::sub(S::fma(decay, S::sub(x0, x), x), S::mul(rate, g)) }
}

multiversion! {
    /// # Safety
    /// All rows have `n` elements; `r` may be null.
    unsafe fn step_row = step_row_generic(x: *mut f32, x0: *const f32, g: *const f32, r: *const Scale, n: usize, rule: Rule)
}

/// One step of the rule for a row.
#[inline(always)]
unsafe fn step_row_generic<S: Simd>(x: *mut f32, x0: *const f32, g: *const f32, r: *const Scale, n: usize, rule: Rule) {
    // SAFETY: the caller's promise; the last register is partial.
    unsafe {
        let plain = (S::splat(rule.decay), S::splat(rule.rate));
        let whole = n / S::LANES * S::LANES;
        for at in (0..whole).step_by(S::LANES) {
            let measure = if r.is_null() { plain } else { scaled::<S>(S::load_upper(r.add(at).cast()), rule) };
            let new = moved::<S>(S::load(x.add(at)), S::load(x0.add(at)), S::load(g.add(at)), measure);
            S::store(x.add(at), new);
        }
        let rest = n - whole;
        if rest > 0 {
            let measure =
                if r.is_null() { plain } else { scaled::<S>(S::load_upper_partial(r.add(whole).cast(), rest), rule) };
            let (now, trained) = (S::load_partial(x.add(whole), rest, 0.0), S::load_partial(x0.add(whole), rest, 0.0));
            let new = moved::<S>(now, trained, S::load_partial(g.add(whole), rest, 0.0), measure);
            S::store_partial(x.add(whole), rest, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::numbers;

    pub(super) fn wide(x: &[f32]) -> Vec<f64> {
        x.iter().map(|&x| f64::from(x)).collect()
    }

    pub(super) fn scales(seed: u32, n: usize) -> Vec<Scale> {
        numbers(seed, n).iter().map(|x| Scale::nearest(x + 0.5)).collect()
    }

    pub(super) fn naive(rule: Rule, x: f64, x0: f64, g: f64, r: Option<f64>) -> f64 {
        let [rate, decay, epsilon, mean] = [rule.rate, rule.decay, rule.epsilon, rule.mean].map(f64::from);
        match r {
            None => x + decay * (x0 - x) - rate * g,
            Some(r) => x + (decay * r / mean).min(1.0) * (x0 - x) - rate * g / (r + epsilon),
        }
    }

    pub(super) const RULE: Rule = Rule { rate: 0.3, decay: 0.4, epsilon: 0.05, mean: 0.3 };

    #[test]
    fn a_scale_is_near_what_it_was_made_of() {
        for x in [0.0f32, 1.0, 1e-30, 0.3333, 7.77e-4, 123.456] {
            assert!((Scale::nearest(x).value() - x).abs() <= x / 256.0, "{x}");
        }
    }

    #[test]
    fn a_step_is_the_rule_at_any_size_and_number_of_threads() {
        for isa in Isa::available() {
            for n in [0, 1, 17, 1000, 30_011] {
                let (x, x0, g) = (numbers(1, n), numbers(2, n), numbers(3, n));
                let r = scales(4, n);
                for scale in [None, Some(&r[..])] {
                    let run = |threads| {
                        let mut now = x.clone();
                        step(&Team::new(threads), isa, Weights { now: &mut now, trained: &x0, scale }, &g, RULE);
                        now
                    };
                    let now = run(1);
                    assert!(run(2) == now && run(3) == now);
                    for i in 0..n {
                        let [x, x0, g] = [x[i], x0[i], g[i]].map(f64::from);
                        let want = naive(RULE, x, x0, g, scale.map(|r| f64::from(r[i].value())));
                        assert!((f64::from(now[i]) - want).abs() < 2e-6 * want.abs().max(1.0), "{isa:?} {n} {i}");
                    }
                }
            }
        }
    }
}
