//! The weights of a linear mixture, from the probabilities that its members gave to the words of a text.
//!
//! Expectation maximisation: each word is shared out among the members by their part in its probability, and a member's
//! new weight is its mean share. No step makes the text less likely, and the likelihood of mixture weights has no other
//! peaks: it ends at the best ones.

/// What [`em`] found.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// One for each member; they add up to 1.
    pub weights: Vec<f64>,
    /// `exp(mean -log p)` of the mixture on the text.
    pub perplexity: f64,
    /// Rounds it took.
    pub rounds: usize,
}

/// Rounds after which it stops in any case.
const MOST_ROUNDS: usize = 500;
/// A gain in mean log-probability that is not worth another round.
const SMALL_GAIN: f64 = 1e-9;

/// The weights that make the text most likely. All members have as many probabilities; where one is NaN (a cache that is
/// empty) it has no say, and the others share its weight.
pub fn em(members: &[&[f64]]) -> Fit {
    let (n, m) = (members.first().map_or(0, |p| p.len()), members.len());
    let mut weights = vec![1.0 / m.max(1) as f64; m];
    let (mut last, mut rounds) = (f64::NEG_INFINITY, 0);
    loop {
        let (mut shares, mut log) = (vec![0.0; m], 0.0);
        for t in 0..n {
            let p = mixed(members, &weights, t);
            log += p.ln();
            for (share, (member, weight)) in shares.iter_mut().zip(members.iter().zip(&weights)) {
                // A member that has nothing to say keeps its share.
                if member[t].is_nan() {
                    *share += weight;
                } else if p > 0.0 {
                    *share += weight * member[t] / p;
                }
            }
        }
        let mean = log / n.max(1) as f64;
        rounds += 1;
        if n == 0 || mean - last < SMALL_GAIN || rounds >= MOST_ROUNDS {
            return Fit { weights, perplexity: (-mean).exp(), rounds };
        }
        last = mean;
        let total: f64 = shares.iter().sum();
        weights = shares.iter().map(|share| share / total).collect();
    }
}

fn present(members: &[&[f64]], weights: &[f64], t: usize) -> f64 {
    members.iter().zip(weights).filter(|(p, _)| !p[t].is_nan()).map(|(_, w)| w).sum()
}

/// The mixture's probability of word `t`.
pub(super) fn mixed(members: &[&[f64]], weights: &[f64], t: usize) -> f64 {
    let sum: f64 = members.iter().zip(weights).filter(|(p, _)| !p[t].is_nan()).map(|(p, w)| w * p[t]).sum();
    let present = present(members, weights, t);
    if present > 0.0 { sum / present } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream, unit};

    #[test]
    fn it_finds_the_mixture_that_made_a_text() {
        // Three distributions over three words; the text is drawn from 0.6, 0.3 and 0.1 of them.
        let members = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]];
        let truth = [0.6, 0.3, 0.1];
        let word = |i: u32| {
            let r = f64::from(unit(Stream::new(5, Purpose::Words, u64::from(i)).block(0)[0]));
            let p = |w: usize| members.iter().zip(truth).map(|(m, t)| m[w] * t).sum::<f64>();
            if r < p(0) {
                0
            } else if r < p(0) + p(1) {
                1
            } else {
                2
            }
        };
        let text: Vec<usize> = (0..60_000).map(word).collect();
        let vectors: Vec<Vec<f64>> = members.iter().map(|m| text.iter().map(|&w| m[w]).collect()).collect();
        let vectors: Vec<&[f64]> = vectors.iter().map(|v| &v[..]).collect();
        let fit = em(&vectors);
        for (found, truth) in fit.weights.iter().zip(truth) {
            assert!((found - truth).abs() < 0.02, "{:?}", fit.weights);
        }
        let perplexity = |weights: &[f64]| {
            let log: f64 = (0..text.len()).map(|t| mixed(&vectors, weights, t).ln()).sum();
            (-log / text.len() as f64).exp()
        };
        assert!((fit.perplexity - perplexity(&fit.weights)).abs() < 1e-6);
        // No other weights are better.
        for other in [[1.0 / 3.0; 3], truth, [0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [1.0, 0.0, 0.0]] {
            assert!(fit.perplexity <= perplexity(&other) + 1e-7);
        }
    }

    #[test]
    fn an_absent_member_has_no_say() {
        let a = [0.5, 0.5, 0.5, 0.5];
        let b = [f64::NAN, 0.9, 0.9, 0.9];
        let fit = em(&[&a, &b]);
        assert!(fit.weights[1] > 0.99, "{fit:?}");
        assert_eq!(mixed(&[&a, &b], &[0.2, 0.8], 0), 0.5);
    }
}
