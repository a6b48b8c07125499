//! What a network knows after the words it has read.

use crate::model::State;
use crate::spec::ModelSpec;

/// The state of all layers after some words, for one stream of words.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    state: State,
}

impl Memory {
    /// Nothing has been read yet.
    pub fn empty(spec: &ModelSpec) -> Memory {
        Memory { state: State::zeros(spec, 1) }
    }

    /// The state behind it.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Puts it into row `row` of the state of many.
    pub(super) fn put(&self, state: &mut State, row: usize) {
        state.put(row, &self.state);
    }

    /// Takes it from row `row` of the state of many.
    pub(super) fn take(state: &State, row: usize) -> Memory {
        Memory { state: state.take(row) }
    }
}
