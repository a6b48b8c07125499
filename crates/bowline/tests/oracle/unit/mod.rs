//! What a layer's units compute: one example, one step. A file for each unit.

mod deep;
mod gru;
mod highway;
mod lstm;
mod mogrifier;
mod rnn;

use super::layout::Layout;
use bowline::spec::{Activation, LayerSpec, Unit};
use std::ops::Range;

/// A step that was taken: what it read is kept for the way back.
pub trait Step {
    /// The new values of the state, `h` first, unmasked.
    fn state(&self) -> Vec<Vec<f64>>;

    /// From the gradient by each of these to those by the weights, which are added to `gradient`, by the input, and by the
    /// state of the step before, unmasked.
    fn backward(&self, params: &[f64], d_state: &[Vec<f64>], gradient: &mut [f64]) -> (Vec<f64>, Vec<Vec<f64>>);
}

/// What a step reads.
pub struct Read<'a> {
    /// The input, as it comes in.
    pub x: &'a [f64],
    /// Its masks where the unit's matrices consume it, one for each gate; or none.
    pub input_masks: &'a [Vec<f64>],
    /// The state of the step before, unmasked.
    pub state: &'a [Vec<f64>],
    /// The masks of `h` where the unit's matrices consume it, one for all gates or one for each.
    pub masks: &'a [Vec<f64>],
}

/// Takes a step of layer `l`.
pub fn step(layout: &Layout, layer: &LayerSpec, l: usize, params: &[f64], read: &Read<'_>) -> Box<dyn Step> {
    match layer.unit {
        Unit::Lstm { coupled } => Box::new(lstm::Lstm::step(layout, l, coupled, params, read)),
        Unit::Mogrifier { coupled, rounds, .. } => {
            Box::new(mogrifier::Mogrifier::step(layout, l, coupled, rounds, params, read))
        }
        Unit::Gru => Box::new(gru::Gru::step(layout, l, params, read)),
        Unit::Rnn { activation } => Box::new(rnn::Rnn::step(layout, l, activation, params, read)),
        Unit::Highway { depth } => Box::new(highway::Highway::step(layout, l, depth, params, read)),
        Unit::Deep { activation } => Box::new(deep::Deep::step(layout, l, activation, params, read)),
    }
}

/// A product of a masked vector with a matrix (rows, x.len()) at a place among the weights, and the way back. The rows are
/// divided evenly among the masks: one for all of them, or one for each gate. None is a mask of ones.
#[derive(Clone)]
pub struct Product {
    place: Range<usize>,
    x: Vec<f64>,
    masks: Vec<Vec<f64>>,
}

impl Product {
    pub fn new(place: Range<usize>, x: &[f64], masks: &[Vec<f64>]) -> Product {
        Product { place, x: x.to_vec(), masks: masks.to_vec() }
    }

    /// What is on `x[k]` before row `r`.
    fn mask(&self, r: usize, k: usize) -> f64 {
        let rows = self.place.len() / self.x.len();
        self.masks.get(r * self.masks.len() / rows).map_or(1.0, |mask| mask[k])
    }

    /// `W (m x)`.
    pub fn value(&self, params: &[f64]) -> Vec<f64> {
        let rows = params[self.place.clone()].chunks(self.x.len()).enumerate();
        rows.map(|(r, row)| (0..row.len()).map(|k| row[k] * self.mask(r, k) * self.x[k]).sum()).collect()
    }

    /// Adds the gradient by `W`; returns that by `x`.
    pub fn backward(&self, params: &[f64], d: &[f64], gradient: &mut [f64]) -> Vec<f64> {
        let (n, mut d_x) = (self.x.len(), vec![0.0; self.x.len()]);
        for (r, d) in d.iter().enumerate() {
            for k in 0..n {
                let mask = self.mask(r, k);
                gradient[self.place.start + r * n + k] += d * mask * self.x[k];
                d_x[k] += d * mask * params[self.place.start + r * n + k];
            }
        }
        d_x
    }
}

/// A level's share of the input: a product, or a part of the input as it is where the level has no matrix.
pub enum Input {
    Product(Product),
    /// The part and the width of the whole.
    Direct(Vec<f64>, Range<usize>, usize),
}

impl Input {
    /// Of the `k`th level, with `rows` gates.
    pub fn new(layout: &Layout, name: &str, (k, rows): (usize, usize), read: &Read<'_>) -> Input {
        match layout.find(name) {
            Some(place) => Input::Product(Product::new(place, read.x, read.input_masks)),
            None => {
                let part = k * rows..(k + 1) * rows;
                assert!(read.input_masks.is_empty(), "masks by gate are for inputs with a matrix");
                Input::Direct(read.x[part.clone()].to_vec(), part, read.x.len())
            }
        }
    }

    pub fn value(&self, params: &[f64]) -> Vec<f64> {
        match self {
            Input::Product(product) => product.value(params),
            Input::Direct(x, ..) => x.clone(),
        }
    }

    pub fn backward(&self, params: &[f64], d: &[f64], gradient: &mut [f64]) -> Vec<f64> {
        match self {
            Input::Product(product) => product.backward(params, d, gradient),
            Input::Direct(_, part, width) => {
                let mut d_x = vec![0.0; *width];
                d_x[part.clone()].copy_from_slice(d);
                d_x
            }
        }
    }
}

/// The sum of some vectors.
pub fn sum(parts: &[&[f64]]) -> Vec<f64> {
    (0..parts[0].len()).map(|k| parts.iter().map(|part| part[k]).sum()).collect()
}

/// Element by element.
pub fn times(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

pub fn activation(f: Activation, a: f64) -> f64 {
    match f {
        Activation::Linear => a,
        Activation::Tanh => a.tanh(),
        Activation::Sigmoid => sigmoid(a),
        Activation::Relu => a.max(0.0),
    }
}

/// The slope where the value is `y`.
pub fn slope(f: Activation, y: f64) -> f64 {
    match f {
        Activation::Linear => 1.0,
        Activation::Tanh => 1.0 - y * y,
        Activation::Sigmoid => y * (1.0 - y),
        Activation::Relu => f64::from(u8::from(y > 0.0)),
    }
}

pub fn sigmoid(a: f64) -> f64 {
    1.0 / (1.0 + (-a).exp())
}
