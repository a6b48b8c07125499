//! How fast the matrix products of a training step are, by shape and instruction set, one thread:
//!
//! ```sh
//! cargo run --release -p bowline-kernels --example products -- medium avx512
//! ```
//!
//! Every product is measured in turn with the others, on operands that lie as the step has them; the figure is the best of the
//! rounds, beside the peak measured in the same round.

#![allow(clippy::print_stdout)]

use bowline_kernels::{Into, Isa, Mat, PackedB, Precision, Team, gemm_alone, peak_gflops};
use std::time::Instant;

/// (m, k, n), the left-hand matrix transposed or not, and how often a round does it.
struct Shape {
    name: &'static str,
    m: usize,
    k: usize,
    n: usize,
    transposed: bool,
    times: usize,
}

fn shapes(d: usize, v: usize) -> Vec<Shape> {
    let shape = |name, m, k, n, transposed, times| Shape { name, m, k, n, transposed, times };
    let often = (200_000_000 / (20 * d * 2 * d)).clamp(1, 70);
    vec![
        shape("logits", 120, d, v, false, 3),
        shape("back to the state", 120, v, d, false, 3),
        shape("gradient of the classifier", 720, 700, d, true, 3),
        shape("inputs of a layer", 120, d, 4 * d, false, 6),
        shape("recurrent step, half the units", 20, d, 2 * d, false, often),
        shape("the same backwards", 20, 4 * d, d / 2, false, often),
        shape("one row of logits", 1, d, v, false, 20),
        shape("one recurrent step", 1, d, 4 * d, false, 20),
    ]
}

/// How fast one thread reads so many f32 again and again: no product of one row is faster.
fn reading(n: usize) -> f64 {
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let mut best = 0.0f64;
    for _ in 0..20 {
        let start = Instant::now();
        std::hint::black_box(x.iter().fold(0u32, |sum, x| sum.wrapping_add(x.to_bits())));
        best = best.max(4.0 * n as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let d = match arguments.next().as_deref() {
        Some("medium") => 650,
        Some("large") => 1500,
        _ => 200,
    };
    let wanted = arguments.next();
    let precision = if arguments.next().as_deref() == Some("bf16") { Precision::Bf16 } else { Precision::F32 };
    let team = Team::new(1);
    for isa in
        Isa::available().into_iter().filter(|isa| wanted.as_deref().is_none_or(|name| isa.name().starts_with(name)))
    {
        let shapes = shapes(d, 10_000);
        let mut operands: Vec<_> = shapes
            .iter()
            .map(|s| {
                let a: Vec<f32> = (0..s.m * s.k).map(|i| (i % 97) as f32 / 97.0 - 0.5).collect();
                let b: Vec<f32> = (0..s.k * s.n).map(|i| (i % 89) as f32 / 89.0 - 0.5).collect();
                let mut packed = PackedB::new(isa, precision);
                packed.pack_alone(Mat::new(&b, s.k, s.n));
                (a, packed, vec![0.0f32; s.m * s.n])
            })
            .collect();
        let mut shares = vec![Vec::new(); shapes.len()];
        for _ in 0..9 {
            let peak = peak_gflops(&team, isa, precision);
            for ((s, (a, packed, c)), shares) in shapes.iter().zip(&mut operands).zip(&mut shares) {
                let view = if s.transposed { Mat::new(a, s.k, s.m).t() } else { Mat::new(a, s.m, s.k) };
                gemm_alone(view, packed, c, Into::Overwrite);
                let start = Instant::now();
                for _ in 0..s.times {
                    gemm_alone(view, packed, c, Into::Overwrite);
                }
                let gflops = 2.0 * (s.m * s.k * s.n * s.times) as f64 / start.elapsed().as_secs_f64() / 1e9;
                shares.push((gflops / peak, gflops));
            }
        }
        println!("{} {}", isa.name(), precision.name());
        let bytes = if precision == Precision::Bf16 { 2.0 } else { 4.0 };
        for (s, shares) in shapes.iter().zip(&shares) {
            let (share, gflops) = *shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(&(0.0, 0.0));
            let shape = format!("{} x {} x {}", s.m, s.k, s.n);
            // One row uses each weight once: what counts is how fast the weights come.
            let memory = if s.m == 1 { format!("  {:5.1} GB/s", gflops / 2.0 * bytes) } else { String::new() };
            println!("  {:32} {shape:18} {gflops:6.1} GFLOP/s {:5.1}%{memory}", s.name, 100.0 * share);
        }
        println!("  reading {} MB again and again: {:.1} GB/s", d * 40_000 / 1_000_000, reading(d * 10_000));
    }
}
