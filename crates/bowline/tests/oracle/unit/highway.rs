//! A recurrent highway network: `s` goes through `L` levels in a step,
//!
//! ```text
//! h_l = tanh   ([l = 1] W_h x + R_h,l (m s_{l-1}) + b_h,l)
//! t_l = sigmoid([l = 1] W_t x + R_t,l (m s_{l-1}) + b_t,l)
//! s_l = (h_l - s_{l-1}) t_l + s_{l-1}
//! ```
//!
//! with the same mask `m` at every level, and `s_0` from the step before.

use super::{Layout, Product, Read, Step, sigmoid, sum};
use std::ops::Range;

struct Level {
    input: Option<Product>,
    recurrent: Product,
    bias: Range<usize>,
    before: Vec<f64>,
    h: Vec<f64>,
    t: Vec<f64>,
}

pub struct Highway {
    levels: Vec<Level>,
    s: Vec<f64>,
}

impl Highway {
    pub fn step(layout: &Layout, l: usize, depth: usize, params: &[f64], read: &Read<'_>) -> Highway {
        let (mut s, mut levels, d) = (read.state[0].clone(), Vec::new(), read.state[0].len());
        for k in 0..depth {
            let place = |what: &str| match depth {
                1 => layout.place(&format!("highway.{what}_l{l}")),
                _ => layout.place(&format!("highway.{what}_l{l}_d{k}")),
            };
            let input = (k == 0).then(|| Product::new(place("weight_ih"), read.x, read.input_masks));
            let recurrent = Product::new(place("weight_hh"), &s, read.masks);
            let bias = place("bias");
            let x = input.as_ref().map_or(vec![0.0; 2 * d], |input| input.value(params));
            let a = sum(&[&x, &recurrent.value(params), &params[bias.clone()]]);
            let h: Vec<f64> = a[..d].iter().map(|a| a.tanh()).collect();
            let t: Vec<f64> = a[d..].iter().map(|&a| sigmoid(a)).collect();
            let after = (0..d).map(|k| (h[k] - s[k]) * t[k] + s[k]).collect();
            levels.push(Level { input, recurrent, bias, before: s, h, t });
            s = after;
        }
        Highway { levels, s }
    }
}

impl Step for Highway {
    fn state(&self) -> Vec<Vec<f64>> {
        vec![self.s.clone()]
    }

    fn backward(&self, params: &[f64], d_state: &[Vec<f64>], gradient: &mut [f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let (mut d_s, mut d_x) = (d_state[0].clone(), Vec::new());
        for Level { input, recurrent, bias, before, h, t } in self.levels.iter().rev() {
            let d_h = (0..h.len()).map(|k| d_s[k] * t[k] * (1.0 - h[k] * h[k]));
            let d_t = (0..h.len()).map(|k| d_s[k] * (h[k] - before[k]) * t[k] * (1.0 - t[k]));
            let d_a: Vec<f64> = d_h.chain(d_t).collect();
            super::super::add(&mut gradient[bias.clone()], &d_a);
            let through = recurrent.backward(params, &d_a, gradient);
            d_s = (0..h.len()).map(|k| through[k] + d_s[k] * (1.0 - t[k])).collect();
            if let Some(input) = input {
                d_x = input.backward(params, &d_a, gradient);
            }
        }
        (d_x, vec![d_s])
    }
}
