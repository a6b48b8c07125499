//! Perplexity: every word after the first is predicted once, with the state carried through the whole split.

use crate::batch::Window;
use crate::compute::Compute;
use crate::model::{Network, State, Use};
use crate::params::Params;
use crate::spec::ModelSpec;
use serde::Serialize;
use std::ops::Range;

/// Words that are worked on together, whatever the number of streams.
const ROWS: usize = 200;

/// Negative log-probabilities, in nats, of some of the predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// Predictions made.
    pub tokens: usize,
    /// Sum of `-log p`.
    pub nll: f64,
    /// `exp(nll / tokens)`.
    pub perplexity: f64,
}

impl Score {
    fn of(nll: impl Iterator<Item = f64>) -> Score {
        let (mut tokens, mut sum) = (0, 0.0);
        for x in nll {
            tokens += 1;
            sum += x;
        }
        Score { tokens, nll: sum, perplexity: (sum / tokens.max(1) as f64).exp() }
    }
}

/// The perplexities of a split.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Evaluation {
    /// Over all predictions.
    #[serde(flatten)]
    pub all: Score,
    /// Leaving out targets that are `<unk>`.
    pub without_unk: Score,
    /// Leaving out targets that are `<eos>`.
    pub without_eos: Score,
    /// Leaving out both.
    pub without_both: Score,
    /// Streams the split was cut into; with one the answer is exact.
    pub streams: usize,
}

impl Evaluation {
    /// The perplexities of a split, given `-log p` of every word of `ids` after the first.
    pub fn of(ids: &[u32], nll: &[f64], unk: Option<u32>, eos: u32, streams: usize) -> Evaluation {
        let score = |keep: &dyn Fn(u32) -> bool| {
            Score::of(ids.iter().skip(1).zip(nll).filter(|(id, _)| keep(**id)).map(|(_, x)| *x))
        };
        Evaluation {
            all: score(&|_| true),
            without_unk: score(&|id| Some(id) != unk),
            without_eos: score(&|id| id != eos),
            without_both: score(&|id| Some(id) != unk && id != eos),
            streams,
        }
    }
}

/// A model ready to be evaluated.
pub struct Evaluator {
    network: Network,
    streams: usize,
    steps: usize,
}

impl Evaluator {
    /// Room for evaluating with `streams` side by side.
    pub fn new(spec: &ModelSpec, compute: Compute, streams: usize) -> Evaluator {
        let streams = streams.max(1);
        let steps = (ROWS / streams).max(1);
        let network = Network::new(spec, compute, Use::Evaluate, steps, streams);
        Evaluator { network, streams, steps }
    }

    /// `-log p` of every word of `ids` after the first, in order. The predictions are cut into contiguous streams of nearly
    /// equal length, each starting from an empty state.
    pub fn nll(&mut self, params: &Params, ids: &[u32]) -> Vec<f64> {
        self.nll_until(params, ids, &|| false).unwrap_or_default()
    }

    /// [`Evaluator::nll`], given up as soon as `stop` says so. It is asked every few hundred words.
    pub fn nll_until(&mut self, params: &Params, ids: &[u32], stop: &dyn Fn() -> bool) -> Option<Vec<f64>> {
        self.nll_of_streams(params, ids, 0..self.streams, stop)
    }

    /// The part of it that some of the streams predict.
    pub fn nll_of_streams(
        &mut self,
        params: &Params,
        ids: &[u32],
        some: Range<usize>,
        stop: &dyn Fn() -> bool,
    ) -> Option<Vec<f64>> {
        self.network.pack(params, Use::Evaluate);
        let total = ids.len().saturating_sub(1);
        let first = |stream: usize| stream * total / self.streams;
        let longest = some.clone().map(|s| first(s + 1) - first(s)).max().unwrap_or(0);
        let (begin, streams) = (first(some.start), some.len());
        let steps = self.steps * self.streams / streams.max(1);
        let (mut out, mut nll) = (vec![0.0; first(some.end) - begin], vec![0.0; steps * streams]);
        let mut state = State::zeros(self.network.spec(), streams);
        let mut window = Window { batch: streams, ..Window::default() };
        for start in (0..longest).step_by(steps) {
            if stop() {
                return None;
            }
            window.steps = steps.min(longest - start);
            window.inputs.clear();
            window.targets.clear();
            for t in start..start + window.steps {
                for s in some.clone() {
                    // A stream may be one shorter than the longest; it repeats its last word there, uncounted.
                    let at = (first(s) + t).min(total - 1);
                    window.inputs.push(ids[at]);
                    window.targets.push(ids[at + 1]);
                }
            }
            self.network.evaluate(params, &window, &mut state, &mut nll[..window.inputs.len()]);
            for t in 0..window.steps {
                for s in some.clone() {
                    if first(s) + start + t < first(s + 1) {
                        out[first(s) - begin + start + t] = nll[t * streams + s - some.start];
                    }
                }
            }
        }
        Some(out)
    }

    /// The distribution of every word of `ids` after the first, given all before it, in order: `each(position, y)`, where
    /// `y` predicts `ids[position]`. One stream, whatever the evaluator was made for.
    pub fn distributions(&mut self, params: &Params, ids: &[u32], each: &mut dyn FnMut(usize, &[f32])) {
        let vocab = self.network.spec().vocab;
        let mut network = Network::new(self.network.spec(), self.network.compute().clone(), Use::Evaluate, ROWS, 1);
        network.pack(params, Use::Evaluate);
        let (mut state, mut out) = (State::zeros(self.network.spec(), 1), vec![0.0; ROWS * vocab]);
        let mut at = 1;
        while at < ids.len() {
            let steps = ROWS.min(ids.len() - at);
            let window = Window {
                steps,
                batch: 1,
                inputs: ids[at - 1..at - 1 + steps].to_vec(),
                targets: ids[at..at + steps].to_vec(),
            };
            network.probabilities(params, &window, &mut state, &mut out[..steps * vocab]);
            for (i, y) in out[..steps * vocab].chunks_exact(vocab).enumerate() {
                each(at + i, y);
            }
            at += steps;
        }
    }

    /// The perplexities of a split.
    pub fn evaluate(&mut self, params: &Params, ids: &[u32], unk: Option<u32>, eos: u32) -> Evaluation {
        let nll = self.nll(params, ids);
        self.scores(ids, &nll, unk, eos)
    }

    /// [`Evaluator::evaluate`], given up as soon as `stop` says so.
    pub fn evaluate_until(
        &mut self,
        params: &Params,
        ids: &[u32],
        unk: Option<u32>,
        eos: u32,
        stop: &dyn Fn() -> bool,
    ) -> Option<Evaluation> {
        let nll = self.nll_until(params, ids, stop)?;
        Some(self.scores(ids, &nll, unk, eos))
    }

    fn scores(&self, ids: &[u32], nll: &[f64], unk: Option<u32>, eos: u32) -> Evaluation {
        Evaluation::of(ids, nll, unk, eos, self.streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    fn model(vocab: usize) -> Params {
        let mut params = Params::zeros(&ModelSpec::paper(vocab, 12, 2, false));
        Stream::new(1, Purpose::Weights, 0).fill(params.data_mut(), |r| crate::rng::unit(r) - 0.5);
        params
    }

    fn words(n: usize, vocab: u32) -> Vec<u32> {
        (0..n as u32).map(|i| Stream::new(2, Purpose::Words, u64::from(i)).block(0)[0] % vocab).collect()
    }

    fn evaluator(params: &Params, streams: usize) -> Evaluator {
        Evaluator::new(params.spec(), Compute::with_threads(2), streams)
    }

    #[test]
    fn every_word_after_the_first_is_predicted_once_by_any_number_of_streams() {
        let (params, ids) = (model(17), words(1003, 17));
        let one = evaluator(&params, 1).nll(&params, &ids);
        assert_eq!(one.len(), 1002);
        for streams in [2, 7, 10, 300] {
            let nll = evaluator(&params, streams).nll(&params, &ids);
            assert_eq!(nll.len(), 1002);
            assert!(nll.iter().all(|x| x.is_finite() && *x > 0.0));
            // The first stream starts like the only one; the others start without a past.
            let same = 1002 / streams;
            assert_eq!(nll[..same], one[..same]);
            // A stream by itself gives what it gives among others.
            let start = 1002 * (streams - 1) / streams;
            assert_eq!(nll[start..], evaluator(&params, 1).nll(&params, &ids[start..]));
        }
    }

    #[test]
    fn distributions_are_those_behind_the_perplexity() {
        let (params, ids) = (model(17), words(450, 17));
        let mut evaluator = evaluator(&params, 1);
        let (nll, mut next) = (evaluator.nll(&params, &ids), 1);
        evaluator.distributions(&params, &ids, &mut |at, y| {
            assert_eq!(at, next);
            assert!((y.iter().map(|&p| f64::from(p)).sum::<f64>() - 1.0).abs() < 1e-6);
            assert!((-f64::from(y[ids[at] as usize]).ln() - nll[at - 1]).abs() < 1e-5);
            next += 1;
        });
        assert_eq!(next, 450);
    }

    #[test]
    fn the_four_perplexities_leave_out_what_they_say() {
        let (params, ids) = (model(17), words(500, 17));
        let e = evaluator(&params, 1).evaluate(&params, &ids, Some(3), 5);
        let count = |id: u32| ids[1..].iter().filter(|&&x| x == id).count();
        assert_eq!(e.all.tokens, 499);
        assert_eq!(e.without_unk.tokens, 499 - count(3));
        assert_eq!(e.without_eos.tokens, 499 - count(5));
        assert_eq!(e.without_both.tokens, 499 - count(3) - count(5));
        let uniform = Params::zeros(params.spec());
        let e = evaluator(&uniform, 1).evaluate(&uniform, &ids, None, 5);
        assert!((e.all.perplexity - 17.0).abs() < 1e-5 && (e.without_eos.perplexity - 17.0).abs() < 1e-5);
    }
}
