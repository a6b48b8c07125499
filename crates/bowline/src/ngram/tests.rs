//! Kneser-Ney against a naive textbook implementation, and the properties every model must have.

use super::*;
use crate::corpus::{Corpus, CorpusOptions};
use bowline_demo as demo;
use std::collections::{HashMap, HashSet};

/// Random numbers that are the same each time (SplitMix64).
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Sentences of words below `vocab - 1`, small ones more often; the last id is `<eos>`. Some sentences are empty.
pub(crate) fn text(seed: u64, sentences: usize, vocab: u32) -> Vec<u32> {
    let (mut dice, mut ids) = (Dice(seed), Vec::new());
    for _ in 0..sentences {
        for _ in 0..dice.below(9) {
            let unit = dice.below(1 << 20) as f64 / f64::from(1 << 20);
            ids.push((f64::from(vocab - 1) * unit * unit) as u32);
        }
        ids.push(vocab - 1);
    }
    ids
}

/// The equations word for word, on maps from n-grams to counts. `S` is the beginning of a sentence and `E` its end.
struct Naive {
    adjusted: HashMap<Vec<i64>, f64>,
    discounts: Vec<[f64; 3]>,
    vocab: usize,
    order: usize,
}

const S: i64 = -1;
const E: i64 = -2;

impl Naive {
    fn train(ids: &[u32], vocab: usize, eos: u32, order: usize) -> Naive {
        let mut raw: HashMap<Vec<i64>, f64> = HashMap::new();
        for sentence in ids.split_inclusive(|&id| id == eos) {
            let mut words = vec![S];
            words.extend(sentence.iter().map(|&id| if id == eos { E } else { i64::from(id) }));
            for end in 1..words.len() {
                for start in end.saturating_sub(order - 1)..=end {
                    *raw.entry(words[start..=end].to_vec()).or_default() += 1.0;
                }
            }
        }
        let mut adjusted: HashMap<Vec<i64>, f64> = HashMap::new();
        let mut before: HashMap<Vec<i64>, HashSet<i64>> = HashMap::new();
        for gram in raw.keys().filter(|gram| gram.len() > 1) {
            before.entry(gram[1..].to_vec()).or_default().insert(gram[0]);
        }
        for (gram, &count) in &raw {
            let keeps = gram.len() == order || gram[0] == S;
            adjusted.insert(gram.clone(), if keeps { count } else { before[gram].len() as f64 });
        }
        let discounts = (1..=order)
            .map(|length| {
                let n = |c: f64| adjusted.iter().filter(|(g, a)| g.len() == length && **a == c).count() as f64;
                let (n1, n2, n3, n4) = (n(1.0), n(2.0), n(3.0), n(4.0));
                let y = n1 / (n1 + 2.0 * n2);
                let d = [1.0 - 2.0 * y * n2 / n1, 2.0 - 3.0 * y * n3 / n2, 3.0 - 4.0 * y * n4 / n3];
                let good = n1 > 0.0 && n2 > 0.0 && n3 > 0.0 && d.iter().all(|&d| d > 0.0);
                if good && d[1] <= 2.0 && d[2] <= 3.0 { d } else { [0.5, 1.0, 1.5] }
            })
            .collect();
        Naive { adjusted, discounts, vocab, order }
    }

    fn probability(&self, context: &[i64], word: i64) -> f64 {
        if context.len() + 1 > self.order {
            return self.probability(&context[1..], word);
        }
        let lower = if context.is_empty() { 1.0 / self.vocab as f64 } else { self.probability(&context[1..], word) };
        let d = |count: f64| match count {
            0.0 => 0.0,
            1.0 => self.discounts[context.len()][0],
            2.0 => self.discounts[context.len()][1],
            _ => self.discounts[context.len()][2],
        };
        let after: Vec<f64> = self
            .adjusted
            .iter()
            .filter(|(gram, _)| gram.len() == context.len() + 1 && gram.starts_with(context))
            .map(|(_, &count)| count)
            .collect();
        let total: f64 = after.iter().sum();
        if total == 0.0 {
            return lower;
        }
        let gamma = after.iter().map(|&count| d(count)).sum::<f64>() / total;
        let gram: Vec<i64> = context.iter().copied().chain([word]).collect();
        let count = self.adjusted.get(&gram).copied().unwrap_or(0.0);
        (count - d(count)) / total + gamma * lower
    }
}

#[test]
fn it_agrees_with_the_textbook() {
    for (seed, sentences, vocab, order) in
        [(1, 60, 9, 3), (2, 250, 12, 4), (3, 3, 5, 5), (4, 120, 40, 2), (5, 40, 6, 1)]
    {
        let (ids, eos) = (text(seed, sentences, vocab), vocab - 1);
        let (model, discounts) = NgramModel::train(&ids, vocab as usize, eos, order).unwrap();
        let naive = Naive::train(&ids, vocab as usize, eos, order);
        for (d, expected) in discounts.iter().zip(&naive.discounts) {
            assert!(d.values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{d:?} {expected:?}");
        }
        let mut dice = Dice(seed + 100);
        for _ in 0..60 {
            // A context from another text, so that some of it was seen and some not; half of them begin a sentence.
            let other = text(dice.next(), 1, vocab);
            let begins = dice.below(2) == 0;
            let mut context: Vec<u32> = other[..other.len() - 1].to_vec();
            let mut signed: Vec<i64> = context.iter().map(|&id| i64::from(id)).collect();
            if begins {
                context.insert(0, eos);
                signed.insert(0, S);
            }
            let word = dice.below(vocab as usize) as u32;
            let expected = naive.probability(&signed, if word == eos { E } else { i64::from(word) });
            let found = model.probability(&context, word);
            assert!((found / expected - 1.0).abs() < 1e-6, "order {order}: {found} for {expected} after {context:?}");
        }
    }
}

fn demo_corpus() -> Corpus {
    let splits = demo::splits(demo::DEFAULT_SEED);
    Corpus::from_texts(&splits.train, &splits.valid, &splits.test, CorpusOptions::default()).unwrap()
}

#[test]
fn probabilities_sum_to_one_after_seen_and_unseen_contexts() {
    let corpus = demo_corpus();
    let (vocab, eos) = (corpus.vocabulary.len(), corpus.vocabulary.eos());
    for order in [1, 2, 5, 9] {
        let (model, discounts) = NgramModel::train(&corpus.train_ids().unwrap(), vocab, eos, order).unwrap();
        assert_eq!((model.order(), model.vocab(), discounts.len()), (order, vocab, order));
        let mut out = vec![0.0; vocab];
        let mut dice = Dice(7);
        for turn in 0..60 {
            let context: Vec<u32> = match turn % 3 {
                0 => {
                    let at = dice.below(corpus.train.ids.len() - 12);
                    corpus.train_ids().unwrap()[at..at + 12].to_vec()
                }
                1 => {
                    let at = dice.below(corpus.test.ids.len() - 12);
                    corpus.test.ids[at..at + dice.below(12)].to_vec()
                }
                _ => (0..8).map(|_| dice.below(vocab) as u32).collect(),
            };
            model.distribution(&context, &mut out);
            let sum: f64 = out.iter().map(|&p| f64::from(p)).sum();
            assert!((sum - 1.0).abs() < 1e-5, "order {order} after {context:?}: {sum}");
            assert!(out.iter().all(|&p| p > 0.0));
            for _ in 0..20 {
                let word = dice.below(vocab) as u32;
                let p = model.probability(&context, word);
                assert!((p / f64::from(out[word as usize]) - 1.0).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn reading_word_by_word_gives_the_same_as_a_context_at_a_time() {
    let corpus = demo_corpus();
    let eos = corpus.vocabulary.eos();
    let (model, _) = NgramModel::train(&corpus.train_ids().unwrap(), corpus.vocabulary.len(), eos, 4).unwrap();
    let ids = &corpus.test.ids[..2000];
    let nll = model.nll(ids);
    assert_eq!(nll.len(), ids.len() - 1);
    let with_start: Vec<u32> = std::iter::once(eos).chain(ids.iter().copied()).collect();
    for (at, &nll) in nll.iter().enumerate() {
        assert_eq!(-model.probability(&with_start[..at + 2], ids[at + 1]).ln(), nll, "word {at}");
    }
    // Sentences do not look at each other: in another order each has the same probability.
    let sentences: Vec<&[u32]> = ids.split_inclusive(|&id| id == eos).collect();
    let sum = |ids: &[u32]| model.nll(&[&[eos], ids].concat()).iter().sum::<f64>();
    let parts: f64 = sentences.iter().map(|sentence| sum(sentence)).sum();
    assert!((sum(ids) - parts).abs() < 1e-6 * parts);
    assert!(model.nll(&[]).is_empty());
}

#[test]
fn a_tiny_text_falls_back_on_fixed_discounts_and_says_so() {
    let (model, discounts) = NgramModel::train(&[0, 1, 2], 3, 2, 3).unwrap();
    assert!(discounts.iter().all(|d| d.fallback && d.values == FALLBACK), "{discounts:?}");
    assert_eq!(discounts[0].counts_of_counts, [3, 0, 0, 0]);
    // After the beginning of a sentence came one word, once: p = (1 - 0.5) / 1 + 0.5 p(0), and p(0) is 1/3.
    assert!((model.probability(&[2], 0) - (0.5 + 0.5 / 3.0)).abs() < 1e-7);
    assert_eq!(model.ngrams(), [3, 3, 2]);
    let (_, discounts) = NgramModel::train(&text(2, 400, 30), 30, 29, 2).unwrap();
    assert!(!discounts[1].fallback);
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let message = |ids: &[u32], order| NgramModel::train(ids, 3, 2, order).unwrap_err().to_string();
    assert_eq!(message(&[0, 2], 0), "setting `order`: 0 is impossible\n  try: a value from 1 to 9; 5 is the usual one");
    assert_eq!(
        message(&[0, 2], 10),
        "setting `order`: 10 is impossible\n  try: a value from 1 to 9; 5 is the usual one"
    );
    assert!(message(&[], 3).starts_with("setting `data`: a text of 0 words cannot be counted"));
    assert!(message(&[0, 7, 2], 3).starts_with("setting `data`: the word id 7 is not among the 3 words"));
}
