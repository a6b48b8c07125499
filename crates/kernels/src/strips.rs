//! The left-hand matrix of a product, block by block, in the order in which its tiles read it.
//!
//! A *strip* is as many rows as a tile has, term after term: the first term of each row side by side, then the second. A
//! tile then reads one address after the other, whatever the matrix looked like, and needs a single pointer for it. Rows
//! that do not fill a strip of the tile's height go into strips of 4, 2 and 1.

use crate::bf16::{self, Precision};
use crate::buffer::Buffer;
use crate::cpu::Isa;
use crate::matrix::Mat;
use crate::pack::PackedB;
use crate::transpose::{SIDE, transpose};

/// How many terms are taken before moving on to the next tile: a panel of this depth fits the first-level cache.
pub(crate) const TERM_BLOCK: usize = 256;
/// Rows of `A` that are worked on together, so that their terms of a block stay in the second-level cache.
pub(crate) const ROW_BLOCK: usize = 120;
/// Elements that a block of `A` takes, and after them a strip's rows rounded to bf16 before they are turned.
pub(crate) const ROOM: usize = (ROW_BLOCK + SIDE) * TERM_BLOCK + SIDE;

/// The height of the strip that begins where `rows` rows are left, for tiles of `tile` rows.
#[inline(always)]
pub(crate) fn height(tile: usize, rows: usize) -> usize {
    match rows {
        // Two of 4 rather than one of 6 and one of 2, which would wait for its few sums.
        8 if tile == 6 => 4,
        _ if rows >= tile => tile,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

/// Copies the terms `first..first + depth` of the rows `a` into strips, in `room`. Strips lie one after the other: the one
/// that begins with row `i` is at `i * depth`.
pub(crate) fn copy(b: &PackedB, a: Mat<'_>, first: usize, depth: usize, room: &mut Buffer) {
    room.grow(ROOM);
    let tile = b.isa.tile().rows;
    let (strips, rounded) = room.split_at_mut(ROW_BLOCK * TERM_BLOCK + SIDE);
    if a.col_stride != 1 {
        return match (tile, b.precision) {
            (8, Precision::F32) => copy_side_by_side::<8>(a, first, depth, strips),
            (6, Precision::F32) => copy_side_by_side::<6>(a, first, depth, strips),
            (_, Precision::F32) => copy_side_by_side::<4>(a, first, depth, strips),
            (_, precision) => round_side_by_side(precision, tile, a, first, depth, strips),
        };
    }
    let mut i = 0;
    while i < a.rows {
        let rows = height(tile, a.rows - i);
        let (strip, a) = (&mut strips[i * depth..], a.rows(i..i + rows));
        if b.precision == Precision::F32 {
            turn(b.isa, rows, depth, strip, |r| &a.data[r * a.row_stride + first..][..depth]);
        } else {
            for (r, to) in rounded.chunks_exact_mut(depth).take(rows).enumerate() {
                bf16::round_row(b.precision, &a.data[r * a.row_stride..][..a.cols], first, to);
            }
            turn(b.isa, rows, depth, strip, |r| &rounded[r * depth..][..depth]);
        }
        i += rows;
    }
}

/// Rows that lie one after the other become columns; what comes after the strip may be overwritten.
fn turn<'a>(isa: Isa, rows: usize, depth: usize, strip: &mut [f32], row: impl Fn(usize) -> &'a [f32]) {
    match rows {
        1 => strip[..depth].copy_from_slice(row(0)),
        2 => {
            for (to, (a, b)) in strip.chunks_exact_mut(2).zip(row(0).iter().zip(row(1))) {
                (to[0], to[1]) = (*a, *b);
            }
        }
        _ => transpose(isa, std::array::from_fn(|r| row(if r < rows { r } else { 0 })), strip, rows),
    }
}

/// Rows that lie side by side are copied term by term, for all strips of `ROWS` rows at once: so the matrix is read in the order
/// in which it lies.
fn copy_side_by_side<const ROWS: usize>(a: Mat<'_>, first: usize, depth: usize, strips: &mut [f32]) {
    debug_assert_eq!(a.row_stride, 1);
    let mut whole = 0;
    while whole < a.rows && height(ROWS, a.rows - whole) == ROWS {
        whole += ROWS;
    }
    for term in 0..depth {
        let side_by_side = &a.data[(first + term) * a.col_stride..][..whole];
        for (strip, values) in side_by_side.as_chunks::<ROWS>().0.iter().enumerate() {
            let to = &mut strips[strip * ROWS * depth + term * ROWS..][..ROWS];
            to.copy_from_slice(values);
        }
    }
    round_side_by_side(Precision::F32, ROWS, a.rows(whole..a.rows), first, depth, &mut strips[whole * depth..]);
}

/// The same strip by strip, with the terms rounded.
fn round_side_by_side(precision: Precision, tile: usize, a: Mat<'_>, first: usize, depth: usize, strips: &mut [f32]) {
    let mut i = 0;
    while i < a.rows {
        let rows = height(tile, a.rows - i);
        for (term, to) in (first..).zip(strips[i * depth..].chunks_exact_mut(rows).take(depth)) {
            bf16::round_term(precision, a.cols, term, to, |k| &a.data[k * a.col_stride + i..][..rows]);
        }
        i += rows;
    }
}
