//! The chain through time, compiled once for each [`Cell`].
//!
//! Each member of the team owns a range of units: at every step it multiplies the states with its own columns of the recurrent
//! matrix (packed once per window), does the element-wise part for its units, and meets the others.

use super::{Levels, Window, assert_size};
use crate::buffer::Buffer;
use crate::cpu::{Isa, Kind};
use crate::gemm::{Into, gemm_alone};
use crate::matrix::Mat;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Portable, Simd};
use crate::team::Team;
use std::cell::RefCell;
use std::ptr::{null, null_mut};

/// The most gates a cell has.
pub(super) const MOST: usize = 4;

/// What one unit computes in one step: a function of a few numbers, for a whole register of units at a time.
///
/// # Safety
/// The methods may be called only on a CPU that has the instruction set `S`.
pub(super) trait Cell {
    /// Rows of the recurrent matrix for each unit.
    const GATES: usize;
    /// Whether a number besides the (masked) state goes on to the next step: an LSTM's cell, a GRU's unmasked state.
    const CARRIES: bool;
    /// Whether the way back needs a number besides the activations of the gates.
    const SAVES: bool;
    /// Whether the gradient by the products with the state is another one than by the inputs' share.
    const SPLITS: bool;

    /// `inputs`: the inputs' share of the gates, with their bias; `products`: the state's; of both the first `GATES` count.
    unsafe fn forward<S: Simd>(inputs: [S::V; MOST], products: [S::V; MOST], carried: S::V) -> Forward<S>;

    /// `d_h` is the gradient by the state, `d_carried` that by what was carried on.
    unsafe fn backward<S: Simd>(kept: Kept<S>, d_h: S::V, d_carried: S::V) -> Backward<S>;
}

/// What came of a step.
pub(super) struct Forward<S: Simd> {
    /// Kept in the place of the inputs' share.
    pub activations: [S::V; MOST],
    /// What goes on to the next step, where the cell [carries](Cell::CARRIES) anything.
    pub carried: S::V,
    /// What else the way back needs, where the cell [saves](Cell::SAVES) anything.
    pub saved: S::V,
    /// The state, without a mask.
    pub h: S::V,
}

/// What the way back has to go by.
pub(super) struct Kept<S: Simd> {
    pub activations: [S::V; MOST],
    /// What was carried into the step.
    pub carried: S::V,
    pub saved: S::V,
}

/// The gradient of a step.
pub(super) struct Backward<S: Simd> {
    /// By the inputs' share of the gates.
    pub d_inputs: [S::V; MOST],
    /// By the products, where that is [another one](Cell::SPLITS).
    pub d_products: [S::V; MOST],
    /// By what was carried into the step.
    pub d_carried: S::V,
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

    /// The same where there is such a buffer.
    unsafe fn at_if(self, there: bool, n: usize) -> *mut f32 {
        // SAFETY: as above.
        if there { unsafe { self.at(n) } } else { null_mut() }
    }
}

thread_local! {
    /// A member's own products of one step.
    static PRODUCTS: RefCell<Buffer> = const { RefCell::new(Buffer::new()) };
}

/// Where a window's steps are in its buffers: level `l` of step `t`.
#[derive(Clone, Copy)]
struct Places {
    /// Masks.
    parts: usize,
    levels: usize,
    steps: usize,
    /// Units of all streams, `B d`.
    step: usize,
}

impl Places {
    /// In a buffer of (L, T, ..).
    fn at(self, l: usize, t: usize) -> usize {
        (l * self.steps + t) * self.step
    }

    /// In a buffer of (L, T + 1, ..), what the level leaves.
    fn after(self, l: usize, t: usize) -> usize {
        (l * (self.steps + 1) + t + 1) * self.step
    }

    /// What the level finds: the level below, and below the first one the last of the step before.
    fn before(self, l: usize, t: usize) -> usize {
        if l > 0 { self.after(l - 1, t) } else { self.after(self.levels - 1, t) - self.step }
    }

    /// From the states with one mask to those with the next.
    fn part(self) -> usize {
        self.levels * (self.steps + 1) * self.step
    }
}

/// All steps of a window, forward.
pub(super) fn forward<C: Cell>(team: &Team, levels: &Levels<'_>, w: &mut Window<'_>) {
    let (d, batch) = (levels.hidden(), w.batch);
    w.check::<C>(levels);
    let parts = levels.parts;
    let places = Places { parts, levels: levels.count(), steps: w.steps, step: batch * d };
    let barrier = levels.barrier(team);
    let (gates, carried, saved) =
        (Shared(w.gates.as_mut_ptr()), Shared(w.carried.as_mut_ptr()), Shared(w.saved.as_mut_ptr()));
    let (states, last) = (Shared(w.states.as_mut_ptr()), Shared(w.last_state.as_mut_ptr()));
    let (outputs, apart) = (Shared(w.outputs.as_mut_ptr()), !w.outputs.is_empty());
    let (steps, mask) = (w.steps, w.mask);
    levels.run(team, |m| {
        let units = levels.units(m);
        let n = units.len();
        PRODUCTS.with_borrow_mut(|products| {
            products.grow(batch * C::GATES * n);
            for (t, l) in (0..steps).flat_map(|t| (0..places.levels).map(move |l| (t, l))) {
                let top = l + 1 == places.levels;
                if n > 0 {
                    // SAFETY: what the level finds is complete (barrier) and nobody writes to it any more.
                    let found = |at: usize| unsafe { std::slice::from_raw_parts(states.at(at), batch * d) };
                    for part in 0..parts {
                        let state = Mat::new(found(part * places.part() + places.before(l, t)), batch, d);
                        let (weights, into) =
                            (&levels.of(l, part).members[m].forward, &mut products[part * batch * n..]);
                        gemm_alone(state, weights, into, Into::Overwrite);
                    }
                    if let Some(shortcut) = levels.shortcut.filter(|_| top) {
                        let weights = &shortcut.members[m].forward;
                        gemm_alone(Mat::new(found(places.before(0, t)), batch, d), weights, products, Into::Accumulate);
                    }
                    for b in 0..batch {
                        let unit = b * d + units.start;
                        // SAFETY: all pointers are to n elements that belong to this member's units, in slices whose
                        // sizes `check` has verified.
                        unsafe {
                            forward_units::<C>(
                                levels.isa(),
                                &ForwardUnits {
                                    n,
                                    d,
                                    parts,
                                    products: products.as_ptr().add(b * C::GATES / parts * n),
                                    product_stride: if parts == 1 { n } else { batch * n },
                                    bias: levels.bias(l).map_or(null(), |bias| bias.as_ptr().add(units.start)),
                                    gates: gates.at((places.at(l, t) + b * d) * C::GATES + units.start),
                                    carried_before: carried.at_if(C::CARRIES, places.before(l, t) + unit),
                                    carried: carried.at_if(C::CARRIES, places.after(l, t) + unit),
                                    saved: saved.at_if(C::SAVES, places.at(l, t) + unit),
                                    state: states.at(places.after(l, t) + unit),
                                    state_stride: places.part(),
                                    output: outputs.at_if(apart && top, t * batch * d + unit),
                                    last: last.at_if(top && t + 1 == steps, unit),
                                    mask: mask.map_or(null(), |m| {
                                        m[mask_at(m, t + usize::from(top), places)..][unit..].as_ptr()
                                    }),
                                    mask_stride: mask.map_or(0, |m| m.len() / parts),
                                },
                            );
                        }
                    }
                }
                barrier.wait();
            }
        });
    });
}

/// Where the mask is of what is consumed in step `t`: a held one is the same at all steps. What the last step leaves is
/// consumed in the next window, with its mask.
fn mask_at(mask: &[f32], t: usize, places: Places) -> usize {
    if mask.len() == places.parts * places.step { 0 } else { t.min(places.steps - 1) * places.step }
}

/// From `d_outputs`, (T, B, d), the gradient by what the layer above sees, to the gradient by the gates, left in `w.gates`
/// (and, where the cell splits it, in `w.d_products`). `d_carried`, (B, d), is the gradient by what the window carries on, and
/// then by what was carried in. The chain ends at the first step of the window.
pub(super) fn backward<C: Cell>(
    team: &Team,
    levels: &Levels<'_>,
    w: &mut Window<'_>,
    d_outputs: &[f32],
    d_carried: &mut [f32],
) {
    let (d, batch, steps) = (levels.hidden(), w.batch, w.steps);
    w.check::<C>(levels);
    assert_size("d_outputs", d_outputs, &[steps, batch, d]);
    assert_size("d_carried", d_carried, &[batch, d]);
    let parts = levels.parts;
    let places = Places { parts, levels: levels.count(), steps, step: batch * d };
    let barrier = levels.barrier(team);
    let (gates, d_carried) = (Shared(w.gates.as_mut_ptr()), Shared(d_carried.as_mut_ptr()));
    let d_products = if C::SPLITS { Shared(w.d_products.as_mut_ptr()) } else { gates };
    let (carried, saved) = (Shared(w.carried.as_mut_ptr()), Shared(w.saved.as_mut_ptr()));
    let (mask, apart) = (w.mask, !w.outputs.is_empty());
    levels.run(team, |m| {
        let units = levels.units(m);
        let n = units.len();
        PRODUCTS.with_borrow_mut(|products| {
            products.grow(batch * C::GATES * n);
            for (t, l) in (0..steps).rev().flat_map(|t| (0..places.levels).rev().map(move |l| (t, l))) {
                let top = l + 1 == places.levels;
                if n > 0 {
                    // SAFETY: the gradient of what consumed this state is complete (barrier), and nobody writes to it any more.
                    let after = |l: usize, t: usize| unsafe {
                        let at = d_products.at(places.at(l, t) * C::GATES);
                        Mat::new(std::slice::from_raw_parts(at, batch * C::GATES * d), batch, C::GATES * d)
                    };
                    let mut back = |l: usize, t: usize| {
                        for part in 0..parts {
                            let gates = C::GATES / parts * d;
                            let d_gates = after(l, t).columns(part * gates..(part + 1) * gates);
                            let into = &mut products[part * batch * n..];
                            gemm_alone(d_gates, &levels.of(l, part).members[m].backward, into, Into::Overwrite);
                        }
                    };
                    if !top {
                        back(l + 1, t);
                    } else if t + 1 == steps {
                        products[..parts * batch * n].fill(0.0);
                    } else {
                        back(0, t + 1);
                        if let Some(shortcut) = levels.shortcut {
                            gemm_alone(after(l, t + 1), &shortcut.members[m].backward, products, Into::Accumulate);
                        }
                    }
                    for b in 0..batch {
                        let unit = b * d + units.start;
                        // SAFETY: all pointers are to n elements that belong to this member's units, in slices whose
                        // sizes have been verified above.
                        unsafe {
                            backward_units::<C>(
                                levels.isa(),
                                &BackwardUnits {
                                    n,
                                    d,
                                    parts,
                                    products: products.as_ptr().add(b * n),
                                    product_stride: batch * n,
                                    d_output: if top { d_outputs.as_ptr().add(t * batch * d + unit) } else { null() },
                                    apart,
                                    mask: mask.map_or(null(), |m| {
                                        m[mask_at(m, t + usize::from(top), places)..][unit..].as_ptr()
                                    }),
                                    mask_stride: mask.map_or(0, |m| m.len() / parts),
                                    gates: gates.at((places.at(l, t) + b * d) * C::GATES + units.start),
                                    d_products: d_products.at((places.at(l, t) + b * d) * C::GATES + units.start),
                                    carried: carried.at_if(C::CARRIES, places.before(l, t) + unit),
                                    saved: saved.at_if(C::SAVES, places.at(l, t) + unit),
                                    d_carried: d_carried.at(unit),
                                },
                            );
                        }
                    }
                }
                barrier.wait();
            }
        });
    });
}

/// One stream's `n` units of one step. `gates` and `bias`: `GATES` times n elements at a stride of `d`; `products`: likewise at a
/// stride of their own; `state` and `mask`: `parts` times n; the others n elements. What a cell does not have is null, and so may
/// `bias`, `output`, `last` and `mask` be.
struct ForwardUnits {
    n: usize,
    d: usize,
    parts: usize,
    products: *const f32,
    product_stride: usize,
    bias: *const f32,
    gates: *mut f32,
    carried_before: *const f32,
    carried: *mut f32,
    saved: *mut f32,
    state: *mut f32,
    state_stride: usize,
    output: *mut f32,
    last: *mut f32,
    mask: *const f32,
    mask_stride: usize,
}

/// The same for the way back, where `products` are `parts` times n elements. `d_output` is null below the top level; `apart` says
/// that the mask is not on it.
struct BackwardUnits {
    n: usize,
    d: usize,
    parts: usize,
    products: *const f32,
    product_stride: usize,
    d_output: *const f32,
    apart: bool,
    mask: *const f32,
    mask_stride: usize,
    gates: *mut f32,
    d_products: *mut f32,
    carried: *const f32,
    saved: *const f32,
    d_carried: *mut f32,
}

/// One function for each instruction set out of one that is generic over it, as [`crate::simd::multiversion!`] makes them, for
/// each cell.
macro_rules! for_each_cell {
    ($(#[$meta:meta])* $name:ident = $generic:ident($units:ty)) => {
        $(#[$meta])*
        unsafe fn $name<C: Cell>(isa: Isa, units: &$units) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                unsafe fn avx2<C: Cell>(units: &$units) {
                    // SAFETY: the feature is on in this function; the rest is the caller's promise.
                    unsafe { $generic::<Avx2, C>(units) }
                }
                #[target_feature(enable = "avx2,fma,avx512f")]
                unsafe fn avx512<C: Cell>(units: &$units) {
                    // SAFETY: as above.
                    unsafe { $generic::<Avx512, C>(units) }
                }
                // SAFETY: an Isa exists only where the CPU has it.
                unsafe {
                    match isa.kind() {
                        Kind::Avx512 => return avx512::<C>(units),
                        Kind::Avx2 => return avx2::<C>(units),
                        Kind::Portable => {}
                    }
                }
            }
            let _ = isa;
            // SAFETY: the caller's promise.
            unsafe { $generic::<Portable, C>(units) }
        }
    };
}

for_each_cell! {
    /// # Safety
    /// The pointers are as [`ForwardUnits`] says.
    forward_units = forward_generic(ForwardUnits)
}

for_each_cell! {
    /// # Safety
    /// The pointers are as [`BackwardUnits`] says.
    backward_units = backward_generic(BackwardUnits)
}

#[inline(always)]
unsafe fn forward_generic<S: Simd, C: Cell>(units: &ForwardUnits) {
    let (n, whole) = (units.n, units.n / S::LANES * S::LANES);
    // SAFETY: the caller's promise; the last, partial register stays inside the n units.
    unsafe {
        for u in (0..whole).step_by(S::LANES) {
            forward_register::<S, C, true>(units, u, S::LANES);
        }
        if whole < n {
            forward_register::<S, C, false>(units, whole, n - whole);
        }
    }
}

// A function of its own, always inlined, rather than a closure: those are compiled without the CPU feature.
#[inline(always)]
unsafe fn forward_register<S: Simd, C: Cell, const WHOLE: bool>(at: &ForwardUnits, u: usize, rest: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = S::splat(0.0);
        let (mut inputs, mut products) = ([zero; MOST], [zero; MOST]);
        for k in 0..C::GATES {
            inputs[k] = S::load_some::<WHOLE>(at.gates.add(k * at.d + u), rest);
            products[k] = S::load_some::<WHOLE>(at.products.add(k * at.product_stride + u), rest);
            if !at.bias.is_null() {
                products[k] = S::add(products[k], S::load_some::<WHOLE>(at.bias.add(k * at.d + u), rest));
            }
        }
        let carried = if C::CARRIES { S::load_some::<WHOLE>(at.carried_before.add(u), rest) } else { zero };
        let Forward { activations, carried, saved, h } = C::forward::<S>(inputs, products, carried);
        for (k, &activation) in activations.iter().enumerate().take(C::GATES) {
            S::store_some::<WHOLE>(at.gates.add(k * at.d + u), rest, activation);
        }
        if C::CARRIES {
            S::store_some::<WHOLE>(at.carried.add(u), rest, carried);
        }
        if C::SAVES {
            S::store_some::<WHOLE>(at.saved.add(u), rest, saved);
        }
        for part in 0..at.parts {
            let mask = at.mask.wrapping_add(part * at.mask_stride + u);
            let masked = if at.mask.is_null() { h } else { S::mul(h, S::load_some::<WHOLE>(mask, rest)) };
            S::store_some::<WHOLE>(at.state.add(part * at.state_stride + u), rest, masked);
        }
        if !at.output.is_null() {
            S::store_some::<WHOLE>(at.output.add(u), rest, h);
        }
        if !at.last.is_null() {
            S::store_some::<WHOLE>(at.last.add(u), rest, h);
        }
    }
}

#[inline(always)]
unsafe fn backward_generic<S: Simd, C: Cell>(units: &BackwardUnits) {
    let (n, whole) = (units.n, units.n / S::LANES * S::LANES);
    // SAFETY: the caller's promise; the last, partial register stays inside the n units.
    unsafe {
        for u in (0..whole).step_by(S::LANES) {
            backward_register::<S, C, true>(units, u, S::LANES);
        }
        if whole < n {
            backward_register::<S, C, false>(units, whole, n - whole);
        }
    }
}

#[inline(always)]
unsafe fn backward_register<S: Simd, C: Cell, const WHOLE: bool>(at: &BackwardUnits, u: usize, rest: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = S::splat(0.0);
        let mut activations = [zero; MOST];
        for (k, activation) in activations.iter_mut().enumerate().take(C::GATES) {
            *activation = S::load_some::<WHOLE>(at.gates.add(k * at.d + u), rest);
        }
        let kept = Kept {
            activations,
            carried: if C::CARRIES { S::load_some::<WHOLE>(at.carried.add(u), rest) } else { zero },
            saved: if C::SAVES { S::load_some::<WHOLE>(at.saved.add(u), rest) } else { zero },
        };
        let mask = if at.mask.is_null() { S::splat(1.0) } else { S::load_some::<WHOLE>(at.mask.add(u), rest) };
        // The state is consumed with its mask by the chain, and by the layer above either likewise or as it is.
        let through_time = S::load_some::<WHOLE>(at.products.add(u), rest);
        let mut masked = S::mul(through_time, mask);
        for part in 1..at.parts {
            let through_time = S::load_some::<WHOLE>(at.products.add(part * at.product_stride + u), rest);
            let ones = at.mask.is_null();
            let mask = if ones { mask } else { S::load_some::<WHOLE>(at.mask.add(part * at.mask_stride + u), rest) };
            masked = S::fma(through_time, mask, masked);
        }
        let d_h = if at.d_output.is_null() {
            masked
        } else {
            let from_above = S::load_some::<WHOLE>(at.d_output.add(u), rest);
            if at.apart { S::add(from_above, masked) } else { S::mul(S::add(from_above, through_time), mask) }
        };
        let d_carried = if C::CARRIES { S::load_some::<WHOLE>(at.d_carried.add(u), rest) } else { zero };
        let Backward { d_inputs, d_products, d_carried } = C::backward::<S>(kept, d_h, d_carried);
        for k in 0..C::GATES {
            S::store_some::<WHOLE>(at.gates.add(k * at.d + u), rest, d_inputs[k]);
            if C::SPLITS {
                S::store_some::<WHOLE>(at.d_products.add(k * at.d + u), rest, d_products[k]);
            }
        }
        if C::CARRIES {
            S::store_some::<WHOLE>(at.d_carried.add(u), rest, d_carried);
        }
    }
}
