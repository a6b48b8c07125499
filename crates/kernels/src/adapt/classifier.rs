//! All that a segment does to the classifier in one pass over the rows of its matrix `W`.
//!
//! What a segment teaches `W` is not needed before the next one is read: until then it is [`Pending`]. A block of rows then
//! takes that step (`dZ = Y - Y*` of the old segment, `W <- W - rate dZ^T H ..`), gives the logits of the new segment, and
//! its share of their gradient by the states, all while it is in the cache: `W` goes through the memory once.
//!
//! The gradient by the states, `dH = Y W - Y* W`, is needed before the sums of the softmax are known. So each piece of rows
//! adds up `sum_v e^(z_v - m) W_v` and `sum_v e^(z_v - m)` with an `m` of its own, which follows the largest logit it has
//! seen only when that has left it far behind; the pieces are brought to the same measure in the end.

use super::columns::{Columns, product_panels};
use super::matrix::{BLOCK, Rows, below, forward};
use super::{Rule, Scale, Weights, piece_rows, step_row_generic};
use crate::buffer::Buffer;
use crate::cpu::Isa;
use crate::math::exp;
use crate::simd::{Simd, multiversion};
use crate::team::{SMALL_PRODUCT, Team};

/// How far a logit may be above `m`: `e^20` of them are far from the end of f32.
const FAR: f32 = 20.0;

/// The classifier's matrix, (V, d), and its bias, (V), if there is one.
pub struct Classifier<'a> {
    /// `W`.
    pub matrix: Weights<'a>,
    /// `b`.
    pub bias: Option<Weights<'a>>,
}

/// A step that the classifier has not taken yet: that of the segment whose logits are in `z`.
#[derive(Clone, Copy)]
pub struct Pending<'a> {
    /// (T, d): what the classifier saw.
    pub h: &'a [f32],
    /// The words that came, (T).
    pub targets: &'a [u32],
    /// `-log sum_v e^(z_v + b_v)` of each column of `z`.
    pub minus_log_sums: &'a [f32],
    /// Rows that follow a gradient of their own after their step, in this order, and without another step back.
    pub rows: &'a [u32],
    /// Those gradients, (rows, d).
    pub gradients: &'a [f32],
}

/// A segment to be read.
pub struct Reading<'a> {
    /// Its states.
    pub columns: &'a Columns,
    /// Becomes `Y W`, (T, d).
    pub y_w: &'a mut [f32],
    /// Becomes `log sum_v e^(z_v + b_v)` of each column.
    pub log_sums: &'a mut [f64],
}

/// The classifier takes the step that is pending and reads the next segment, whose logits (without bias) then are in `z`,
/// (V, stride). When there are both, they are of one stride. `room` is used again.
#[allow(clippy::too_many_arguments)]
pub fn pass(
    team: &Team,
    isa: Isa,
    classifier: Classifier<'_>,
    d: usize,
    z: &mut [f32],
    pending: Option<(Pending<'_>, Rule)>,
    reading: Option<Reading<'_>>,
    room: &mut Buffer,
) {
    let Classifier { matrix, bias } = classifier;
    matrix.check();
    assert!(d > 0 && matrix.now.len().is_multiple_of(d));
    let vocab = matrix.now.len() / d;
    if let Some(bias) = &bias {
        bias.check();
        assert!(bias.now.len() == vocab && bias.scale.is_some() == matrix.scale.is_some());
    }
    let stride = match (&pending, &reading) {
        (_, Some(reading)) => reading.columns.stride,
        (Some((pending, _)), None) => pending.minus_log_sums.len(),
        (None, None) => return,
    };
    assert!(stride > 0 && stride.is_multiple_of(isa.lanes()) && z.len() == vocab * stride);
    if let Some((pending, _)) = &pending {
        pending.check(vocab, d, stride);
    }
    let steps = reading.as_ref().map_or(0, |reading| reading.y_w.len() / d);
    if let Some(Reading { columns, y_w, log_sums }) = &reading {
        assert!(columns.d == d && columns.isa == isa && y_w.len() == steps * d && steps <= stride);
        assert_eq!(log_sums.len(), stride);
    }
    let rows = piece_rows(vocab);
    // For each piece: a share of `Y W`, for each column `m` and a sum, and a block's gradient or exponentials.
    let share = steps * d + (BLOCK + 3) * stride;
    room.resize(vocab.div_ceil(rows) * share);
    let (trained, scale) = (matrix.trained, matrix.scale);
    let (mut bias_now, bias_trained, bias_scale) = match bias {
        Some(Weights { now, trained, scale }) => (Some(now.chunks_mut(rows)), trained, scale),
        None => (None, &[][..], None),
    };
    let biases = std::iter::from_fn(move || Some(bias_now.as_mut().and_then(Iterator::next)));
    let jobs = matrix.now.chunks_mut(rows * d).zip(z.chunks_mut(rows * stride)).zip(room.chunks_mut(share)).zip(biases);
    let panels = reading.as_ref().map(|reading| &reading.columns.panels[..]);
    team.for_each_unless(vocab * d * stride < SMALL_PRODUCT, jobs.enumerate(), |(piece, (((x, z), room), bias))| {
        let first = piece * rows;
        let optional = |x: Option<&[Scale]>, at: usize| x.map_or(std::ptr::null(), |x| x[at..].as_ptr());
        let no_bias = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
        let piece = Piece {
            first,
            rows: Rows { d, n: z.len() / stride, columns: steps, stride },
            matrix: (x.as_mut_ptr(), trained[first * d..].as_ptr(), optional(scale, first * d)),
            bias: bias
                .map_or(no_bias, |b| (b.as_mut_ptr(), bias_trained[first..].as_ptr(), optional(bias_scale, first))),
            z: z.as_mut_ptr(),
            panels: panels.map_or(std::ptr::null(), <[f32]>::as_ptr),
            room: room.as_mut_ptr(),
        };
        // SAFETY: the piece has n rows of the matrix and the bias from row `first` on, of their trained values and scales, and
        // of z; the panels are of d rows and `stride` columns; the room is as long as `Piece` wants it; and what is pending
        // has been checked.
        unsafe { piece_rows_pass(isa, piece, pending) };
    });
    if let Some(Reading { y_w, log_sums, .. }) = reading {
        join(room, share, (steps, d, stride), y_w, log_sums);
    }
}

/// Brings the pieces' shares to the same measure and adds them up.
fn join(room: &[f32], share: usize, (steps, d, stride): (usize, usize, usize), y_w: &mut [f32], log_sums: &mut [f64]) {
    let pieces = || room.chunks_exact(share).map(|piece| piece.split_at(steps * d));
    // A sum is an f32 and what it lost when it was rounded to that.
    let column = |own: &[f32], t: usize| (own[t], f64::from(own[stride + t]) + f64::from(own[2 * stride + t]));
    for (t, log_sum) in log_sums.iter_mut().enumerate() {
        let largest = f64::from(pieces().map(|(_, own)| own[t]).fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = pieces()
            .map(|(_, own)| {
                let (m, sum) = column(own, t);
                (f64::from(m) - largest).exp() * sum
            })
            .sum();
        *log_sum = largest + sum.ln();
    }
    y_w.fill(0.0);
    for (share, own) in pieces() {
        for (t, (to, from)) in y_w.chunks_exact_mut(d).zip(share.chunks_exact(d)).enumerate() {
            let factor = (f64::from(own[t]) - log_sums[t]).exp() as f32;
            to.iter_mut().zip(from).for_each(|(to, x)| *to += factor * x);
        }
    }
}

/// What the rows `words` of a matrix without bias will be when a pending step has been taken, (words, d) into `out`. `now` and
/// `z` are those of [`pass`].
#[allow(clippy::too_many_arguments)]
pub fn rows_after(
    isa: Isa,
    (now, trained, scale): (&[f32], &[f32], Option<&[Scale]>),
    z: &[f32],
    pending: Pending<'_>,
    rule: Rule,
    words: &[u32],
    out: &mut [f32],
) {
    let (d, stride) = (out.len() / words.len().max(1), pending.minus_log_sums.len());
    // Rows of z are read by whole registers.
    assert!(stride > 0 && stride.is_multiple_of(isa.lanes()) && z.len().is_multiple_of(stride));
    assert_eq!(out.len(), words.len() * d);
    let vocab = z.len() / stride;
    assert!(words.iter().all(|&word| (word as usize) < vocab));
    assert!(now.len() == vocab * d && trained.len() == now.len() && scale.is_none_or(|r| r.len() == now.len()));
    pending.check(vocab, d, stride);
    let mut room = vec![0.0; stride];
    for (&word, out) in words.iter().zip(out.chunks_exact_mut(d.max(1))) {
        let row = word as usize * d..(word as usize + 1) * d;
        out.copy_from_slice(&now[row.clone()]);
        let logits = &z[word as usize * stride..][..stride];
        let matrix =
            (out.as_mut_ptr(), trained[row.clone()].as_ptr(), scale.map_or(std::ptr::null(), |r| r[row].as_ptr()));
        let rows = Rows { d, n: 1, columns: 0, stride };
        // SAFETY: one row of the matrix, of its trained values and scales, of z and of the room.
        unsafe { one_row(isa, word as usize, rows, matrix, logits.as_ptr(), room.as_mut_ptr(), pending, rule) };
    }
}

impl Pending<'_> {
    fn check(&self, vocab: usize, d: usize, stride: usize) {
        assert!(self.minus_log_sums.len() == stride && self.targets.len() <= stride);
        assert!(self.h.len() == self.targets.len() * d && self.gradients.len() == self.rows.len() * d);
        assert!(self.rows.iter().all(|&row| (row as usize) < vocab));
    }
}

/// Some rows of a classifier from row `first` on. Pointers to what there is not are null.
#[derive(Clone, Copy)]
struct Piece {
    first: usize,
    rows: Rows,
    matrix: (*mut f32, *const f32, *const Scale),
    bias: (*mut f32, *const f32, *const Scale),
    z: *mut f32,
    panels: *const f32,
    /// (columns, d), then three rows as long as those of z, then a block of them.
    room: *mut f32,
}

multiversion! {
    /// # Safety
    /// The pointers of `piece` are to as much as its documentation says; `pending` is of the same sizes.
    unsafe fn piece_rows_pass = piece_rows_pass_generic(piece: Piece, pending: Option<(Pending<'_>, Rule)>)
}

#[inline(always)]
unsafe fn piece_rows_pass_generic<S: Simd>(piece: Piece, pending: Option<(Pending<'_>, Rule)>) {
    let Rows { d, n, columns, stride } = piece.rows;
    // SAFETY: the caller's promise, handed on block by block. A null pointer stays one: it is not followed.
    unsafe {
        let shift = |p: *const f32, by: usize| if p.is_null() { p } else { p.add(by) };
        let shift_mut = |p: *mut f32, by: usize| if p.is_null() { p } else { p.add(by) };
        let shift_scale = |p: *const Scale, by: usize| if p.is_null() { p } else { p.add(by) };
        let (y_w, own) = (piece.room, piece.room.add(columns * d));
        let block_room = own.add(3 * stride);
        for v in (0..n).step_by(BLOCK) {
            let rows = Rows { n: BLOCK.min(n - v), ..piece.rows };
            let at = v * d;
            let matrix = (piece.matrix.0.add(at), piece.matrix.1.add(at), shift_scale(piece.matrix.2, at));
            let bias = (shift_mut(piece.bias.0, v), shift(piece.bias.1, v), shift_scale(piece.bias.2, v));
            let z = piece.z.add(v * stride);
            if let Some((pending, rule)) = pending {
                if piece.panels.is_null() {
                    take_step::<S, true>(piece.first + v, rows, matrix, bias, z, block_room, pending, rule);
                } else {
                    take_step::<S, false>(piece.first + v, rows, matrix, bias, z, block_room, pending, rule);
                }
            }
            if !piece.panels.is_null() {
                // What the next block will need: its weights, and for its step their trained values and scales.
                let next = [matrix.0.cast_const(), matrix.1].map(|p| p.wrapping_add(BLOCK * d));
                if !matrix.2.is_null() {
                    for i in (0..rows.n * d).step_by(32) {
                        S::prefetch_far(matrix.2.wrapping_add(BLOCK * d + i).cast());
                    }
                }
                read::<S>(rows, matrix.0, bias.0, z, piece.panels, block_room, own, y_w, v == 0, next);
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// As for [`take_step`], without bias.
    unsafe fn one_row = one_row_generic(
        first: usize, rows: Rows, matrix: (*mut f32, *const f32, *const Scale), z: *const f32, room: *mut f32,
        pending: Pending<'_>, rule: Rule,
    )
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn one_row_generic<S: Simd>(
    first: usize,
    rows: Rows,
    matrix: (*mut f32, *const f32, *const Scale),
    z: *const f32,
    room: *mut f32,
    pending: Pending<'_>,
    rule: Rule,
) {
    let no_bias = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: the caller's promise.
    unsafe { take_step::<S, false>(first, rows, matrix, no_bias, z, room, pending, rule) }
}

/// The pending step of a block of rows, whose first one is row `first` of the matrix. `matrix` and `bias` (null if there is
/// none) are their weights, trained values and scales (null if there are none); `room` has as many rows as they and `z`.
/// `ALONE` is that of [`forward`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn take_step<S: Simd, const ALONE: bool>(
    first: usize,
    rows: Rows,
    matrix: (*mut f32, *const f32, *const Scale),
    bias: (*mut f32, *const f32, *const Scale),
    z: *const f32,
    room: *mut f32,
    pending: Pending<'_>,
    rule: Rule,
) {
    let Rows { d, n, stride, .. } = rows;
    let columns = pending.targets.len();
    let minus = pending.minus_log_sums.as_ptr();
    // SAFETY: the caller's promise.
    unsafe {
        // dZ = Y - Y*
        for v in 0..n {
            let b = S::splat(if bias.0.is_null() { 0.0 } else { *bias.0.add(v) });
            for at in (0..stride).step_by(S::LANES) {
                let add = S::add(S::load(minus.add(at)), b);
                S::store(room.add(v * stride + at), exp::<S>(S::add(S::load(z.add(v * stride + at)), add)));
            }
        }
        for (t, &target) in pending.targets.iter().enumerate() {
            let v = (target as usize).wrapping_sub(first);
            if v < n {
                *room.add(v * stride + t) -= 1.0;
            }
        }
        forward::<S, ALONE>(matrix, room, pending.h.as_ptr(), Rows { columns, ..rows }, rule);
        if !bias.0.is_null() {
            for v in 0..n {
                let mut gradient = 0.0;
                for t in 0..columns {
                    gradient += *room.add(v * stride + t);
                }
                let scale = if bias.2.is_null() { std::ptr::null() } else { bias.2.add(v) };
                step_row_generic::<S>(bias.0.add(v), bias.1.add(v), &raw const gradient, scale, 1, rule);
            }
        }
        for (i, &row) in pending.rows.iter().enumerate() {
            let v = (row as usize).wrapping_sub(first);
            if v < n {
                let scale = if matrix.2.is_null() { std::ptr::null() } else { matrix.2.add(v * d) };
                let gradient = pending.gradients.as_ptr().add(i * d);
                let rule = Rule { decay: 0.0, ..rule };
                step_row_generic::<S>(matrix.0.add(v * d), matrix.1.add(v * d), gradient, scale, d, rule);
            }
        }
    }
}

/// The logits of a block of rows, and their share of the sums: `own` is `m`, then the sums so far and what they lost when
/// they were rounded; `begins` means that there is nothing yet. `next` is asked for meanwhile.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn read<S: Simd>(
    rows: Rows,
    x: *const f32,
    bias: *const f32,
    z: *mut f32,
    panels: *const f32,
    room: *mut f32,
    own: *mut f32,
    y_w: *mut f32,
    begins: bool,
    next: [*const f32; 2],
) {
    let Rows { d, n, columns, stride } = rows;
    // SAFETY: the caller's promise.
    unsafe {
        product_panels::<S, 2>(x, panels, std::ptr::null(), z, n, d, stride, next);
        if begins {
            for i in 0..columns * d {
                *y_w.add(i) = 0.0;
            }
        }
        for at in (0..stride).step_by(S::LANES) {
            let (m_at, sum_at, lost_at) = (own.add(at), own.add(stride + at), own.add(2 * stride + at));
            let mut largest = S::splat(f32::NEG_INFINITY);
            for v in 0..n {
                let b = S::splat(if bias.is_null() { 0.0 } else { *bias.add(v) });
                largest = S::max(largest, S::add(S::load(z.add(v * stride + at)), b));
            }
            if begins {
                S::store(m_at, largest);
                S::store(sum_at, S::splat(0.0));
                S::store(lost_at, S::splat(0.0));
            } else if S::largest(S::sub(largest, S::load(m_at))) > FAR {
                let m = S::load(m_at);
                let new = S::max(m, largest);
                let mut factors = [0.0f32; 16];
                S::store(factors.as_mut_ptr(), exp::<S>(S::sub(m, new)));
                S::store(m_at, new);
                S::store(sum_at, S::mul(S::load(sum_at), S::load(factors.as_ptr())));
                S::store(lost_at, S::mul(S::load(lost_at), S::load(factors.as_ptr())));
                for t in at..columns.min(at + S::LANES) {
                    for i in 0..d {
                        *y_w.add(t * d + i) *= factors[t - at];
                    }
                }
            }
            let m = S::load(m_at);
            let mut sum = S::splat(0.0);
            for v in 0..n {
                let b = S::splat(if bias.is_null() { 0.0 } else { *bias.add(v) });
                let e = exp::<S>(S::sub(S::add(S::load(z.add(v * stride + at)), b), m));
                S::store(room.add(v * stride + at), e);
                sum = S::add(sum, e);
            }
            // Kahan's sum of the blocks.
            let (total, lost) = (S::load(sum_at), S::load(lost_at));
            let more = S::add(sum, lost);
            let new = S::add(total, more);
            S::store(lost_at, S::sub(more, S::sub(new, total)));
            S::store(sum_at, new);
        }
        below::<S>(x, room, y_w, rows);
    }
}

#[cfg(test)]
mod tests;
