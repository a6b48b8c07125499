//! The recurrent half of an LSTM layer over a whole window, forward and backward.
//!
//! The products with the inputs are done for all steps at once by the caller ([`crate::gemm`]); what is left is the chain
//! through time. Each member of the team owns a range of hidden units: at every step it multiplies the state of the step
//! before with its own columns of the recurrent matrix (packed once per window), does the element-wise part for its units,
//! and meets the others.

use crate::bf16::Precision;
use crate::buffer::Buffer;
use crate::cpu::Isa;
use crate::gemm::{Into, gemm_alone};
use crate::math::{sigmoid, tanh};
use crate::matrix::Mat;
use crate::pack::PackedB;
use crate::simd::{Simd, multiversion};
use crate::team::{Barrier, SMALL_PRODUCT, Team};
use std::cell::RefCell;
use std::ops::Range;

/// Streams that are usually worked on at once; what is a small layer is decided for these.
const USUAL_BATCH: usize = 20;

/// The recurrent matrix `W_hh`, (4d, d), gates in the order i, f, g, o, divided among the members of a team.
pub struct RecurrentWeights {
    isa: Isa,
    hidden: usize,
    members: Vec<Member>,
}

/// One member's share.
struct Member {
    units: Range<usize>,
    /// (d, 4n): from the state to the gates of its n units, gate after gate.
    forward: PackedB,
    /// (4d, n): from the gradient of all gates back to its n units.
    backward: PackedB,
}

/// A window of one layer. `T` steps, `B` streams, `d` units; everything row-major, time first.
pub struct Window<'a> {
    /// Steps `T`.
    pub steps: usize,
    /// Streams `B`.
    pub batch: usize,
    /// (T, B, 4d). Before [`forward`]: the inputs' share of the gates, with the bias. After it: the activations of the
    /// gates. After [`backward`]: the gradient by the gates before their activation.
    pub gates: &'a mut [f32],
    /// (T + 1, B, d): the cells; the first is the carried one and must be set before [`forward`].
    pub cells: &'a mut [f32],
    /// (T, B, d): tanh of the cells.
    pub tanh_cells: &'a mut [f32],
    /// (T + 1, B, d): the states as they are consumed, with their mask; the first must be set before [`forward`].
    pub states: &'a mut [f32],
    /// (B, d): the state after the last step, without its mask, to be carried on.
    pub last_state: &'a mut [f32],
    /// (B, d): the dropout mask of the state, scaled; `None` when evaluating.
    pub mask: Option<&'a [f32]>,
}

impl RecurrentWeights {
    /// Room for a layer of `hidden` units worked on by `threads` members.
    pub fn new(isa: Isa, precision: Precision, threads: usize, hidden: usize) -> RecurrentWeights {
        // A step of a small layer is over sooner than the members could meet: then one of them does it all.
        let threads = if 4 * hidden * hidden * USUAL_BATCH < 2 * SMALL_PRODUCT { 1 } else { threads.max(1) };
        let share = hidden.div_ceil(threads).next_multiple_of(4);
        let members = (0..threads)
            .map(|m| Member {
                units: (m * share).min(hidden)..((m + 1) * share).min(hidden),
                forward: PackedB::new(isa, precision),
                backward: PackedB::new(isa, precision),
            })
            .collect();
        RecurrentWeights { isa, hidden, members }
    }

    /// Takes new weights, for [`forward`] and, if asked, for [`backward`].
    pub fn pack(&mut self, team: &Team, w_hh: &[f32], for_backward: bool) {
        let d = self.hidden;
        assert_eq!(w_hh.len(), 4 * d * d);
        team.for_each(self.members.iter_mut(), |member| {
            let Range { start, end } = member.units;
            let n = end - start;
            if n > 0 {
                member.forward.pack_columns_alone(d, 4 * n, |j| {
                    let row = (j / n) * d + start + j % n;
                    &w_hh[row * d..(row + 1) * d]
                });
                if for_backward {
                    member.backward.pack_alone(Mat::new(w_hh, 4 * d, d).columns(start..end));
                }
            }
        });
    }

    fn barrier(&self, team: &Team) -> Barrier {
        assert!([1, team.threads()].contains(&self.members.len()), "packed for another team");
        Barrier::new(self.members.len())
    }

    /// Runs `f` on each member that has a share.
    fn run(&self, team: &Team, f: impl Fn(usize) + Sync) {
        if self.members.len() == 1 { f(0) } else { team.run(f) }
    }

    /// Bytes the packed weights take.
    pub fn bytes(&self) -> usize {
        self.members.iter().map(|m| m.forward.bytes() + m.backward.bytes()).sum()
    }
}

/// A pointer that the members of a team share; each writes only what belongs to its own units.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

// SAFETY: the members write to disjoint elements and are kept apart in time by a barrier where one reads another's.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The pointer, moved on by `n` elements. (A method, so that closures capture the whole wrapper.)
    unsafe fn at(self, n: usize) -> *mut f32 {
        // SAFETY: the caller stays inside the slice the pointer came from.
        unsafe { self.0.add(n) }
    }
}

thread_local! {
    /// A member's own products of one step.
    static PRODUCTS: RefCell<Buffer> = const { RefCell::new(Buffer::new()) };
}

impl Window<'_> {
    fn check(&self, d: usize) {
        let (t, b) = (self.steps, self.batch);
        assert_eq!(self.gates.len(), t * b * 4 * d);
        assert_eq!(self.cells.len(), (t + 1) * b * d);
        assert_eq!(self.tanh_cells.len(), t * b * d);
        assert_eq!(self.states.len(), (t + 1) * b * d);
        assert_eq!(self.last_state.len(), b * d);
        assert!(self.mask.is_none_or(|m| m.len() == b * d));
    }
}

/// i, f, o = sigmoid(..), g = tanh(..), c = f c' + i g, h = o tanh(c), for all steps of a window.
pub fn forward(team: &Team, weights: &RecurrentWeights, w: &mut Window<'_>) {
    let (d, steps, batch) = (weights.hidden, w.steps, w.batch);
    w.check(d);
    let barrier = weights.barrier(team);
    let (gates, cells, tanh_cells) =
        (Shared(w.gates.as_mut_ptr()), Shared(w.cells.as_mut_ptr()), Shared(w.tanh_cells.as_mut_ptr()));
    let (states, last) = (Shared(w.states.as_mut_ptr()), Shared(w.last_state.as_mut_ptr()));
    let mask = w.mask;
    weights.run(team, |m| {
        let member = &weights.members[m];
        let n = member.units.len();
        PRODUCTS.with_borrow_mut(|products| {
            products.grow(batch * 4 * n);
            for t in 0..steps {
                if n > 0 {
                    // SAFETY: step t of the states is complete (barrier) and nobody writes to it any more.
                    let previous = unsafe { std::slice::from_raw_parts(states.at(t * batch * d), batch * d) };
                    gemm_alone(Mat::new(previous, batch, d), &member.forward, products, Into::Overwrite);
                    for b in 0..batch {
                        let unit = b * d + member.units.start;
                        // SAFETY: all pointers are to n elements that belong to this member's units, in slices whose
                        // sizes `check` has verified.
                        unsafe {
                            forward_units(
                                weights.isa,
                                n,
                                d,
                                products.as_ptr().add(b * 4 * n),
                                gates.at((t * batch + b) * 4 * d + member.units.start),
                                cells.at(t * batch * d + unit),
                                cells.at((t + 1) * batch * d + unit),
                                tanh_cells.at(t * batch * d + unit),
                                states.at((t + 1) * batch * d + unit),
                                if t + 1 == steps { last.at(unit) } else { std::ptr::null_mut() },
                                mask.map_or(std::ptr::null(), |m| m.as_ptr().add(unit)),
                            );
                        }
                    }
                }
                barrier.wait();
            }
        });
    });
}

multiversion! {
    /// One stream's `n` units of one step. `last` and `mask` may be null.
    ///
    /// # Safety
    /// `products`: 4n elements, gate after gate; `gates`: four times n elements at a stride of `d`; the others n elements.
    unsafe fn forward_units = forward_units_generic(
        n: usize, d: usize, products: *const f32, gates: *mut f32, cell_before: *const f32, cell: *mut f32,
        tanh_cell: *mut f32, state: *mut f32, last: *mut f32, mask: *const f32,
    )
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn forward_units_generic<S: Simd>(
    n: usize,
    d: usize,
    products: *const f32,
    gates: *mut f32,
    cell_before: *const f32,
    cell: *mut f32,
    tanh_cell: *mut f32,
    state: *mut f32,
    last: *mut f32,
    mask: *const f32,
) {
    let whole = n / S::LANES * S::LANES;
    // A function of its own, always inlined, rather than a closure: those are compiled without the CPU feature.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    unsafe fn register<S: Simd, const WHOLE: bool>(
        (u, n, d, rest): (usize, usize, usize, usize),
        products: *const f32,
        gates: *mut f32,
        cell_before: *const f32,
        cell: *mut f32,
        tanh_cell: *mut f32,
        state: *mut f32,
        last: *mut f32,
        mask: *const f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut gate = [S::splat(0.0); 4];
            for (k, gate) in gate.iter_mut().enumerate() {
                let from_input = S::load_some::<WHOLE>(gates.add(k * d + u), rest);
                *gate = S::add(from_input, S::load_some::<WHOLE>(products.add(k * n + u), rest));
            }
            let i = sigmoid::<S>(gate[0]);
            let f = sigmoid::<S>(gate[1]);
            let g = tanh::<S>(gate[2]);
            let o = sigmoid::<S>(gate[3]);
            let c = S::fma(f, S::load_some::<WHOLE>(cell_before.add(u), rest), S::mul(i, g));
            let tanh_c = tanh::<S>(c);
            let h = S::mul(o, tanh_c);
            for (k, activation) in [i, f, g, o].into_iter().enumerate() {
                S::store_some::<WHOLE>(gates.add(k * d + u), rest, activation);
            }
            S::store_some::<WHOLE>(cell.add(u), rest, c);
            S::store_some::<WHOLE>(tanh_cell.add(u), rest, tanh_c);
            let masked = if mask.is_null() { h } else { S::mul(h, S::load_some::<WHOLE>(mask.add(u), rest)) };
            S::store_some::<WHOLE>(state.add(u), rest, masked);
            if !last.is_null() {
                S::store_some::<WHOLE>(last.add(u), rest, h);
            }
        }
    }
    // SAFETY: the caller's promise; the last, partial register stays inside the n units.
    unsafe {
        for u in (0..whole).step_by(S::LANES) {
            let at = (u, n, d, S::LANES);
            register::<S, true>(at, products, gates, cell_before, cell, tanh_cell, state, last, mask);
        }
        if whole < n {
            let at = (whole, n, d, n - whole);
            register::<S, false>(at, products, gates, cell_before, cell, tanh_cell, state, last, mask);
        }
    }
}

/// From `d_states`, (T, B, d), the gradient by the masked states as the layer above sees them, to the gradient by the
/// gates (left in `w.gates`). `d_cell`, (B, d), is room to work in. The chain ends at the first step of the window.
pub fn backward(team: &Team, weights: &RecurrentWeights, w: &mut Window<'_>, d_states: &[f32], d_cell: &mut [f32]) {
    let (d, steps, batch) = (weights.hidden, w.steps, w.batch);
    w.check(d);
    assert_eq!(d_states.len(), steps * batch * d);
    assert_eq!(d_cell.len(), batch * d);
    d_cell.fill(0.0);
    let barrier = weights.barrier(team);
    let (gates, d_cell) = (Shared(w.gates.as_mut_ptr()), Shared(d_cell.as_mut_ptr()));
    let (cells, tanh_cells, mask) = (&*w.cells, &*w.tanh_cells, w.mask);
    weights.run(team, |m| {
        let member = &weights.members[m];
        let n = member.units.len();
        PRODUCTS.with_borrow_mut(|products| {
            products.grow(batch * 4 * n);
            for t in (0..steps).rev() {
                if n > 0 {
                    if t + 1 == steps {
                        products[..batch * n].fill(0.0);
                    } else {
                        let at = (t + 1) * batch * 4 * d;
                        // SAFETY: the gradient of step t + 1 is complete (barrier) and nobody writes to it any more.
                        let after = unsafe { std::slice::from_raw_parts(gates.at(at), batch * 4 * d) };
                        gemm_alone(Mat::new(after, batch, 4 * d), &member.backward, products, Into::Overwrite);
                    }
                    for b in 0..batch {
                        let unit = b * d + member.units.start;
                        let at = t * batch * d + unit;
                        // SAFETY: all pointers are to n elements that belong to this member's units, in slices whose
                        // sizes have been verified above.
                        unsafe {
                            backward_units(
                                weights.isa,
                                n,
                                d,
                                products.as_ptr().add(b * n),
                                d_states.as_ptr().add(at),
                                mask.map_or(std::ptr::null(), |m| m.as_ptr().add(unit)),
                                gates.at((t * batch + b) * 4 * d + member.units.start),
                                cells.as_ptr().add(at),
                                tanh_cells.as_ptr().add(at),
                                d_cell.at(unit),
                            );
                        }
                    }
                }
                barrier.wait();
            }
        });
    });
}

multiversion! {
    /// One stream's `n` units of one step, backwards. `mask` may be null.
    ///
    /// # Safety
    /// `gates`: four times n elements at a stride of `d`; the others n elements.
    unsafe fn backward_units = backward_units_generic(
        n: usize, d: usize, products: *const f32, d_state: *const f32, mask: *const f32, gates: *mut f32,
        cell_before: *const f32, tanh_cell: *const f32, d_cell: *mut f32,
    )
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn backward_units_generic<S: Simd>(
    n: usize,
    d: usize,
    products: *const f32,
    d_state: *const f32,
    mask: *const f32,
    gates: *mut f32,
    cell_before: *const f32,
    tanh_cell: *const f32,
    d_cell: *mut f32,
) {
    let whole = n / S::LANES * S::LANES;
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    unsafe fn register<S: Simd, const WHOLE: bool>(
        (u, d, rest): (usize, usize, usize),
        products: *const f32,
        d_state: *const f32,
        mask: *const f32,
        gates: *mut f32,
        cell_before: *const f32,
        tanh_cell: *const f32,
        d_cell: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let one = S::splat(1.0);
            let i = S::load_some::<WHOLE>(gates.add(u), rest);
            let f = S::load_some::<WHOLE>(gates.add(d + u), rest);
            let g = S::load_some::<WHOLE>(gates.add(2 * d + u), rest);
            let o = S::load_some::<WHOLE>(gates.add(3 * d + u), rest);
            let tanh_c = S::load_some::<WHOLE>(tanh_cell.add(u), rest);
            let from_above = S::load_some::<WHOLE>(d_state.add(u), rest);
            let d_masked = S::add(from_above, S::load_some::<WHOLE>(products.add(u), rest));
            let d_h =
                if mask.is_null() { d_masked } else { S::mul(d_masked, S::load_some::<WHOLE>(mask.add(u), rest)) };
            // h = o tanh(c)
            let d_o = S::mul(d_h, tanh_c);
            let through_tanh = S::sub(one, S::mul(tanh_c, tanh_c));
            let d_c = S::fma(S::mul(d_h, o), through_tanh, S::load_some::<WHOLE>(d_cell.add(u), rest));
            // c = f c' + i g
            let d_i = S::mul(d_c, g);
            let d_f = S::mul(d_c, S::load_some::<WHOLE>(cell_before.add(u), rest));
            let d_g = S::mul(d_c, i);
            S::store_some::<WHOLE>(d_cell.add(u), rest, S::mul(d_c, f));
            // through the activations: sigmoid' = y (1 - y), tanh' = 1 - y^2
            let d_i = S::mul(d_i, S::mul(i, S::sub(one, i)));
            let d_f = S::mul(d_f, S::mul(f, S::sub(one, f)));
            let d_g = S::mul(d_g, S::sub(one, S::mul(g, g)));
            let d_o = S::mul(d_o, S::mul(o, S::sub(one, o)));
            for (k, d_gate) in [d_i, d_f, d_g, d_o].into_iter().enumerate() {
                S::store_some::<WHOLE>(gates.add(k * d + u), rest, d_gate);
            }
        }
    }
    // SAFETY: the caller's promise; the last, partial register stays inside the n units.
    unsafe {
        for u in (0..whole).step_by(S::LANES) {
            let at = (u, d, S::LANES);
            register::<S, true>(at, products, d_state, mask, gates, cell_before, tanh_cell, d_cell);
        }
        if whole < n {
            let at = (whole, d, n - whole);
            register::<S, false>(at, products, d_state, mask, gates, cell_before, tanh_cell, d_cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    struct Layer {
        steps: usize,
        batch: usize,
        w_hh: Vec<f32>,
        gates: Vec<f32>,
        cells: Vec<f32>,
        tanh_cells: Vec<f32>,
        states: Vec<f32>,
        last: Vec<f32>,
        mask: Option<Vec<f32>>,
        d_states: Vec<f32>,
    }

    impl Layer {
        fn random(steps: usize, batch: usize, d: usize, masked: bool) -> Layer {
            let r = |seed, n| reference::numbers(seed, n);
            let mask = masked.then(|| r(9, batch * d).iter().map(|&x| if x > 0.0 { 2.0 } else { 0.0 }).collect());
            Layer {
                steps,
                batch,
                w_hh: r(1, 4 * d * d),
                gates: r(2, steps * batch * 4 * d),
                cells: r(3, (steps + 1) * batch * d),
                tanh_cells: vec![0.0; steps * batch * d],
                states: r(4, (steps + 1) * batch * d),
                last: vec![0.0; batch * d],
                mask,
                d_states: r(5, steps * batch * d),
            }
        }

        fn window(&mut self) -> Window<'_> {
            Window {
                steps: self.steps,
                batch: self.batch,
                gates: &mut self.gates,
                cells: &mut self.cells,
                tanh_cells: &mut self.tanh_cells,
                states: &mut self.states,
                last_state: &mut self.last,
                mask: self.mask.as_deref(),
            }
        }
    }

    fn close(got: &[f32], want: &[f64], what: &str) {
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!((f64::from(*g) - w).abs() < 5e-6 * w.abs().max(1.0), "{what}[{i}]: {g} {w}");
        }
    }

    #[test]
    fn forward_and_backward_agree_with_the_naive_layer() {
        for isa in Isa::available() {
            for (steps, batch, d) in [(1, 1, 1), (3, 2, 5), (4, 3, 19), (5, 20, 133)] {
                for masked in [false, true] {
                    let mut layer = Layer::random(steps, batch, d, masked);
                    let team = Team::new(2);
                    let mut weights = RecurrentWeights::new(isa, Precision::F32, 2, d);
                    weights.pack(&team, &layer.w_hh, true);
                    let mut naive = reference::Lstm::forward(
                        steps,
                        batch,
                        d,
                        &layer.w_hh,
                        &layer.gates,
                        &layer.cells[..batch * d],
                        &layer.states[..batch * d],
                        layer.mask.as_deref(),
                    );
                    forward(&team, &weights, &mut layer.window());
                    close(&layer.gates, &naive.gates, "activations");
                    close(&layer.cells[batch * d..], &naive.cells[batch * d..], "cells");
                    close(&layer.states[batch * d..], &naive.states[batch * d..], "states");
                    close(&layer.last, &naive.last, "last state");
                    naive.backward(&layer.w_hh, layer.mask.as_deref(), &layer.d_states);
                    let (d_states, mut d_cell) = (layer.d_states.clone(), vec![1.0; batch * d]);
                    backward(&team, &weights, &mut layer.window(), &d_states, &mut d_cell);
                    close(&layer.gates, &naive.gates, "gradient by the gates");
                }
            }
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        for (isa, precision) in
            Isa::available().into_iter().flat_map(|i| Precision::all_available(i).into_iter().map(move |p| (i, p)))
        {
            let run = |threads| {
                let mut layer = Layer::random(6, 20, 137, true);
                let team = Team::new(threads);
                let mut weights = RecurrentWeights::new(isa, precision, threads, 137);
                weights.pack(&team, &layer.w_hh, true);
                forward(&team, &weights, &mut layer.window());
                let (d_states, mut d_cell) = (layer.d_states.clone(), vec![0.0; 20 * 137]);
                backward(&team, &weights, &mut layer.window(), &d_states, &mut d_cell);
                (layer.gates, layer.states, layer.last)
            };
            let one = run(1);
            for threads in 2..=5 {
                assert!(run(threads) == one, "{isa:?}, {threads} threads");
            }
        }
    }
}
