//! The network inside a predictor, and how it reads: as trained, here; the other ways have files of their own.

use super::{Snapshot, inside};
use crate::batch::Window;
use crate::compute::Compute;
use crate::model::{Network, State, Use};
use crate::params::Params;
use bowline_kernels::{Isa, Team};
use std::sync::Arc;

/// Words that are worked on together.
pub(super) const BLOCK: usize = 200;

/// What is wanted of each word while it is read: `-log p` of its successor, at each of some temperatures.
pub(super) struct Ask<'a> {
    /// The word after each that is read.
    pub targets: &'a [u32],
    pub temperatures: &'a [f32],
    /// (words, temperatures).
    pub nll: &'a mut [f64],
}

/// A way of reading.
pub(super) trait Body: Send {
    /// How many words are best read at once.
    fn block(&self) -> usize {
        BLOCK
    }

    /// Forgets all.
    fn reset(&mut self);

    /// What it knows now.
    fn snapshot(&mut self) -> Snapshot;

    /// Goes back to there; [`Body::hidden`] is empty until words are read.
    fn restore(&mut self, snapshot: &Snapshot);

    /// Reads at most [`Body::block`] words.
    fn read(&mut self, words: &[u32], ask: Option<Ask<'_>>);

    /// What the classifier saw after each word of the last reading, (words, d).
    fn hidden(&self) -> &[f32];

    /// The distribution after the last word, (V) into `out`.
    fn distribution(&mut self, temperature: f32, out: &mut [f32]);

    /// Whether [`Body::distributions`] is to be had.
    fn keeps_distributions(&self) -> bool {
        false
    }

    /// The distribution after each word of the last reading, (words, V) into `out`.
    fn distributions(&mut self, _temperature: f32, _out: &mut [f32]) {}
}

/// The network as it was trained.
pub(super) struct Static {
    network: Network,
    params: Arc<Params>,
    state: State,
    window: Window,
    /// The outlook after the last word.
    last: Vec<f32>,
}

impl Static {
    pub(super) fn new(params: Arc<Params>, team: Arc<Team>, isa: Isa) -> Static {
        let spec = params.spec();
        let mut network = Network::new(spec, Compute::new(team, isa), Use::Evaluate, BLOCK, 1);
        network.pack(&params, Use::Evaluate);
        let state = State::zeros(spec, 1);
        Static { network, params, state, window: Window::default(), last: Vec::new() }
    }
}

impl Body for Static {
    fn reset(&mut self) {
        self.state.reset();
    }

    fn snapshot(&mut self) -> Snapshot {
        Arc::new((self.state.clone(), self.last.clone()))
    }

    fn restore(&mut self, snapshot: &Snapshot) {
        let (state, last): &(State, Vec<f32>) = inside(snapshot);
        self.state.copy_from(state);
        self.last.clone_from(last);
        self.window.steps = 0;
    }

    fn read(&mut self, words: &[u32], ask: Option<Ask<'_>>) {
        let window = &mut self.window;
        (window.steps, window.batch) = (words.len(), 1);
        window.inputs.clear();
        window.inputs.extend_from_slice(words);
        self.network.read(&self.params, window, &mut self.state, None);
        if let Some(ask) = ask {
            self.network.classify(&self.params, (words.len(), 1), ask.targets, ask.temperatures, ask.nll);
        }
        let (rows, width) = (self.network.outlook(words.len(), 1), self.params.spec().outlook());
        self.last.clear();
        self.last.extend_from_slice(&rows[rows.len() - width..]);
    }

    fn hidden(&self) -> &[f32] {
        self.network.hidden(self.window.steps, 1)
    }

    fn distribution(&mut self, temperature: f32, out: &mut [f32]) {
        self.network.distributions(&self.params, &self.last, temperature, out);
    }

    fn keeps_distributions(&self) -> bool {
        true
    }

    fn distributions(&mut self, temperature: f32, out: &mut [f32]) {
        let outlooks = self.network.outlook(self.window.steps, 1);
        self.network.distributions(&self.params, outlooks, temperature, out);
    }
}
