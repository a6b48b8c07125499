//! The right-hand matrix of a product in the order in which its tiles read it, as f32 or as pairs of bf16.
//!
//! A *term* is what one multiply-add of a tile takes from a row of `A` and a column of `B`: one element each, or, with
//! bf16, a pair of neighbours in `k`. Either takes 32 bits, so all but the innermost operation is the same for both.

use crate::bf16::{self, Precision};
use crate::buffer::Buffer;
use crate::cpu::Isa;
use crate::matrix::Mat;
use crate::team::{SMALL_PASS, Team};
use crate::transpose::{SIDE, transpose};

/// The right-hand matrix of a product, (K, N), in panels: a panel holds the first term of its columns side by side, then
/// the second, to the last. All panels are `width(isa)` columns wide but for the last, whose width is rounded up to whole
/// registers and filled with zeros.
pub struct PackedB {
    pub(crate) isa: Isa,
    pub(crate) precision: Precision,
    pub(crate) data: Buffer,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// Columns of a full panel: those of a tile.
fn width(isa: Isa) -> usize {
    isa.tile().registers * isa.lanes()
}

impl PackedB {
    /// An empty one, to be filled by [`PackedB::pack`].
    pub fn new(isa: Isa, precision: Precision) -> PackedB {
        assert!(precision.available(isa), "{precision:?} on {isa:?}");
        PackedB { isa, precision, data: Buffer::new(), k: 0, n: 0 }
    }

    /// Number of rows and of columns of the matrix.
    pub fn shape(&self) -> (usize, usize) {
        (self.k, self.n)
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.data.bytes()
    }

    /// Terms of the sum over `k`.
    pub(crate) fn terms(&self) -> usize {
        self.precision.terms(self.k)
    }

    /// Takes a new matrix; allocates only when it is larger than any before.
    pub fn pack(&mut self, team: &Team, b: Mat<'_>) {
        self.resize(b.rows, b.cols);
        let (width, panel) = (width(self.isa), self.panel());
        let (isa, precision, small) = (self.isa, self.precision, self.data.len() < SMALL_PASS);
        let panels = self.data.chunks_mut(panel).enumerate();
        team.for_each_unless(small, panels, |(p, out)| pack_panel(isa, precision, b, p * width, out));
    }

    /// [`PackedB::pack`] by the calling thread alone.
    pub fn pack_alone(&mut self, b: Mat<'_>) {
        self.resize(b.rows, b.cols);
        let (width, panel) = (width(self.isa), self.panel());
        for (p, out) in self.data.chunks_mut(panel).enumerate() {
            pack_panel(self.isa, self.precision, b, p * width, out);
        }
    }

    /// Takes a (k, n) matrix column by column, by the calling thread alone.
    pub fn pack_columns_alone<'a>(&mut self, k: usize, n: usize, column: impl Fn(usize) -> &'a [f32]) {
        self.resize(k, n);
        let (isa, panel, terms, precision) = (self.isa, self.panel(), self.terms(), self.precision);
        let mut first = 0;
        for out in self.data.chunks_mut(panel) {
            let width = out.len() / terms.max(1);
            pack_columns(isa, precision, width.min(n - first), out, width, |j| &column(first + j)[..k]);
            first += width;
        }
    }

    /// Length of a full panel.
    fn panel(&self) -> usize {
        (width(self.isa) * self.terms()).max(1)
    }

    fn resize(&mut self, k: usize, n: usize) {
        (self.k, self.n) = (k, n);
        let size = n.checked_next_multiple_of(self.isa.lanes()).and_then(|n| n.checked_mul(self.terms()));
        let Some(size) = size else { panic!("a matrix of {k} x {n} does not fit the memory") };
        self.data.resize(size);
    }
}

/// Fills one panel of `width` columns, the first `columns` of them with what `column` gives.
fn pack_columns<'a>(
    isa: Isa,
    precision: Precision,
    columns: usize,
    out: &mut [f32],
    width: usize,
    column: impl Fn(usize) -> &'a [f32],
) {
    let mut j = 0;
    while precision == Precision::F32 && j + SIDE <= columns {
        transpose(isa, std::array::from_fn(|i| column(j + i)), &mut out[j..], width);
        j += SIDE;
    }
    let mut terms = [0.0; TERMS_AT_ONCE];
    for j in j..width {
        for (first, out) in (0..).step_by(TERMS_AT_ONCE).zip(out.chunks_mut(width * TERMS_AT_ONCE)) {
            let terms = &mut terms[..out.len() / width];
            if j >= columns {
                terms.fill(0.0);
            } else if precision == Precision::F32 {
                terms.copy_from_slice(&column(j)[first..][..terms.len()]);
            } else {
                bf16::round_row(precision, column(j), first, terms);
            }
            out[j..].iter_mut().step_by(width).zip(terms).for_each(|(to, x)| *to = *x);
        }
    }
}

/// Terms of a column that are rounded before they are put into their places.
const TERMS_AT_ONCE: usize = 128;

/// Fills one panel whose first column is `first`.
fn pack_panel(isa: Isa, precision: Precision, b: Mat<'_>, first: usize, out: &mut [f32]) {
    let (k, n) = b.shape();
    let terms = precision.terms(k);
    if terms == 0 {
        return;
    }
    let width = out.len() / terms;
    let columns = width.min(n - first);
    if b.col_stride != 1 {
        debug_assert_eq!(b.row_stride, 1);
        return pack_columns(isa, precision, columns, out, width, |j| &b.data[(first + j) * b.col_stride..][..k]);
    }
    for (term, to) in out.chunks_exact_mut(width).enumerate() {
        let (to, beyond) = to.split_at_mut(columns);
        beyond.fill(0.0);
        bf16::round_term(precision, k, term, to, |k| &b.data[k * b.row_stride + first..][..columns]);
    }
}
