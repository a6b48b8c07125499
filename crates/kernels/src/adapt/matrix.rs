//! One pass over the rows of a matrix for what came from it and for its step.

use super::{Rule, Scale, Weights, moved, piece_rows, pieces_or_nothing, scaled};
use crate::buffer::Buffer;
use crate::cpu::Isa;
use crate::simd::{Simd, multiversion};
use crate::team::{SMALL_PRODUCT, Team};

/// Rows that stay in the cache between their uses.
pub(super) const BLOCK: usize = 40;

/// For `dZ^T` (V, stride), `H` (T, d) and `W` (V, d): `d_h = dZ W` with the old `W`, then a step of the rule for `W` along
/// `dZ^T H`, both of the first `T` columns. `partial` is room that is used again. Without `d_h` there is the step alone.
#[allow(clippy::too_many_arguments)]
pub fn matrix_step(
    team: &Team,
    isa: Isa,
    weights: Weights<'_>,
    d_z: &[f32],
    stride: usize,
    h: &[f32],
    d: usize,
    rule: Rule,
    d_h: Option<&mut [f32]>,
    partial: &mut Buffer,
) {
    weights.check();
    assert!(d > 0 && h.len().is_multiple_of(d) && d_h.as_ref().is_none_or(|d_h| d_h.len() == h.len()));
    let columns = h.len() / d;
    assert!(stride >= columns.max(1) && d_z.len().is_multiple_of(stride));
    assert_eq!(weights.now.len(), d_z.len() / stride * d);
    let rows = piece_rows(d_z.len() / stride);
    let pieces = d_z.len().div_ceil(rows * stride);
    let below = if d_h.is_some() { h.len() } else { 0 };
    partial.resize(pieces * below);
    partial.fill(0.0);
    let jobs = weights
        .now
        .chunks_mut(rows * d)
        .zip(weights.trained.chunks(rows * d))
        .zip(pieces_or_nothing(weights.scale, rows * d))
        .zip(d_z.chunks(rows * stride))
        .zip(partial.chunks_mut(below.max(1)).map(Some).chain(std::iter::repeat_with(|| None)));
    team.for_each_unless(d_z.len() * d < SMALL_PRODUCT, jobs, |((((x, x0), r), d_z), d_h)| {
        let r = r.map_or(std::ptr::null(), <[Scale]>::as_ptr);
        let d_h = d_h.map_or(std::ptr::null_mut(), <[f32]>::as_mut_ptr);
        let rows = Rows { d, n: d_z.len() / stride, columns, stride };
        let weights = (x.as_mut_ptr(), x0.as_ptr(), r);
        // SAFETY: x, x0 and r are n rows of d, d_z n rows of `stride`, and h and d_h `columns` rows of d.
        unsafe { matrix_rows(isa, weights, d_z.as_ptr(), h.as_ptr(), d_h, rows, rule) };
    });
    if let Some(d_h) = d_h {
        let (first, rest) = partial.split_at(h.len());
        d_h.copy_from_slice(first);
        for piece in rest.chunks_exact(h.len()) {
            d_h.iter_mut().zip(piece).for_each(|(sum, x)| *sum += x);
        }
    }
}

/// The sizes of a piece of a matrix and of what goes with it.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Elements of a row of `W`, `H` and `dH`.
    pub(super) d: usize,
    /// Rows of `W` and of `dZ^T`.
    pub(super) n: usize,
    /// Rows of `H` and `dH`.
    pub(super) columns: usize,
    /// From one row of `dZ^T` to the next.
    pub(super) stride: usize,
}

multiversion! {
    /// # Safety
    /// `weights` are three matrices (the last may be null) of `n` rows of `d`; `d_z` has `n` rows of `stride`; `h` and
    /// `d_h`, which may be null, have `columns` rows of `d`.
    unsafe fn matrix_rows = matrix_rows_generic(
        weights: (*mut f32, *const f32, *const Scale), d_z: *const f32, h: *const f32, d_h: *mut f32, rows: Rows, rule: Rule,
    )
}

#[inline(always)]
unsafe fn matrix_rows_generic<S: Simd>(
    (x, x0, r): (*mut f32, *const f32, *const Scale),
    d_z: *const f32,
    h: *const f32,
    d_h: *mut f32,
    rows: Rows,
    rule: Rule,
) {
    let Rows { d, n, stride, .. } = rows;
    for v in (0..n).step_by(BLOCK) {
        let block = Rows { n: BLOCK.min(n - v), ..rows };
        // SAFETY: the caller's promise, handed on block by block of rows.
        unsafe {
            // A null pointer stays one: it is not followed.
            let weights = (x.add(v * d), x0.add(v * d), if r.is_null() { r } else { r.add(v * d) });
            let d_z = d_z.add(v * stride);
            if !d_h.is_null() {
                below::<S>(weights.0, d_z, d_h, block);
            }
            forward::<S, true>(weights, d_z, h, block, rule);
        }
    }
}

/// `d_h += dZ W` for the rows of a block.
#[inline(always)]
pub(super) unsafe fn below<S: Simd>(x: *const f32, d_z: *const f32, d_h: *mut f32, rows: Rows) {
    let (d, columns) = (rows.d, rows.columns);
    let mut at = 0;
    // SAFETY: the caller's promise, handed on tile by tile; the last register of a row may be partial.
    unsafe {
        while at + 2 * S::LANES <= d {
            let mut t = 0;
            while t + 5 <= columns {
                below_tile::<S, 5, 2, true>(x.add(at), d_z.add(t), d_h.add(t * d + at), rows, S::LANES);
                t += 5;
            }
            while t < columns {
                below_tile::<S, 1, 2, true>(x.add(at), d_z.add(t), d_h.add(t * d + at), rows, S::LANES);
                t += 1;
            }
            at += 2 * S::LANES;
        }
        while at < d {
            let lanes = S::LANES.min(d - at);
            let mut t = 0;
            while t + 10 <= columns && lanes == S::LANES {
                below_tile::<S, 10, 1, true>(x.add(at), d_z.add(t), d_h.add(t * d + at), rows, lanes);
                t += 10;
            }
            while t < columns {
                below_tile::<S, 1, 1, false>(x.add(at), d_z.add(t), d_h.add(t * d + at), rows, lanes);
                t += 1;
            }
            at += lanes;
        }
    }
}

/// `T` rows of `d_h` by `NV` registers.
#[inline(always)]
unsafe fn below_tile<S: Simd, const T: usize, const NV: usize, const WHOLE: bool>(
    x: *const f32,
    d_z: *const f32,
    d_h: *mut f32,
    rows: Rows,
    lanes: usize,
) {
    let Rows { d, n, stride, .. } = rows;
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[S::splat(0.0); NV]; T];
        for (t, row) in sums.iter_mut().enumerate() {
            for (j, sum) in row.iter_mut().enumerate() {
                *sum = S::load_some::<WHOLE>(d_h.add(t * d + j * S::LANES), lanes);
            }
        }
        for v in 0..n {
            let mut weights = [S::splat(0.0); NV];
            for (j, weight) in weights.iter_mut().enumerate() {
                *weight = S::load_some::<WHOLE>(x.add(v * d + j * S::LANES), lanes);
            }
            for (t, row) in sums.iter_mut().enumerate() {
                let slope = S::splat(*d_z.add(v * stride + t));
                for (sum, weight) in row.iter_mut().zip(weights) {
                    *sum = S::fma(slope, weight, *sum);
                }
            }
        }
        for (t, row) in sums.iter().enumerate() {
            for (j, sum) in row.iter().enumerate() {
                S::store_some::<WHOLE>(d_h.add(t * d + j * S::LANES), lanes, *sum);
            }
        }
    }
}

/// The step of the rows of a block, along `dZ^T H`. `ALONE` means that nobody else asks for the next block's weights.
#[inline(always)]
pub(super) unsafe fn forward<S: Simd, const ALONE: bool>(
    (x, x0, r): (*mut f32, *const f32, *const Scale),
    d_z: *const f32,
    h: *const f32,
    rows: Rows,
    rule: Rule,
) {
    let Rows { d, n, stride, .. } = rows;
    // SAFETY: the caller's promise, handed on tile by tile; the last register of a row may be partial.
    unsafe {
        let mut v = 0;
        while v < n {
            let tile = if v + 10 <= n { 10 } else { 1 };
            let mut at = 0;
            while at < d {
                let lanes = S::LANES.min(d - at);
                // A null pointer stays one: it is not followed.
                let here = |v: usize| {
                    let i = v * d + at;
                    ((x.add(i), x0.add(i), if r.is_null() { r } else { r.add(i) }), d_z.add(v * stride))
                };
                let ((weights, slopes), h) = (here(v), h.add(at));
                if tile == 10 && at + 2 * S::LANES <= d {
                    forward_tile::<S, 5, 2, true, ALONE>(weights, slopes, h, rows, lanes, rule);
                    let (weights, slopes) = here(v + 5);
                    forward_tile::<S, 5, 2, true, ALONE>(weights, slopes, h, rows, lanes, rule);
                    at += 2 * S::LANES;
                } else if tile == 10 && lanes == S::LANES {
                    forward_tile::<S, 10, 1, true, ALONE>(weights, slopes, h, rows, lanes, rule);
                    at += lanes;
                } else if tile == 1 && at + 2 * S::LANES <= d {
                    forward_tile::<S, 1, 2, true, ALONE>(weights, slopes, h, rows, lanes, rule);
                    at += 2 * S::LANES;
                } else {
                    for v in v..v + tile {
                        let (weights, slopes) = here(v);
                        forward_tile::<S, 1, 1, false, ALONE>(weights, slopes, h, rows, lanes, rule);
                    }
                    at += lanes;
                }
            }
            v += tile;
        }
    }
}

/// `R` rows by `NV` registers.
#[inline(always)]
unsafe fn forward_tile<S: Simd, const R: usize, const NV: usize, const WHOLE: bool, const ALONE: bool>(
    (x, x0, r): (*mut f32, *const f32, *const Scale),
    d_z: *const f32,
    h: *const f32,
    rows: Rows,
    lanes: usize,
    rule: Rule,
) {
    let Rows { d, columns, stride, .. } = rows;
    // SAFETY: the caller's promise; a prefetch may point anywhere.
    unsafe {
        // What comes next: the trained values and scales of the rows after these, and the weights of the next block.
        for i in 2 * R..3 * R {
            if ALONE {
                S::prefetch_far(x.wrapping_add((i - 2 * R + BLOCK) * d));
            }
            S::prefetch(x0.wrapping_add(i * d));
            if !r.is_null() {
                S::prefetch(r.wrapping_add(i * d).cast());
            }
        }
        let mut gradient = [[S::splat(0.0); NV]; R];
        for t in 0..columns {
            let mut states = [S::splat(0.0); NV];
            for (j, state) in states.iter_mut().enumerate() {
                *state = S::load_some::<WHOLE>(h.add(t * d + j * S::LANES), lanes);
            }
            for (i, row) in gradient.iter_mut().enumerate() {
                let slope = S::splat(*d_z.add(i * stride + t));
                for (sum, state) in row.iter_mut().zip(states) {
                    *sum = S::fma(slope, state, *sum);
                }
            }
        }
        for (i, row) in gradient.iter().enumerate() {
            for (j, gradient) in row.iter().enumerate() {
                let at = i * d + j * S::LANES;
                let (old, trained) =
                    (S::load_some::<WHOLE>(x.add(at), lanes), S::load_some::<WHOLE>(x0.add(at), lanes));
                // Not by a closure: it would not have the CPU feature, and no register of its own.
                let measure = if r.is_null() {
                    (S::splat(rule.decay), S::splat(rule.rate))
                } else if WHOLE {
                    scaled::<S>(S::load_upper(r.add(at).cast()), rule)
                } else {
                    scaled::<S>(S::load_upper_partial(r.add(at).cast(), lanes), rule)
                };
                let new = moved::<S>(old, trained, *gradient, measure);
                S::store_some::<WHOLE>(x.add(at), lanes, new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{RULE, naive, scales, wide};
    use super::*;
    use crate::reference::numbers;

    #[test]
    fn the_matrix_and_the_states_gradient_are_those_of_plain_loops() {
        for isa in Isa::available() {
            for (rows, columns, d) in [(1, 1, 1), (9, 3, 19), (203, 20, 40), (50, 5, 33), (700, 13, 56), (450, 23, 200)]
            {
                let stride = columns + 4;
                let (x, x0) = (numbers(1, rows * d), numbers(2, rows * d));
                let r = scales(3, rows * d);
                let (d_z, h) = (numbers(4, rows * stride), numbers(5, columns * d));
                for scale in [None, Some(&r[..])] {
                    let run = |threads| {
                        let (mut now, mut d_h, mut partial) = (x.clone(), vec![7.0; columns * d], Buffer::new());
                        partial.grow(5);
                        partial.fill(3.0);
                        let weights = Weights { now: &mut now, trained: &x0, scale };
                        let team = Team::new(threads);
                        matrix_step(&team, isa, weights, &d_z, stride, &h, d, RULE, Some(&mut d_h), &mut partial);
                        let mut alone = x.clone();
                        let weights = Weights { now: &mut alone, trained: &x0, scale };
                        matrix_step(&team, isa, weights, &d_z, stride, &h, d, RULE, None, &mut partial);
                        assert!(now == alone);
                        (now, d_h)
                    };
                    let (now, d_h) = run(1);
                    assert!(run(2) == (now.clone(), d_h.clone()) && run(3) == (now.clone(), d_h.clone()));
                    let (x, d_z, h) = (wide(&x), wide(&d_z), wide(&h));
                    for t in 0..columns {
                        for j in 0..d {
                            let want: f64 = (0..rows).map(|v| d_z[v * stride + t] * x[v * d + j]).sum();
                            assert!((f64::from(d_h[t * d + j]) - want).abs() < 1e-5 * want.abs().max(1.0), "{isa:?}");
                        }
                    }
                    for v in 0..rows {
                        for j in 0..d {
                            let i = v * d + j;
                            let g: f64 = (0..columns).map(|t| d_z[v * stride + t] * h[t * d + j]).sum();
                            let want = naive(RULE, x[i], f64::from(x0[i]), g, scale.map(|r| f64::from(r[i].value())));
                            assert!((f64::from(now[i]) - want).abs() < 1e-5 * want.abs().max(1.0), "{isa:?}");
                        }
                    }
                }
            }
        }
    }
}
