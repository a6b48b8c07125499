//! One LSTM cell, one example, one step:
//!
//! ```text
//! i = sigmoid(W_ii x + W_hi h' + b_i)      f = sigmoid(W_if x + W_hf h' + b_f)
//! g = tanh   (W_ig x + W_hg h' + b_g)      o = sigmoid(W_io x + W_ho h' + b_o)
//! c = f * c' + i * g                       h = o * tanh(c)
//! ```
//!
//! with `h'` and `c'` from the step before. `x` and `h'` come in masked; the cell knows nothing of masks.

use super::layout::LayerLayout;

/// What the cell read and computed.
pub struct CellTrace {
    x: Vec<f64>,
    h_before: Vec<f64>,
    c_before: Vec<f64>,
    i: Vec<f64>,
    f: Vec<f64>,
    g: Vec<f64>,
    o: Vec<f64>,
    /// The new cell.
    pub c: Vec<f64>,
    /// The new output, unmasked.
    pub h: Vec<f64>,
}

/// The gradient of the loss by what the cell read.
pub struct CellGradient {
    /// By the (masked) input.
    pub x: Vec<f64>,
    /// By the (masked) `h` of the step before.
    pub h_before: Vec<f64>,
    /// By the `c` of the step before.
    pub c_before: Vec<f64>,
}

impl CellTrace {
    /// The equations above.
    pub fn forward(place: &LayerLayout, params: &[f64], x: &[f64], h_before: &[f64], c_before: &[f64]) -> CellTrace {
        let d = x.len();
        let (w_ih, w_hh, bias) =
            (&params[place.w_ih.clone()], &params[place.w_hh.clone()], &params[place.bias.clone()]);
        let mut a = vec![0.0; 4 * d];
        for r in 0..4 * d {
            a[r] = bias[r];
            for k in 0..d {
                a[r] += w_ih[r * d + k] * x[k] + w_hh[r * d + k] * h_before[k];
            }
        }
        let i: Vec<f64> = (0..d).map(|k| sigmoid(a[k])).collect();
        let f: Vec<f64> = (0..d).map(|k| sigmoid(a[d + k])).collect();
        let g: Vec<f64> = (0..d).map(|k| a[2 * d + k].tanh()).collect();
        let o: Vec<f64> = (0..d).map(|k| sigmoid(a[3 * d + k])).collect();
        let c: Vec<f64> = (0..d).map(|k| f[k] * c_before[k] + i[k] * g[k]).collect();
        let h: Vec<f64> = (0..d).map(|k| o[k] * c[k].tanh()).collect();
        CellTrace { x: x.to_vec(), h_before: h_before.to_vec(), c_before: c_before.to_vec(), i, f, g, o, c, h }
    }

    /// From the gradients by `h` and by `c` (the part that comes back from the next step) to those by the weights,
    /// which are added to `gradient`, and by what the cell read.
    pub fn backward(
        &self,
        place: &LayerLayout,
        params: &[f64],
        d_h: &[f64],
        d_c_next: &[f64],
        gradient: &mut [f64],
    ) -> CellGradient {
        let d = self.x.len();
        let (w_ih, w_hh) = (&params[place.w_ih.clone()], &params[place.w_hh.clone()]);
        let (mut d_a, mut c_before) = (vec![0.0; 4 * d], vec![0.0; d]);
        for k in 0..d {
            let (i, f, g, o, tanh_c) = (self.i[k], self.f[k], self.g[k], self.o[k], self.c[k].tanh());
            let d_c = d_c_next[k] + d_h[k] * o * (1.0 - tanh_c * tanh_c);
            // sigmoid' = s (1 - s), tanh' = 1 - tanh^2.
            d_a[k] = d_c * g * i * (1.0 - i);
            d_a[d + k] = d_c * self.c_before[k] * f * (1.0 - f);
            d_a[2 * d + k] = d_c * i * (1.0 - g * g);
            d_a[3 * d + k] = d_h[k] * tanh_c * o * (1.0 - o);
            c_before[k] = d_c * f;
        }
        let (mut x, mut h_before) = (vec![0.0; d], vec![0.0; d]);
        for r in 0..4 * d {
            gradient[place.bias.start + r] += d_a[r];
            for k in 0..d {
                gradient[place.w_ih.start + r * d + k] += d_a[r] * self.x[k];
                gradient[place.w_hh.start + r * d + k] += d_a[r] * self.h_before[k];
                x[k] += w_ih[r * d + k] * d_a[r];
                h_before[k] += w_hh[r * d + k] * d_a[r];
            }
        }
        CellGradient { x, h_before, c_before }
    }
}

fn sigmoid(a: f64) -> f64 {
    1.0 / (1.0 + (-a).exp())
}
