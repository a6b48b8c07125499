//! Several predictors as one.
//!
//! A *linear* mixture adds the members' probabilities, `p = sum_i w_i p_i` with weights that add up to 1. A *log* mixture
//! multiplies their powers, `p ~ prod_i p_i^w_i`, and has to be normalised over the whole vocabulary at every word.

use super::{Predictor, Snapshot, em, inside};
use crate::error::{Error, Result};
use std::sync::Arc;

/// How the members are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Probabilities are added.
    Linear,
    /// Their logarithms are, and the result is normalised.
    Log,
}

impl Mix {
    /// `linear` or `log`.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Linear => "linear",
            Mix::Log => "log",
        }
    }
}

/// Words whose distributions are computed at a time for a log mixture.
const LOG_BLOCK: usize = 50;

/// A weight above this leaves nothing of a distribution but its highest point.
const MOST_WEIGHT: f64 = 1000.0;

/// Some predictors, joined.
pub struct Mixture {
    members: Vec<Box<dyn Predictor>>,
    weights: Vec<f64>,
    mix: Mix,
    buffer: Vec<f32>,
    logs: Vec<f64>,
}

/// Checks that weights fit their members.
pub fn check_weights(weights: &[f64], members: usize, mix: Mix) -> Result<()> {
    let wrong = |problem: String, advice: &str| Err(Error::config("weights", problem, advice));
    if weights.len() != members {
        let problem = format!("there are {} weights for {members} members", weights.len());
        return wrong(problem, "one weight for each MODEL, in this order, with commas between");
    }
    if let Some(w) = weights.iter().find(|w| !w.is_finite() || **w < 0.0) {
        return wrong(format!("{w} is impossible"), "weights of at least 0");
    }
    if let Some(w) = weights.iter().find(|w| **w > MOST_WEIGHT) {
        return wrong(format!("{w} is impossible"), "weights of at most 1000");
    }
    let sum: f64 = weights.iter().sum();
    if mix == Mix::Linear && (sum - 1.0).abs() > 1e-6 {
        return wrong(
            format!("they add up to {sum}"),
            "weights that add up to 1, or none: then they are fitted on valid",
        );
    }
    if sum <= 0.0 {
        return wrong("they are all 0".to_owned(), "a weight above 0");
    }
    Ok(())
}

impl Mixture {
    /// Joins predictors of one vocabulary.
    pub fn new(members: Vec<Box<dyn Predictor>>, weights: Vec<f64>, mix: Mix) -> Result<Mixture> {
        check_weights(&weights, members.len(), mix)?;
        if members.iter().any(|m| m.vocab() != members[0].vocab()) {
            let sizes: Vec<String> = members.iter().map(|m| m.vocab().to_string()).collect();
            return Err(Error::config(
                "mix",
                format!("the models have different vocabularies ({} words)", sizes.join(", ")),
                "models trained on the same text with the same vocabulary settings, or with the same `--vocab FILE`",
            ));
        }
        Ok(Mixture { members, weights, mix, buffer: Vec::new(), logs: Vec::new() })
    }

    /// The weights.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The members' distributions after each word that they read, each (words, V).
    fn all_distributions(&mut self, words: &[u32]) -> Vec<Vec<f32>> {
        let size = words.len() * self.vocab();
        let mut all = Vec::new();
        for member in &mut self.members {
            let mut out = vec![0.0; size];
            member.distributions(words, &mut out);
            all.push(out);
        }
        all
    }

    /// For a log mixture: the mean log-probability that it gives to the words of `ids` after the first, and its first and
    /// second derivatives by the weights. The members start anew.
    fn log_derivatives(&mut self, ids: &[u32]) -> (f64, Vec<f64>, Vec<Vec<f64>>) {
        let (m, v) = (self.members.len(), self.vocab());
        let (mut value, mut first, mut second) = (0.0, vec![0.0; m], vec![vec![0.0; m]; m]);
        self.reset();
        let total = ids.len().saturating_sub(1);
        for at in (0..total).step_by(LOG_BLOCK) {
            let n = LOG_BLOCK.min(total - at);
            let all = self.all_distributions(&ids[at..at + n]);
            for t in 0..n {
                let log = |i: usize, w: usize| f64::from(all[i][t * v + w].max(f32::MIN_POSITIVE)).ln();
                let target = ids[at + t + 1] as usize;
                let (mut sum, mut mean, mut product) = (0.0, vec![0.0; m], vec![vec![0.0; m]; m]);
                let mut logs = vec![0.0; m];
                for w in 0..v {
                    (0..m).for_each(|i| logs[i] = log(i, w));
                    let q = logs.iter().zip(&self.weights).map(|(l, w)| l * w).sum::<f64>().exp();
                    sum += q;
                    for i in 0..m {
                        mean[i] += q * logs[i];
                        for j in 0..=i {
                            product[i][j] += q * logs[i] * logs[j];
                        }
                    }
                }
                value -= sum.ln();
                for i in 0..m {
                    value += self.weights[i] * log(i, target);
                    first[i] += log(i, target) - mean[i] / sum;
                    for j in 0..=i {
                        let covariance = product[i][j] / sum - mean[i] * mean[j] / (sum * sum);
                        second[i][j] -= covariance;
                        second[j][i] = second[i][j];
                    }
                }
            }
        }
        let n = total.max(1) as f64;
        first.iter_mut().for_each(|x| *x /= n);
        second.iter_mut().flatten().for_each(|x| *x /= n);
        self.reset();
        (value / n, first, second)
    }

    /// Finds the weights of a log mixture by Newton's method (the log-probability is concave in them) and keeps them.
    pub fn fit_log(&mut self, ids: &[u32], stop: &dyn Fn() -> bool) -> Option<()> {
        for _ in 0..12 {
            if stop() {
                return None;
            }
            let (_, mut gradient, mut hessian) = self.log_derivatives(ids);
            // A weight of 0 that would fall further stays where it is, and the others move without it.
            for i in (0..self.weights.len()).filter(|&i| self.weights[i] == 0.0) {
                if gradient[i] <= 0.0 {
                    gradient[i] = 0.0;
                    hessian[i].fill(0.0);
                    hessian.iter_mut().for_each(|row| row[i] = 0.0);
                }
            }
            let step = solve(hessian, gradient);
            let largest = step.iter().fold(0.0f64, |a, s| a.max(s.abs()));
            // A long step leaves the region that the derivatives describe.
            let factor = if largest > 0.3 { 0.3 / largest } else { 1.0 };
            self.weights.iter_mut().zip(&step).for_each(|(w, s)| *w = (*w - factor * s).max(0.0));
            if self.weights.iter().all(|w| *w == 0.0) {
                self.weights.fill(1.0 / step.len() as f64);
            }
            if largest < 1e-3 {
                break;
            }
        }
        Some(())
    }
}

/// `x` with `a x = b`, by elimination; a row without a pivot gives 0.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|&p, &q| a[p][i].abs().total_cmp(&a[q][i].abs())).unwrap_or(i);
        a.swap(i, pivot);
        b.swap(i, pivot);
        if a[i][i].abs() < 1e-12 {
            continue;
        }
        for row in 0..n {
            if row != i {
                let (pivot, factor) = (a[i].clone(), a[row][i] / a[i][i]);
                for (x, above) in a[row].iter_mut().zip(&pivot).skip(i) {
                    *x -= factor * above;
                }
                b[row] -= factor * b[i];
            }
        }
    }
    (0..n).map(|i| if a[i][i].abs() < 1e-12 { 0.0 } else { b[i] / a[i][i] }).collect()
}

/// Joins the members' distributions of one word.
fn join(mix: Mix, weights: &[f64], members: &[&[f32]], logs: &mut Vec<f64>, out: &mut [f32]) {
    match mix {
        Mix::Linear => {
            for (w, out) in out.iter_mut().enumerate() {
                *out = members.iter().zip(weights).map(|(p, weight)| weight * f64::from(p[w])).sum::<f64>() as f32;
            }
        }
        Mix::Log => {
            logs.clear();
            let log = |p: f32| f64::from(p.max(f32::MIN_POSITIVE)).ln();
            logs.extend(
                (0..out.len()).map(|w| members.iter().zip(weights).map(|(p, weight)| weight * log(p[w])).sum::<f64>()),
            );
            let max = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = logs.iter().map(|x| (x - max).exp()).sum();
            for (out, x) in out.iter_mut().zip(logs) {
                *out = ((*x - max).exp() / sum) as f32;
            }
        }
    }
}

impl Predictor for Mixture {
    fn vocab(&self) -> usize {
        self.members.first().map_or(0, |m| m.vocab())
    }

    fn reset(&mut self) {
        self.members.iter_mut().for_each(|m| m.reset());
    }

    fn observe(&mut self, words: &[u32]) {
        self.members.iter_mut().for_each(|m| m.observe(words));
    }

    fn observe_until(&mut self, words: &[u32], stop: &dyn Fn() -> bool) -> bool {
        self.members.iter_mut().all(|m| m.observe_until(words, stop))
    }

    fn snapshot(&mut self) -> Snapshot {
        Arc::new(self.members.iter_mut().map(|m| m.snapshot()).collect::<Vec<_>>())
    }

    fn restore(&mut self, snapshot: &Snapshot) {
        let members: &Vec<Snapshot> = inside(snapshot);
        self.members.iter_mut().zip(members).for_each(|(m, snapshot)| m.restore(snapshot));
    }

    fn distribution(&mut self, out: &mut [f32]) {
        let v = self.vocab();
        self.buffer.resize(v * self.members.len(), 0.0);
        for (member, buffer) in self.members.iter_mut().zip(self.buffer.chunks_exact_mut(v)) {
            member.distribution(buffer);
        }
        let members: Vec<&[f32]> = self.buffer.chunks_exact(v).collect();
        join(self.mix, &self.weights, &members, &mut self.logs, out);
    }

    fn target_probabilities(&mut self, ids: &[u32], stop: &dyn Fn() -> bool) -> Option<Vec<f64>> {
        if self.mix == Mix::Linear {
            let mut all = Vec::new();
            for member in &mut self.members {
                all.push(member.target_probabilities(ids, stop)?);
            }
            let all: Vec<&[f64]> = all.iter().map(|p| &p[..]).collect();
            return Some((0..ids.len().saturating_sub(1)).map(|t| em::mixed(&all, &self.weights, t)).collect());
        }
        let (total, v) = (ids.len().saturating_sub(1), self.vocab());
        let (mut out, mut joined) = (Vec::with_capacity(total), vec![0.0; v]);
        for at in (0..total).step_by(LOG_BLOCK) {
            if stop() {
                return None;
            }
            let n = LOG_BLOCK.min(total - at);
            let all = self.all_distributions(&ids[at..at + n]);
            for t in 0..n {
                let members: Vec<&[f32]> = all.iter().map(|d| &d[t * v..(t + 1) * v]).collect();
                join(self.mix, &self.weights, &members, &mut self.logs, &mut joined);
                out.push(f64::from(joined[ids[at + t + 1] as usize]));
            }
        }
        Some(out)
    }
}
