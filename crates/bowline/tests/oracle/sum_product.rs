//! The upper half of a sum-product network: `B_j = b_j + sum_k a_jk M_j^k` in the place of `exp`, so `log B` are the logits.

use super::layout::Layout;

/// The place of a word's coefficients: of the powers from 1 up, and of the constant.
fn coefficients(layout: &Layout, j: usize) -> Option<(usize, usize, usize)> {
    let (weight, bias) = (layout.find("sum_product.weight")?, layout.find("sum_product.bias")?);
    let powers = weight.len() / layout.vocab;
    Some((weight.start + j * powers, powers, bias.start + j))
}

/// `B_j` and its slope.
fn polynomial(params: &[f64], (weight, powers, bias): (usize, usize, usize), m: f64) -> (f64, f64) {
    let power = |k: usize| m.powi(k as i32);
    let value: f64 = (1..=powers).map(|k| params[weight + k - 1] * power(k)).sum();
    let slope = (1..=powers).map(|k| k as f64 * params[weight + k - 1] * power(k - 1)).sum();
    (params[bias] + value, slope)
}

/// `log B` of each word's sum, where the model has polynomials; the sums themselves otherwise.
pub fn logits(layout: &Layout, params: &[f64], sums: &[f64]) -> Vec<f64> {
    let one = |(j, &m): (usize, &f64)| coefficients(layout, j).map_or(m, |places| polynomial(params, places, m).0.ln());
    sums.iter().enumerate().map(one).collect()
}

/// From the gradient by the logits to that by the sums, and by the coefficients, which is added to `gradient`.
pub fn backward(layout: &Layout, params: &[f64], sums: &[f64], d_logits: &[f64], gradient: &mut [f64]) -> Vec<f64> {
    let mut one = |j: usize| {
        let Some(places) = coefficients(layout, j) else { return d_logits[j] };
        let (value, slope) = polynomial(params, places, sums[j]);
        let (weight, powers, bias) = places;
        for k in 1..=powers {
            gradient[weight + k - 1] += d_logits[j] * sums[j].powi(k as i32) / value;
        }
        gradient[bias] += d_logits[j] / value;
        d_logits[j] * slope / value
    };
    (0..sums.len()).map(&mut one).collect()
}
