//! The distance between two subspaces (appendix B): how far the columns of one matrix lie outside the span of another's.
//!
//! With orthonormal bases `U` and `V` of the spans of `X` and `Y`, `R = V - U U^T V` is what the projection of `V` onto
//! the span of `X` leaves over, and `d^2 = |R|^2 / C`, where `C` is the number of columns of `R`. As
//! `d^2 = (1 / C) sum_i (1 - rho_i^2)` with `rho_i`, the singular values of `U^T V`, being the cosines of the principal
//! angles between the spans, `d` is 0 for equal spans, 1 for orthogonal ones, and symmetric.
//!
//! A basis is found by Gram and Schmidt's procedure, done twice for each column: after the second time the columns are
//! orthogonal to the last bit that matters (Giraud et al. 2005). All of it is in f64.

use crate::params::Params;
use serde::Serialize;

/// A column that is shorter than this, relative to what it was, after the columns before it have been projected out of
/// it, lies in their span: f32 weights hold no more digits.
const DEPENDENT: f64 = 1e-6;

/// What was found of two subspaces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distance {
    /// `d`, from 0 to 1.
    pub distance: f64,
    /// Dimensions of the first span.
    pub rank_x: usize,
    /// Dimensions of the second.
    pub rank_y: usize,
    /// What two random subspaces of these dimensions would be expected to have.
    pub random: f64,
}

/// The distance between the spans of the columns of two row-major matrices with the same number of rows, and `columns`
/// columns each. With spans of different dimensions the smaller one is projected onto the larger.
pub fn distance(x: &[f32], y: &[f32], columns: usize) -> Distance {
    assert!(columns > 0 && x.len() == y.len() && x.len().is_multiple_of(columns));
    between(x, y, x.len() / columns)
}

/// The same for matrices that have `rows` rows and any number of columns.
fn between(x: &[f32], y: &[f32], rows: usize) -> Distance {
    let (u, v) = (Basis::of(x, rows, x.len() / rows), Basis::of(y, rows, y.len() / rows));
    let (rank_x, rank_y) = (u.columns.len(), v.columns.len());
    let (onto, from) = if rank_x >= rank_y { (&u, &v) } else { (&v, &u) };
    // d^2 is summed from the residuals, not from 1 - rho^2, which would lose half of the digits near 0.
    let residual = |column: &Vec<f64>| {
        let mut rest = column.clone();
        onto.project_out(&mut rest);
        dot(&rest, &rest)
    };
    let dimensions = from.columns.len().max(1) as f64;
    let squared = from.columns.iter().map(residual).sum::<f64>() / dimensions;
    let random = (1.0 - onto.columns.len() as f64 / rows as f64).max(0.0).sqrt();
    Distance { distance: squared.sqrt(), rank_x, rank_y, random }
}

/// The distance between the word vectors and the classifier of a model: between the spans of `L^T` and `W`, which have a row for
/// each word.
pub fn of_model(params: &Params) -> Distance {
    between(&crate::model::word_vectors(params), params.classifier(), params.spec().vocab)
}

/// Orthonormal columns.
struct Basis {
    columns: Vec<Vec<f64>>,
}

impl Basis {
    fn of(matrix: &[f32], rows: usize, columns: usize) -> Basis {
        let mut basis = Basis { columns: Vec::with_capacity(columns) };
        for j in 0..columns {
            let mut column: Vec<f64> = (0..rows).map(|i| f64::from(matrix[i * columns + j])).collect();
            let before = dot(&column, &column).sqrt();
            basis.project_out(&mut column);
            basis.project_out(&mut column);
            let after = dot(&column, &column).sqrt();
            if after > DEPENDENT * before {
                column.iter_mut().for_each(|x| *x /= after);
                basis.columns.push(column);
            }
        }
        basis
    }

    /// `x - U U^T x`.
    fn project_out(&self, x: &mut [f64]) {
        for column in &self.columns {
            let along = dot(column, x);
            for (x, u) in x.iter_mut().zip(column) {
                *x -= along * u;
            }
        }
    }
}

/// Eight sums side by side, which the compiler can keep in vector registers.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a_blocks, b_blocks) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_blocks.remainder().iter().zip(b_blocks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_blocks.zip(b_blocks) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream, unit};

    fn random(rows: usize, columns: usize, seed: u64) -> Vec<f32> {
        let mut x = vec![0.0; rows * columns];
        Stream::new(seed, Purpose::Weights, 0).fill(&mut x, |r| 2.0 * unit(r) - 1.0);
        x
    }

    fn times(x: &[f32], a: &[f32], columns: usize) -> Vec<f32> {
        x.chunks(columns)
            .flat_map(|row| (0..columns).map(move |j| (0..columns).map(|k| row[k] * a[k * columns + j]).sum()))
            .collect()
    }

    /// Singular values by one-sided Jacobi rotations (Hestenes 1958): columns are turned in pairs until all are orthogonal.
    fn singular_values(mut columns: Vec<Vec<f64>>) -> Vec<f64> {
        for _ in 0..60 {
            for p in 0..columns.len() {
                for q in p + 1..columns.len() {
                    let (a, b) = (dot(&columns[p], &columns[p]), dot(&columns[q], &columns[q]));
                    let c = dot(&columns[p], &columns[q]);
                    if c.abs() < 1e-300 {
                        continue;
                    }
                    let zeta = (b - a) / (2.0 * c);
                    let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
                    let cos = 1.0 / (1.0 + t * t).sqrt();
                    let sin = cos * t;
                    for i in 0..columns[p].len() {
                        let (x, y) = (columns[p][i], columns[q][i]);
                        columns[p][i] = cos * x - sin * y;
                        columns[q][i] = sin * x + cos * y;
                    }
                }
            }
        }
        columns.iter().map(|column| dot(column, column).sqrt()).collect()
    }

    #[test]
    fn it_is_the_mean_squared_sine_of_the_principal_angles() {
        for (rows, columns) in [(40, 7), (23, 11), (9, 9)] {
            let (x, y) = (random(rows, columns, 1), random(rows, columns, 2));
            let (u, v) = (Basis::of(&x, rows, columns), Basis::of(&y, rows, columns));
            let product = v.columns.iter().map(|v| u.columns.iter().map(|u| dot(u, v)).collect()).collect();
            let cosines = singular_values(product);
            let expected = (cosines.iter().map(|rho| 1.0 - rho * rho).sum::<f64>() / columns as f64).max(0.0).sqrt();
            let found = distance(&x, &y, columns).distance;
            assert!((found - expected).abs() < 1e-9 || found.max(expected) < 1e-7, "{found} {expected}");
            assert!((distance(&y, &x, columns).distance - found).abs() < 1e-12, "symmetric");
        }
    }

    #[test]
    fn equal_spans_are_at_0_and_orthogonal_ones_at_1() {
        let (rows, columns) = (60, 8);
        let x = random(rows, columns, 3);
        assert!(distance(&x, &x, columns).distance < 1e-12);
        let other_basis = times(&x, &random(columns, columns, 4), columns);
        assert!(distance(&x, &other_basis, columns).distance < 1e-5, "f32 rounds the product");
        let upper: Vec<f32> = x.iter().enumerate().map(|(i, &x)| if i < 30 * columns { x } else { 0.0 }).collect();
        let lower: Vec<f32> = x.iter().enumerate().map(|(i, &x)| if i < 30 * columns { 0.0 } else { x }).collect();
        assert!((distance(&upper, &lower, columns).distance - 1.0).abs() < 1e-12);
    }

    #[test]
    fn scale_and_sign_of_columns_do_not_matter_and_repeated_columns_count_once() {
        let (rows, columns) = (50, 6);
        let (x, y) = (random(rows, columns, 5), random(rows, columns, 6));
        let scaled: Vec<f32> = x.iter().enumerate().map(|(i, &x)| x * [1.0, -4.0, 0.5][i % columns % 3]).collect();
        assert!((distance(&scaled, &y, columns).distance - distance(&x, &y, columns).distance).abs() < 1e-7);
        let repeated: Vec<f32> =
            x.chunks(columns).flat_map(|row| [row[0], row[1], row[2], row[0], row[1], row[2]]).collect();
        let found = distance(&repeated, &x, columns);
        assert_eq!((found.rank_x, found.rank_y), (3, 6));
        assert!(found.distance < 1e-7);
    }

    #[test]
    fn two_random_subspaces_are_where_chance_puts_them() {
        let (rows, columns) = (1000, 30);
        let found = distance(&random(rows, columns, 7), &random(rows, columns, 8), columns);
        assert!((found.random - 0.97f64.sqrt()).abs() < 1e-12);
        assert!((found.distance - found.random).abs() < 0.01, "{found:?}");
    }
}
