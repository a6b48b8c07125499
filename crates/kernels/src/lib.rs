//! The compute kernels of Bowline: matrix products, the fused recurrent step, the fused loss.
//!
//! This is the only crate of the project with `unsafe` in it. Its functions take plain slices and check their sizes; which
//! instruction set they use is decided at run time ([`Isa::detect`]), and every kernel has a naive twin that its tests
//! compare it with, on each instruction set the machine has.

pub mod adapt;
mod bf16;
mod buffer;
mod cpu;
pub mod elementwise;
pub mod gating;
mod gemm;
pub mod loss;
mod math;
mod matrix;
pub mod optimizer;
mod pack;
mod peak;
pub mod polynomial;
pub mod recurrent;
#[cfg(test)]
mod reference;
mod simd;
mod strips;
mod team;
mod transpose;

pub use bf16::Precision;
pub use buffer::Buffer;
pub use cpu::{Isa, model_name};
pub use gemm::{Into, gemm, gemm_alone, make_room};
pub use matrix::Mat;
pub use pack::PackedB;
pub use peak::peak_gflops;
pub use team::{Team, rows_per_job};
