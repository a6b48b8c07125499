//! The gated recurrent unit, with the masked `h'` before the matrices and the whole one past them:
//!
//! ```text
//! r = sigmoid(W_ir x + b_ir + W_hr (m h') + b_hr)      z = sigmoid(W_iz x + b_iz + W_hz (m h') + b_hz)
//! n = tanh(W_in x + b_in + r * (W_hn (m h') + b_hn))   h = (1 - z) * n + z * h'
//! ```

use super::{Layout, Product, Read, Step, sigmoid, sum};
use std::ops::Range;

pub struct Gru {
    input: Product,
    recurrent: Product,
    biases: [Range<usize>; 2],
    before: Vec<f64>,
    /// What the reset gate is multiplied with.
    product: Vec<f64>,
    gates: [Vec<f64>; 3],
}

impl Gru {
    pub fn step(layout: &Layout, l: usize, params: &[f64], read: &Read<'_>) -> Gru {
        let before = read.state[0].clone();
        let d = before.len();
        let input = Product::new(layout.place(&format!("rnn.weight_ih_l{l}")), read.x, read.input_masks);
        let recurrent = Product::new(layout.place(&format!("rnn.weight_hh_l{l}")), &before, read.masks);
        let biases = ["ih", "hh"].map(|which| layout.place(&format!("rnn.bias_{which}_l{l}")));
        let x = sum(&[&input.value(params), &params[biases[0].clone()]]);
        let p = sum(&[&recurrent.value(params), &params[biases[1].clone()]]);
        let r: Vec<f64> = (0..d).map(|k| sigmoid(x[k] + p[k])).collect();
        let z: Vec<f64> = (d..2 * d).map(|k| sigmoid(x[k] + p[k])).collect();
        let n: Vec<f64> = (0..d).map(|k| (x[2 * d + k] + r[k] * p[2 * d + k]).tanh()).collect();
        let product = p[2 * d..].to_vec();
        Gru { input, recurrent, biases, before, product, gates: [r, z, n] }
    }
}

impl Step for Gru {
    fn state(&self) -> Vec<Vec<f64>> {
        let [_, z, n] = &self.gates;
        vec![(0..z.len()).map(|k| (1.0 - z[k]) * n[k] + z[k] * self.before[k]).collect()]
    }

    fn backward(&self, params: &[f64], d_state: &[Vec<f64>], gradient: &mut [f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let ([r, z, n], d_h, d) = (&self.gates, &d_state[0], self.before.len());
        let (mut d_x, mut d_p) = (vec![0.0; 3 * d], vec![0.0; 3 * d]);
        for k in 0..d {
            let d_n = d_h[k] * (1.0 - z[k]) * (1.0 - n[k] * n[k]);
            d_x[k] = d_n * self.product[k] * r[k] * (1.0 - r[k]);
            d_x[d + k] = d_h[k] * (self.before[k] - n[k]) * z[k] * (1.0 - z[k]);
            d_x[2 * d + k] = d_n;
            (d_p[k], d_p[d + k], d_p[2 * d + k]) = (d_x[k], d_x[d + k], d_n * r[k]);
        }
        super::super::add(&mut gradient[self.biases[0].clone()], &d_x);
        super::super::add(&mut gradient[self.biases[1].clone()], &d_p);
        let through = self.recurrent.backward(params, &d_p, gradient);
        let d_before = (0..d).map(|k| through[k] + d_h[k] * z[k]).collect();
        (self.input.backward(params, &d_x, gradient), vec![d_before])
    }
}
