//! Interpolated modified Kneser-Ney smoothing (Chen & Goodman 1998, "An Empirical Study of Smoothing Techniques for
//! Language Modeling", TR-10-98; section 3 has the modified form).
//!
//! With `a` the adjusted count of an n-gram ([`super::counts`]), for a context `h` and `h'` the context without its
//! first word:
//!
//! ```text
//! p(w | h) = (a(h w) - D(a(h w))) / sum_v a(h v)  +  gamma(h) p(w | h')                       equation (24)
//! gamma(h) = (D1 N1(h .) + D2 N2(h .) + D3+ N3+(h .)) / sum_v a(h v)                            after (25)
//! Y = n1 / (n1 + 2 n2),   Dk = k - (k + 1) Y n(k+1) / nk   for k = 1, 2, 3+                   equation (26)
//! ```
//!
//! `Nk(h .)` is the number of words that follow `h` with adjusted count `k`, and `nk` the number of n-grams of that length
//! with adjusted count `k`. Below the single words stands the uniform distribution, `p = 1 / V`, so that no word of the
//! vocabulary has probability 0. `gamma` is the back-off weight of the model in back-off form.
//!
//! *Pruning* leaves out the n-grams that stand in the text no more often than a threshold of their length, as KenLM's
//! `lmplz --prune` does. The discounts are those of all n-grams; what a pruned one had goes to the shorter context.

use super::counts::{Grams, count};
use super::model::{Level, MAX_ORDER, NgramModel};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The discounts of a length whose counts of counts give none (KenLM's `--discount_fallback`).
pub const FALLBACK: [f64; 3] = [0.5, 1.0, 1.5];

/// What is taken off the counts of one length of n-grams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Discounts {
    /// The length of the n-grams.
    pub length: usize,
    /// How many n-grams have the adjusted count 1, 2, 3 and 4.
    pub counts_of_counts: [u64; 4],
    /// `D1`, `D2` and `D3+`.
    pub values: [f64; 3],
    /// Whether these are the [`FALLBACK`]: the text is too small, or too regular, for equation (26).
    pub fallback: bool,
}

impl Discounts {
    /// Equation (26) of Chen and Goodman, on the adjusted counts of one length.
    fn of(length: usize, counts: &[u32]) -> Discounts {
        let mut n = [0u64; 4];
        for &count in counts {
            if (1..=4).contains(&count) {
                n[count as usize - 1] += 1;
            }
        }
        let [n1, n2, n3, n4] = n.map(|n| n as f64);
        let y = n1 / (n1 + 2.0 * n2);
        let values = [1.0 - 2.0 * y * n2 / n1, 2.0 - 3.0 * y * n3 / n2, 3.0 - 4.0 * y * n4 / n3];
        // A count of counts that is 0 gives no number, or none at all. A discount of 0 would leave nothing for unseen
        // words, one above its count would make a probability negative.
        let usable = n1 * n2 * n3 > 0.0 && values.iter().zip(1..).all(|(&d, k)| d > 0.0 && d <= f64::from(k));
        let values = if usable { values } else { FALLBACK };
        Discounts { length, counts_of_counts: n, values, fallback: !usable }
    }

    fn at(&self, count: u32) -> f64 {
        match count {
            0 => 0.0,
            1..=3 => self.values[count as usize - 1],
            _ => self.values[2],
        }
    }
}

impl NgramModel {
    /// Estimates a model of n-grams of up to `order` words from a text of sentences, each with its `eos` at the end;
    /// all `ids` are below `vocab`. Also gives the discounts of each length.
    pub fn train(ids: &[u32], vocab: usize, eos: u32, order: usize) -> Result<(NgramModel, Vec<Discounts>)> {
        NgramModel::train_pruned(ids, vocab, eos, order, &[])
    }

    /// The same without the n-grams of length `k` that stand in the text `prune[k - 1]` times or less; the last threshold
    /// holds for all longer ones. See [`check_thresholds`].
    pub fn train_pruned(
        ids: &[u32],
        vocab: usize,
        eos: u32,
        order: usize,
        prune: &[u32],
    ) -> Result<(NgramModel, Vec<Discounts>)> {
        check_thresholds(prune, order)?;
        if !(1..=MAX_ORDER).contains(&order) {
            let advice = format!("a value from 1 to {MAX_ORDER}; 5 is the usual one");
            return Err(Error::config("order", format!("{order} is impossible"), advice));
        }
        if ids.is_empty() || ids.len() >= u32::MAX as usize - 1 {
            let problem = format!("a text of {} words cannot be counted", ids.len());
            return Err(Error::config("data", problem, "a text of 1 to some four thousand million words"));
        }
        if let Some(id) = ids.iter().chain([&eos]).find(|&&id| id as usize >= vocab) {
            let problem = format!("the word id {id} is not among the {vocab} words of the vocabulary");
            return Err(Error::config("data", problem, "ids of the vocabulary that the model is trained with"));
        }
        let grams = count(ids, vocab, eos, order);
        let discounts: Vec<Discounts> = grams.iter().zip(1..).map(|(g, k)| Discounts::of(k, &g.counts)).collect();

        // Of the single words the context is empty: one parent for all, and the uniform distribution below.
        let mut estimate = Estimate { probabilities: vec![0.0; vocab], backoffs: Vec::new() };
        let uniform = 1.0 / vocab as f64;
        estimate.context(&grams[0], 0..vocab, (&discounts[0], 0), |_| uniform);
        let mut levels = Vec::with_capacity(order);
        for k in 1..order {
            let (parents, children) = (&grams[k - 1], &grams[k]);
            let longer = estimate.longer(parents, children, (&discounts[k], threshold(prune, k + 1)));
            levels.push(level(parents, &estimate.probabilities, &longer.backoffs));
            estimate = longer;
        }
        levels.push(level(&grams[order - 1], &estimate.probabilities, &[]));
        if prune.iter().any(|&threshold| threshold > 0) {
            leave_out(&mut levels, &grams, prune);
        }
        Ok((NgramModel::from_levels(eos, levels), discounts))
    }
}

/// The threshold of a length: the last one holds for all longer n-grams.
fn threshold(prune: &[u32], length: usize) -> u32 {
    prune.get(length - 1).or(prune.last()).copied().unwrap_or(0)
}

/// Thresholds must begin with 0, since the single words stay, and must not fall, so that the suffix of an n-gram that
/// stays does too.
pub fn check_thresholds(prune: &[u32], order: usize) -> Result<()> {
    let possible = prune.first().is_none_or(|&first| first == 0) && prune.is_sorted() && prune.len() <= order;
    if possible {
        return Ok(());
    }
    let shown: Vec<String> = prune.iter().map(u32::to_string).collect();
    let advice = format!("up to {order} thresholds that begin with 0 and do not fall, such as 0,1 or 0,0,1");
    Err(Error::config("prune", format!("{} is impossible", shown.join(",")), advice))
}

/// Takes the pruned n-grams out of the trie. Where one goes all that begin with it go, since they are no more frequent and
/// their threshold is no lower.
fn leave_out(levels: &mut [Level], grams: &[Grams], prune: &[u32]) {
    let mut kept: Vec<usize> = (0..levels[0].words.len()).collect();
    for k in 1..levels.len() {
        let limit = threshold(prune, k + 1);
        let (mut first, mut children) = (vec![0], Vec::new());
        for &parent in &kept {
            let range = levels[k - 1].first[parent] as usize..levels[k - 1].first[parent + 1] as usize;
            children.extend(range.filter(|&node| grams[k].raw[node] > limit));
            first.push(children.len() as u32);
        }
        levels[k - 1].first = first;
        let level = &mut levels[k];
        let of = |values: &[f32]| {
            if values.is_empty() { Vec::new() } else { children.iter().map(|&node| values[node]).collect() }
        };
        (level.probabilities, level.backoffs) = (of(&level.probabilities), of(&level.backoffs));
        level.words = children.iter().map(|&node| level.words[node]).collect();
        kept = children;
    }
}

/// The probabilities of one level and the back-off weights of the level before.
struct Estimate {
    probabilities: Vec<f64>,
    backoffs: Vec<f64>,
}

impl Estimate {
    /// The n-grams one word longer than these.
    fn longer(&self, parents: &Grams, children: &Grams, rule: (&Discounts, u32)) -> Estimate {
        let mut longer = Estimate {
            probabilities: vec![0.0; children.words.len()],
            backoffs: Vec::with_capacity(parents.words.len()),
        };
        for range in parents.first.windows(2) {
            let range = range[0] as usize..range[1] as usize;
            longer.context(children, range, rule, |node| self.probabilities[children.suffix[node] as usize]);
        }
        longer
    }

    /// Equation (24) for all words seen after a context, which are the nodes in `range`; `lower(node)` is `p(w | h')`. All
    /// that a node had is taken off it if it stands in the text no more often than the threshold.
    fn context(
        &mut self,
        grams: &Grams,
        range: std::ops::Range<usize>,
        (discounts, threshold): (&Discounts, u32),
        lower: impl Fn(usize) -> f64,
    ) {
        let counts = &grams.counts;
        let off = |node: usize| match threshold > 0 && grams.raw[node] <= threshold {
            true => f64::from(counts[node]),
            false => discounts.at(counts[node]),
        };
        let total: f64 = counts[range.clone()].iter().map(|&count| f64::from(count)).sum();
        let taken: f64 = range.clone().map(off).sum();
        // A context after which nothing stands, such as one that ends a sentence, leaves all to the shorter one.
        let gamma = if total > 0.0 { taken / total } else { 1.0 };
        for node in range {
            self.probabilities[node] = (f64::from(counts[node]) - off(node)) / total + gamma * lower(node);
        }
        self.backoffs.push(gamma);
    }
}

fn level(grams: &Grams, probabilities: &[f64], backoffs: &[f64]) -> Level {
    let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect();
    Level {
        words: grams.words.clone(),
        probabilities: narrow(probabilities),
        backoffs: narrow(backoffs),
        first: grams.first.clone(),
    }
}
