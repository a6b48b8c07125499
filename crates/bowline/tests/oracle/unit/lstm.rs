//! The LSTM:
//!
//! ```text
//! i = sigmoid(W_ii x + W_hi h' + b_i)      f = sigmoid(W_if x + W_hf h' + b_f)
//! g = tanh   (W_ig x + W_hg h' + b_g)      o = sigmoid(W_io x + W_ho h' + b_o)
//! c = f * c' + i * g                       h = o * tanh(c)
//! ```
//!
//! with the masked `h'`, and `c'`, from the step before. Coupled, `min(1 - f, i)` stands for `i` in the cell.

use super::{Layout, Product, Read, Step, sigmoid, sum};
use std::ops::Range;

pub struct Lstm {
    coupled: bool,
    input: Product,
    recurrent: Product,
    bias: Range<usize>,
    c_before: Vec<f64>,
    gates: [Vec<f64>; 4],
    c: Vec<f64>,
}

impl Lstm {
    pub fn step(layout: &Layout, l: usize, coupled: bool, params: &[f64], read: &Read<'_>) -> Lstm {
        let (h, c_before) = (&read.state[0], read.state[1].clone());
        let d = h.len();
        let input = Product::new(layout.place(&format!("rnn.weight_ih_l{l}")), read.x, read.input_masks);
        let recurrent = Product::new(layout.place(&format!("rnn.weight_hh_l{l}")), h, read.masks);
        let bias = layout.place(&format!("rnn.bias_l{l}"));
        let a = sum(&[&input.value(params), &recurrent.value(params), &params[bias.clone()]]);
        let gate = |k: usize, f: fn(f64) -> f64| -> Vec<f64> { a[k * d..][..d].iter().map(|&a| f(a)).collect() };
        let gates = [gate(0, sigmoid), gate(1, sigmoid), gate(2, f64::tanh), gate(3, sigmoid)];
        let [i, f, g, _] = &gates;
        let lets_in = |k: usize| if coupled { i[k].min(1.0 - f[k]) } else { i[k] };
        let c = (0..d).map(|k| f[k] * c_before[k] + lets_in(k) * g[k]).collect();
        Lstm { coupled, input, recurrent, bias, c_before, gates, c }
    }
}

impl Step for Lstm {
    fn state(&self) -> Vec<Vec<f64>> {
        vec![self.c.iter().zip(&self.gates[3]).map(|(c, o)| o * c.tanh()).collect(), self.c.clone()]
    }

    fn backward(&self, params: &[f64], d_state: &[Vec<f64>], gradient: &mut [f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let d = self.c.len();
        let (mut d_a, mut d_c_before) = (vec![0.0; 4 * d], vec![0.0; d]);
        for k in 0..d {
            let ([i, f, g, o], tanh_c) = ([0, 1, 2, 3].map(|gate: usize| self.gates[gate][k]), self.c[k].tanh());
            let d_h = d_state[0][k];
            let d_c = d_state[1][k] + d_h * o * (1.0 - tanh_c * tanh_c);
            // sigmoid' = s (1 - s), tanh' = 1 - tanh^2.
            let full = self.coupled && i > 1.0 - f;
            let (d_i, d_f) = if full { (0.0, -d_c * g) } else { (d_c * g, 0.0) };
            d_a[k] = d_i * i * (1.0 - i);
            d_a[d + k] = (d_c * self.c_before[k] + d_f) * f * (1.0 - f);
            d_a[2 * d + k] = d_c * if full { 1.0 - f } else { i } * (1.0 - g * g);
            d_a[3 * d + k] = d_h * tanh_c * o * (1.0 - o);
            d_c_before[k] = d_c * f;
        }
        super::super::add(&mut gradient[self.bias.clone()], &d_a);
        let d_h = self.recurrent.backward(params, &d_a, gradient);
        (self.input.backward(params, &d_a, gradient), vec![d_h, d_c_before])
    }
}
