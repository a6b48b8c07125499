//! Monte-Carlo dropout: the average of the distributions of networks with units dropped.
//!
//! A *sample* is a network with its masks, drawn once and kept for the whole text, as Gal and Ghahramani's own program does
//! when it tests. A network that was trained with masks by site has them here too, each with its own probability and by gate
//! where it was so; but no word is dropped, as in their program. The probabilities are averaged, not their logarithms. The
//! samples are rows of one batch; sample `i` is the same however many there are.

use super::body::{Ask, BLOCK, Body};
use super::settings::MonteCarloSettings;
use super::{Snapshot, inside};
use crate::batch::Window;
use crate::compute::Compute;
use crate::model::{Dropout, KeepProb, Masks, Network, Pass, Sites, State, Use};
use crate::params::Params;
use bowline_kernels::{Isa, Team};
use std::sync::Arc;

pub(super) struct MonteCarlo {
    network: Network,
    params: Arc<Params>,
    masks: Masks,
    state: State,
    samples: usize,
    /// Words read at a time.
    steps: usize,
    window: Window,
    /// What the classifier saw after the last word, (samples, d).
    last: Vec<f32>,
    /// (steps, samples, temperatures).
    nll: Vec<f64>,
    /// (samples, V).
    distributions: Vec<f32>,
}

impl MonteCarlo {
    pub(super) fn new(params: Arc<Params>, team: Arc<Team>, isa: Isa, settings: MonteCarloSettings) -> MonteCarlo {
        let (spec, samples) = (params.spec(), settings.samples);
        let steps = (BLOCK / samples).max(1);
        let mut network = Network::new(spec, Compute::new(team, isa), Use::Evaluate, steps, samples);
        let mut masks = Masks::new(spec, samples);
        let window = Window { steps: 1, batch: samples, ..Window::default() };
        if settings.masks.is_off() {
            masks.draw(settings.seed, 0, settings.keep);
        } else {
            let held = Dropout { word: KeepProb::ALL, each_step: Sites::default(), ..settings.masks };
            masks.draw_by_site(&held, spec, &window, (settings.seed, 0));
        }
        network.pack_masked(&params, Use::Evaluate, Pass { masks: Some(&masks), ..Pass::default() });
        let state = State::zeros(spec, samples);
        let (nll, distributions) = (Vec::new(), Vec::new());
        MonteCarlo { network, params, masks, state, samples, steps, window, last: Vec::new(), nll, distributions }
    }
}

impl Body for MonteCarlo {
    /// A block of words is read by every sample: it is as much work as a block is elsewhere.
    fn block(&self) -> usize {
        self.steps
    }

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
    }

    fn read(&mut self, words: &[u32], mut ask: Option<Ask<'_>>) {
        for (i, words) in words.chunks(self.steps).enumerate() {
            let window = &mut self.window;
            window.steps = words.len();
            window.inputs.clear();
            window.targets.clear();
            for &word in words {
                window.inputs.extend(std::iter::repeat_n(word, self.samples));
            }
            self.network.read(&self.params, window, &mut self.state, Some(&self.masks));
            let Some(ask) = &mut ask else { continue };
            let (first, n) = (i * self.steps, ask.temperatures.len());
            for &target in &ask.targets[first..first + words.len()] {
                window.targets.extend(std::iter::repeat_n(target, self.samples));
            }
            self.nll.resize(words.len() * self.samples * n, 0.0);
            let shape = (words.len(), self.samples);
            self.network.classify(&self.params, shape, &window.targets, ask.temperatures, &mut self.nll);
            let out = ask.nll[first * n..(first + words.len()) * n].chunks_exact_mut(n);
            for (out, nll) in out.zip(self.nll.chunks_exact(self.samples * n)) {
                for (k, out) in out.iter_mut().enumerate() {
                    let sum: f64 = nll.iter().skip(k).step_by(n).map(|x| (-x).exp()).sum();
                    *out = -(sum / self.samples as f64).ln();
                }
            }
        }
        let rows = self.network.outlook(self.window.steps, self.samples);
        self.last.clear();
        self.last.extend_from_slice(&rows[rows.len() - self.samples * self.params.spec().outlook()..]);
    }

    fn hidden(&self) -> &[f32] {
        &[]
    }

    fn distribution(&mut self, temperature: f32, out: &mut [f32]) {
        let rows = self.samples;
        self.distributions.resize(rows * out.len(), 0.0);
        self.network.distributions(&self.params, &self.last, temperature, &mut self.distributions);
        for (word, out) in out.iter_mut().enumerate() {
            let column = self.distributions.iter().skip(word).step_by(self.params.spec().vocab);
            *out = (column.map(|&p| f64::from(p)).sum::<f64>() / rows as f64) as f32;
        }
    }
}
