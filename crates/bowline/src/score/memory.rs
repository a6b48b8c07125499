//! What is known after the words that were read.

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
    /// The state of a network after what was read; nothing where there is another way of remembering.
    pub(super) fn state(&self) -> Option<&State> {
        match &self.0 {
            Past::State(state) => Some(state),
            _ => None,
        }
    }

    /// Puts it into row `row` of the state of many.
    pub(super) fn put(&self, state: &mut State, row: usize) {
        if let Past::State(own) = &self.0 {
            state.put(row, own);
        }
    }

    /// Takes it from row `row` of the state of many.
    pub(super) fn take(state: &State, row: usize) -> Memory {
        Memory(Past::State(state.take(row)))
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
