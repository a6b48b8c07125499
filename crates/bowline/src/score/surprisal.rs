//! What readers' reading times are compared with: how surprising is each word, and how open was the text before it?
//!
//! With `y_i` the distribution of word `i` given all before it:
//!
//! | | |
//! |---|---|
//! | surprisal | `-log2 y_i[word i]` |
//! | entropy | `H_i = -sum_w y_i[w] log2 y_i[w]`, before the word is known |
//! | entropy reduction | `H_i - H_{i+1}`: what the word did to the uncertainty about the next one |
//! | rank | 1 if no word was likelier |
//!
//! The reduction is negative where a word opens more than it settles. Hale (2006) counts these as 0; whoever wants that
//! takes the larger of the two.

use super::{Scored, Sentence};
use crate::predictor::Predictor;
use crate::vocabulary::Vocabulary;
use std::f64::consts::LN_2;

/// Words whose distributions are computed at a time.
const BLOCK: usize = 20;

/// One word of a sentence, or the `<eos>` after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surprisal {
    /// `-log2` of its probability.
    pub bits: f64,
    /// Entropy of the distribution that it came from, in bits.
    pub entropy: f64,
    /// That entropy minus the entropy of the next word's distribution.
    pub reduction: f64,
    /// Its place among all words by probability, from 1; words equally likely share the best one.
    pub rank: usize,
}

/// Looks at whole distributions while it reads sentences.
pub struct Outlook {
    predictor: Box<dyn Predictor>,
    eos: u32,
    distributions: Vec<f32>,
    /// The distribution after the `<eos>` that was read last, and its entropy.
    after: Option<(Vec<f32>, f64)>,
}

impl Outlook {
    /// From a predictor of the model that scores the sentences.
    pub fn new(predictor: Box<dyn Predictor>, vocabulary: &Vocabulary) -> Outlook {
        let distributions = vec![0.0; BLOCK * predictor.vocab()];
        Outlook { predictor, eos: vocabulary.eos(), distributions, after: None }
    }

    /// Reads a sentence whose log-probabilities are known: at the beginning of a text, or (`carry`) after the sentence
    /// before.
    pub fn read(&mut self, sentence: &Sentence, scored: &Scored, carry: bool) -> Vec<Surprisal> {
        let targets: Vec<u32> = sentence.ids.iter().copied().chain([self.eos]).collect();
        let before = self.after.take().filter(|_| carry).unwrap_or_else(|| {
            self.predictor.reset();
            self.predictor.observe(&[self.eos]);
            let mut y = vec![0.0; self.predictor.vocab()];
            self.predictor.distribution(&mut y);
            let entropy = entropy(&y);
            (y, entropy)
        });
        let (mut entropies, mut ranks) = (vec![before.1], vec![rank(&before.0, targets[0])]);
        let vocab = self.predictor.vocab();
        for (block, words) in targets.chunks(BLOCK).enumerate() {
            let out = &mut self.distributions[..words.len() * vocab];
            self.predictor.distributions(words, out);
            for (i, y) in out.chunks_exact(vocab).enumerate() {
                entropies.push(entropy(y));
                match targets.get(block * BLOCK + i + 1) {
                    Some(&target) => ranks.push(rank(y, target)),
                    None => self.after = Some((y.to_vec(), entropies[targets.len()])),
                }
            }
        }
        let words = scored.logprobs.iter().zip(entropies.windows(2)).zip(ranks);
        let word = |((logprob, entropy), rank): ((&f64, &[f64]), usize)| Surprisal {
            bits: -logprob / LN_2,
            entropy: entropy[0],
            reduction: entropy[0] - entropy[1],
            rank,
        };
        words.map(word).collect()
    }
}

/// In bits.
fn entropy(y: &[f32]) -> f64 {
    let term = |&p: &f32| if p > 0.0 { f64::from(p) * f64::from(p).log2() } else { 0.0 };
    (-y.iter().map(term).sum::<f64>()).max(0.0)
}

fn rank(y: &[f32], word: u32) -> usize {
    1 + y.iter().filter(|&&p| p > y[word as usize]).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predictor::Snapshot;
    use std::path::Path;
    use std::sync::Arc;

    /// After word `w` of four, the next is `w + 1` with one half, and the others share the rest.
    struct Wheel(u32);

    impl Predictor for Wheel {
        fn vocab(&self) -> usize {
            4
        }
        fn reset(&mut self) {
            self.0 = 9;
        }
        fn observe(&mut self, words: &[u32]) {
            self.0 = words.last().copied().unwrap_or(self.0);
        }
        fn distribution(&mut self, out: &mut [f32]) {
            // After word 3 everything is open.
            let next = |w: usize| {
                if self.0 == 3 {
                    0.25
                } else if w == self.0 as usize + 1 {
                    0.5
                } else {
                    1.0 / 6.0
                }
            };
            out.iter_mut().enumerate().for_each(|(w, p)| *p = next(w));
        }
        fn target_probabilities(&mut self, _: &[u32], _: &dyn Fn() -> bool) -> Option<Vec<f64>> {
            None
        }
        fn snapshot(&mut self) -> Snapshot {
            Arc::new(())
        }
        fn restore(&mut self, _: &Snapshot) {}
    }

    #[test]
    fn surprisal_entropy_and_rank_are_those_of_the_distributions() {
        let vocabulary = Vocabulary::from_text(Path::new("v"), b"<eos>\na\nb\nc\n").unwrap();
        let mut outlook = Outlook::new(Box::new(Wheel(9)), &vocabulary);
        let sentence = Sentence::new("a b b c", &vocabulary, false).unwrap();
        let scored = Scored::new([0.5f64, 0.5, 1.0 / 6.0, 0.5, 0.25].map(f64::ln).to_vec());
        let words = outlook.read(&sentence, &scored, false);
        let peaked = 0.5 + 0.5 * 6f64.log2();
        let expected = [
            (1.0, peaked, 0.0, 1),
            (1.0, peaked, 0.0, 1),
            (6f64.log2(), peaked, 0.0, 2),
            (1.0, peaked, peaked - 2.0, 1),
            (2.0, 2.0, 2.0 - peaked, 1),
        ];
        assert_eq!(words.len(), expected.len());
        for (word, (bits, entropy, reduction, rank)) in words.iter().zip(expected) {
            for (found, wanted) in [(word.bits, bits), (word.entropy, entropy), (word.reduction, reduction)] {
                assert!((found - wanted).abs() < 1e-6, "{words:?}");
            }
            assert_eq!(word.rank, rank, "{words:?}");
        }
        // Carried or not, the next sentence begins after an `<eos>`, of which this predictor remembers no more.
        for carry in [true, false] {
            assert_eq!(outlook.read(&sentence, &scored, carry), words);
        }
    }

    #[test]
    fn long_sentences_are_read_in_blocks_without_a_seam() {
        let vocabulary = Vocabulary::from_text(Path::new("v"), b"<eos>\na\nb\nc\n").unwrap();
        let mut outlook = Outlook::new(Box::new(Wheel(9)), &vocabulary);
        let sentence = Sentence::new(&"a b c ".repeat(21), &vocabulary, false).unwrap();
        let scored = Scored::new(vec![0.0; 64]);
        let words = outlook.read(&sentence, &scored, false);
        assert_eq!(words.len(), 64);
        assert!(words[3..63].chunks(3).all(|three| three == &words[3..6]), "{words:?}");
    }
}
