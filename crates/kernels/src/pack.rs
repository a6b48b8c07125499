//! The operands of a product in the order in which its tiles read them, as f32 or as pairs of bf16.
//!
//! A *term* is what one multiply-add of a tile takes from a row of `A` and a column of `B`: one element each, or, with
//! bf16, a pair of neighbours in `k`. Either takes 32 bits, so all but the innermost operation is the same for both.

use crate::bf16::{self, Precision};
use crate::buffer::Buffer;
use crate::cpu::Isa;
use crate::matrix::Mat;
use crate::team::{SMALL_PASS, Team};
use crate::transpose::{SIDE, transpose};

/// How many terms are taken before moving on to the next tile: a panel of this depth fits the first-level cache.
pub(crate) const TERM_BLOCK: usize = 256;
/// Rows of `A` that are worked on together, so that their terms of a block stay in the second-level cache.
pub(crate) const ROW_BLOCK: usize = 120;
/// Terms from one row of `A` to the next where rows are copied one after the other: a block, and a cache line more, so
/// that the rows do not compete for the same places in the cache.
const ROW_SPACE: usize = TERM_BLOCK + 16;
/// Elements that a block of `A` takes where it is copied.
pub(crate) const ROOM: usize = ROW_BLOCK * ROW_SPACE;

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

/// Columns of a full panel: two registers. A tile of 5 rows (10 with AVX-512) keeps its sums in registers and divides the
/// usual batch of 20.
fn width(isa: Isa) -> usize {
    2 * isa.lanes()
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
        let (isa, pairs, small) = (self.isa, self.precision.pairs(), self.data.len() < SMALL_PASS);
        let panels = self.data.chunks_mut(panel).enumerate();
        team.for_each_unless(small, panels, |(p, out)| pack_panel(isa, pairs, b, p * width, out));
    }

    /// [`PackedB::pack`] by the calling thread alone.
    pub fn pack_alone(&mut self, b: Mat<'_>) {
        self.resize(b.rows, b.cols);
        let (width, panel, pairs) = (width(self.isa), self.panel(), self.precision.pairs());
        for (p, out) in self.data.chunks_mut(panel).enumerate() {
            pack_panel(self.isa, pairs, b, p * width, out);
        }
    }

    /// Takes a (k, n) matrix column by column, by the calling thread alone.
    pub fn pack_columns_alone<'a>(&mut self, k: usize, n: usize, column: impl Fn(usize) -> &'a [f32]) {
        self.resize(k, n);
        let (isa, panel, terms, pairs) = (self.isa, self.panel(), self.terms(), self.precision.pairs());
        let mut first = 0;
        for out in self.data.chunks_mut(panel) {
            let width = out.len() / terms.max(1);
            pack_columns(isa, pairs, width.min(n - first), out, width, |j| &column(first + j)[..k]);
            first += width;
        }
    }

    /// Length of a full panel.
    fn panel(&self) -> usize {
        (width(self.isa) * self.terms()).max(1)
    }

    fn resize(&mut self, k: usize, n: usize) {
        (self.k, self.n) = (k, n);
        self.data.resize(self.terms() * n.next_multiple_of(self.isa.lanes()));
    }
}

/// Fills one panel of `width` columns, the first `columns` of them with what `column` gives.
fn pack_columns<'a>(
    isa: Isa,
    pairs: bool,
    columns: usize,
    out: &mut [f32],
    width: usize,
    column: impl Fn(usize) -> &'a [f32],
) {
    let mut j = 0;
    while !pairs && j + SIDE <= columns {
        transpose(isa, std::array::from_fn(|i| column(j + i)), &mut out[j..], width);
        j += SIDE;
    }
    for j in j..width {
        let to = out[j..].iter_mut().step_by(width);
        if j >= columns {
            to.for_each(|to| *to = 0.0);
        } else if pairs {
            to.zip(column(j).chunks(2)).for_each(|(to, pair)| *to = bf16::pair(pair));
        } else {
            to.zip(column(j)).for_each(|(to, x)| *to = *x);
        }
    }
}

/// Fills one panel whose first column is `first`.
fn pack_panel(isa: Isa, pairs: bool, b: Mat<'_>, first: usize, out: &mut [f32]) {
    let (k, n) = b.shape();
    let terms = if pairs { k.div_ceil(2) } else { k };
    if terms == 0 {
        return;
    }
    let width = out.len() / terms;
    let columns = width.min(n - first);
    if b.col_stride == 1 {
        let row_of_b = |k: usize| &b.data[k * b.row_stride + first..][..columns];
        for (term, row) in out.chunks_exact_mut(width).enumerate() {
            let (row, beyond) = row.split_at_mut(columns);
            beyond.fill(0.0);
            if !pairs {
                let from = row_of_b(term);
                match (<&mut [f32; 16]>::try_from(&mut *row), <&[f32; 16]>::try_from(from)) {
                    // The usual width: two moves rather than a call.
                    (Ok(row), Ok(from)) => *row = *from,
                    _ => row.copy_from_slice(from),
                }
            } else if 2 * term + 1 < k {
                bf16::pair_rows(row_of_b(2 * term), row_of_b(2 * term + 1), row);
            } else {
                row.iter_mut().zip(row_of_b(2 * term)).for_each(|(to, &x)| *to = bf16::pair(&[x]));
            }
        }
        return;
    }
    debug_assert_eq!(b.row_stride, 1);
    pack_columns(isa, pairs, columns, out, width, |j| &b.data[(first + j) * b.col_stride..][..k]);
}

/// Where the terms of a block of `A` are. Tiles of `rows` rows are `tile` elements apart; within one, rows are `row`
/// apart, and the terms of a row `term`. (Where rows lie one after the other, each row is a tile of its own.)
#[derive(Clone, Copy)]
pub(crate) struct Strided {
    pub(crate) data: *const f32,
    pub(crate) row: usize,
    pub(crate) term: usize,
    pub(crate) rows: usize,
    tile: usize,
}

impl Strided {
    /// The block from row `i` on.
    #[inline(always)]
    pub(crate) unsafe fn skip_rows(self, i: usize) -> Strided {
        let skip = i / self.rows * self.tile + i % self.rows * self.row;
        // SAFETY: the caller stays inside the block.
        unsafe { Strided { data: self.data.add(skip), ..self } }
    }

    /// The terms `block` of the rows `a`, in place if they can be read there and in `room` otherwise.
    pub(crate) fn new(b: &PackedB, a: Mat<'_>, first: usize, depth: usize, room: &mut Buffer) -> Strided {
        let pairs = b.precision.pairs();
        let step = if pairs { 2 } else { 1 };
        let a = a.columns(first * step..((first + depth) * step).min(a.cols));
        if a.col_stride == 1 && !pairs {
            return Strided { data: a.data.as_ptr(), row: a.row_stride, term: 1, rows: 1, tile: a.row_stride };
        }
        room.grow(ROOM);
        if a.col_stride == 1 {
            for (i, out) in room.chunks_exact_mut(ROW_SPACE).take(a.rows).enumerate() {
                bf16::pair_row(&a.data[i * a.row_stride..][..a.cols], &mut out[..depth]);
            }
            return Strided { data: room.as_ptr(), row: ROW_SPACE, term: 1, rows: 1, tile: ROW_SPACE };
        }
        let rows = tile_rows(b.isa);
        match (b.isa, pairs) {
            (Isa::Portable | Isa::Avx2, false) => copy_tiles::<5, false>(a, room),
            (Isa::Portable | Isa::Avx2, true) => copy_tiles::<5, true>(a, room),
            (Isa::Avx512, false) => copy_tiles::<10, false>(a, room),
            (Isa::Avx512, true) => copy_tiles::<10, true>(a, room),
        }
        Strided { data: room.as_ptr(), row: 1, term: rows, rows, tile: rows * TERM_BLOCK }
    }
}

/// Rows of a tile of full width.
fn tile_rows(isa: Isa) -> usize {
    match isa {
        Isa::Portable | Isa::Avx2 => 5,
        Isa::Avx512 => 10,
    }
}

/// Brings a block of a transposed `A`, whose rows lie side by side, into the order in which tiles read it: for each tile's
/// rows, term after term, what the tile needs.
fn copy_tiles<const MR: usize, const PAIRS: bool>(a: Mat<'_>, out: &mut [f32]) {
    debug_assert_eq!(a.row_stride, 1);
    let step = if PAIRS { 2 } else { 1 };
    let side_by_side = |k: usize| &a.data[k * a.col_stride..][..a.rows];
    for (term, k) in (0..a.cols).step_by(step).enumerate() {
        let (tiles, rest) = side_by_side(k).as_chunks::<MR>();
        let at = |tile: usize| tile * MR * TERM_BLOCK + term * MR;
        if PAIRS && k + 1 < a.cols {
            let (odd_tiles, odd_rest) = side_by_side(k + 1).as_chunks::<MR>();
            for (tile, (even, odd)) in tiles.iter().zip(odd_tiles).enumerate() {
                bf16::pair_rows(even, odd, &mut out[at(tile)..][..MR]);
            }
            bf16::pair_rows(rest, odd_rest, &mut out[at(tiles.len())..][..rest.len()]);
        } else if PAIRS {
            for (tile, even) in tiles.iter().enumerate() {
                bf16::pair_rows(even, &[0.0; MR], &mut out[at(tile)..][..MR]);
            }
            bf16::pair_rows(rest, &[0.0; MR], &mut out[at(tiles.len())..][..rest.len()]);
        } else {
            for (tile, values) in tiles.iter().enumerate() {
                out[at(tile)..][..MR].copy_from_slice(values);
            }
            if !rest.is_empty() {
                out[at(tiles.len())..][..rest.len()].copy_from_slice(rest);
            }
        }
    }
}
