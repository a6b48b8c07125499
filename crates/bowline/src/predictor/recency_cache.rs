//! Recency caches: words that were used lately are likelier to be used again.
//!
//! The *cache* remembers the last words of the text (its *window*), each with a weight that falls with its age:
//! `exp(-age / horizon)`. With `c` the sum of weights and `v` the last word, it predicts
//!
//! ```text
//! p1(w)     = c(w) / sum_u c(u)                              the unigram cache
//! p2(w | v) = (c(v w) + s p1(w)) / (c(v .) + s)              the bigram cache, with the unigram cache below it
//! p(w | history) = (1 - lambda) p_model(w) + lambda p2(w | v)
//! ```
//!
//! where `c(v w)` sums over the places where `w` came right after `v`, and the *strength* `s` is how much evidence the
//! bigram cache needs: without any it is the unigram cache. An empty cache leaves the model as it is. Only words before
//! the predicted one are ever looked at: the cache is told of a word by [`RecencyCache::update`] after it was predicted.
//! Sentence ends are words too, and the cache is carried over them.

mod search;

pub use search::{Tuned, tune};

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// How a cache remembers, and how much it counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecencySettings {
    /// How many words are remembered.
    pub window: usize,
    /// After how many words a weight has fallen to 1/e; 0 for weights that do not fall.
    pub horizon: f64,
    /// `lambda`: the cache's share of the prediction.
    pub weight: f64,
    /// `s`: the share of the unigram cache in the bigram cache, in words seen after the last one.
    pub strength: f64,
}

/// Good values on the Penn Treebank, for where there is no validation split to tune on.
impl Default for RecencySettings {
    fn default() -> RecencySettings {
        RecencySettings { window: 2000, horizon: 200.0, weight: 0.15, strength: 2.0 }
    }
}

/// More words than any text at hand has, and few enough for the memory.
const LARGEST_WINDOW: usize = 10_000_000;

impl RecencySettings {
    /// Checks every value; the error names the first impossible one.
    pub fn validate(&self) -> Result<()> {
        let check = |key: &str, possible: bool, found: &dyn std::fmt::Display, range: &str| {
            if possible {
                return Ok(());
            }
            Err(Error::config(format!("recency.{key}"), format!("{found} is impossible"), format!("a value {range}")))
        };
        check("window", (1..=LARGEST_WINDOW).contains(&self.window), &self.window, "from 1 to 10000000 words")?;
        let positive = |x: f64| x.is_finite() && x >= 0.0;
        check("horizon", positive(self.horizon), &self.horizon, "above 0, or 0 for weights that do not fall")?;
        check("weight", (0.0..=1.0).contains(&self.weight), &self.weight, "from 0 to 1")?;
        check("strength", positive(self.strength) && self.strength > 0.0, &self.strength, "above 0")
    }

    /// Changes these settings by a text like `window=500,weight=0.1`.
    pub fn with(mut self, text: &str) -> Result<RecencySettings> {
        const ADVICE: &str = "for example `window=2000,horizon=200,weight=0.15,strength=2`, or only some of them";
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let wrong = |problem: &str| Error::config("recency", format!("`{}`: {problem}", part.trim()), ADVICE);
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("there is no `=` in it"))?;
            let value: f64 = value.trim().parse().map_err(|_| wrong("the value is not a number"))?;
            match key.trim() {
                "window" if value.fract() == 0.0 && value >= 0.0 => self.window = value as usize,
                "window" => return Err(wrong("the window is a whole number of words")),
                "horizon" => self.horizon = value,
                "weight" => self.weight = value,
                "strength" => self.strength = value,
                _ => return Err(wrong("there is no such setting")),
            }
        }
        self.validate()?;
        Ok(self)
    }
}

/// As [`RecencySettings::with`] reads it.
impl std::fmt::Display for RecencySettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RecencySettings { window, horizon, weight, strength } = self;
        write!(f, "window={window},horizon={horizon},weight={weight},strength={strength}")
    }
}

/// A sum of weights, all of which fall alike: it is kept as it was when it last changed.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    weight: f64,
    time: u64,
    /// How many weights are in it: with none it is zero, whatever subtraction has left over.
    count: u32,
}

/// The cache, and where in the text it stands.
#[derive(Clone, Debug)]
pub struct RecencyCache {
    settings: RecencySettings,
    /// The factor on every weight when a word is added.
    decay: f64,
    /// Words added so far.
    time: u64,
    /// The remembered words, oldest first, each with the word before it.
    words: VecDeque<(u32, u32)>,
    last: u32,
    total: Sum,
    singles: HashMap<u32, Sum>,
    /// `c(v .)`
    contexts: HashMap<u32, Sum>,
    /// `c(v w)`
    pairs: HashMap<(u32, u32), Sum>,
}

/// What the cache knows about one word: enough for any `lambda` and `s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// `p1(w)`; none while the cache is empty.
    pub single: Option<f64>,
    /// `c(v w)`
    pub pair: f64,
    /// `c(v .)`
    pub context: f64,
}

impl Evidence {
    /// `p2(w | v)`
    pub(super) fn probability(&self, strength: f64) -> Option<f64> {
        self.single.map(|single| (self.pair + strength * single) / (self.context + strength))
    }
}

impl RecencyCache {
    /// An empty cache at the beginning of a text.
    pub fn new(settings: RecencySettings, eos: u32) -> Result<RecencyCache> {
        settings.validate()?;
        Ok(RecencyCache {
            settings,
            decay: if settings.horizon > 0.0 { (-1.0 / settings.horizon).exp() } else { 1.0 },
            time: 0,
            words: VecDeque::with_capacity(settings.window.min(1 << 16) + 1),
            last: eos,
            total: Sum::default(),
            singles: HashMap::new(),
            contexts: HashMap::new(),
            pairs: HashMap::new(),
        })
    }

    /// `p(word | history)`, given the model's own probability of the word.
    pub fn probability(&self, model: f64, word: u32) -> f64 {
        let weight = self.settings.weight;
        match self.evidence(word).probability(self.settings.strength) {
            Some(cache) => (1.0 - weight) * model + weight * cache,
            None => model,
        }
    }

    /// Turns the model's distribution into that with the cache, (V).
    pub fn mix(&self, distribution: &mut [f32]) {
        let total = self.value(self.total);
        if self.words.is_empty() {
            return;
        }
        let RecencySettings { weight, strength, .. } = self.settings;
        let context = self.value(self.contexts.get(&self.last).copied().unwrap_or_default());
        let (single, pair) = (weight * strength / (context + strength) / total, weight / (context + strength));
        let keep = (1.0 - weight) as f32;
        for p in &mut *distribution {
            *p *= keep;
        }
        let mut fallen = 1.0;
        for &(before, word) in self.words.iter().rev() {
            let share = if before == self.last { single + pair } else { single };
            distribution[word as usize] += (share * fallen) as f32;
            fallen *= self.decay;
        }
    }

    /// Adds the word that came, and forgets the one that falls out of the window.
    pub fn update(&mut self, word: u32) {
        self.time += 1;
        let (time, decay, before) = (self.time, self.decay, self.last);
        // The newest word has the weight 1.
        let add = |sum: &mut Sum, weight: f64, count: i32| {
            let now = sum.weight * power(decay, time - sum.time) + weight;
            let count = sum.count.saturating_add_signed(count);
            *sum = Sum { weight: if count == 0 { 0.0 } else { now }, time, count };
            count == 0
        };
        add(&mut self.total, 1.0, 1);
        add(self.singles.entry(word).or_default(), 1.0, 1);
        add(self.contexts.entry(before).or_default(), 1.0, 1);
        add(self.pairs.entry((before, word)).or_default(), 1.0, 1);
        self.words.push_back((before, word));
        self.last = word;
        if self.words.len() <= self.settings.window {
            return;
        }
        if let Some((before, word)) = self.words.pop_front() {
            let weight = -power(decay, self.settings.window as u64);
            add(&mut self.total, weight, -1);
            if add(self.singles.entry(word).or_default(), weight, -1) {
                self.singles.remove(&word);
            }
            if add(self.contexts.entry(before).or_default(), weight, -1) {
                self.contexts.remove(&before);
            }
            if add(self.pairs.entry((before, word)).or_default(), weight, -1) {
                self.pairs.remove(&(before, word));
            }
        }
    }

    pub(super) fn evidence(&self, word: u32) -> Evidence {
        let value = |sum: Option<&Sum>| sum.map_or(0.0, |&sum| self.value(sum));
        Evidence {
            single: (!self.words.is_empty()).then(|| value(self.singles.get(&word)) / self.value(self.total)),
            pair: value(self.pairs.get(&(self.last, word))),
            context: value(self.contexts.get(&self.last)),
        }
    }

    fn value(&self, sum: Sum) -> f64 {
        sum.weight * power(self.decay, self.time - sum.time)
    }
}

fn power(decay: f64, times: u64) -> f64 {
    if decay == 1.0 || times == 0 { 1.0 } else { decay.powf(times as f64) }
}

/// `-log p` of every word of `ids` after the first with a cache, given that of the model alone.
pub fn nll(settings: RecencySettings, eos: u32, ids: &[u32], model: &[f64]) -> Result<Vec<f64>> {
    let mut cache = RecencyCache::new(settings, eos)?;
    if let Some(&first) = ids.first() {
        cache.update(first);
    }
    let words = ids.iter().skip(1).zip(model);
    Ok(words
        .map(|(&word, &nll)| {
            let p = cache.probability((-nll).exp(), word);
            cache.update(word);
            -p.ln()
        })
        .collect())
}

#[cfg(test)]
mod tests;
