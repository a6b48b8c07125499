//! A network that learns from what it reads; what it does to its weights is in [`crate::model::adapt`].
//!
//! The text is cut into segments from its first word on. The words of a segment are predicted by the weights that the
//! segment before left; when the word after its last is known, the weights take a step. The trained weights are not
//! touched: the network has a copy.

use super::body::{Ask, BLOCK, Body};
use super::settings::DynamicSettings;
use super::{Snapshot, inside};
use crate::batch::Window;
use crate::compute::Compute;
use crate::model::{Adaptation, Network, State, Use};
use crate::params::Params;
use bowline_kernels::{Isa, Team};
use std::sync::Arc;

pub(super) struct Dynamic {
    network: Network,
    /// The weights as they are now, but for what the adaptation has left to be done.
    params: Params,
    adaptation: Adaptation,
    segment: usize,
    state: State,
    /// The words of the segment that were read without its last target being known, and the state before them.
    read: Vec<u32>,
    before: State,
    /// (words, d), of the last reading.
    hidden: Vec<f32>,
    nll: Vec<f64>,
    /// All words that were read.
    text: Vec<u32>,
}

impl Dynamic {
    pub(super) fn new(
        params: &Params,
        scale: Option<Params>,
        team: Arc<Team>,
        isa: Isa,
        settings: DynamicSettings,
    ) -> Dynamic {
        let (spec, segment) = (params.spec(), settings.segment);
        let mut network = Network::new(spec, Compute::new(team, isa), Use::Train, segment, 1);
        network.pack_recurrent(params);
        let (rate, decay, epsilon) = (settings.rate, settings.decay, settings.epsilon);
        let adaptation = Adaptation::new(&network, params.clone(), scale, rate, decay, epsilon);
        let state = State::zeros(spec, 1);
        Dynamic {
            network,
            params: params.clone(),
            adaptation,
            segment,
            before: state.clone(),
            state,
            read: Vec::new(),
            hidden: Vec::new(),
            nll: vec![0.0; segment],
            text: Vec::new(),
        }
    }

    /// The weights as they are now.
    #[cfg(test)]
    pub(super) fn weights(&mut self) -> &Params {
        self.adaptation.finish(&self.network, &mut self.params);
        &self.params
    }

    /// Learns from the segment that was read, now that the word after it is known.
    fn learn(&mut self, next: u32) {
        let targets = self.read[1..].iter().copied().chain([next]).collect();
        let inputs = std::mem::take(&mut self.read);
        let segment = Window { steps: inputs.len(), batch: 1, inputs, targets };
        let nll = &mut self.nll[..segment.steps];
        // The state that comes out is the one that reading gave: the step comes after it.
        self.network.adapt(&mut self.params, &segment, &mut self.before, &mut self.adaptation, &[1.0], nll);
    }
}

impl Body for Dynamic {
    fn block(&self) -> usize {
        (BLOCK / self.segment).max(1) * self.segment
    }

    fn reset(&mut self) {
        self.adaptation.restore(&mut self.params);
        self.network.pack_recurrent(&self.params);
        self.state.reset();
        self.read.clear();
        self.text.clear();
    }

    /// What a network that learned knows is in all of its weights. The text that it learned from is smaller, and gives the
    /// same weights.
    fn snapshot(&mut self) -> Snapshot {
        Arc::new(self.text.clone())
    }

    fn restore(&mut self, snapshot: &Snapshot) {
        let text: &Vec<u32> = inside(snapshot);
        self.reset();
        for words in text.chunks(self.block()) {
            self.read(words, None);
        }
    }

    fn read(&mut self, words: &[u32], mut ask: Option<Ask<'_>>) {
        self.text.extend_from_slice(words);
        self.hidden.clear();
        let mut at = 0;
        while at < words.len() {
            if self.read.len() == self.segment {
                self.learn(words[at]);
            }
            let n = (self.segment - self.read.len()).min(words.len() - at);
            let part = at..at + n;
            let mut window = Window { steps: n, batch: 1, inputs: words[part.clone()].to_vec(), targets: Vec::new() };
            match &mut ask {
                // A whole segment with all of its targets: one pass scores it and learns.
                Some(ask) if n == self.segment => {
                    let k = ask.temperatures.len();
                    window.targets.extend_from_slice(&ask.targets[part.clone()]);
                    let nll = &mut ask.nll[at * k..(at + n) * k];
                    let (params, state) = (&mut self.params, &mut self.state);
                    self.network.adapt(params, &window, state, &mut self.adaptation, ask.temperatures, nll);
                    self.hidden.extend_from_slice(self.adaptation.hidden());
                }
                ask => {
                    self.adaptation.finish(&self.network, &mut self.params);
                    if self.read.is_empty() {
                        self.before.copy_from(&self.state);
                    }
                    self.read.extend_from_slice(&window.inputs);
                    let (params, state) = (&self.params, &mut self.state);
                    self.network.read_moving(params, &window, state, &mut self.adaptation);
                    self.hidden.extend_from_slice(self.network.hidden(n, 1));
                    if let Some(ask) = ask {
                        let k = ask.temperatures.len();
                        let nll = &mut ask.nll[at * k..(at + n) * k];
                        let targets = &ask.targets[part];
                        self.adaptation.classify(&self.network, &self.params, targets, ask.temperatures, nll);
                    }
                }
            }
            at += n;
        }
    }

    fn hidden(&self) -> &[f32] {
        &self.hidden
    }

    fn distribution(&mut self, temperature: f32, out: &mut [f32]) {
        self.adaptation.finish(&self.network, &mut self.params);
        let d = self.params.spec().width();
        let h = &self.hidden[self.hidden.len() - d..];
        self.adaptation.distribution(&self.network, &self.params, h, temperature, out);
    }
}
