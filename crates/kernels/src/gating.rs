//! One vector gates another, `out = 2 sigmoid(a) y`, and the way back: what the rounds of a Mogrifier do with each unit.

use crate::cpu::Isa;
use crate::math::sigmoid;
use crate::simd::{Simd, multiversion};
use crate::team::{SMALL_PASS, Team};

/// Units that a member takes at a time. No unit depends on another.
const PIECE: usize = 4096;

/// Replaces `a` by `s = sigmoid(a)` and writes `2 s y` to `out`.
pub fn forward(team: &Team, isa: Isa, a: &mut [f32], y: &[f32], out: &mut [f32]) {
    assert!(a.len() == y.len() && a.len() == out.len());
    let jobs = a.chunks_mut(PIECE).zip(y.chunks(PIECE)).zip(out.chunks_mut(PIECE));
    team.for_each_unless(y.len() < SMALL_PASS, jobs, |((a, y), out)| {
        // SAFETY: three slices of one length.
        unsafe { gate(isa, a.as_mut_ptr(), y.as_ptr(), out.as_mut_ptr(), a.len()) };
    });
}

/// From `d`, the gradient by `out`, to the gradients by `y`, in its place, and by `a`, in the place of `s`.
pub fn backward(team: &Team, isa: Isa, s: &mut [f32], y: &[f32], d: &mut [f32]) {
    assert!(s.len() == y.len() && s.len() == d.len());
    let jobs = s.chunks_mut(PIECE).zip(y.chunks(PIECE)).zip(d.chunks_mut(PIECE));
    team.for_each_unless(y.len() < SMALL_PASS, jobs, |((s, y), d)| {
        // SAFETY: three slices of one length.
        unsafe { gate_back(isa, s.as_mut_ptr(), y.as_ptr(), d.as_mut_ptr(), s.len()) };
    });
}

multiversion! {
    /// # Safety
    /// `a`, `y` and `out` have `n` elements.
    unsafe fn gate = gate_generic(a: *mut f32, y: *const f32, out: *mut f32, n: usize)
}

#[inline(always)]
unsafe fn gate_generic<S: Simd>(a: *mut f32, y: *const f32, out: *mut f32, n: usize) {
    // SAFETY: the caller's promise; the last, partial register stays inside the n elements.
    unsafe {
        for at in (0..n).step_by(S::LANES) {
            let (a, y, out, rest) = (a.add(at), y.add(at), out.add(at), (n - at).min(S::LANES));
            let s = sigmoid::<S>(S::load_partial(a, rest, 0.0));
            S::store_partial(a, rest, s);
            S::store_partial(out, rest, S::mul(S::add(s, s), S::load_partial(y, rest, 0.0)));
        }
    }
}

multiversion! {
    /// # Safety
    /// `s`, `y` and `d` have `n` elements.
    unsafe fn gate_back = gate_back_generic(s: *mut f32, y: *const f32, d: *mut f32, n: usize)
}

#[inline(always)]
unsafe fn gate_back_generic<S: Simd>(s: *mut f32, y: *const f32, d: *mut f32, n: usize) {
    // SAFETY: the caller's promise; the last, partial register stays inside the n elements.
    unsafe {
        for at in (0..n).step_by(S::LANES) {
            let (s, y, d, rest) = (s.add(at), y.add(at), d.add(at), (n - at).min(S::LANES));
            let (gate, d_out) = (S::load_partial(s, rest, 0.0), S::load_partial(d, rest, 0.0));
            let twice = S::mul(S::add(gate, gate), d_out);
            // out = 2 s y, sigmoid' = s (1 - s)
            S::store_partial(d, rest, twice);
            let through = S::sub(S::splat(1.0), gate);
            S::store_partial(s, rest, S::mul(S::mul(twice, S::load_partial(y, rest, 0.0)), through));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::numbers;

    #[test]
    fn both_ways_agree_with_plain_loops_at_any_number_of_threads() {
        for isa in Isa::available() {
            for n in [1, 7, 64, 1001, 30_011] {
                let (a, y, d_out) = (numbers(1, n), numbers(2, n), numbers(3, n));
                let run = |threads: usize| {
                    let (mut s, mut out, mut d) = (a.clone(), vec![9.0; n], d_out.clone());
                    forward(&Team::new(threads), isa, &mut s, &y, &mut out);
                    let mut d_a = s.clone();
                    backward(&Team::new(threads), isa, &mut d_a, &y, &mut d);
                    [s, out, d, d_a]
                };
                let found = run(1);
                for i in 0..n {
                    let [a, y, d_out] = [a[i], y[i], d_out[i]].map(f64::from);
                    let s = 1.0 / (1.0 + (-a).exp());
                    let expected = [s, 2.0 * s * y, 2.0 * s * d_out, 2.0 * y * d_out * s * (1.0 - s)];
                    for (found, expected) in found.iter().zip(expected) {
                        let error = (f64::from(found[i]) - expected).abs();
                        assert!(error < 1e-6 * (1.0 + expected.abs()), "{isa:?}: {} {expected}", found[i]);
                    }
                }
                assert!(run(2) == found && run(3) == found);
            }
        }
    }
}
