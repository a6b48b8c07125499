//! The truth beside a run on the built-in corpus: the distribution that each word of a text was drawn from.
//!
//! It serves twice. In section 3's ideal case the truth itself is `y~` ([`TrueTargets::fill`]). And whatever `y~` the word
//! vectors give can be measured against it ([`TrueTargets::divergence`]).

use crate::compute::Compute;
use crate::error::Result;
use crate::params::Params;
use crate::vocabulary::Vocabulary;
use bowline_demo::{Truth, Yardstick};
use bowline_kernels::{Into, Mat, PackedB, Precision, gemm, loss};
use std::collections::HashMap;

/// The distributions behind a text.
pub(super) struct TrueTargets {
    /// For each word of the text, the number of its distribution.
    of_word: Vec<u32>,
    /// Those that occur, as (id, probability) of the words that are possible.
    distributions: Vec<Vec<(u32, f64)>>,
    vocab: usize,
}

impl TrueTargets {
    /// Walks along a text of the built-in corpus, from its beginning.
    pub(super) fn new(truth: &Truth, vocabulary: &Vocabulary, text: &[u32]) -> Result<TrueTargets> {
        let mut yardstick = Yardstick::new(truth, |word| vocabulary.id(word), vocabulary.unk())?;
        let mut numbers: HashMap<Vec<(u32, u64)>, u32> = HashMap::new();
        let (mut of_word, mut distributions) = (Vec::with_capacity(text.len()), Vec::new());
        for &word in text {
            let next = yardstick.distribution();
            let key = next.iter().map(|&(id, p)| (id, p.to_bits())).collect();
            of_word.push(*numbers.entry(key).or_insert_with(|| {
                distributions.push(next.to_vec());
                distributions.len() as u32 - 1
            }));
            yardstick.read(word)?;
        }
        Ok(TrueTargets { of_word, distributions, vocab: vocabulary.len() })
    }

    /// Writes the distribution that the word at `position` was drawn from to `out`, (V), at a temperature: `p^(1 / tau)`,
    /// normalized. At temperature 1 it is the truth itself.
    pub(super) fn fill(&self, position: usize, tau: f32, out: &mut [f32]) {
        out.fill(0.0);
        let distribution = self.at(position);
        let power = 1.0 / f64::from(tau);
        let sum: f64 = distribution.iter().map(|&(_, p)| p.powf(power)).sum();
        for &(id, p) in distribution {
            out[id as usize] = (p.powf(power) / sum) as f32;
        }
    }

    fn at(&self, position: usize) -> &[(u32, f64)] {
        &self.distributions[self.of_word[position] as usize]
    }

    /// The mean of `KL(truth || y~)` over the words of the text after the first, in nats, where
    /// `y~ = softmax(L^T u / tau)` is the estimate that the word vectors give from the word that came.
    pub(super) fn divergence(&self, compute: &Compute, params: &Params, text: &[u32], tau: f32) -> f64 {
        let (team, isa) = (&*compute.team, compute.isa);
        let (v, d) = (self.vocab, params.spec().input.width);
        let vectors = Mat::new(params.embedding(), v, d);
        let mut packed = PackedB::new(isa, Precision::F32);
        packed.pack(team, vectors.t());
        let (mut scores, mut logs) = (vec![0.0; v * v], vec![0.0; v * v]);
        gemm(team, vectors, &packed, &mut scores, Into::Overwrite);
        for (s, log) in scores.chunks_exact_mut(v).zip(logs.chunks_exact_mut(v)) {
            loss::target_distribution(isa, s, tau, Some(log));
        }
        let mut sum = 0.0;
        for (position, &word) in text.iter().enumerate().skip(1) {
            let log = &logs[word as usize * v..(word as usize + 1) * v];
            sum += self.at(position).iter().map(|&(id, p)| p * (p.ln() - f64::from(log[id as usize]))).sum::<f64>();
        }
        sum / (text.len() - 1).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, CorpusOptions};
    use crate::spec::ModelSpec;

    fn corpus(truth: &Truth) -> Corpus {
        let splits = truth.splits(1);
        let few = |text: &str| text.lines().take(60).map(|line| format!("{line}\n")).collect::<String>();
        Corpus::from_texts(&splits.train, &few(&splits.valid), &few(&splits.test), CorpusOptions::default()).unwrap()
    }

    #[test]
    fn the_targets_are_those_of_the_grammar_at_any_temperature() {
        let truth = Truth::new();
        let corpus = corpus(&truth);
        let targets = TrueTargets::new(&truth, &corpus.vocabulary, &corpus.valid.ids).unwrap();
        let mut yardstick = Yardstick::new(&truth, |word| corpus.vocabulary.id(word), corpus.vocabulary.unk()).unwrap();
        let mut y = vec![0.0; corpus.vocabulary.len()];
        for (position, &word) in corpus.valid.ids.iter().enumerate() {
            targets.fill(position, 1.0, &mut y);
            assert!((y.iter().map(|&y| f64::from(y)).sum::<f64>() - 1.0).abs() < 1e-5);
            for &(id, p) in yardstick.distribution() {
                assert!((f64::from(y[id as usize]) - p).abs() < 1e-6);
            }
            let (most, least) = (y.iter().copied().fold(0.0, f32::max), yardstick.probability(word) as f32);
            targets.fill(position, 3.0, &mut y);
            let hot = |p: f32| p.powf(1.0 / 3.0);
            let ratio = y[word as usize] / y.iter().copied().fold(0.0, f32::max);
            assert!((ratio - hot(least) / hot(most)).abs() < 1e-4);
            yardstick.read(word).unwrap();
        }
    }

    #[test]
    fn an_estimate_that_knows_nothing_is_as_far_off_as_the_uniform_distribution() {
        let truth = Truth::new();
        let corpus = corpus(&truth);
        let targets = TrueTargets::new(&truth, &corpus.vocabulary, &corpus.valid.ids).unwrap();
        let vocab = corpus.vocabulary.len();
        let params = Params::zeros(&ModelSpec::paper(vocab, 4, 1, true));
        let ids = &corpus.valid.ids;
        let found = targets.divergence(&Compute::with_threads(1), &params, ids, 20.0);
        let negentropy: f64 = (1..ids.len())
            .map(|position| targets.at(position).iter().map(|&(_, p)| p * p.ln()).sum::<f64>())
            .sum::<f64>()
            / (ids.len() - 1) as f64;
        assert!((found - (negentropy + (vocab as f64).ln())).abs() < 1e-4, "{found}");
    }
}
