//! What is known after the words that were read.

use crate::architecture::Architecture;
use crate::model::State;
use crate::predictor::Snapshot;

/// What a reader knows after some words of one text. The default is the memory of a text's beginning: nothing was read.
#[derive(Clone, Default)]
pub struct Memory(pub(super) Past);

/// What there is to know depends on who reads.
#[derive(Clone, Default)]
pub(super) enum Past {
    /// Nothing was read.
    #[default]
    Nothing,
    /// The state of all layers of a network, for one stream of words.
    State(State),
    /// What a predictor gave out.
    Snapshot(Snapshot),
}

impl Memory {
    /// The output of the last layer, (d), from which a network predicts the next word.
    pub(super) fn output(&self) -> &[f32] {
        let Past::State(state) = &self.0 else { return &[] };
        state.layers.last().map_or(&[], |layer| &layer.h)
    }

    /// Puts it into row `row` of the state of many.
    pub(super) fn put(&self, state: &mut State, row: usize) {
        let Past::State(own) = &self.0 else { return };
        for (to, from) in state.layers.iter_mut().zip(&own.layers) {
            let d = from.h.len();
            to.h[row * d..][..d].copy_from_slice(&from.h);
            to.c[row * d..][..d].copy_from_slice(&from.c);
        }
    }

    /// Takes it from row `row` of the state of many.
    pub(super) fn take(architecture: Architecture, state: &State, row: usize) -> Memory {
        let (d, mut memory) = (architecture.hidden, State::zeros(architecture, 1));
        for (to, from) in memory.layers.iter_mut().zip(&state.layers) {
            to.h.copy_from_slice(&from.h[row * d..][..d]);
            to.c.copy_from_slice(&from.c[row * d..][..d]);
        }
        Memory(Past::State(memory))
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Past::Nothing => "Memory(nothing)",
            Past::State(_) => "Memory(state)",
            Past::Snapshot(_) => "Memory(snapshot)",
        })
    }
}
