//! A deep transition with a shortcut (DOT(S)-RNN without its output layer, which is a projection):
//!
//! ```text
//! z = f(U_1 x + W_1 (m h') + b_1)
//! h = f(U_2 x + W_2 (m z) + S (m h') + b_2)
//! ```

use super::{Input, Layout, Product, Read, Step, activation, slope, sum};
use bowline::spec::Activation;
use std::ops::Range;

pub struct Deep {
    f: Activation,
    inputs: [Input; 2],
    recurrent: [Product; 2],
    shortcut: Product,
    biases: [Range<usize>; 2],
    z: Vec<f64>,
    h: Vec<f64>,
}

impl Deep {
    pub fn step(layout: &Layout, l: usize, f: Activation, params: &[f64], read: &Read<'_>) -> Deep {
        let place = |what: &str, k: usize| layout.place(&format!("deep.{what}_l{l}_d{k}"));
        let inputs =
            [0, 1].map(|k| Input::new(layout, &format!("deep.weight_ih_l{l}_d{k}"), (k, read.state[0].len()), read));
        let biases = [0, 1].map(|k| place("bias", k));
        let first = Product::new(place("weight_hh", 0), &read.state[0], read.masks);
        let a = sum(&[&inputs[0].value(params), &first.value(params), &params[biases[0].clone()]]);
        let z: Vec<f64> = a.iter().map(|&a| activation(f, a)).collect();
        let second = Product::new(place("weight_hh", 1), &z, read.masks);
        let shortcut = Product::new(layout.place(&format!("deep.shortcut_l{l}")), &read.state[0], read.masks);
        let parts = [inputs[1].value(params), second.value(params), shortcut.value(params)];
        let a = sum(&[&parts[0], &parts[1], &parts[2], &params[biases[1].clone()]]);
        let h = a.iter().map(|&a| activation(f, a)).collect();
        Deep { f, inputs, recurrent: [first, second], shortcut, biases, z, h }
    }
}

impl Step for Deep {
    fn state(&self) -> Vec<Vec<f64>> {
        vec![self.h.clone()]
    }

    fn backward(&self, params: &[f64], d_state: &[Vec<f64>], gradient: &mut [f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let through =
            |d: &[f64], y: &[f64]| -> Vec<f64> { d.iter().zip(y).map(|(d, &y)| d * slope(self.f, y)).collect() };
        let d_second = through(&d_state[0], &self.h);
        let d_z = self.recurrent[1].backward(params, &d_second, gradient);
        let d_first = through(&d_z, &self.z);
        super::super::add(&mut gradient[self.biases[0].clone()], &d_first);
        super::super::add(&mut gradient[self.biases[1].clone()], &d_second);
        let by_shortcut = self.shortcut.backward(params, &d_second, gradient);
        let by_first = self.recurrent[0].backward(params, &d_first, gradient);
        let d_h = sum(&[&by_shortcut, &by_first]);
        let d_x = [(0, &d_first), (1, &d_second)].map(|(k, d)| self.inputs[k].backward(params, d, gradient));
        (sum(&[&d_x[0], &d_x[1]]), vec![d_h])
    }
}
