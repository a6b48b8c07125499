//! A network as a predictor.

use super::body::{Ask, Body, Static};
use super::dynamic::Dynamic;
use super::history::{CacheGrid, History, Pairs};
use super::monte_carlo::MonteCarlo;
use super::settings::{CacheSettings, DynamicForm, NeuralSettings};
use super::statistics::GradientScale;
use super::{Predictor, Snapshot, inside};
use crate::error::{Error, Result};
use crate::params::Params;
use bowline_kernels::{Isa, Team};
use std::sync::Arc;

/// What a network predictor is made of.
#[derive(Clone)]
pub struct Source {
    /// The trained weights.
    pub params: Arc<Params>,
    /// Who works on it.
    pub team: Arc<Team>,
    /// With which instructions.
    pub isa: Isa,
    /// The scale of the gradients, for the RMS form of dynamic evaluation.
    pub scale: Option<Arc<GradientScale>>,
}

/// A network that predicts, with all that [`NeuralSettings`] can ask for.
pub struct Neural {
    vocab: usize,
    temperature: f32,
    team: Arc<Team>,
    body: Box<dyn Body>,
    cache: Option<(CacheSettings, History)>,
}

/// What one pass over a text gives: the probabilities of its words under many settings at once.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// For each temperature, the network's probability of each word after the first.
    pub network: Vec<Vec<f64>>,
    /// For each theta and then each window, the cache's; NaN where the cache was empty.
    pub cache: Vec<Vec<f64>>,
}

impl Streams {
    /// `(1 - lambda) p + lambda p_cache`, or `p` alone where the cache was empty.
    pub fn mixed(p: &[f64], cache: &[f64], lambda: f64) -> Vec<f64> {
        let mix = |(&p, &c): (&f64, &f64)| if c.is_nan() { p } else { (1.0 - lambda) * p + lambda * c };
        p.iter().zip(cache).map(mix).collect()
    }
}

impl Neural {
    /// A predictor that has read nothing yet.
    pub fn new(source: &Source, settings: &NeuralSettings) -> Result<Neural> {
        settings.validate()?;
        let Source { params, team, isa, scale } = source;
        let spec = params.spec();
        let body: Box<dyn Body> = match (settings.dynamic, settings.monte_carlo) {
            // A rate of 0 never moves a weight: that is the network as trained.
            (Some(dynamic), _) if dynamic.rate > 0.0 => {
                if let Some(problem) = spec.cannot_adapt() {
                    return Err(Error::config("dynamic", problem, "--recency or a mixture, without --dynamic"));
                }
                let scale = match (dynamic.form, scale) {
                    (DynamicForm::Sgd, _) => None,
                    (DynamicForm::Rms, Some(scale)) => Some(scale.r.clone()),
                    (DynamicForm::Rms, None) => {
                        return Err(Error::config(
                            "dynamic-form",
                            "the rms form needs the scale of the gradients on the training text, which is missing",
                            "--data with a training split, or `--dynamic-form sgd`",
                        ));
                    }
                };
                Box::new(Dynamic::new(params, scale, Arc::clone(team), *isa, dynamic))
            }
            (_, Some(mc)) => Box::new(MonteCarlo::new(Arc::clone(params), Arc::clone(team), *isa, mc)),
            _ => Box::new(Static::new(Arc::clone(params), Arc::clone(team), *isa)),
        };
        let cache = settings.cache.map(|c| (c, History::new(*isa, spec.hidden(), c.window)));
        let (vocab, temperature) = (spec.vocab, settings.temperature as f32);
        Ok(Neural { vocab, temperature, team: Arc::clone(team), body, cache })
    }

    /// One pass over `ids` at several temperatures, and with a cache of several thetas and windows (where the predictor has
    /// a cache, whose own window is the widest that counts). `watch` hears how many words are done and stops by saying
    /// false.
    pub fn streams(
        &mut self,
        ids: &[u32],
        temperatures: &[f64],
        grid: &CacheGrid,
        watch: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Streams> {
        let total = ids.len().saturating_sub(1);
        let (k, g) = (temperatures.len(), if self.cache.is_some() { grid.len() } else { 0 });
        let temperatures: Vec<f32> = temperatures.iter().map(|&t| t as f32).collect();
        let mut out =
            Streams { network: vec![Vec::with_capacity(total); k], cache: vec![Vec::with_capacity(total); g] };
        let block = self.body.block();
        let (mut nll, mut cached) = (vec![0.0; block * k], vec![0.0; block * g]);
        let mut at = 0;
        while at < total {
            if !watch(at) {
                return None;
            }
            let n = block.min(total - at);
            let (words, targets) = (&ids[at..at + n], &ids[at + 1..at + n + 1]);
            let nll = &mut nll[..n * k];
            self.body.read(words, Some(Ask { targets, temperatures: &temperatures, nll }));
            for (i, stream) in out.network.iter_mut().enumerate() {
                stream.extend(nll.iter().skip(i).step_by(k).map(|x| (-x).exp()));
            }
            if let Some((_, history)) = &mut self.cache {
                let base = history.push(words, self.body.hidden());
                if g > 0 {
                    let cached = &mut cached[..n * g];
                    history.targets(&self.team, base, targets, grid, cached);
                    for (i, stream) in out.cache.iter_mut().enumerate() {
                        stream.extend(cached.iter().skip(i).step_by(g));
                    }
                }
            }
            at += n;
        }
        Some(out)
    }
}

impl Predictor for Neural {
    fn vocab(&self) -> usize {
        self.vocab
    }

    fn reset(&mut self) {
        self.body.reset();
        if let Some((_, history)) = &mut self.cache {
            history.reset();
        }
    }

    fn observe(&mut self, words: &[u32]) {
        self.observe_until(words, &|| false);
    }

    fn observe_until(&mut self, words: &[u32], stop: &dyn Fn() -> bool) -> bool {
        for words in words.chunks(self.body.block()) {
            if stop() {
                return false;
            }
            self.body.read(words, None);
            if let Some((_, history)) = &mut self.cache {
                history.push(words, self.body.hidden());
            }
        }
        true
    }

    fn snapshot(&mut self) -> Snapshot {
        Arc::new((self.body.snapshot(), self.cache.as_ref().map(|(_, history)| history.pairs())))
    }

    fn restore(&mut self, snapshot: &Snapshot) {
        let (body, pairs): &(Snapshot, Option<Pairs>) = inside(snapshot);
        self.body.restore(body);
        if let (Some((_, history)), Some(pairs)) = (&mut self.cache, pairs) {
            history.set_pairs(pairs);
        }
    }

    fn distribution(&mut self, out: &mut [f32]) {
        self.body.distribution(self.temperature, out);
        if let Some((settings, history)) = &mut self.cache {
            history.mix(settings.theta, settings.lambda, out);
        }
    }

    fn target_probabilities(&mut self, ids: &[u32], stop: &dyn Fn() -> bool) -> Option<Vec<f64>> {
        let settings = self.cache.as_ref().map(|(settings, _)| *settings);
        let grid = CacheGrid {
            thetas: settings.iter().map(|s| s.theta).collect(),
            windows: settings.iter().map(|s| s.window).collect(),
        };
        let temperature = f64::from(self.temperature);
        let Streams { mut network, cache } = self.streams(ids, &[temperature], &grid, &mut |_| !stop())?;
        let network = network.pop().unwrap_or_default();
        Some(match (settings, cache.first()) {
            (Some(settings), Some(cache)) => Streams::mixed(&network, cache, settings.lambda),
            _ => network,
        })
    }

    fn distributions(&mut self, words: &[u32], out: &mut [f32]) {
        if self.cache.is_none() && self.body.keeps_distributions() {
            let block = self.body.block();
            for (words, out) in words.chunks(block).zip(out.chunks_mut(block * self.vocab)) {
                self.body.read(words, None);
                self.body.distributions(self.temperature, out);
            }
            return;
        }
        for (word, out) in words.iter().zip(out.chunks_exact_mut(self.vocab)) {
            self.observe(std::slice::from_ref(word));
            self.distribution(out);
        }
    }
}
