//! Several n-gram models as one: *static interpolation*, what SRILM's `ngram -mix-lm -write-lm` does.
//!
//! The new model has every n-gram that one of the models has. Its probability is the weighted sum of theirs, each model
//! backing off by its own rules where it lacks the n-gram:
//!
//! ```text
//! p(w | h) = sum_i w_i p_i(w | h)                                             for the n-grams h w of any model
//! b(h) = (1 - sum_w p(w | h)) / (1 - sum_w p(w | h'))                         over the words w kept after h
//! ```
//!
//! with `h'` the context without its first word. The back-off weights are computed anew, so that the probabilities sum to 1
//! after every context. Where no model has `h w`, `b(h) p(w | h')` stands in for the weighted sum, which is why the result
//! differs a little from a mixture that asks all models about every word.

use super::model::{Level, NgramModel, NgramState};
use crate::error::Result;
use crate::predictor::{Mix, check_weights};

impl NgramModel {
    /// One model for several of the same words, with weights that add up to 1.
    pub fn interpolate(models: &[&NgramModel], weights: &[f64]) -> Result<NgramModel> {
        check_weights(weights, models.len(), Mix::Linear)?;
        debug_assert!(models.iter().all(|m| m.vocab() == models[0].vocab() && m.eos() == models[0].eos()));
        let order = models.iter().map(|m| m.order()).max().unwrap_or(1);
        let mut union = Union { models, weights, levels: vec![Level::default(); order] };
        let nothing: Vec<NgramState> = models.iter().map(|m| m.empty()).collect();
        union.add(1, &nothing, (0..models[0].vocab() as u32).collect());
        // The children of each node were counted; a model has where they begin.
        for level in &mut union.levels[..order - 1] {
            let mut end = 0;
            let ends = level.first.iter().map(|children| {
                end += children;
                end
            });
            level.first = std::iter::once(0).chain(ends).collect();
            level.backoffs = vec![1.0; level.words.len()];
        }
        let mut model = NgramModel::from_levels(models[0].eos(), union.levels);
        // From the shortest contexts to the longest: the weight of each needs those of the shorter ones.
        for length in 1..order {
            let mut weights = Vec::with_capacity(model.levels()[length - 1].words.len());
            for word in 0..model.vocab() as u32 {
                model.weights_below(length, 1, word, &model.empty(), &mut weights);
            }
            model.set_backoffs(length, weights);
        }
        Ok(model)
    }

    /// Computes the back-off weights of the contexts of `length` words that begin with a node of `depth` words, in the
    /// order of the nodes. `before` is the state after all words of that node but the last, `node` the node itself.
    fn weights_below(&self, length: usize, depth: usize, node: u32, before: &NgramState, out: &mut Vec<f32>) {
        let mut state = *before;
        self.step(&mut state, self.levels()[depth - 1].words[node as usize]);
        if depth == length {
            out.push(self.backoff(length, node, &state));
            return;
        }
        for child in self.children(depth, node) {
            self.weights_below(length, depth + 1, child as u32, &state, out);
        }
    }

    /// The back-off weight of a context of `length` words, `state` being the state after it.
    fn backoff(&self, length: usize, node: u32, state: &NgramState) -> f32 {
        let (children, next) = (self.children(length, node), &self.levels()[length]);
        if children.is_empty() || children.len() == self.vocab() {
            return 1.0;
        }
        let shorter = state.up_to(length - 1);
        let (mut kept, mut below) = (0.0, 0.0);
        for (&word, &p) in next.words[children.clone()].iter().zip(&next.probabilities[children]) {
            kept += f64::from(p);
            below += self.probability_after(&shorter, word);
        }
        // Nothing is left below where the other words have no probability at all.
        if below >= 1.0 { 1.0 } else { ((1.0 - kept).max(0.0) / (1.0 - below)) as f32 }
    }
}

/// The n-grams of all models, while they are collected.
struct Union<'a> {
    models: &'a [&'a NgramModel],
    weights: &'a [f64],
    /// With the number of children of each node in `first`.
    levels: Vec<Level>,
}

impl Union<'_> {
    /// Adds the n-grams of `length` words that end in `words`, after a context that has left the models in `states`, and
    /// all that go on from them.
    fn add(&mut self, length: usize, states: &[NgramState], words: Vec<u32>) {
        let (models, order) = (self.models, self.levels.len());
        for word in words {
            let p = models.iter().zip(states).map(|(m, s)| m.probability_after(s, word));
            let p: f64 = p.zip(self.weights).map(|(p, weight)| p * weight).sum();
            let level = &mut self.levels[length - 1];
            level.words.push(word);
            level.probabilities.push(p as f32);
            if length == order {
                continue;
            }
            // After the end of a sentence nothing follows; as a single word it is the beginning of the next.
            if word == models[0].eos() && length > 1 {
                level.first.push(0);
                continue;
            }
            let mut after = states.to_vec();
            models.iter().zip(&mut after).for_each(|(m, state)| {
                m.step(state, word);
            });
            let mut following: Vec<u32> =
                models.iter().zip(&after).flat_map(|(m, s)| m.words_after(length, s)).copied().collect();
            following.sort_unstable();
            following.dedup();
            self.levels[length - 1].first.push(following.len() as u32);
            self.add(length + 1, &after, following);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Dice, text};
    use super::*;

    const VOCAB: usize = 40;
    const EOS: u32 = 39;

    fn model(seed: u64, sentences: usize, order: usize, prune: &[u32]) -> NgramModel {
        NgramModel::train_pruned(&text(seed, sentences, VOCAB as u32), VOCAB, EOS, order, prune).unwrap().0
    }

    /// Contexts that were seen, that were not, and that begin a sentence.
    fn contexts() -> Vec<Vec<u32>> {
        let mut dice = Dice(5);
        let one = |turn: u64| match turn % 3 {
            0 => (0..dice.below(6)).map(|_| dice.below(VOCAB - 1) as u32).collect(),
            1 => text(turn % 40, 1, VOCAB as u32),
            _ => [&[EOS], &text(turn, 1, VOCAB as u32)[..]].concat().into_iter().rev().skip(1).rev().collect(),
        };
        (0..200).map(one).collect()
    }

    fn sums_to_one(model: &NgramModel, context: &[u32]) {
        let mut out = vec![0.0; VOCAB];
        model.distribution(context, &mut out);
        let sum: f64 = out.iter().map(|&p| f64::from(p)).sum();
        assert!((sum - 1.0).abs() < 1e-5, "after {context:?}: {sum}");
    }

    #[test]
    fn every_history_sums_to_one_and_every_ngram_has_the_weighted_sum() {
        // Of unequal orders, one pruned: then n-grams are there whose shorter ends are not.
        let (a, b) = (model(1, 300, 4, &[]), model(2, 200, 3, &[0, 1]));
        let mixed = NgramModel::interpolate(&[&a, &b], &[0.3, 0.7]).unwrap();
        assert_eq!(mixed.order(), 4);
        assert!(mixed.ngrams().iter().zip(a.ngrams()).all(|(m, a)| *m >= a));
        assert!(mixed.ngrams()[1] > a.ngrams()[1] && mixed.ngrams()[1] > b.ngrams()[1]);
        let mut kept = 0;
        for context in contexts() {
            sums_to_one(&mixed, &context);
            let state = mixed.state(&context);
            let longest = context.len().min(3);
            for word in 0..VOCAB as u32 {
                if longest > 0 && mixed.matched(&state, word) == longest + 1 {
                    let expected = 0.3 * a.probability(&context, word) + 0.7 * b.probability(&context, word);
                    let found = mixed.probability_after(&state, word);
                    assert!((found / expected - 1.0).abs() < 1e-6, "{context:?} {word}: {found} for {expected}");
                    kept += 1;
                }
            }
        }
        assert!(kept > 200, "{kept}");
    }

    #[test]
    fn a_model_that_counts_for_everything_is_what_it_was() {
        let (a, b) = (model(3, 300, 3, &[]), model(4, 300, 5, &[]));
        let mixed = NgramModel::interpolate(&[&b, &a], &[0.0, 1.0]).unwrap();
        for context in contexts() {
            for word in 0..VOCAB as u32 {
                let (found, expected) = (mixed.probability(&context, word), a.probability(&context, word));
                assert!((found / expected - 1.0).abs() < 1e-4, "{context:?} {word}: {found} for {expected}");
            }
        }
        // A model alone keeps its n-grams, and its weights come out again.
        let alone = NgramModel::interpolate(&[&a], &[1.0]).unwrap();
        assert_eq!(alone.ngrams(), a.ngrams());
        for (found, expected) in alone.levels().iter().zip(a.levels()) {
            assert_eq!((&found.words, &found.first), (&expected.words, &expected.first));
            for (node, (x, y)) in found.backoffs.iter().zip(&expected.backoffs).enumerate() {
                // Where every word was seen after a context, its weight counts for nothing.
                let all = (found.first[node + 1] - found.first[node]) as usize == VOCAB;
                assert!(all || (x / y - 1.0).abs() < 1e-3, "{node}: {x} for {y}");
            }
        }
    }

    #[test]
    fn weights_that_do_not_fit_are_refused() {
        let a = model(1, 50, 2, &[]);
        let message = |weights: &[f64]| NgramModel::interpolate(&[&a, &a], weights).unwrap_err().to_string();
        assert!(message(&[0.5]).starts_with("setting `weights`: there are 1 weights for 2 members"));
        assert!(message(&[0.5, 0.6]).starts_with("setting `weights`: they add up to 1.1"));
        assert!(NgramModel::interpolate(&[], &[]).is_err());
    }
}
