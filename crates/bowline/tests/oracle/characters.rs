//! A word vector from characters (Kim et al. 2016): the vectors of its symbols, convolutions over all places with the largest
//! value of each map kept, and layers of a feed-forward highway.

use super::layout::Layout;
use super::unit::{Product, sigmoid, sum};
use bowline::characters::CharactersSpec;

/// The vector of one occurrence of a word, and what the way back needs.
pub struct Spelled {
    symbols: Vec<usize>,
    /// For each map its convolution, its place in that, where it is largest and its value there.
    maps: Vec<(usize, usize, usize, f64)>,
    highways: Vec<Highway>,
    /// The vector.
    pub vector: Vec<f64>,
}

struct Highway {
    x: Vec<f64>,
    products: [Product; 2],
    transform: Vec<f64>,
    candidate: Vec<f64>,
}

fn convolution(i: usize, what: &str) -> String {
    format!("characters.convolutions.{i}.{what}")
}

fn highway(i: usize, part: usize, what: &str) -> String {
    format!("characters.highways.{i}.{}.{what}", ["transform", "candidate"][part])
}

impl Spelled {
    pub fn new(layout: &Layout, params: &[f64], spec: &CharactersSpec, symbols: &[usize]) -> Spelled {
        let (c, vectors) = (spec.width, layout.place("characters.weight").start);
        // Symbol 0 fills a word up, and its vector is zero.
        let value = |symbol: usize, k: usize| if symbol == 0 { 0.0 } else { params[vectors + symbol * c + k] };
        let mut maps = Vec::new();
        for (i, (width, count)) in spec.convolutions().enumerate() {
            let (w, b) = (layout.place(&convolution(i, "weight")).start, layout.place(&convolution(i, "bias")).start);
            for f in 0..count {
                let at = |p: usize| {
                    let mut a = params[b + f];
                    for j in 0..width {
                        for k in 0..c {
                            a += params[w + (f * width + j) * c + k] * value(symbols[p + j], k);
                        }
                    }
                    a.tanh()
                };
                let largest = (0..=symbols.len() - width).map(|p| (p, at(p)));
                let (place, y) = largest.fold((0, f64::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a });
                maps.push((i, f, place, y));
            }
        }
        let mut x: Vec<f64> = maps.iter().map(|map| map.3).collect();
        let mut highways = Vec::new();
        for i in 0..spec.highways {
            let product = |part: usize| Product::new(layout.place(&highway(i, part, "weight")), &x, &[]);
            let products = [product(0), product(1)];
            let a =
                |part: usize| sum(&[&products[part].value(params), &params[layout.place(&highway(i, part, "bias"))]]);
            let transform: Vec<f64> = a(0).into_iter().map(sigmoid).collect();
            let candidate: Vec<f64> = a(1).into_iter().map(|a| a.max(0.0)).collect();
            let y = (0..x.len()).map(|k| transform[k] * candidate[k] + (1.0 - transform[k]) * x[k]).collect();
            highways.push(Highway { x: std::mem::replace(&mut x, y), products, transform, candidate });
        }
        Spelled { symbols: symbols.to_vec(), maps, highways, vector: x }
    }

    /// From the gradient by the vector to those by the weights, which are added to `gradient`.
    pub fn backward(&self, layout: &Layout, params: &[f64], spec: &CharactersSpec, d: &[f64], gradient: &mut [f64]) {
        let mut d = d.to_vec();
        for (i, Highway { x, products, transform: t, candidate: g }) in self.highways.iter().enumerate().rev() {
            let d_t: Vec<f64> = (0..d.len()).map(|k| d[k] * (g[k] - x[k]) * t[k] * (1.0 - t[k])).collect();
            let d_g: Vec<f64> = (0..d.len()).map(|k| if g[k] > 0.0 { d[k] * t[k] } else { 0.0 }).collect();
            let mut d_x: Vec<f64> = (0..d.len()).map(|k| d[k] * (1.0 - t[k])).collect();
            for (part, d_a) in [d_t, d_g].iter().enumerate() {
                super::add(&mut gradient[layout.place(&highway(i, part, "bias"))], d_a);
                super::add(&mut d_x, &products[part].backward(params, d_a, gradient));
            }
            d = d_x;
        }
        let (c, vectors) = (spec.width, layout.place("characters.weight").start);
        let widths: Vec<usize> = spec.convolutions().map(|(width, _)| width).collect();
        for (&(i, f, place, y), d) in self.maps.iter().zip(d) {
            let d_a = d * (1.0 - y * y);
            gradient[layout.place(&convolution(i, "bias")).start + f] += d_a;
            let w = layout.place(&convolution(i, "weight")).start + f * widths[i] * c;
            for j in 0..widths[i] {
                let symbol = self.symbols[place + j];
                for k in (0..c).filter(|_| symbol != 0) {
                    gradient[w + j * c + k] += d_a * params[vectors + symbol * c + k];
                    gradient[vectors + symbol * c + k] += d_a * params[w + j * c + k];
                }
            }
        }
    }
}
