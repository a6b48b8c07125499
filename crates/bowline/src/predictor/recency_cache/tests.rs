//! The cache against its definition, and against looking ahead.

use super::*;
use crate::ngram::tests::{Dice, text};

const SETTINGS: [RecencySettings; 4] = [
    RecencySettings { window: 7, horizon: 0.0, weight: 0.3, strength: 2.0 },
    RecencySettings { window: 40, horizon: 15.0, weight: 0.2, strength: 0.5 },
    RecencySettings { window: 100_000, horizon: 50.0, weight: 0.9, strength: 4.0 },
    RecencySettings { window: 1, horizon: 3.0, weight: 1.0, strength: 1.0 },
];

/// The definition, summed over the history anew for each word.
fn by_definition(settings: RecencySettings, history: &[u32], eos: u32, model: f64, word: u32) -> f64 {
    if history.is_empty() {
        return model;
    }
    let with_start: Vec<u32> = std::iter::once(eos).chain(history.iter().copied()).collect();
    let (mut total, mut single, mut pair, mut context) = (0.0, 0.0, 0.0, 0.0);
    let last = *with_start.last().unwrap();
    for (age, at) in (1..with_start.len()).rev().enumerate().take(settings.window) {
        let weight = if settings.horizon > 0.0 { (-(age as f64) / settings.horizon).exp() } else { 1.0 };
        total += weight;
        single += if with_start[at] == word { weight } else { 0.0 };
        context += if with_start[at - 1] == last { weight } else { 0.0 };
        pair += if with_start[at - 1] == last && with_start[at] == word { weight } else { 0.0 };
    }
    let cache = (pair + settings.strength * single / total) / (context + settings.strength);
    (1.0 - settings.weight) * model + settings.weight * cache
}

#[test]
fn it_agrees_with_its_definition() {
    let ids = text(5, 60, 12);
    for settings in SETTINGS {
        let (mut cache, mut dice) = (RecencyCache::new(settings, 11).unwrap(), Dice(1));
        for (at, &next) in ids.iter().enumerate() {
            let word = if dice.below(2) == 0 { next } else { dice.below(12) as u32 };
            let expected = by_definition(settings, &ids[..at], 11, 0.01, word);
            let found = cache.probability(0.01, word);
            assert!((found - expected).abs() < 1e-9, "{settings:?} at {at}: {found} for {expected}");
            cache.update(next);
        }
    }
}

#[test]
fn distributions_sum_to_one_and_are_those_of_the_words() {
    let ids = text(6, 80, 30);
    for settings in SETTINGS {
        let mut cache = RecencyCache::new(settings, 29).unwrap();
        for (at, &word) in ids.iter().enumerate() {
            if at % 7 == 0 {
                let mut out = vec![1.0 / 30.0; 30];
                cache.mix(&mut out);
                assert!((out.iter().map(|&p| f64::from(p)).sum::<f64>() - 1.0).abs() < 1e-5);
                for id in 0..30 {
                    let p = cache.probability(1.0 / 30.0, id);
                    assert!((p - f64::from(out[id as usize])).abs() < 1e-6, "{settings:?} at {at}");
                }
            }
            cache.update(word);
        }
    }
}

#[test]
fn neither_the_word_itself_nor_what_follows_is_used() {
    let ids = text(7, 60, 12);
    let model: Vec<f64> = (1..ids.len()).map(|at| 1.0 + at as f64 / 500.0).collect();
    for settings in SETTINGS {
        let before = nll(settings, 11, &ids, &model).unwrap();
        let half = ids.len() / 2;
        let mut other = ids.clone();
        other[half + 1..].reverse();
        let after = nll(settings, 11, &other, &model).unwrap();
        // The prediction of the word at `half` is the last one that both texts share.
        assert_eq!(before[..half], after[..half]);
        assert_ne!(before, after);
        // All possible words at one place together have probability 1: none of them can have been known.
        let sum: f64 = (0..12)
            .map(|word| {
                let mut ids = ids[..=half].to_vec();
                ids[half] = word;
                let uniform = vec![12f64.ln(); half];
                (-nll(settings, 11, &ids, &uniform).unwrap()[half - 1]).exp()
            })
            .sum();
        assert!((sum - 1.0).abs() < 1e-9, "{settings:?}: {sum}");
    }
}

#[test]
fn tuning_finds_what_the_text_is_like() {
    // Words keep their theme for some fifty words: the model alone cannot know it.
    let (mut dice, mut ids, mut theme) = (Dice(9), Vec::new(), 0);
    for at in 0..6000 {
        if at % 50 == 0 {
            theme = dice.below(20);
        }
        ids.push((if dice.below(2) == 0 { 5 * theme + dice.below(5) } else { dice.below(100) }) as u32);
    }
    let uniform = vec![101f64.ln(); ids.len() - 1];
    let tuned = tune(100, &ids, &uniform).unwrap();
    tuned.settings.validate().unwrap();
    assert!(tuned.perplexity < 80.0, "{tuned:?}");
    assert!(tuned.settings.horizon < 101.0 && tuned.settings.weight > 0.2, "{tuned:?}");
    let found = nll(tuned.settings, 100, &ids, &uniform).unwrap();
    let perplexity = (found.iter().sum::<f64>() / found.len() as f64).exp();
    assert!((perplexity / tuned.perplexity - 1.0).abs() < 1e-9);
    // Where nothing is repeated, the cache is left out.
    let ids: Vec<u32> = (0..3000).collect();
    let tuned = tune(3000, &ids, &vec![3001f64.ln(); 2999]).unwrap();
    assert!(tuned.settings.weight < 0.001, "{tuned:?}");
}

#[test]
fn impossible_settings_are_refused() {
    let message = |text: &str| RecencySettings::default().with(text).unwrap_err().to_string();
    for (text, expected) in [
        ("window=0", "setting `recency.window`: 0 is impossible\n  try: a value from 1 to 10000000 words"),
        ("weight=1.5", "setting `recency.weight`: 1.5 is impossible\n  try: a value from 0 to 1"),
        ("weight=nan", "setting `recency.weight`: NaN is impossible\n  try: a value from 0 to 1"),
        ("strength=0", "setting `recency.strength`: 0 is impossible\n  try: a value above 0"),
        (
            "horizon=-1",
            "setting `recency.horizon`: -1 is impossible\n  try: a value above 0, or 0 for weights that do not fall",
        ),
    ] {
        assert_eq!(message(text), expected);
    }
    for (text, problem) in [
        ("window", "`window`: there is no `=` in it"),
        ("window=2.5", "`window=2.5`: the window is a whole number of words"),
        ("weight=x", "`weight=x`: the value is not a number"),
        ("lambda=0.1", "`lambda=0.1`: there is no such setting"),
    ] {
        assert!(message(text).starts_with(&format!("setting `recency`: {problem}\n  try: for example")), "{text}");
    }
    let settings = RecencySettings::default().with("window=500, weight=0.1").unwrap();
    assert_eq!((settings.window, settings.weight, settings.strength), (500, 0.1, 2.0));
}
