//! A matrix as it lies times the states of a few words, and sums down the columns of the result.

use super::{piece_rows, pieces_or_nothing};
use crate::buffer::Buffer;
use crate::cpu::Isa;
use crate::math::exp;
use crate::simd::{Simd, multiversion};
use crate::team::{SMALL_PASS, SMALL_PRODUCT, Team};

/// Rows after which running f32 sums are added to the f64 totals.
const SUM_BLOCK: usize = 512;
/// Registers of a panel of [`Columns`], at most: with three rows of `W`, their sums leave room among the registers of AVX2.
const PANEL: usize = 3;

/// The states `H` (T, d) that a matrix is multiplied with by [`product`], as their transpose in panels: a panel has the
/// first element of its columns side by side, then the second, to the last.
pub struct Columns {
    pub(super) isa: Isa,
    pub(super) d: usize,
    pub(super) stride: usize,
    pub(super) panels: Buffer,
}

impl Columns {
    /// None yet.
    pub fn new(isa: Isa) -> Columns {
        Columns { isa, d: 0, stride: 0, panels: Buffer::new() }
    }

    /// Takes new states, (T, d).
    pub fn take(&mut self, h: &[f32], d: usize) {
        assert!(d > 0 && h.len().is_multiple_of(d));
        self.d = d;
        self.stride = (h.len() / d).next_multiple_of(self.isa.lanes());
        self.panels.resize(self.stride * d);
        let most = PANEL * self.isa.lanes();
        let mut states = h.chunks_exact(d);
        for panel in self.panels.chunks_mut(most * d) {
            let width = panel.len() / d;
            for column in 0..width {
                let to = panel[column..].iter_mut().step_by(width);
                match states.next() {
                    Some(state) => to.zip(state).for_each(|(to, x)| *to = *x),
                    None => to.for_each(|to| *to = 0.0),
                }
            }
        }
    }

    /// The number of columns, rounded up to whole registers: so long is a row of what is made of them. Beyond the last
    /// column there is what a column of zeros gives.
    pub fn stride(&self) -> usize {
        self.stride
    }
}

/// `out[v][t] = start[v] + w[v] h[t]` (without `start`: as if it were zeros), every sum from its first term to its last, for
/// the rows of `W` (V, d) as they lie; (V, stride) into `out`.
pub fn product(team: &Team, w: &[f32], columns: &Columns, start: Option<&[f32]>, out: &mut [f32]) {
    let Columns { isa, d, stride, ref panels } = *columns;
    assert!(d > 0 && w.len().is_multiple_of(d) && out.len() == w.len() / d * stride);
    assert!(start.is_none_or(|x| x.len() == w.len() / d));
    if stride == 0 {
        return;
    }
    let rows = piece_rows(w.len() / d);
    let jobs = out.chunks_mut(rows * stride).zip(w.chunks(rows * d)).zip(pieces_or_nothing(start, rows));
    team.for_each_unless(w.len() * stride < SMALL_PRODUCT, jobs, |((out, w), start)| {
        let start = start.map_or(std::ptr::null(), <[f32]>::as_ptr);
        let (rows, panels) = (w.len() / d, panels.as_ptr());
        // SAFETY: w is rows x d, start as long, out rows x stride, and the panels are stride x d.
        unsafe { product_rows(isa, w.as_ptr(), panels, start, out.as_mut_ptr(), rows, d, stride) };
    });
}

/// `out[t] = log sum_v e^((z[v][t] + bias[v]) * inverse_temperature)` for the columns of `z` (V, `out.len()`), which are whole
/// registers.
pub fn log_sums(team: &Team, isa: Isa, z: &[f32], bias: Option<&[f32]>, inverse_temperature: f32, out: &mut [f64]) {
    let columns = out.len();
    assert!(columns > 0 && columns.is_multiple_of(isa.lanes()) && z.len().is_multiple_of(columns));
    assert!(bias.is_none_or(|b| b.len() * columns == z.len()));
    let rows = piece_rows(z.len() / columns);
    // The largest of each piece, and the sum of what is e to the rest.
    let mut parts = vec![(f32::NEG_INFINITY, 0.0f64); z.len().div_ceil(rows * columns) * columns];
    let jobs = parts.chunks_mut(columns).zip(z.chunks(rows * columns)).zip(pieces_or_nothing(bias, rows));
    team.for_each_unless(z.len() < SMALL_PASS, jobs, |((part, z), bias)| {
        let (bias, n) = (bias.map_or(std::ptr::null(), <[f32]>::as_ptr), z.len() / columns);
        // SAFETY: z is n x columns, the bias has as many rows, and there is a part for each column.
        unsafe { log_sums_columns(isa, z.as_ptr(), bias, n, columns, inverse_temperature, part.as_mut_ptr()) };
    });
    for (t, out) in out.iter_mut().enumerate() {
        let parts = parts[t..].iter().step_by(columns);
        let largest = f64::from(parts.clone().map(|part| part.0).fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = parts.map(|&(max, sum)| (f64::from(max) - largest).exp() * sum).sum();
        *out = largest + sum.ln();
    }
}

multiversion! {
    /// # Safety
    /// `w` is `rows x d`, `panels` those of `stride` columns, `out` is `rows x stride`; `start`, which may be null, has `rows`.
    unsafe fn product_rows = product_rows_generic(
        w: *const f32, panels: *const f32, start: *const f32, out: *mut f32, rows: usize, d: usize, stride: usize,
    )
}

#[inline(always)]
unsafe fn product_rows_generic<S: Simd>(
    w: *const f32,
    panels: *const f32,
    start: *const f32,
    out: *mut f32,
    rows: usize,
    d: usize,
    stride: usize,
) {
    // SAFETY: the caller's promise; a few rows after each one are those to be asked for.
    unsafe { product_panels::<S, 1>(w, panels, start, out, rows, d, stride, [w.wrapping_add(4 * d)]) }
}

/// All rows and all panels. While a row is worked on, what is as far from each `ahead` is asked for.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn product_panels<S: Simd, const A: usize>(
    w: *const f32,
    panels: *const f32,
    start: *const f32,
    out: *mut f32,
    rows: usize,
    d: usize,
    stride: usize,
    ahead: [*const f32; A],
) {
    for first in (0..stride).step_by(PANEL * S::LANES) {
        // SAFETY: the caller's promise; a panel begins where those before it, of d rows, end.
        unsafe {
            let (panel, out) = (panels.add(first * d), out.add(first));
            match ((stride - first) / S::LANES).min(PANEL) {
                3 => product_panel::<S, 3, 3, A>(w, panel, start, out, rows, d, stride, ahead),
                2 => product_panel::<S, 5, 2, A>(w, panel, start, out, rows, d, stride, ahead),
                _ => product_panel::<S, 10, 1, A>(w, panel, start, out, rows, d, stride, ahead),
            }
        }
    }
}

/// All rows and one panel of `NV` registers, `R` rows at a time.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn product_panel<S: Simd, const R: usize, const NV: usize, const A: usize>(
    w: *const f32,
    panel: *const f32,
    start: *const f32,
    out: *mut f32,
    rows: usize,
    d: usize,
    stride: usize,
    ahead: [*const f32; A],
) {
    let mut v = 0;
    // SAFETY: the caller's promise, handed on tile by tile. A null pointer stays one: it is not followed.
    unsafe {
        while v + R <= rows {
            let start = if start.is_null() { start } else { start.add(v) };
            let ahead = ahead.map(|p| p.wrapping_add(v * d));
            product_tile::<S, R, NV, A>(w.add(v * d), panel, start, out.add(v * stride), d, stride, ahead);
            v += R;
        }
        while v < rows {
            let start = if start.is_null() { start } else { start.add(v) };
            let ahead = ahead.map(|p| p.wrapping_add(v * d));
            product_tile::<S, 1, NV, A>(w.add(v * d), panel, start, out.add(v * stride), d, stride, ahead);
            v += 1;
        }
    }
}

#[inline(always)]
unsafe fn product_tile<S: Simd, const R: usize, const NV: usize, const A: usize>(
    w: *const f32,
    panel: *const f32,
    start: *const f32,
    out: *mut f32,
    d: usize,
    stride: usize,
    ahead: [*const f32; A],
) {
    // SAFETY: the caller's promise; what is asked for may be anywhere.
    unsafe {
        let mut sums = [[S::splat(0.0); NV]; R];
        if !start.is_null() {
            for (i, row) in sums.iter_mut().enumerate() {
                *row = [S::splat(*start.add(i)); NV];
            }
        }
        for first in (0..d).step_by(16) {
            for i in 0..R {
                for ahead in ahead {
                    S::prefetch_far(ahead.wrapping_add(i * d + first));
                }
            }
            for k in first..(first + 16).min(d) {
                let mut states = [S::splat(0.0); NV];
                for (j, state) in states.iter_mut().enumerate() {
                    *state = S::load(panel.add((k * NV + j) * S::LANES));
                }
                for (i, row) in sums.iter_mut().enumerate() {
                    let weight = S::splat(*w.add(i * d + k));
                    for (sum, state) in row.iter_mut().zip(states) {
                        *sum = S::fma(weight, state, *sum);
                    }
                }
            }
        }
        for (i, row) in sums.iter().enumerate() {
            for (j, sum) in row.iter().enumerate() {
                S::store(out.add(i * stride + j * S::LANES), *sum);
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// `z` is `rows x columns`, whole registers; `bias`, which may be null, has `rows` elements and `out` has `columns`.
    unsafe fn log_sums_columns = log_sums_generic(
        z: *const f32, bias: *const f32, rows: usize, columns: usize, inverse_temperature: f32, out: *mut (f32, f64),
    )
}

#[inline(always)]
unsafe fn log_sums_generic<S: Simd>(
    z: *const f32,
    bias: *const f32,
    rows: usize,
    columns: usize,
    inverse_temperature: f32,
    out: *mut (f32, f64),
) {
    for first in (0..columns).step_by(S::LANES) {
        // SAFETY: the caller's promise, for the columns of one register.
        unsafe {
            let (z, out) = (z.add(first), out.add(first));
            let mut max = S::splat(f32::NEG_INFINITY);
            for v in 0..rows {
                max = S::max(max, logits::<S>(z.add(v * columns), bias, v, inverse_temperature));
            }
            let mut totals = [0.0f64; 16];
            for block in (0..rows).step_by(SUM_BLOCK) {
                let mut sum = S::splat(0.0);
                for v in block..(block + SUM_BLOCK).min(rows) {
                    let x = logits::<S>(z.add(v * columns), bias, v, inverse_temperature);
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
            for i in 0..S::LANES {
                *out.add(i) = (largest[i], totals[i]);
            }
        }
    }
}

/// `(z + bias) * inverse_temperature` of one row.
#[inline(always)]
unsafe fn logits<S: Simd>(z: *const f32, bias: *const f32, row: usize, inverse_temperature: f32) -> S::V {
    // SAFETY: the caller's promise.
    unsafe {
        let mut x = S::load(z);
        if !bias.is_null() {
            x = S::add(x, S::splat(*bias.add(row)));
        }
        S::mul(x, S::splat(inverse_temperature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::numbers;

    #[test]
    fn a_product_is_that_of_plain_loops_at_any_number_of_threads() {
        for isa in Isa::available() {
            for (rows, steps, d) in [(1, 1, 1), (9, 3, 19), (203, 20, 40), (57, 9, 33), (23, 50, 16), (40, 33, 200)] {
                let (w, h, start) = (numbers(1, rows * d), numbers(2, steps * d), numbers(3, rows));
                let mut columns = Columns::new(isa);
                columns.take(&numbers(4, 70 * 300), 300); // there was something else before
                columns.take(&h, d);
                let stride = columns.stride();
                assert!(stride >= steps && stride < steps + isa.lanes());
                for start in [None, Some(&start[..])] {
                    let run = |threads| {
                        let mut out = vec![7.0; rows * stride];
                        product(&Team::new(threads), &w, &columns, start, &mut out);
                        out
                    };
                    let out = run(1);
                    assert!(run(2) == out && run(3) == out);
                    for v in 0..rows {
                        for t in 0..stride {
                            let terms = (0..d).map(|k| match t < steps {
                                true => f64::from(w[v * d + k]) * f64::from(h[t * d + k]),
                                false => 0.0,
                            });
                            let want = start.map_or(0.0, |x| f64::from(x[v])) + terms.sum::<f64>();
                            let error = (f64::from(out[v * stride + t]) - want).abs();
                            assert!(error < 1e-5 * want.abs().max(1.0), "{isa:?} {rows} {steps} {d}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sums_go_down_the_columns() {
        for isa in Isa::available() {
            for (rows, registers) in [(1, 1), (7, 1), (1300, 3), (40, 5)] {
                let columns = registers * isa.lanes();
                let z: Vec<f32> = numbers(5, rows * columns).iter().map(|x| 9.0 * x).collect();
                let bias = numbers(6, rows);
                for bias in [None, Some(&bias[..])] {
                    let logit =
                        |v: usize, t: usize| f64::from(z[v * columns + t]) + bias.map_or(0.0, |b| f64::from(b[v]));
                    for inverse in [1.0f32, 0.7] {
                        let mut sums = vec![0.0; columns];
                        log_sums(&Team::new(1), isa, &z, bias, inverse, &mut sums);
                        let mut by_two = vec![0.0; columns];
                        log_sums(&Team::new(2), isa, &z, bias, inverse, &mut by_two);
                        assert_eq!(sums, by_two);
                        for (t, sum) in sums.iter().enumerate() {
                            let want = (0..rows).map(|v| (logit(v, t) * f64::from(inverse)).exp()).sum::<f64>().ln();
                            assert!((sum - want).abs() < 1e-5, "{isa:?} {rows}x{columns}: {sum} {want}");
                        }
                    }
                }
            }
        }
    }
}
