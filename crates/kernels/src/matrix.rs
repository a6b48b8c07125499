//! Views of matrices.

use std::ops::Range;

/// A matrix that is read: `rows x cols`, element `(i, j)` at `data[i * row_stride + j * col_stride]`.
#[derive(Clone, Copy)]
pub struct Mat<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) row_stride: usize,
    pub(crate) col_stride: usize,
}

impl<'a> Mat<'a> {
    /// A row-major matrix.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Mat<'a> {
        assert!(rows.checked_mul(cols).is_some_and(|n| n <= data.len()), "{} elements for {rows} x {cols}", data.len());
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
