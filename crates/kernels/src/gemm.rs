//! Matrix products `C = A B` and `C += A B` on row-major f32 matrices.
//!
//! `B` is packed once into panels ([`PackedB`]) and used many times; `A` is copied block by block into strips
//! ([`strips`]). A tile, one strip by one panel, stays in registers for the whole sum over `k`, which always runs from first
//! to last: the value of an element of `C` does not depend on the tile it falls into, on blocking, or on the number of
//! threads.

use crate::bf16::{Precision, Product, Single};
use crate::buffer::Buffer;
use crate::matrix::Mat;
use crate::pack::PackedB;
use crate::simd::{Simd, multiversion};
use crate::strips::{self, ROOM, ROW_BLOCK, TERM_BLOCK};
use crate::team::{SMALL_PRODUCT, Team, rows_per_job};
use std::cell::RefCell;

/// Terms between two requests for memory that will be needed soon.
const GROUP: usize = 4;

/// Panels that a single row is multiplied with at a time.
const ABREAST: usize = 4;

/// What becomes of what was in `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    /// `C = A B`.
    Overwrite,
    /// `C = C + A B`.
    Accumulate,
}

/// `C = A B` or `C += A B` for row-major `C` (`a.rows() x b.n`), rows divided among the team.
pub fn gemm(team: &Team, a: Mat<'_>, b: &PackedB, c: &mut [f32], into: Into) {
    let (m, _) = a.shape();
    let n = b.n;
    assert!(m.checked_mul(n) == Some(c.len()), "the result is {m} x {n}, not of {} elements", c.len());
    if m == 0 || n == 0 {
        return;
    }
    let rows = rows_per_job(m, team.threads(), ROW_BLOCK);
    team.for_each_unless(m * n * b.k < SMALL_PRODUCT, c.chunks_mut(rows * n).enumerate(), |(job, c)| {
        let first = job * rows;
        gemm_alone(a.rows(first..first + c.len() / n), b, c, into);
    });
}

thread_local! {
    /// Room for the strips of `A`, one per thread, made once.
    static STRIPS: RefCell<Buffer> = const { RefCell::new(Buffer::new()) };
}

/// Gives every member of the team the room that a product may need. Without it a member takes its room at the first product
/// that falls to it, which may be late.
pub fn make_room(team: &Team) {
    team.run(|_| STRIPS.with_borrow_mut(|room| room.grow(ROOM)));
}

/// [`gemm`] by the calling thread alone.
pub fn gemm_alone(a: Mat<'_>, b: &PackedB, c: &mut [f32], into: Into) {
    let (m, k) = a.shape();
    assert_eq!(k, b.k, "inner sizes differ");
    assert!(m.checked_mul(b.n).is_some_and(|n| n <= c.len()), "{} elements for {m} x {}", c.len(), b.n);
    assert!(m == 0 || k == 0 || a.data.len() > (m - 1) * a.row_stride + (k - 1) * a.col_stride);
    if k == 0 {
        if into == Into::Overwrite {
            c[..m * b.n].fill(0.0);
        }
        return;
    }
    STRIPS.with_borrow_mut(|room| {
        for i0 in (0..m).step_by(ROW_BLOCK) {
            let rows = ROW_BLOCK.min(m - i0);
            for first in (0..b.terms()).step_by(TERM_BLOCK) {
                let depth = TERM_BLOCK.min(b.terms() - first);
                strips::copy(b, a.rows(i0..i0 + rows), first, depth, room);
                let overwrite = into == Into::Overwrite && first == 0;
                let block = Block { rows, depth, n: b.n, first, terms: b.terms(), overwrite };
                let (a, panels, c) = (room.as_ptr(), b.data.as_ptr(), c[i0 * b.n..].as_mut_ptr());
                // SAFETY: rows x depth terms of A in strips, the panels of B and rows x n elements of C at i0 are in
                // bounds by the assertions above and by the layout of PackedB, which exists only where the CPU can do
                // its precision.
                unsafe {
                    match b.precision {
                        Precision::F32 | Precision::Bf16Emulated => single_panels(b.isa, a, panels, c, block),
                        Precision::Bf16 => crate::bf16::native_panels(a, panels, c, block),
                    }
                }
            }
        }
    });
}

/// The size of one block of a product, and what part of the whole it is.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    rows: usize,
    /// Terms of the sum.
    depth: usize,
    /// Columns of the result.
    n: usize,
    /// The first of the terms, and how many there are in the whole.
    first: usize,
    terms: usize,
    /// Whether the result has nothing in it yet.
    overwrite: bool,
}

multiversion! {
    /// One block: `rows x depth` terms of `A` against all panels of `B`, f32.
    ///
    /// # Safety
    /// `a`: `rows x depth` terms in strips; `b`: packed panels of a matrix with `n` columns; `c`: `rows x n`.
    unsafe fn single_panels = single_panels_generic(a: *const f32, b: *const f32, c: *mut f32, block: Block)
}

#[inline(always)]
unsafe fn single_panels_generic<S: Simd>(a: *const f32, b: *const f32, c: *mut f32, block: Block) {
    // SAFETY: the caller's promise.
    unsafe { panels::<S, Single>(a, b, c, block) }
}

/// One block by whichever product of terms.
#[inline(always)]
pub(crate) unsafe fn panels<S: Simd, P: Product<S>>(a: *const f32, b: *const f32, c: *mut f32, block: Block) {
    let Block { first, terms, n, .. } = block;
    let full = S::TILE.registers * S::LANES;
    let mut j = 0;
    while j < n {
        if block.rows == 1 && n - j >= ABREAST * full {
            // SAFETY: as many full panels as are abreast start at j * terms; the rest is the caller's promise.
            unsafe { row::<S, P>(a, b.add(j * terms + first * full), c.add(j), block) };
            j += ABREAST * full;
            continue;
        }
        let columns = full.min(n - j);
        let registers = columns.div_ceil(S::LANES);
        // SAFETY: panel j starts at j * terms and is `registers` registers wide; the rest is the caller's promise.
        unsafe {
            let panel = b.add(j * terms + first * registers * S::LANES);
            let next = b.wrapping_add((j + columns) * terms + first * registers * S::LANES);
            let c = c.add(j);
            // What a tile's shape does not need is removed at compile time.
            match (S::TILE.rows, registers) {
                (8, 3) => column::<S, P, 8, 3>(a, panel, next, c, block, columns),
                (8, 2) => column::<S, P, 8, 2>(a, panel, next, c, block, columns),
                (8, _) => column::<S, P, 8, 1>(a, panel, next, c, block, columns),
                (6, 2) => column::<S, P, 6, 2>(a, panel, next, c, block, columns),
                (6, _) => column::<S, P, 6, 1>(a, panel, next, c, block, columns),
                _ => column::<S, P, 4, 1>(a, panel, next, c, block, columns),
            }
        }
        j += columns;
    }
}

/// One row against panels abreast: alone, each would wait for its own few sums at every term.
#[inline(always)]
unsafe fn row<S: Simd, P: Product<S>>(a: *const f32, panels: *const f32, c: *mut f32, block: Block) {
    // SAFETY: the caller's promise, handed on; all panels and columns are whole.
    unsafe {
        match S::TILE.registers {
            3 => row_of::<S, P, 3>(a, panels, c, block),
            2 => row_of::<S, P, 2>(a, panels, c, block),
            _ => row_of::<S, P, 1>(a, panels, c, block),
        }
    }
}

#[inline(always)]
unsafe fn row_of<S: Simd, P: Product<S>, const NV: usize>(
    a: *const f32,
    panels: *const f32,
    c: *mut f32,
    block: Block,
) {
    let Block { depth, terms, overwrite, .. } = block;
    let full = NV * S::LANES;
    // SAFETY: the caller's promise; all panels and columns are whole.
    unsafe {
        let mut sums = [[S::splat(0.0); NV]; ABREAST];
        if !overwrite {
            for (p, sums) in sums.iter_mut().enumerate() {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = S::load(c.add(p * full + v * S::LANES));
                }
            }
        }
        let mut at: [*const f32; ABREAST] = std::array::from_fn(|p| panels.wrapping_add(p * full * terms));
        for term in 0..depth {
            let x = S::splat(*a.add(term));
            for (at, sums) in at.iter_mut().zip(&mut sums) {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = P::add(*sum, x, S::load(at.add(v * S::LANES)));
                }
                *at = at.add(full);
            }
        }
        for (p, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                S::store(c.add(p * full + v * S::LANES), *sum);
            }
        }
    }
}

/// All rows against one panel of `NV` registers, in tiles of `MR` rows.
#[inline(always)]
unsafe fn column<S: Simd, P: Product<S>, const MR: usize, const NV: usize>(
    a: *const f32,
    panel: *const f32,
    next_panel: *const f32,
    c: *mut f32,
    block: Block,
    columns: usize,
) {
    let Block { rows, depth, n, .. } = block;
    // The last tiles fetch the panel that comes next, a few lines with each group of terms.
    let (lines, tiles, groups) = (depth * NV * S::LANES / 16, (rows / MR).max(1), (depth / GROUP).max(1));
    let share = lines.div_ceil(tiles * groups).max(1);
    let quiet_rows = (tiles - lines.div_ceil(share * groups).min(tiles)) * MR;
    // SAFETY: the caller's promise, handed on strip by strip; a prefetch may point anywhere.
    unsafe {
        let mut i = 0;
        while strips::height(MR, rows - i) == MR && i < rows {
            let share = if i < quiet_rows { 0 } else { share };
            let ahead = next_panel.wrapping_add(i.saturating_sub(quiet_rows) / MR * groups * share * 16);
            // While this tile is summed up, fetch what the next one will find in the result.
            let after = if i + 2 * MR <= rows { c.wrapping_add((i + MR) * n) } else { c.wrapping_add(NV * S::LANES) };
            for r in 0..MR {
                for v in 0..NV {
                    S::prefetch(after.wrapping_add(r * n + v * S::LANES));
                }
            }
            tile::<S, P, MR, NV>(a.add(i * depth), panel, c.add(i * n), block, columns, ahead, share);
            i += MR;
        }
        while i < rows {
            let height = strips::height(MR, rows - i);
            let (a, c) = (a.add(i * depth), c.add(i * n));
            match height {
                4 => tile::<S, P, 4, NV>(a, panel, c, block, columns, panel, 0),
                2 => tile::<S, P, 2, NV>(a, panel, c, block, columns, panel, 0),
                _ => tile::<S, P, 1, NV>(a, panel, c, block, columns, panel, 0),
            }
            i += height;
        }
    }
}

/// Adds the products of one term to all sums of a tile.
#[inline(always)]
unsafe fn term<S: Simd, P: Product<S>, const MR: usize, const NV: usize>(
    sums: &mut [[S::V; NV]; MR],
    a: *const f32,
    panel: *const f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut b = [S::splat(0.0); NV];
        for (v, b) in b.iter_mut().enumerate() {
            *b = S::load(panel.add(v * S::LANES));
        }
        for (r, row) in sums.iter_mut().enumerate() {
            let x = S::splat(*a.add(r));
            for (sum, b) in row.iter_mut().zip(b) {
                *sum = P::add(*sum, x, b);
            }
        }
    }
}

/// The innermost product: `MR` rows by `NV` registers, all sums in registers. With each group of terms it asks for `share`
/// cache lines from `ahead` on.
#[inline(always)]
unsafe fn tile<S: Simd, P: Product<S>, const MR: usize, const NV: usize>(
    mut a: *const f32,
    mut panel: *const f32,
    c: *mut f32,
    block: Block,
    columns: usize,
    mut ahead: *const f32,
    share: usize,
) {
    let Block { depth, n, overwrite, .. } = block;
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
        for _ in 0..depth / GROUP {
            for line in 0..share {
                S::prefetch(ahead.wrapping_add(line * 16));
            }
            ahead = ahead.wrapping_add(share * 16);
            for at in 0..GROUP {
                term::<S, P, MR, NV>(&mut sums, a.add(at * MR), panel.add(at * NV * S::LANES));
            }
            a = a.add(GROUP * MR);
            panel = panel.add(GROUP * NV * S::LANES);
        }
        for at in 0..depth % GROUP {
            term::<S, P, MR, NV>(&mut sums, a.add(at * MR), panel.add(at * NV * S::LANES));
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
    use crate::bf16;
    use crate::cpu::Isa;
    use crate::reference::{self, numbers};

    /// Sizes around every edge: tiles, panels, blocks.
    const SHAPES: [(usize, usize, usize); 14] = [
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
        (1, 300, 223),
    ];

    #[test]
    fn it_agrees_with_the_naive_product_on_ragged_shapes() {
        for isa in Isa::available() {
            for precision in Precision::all_available(isa) {
                let operands = |seed, n| -> Vec<f32> {
                    let round = |x| if precision == Precision::F32 { x } else { bf16::nearest(x) };
                    numbers(seed, n).into_iter().map(round).collect()
                };
                for (m, k, n) in SHAPES {
                    for (a_t, b_t) in [(false, false), (true, false), (false, true), (true, true)] {
                        let (a, b) = (numbers(1, m * k), numbers(2, k * n));
                        let (rounded_a, rounded_b) = (operands(1, m * k), operands(2, k * n));
                        let view_a = |a| if a_t { Mat::new(a, k, m).t() } else { Mat::new(a, m, k) };
                        let view_b = |b| if b_t { Mat::new(b, n, k).t() } else { Mat::new(b, k, n) };
                        let team = Team::new(2);
                        let mut packed = PackedB::new(isa, precision);
                        packed.pack(&team, view_b(&b));
                        for into in [Into::Overwrite, Into::Accumulate] {
                            let mut c = numbers(3, m * n);
                            let expected = reference::gemm(view_a(&rounded_a), view_b(&rounded_b), &c, into);
                            gemm(&team, view_a(&a), &packed, &mut c, into);
                            for (got, want) in c.iter().zip(expected) {
                                let tolerance = 2e-6 * (k as f64).sqrt().max(1.0);
                                let error = (f64::from(*got) - want).abs();
                                assert!(error <= tolerance, "{isa:?} {precision:?} {m}x{k}x{n} {got} {want}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn columns_packed_one_by_one_are_the_matrix_packed_whole() {
        for isa in Isa::available() {
            for precision in Precision::all_available(isa) {
                for (k, n) in [(1, 1), (6, 16), (7, 21), (31, 40)] {
                    let b = numbers(6, k * n);
                    let (mut whole, mut columns) = (PackedB::new(isa, precision), PackedB::new(isa, precision));
                    whole.pack_alone(Mat::new(&b, n, k).t());
                    columns.pack_columns_alone(k, n, |j| &b[j * k..(j + 1) * k]);
                    let bits = |packed: &PackedB| packed.data.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&whole), bits(&columns));
                    let transposed: Vec<f32> = (0..k * n).map(|i| b[i % n * k + i / n]).collect();
                    whole.pack_alone(Mat::new(&transposed, k, n));
                    assert_eq!(bits(&whole), bits(&columns), "{isa:?} {precision:?} {k} {n}");
                }
            }
        }
    }

    #[test]
    fn sizes_whose_product_does_not_fit_are_refused() {
        let huge = usize::MAX / 2 + 1;
        let refused = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
        let empty = PackedB::new(Isa::detect(), Precision::F32);
        let mut packed = PackedB::new(Isa::detect(), Precision::F32);
        packed.pack_alone(Mat::new(&[], 0, 2));
        assert!(refused(&|| assert_eq!(Mat::new(&[0.0; 4], huge, 2).shape(), (huge, 2))));
        // No terms, so that the left-hand matrix needs no elements: 2^63 rows of two results would seem to be none.
        assert!(refused(&|| gemm_alone(Mat::new(&[], huge, 0), &packed, &mut [], Into::Overwrite)));
        assert!(refused(&|| gemm(&Team::new(1), Mat::new(&[], huge, 0), &packed, &mut [], Into::Overwrite)));
        assert!(refused(&|| {
            let mut packed = PackedB::new(empty.isa, empty.precision);
            packed.pack_columns_alone(4, huge, |_| &[0.0; 4]);
        }));
    }

    #[test]
    fn the_bits_do_not_depend_on_threads_or_neighbours() {
        for (isa, precision) in
            Isa::available().into_iter().flat_map(|i| Precision::all_available(i).into_iter().map(move |p| (i, p)))
        {
            let (m, k, n) = (143, 601, 107);
            let (a, b) = (numbers(4, m * k), numbers(5, k * n));
            let mut packed = PackedB::new(isa, precision);
            packed.pack_alone(Mat::new(&b, k, n));
            let mut whole = vec![0.0; m * n];
            gemm(&Team::new(1), Mat::new(&a, m, k), &packed, &mut whole, Into::Overwrite);
            for threads in 2..=4 {
                let mut c = vec![0.0; m * n];
                gemm(&Team::new(threads), Mat::new(&a, m, k), &packed, &mut c, Into::Overwrite);
                assert_eq!(c, whole);
            }
            // The same with the left-hand matrix transposed.
            let transposed: Vec<f32> = (0..m * k).map(|i| a[i % m * k + i / m]).collect();
            let mut c = vec![0.0; m * n];
            gemm(&Team::new(2), Mat::new(&transposed, k, m).t(), &packed, &mut c, Into::Overwrite);
            assert_eq!(c, whole);
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
