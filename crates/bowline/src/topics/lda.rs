//! Latent Dirichlet allocation by collapsed Gibbs sampling (Griffiths and Steyvers 2004).
//!
//! A *document* is a block of consecutive sentences. Each of its words, sentence ends aside, has a topic `z`, which is drawn again
//! in every *sweep* given those of all other words: `p(z = j) ~ (n_dj + alpha) (n_wj + beta) / (n_j + V beta)`, where `n` counts
//! the words with topic `j` in the document, of this word, and in all. The second half of the sweeps gives `p(j | w)`.
//!
//! Of a rare word, `p(j | w)` says less about the word than about the few documents that it was found in, whose other words the
//! network is to learn. So some occurrences with the topics of all words are added to its own ([`TopicsConfig::shrinkage`]).
//!
//! A word speaks for a topic by `s log ((p(j | w) + e) / (p(j) + e))`: not at all where it says no more than chance. (Mikolov and
//! Zweig multiply `p(j | w)` itself. Then words that say nothing speak for the largest topics, and most words of a text do.)

use super::{Topics, TopicsSpec};
use crate::config::TopicsConfig;
use crate::rng::{Purpose, Stream, unit};

/// How evenly a document's words are spread over the topics, and a topic's over the words.
const ALPHA: f64 = 0.1;
const BETA: f64 = 0.01;

/// The words of a text with their topics, and how many there are of each kind.
struct Sampler {
    topics: usize,
    vocab: usize,
    /// Of each word of the text, its document and its id.
    tokens: Vec<(u32, u32)>,
    z: Vec<u16>,
    /// (documents, k), (V, k) and (k).
    of_document: Vec<u32>,
    of_word: Vec<u32>,
    of_topic: Vec<u32>,
}

/// Finds the topics of a text: a function of the text, the settings and the seed alone.
pub fn fit(ids: &[u32], eos: u32, vocab: usize, config: &TopicsConfig, seed: u64) -> Topics {
    let spec = TopicsSpec { count: config.count, window: config.window };
    let mut sampler = Sampler::new(ids, eos, vocab, config);
    sampler.begin(seed);
    let mut counts = vec![0u64; vocab * config.count];
    for sweep in 1..=config.sweeps as u64 {
        sampler.sweep(&Stream::new(seed, Purpose::Topics, sweep));
        if 2 * sweep > config.sweeps as u64 {
            counts.iter_mut().zip(&sampler.of_word).for_each(|(sum, &n)| *sum += u64::from(n));
        }
    }
    let mut topics = Topics::none(spec, vocab);
    speak(&counts, config, topics.table_mut());
    topics
}

/// What each word speaks for, from how often it had which topic.
fn speak(counts: &[u64], config: &TopicsConfig, table: &mut [f32]) {
    let (k, e) = (config.count, f64::from(config.smoothing));
    // Every occurrence was counted once in each sweep of the second half.
    let added = f64::from(config.shrinkage) * (config.sweeps - config.sweeps / 2) as f64;
    let total: u64 = counts.iter().sum();
    let of_topic = |j: usize| counts.iter().skip(j).step_by(k).sum::<u64>() as f64 / total.max(1) as f64;
    let prior: Vec<f64> = (0..k).map(of_topic).collect();
    for (counts, row) in counts.chunks_exact(k).zip(table.chunks_exact_mut(k)) {
        let n: u64 = counts.iter().sum();
        if n == 0 {
            continue;
        }
        for ((x, &count), prior) in row.iter_mut().zip(counts).zip(&prior) {
            let p = (count as f64 + added * prior) / (n as f64 + added);
            *x = (f64::from(config.sharpness) * ((p + e) / (prior + e)).ln()) as f32;
        }
    }
}

impl Sampler {
    fn new(ids: &[u32], eos: u32, vocab: usize, config: &TopicsConfig) -> Sampler {
        let (mut tokens, mut sentence) = (Vec::with_capacity(ids.len()), 0);
        for &id in ids {
            if id == eos {
                sentence += 1;
            } else {
                tokens.push(((sentence / config.sentences) as u32, id));
            }
        }
        let (k, documents) = (config.count, sentence / config.sentences + 1);
        let z = vec![0; tokens.len()];
        let (of_document, of_word, of_topic) = (vec![0; documents * k], vec![0; vocab * k], vec![0; k]);
        Sampler { topics: k, vocab, tokens, z, of_document, of_word, of_topic }
    }

    /// Gives every word a topic by chance.
    fn begin(&mut self, seed: u64) {
        let stream = Stream::new(seed, Purpose::Topics, 0);
        for i in 0..self.tokens.len() {
            let r = stream.block(i as u32 / 4)[i % 4];
            let topic = (unit(r) * self.topics as f32) as usize;
            self.z[i] = topic.min(self.topics - 1) as u16;
            self.count(i, self.z[i] as usize, 1);
        }
    }

    fn count(&mut self, i: usize, topic: usize, n: i32) {
        let (document, word) = self.tokens[i];
        let at = |row: u32| row as usize * self.topics + topic;
        for count in [&mut self.of_document[at(document)], &mut self.of_word[at(word)], &mut self.of_topic[topic]] {
            *count = count.wrapping_add_signed(n);
        }
    }

    /// Draws the topic of every word again.
    fn sweep(&mut self, stream: &Stream) {
        let (k, all) = (self.topics, self.vocab as f64 * BETA);
        let mut sums = vec![0.0; k];
        for i in 0..self.tokens.len() {
            self.count(i, self.z[i] as usize, -1);
            let (document, word) = self.tokens[i];
            let of_document = &self.of_document[document as usize * k..][..k];
            let of_word = &self.of_word[word as usize * k..][..k];
            let mut sum = 0.0;
            for j in 0..k {
                sum += (f64::from(of_document[j]) + ALPHA) * (f64::from(of_word[j]) + BETA)
                    / (f64::from(self.of_topic[j]) + all);
                sums[j] = sum;
            }
            let at = f64::from(unit(stream.block(i as u32 / 4)[i % 4])) * sum;
            let topic = sums.partition_point(|&sum| sum <= at).min(k - 1);
            self.z[i] = topic as u16;
            self.count(i, topic, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TopicsConfig {
        TopicsConfig { count: 2, window: 6, sentences: 2, sweeps: 40, ..TopicsConfig::default() }
    }

    /// Documents of two sentences, about words 1 to 4 or 5 to 8, with word 9 in all.
    fn text() -> Vec<u32> {
        (0..60u32)
            .flat_map(|d| {
                let word = move |i: u32| 1 + 4 * (d % 2) + (d * 7 + i * 5) % 4;
                [word(0), 9, word(1), word(2), 0, word(3), 9, word(1), 0]
            })
            .collect()
    }

    #[test]
    fn two_kinds_of_documents_are_two_topics_and_common_words_say_nothing() {
        let topics = fit(&text(), 0, 10, &config(), 3);
        let row = |word: usize| &topics.table()[2 * word..][..2];
        let first = usize::from(row(1)[1] > row(1)[0]);
        for word in 1..=8 {
            let topic = if word <= 4 { first } else { 1 - first };
            assert!(row(word)[topic] > row(word)[1 - topic] + 0.3, "{word}: {:?}", row(word));
        }
        assert!((row(9)[0] - row(9)[1]).abs() < 0.2, "{:?}", row(9));
        assert_eq!(row(0), [0.0; 2], "the end of a sentence is about nothing");
        let mut f = [0.0; 2];
        topics.features([5, 9, 7].into_iter(), &mut f);
        assert!(f[1 - first] > 0.6, "{f:?}");
        assert_eq!(topics.words_of(first, 100).len(), 9, "all words but the end of a sentence");
        assert!(topics.words_of(first, 4).iter().all(|id| (1..=4).contains(id)), "{:?}", topics.words_of(first, 4));
    }

    #[test]
    fn a_word_that_was_seen_seldom_speaks_less() {
        let config = TopicsConfig { sweeps: 1, shrinkage: 10.0, ..config() };
        let mut table = [0.0; 6];
        // A word seen once, one seen a hundred times with the same topic, and one that makes both topics equal.
        speak(&[1, 0, 100, 0, 0, 101], &config, &mut table);
        assert!(table[0] > 0.0 && table[2] > 3.0 * table[0], "{table:?}");
        let mut as_seen = [0.0; 6];
        speak(&[1, 0, 100, 0, 0, 101], &TopicsConfig { shrinkage: 0.0, ..config }, &mut as_seen);
        assert_eq!(as_seen[..2], as_seen[2..4]);
    }

    #[test]
    fn the_seed_decides() {
        let of = |seed| fit(&text(), 0, 10, &config(), seed);
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }

    #[test]
    fn every_count_is_that_of_the_topics_drawn() {
        let mut sampler = Sampler::new(&text(), 0, 10, &config());
        sampler.begin(1);
        sampler.sweep(&Stream::new(1, Purpose::Topics, 1));
        let tokens = sampler.tokens.len() as u32;
        assert_eq!(sampler.of_topic.iter().sum::<u32>(), tokens);
        for j in 0..2 {
            let drawn = sampler.z.iter().filter(|&&z| usize::from(z) == j).count() as u32;
            let of = |counts: &[u32]| counts.iter().skip(j).step_by(2).sum::<u32>();
            assert_eq!((sampler.of_topic[j], of(&sampler.of_word), of(&sampler.of_document)), (drawn, drawn, drawn));
        }
    }
}
