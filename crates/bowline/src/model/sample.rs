//! The words that a window is learned from when there are too many to compute the probability of each.
//!
//! The loss of a word is `log Z - z_target` with `Z = sum_i e^(z_i)` over the vocabulary. For each window a set `S` of words
//! is drawn, each by itself: word `i` is in it with probability `p_i`, and the targets of the window are in it anyway, so
//! that theirs is 1. Then
//!
//! `Z^ = sum_{i in S} e^(z_i - log p_i)`
//!
//! is right on average, whatever the weights (Horvitz and Thompson 1952), and it is the same softmax over fewer words, whose
//! logits are corrected by `-log p_i`. The more frequent a word, the likelier it is drawn: `p_i` goes with the power 0.75 of
//! its count, and words that would be drawn more than once are always in `S`. `log Z^` is a little less than `log Z` on
//! average, the less the more words there are; with all of them it is the same.

use crate::rng::{Purpose, Stream};
use bowline_kernels::Team;

/// The power of a word's count that its probability goes with.
const POWER: f64 = 0.75;
/// Words that a job draws, a multiple of 4.
const PIECE: usize = 1 << 13;
/// A probability of 1.
const CERTAIN: u64 = 1 << 32;

/// Draws the words of each window.
pub struct Sampler {
    seed: u64,
    /// Word `i` is drawn if a random number of 32 bits is below this.
    below: Vec<u64>,
    /// `-log p_i`.
    corrections: Vec<f32>,
    drawn: Vec<Vec<u32>>,
    targets: Vec<u32>,
    sample: Sample,
}

/// The words of one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// In ascending order, each once.
    pub words: Vec<u32>,
    /// What is added to the logit of each: `-log p_i`, and 0 for the targets of the window.
    pub corrections: Vec<f32>,
}

impl Sampler {
    /// About `size` words for each window, besides its targets, of a vocabulary with these counts.
    pub fn new(seed: u64, counts: &[u64], size: usize) -> Sampler {
        // A word that was never seen is drawn, too.
        let weights: Vec<f64> = counts.iter().map(|&count| (count as f64 + 1.0).powf(POWER)).collect();
        let factor = factor(&weights, size as f64);
        let below = |weight: &f64| ((weight * factor * CERTAIN as f64).ceil() as u64).clamp(1, CERTAIN);
        let below: Vec<u64> = weights.iter().map(below).collect();
        Sampler {
            seed,
            corrections: below.iter().map(|&below| -(below as f64 / CERTAIN as f64).ln() as f32).collect(),
            drawn: vec![Vec::new(); below.len().div_ceil(PIECE)],
            below,
            targets: Vec::new(),
            sample: Sample::default(),
        }
    }

    /// The words for the window of a training step: a function of the seed, the step and the targets alone.
    pub fn draw(&mut self, team: &Team, step: u64, targets: &[u32]) -> &Sample {
        let stream = Stream::new(self.seed, Purpose::Sample, step);
        let pieces = self.below.chunks(PIECE).zip(&mut self.drawn).zip((0..).step_by(PIECE));
        team.for_each(pieces, |((below, drawn), first)| {
            drawn.clear();
            for (four, at) in below.chunks(4).zip((first..).step_by(4)) {
                let numbers = stream.block(at / 4);
                let words = (at..).zip(four.iter().zip(numbers)).filter(|(_, (below, r))| u64::from(*r) < **below);
                drawn.extend(words.map(|(word, _)| word));
            }
        });
        self.targets.clear();
        self.targets.extend(targets);
        self.targets.sort_unstable();
        self.targets.dedup();
        let Sample { words, corrections } = &mut self.sample;
        words.clear();
        corrections.clear();
        let mut targets = self.targets.iter().copied().peekable();
        for word in self.drawn.iter().flatten().copied() {
            while let Some(target) = targets.next_if(|&target| target < word) {
                words.push(target);
                corrections.push(0.0);
            }
            let certain = targets.next_if_eq(&word).is_some();
            words.push(word);
            corrections.push(if certain { 0.0 } else { self.corrections[word as usize] });
        }
        for target in targets {
            words.push(target);
            corrections.push(0.0);
        }
        &self.sample
    }
}

/// The factor with which the weights, each at most 1, add up to `size`.
fn factor(weights: &[f64], size: f64) -> f64 {
    let sum = |factor: f64| weights.iter().map(|weight| (weight * factor).min(1.0)).sum::<f64>();
    // The smallest weight is 1.
    let (mut low, mut high) = (0.0, 1.0);
    if size >= weights.len() as f64 {
        return high;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if sum(middle) < size {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(vocab: u64) -> Vec<u64> {
        (0..vocab).map(|i| 10_000 / (i + 1)).collect()
    }

    #[test]
    fn the_size_is_as_asked_and_frequent_words_are_always_there() {
        let counts = counts(20_000);
        let (mut sampler, team) = (Sampler::new(1, &counts, 1000), Team::new(2));
        let sizes: Vec<usize> = (0..50).map(|step| sampler.draw(&team, step, &[]).words.len()).collect();
        let mean = sizes.iter().sum::<usize>() as f64 / 50.0;
        // Each size has a standard deviation below the root of 1000.
        assert!((mean - 1000.0).abs() < 3.0 * (1000.0f64 / 50.0).sqrt(), "{mean}");
        let sample = sampler.draw(&team, 7, &[]);
        assert_eq!((sample.words[..5].to_vec(), &sample.corrections[..5]), (vec![0, 1, 2, 3, 4], &[0.0; 5][..]));
        assert!(sample.words.is_sorted_by(|a, b| a < b) && sample.corrections.iter().all(|c| *c >= 0.0));
    }

    #[test]
    fn a_word_is_drawn_as_often_as_its_correction_says() {
        let (mut sampler, team) = (Sampler::new(3, &counts(50), 10), Team::new(1));
        let (mut seen, steps) = ([0u32; 50], 4000);
        for step in 0..steps {
            sampler.draw(&team, step, &[]).words.iter().for_each(|&word| seen[word as usize] += 1);
        }
        for (word, &seen) in seen.iter().enumerate() {
            let p = f64::from(-sampler.corrections[word]).exp();
            let deviation = (p * (1.0 - p) * steps as f64).sqrt();
            assert!((f64::from(seen) - p * steps as f64).abs() <= 4.5 * deviation, "{word}: {seen}, {p}");
        }
    }

    #[test]
    fn the_targets_are_there_for_certain_and_threads_change_nothing() {
        let counts = counts(30_000);
        let targets = [29_999, 5, 17_000, 5, 12_345];
        let draw =
            |threads: usize, step: u64| Sampler::new(9, &counts, 300).draw(&Team::new(threads), step, &targets).clone();
        let sample = draw(1, 4);
        for target in targets {
            let at = sample.words.binary_search(&target).unwrap();
            assert_eq!(sample.corrections[at], 0.0);
        }
        assert!(sample.words.is_sorted_by(|a, b| a < b));
        assert_eq!((draw(2, 4), draw(3, 4)), (sample.clone(), sample.clone()));
        assert_ne!(draw(1, 5), sample);
        // All words, when there are not more than are asked for.
        let all = Sampler::new(1, &[5, 1, 0], 3).draw(&Team::new(1), 0, &[1]).clone();
        assert_eq!(all, Sample { words: vec![0, 1, 2], corrections: vec![0.0; 3] });
    }

    #[test]
    fn the_sum_over_the_sample_is_right_on_average() {
        let (mut sampler, team) = (Sampler::new(5, &counts(300), 40), Team::new(1));
        // Logits that have nothing to do with the counts.
        let logits: Vec<f64> = (0..300).map(|i| f64::from(i * 37 % 101) / 25.0).collect();
        let z: f64 = logits.iter().map(|z| z.exp()).sum();
        let draws = 3000;
        let sums: Vec<f64> = (0..draws)
            .map(|step| {
                let Sample { words, corrections } = sampler.draw(&team, step, &[7, 250]);
                words.iter().zip(corrections).map(|(&word, &c)| (logits[word as usize] + f64::from(c)).exp()).sum()
            })
            .collect();
        let mean = sums.iter().sum::<f64>() / draws as f64;
        let deviation = (sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / draws as f64).sqrt();
        assert!(deviation > 0.01 * z, "the sums differ: {deviation}, {z}");
        assert!((mean - z).abs() < 4.0 * deviation / (draws as f64).sqrt(), "{mean}, {z}, {deviation}");
    }
}
