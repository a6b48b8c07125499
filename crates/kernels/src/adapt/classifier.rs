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
mod tests {
    use super::super::tests::{RULE, naive, scales, wide};
    use super::*;
    use crate::reference::numbers;

    /// A classifier, a segment that it has read and what that left to be done.
    struct Case {
        vocab: usize,
        d: usize,
        x: Vec<f32>,
        x0: Vec<f32>,
        r: Vec<Scale>,
        b: Vec<f32>,
        h: Vec<f32>,
        z: Vec<f32>,
        stride: usize,
        targets: Vec<u32>,
        minus: Vec<f32>,
        rows: Vec<u32>,
        gradients: Vec<f32>,
        next: Vec<f32>,
    }

    impl Case {
        fn new(isa: Isa, vocab: usize, steps: usize, d: usize) -> Case {
            let stride = steps.next_multiple_of(isa.lanes());
            let word = |i: usize| (i * 37 % vocab) as u32;
            // The later a row, the larger: what comes late leaves the largest so far behind, more than once.
            let x = numbers(1, vocab * d).iter().enumerate().map(|(i, x)| x * (1 + i / d / 30) as f32).collect();
            Case {
                vocab,
                d,
                x,
                x0: numbers(2, vocab * d),
                r: scales(3, vocab * d),
                b: numbers(4, vocab),
                h: numbers(5, steps * d),
                z: numbers(6, vocab * stride),
                stride,
                targets: (0..steps).map(word).collect(),
                minus: numbers(7, stride).iter().map(|x| x - 3.0).collect(),
                rows: (0..steps).map(|i| word(i / 2 + 1)).collect(),
                gradients: numbers(8, steps * d),
                next: numbers(9, steps * d),
            }
        }

        fn pending(&self) -> Pending<'_> {
            let Case { h, targets, minus, rows, gradients, .. } = self;
            Pending { h, targets, minus_log_sums: minus, rows, gradients }
        }

        /// The matrix and the bias after the step, in f64.
        fn stepped(&self, scaled: bool, biased: bool) -> (Vec<f64>, Vec<f64>) {
            let (d, steps) = (self.d, self.targets.len());
            let (mut x, mut b) = (wide(&self.x), wide(&self.b));
            let (h, z) = (wide(&self.h), wide(&self.z));
            let r = |i: usize| scaled.then(|| f64::from(self.r[i].value()));
            for v in 0..self.vocab {
                let slopes: Vec<f64> = (0..steps)
                    .map(|t| {
                        let bias = if biased { b[v] } else { 0.0 };
                        let hit = if self.targets[t] as usize == v { 1.0 } else { 0.0 };
                        (z[v * self.stride + t] + bias + f64::from(self.minus[t])).exp() - hit
                    })
                    .collect();
                for j in 0..d {
                    let g: f64 = (0..steps).map(|t| slopes[t] * h[t * d + j]).sum();
                    let i = v * d + j;
                    x[i] = naive(RULE, x[i], f64::from(self.x0[i]), g, r(i));
                }
                if biased {
                    b[v] = naive(RULE, b[v], f64::from(self.b[v]) * 0.5, slopes.iter().sum(), r(v));
                }
            }
            for (&row, g) in self.rows.iter().zip(self.gradients.chunks_exact(d)) {
                for (j, &g) in g.iter().enumerate() {
                    let i = row as usize * d + j;
                    x[i] = naive(Rule { decay: 0.0, ..RULE }, x[i], 0.0, f64::from(g), r(i));
                }
            }
            (x, b)
        }

        /// Matrix, bias, logits, `Y W` and the logarithms of the sums.
        #[allow(clippy::type_complexity)]
        fn run(
            &self,
            isa: Isa,
            threads: usize,
            scaled: bool,
            biased: bool,
            step: bool,
            read: bool,
        ) -> (Vec<f32>, Vec<f32>, Vec<f32>, Vec<f32>, Vec<f64>) {
            let (mut x, mut b, mut z) = (self.x.clone(), self.b.clone(), self.z.clone());
            let b0: Vec<f32> = self.b.iter().map(|b| b * 0.5).collect();
            let mut columns = Columns::new(isa);
            columns.take(&self.next, self.d);
            let (mut y_w, mut log_sums) = (vec![5.0; self.next.len()], vec![0.0; self.stride]);
            let mut room = Buffer::new();
            room.grow(9);
            room.fill(f32::NAN);
            let classifier = Classifier {
                matrix: Weights { now: &mut x, trained: &self.x0, scale: scaled.then_some(&self.r[..]) },
                bias: biased.then(|| Weights {
                    now: &mut b,
                    trained: &b0,
                    scale: scaled.then(|| &self.r[..self.vocab]),
                }),
            };
            let reading = read.then(|| Reading { columns: &columns, y_w: &mut y_w, log_sums: &mut log_sums });
            let pending = step.then(|| (self.pending(), RULE));
            pass(&Team::new(threads), isa, classifier, self.d, &mut z, pending, reading, &mut room);
            (x, b, z, y_w, log_sums)
        }
    }

    fn close(got: f32, want: f64, tolerance: f64) -> bool {
        (f64::from(got) - want).abs() <= tolerance * want.abs().max(1.0)
    }

    #[test]
    fn a_pass_is_a_step_and_a_reading_by_plain_loops() {
        for isa in Isa::available() {
            for (vocab, steps, d) in [(1, 1, 1), (9, 3, 19), (203, 20, 40), (1207, 13, 33)] {
                let case = Case::new(isa, vocab, steps, d);
                let next = wide(&case.next);
                for (scaled, biased, step) in
                    [(false, false, true), (true, true, true), (false, true, false), (true, false, true)]
                {
                    let result = case.run(isa, 1, scaled, biased, step, true);
                    assert!(case.run(isa, 2, scaled, biased, step, true) == result);
                    assert!(case.run(isa, 3, scaled, biased, step, true) == result);
                    let (x, b, z, y_w, log_sums) = result;
                    let (want_x, want_b) =
                        if step { case.stepped(scaled, biased) } else { (wide(&case.x), wide(&case.b)) };
                    assert!(x.iter().zip(&want_x).all(|(x, &want)| close(*x, want, 2e-5)), "{isa:?} {vocab}");
                    assert!(b.iter().zip(&want_b).all(|(b, &want)| close(*b, want, 2e-5)), "{isa:?} {vocab}");
                    for t in 0..steps {
                        let logits: Vec<f64> = (0..vocab)
                            .map(|v| (0..d).map(|j| want_x[v * d + j] * next[t * d + j]).sum::<f64>())
                            .collect();
                        for v in 0..vocab {
                            assert!(close(z[v * case.stride + t], logits[v], 5e-5), "{isa:?} {vocab} {v} {t}");
                        }
                        let bias = |v: usize| if biased { want_b[v] } else { 0.0 };
                        let largest = (0..vocab).map(|v| logits[v] + bias(v)).fold(f64::NEG_INFINITY, f64::max);
                        let sum: f64 = (0..vocab).map(|v| (logits[v] + bias(v) - largest).exp()).sum();
                        let want = largest + sum.ln();
                        assert!((log_sums[t] - want).abs() < 5e-4, "{isa:?} {vocab}: {} {want}", log_sums[t]);
                        for j in 0..d {
                            let want: f64 =
                                (0..vocab).map(|v| (logits[v] + bias(v) - want).exp() * want_x[v * d + j]).sum();
                            assert!(close(y_w[t * d + j], want, 2e-3), "{isa:?} {vocab}: {} {want}", y_w[t * d + j]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_step_alone_is_the_same_step_and_so_are_rows_asked_for_before_it() {
        for isa in Isa::available() {
            for (vocab, steps, d) in [(9, 3, 19), (203, 20, 40), (617, 9, 200)] {
                let case = Case::new(isa, vocab, steps, d);
                for scaled in [false, true] {
                    let (x, _, z, ..) = case.run(isa, 2, scaled, false, true, false);
                    assert!(z == case.z);
                    assert!(x == case.run(isa, 2, scaled, false, true, true).0);
                    let words: Vec<u32> = (0..vocab as u32).rev().collect();
                    let mut rows = vec![0.0; vocab * d];
                    let weights = (&case.x[..], &case.x0[..], scaled.then_some(&case.r[..]));
                    rows_after(isa, weights, &case.z, case.pending(), RULE, &words, &mut rows);
                    for (word, row) in words.iter().zip(rows.chunks_exact(d)) {
                        assert!(row == &x[*word as usize * d..][..d], "{isa:?} {word}");
                    }
                }
            }
        }
    }

    /// Four columns are half a register: rows of z would be read beyond their end.
    #[test]
    #[should_panic(expected = "stride.is_multiple_of")]
    fn rows_after_wants_whole_registers() {
        let (now, z, sums, h) = ([0.0; 6], [0.0; 12], [0.0; 4], [0.0; 2]);
        let pending = Pending { minus_log_sums: &sums, targets: &[1], h: &h, rows: &[], gradients: &[] };
        rows_after(Isa::detect(), (&now, &now, None), &z, pending, RULE, &[2], &mut [0.0; 2]);
    }
}
