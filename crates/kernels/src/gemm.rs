//! Matrix products `C = A B` and `C += A B` on row-major f32 matrices.
//!
//! `B` is packed once into panels ([`PackedB`]) and used many times; `A` is read where it lies. A tile of a few rows and
//! one panel's columns stays in registers for the whole sum over `k`, which always runs from first to last: the value of
//! an element of `C` does not depend on the tile it falls into, on blocking, or on the number of threads.

use crate::buffer::Buffer;
use crate::cpu::Isa;
use crate::simd::{Simd, multiversion};
use crate::team::{SMALL_PASS, SMALL_PRODUCT, Team};
use std::cell::RefCell;
use std::ops::Range;

/// How many terms of the sum over `k` are taken before moving on to the next tile: a panel of this depth fits the
/// first-level cache.
const K_BLOCK: usize = 256;
/// Terms between two requests for memory that will be needed soon.
const GROUP: usize = 4;
/// Rows of `A` that are worked on together, so that their slice of `K_BLOCK` columns stays in the second-level cache.
const ROW_BLOCK: usize = 120;

/// A matrix that is read: `rows x cols`, element `(i, j)` at `data[i * row_stride + j * col_stride]`.
#[derive(Clone, Copy)]
pub struct Mat<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Mat<'a> {
    /// A row-major matrix.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Mat<'a> {
        assert!(data.len() >= rows * cols, "{} elements for {rows} x {cols}", data.len());
        Mat { data, rows, cols, row_stride: cols, col_stride: 1 }
    }

    /// The same matrix transposed.
    pub fn t(self) -> Mat<'a> {
        Mat {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            data: self.data,
        }
    }

    /// Some of its columns.
    pub fn columns(self, range: Range<usize>) -> Mat<'a> {
        assert!(range.start <= range.end && range.end <= self.cols);
        let skip = (range.start * self.col_stride).min(self.data.len()); // a matrix with no element has no data to skip
        Mat { data: &self.data[skip..], cols: range.len(), ..self }
    }

    /// Some of its rows.
    pub fn rows(self, range: Range<usize>) -> Mat<'a> {
        self.t().columns(range).t()
    }

    /// Number of rows and of columns.
    pub fn shape(self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    #[cfg(test)]
    pub(crate) fn at(self, i: usize, j: usize) -> f32 {
        self.data[i * self.row_stride + j * self.col_stride]
    }
}

/// What becomes of what was in `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    /// `C = A B`.
    Overwrite,
    /// `C = C + A B`.
    Accumulate,
}

/// The right-hand matrix of a product, (K, N), in panels: a panel holds the `k`-th row of its columns side by side, for
/// `k` from first to last. All panels are `width(isa)` columns wide but for the last, whose width is rounded up to whole
/// registers and filled with zeros.
pub struct PackedB {
    isa: Isa,
    data: Buffer,
    k: usize,
    n: usize,
}

/// Columns of a full panel: two registers. A tile of 5 rows (10 with AVX-512) keeps its sums in registers and divides the
/// usual batch of 20.
fn width(isa: Isa) -> usize {
    2 * isa.lanes()
}

impl PackedB {
    /// An empty one, to be filled by [`PackedB::pack`].
    pub fn new(isa: Isa) -> PackedB {
        PackedB { isa, data: Buffer::new(), k: 0, n: 0 }
    }

    /// Space for a (k, n) matrix, in f32.
    pub fn space(isa: Isa, k: usize, n: usize) -> usize {
        k * n.next_multiple_of(isa.lanes())
    }

    /// Number of rows and of columns of the matrix.
    pub fn shape(&self) -> (usize, usize) {
        (self.k, self.n)
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.data.bytes()
    }

    /// Takes a new matrix; allocates only when it is larger than any before.
    pub fn pack(&mut self, team: &Team, b: Mat<'_>) {
        let panel = width(self.isa) * b.rows;
        self.resize(b.rows, b.cols);
        let (width, small) = (width(self.isa), self.data.len() < SMALL_PASS);
        let panels = self.data.chunks_mut(panel.max(1)).enumerate();
        team.for_each_unless(small, panels, |(p, out)| pack_panel(b, p * width, out));
    }

    /// [`PackedB::pack`] by the calling thread alone.
    pub fn pack_alone(&mut self, b: Mat<'_>) {
        let panel = width(self.isa) * b.rows;
        self.resize(b.rows, b.cols);
        for (p, out) in self.data.chunks_mut(panel.max(1)).enumerate() {
            pack_panel(b, p * width(self.isa), out);
        }
    }

    /// Takes a (k, n) matrix column by column, by the calling thread alone.
    pub fn pack_columns_alone<'a>(&mut self, k: usize, n: usize, column: impl Fn(usize) -> &'a [f32]) {
        self.resize(k, n);
        let mut first = 0;
        for out in self.data.chunks_mut((width(self.isa) * k).max(1)) {
            let width = out.len() / k.max(1);
            for j in 0..width {
                if first + j < n {
                    let values = column(first + j);
                    for (k, &x) in values[..k].iter().enumerate() {
                        out[k * width + j] = x;
                    }
                } else {
                    (0..k).for_each(|k| out[k * width + j] = 0.0);
                }
            }
            first += width;
        }
    }

    fn resize(&mut self, k: usize, n: usize) {
        (self.k, self.n) = (k, n);
        self.data.resize(PackedB::space(self.isa, self.k, self.n));
    }
}

/// Fills one panel whose first column is `first`.
fn pack_panel(b: Mat<'_>, first: usize, out: &mut [f32]) {
    let (k, n) = b.shape();
    if k == 0 {
        return;
    }
    let width = out.len() / k;
    let columns = width.min(n - first);
    if b.col_stride == 1 {
        for (k, row) in out.chunks_exact_mut(width).enumerate() {
            let from = k * b.row_stride + first;
            row[..columns].copy_from_slice(&b.data[from..from + columns]);
            row[columns..].fill(0.0);
        }
    } else {
        // Transposing in squares of 8 keeps both sides in cache lines that are already there.
        for k0 in (0..k).step_by(8) {
            let kn = 8.min(k - k0);
            for j in 0..width {
                if j < columns {
                    let from = (first + j) * b.col_stride + k0 * b.row_stride;
                    for i in 0..kn {
                        out[(k0 + i) * width + j] = b.data[from + i * b.row_stride];
                    }
                } else {
                    for i in 0..kn {
                        out[(k0 + i) * width + j] = 0.0;
                    }
                }
            }
        }
    }
}

/// `C = A B` or `C += A B` for row-major `C` (`a.rows() x b.n`), rows divided among the team.
pub fn gemm(team: &Team, a: Mat<'_>, b: &PackedB, c: &mut [f32], into: Into) {
    let (m, _) = a.shape();
    let n = b.n;
    assert_eq!(c.len(), m * n, "the result is {m} x {n}");
    if m == 0 || n == 0 {
        return;
    }
    let rows = rows_per_job(m, team.threads());
    team.for_each_unless(m * n * b.k < SMALL_PRODUCT, c.chunks_mut(rows * n).enumerate(), |(job, c)| {
        let first = job * rows;
        gemm_alone(a.rows(first..first + c.len() / n), b, c, into);
    });
}

/// A few jobs per thread, in whole tiles, so that a thread that is held up costs little.
fn rows_per_job(m: usize, threads: usize) -> usize {
    if threads == 1 {
        return m;
    }
    m.div_ceil(4 * threads).next_multiple_of(20).min(ROW_BLOCK * 2)
}

thread_local! {
    /// Room for a transposed `A`'s tiles, one per thread, grown once.
    static A_TILES: RefCell<Buffer> = const { RefCell::new(Buffer::new()) };
}

/// [`gemm`] by the calling thread alone.
pub fn gemm_alone(a: Mat<'_>, b: &PackedB, c: &mut [f32], into: Into) {
    let (m, k) = a.shape();
    assert_eq!(k, b.k, "inner sizes differ");
    assert!(c.len() >= m * b.n && (m == 0 || k == 0 || a.data.len() > (m - 1) * a.row_stride + (k - 1) * a.col_stride));
    if k == 0 {
        if into == Into::Overwrite {
            c[..m * b.n].fill(0.0);
        }
        return;
    }
    A_TILES.with_borrow_mut(|tiles| {
        if a.col_stride != 1 {
            tiles.grow(ROW_BLOCK * K_BLOCK);
        }
        for i0 in (0..m).step_by(ROW_BLOCK) {
            let rows = ROW_BLOCK.min(m - i0);
            for k0 in (0..k).step_by(K_BLOCK) {
                let depth = K_BLOCK.min(k - k0);
                let from = i0 * a.row_stride + k0 * a.col_stride;
                let tile = if a.col_stride == 1 {
                    Strided { data: a.data[from..].as_ptr(), row: a.row_stride, k: 1, rows: 1, tile: a.row_stride }
                } else {
                    copy_tiles(b.isa, &a.data[from..], a, rows, depth, tiles);
                    let rows = tile_rows(b.isa);
                    Strided { data: tiles.as_ptr(), row: 1, k: rows, rows, tile: rows * K_BLOCK }
                };
                let first = into == Into::Overwrite && k0 == 0;
                // SAFETY: rows x depth elements of A at their strides, the panels of B and rows x n elements of C at i0
                // are in bounds by the assertions above and by the layout of PackedB.
                unsafe {
                    panels(b.isa, tile, b.data.as_ptr(), c[i0 * b.n..].as_mut_ptr(), rows, depth, b.n, k0, k, first);
                }
            }
        }
    });
}

/// Where the elements of a block of `A` are. Tiles of `rows` rows are `tile` elements apart; within one, rows are `row`
/// apart, and the elements of a row `k`. (Where `A` is read in place, each row is a tile of its own.)
#[derive(Clone, Copy)]
struct Strided {
    data: *const f32,
    row: usize,
    k: usize,
    rows: usize,
    tile: usize,
}

impl Strided {
    /// The block from row `i` on.
    #[inline(always)]
    unsafe fn skip_rows(self, i: usize) -> Strided {
        let skip = i / self.rows * self.tile + i % self.rows * self.row;
        // SAFETY: the caller stays inside the block.
        unsafe { Strided { data: self.data.add(skip), ..self } }
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
/// rows, `k` after `k`, what the tile needs.
fn copy_tiles(isa: Isa, from: &[f32], a: Mat<'_>, rows: usize, depth: usize, out: &mut [f32]) {
    fn copy<const MR: usize>(from: &[f32], a: Mat<'_>, rows: usize, depth: usize, out: &mut [f32]) {
        for k in 0..depth {
            let (tiles, rest) = from[k * a.col_stride..][..rows].as_chunks::<MR>();
            for (tile, values) in tiles.iter().enumerate() {
                out[tile * MR * K_BLOCK + k * MR..][..MR].copy_from_slice(values);
            }
            if !rest.is_empty() {
                out[tiles.len() * MR * K_BLOCK + k * MR..][..rest.len()].copy_from_slice(rest);
            }
        }
    }
    debug_assert_eq!(a.row_stride, 1);
    match isa {
        Isa::Portable | Isa::Avx2 => copy::<5>(from, a, rows, depth, out),
        Isa::Avx512 => copy::<10>(from, a, rows, depth, out),
    }
}

multiversion! {
    /// One block: `rows x depth` of `A` against all panels of `B`.
    ///
    /// # Safety
    /// `a`: `rows x depth` elements; `b`: packed panels of a (k, n) matrix; `c`: `rows x n`.
    unsafe fn panels = panels_generic(
        a: Strided, b: *const f32, c: *mut f32,
        rows: usize, depth: usize, n: usize, k0: usize, k: usize, overwrite: bool,
    )
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn panels_generic<S: Simd>(
    a: Strided,
    b: *const f32,
    c: *mut f32,
    rows: usize,
    depth: usize,
    n: usize,
    k0: usize,
    k: usize,
    overwrite: bool,
) {
    let full = 2 * S::LANES;
    let mut j = 0;
    while j < n {
        let registers = full.min(n - j).div_ceil(S::LANES);
        let columns = full.min(n - j);
        // SAFETY: panel j starts at j * k and is `registers` registers wide; the rest is the caller's promise.
        unsafe {
            let panel = b.add(j * k + k0 * registers * S::LANES);
            let next = b.wrapping_add((j + columns) * k + k0 * registers * S::LANES);
            let c = c.add(j);
            if S::LANES == 16 {
                match registers {
                    2 => column::<S, 10, 2>(a, panel, next, c, rows, depth, n, columns, overwrite),
                    _ if a.rows > 1 => column::<S, 10, 1>(a, panel, next, c, rows, depth, n, columns, overwrite),
                    _ => column::<S, 20, 1>(a, panel, next, c, rows, depth, n, columns, overwrite),
                }
            } else {
                match registers {
                    2 => column::<S, 5, 2>(a, panel, next, c, rows, depth, n, columns, overwrite),
                    _ if a.rows > 1 => column::<S, 5, 1>(a, panel, next, c, rows, depth, n, columns, overwrite),
                    _ => column::<S, 10, 1>(a, panel, next, c, rows, depth, n, columns, overwrite),
                }
            }
        }
        j += columns;
    }
}

/// All rows against one panel of `NV` registers, in tiles of `MR` rows.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn column<S: Simd, const MR: usize, const NV: usize>(
    a: Strided,
    panel: *const f32,
    next_panel: *const f32,
    c: *mut f32,
    rows: usize,
    depth: usize,
    n: usize,
    columns: usize,
    overwrite: bool,
) {
    // The last tiles fetch the panel that comes next, a few lines with each group of terms.
    let (lines, tiles, groups) = (depth * NV * S::LANES / 16, (rows / MR).max(1), (depth / GROUP).max(1));
    let share = lines.div_ceil(tiles * groups).max(1);
    let quiet_rows = (tiles - lines.div_ceil(share * groups).min(tiles)) * MR;
    // SAFETY: the caller's promise, handed on row by row; a prefetch may point anywhere.
    unsafe {
        let mut i = 0;
        while i + MR <= rows {
            let share = if i < quiet_rows { 0 } else { share };
            let ahead = next_panel.wrapping_add(i.saturating_sub(quiet_rows) / MR * groups * share * 16);
            // While this tile is summed up, fetch what the next one will find in the result.
            let after = if i + 2 * MR <= rows { c.wrapping_add((i + MR) * n) } else { c.wrapping_add(NV * S::LANES) };
            for r in 0..MR {
                S::prefetch(after.wrapping_add(r * n));
            }
            let (a, c) = (a.skip_rows(i), c.add(i * n));
            tile::<S, MR, NV>(a, panel, c, depth, n, columns, overwrite, ahead, share);
            i += MR;
        }
        while i + 4 <= rows {
            let (a, c) = (a.skip_rows(i), c.add(i * n));
            tile::<S, 4, NV>(a, panel, c, depth, n, columns, overwrite, panel, 0);
            i += 4;
        }
        let (a, c) = (a.skip_rows(i), c.add(i * n));
        match rows - i {
            3 => tile::<S, 3, NV>(a, panel, c, depth, n, columns, overwrite, panel, 0),
            2 => tile::<S, 2, NV>(a, panel, c, depth, n, columns, overwrite, panel, 0),
            1 => tile::<S, 1, NV>(a, panel, c, depth, n, columns, overwrite, panel, 0),
            _ => {}
        }
    }
}

/// Adds the `k`-th term to all sums of a tile.
#[inline(always)]
unsafe fn term<S: Simd, const MR: usize, const NV: usize>(
    sums: &mut [[S::V; NV]; MR],
    a: Strided,
    panel: *const f32,
    k: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut b = [S::splat(0.0); NV];
        for (v, b) in b.iter_mut().enumerate() {
            *b = S::load(panel.add((k * NV + v) * S::LANES));
        }
        for (r, row) in sums.iter_mut().enumerate() {
            let x = S::splat(*a.data.add(r * a.row + k * a.k));
            for (sum, b) in row.iter_mut().zip(b) {
                *sum = S::fma(x, b, *sum);
            }
        }
    }
}

/// The innermost product: `MR` rows by `NV` registers, all sums in registers. With each group of terms it asks for `share`
/// cache lines from `ahead` on.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn tile<S: Simd, const MR: usize, const NV: usize>(
    a: Strided,
    panel: *const f32,
    c: *mut f32,
    depth: usize,
    n: usize,
    columns: usize,
    overwrite: bool,
    ahead: *const f32,
    share: usize,
) {
    let lanes = |v: usize| columns.saturating_sub(v * S::LANES).min(S::LANES);
    // SAFETY: the caller's promise; partial registers touch only the columns that exist.
    unsafe {
        let mut sums = [[S::splat(0.0); NV]; MR];
        if !overwrite {
            for (r, row) in sums.iter_mut().enumerate() {
                for (v, sum) in row.iter_mut().enumerate() {
                    let at = c.add(r * n + v * S::LANES);
                    *sum = if lanes(v) == S::LANES { S::load(at) } else { S::load_partial(at, lanes(v), 0.0) };
                }
            }
        }
        let groups = depth / GROUP;
        for g in 0..groups {
            for line in 0..share {
                S::prefetch(ahead.wrapping_add((g * share + line) * 16));
            }
            for k in g * GROUP..(g + 1) * GROUP {
                term::<S, MR, NV>(&mut sums, a, panel, k);
            }
        }
        for k in groups * GROUP..depth {
            term::<S, MR, NV>(&mut sums, a, panel, k);
        }
        for (r, row) in sums.iter().enumerate() {
            for (v, sum) in row.iter().enumerate() {
                let at = c.add(r * n + v * S::LANES);
                if lanes(v) == S::LANES {
                    S::store(at, *sum);
                } else {
                    S::store_partial(at, lanes(v), *sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{self, numbers};

    /// Sizes around every edge: tiles, panels, blocks.
    const SHAPES: [(usize, usize, usize); 13] = [
        (240, 256, 24),
        (1, 1, 1),
        (3, 7, 5),
        (4, 24, 24),
        (20, 200, 104),
        (20, 13, 96),
        (5, 300, 16),
        (10, 257, 8),
        (121, 256, 33),
        (7, 512, 57),
        (250, 31, 49),
        (2, 600, 31),
        (33, 0, 9),
    ];

    #[test]
    fn it_agrees_with_the_naive_product_on_ragged_shapes() {
        for isa in Isa::available() {
            for (m, k, n) in SHAPES {
                for (a_t, b_t) in [(false, false), (true, false), (false, true), (true, true)] {
                    let (a, b) = (numbers(1, m * k), numbers(2, k * n));
                    let a = if a_t { Mat::new(&a, k, m).t() } else { Mat::new(&a, m, k) };
                    let b = if b_t { Mat::new(&b, n, k).t() } else { Mat::new(&b, k, n) };
                    let team = Team::new(2);
                    let mut packed = PackedB::new(isa);
                    packed.pack(&team, b);
                    for into in [Into::Overwrite, Into::Accumulate] {
                        let mut c = numbers(3, m * n);
                        let expected = reference::gemm(a, b, &c, into);
                        gemm(&team, a, &packed, &mut c, into);
                        for (got, want) in c.iter().zip(expected) {
                            let tolerance = 2e-6 * (k as f64).sqrt().max(1.0);
                            assert!((f64::from(*got) - want).abs() <= tolerance, "{isa:?} {m}x{k}x{n} {got} {want}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_threads_or_neighbours() {
        for isa in Isa::available() {
            let (m, k, n) = (143, 300, 107);
            let (a, b) = (numbers(4, m * k), numbers(5, k * n));
            let mut packed = PackedB::new(isa);
            packed.pack_alone(Mat::new(&b, k, n));
            let mut whole = vec![0.0; m * n];
            gemm(&Team::new(1), Mat::new(&a, m, k), &packed, &mut whole, Into::Overwrite);
            for threads in 2..=4 {
                let mut c = vec![0.0; m * n];
                gemm(&Team::new(threads), Mat::new(&a, m, k), &packed, &mut c, Into::Overwrite);
                assert_eq!(c, whole);
            }
            // One row alone, and one column alone, give the bits they have in the whole.
            let mut row = vec![0.0; n];
            gemm_alone(Mat::new(&a, m, k).rows(77..78), &packed, &mut row, Into::Overwrite);
            assert_eq!(row, whole[77 * n..78 * n]);
            packed.pack_alone(Mat::new(&b, k, n).columns(50..51));
            let mut column = vec![0.0; m];
            gemm_alone(Mat::new(&a, m, k), &packed, &mut column, Into::Overwrite);
            assert!((0..m).all(|i| column[i] == whole[i * n + 50]));
        }
    }
}
