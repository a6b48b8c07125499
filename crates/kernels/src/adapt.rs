//! The passes of a model that learns while it is being evaluated: the loss of a few words by columns, and the gradient of a
//! wide matrix applied where it is computed.
//!
//! The classifier's matrix `W` (V, d) is far larger than anything else in a small model, and a few words give it a gradient
//! of low rank, `dZ^T H`. Writing that gradient down, packing `W` anew for the next words and going over both again would
//! cost more than the arithmetic. So the logits are computed as `Z^T = W H^T`, which reads `W` where it lies; their softmax
//! goes down the columns; and one pass over the rows of `W` then gives both `dH = dZ W` (of the old row) and the new row.

use crate::buffer::Buffer;
use crate::cpu::Isa;
use crate::math::exp;
use crate::simd::{Simd, multiversion};
use crate::team::{SMALL_PASS, Team};

/// Rows after which running f32 sums are added to the f64 totals.
const SUM_BLOCK: usize = 512;
/// Pieces into which the rows of `W` are divided: a fixed number, so that no sum depends on the number of threads.
const PIECES: usize = 16;

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

/// The same values for some weights: those to be moved, their trained values, and the root mean square of their gradients
/// where the rule is scaled by it.
pub struct Weights<'a> {
    /// To be moved.
    pub now: &'a mut [f32],
    /// As trained.
    pub trained: &'a [f32],
    /// `r`.
    pub scale: Option<&'a [f32]>,
}

impl Weights<'_> {
    fn check(&self) {
        assert_eq!(self.now.len(), self.trained.len());
        assert!(self.scale.is_none_or(|r| r.len() == self.now.len()));
    }

    /// Some of them.
    pub fn part(&mut self, range: std::ops::Range<usize>) -> Weights<'_> {
        Weights {
            now: &mut self.now[range.clone()],
            trained: &self.trained[range.clone()],
            scale: self.scale.map(|r| &r[range]),
        }
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
        let r = r.map_or(std::ptr::null(), <[f32]>::as_ptr);
        // SAFETY: the pieces are of one length.
        unsafe { step_row(isa, x.as_mut_ptr(), x0.as_ptr(), g.as_ptr(), r, x.len(), rule) };
    });
}

fn pieces_or_nothing<'a>(
    r: Option<&'a [f32]>,
    piece: usize,
) -> Box<dyn Iterator<Item = Option<&'a [f32]>> + Send + 'a> {
    match r {
        Some(r) => Box::new(r.chunks(piece).map(Some)),
        None => Box::new(std::iter::repeat(None)),
    }
}

/// `out[t] = log sum_v e^((z[v][t] + bias[v]) * inverse_temperature)` for the columns of `z` (V, T).
pub fn log_sums(isa: Isa, z: &[f32], bias: Option<&[f32]>, columns: usize, inverse_temperature: f32, out: &mut [f64]) {
    assert!(out.len() == columns && z.len().is_multiple_of(columns.max(1)));
    assert!(bias.is_none_or(|b| b.len() * columns == z.len()));
    let bias = bias.map_or(std::ptr::null(), <[f32]>::as_ptr);
    let (rows, out) = (z.len() / columns.max(1), out.as_mut_ptr());
    // SAFETY: z is rows x columns, the bias has as many rows, and out has a place for each column.
    unsafe { log_sums_columns(isa, z.as_ptr(), bias, rows, columns, inverse_temperature, out) };
}

/// `z[v][t]` becomes `e^(z[v][t] + bias[v] - log_sums[t])`: the columns become distributions.
pub fn distributions(team: &Team, isa: Isa, z: &mut [f32], bias: Option<&[f32]>, log_sums: &[f64]) {
    let columns = log_sums.len();
    assert!(columns > 0 && z.len().is_multiple_of(columns));
    assert!(bias.is_none_or(|b| b.len() * columns == z.len()));
    let minus: Vec<f32> = log_sums.iter().map(|&x| -x as f32).collect();
    let rows = (z.len() / columns).div_ceil(PIECES).max(1);
    team.for_each_unless(z.len() < SMALL_PASS, z.chunks_mut(rows * columns).enumerate(), |(piece, z)| {
        let bias = bias.map_or(std::ptr::null(), |b| b[piece * rows..].as_ptr());
        // SAFETY: the piece's rows are inside z and the bias.
        unsafe { distribution_columns(isa, z.as_mut_ptr(), bias, z.len() / columns, columns, minus.as_ptr()) };
    });
}

/// For `dZ^T` (V, T), `H` (T, d) and `W` (V, d): `d_h = dZ W` with the old `W`, then a step of the rule for `W` along
/// `dZ^T H`. `partial` is room that is used again.
#[allow(clippy::too_many_arguments)]
pub fn matrix_step(
    team: &Team,
    isa: Isa,
    weights: Weights<'_>,
    d_z: &[f32],
    h: &[f32],
    columns: usize,
    rule: Rule,
    d_h: &mut [f32],
    partial: &mut Buffer,
) {
    weights.check();
    assert!(columns > 0 && h.len().is_multiple_of(columns) && d_h.len() == h.len());
    let d = h.len() / columns;
    assert!(d > 0 && d_z.len().is_multiple_of(columns) && weights.now.len() == d_z.len() / columns * d);
    let rows = (d_z.len() / columns).div_ceil(PIECES).max(1);
    partial.resize(PIECES * h.len());
    partial.fill(0.0);
    let jobs = weights
        .now
        .chunks_mut(rows * d)
        .zip(weights.trained.chunks(rows * d))
        .zip(pieces_or_nothing(weights.scale, rows * d))
        .zip(d_z.chunks(rows * columns))
        .zip(partial.chunks_mut(h.len()));
    team.for_each_unless(d_z.len() * d < 300_000, jobs, |((((x, x0), r), d_z), d_h)| {
        let r = r.map_or(std::ptr::null(), <[f32]>::as_ptr);
        let (pointers, n) = ((x.as_mut_ptr(), x0.as_ptr(), r), d_z.len() / columns);
        // SAFETY: x, x0 and r are n rows of d, d_z n rows of `columns`, and h and d_h `columns` rows of d.
        unsafe { matrix_rows(isa, pointers, d_z.as_ptr(), h.as_ptr(), d_h.as_mut_ptr(), n, columns, d, rule) };
    });
    let (first, rest) = partial.split_at(h.len());
    d_h.copy_from_slice(first);
    for piece in rest.chunks_exact(h.len()) {
        d_h.iter_mut().zip(piece).for_each(|(sum, x)| *sum += x);
    }
}

/// The rule for one register.
#[inline(always)]
unsafe fn moved<S: Simd>(x: S::V, x0: S::V, g: S::V, r: Option<S::V>, rule: Rule) -> S::V {
    // SAFETY: the caller vouches for the CPU feature.
    unsafe {
        let (decay, slope) = match r {
            None => (S::splat(rule.decay), g),
            Some(r) => {
                let decay = S::min(S::mul(r, S::splat(rule.decay / rule.mean)), S::splat(1.0));
                (decay, S::div(g, S::add(r, S::splat(rule.epsilon))))
            }
        };
        let back = S::fma(decay, S::sub(x0, x), x);
        S::fma(S::splat(-rule.rate), slope, back)
    }
}

multiversion! {
    /// # Safety
    /// All rows have `n` elements; `r` may be null.
    unsafe fn step_row = step_row_generic(x: *mut f32, x0: *const f32, g: *const f32, r: *const f32, n: usize, rule: Rule)
}

#[inline(always)]
unsafe fn step_row_generic<S: Simd>(x: *mut f32, x0: *const f32, g: *const f32, r: *const f32, n: usize, rule: Rule) {
    // SAFETY: the caller's promise; the last register is partial.
    unsafe {
        let whole = n / S::LANES * S::LANES;
        for at in (0..whole).step_by(S::LANES) {
            let scale = if r.is_null() { None } else { Some(S::load(r.add(at))) };
            let new = moved::<S>(S::load(x.add(at)), S::load(x0.add(at)), S::load(g.add(at)), scale, rule);
            S::store(x.add(at), new);
        }
        let rest = n - whole;
        if rest > 0 {
            let scale = if r.is_null() { None } else { Some(S::load_partial(r.add(whole), rest, 1.0)) };
            let (now, trained) = (S::load_partial(x.add(whole), rest, 0.0), S::load_partial(x0.add(whole), rest, 0.0));
            let new = moved::<S>(now, trained, S::load_partial(g.add(whole), rest, 0.0), scale, rule);
            S::store_partial(x.add(whole), rest, new);
        }
    }
}

multiversion! {
    /// # Safety
    /// `z` is `rows x columns`; `bias`, which may be null, has `rows` elements and `out` has `columns`.
    unsafe fn log_sums_columns = log_sums_generic(
        z: *const f32, bias: *const f32, rows: usize, columns: usize, inverse_temperature: f32, out: *mut f64,
    )
}

#[inline(always)]
unsafe fn log_sums_generic<S: Simd>(
    z: *const f32,
    bias: *const f32,
    rows: usize,
    columns: usize,
    inverse_temperature: f32,
    out: *mut f64,
) {
    // SAFETY: the caller's promise; column by column of registers, the last one partial.
    unsafe {
        for first in (0..columns).step_by(S::LANES) {
            let lanes = S::LANES.min(columns - first);
            let (z, out) = (z.add(first), out.add(first));
            if lanes == S::LANES {
                log_sums_register::<S, true>(z, bias, rows, columns, lanes, inverse_temperature, out);
            } else {
                log_sums_register::<S, false>(z, bias, rows, columns, lanes, inverse_temperature, out);
            }
        }
    }
}

/// The columns of one register.
#[inline(always)]
unsafe fn log_sums_register<S: Simd, const WHOLE: bool>(
    z: *const f32,
    bias: *const f32,
    rows: usize,
    columns: usize,
    lanes: usize,
    inverse_temperature: f32,
    out: *mut f64,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut max = S::splat(f32::NEG_INFINITY);
        for v in 0..rows {
            max = S::max(max, logits::<S, WHOLE>(z.add(v * columns), bias, v, lanes, inverse_temperature));
        }
        let mut totals = [0.0f64; 16];
        for block in (0..rows).step_by(SUM_BLOCK) {
            let mut sum = S::splat(0.0);
            for v in block..(block + SUM_BLOCK).min(rows) {
                let x = logits::<S, WHOLE>(z.add(v * columns), bias, v, lanes, inverse_temperature);
                sum = S::add(sum, exp::<S>(S::sub(x, max)));
            }
            let mut lane = [0.0f32; 16];
            S::store(lane.as_mut_ptr(), sum);
            for i in 0..S::LANES {
                totals[i] += f64::from(lane[i]);
            }
        }
        let mut largest = [0.0f32; 16];
        S::store(largest.as_mut_ptr(), max);
        for i in 0..lanes {
            *out.add(i) = f64::from(largest[i]) + totals[i].ln();
        }
    }
}

/// `(z + bias) * inverse_temperature` of one row.
#[inline(always)]
unsafe fn logits<S: Simd, const WHOLE: bool>(
    z: *const f32,
    bias: *const f32,
    row: usize,
    lanes: usize,
    inverse_temperature: f32,
) -> S::V {
    // SAFETY: the caller's promise.
    unsafe {
        let mut x = S::load_some::<WHOLE>(z, lanes);
        if !bias.is_null() {
            x = S::add(x, S::splat(*bias.add(row)));
        }
        S::mul(x, S::splat(inverse_temperature))
    }
}

multiversion! {
    /// # Safety
    /// `z` is `rows x columns`; `bias`, which may be null, has `rows` elements and `minus` has `columns`.
    unsafe fn distribution_columns = distribution_generic(
        z: *mut f32, bias: *const f32, rows: usize, columns: usize, minus: *const f32,
    )
}

#[inline(always)]
unsafe fn distribution_generic<S: Simd>(z: *mut f32, bias: *const f32, rows: usize, columns: usize, minus: *const f32) {
    // SAFETY: the caller's promise.
    unsafe {
        for first in (0..columns).step_by(S::LANES) {
            let lanes = S::LANES.min(columns - first);
            let minus = S::load_partial(minus.add(first), lanes, 0.0);
            for v in 0..rows {
                let p = z.add(v * columns + first);
                let add = if bias.is_null() { minus } else { S::add(minus, S::splat(*bias.add(v))) };
                if lanes == S::LANES {
                    S::store(p, exp::<S>(S::add(S::load(p), add)));
                } else {
                    S::store_partial(p, lanes, exp::<S>(S::add(S::load_partial(p, lanes, 0.0), add)));
                }
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// `weights` are three matrices (the last may be null) of `n` rows of `d`; `d_z` has `n` rows of `columns`; `h` and
    /// `d_h` have `columns` rows of `d`.
    unsafe fn matrix_rows = matrix_rows_generic(
        weights: (*mut f32, *const f32, *const f32), d_z: *const f32, h: *const f32, d_h: *mut f32,
        n: usize, columns: usize, d: usize, rule: Rule,
    )
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn matrix_rows_generic<S: Simd>(
    weights: (*mut f32, *const f32, *const f32),
    d_z: *const f32,
    h: *const f32,
    d_h: *mut f32,
    n: usize,
    columns: usize,
    d: usize,
    rule: Rule,
) {
    let mut v = 0;
    // SAFETY: the caller's promise, handed on block by block of rows.
    unsafe {
        let (x, x0, r) = weights;
        // A null pointer stays one: it is not followed.
        let at = |v: usize| (x.add(v * d), x0.add(v * d), if r.is_null() { r } else { r.add(v * d) });
        // Rows that share one reading of `H`: as many as leave their weights and gradients in registers.
        if S::LANES == 16 {
            while v + 8 <= n {
                matrix_block::<S, 8>(at(v), d_z.add(v * columns), h, d_h, columns, d, rule);
                v += 8;
            }
        }
        while v + 5 <= n {
            matrix_block::<S, 5>(at(v), d_z.add(v * columns), h, d_h, columns, d, rule);
            v += 5;
        }
        while v < n {
            matrix_block::<S, 1>(at(v), d_z.add(v * columns), h, d_h, columns, d, rule);
            v += 1;
        }
    }
}

/// `R` rows of the matrix.
#[inline(always)]
unsafe fn matrix_block<S: Simd, const R: usize>(
    weights: (*mut f32, *const f32, *const f32),
    d_z: *const f32,
    h: *const f32,
    d_h: *mut f32,
    columns: usize,
    d: usize,
    rule: Rule,
) {
    let whole = d / S::LANES * S::LANES;
    // SAFETY: the caller's promise; the last register of a row is partial.
    unsafe {
        for at in (0..whole).step_by(S::LANES) {
            // The rows that come next: what is moved does not stay in the cache from one segment to the next.
            if at % 16 == 0 {
                for i in R..2 * R {
                    S::prefetch(weights.0.wrapping_add(i * d + at));
                    S::prefetch(weights.1.wrapping_add(i * d + at));
                    if !weights.2.is_null() {
                        S::prefetch(weights.2.wrapping_add(i * d + at));
                    }
                }
            }
            matrix_register::<S, R, true>(weights, d_z, h, d_h, columns, d, at, S::LANES, rule);
        }
        if whole < d {
            matrix_register::<S, R, false>(weights, d_z, h, d_h, columns, d, whole, d - whole, rule);
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn matrix_register<S: Simd, const R: usize, const WHOLE: bool>(
    (x, x0, r): (*mut f32, *const f32, *const f32),
    d_z: *const f32,
    h: *const f32,
    d_h: *mut f32,
    columns: usize,
    d: usize,
    at: usize,
    lanes: usize,
    rule: Rule,
) {
    // SAFETY: the caller's promise: element `at` and the `lanes - 1` after it are inside each row of d.
    unsafe {
        let mut old = [S::splat(0.0); R];
        let mut gradient = [S::splat(0.0); R];
        for (i, old) in old.iter_mut().enumerate() {
            *old = S::load_some::<WHOLE>(x.add(i * d + at), lanes);
        }
        for t in 0..columns {
            let state = S::load_some::<WHOLE>(h.add(t * d + at), lanes);
            let mut below = S::load_some::<WHOLE>(d_h.add(t * d + at), lanes);
            for i in 0..R {
                let factor = S::splat(*d_z.add(i * columns + t));
                below = S::fma(factor, old[i], below);
                gradient[i] = S::fma(factor, state, gradient[i]);
            }
            S::store_some::<WHOLE>(d_h.add(t * d + at), lanes, below);
        }
        for i in 0..R {
            let trained = S::load_some::<WHOLE>(x0.add(i * d + at), lanes);
            // Not by a closure, here and elsewhere: it would not have the CPU feature, and no register of its own.
            let scale = if r.is_null() {
                None
            } else if WHOLE {
                Some(S::load(r.add(i * d + at)))
            } else {
                Some(S::load_partial(r.add(i * d + at), lanes, 1.0))
            };
            let new = moved::<S>(old[i], trained, gradient[i], scale, rule);
            S::store_some::<WHOLE>(x.add(i * d + at), lanes, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::numbers;

    fn wide(x: &[f32]) -> Vec<f64> {
        x.iter().map(|&x| f64::from(x)).collect()
    }

    fn naive(rule: Rule, x: f64, x0: f64, g: f64, r: Option<f64>) -> f64 {
        let [rate, decay, epsilon, mean] = [rule.rate, rule.decay, rule.epsilon, rule.mean].map(f64::from);
        match r {
            None => x + decay * (x0 - x) - rate * g,
            Some(r) => x + (decay * r / mean).min(1.0) * (x0 - x) - rate * g / (r + epsilon),
        }
    }

    const RULE: Rule = Rule { rate: 0.3, decay: 0.4, epsilon: 0.05, mean: 0.3 };

    #[test]
    fn a_step_is_the_rule_at_any_size_and_number_of_threads() {
        for isa in Isa::available() {
            for n in [0, 1, 17, 1000, 30_011] {
                let (x, x0, g) = (numbers(1, n), numbers(2, n), numbers(3, n));
                let r: Vec<f32> = numbers(4, n).iter().map(|x| x + 0.5).collect();
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
                        let want = naive(RULE, x, x0, g, scale.map(|r| f64::from(r[i])));
                        assert!((f64::from(now[i]) - want).abs() < 2e-6 * want.abs().max(1.0), "{isa:?} {n} {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn columns_become_distributions() {
        for isa in Isa::available() {
            for (rows, columns) in [(1, 1), (7, 3), (1300, 20), (40, 33)] {
                let z: Vec<f32> = numbers(5, rows * columns).iter().map(|x| 9.0 * x).collect();
                let bias = numbers(6, rows);
                for bias in [None, Some(&bias[..])] {
                    let logit =
                        |v: usize, t: usize| f64::from(z[v * columns + t]) + bias.map_or(0.0, |b| f64::from(b[v]));
                    for inverse in [1.0f32, 0.7] {
                        let mut sums = vec![0.0; columns];
                        log_sums(isa, &z, bias, columns, inverse, &mut sums);
                        for (t, sum) in sums.iter().enumerate() {
                            let want = (0..rows).map(|v| (logit(v, t) * f64::from(inverse)).exp()).sum::<f64>().ln();
                            assert!((sum - want).abs() < 1e-5, "{isa:?} {rows}x{columns}: {sum} {want}");
                        }
                        if inverse == 1.0 {
                            let mut y = z.clone();
                            distributions(&Team::new(2), isa, &mut y, bias, &sums);
                            for t in 0..columns {
                                let total: f64 = (0..rows).map(|v| f64::from(y[v * columns + t])).sum();
                                assert!((total - 1.0).abs() < 1e-5);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_matrix_and_the_states_gradient_are_those_of_plain_loops() {
        for isa in Isa::available() {
            for (rows, columns, d) in [(1, 1, 1), (9, 3, 19), (203, 20, 40), (50, 5, 33)] {
                let (x, x0) = (numbers(1, rows * d), numbers(2, rows * d));
                let r: Vec<f32> = numbers(3, rows * d).iter().map(|x| x + 0.5).collect();
                let (d_z, h) = (numbers(4, rows * columns), numbers(5, columns * d));
                for scale in [None, Some(&r[..])] {
                    let run = |threads| {
                        let (mut now, mut d_h, mut partial) = (x.clone(), vec![7.0; columns * d], Buffer::new());
                        partial.grow(5);
                        partial.fill(3.0);
                        let weights = Weights { now: &mut now, trained: &x0, scale };
                        let team = Team::new(threads);
                        matrix_step(&team, isa, weights, &d_z, &h, columns, RULE, &mut d_h, &mut partial);
                        (now, d_h)
                    };
                    let (now, d_h) = run(1);
                    assert!(run(2) == (now.clone(), d_h.clone()) && run(3) == (now.clone(), d_h.clone()));
                    let (x, d_z, h) = (wide(&x), wide(&d_z), wide(&h));
                    for t in 0..columns {
                        for j in 0..d {
                            let want: f64 = (0..rows).map(|v| d_z[v * columns + t] * x[v * d + j]).sum();
                            assert!((f64::from(d_h[t * d + j]) - want).abs() < 1e-5 * want.abs().max(1.0), "{isa:?}");
                        }
                    }
                    for v in 0..rows {
                        for j in 0..d {
                            let i = v * d + j;
                            let g: f64 = (0..columns).map(|t| d_z[v * columns + t] * h[t * d + j]).sum();
                            let want = naive(RULE, x[i], f64::from(x0[i]), g, scale.map(|r| f64::from(r[i])));
                            assert!((f64::from(now[i]) - want).abs() < 1e-5 * want.abs().max(1.0), "{isa:?}");
                        }
                    }
                }
            }
        }
    }
}
