//! What this machine can do at most: multiply-adds per second with everything in registers.

use crate::bf16::{Precision, native_spin};
use crate::cpu::Isa;
use crate::simd::{Simd, multiversion};
use crate::team::Team;
use std::time::{Duration, Instant};

const ROUNDS: usize = 2_000_000;
/// Independent sums, enough to keep two units of four cycles' latency busy.
pub(crate) const SUMS: usize = 10;

multiversion! {
    /// # Safety
    /// The CPU has the instruction set.
    unsafe fn spin = spin_generic(rounds: usize) -> f64
}

#[inline(always)]
unsafe fn spin_generic<S: Simd>(rounds: usize) -> f64 {
    // SAFETY: the caller vouches for the CPU feature.
    unsafe {
        let (x, y) = (S::splat(std::hint::black_box(0.999_9)), S::splat(std::hint::black_box(1e-4)));
        let mut sums = [S::splat(std::hint::black_box(1.0)); SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = S::fma(*sum, x, y);
            }
        }
        sums.iter().map(|&s| S::sum(s)).sum()
    }
}

/// How long to try. Fresh threads may share a core for some milliseconds before the system moves them apart.
const LONG_ENOUGH: Duration = Duration::from_millis(300);

/// The measured peak of the whole team in GFLOP/s (a multiply-add is two), the best of many short tries. Emulated bf16 has
/// that of f32, whose instructions it uses.
pub fn peak_gflops(team: &Team, isa: Isa, precision: Precision) -> f64 {
    assert!(precision.available(isa), "{precision:?} on {isa:?}");
    let native = precision == Precision::Bf16;
    let terms = if native { 2 } else { 1 };
    let flops = 2.0 * (ROUNDS * SUMS * isa.lanes() * terms * team.threads()) as f64;
    let (mut best, begin) = (0.0f64, Instant::now());
    while begin.elapsed() < LONG_ENOUGH {
        let start = Instant::now();
        team.run(|_| {
            // SAFETY: callers get an Isa only from detection on this machine; the precision is checked above.
            std::hint::black_box(unsafe { if native { native_spin(ROUNDS) } else { spin(isa, ROUNDS) } });
        });
        best = best.max(flops / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}
