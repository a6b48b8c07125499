//! The recurrent part of a layer over a whole window, forward and backward.
//!
//! The products with the inputs are done for all steps at once by the caller ([`crate::gemm`]); what is left is the chain
//! through time ([`chain`]), which is the same for all units, and what a unit computes, a file each.
//!
//! A step may have several *levels*, each with a recurrent matrix of its own: the first one finds what the last level of the
//! step before left, the others what the level below left.

mod chain;
mod gru;
mod highway;
mod lstm;
mod rnn;

use crate::bf16::Precision;
use crate::cpu::Isa;
use crate::matrix::Mat;
use crate::pack::PackedB;
use crate::team::{Barrier, SMALL_PRODUCT, Team};
use chain::Cell;
use std::ops::Range;

/// Streams that are usually worked on at once; what is a small layer is decided for these.
const USUAL_BATCH: usize = 20;

/// What a layer's units compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// [`lstm`].
    Lstm,
    /// [`lstm`], with the coupled input gate.
    CoupledLstm,
    /// [`gru`].
    Gru,
    /// [`rnn`] with tanh.
    RnnTanh,
    /// [`rnn`] with the logistic function.
    RnnSigmoid,
    /// [`rnn`] with a rectifier.
    RnnRelu,
    /// [`highway`].
    Highway,
}

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 7] =
        [Unit::Lstm, Unit::CoupledLstm, Unit::Gru, Unit::RnnTanh, Unit::RnnSigmoid, Unit::RnnRelu, Unit::Highway];
}

/// Evaluates an expression with the unit's cell as a type.
macro_rules! with_cell {
    ($unit:expr, $cell:ident => $body:expr) => {
        match $unit {
            Unit::Lstm => {
                type $cell = lstm::Lstm<false>;
                $body
            }
            Unit::CoupledLstm => {
                type $cell = lstm::Lstm<true>;
                $body
            }
            Unit::Gru => {
                type $cell = gru::Gru;
                $body
            }
            Unit::RnnTanh => {
                type $cell = rnn::Rnn<rnn::Tanh>;
                $body
            }
            Unit::RnnSigmoid => {
                type $cell = rnn::Rnn<rnn::Sigmoid>;
                $body
            }
            Unit::RnnRelu => {
                type $cell = rnn::Rnn<rnn::Relu>;
                $body
            }
            Unit::Highway => {
                type $cell = highway::Highway;
                $body
            }
        }
    };
}

impl Unit {
    /// Rows of the recurrent matrix for each unit.
    pub fn gates(self) -> usize {
        with_cell!(self, C => C::GATES)
    }

    /// Whether [`Window::carried`] is needed.
    pub fn carries(self) -> bool {
        with_cell!(self, C => C::CARRIES)
    }

    /// Whether [`Window::saved`] is needed.
    pub fn saves(self) -> bool {
        with_cell!(self, C => C::SAVES)
    }

    /// Whether [`Window::d_products`] is needed.
    pub fn splits(self) -> bool {
        with_cell!(self, C => C::SPLITS)
    }
}

/// Runs the chain of a window.
pub fn forward(unit: Unit, team: &Team, levels: &Levels<'_>, window: &mut Window<'_>) {
    with_cell!(unit, C => chain::forward::<C>(team, levels, window));
}

/// From `d_outputs`, (T, B, d), the gradient by what the layer above sees, to the gradient by the gates, left in
/// [`Window::gates`] and [`Window::d_products`]. `d_carried`, (B, d), is room to work in. The chain ends at the first step of the
/// window.
pub fn backward(
    unit: Unit,
    team: &Team,
    levels: &Levels<'_>,
    window: &mut Window<'_>,
    d_outputs: &[f32],
    d_carried: &mut [f32],
) {
    d_carried.fill(0.0);
    backward_on(unit, team, levels, window, d_outputs, d_carried);
}

/// The same of a window that others follow: `d_carried` is the gradient by what the window carries on, and then by what was
/// carried in. (The gradient by the state that it leaves is a part of `d_outputs`.)
pub fn backward_on(
    unit: Unit,
    team: &Team,
    levels: &Levels<'_>,
    window: &mut Window<'_>,
    d_outputs: &[f32],
    d_carried: &mut [f32],
) {
    with_cell!(unit, C => chain::backward::<C>(team, levels, window, d_outputs, d_carried));
}

/// A recurrent matrix, (G d, d), gate after gate, divided among the members of a team.
pub struct RecurrentWeights {
    isa: Isa,
    gates: usize,
    hidden: usize,
    members: Vec<Member>,
}

/// One member's share.
struct Member {
    units: Range<usize>,
    /// (d, G n): from the state to the gates of its n units, gate after gate.
    forward: PackedB,
    /// (G d, n): from the gradient of all gates back to its n units.
    backward: PackedB,
}

impl RecurrentWeights {
    /// Room for a layer of `hidden` units with `gates` gates each, worked on by `threads` members.
    pub fn new(isa: Isa, precision: Precision, threads: usize, gates: usize, hidden: usize) -> RecurrentWeights {
        // A step of a small layer is over sooner than the members could meet: then one of them does it all.
        let threads = if size(&[gates, hidden, hidden, USUAL_BATCH]).is_some_and(|n| n < 2 * SMALL_PRODUCT) {
            1
        } else {
            threads.max(1)
        };
        let share = hidden.div_ceil(threads).next_multiple_of(4);
        let members = (0..threads)
            .map(|m| Member {
                units: (m * share).min(hidden)..((m + 1) * share).min(hidden),
                forward: PackedB::new(isa, precision),
                backward: PackedB::new(isa, precision),
            })
            .collect();
        RecurrentWeights { isa, gates, hidden, members }
    }

    /// Takes new weights, for [`forward`] and, if asked, for [`backward`].
    pub fn pack(&mut self, team: &Team, w_hh: &[f32], for_backward: bool) {
        let (d, gates) = (self.hidden, self.gates);
        assert_size("w_hh", w_hh, &[gates, d, d]);
        team.for_each(self.members.iter_mut(), |member| {
            let Range { start, end } = member.units;
            let n = end - start;
            if n > 0 {
                member.forward.pack_columns_alone(d, gates * n, |j| {
                    let row = (j / n) * d + start + j % n;
                    &w_hh[row * d..(row + 1) * d]
                });
                if for_backward {
                    member.backward.pack_alone(Mat::new(w_hh, gates * d, d).columns(start..end));
                }
            }
        });
    }

    /// Bytes the packed weights take.
    pub fn bytes(&self) -> usize {
        self.members.iter().map(|m| m.forward.bytes() + m.backward.bytes()).sum()
    }
}

/// The recurrent weights of a layer, level by level; all of one size.
#[derive(Clone, Copy)]
pub struct Levels<'a> {
    /// Of each level one of `G` gates; or, if [`Levels::parts`] is `G`, `G` of one gate.
    pub weights: &'a [RecurrentWeights],
    /// How many masks the state has: one for all gates, or one for each of the `G`, which then has a product of its own.
    pub parts: usize,
    /// (G d), added to the first level's products with the state.
    pub bias: Option<&'a [f32]>,
    /// From what the last level of the step before left straight to the last level; for one mask.
    pub shortcut: Option<&'a RecurrentWeights>,
}

impl<'a> Levels<'a> {
    fn count(&self) -> usize {
        self.weights.len() / self.parts
    }

    /// The weights of a level that are multiplied with the state of the `part`th mask.
    fn of(&self, level: usize, part: usize) -> &'a RecurrentWeights {
        &self.weights[level * self.parts + part]
    }

    fn hidden(&self) -> usize {
        self.weights[0].hidden
    }

    fn isa(&self) -> Isa {
        self.weights[0].isa
    }

    fn units(&self, member: usize) -> Range<usize> {
        self.weights[0].members[member].units.clone()
    }

    fn bias(&self, level: usize) -> Option<&'a [f32]> {
        self.bias.filter(|_| level == 0)
    }

    fn barrier(&self, team: &Team) -> Barrier {
        let members = self.weights[0].members.len();
        assert!([1, team.threads()].contains(&members), "packed for another team");
        Barrier::new(members)
    }

    /// Runs `f` on each member that has a share.
    fn run(&self, team: &Team, f: impl Fn(usize) + Sync) {
        if self.weights[0].members.len() == 1 { f(0) } else { team.run(f) }
    }
}

/// A window of one layer. `T` steps of `L` levels, `B` streams, `d` units of `G` gates, `P` masks ([`Levels::parts`]); everything
/// row-major, level first, then time. Buffers that the unit does not need are empty.
pub struct Window<'a> {
    /// Steps `T`.
    pub steps: usize,
    /// Streams `B`.
    pub batch: usize,
    /// (L, T, B, G d). Before [`forward`]: the inputs' share of the gates, with the bias. After it: the activations of the
    /// gates. After [`backward`]: the gradient by the inputs' share.
    pub gates: &'a mut [f32],
    /// (L, T, B, G d), after [`backward`]: the gradient by the products with the state, if the unit [splits](Unit::splits) it.
    pub d_products: &'a mut [f32],
    /// (L, T + 1, B, d): what the unit [carries](Unit::carries); of the last level the first must be set before [`forward`].
    pub carried: &'a mut [f32],
    /// (L, T, B, d): what the unit [saves](Unit::saves) for the way back.
    pub saved: &'a mut [f32],
    /// (P, L, T + 1, B, d): the states as the chain consumes them, with their masks; of the last level the first must be set
    /// before [`forward`].
    pub states: &'a mut [f32],
    /// (T, B, d): the states without their mask, where the layer above does not see them with it, as it cannot if there are
    /// several; or empty.
    pub outputs: &'a mut [f32],
    /// (B, d): the state after the last step, without its mask, to be carried on.
    pub last_state: &'a mut [f32],
    /// The dropout masks of the states, scaled: (P, B, d), or (P, T, B, d) if they are others in every step; `None` when
    /// evaluating.
    pub mask: Option<&'a [f32]>,
}

impl Window<'_> {
    /// All sizes that the chain's pointers rely on.
    fn check<C: Cell>(&self, levels: &Levels<'_>) {
        let parts = levels.parts;
        assert!(parts == 1 || parts == C::GATES && levels.shortcut.is_none() && !self.outputs.is_empty());
        assert!(!levels.weights.is_empty() && levels.weights.len().is_multiple_of(parts));
        let (l, t, b, d) = (levels.count(), self.steps, self.batch, levels.hidden());
        for weights in levels.weights.iter().chain(levels.shortcut) {
            assert_eq!((weights.gates, weights.hidden), (C::GATES / parts, d));
            assert_eq!(weights.members.len(), levels.weights[0].members.len());
        }
        if let Some(bias) = levels.bias {
            assert_size("bias", bias, &[C::GATES, d]);
        }
        let and_one = t.saturating_add(1);
        assert_size("gates", self.gates, &[l, t, b, C::GATES, d]);
        if C::SPLITS {
            assert_size("d_products", self.d_products, &[l, t, b, C::GATES, d]);
        }
        if C::CARRIES {
            assert_size("carried", self.carried, &[l, and_one, b, d]);
        }
        if C::SAVES {
            assert_size("saved", self.saved, &[l, t, b, d]);
        }
        assert_size("states", self.states, &[parts, l, and_one, b, d]);
        if !self.outputs.is_empty() {
            assert_size("outputs", self.outputs, &[t, b, d]);
        }
        assert_size("last_state", self.last_state, &[b, d]);
        if let Some(mask) = self.mask.filter(|mask| size(&[parts, b, d]) != Some(mask.len())) {
            assert_size("mask", mask, &[parts, t, b, d]);
        }
    }
}

/// Number of elements, if it can be counted.
fn size(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1, |n: usize, &size| n.checked_mul(size))
}

/// The product of sizes that do not fit a slice can come out as its length, if it is let overflow.
fn assert_size(what: &str, x: &[f32], sizes: &[usize]) {
    assert!(size(sizes) == Some(x.len()), "{what}: {} elements for {sizes:?}", x.len());
}

#[cfg(test)]
mod tests;
