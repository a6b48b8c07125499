//! What a network knows after the words it has read.

use crate::architecture::Architecture;
use crate::model::State;

/// The state of all layers after some words, for one stream of words.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    state: State,
}

impl Memory {
    /// Nothing has been read yet.
    pub fn empty(architecture: Architecture) -> Memory {
        Memory { state: State::zeros(architecture, 1) }
    }

    /// The output of the last layer, (d), from which the next word is predicted.
    pub(super) fn output(&self) -> &[f32] {
        self.state.layers.last().map_or(&[], |layer| &layer.h)
    }

    /// Puts it into row `row` of the state of many.
    pub(super) fn put(&self, state: &mut State, row: usize) {
        for (to, from) in state.layers.iter_mut().zip(&self.state.layers) {
            let d = from.h.len();
            to.h[row * d..][..d].copy_from_slice(&from.h);
            to.c[row * d..][..d].copy_from_slice(&from.c);
        }
    }

    /// Takes it from row `row` of the state of many.
    pub(super) fn take(architecture: Architecture, state: &State, row: usize) -> Memory {
        let (d, mut memory) = (architecture.hidden, Memory::empty(architecture));
        for (to, from) in memory.state.layers.iter_mut().zip(&state.layers) {
            to.h.copy_from_slice(&from.h[row * d..][..d]);
            to.c.copy_from_slice(&from.c[row * d..][..d]);
        }
        memory
    }
}
