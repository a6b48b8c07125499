//! The simple recurrent unit: `h = f(W_ih x + W_hh h' + b)`, with the masked `h'` from the step before.

use super::{Input, Layout, Product, Read, Step, activation, slope, sum};
use bowline::spec::Activation;
use std::ops::Range;

pub struct Rnn {
    f: Activation,
    input: Input,
    recurrent: Product,
    bias: Range<usize>,
    h: Vec<f64>,
}

impl Rnn {
    pub fn step(layout: &Layout, l: usize, f: Activation, params: &[f64], read: &Read<'_>) -> Rnn {
        let input = Input::new(layout, &format!("rnn.weight_ih_l{l}"), (0, read.state[0].len()), read);
        let recurrent = Product::new(layout.place(&format!("rnn.weight_hh_l{l}")), &read.state[0], read.masks);
        let bias = layout.place(&format!("rnn.bias_l{l}"));
        let a = sum(&[&input.value(params), &recurrent.value(params), &params[bias.clone()]]);
        let h = a.iter().map(|&a| activation(f, a)).collect();
        Rnn { f, input, recurrent, bias, h }
    }
}

impl Step for Rnn {
    fn state(&self) -> Vec<Vec<f64>> {
        vec![self.h.clone()]
    }

    fn backward(&self, params: &[f64], d_state: &[Vec<f64>], gradient: &mut [f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let d_a: Vec<f64> = d_state[0].iter().zip(&self.h).map(|(d, &h)| d * slope(self.f, h)).collect();
        super::super::add(&mut gradient[self.bias.clone()], &d_a);
        let d_h = self.recurrent.backward(params, &d_a, gradient);
        (self.input.backward(params, &d_a, gradient), vec![d_h])
    }
}
