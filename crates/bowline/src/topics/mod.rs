//! Topics: what a text is about, as features of a network (Mikolov and Zweig 2012).
//!
//! A *topic* is one of `k` themes of the training text, found by [`lda`]. The *table* says for each word how much it speaks for
//! each topic; the *features* after a word are `f = softmax(sum of the table's rows of the last words, it included)`. They say
//! nothing of the words to come, and count as constants in back-propagation. The table belongs to the model like its weights, but
//! is not trained with them.

pub mod lda;

use crate::error::Result;
use crate::storage::tensor_file::TensorFile;
use serde::{Deserialize, Serialize};

/// The name of the table in files.
pub(crate) const TENSOR: &str = "topics.weight";

/// The topics of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicsSpec {
    /// How many there are, `k`.
    pub count: usize,
    /// How many words the features look back on.
    pub window: usize,
}

/// How much each word speaks for each topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Topics {
    spec: TopicsSpec,
    /// (V, k).
    table: Vec<f32>,
}

impl Topics {
    /// A table of which no word speaks for any topic.
    pub fn none(spec: TopicsSpec, vocab: usize) -> Topics {
        Topics { spec, table: vec![0.0; vocab * spec.count] }
    }

    /// The table in a file that is known to have it.
    pub(crate) fn read(file: &TensorFile, spec: TopicsSpec, vocab: usize) -> Result<Topics> {
        let mut topics = Topics::none(spec, vocab);
        file.copy_to(TENSOR, &mut topics.table)?;
        Ok(topics)
    }

    /// The table, (V, k).
    pub fn table(&self) -> &[f32] {
        &self.table
    }

    /// The table, for writing.
    pub fn table_mut(&mut self) -> &mut [f32] {
        &mut self.table
    }

    /// The features after some words, oldest first, of which the last few count; into `out`, (k).
    pub fn features(&self, words: impl ExactSizeIterator<Item = u32>, out: &mut [f32]) {
        let (k, skip) = (self.spec.count, words.len().saturating_sub(self.spec.window));
        out.fill(0.0);
        for word in words.skip(skip) {
            let row = &self.table[word as usize * k..][..k];
            out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        let largest = out.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        out.iter_mut().for_each(|x| *x = (*x - largest).exp());
        let sum: f32 = out.iter().sum();
        out.iter_mut().for_each(|x| *x /= sum);
    }

    /// The words that a topic is best known by. Ids fall with frequency, so by Zipf's law a word is worth `1 / (id + 10)`.
    pub fn words_of(&self, topic: usize, n: usize) -> Vec<u32> {
        let k = self.spec.count;
        let worth = |id: usize| {
            let row = &self.table[id * k..][..k];
            let sum: f32 = row.iter().map(|x| x.exp()).sum();
            row[topic].exp() / sum / (id + 10) as f32
        };
        let speaks = |id: &usize| self.table[id * k..][..k].iter().any(|&x| x != 0.0);
        let all = (0..self.table.len() / k).filter(speaks);
        let mut words: Vec<(u32, f32)> = all.map(|id| (id as u32, worth(id))).collect();
        words.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        words.into_iter().take(n).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_features_are_a_distribution_of_the_last_words_alone() {
        let spec = TopicsSpec { count: 3, window: 4 };
        let mut topics = Topics::none(spec, 5);
        let mut f = [0.0; 3];
        topics.features([1, 2].into_iter(), &mut f);
        assert_eq!(f, [1.0 / 3.0; 3]);
        topics.table_mut().iter_mut().enumerate().for_each(|(i, x)| *x = ((i * i) % 7) as f32 / 5.0);
        let of = |words: &[u32]| {
            let mut f = [0.0; 3];
            topics.features(words.iter().copied(), &mut f);
            f
        };
        assert_eq!(of(&[4, 0, 1, 2, 3]), of(&[2, 2, 2, 0, 1, 2, 3]));
        assert_ne!(of(&[1, 2, 3, 3]), of(&[0, 2, 3, 3]));
        assert!((of(&[1, 2, 3]).iter().sum::<f32>() - 1.0).abs() < 1e-6);
        let sum: Vec<f32> = (0..3).map(|j| topics.table[3 + j] + topics.table[6 + j]).collect();
        let f = of(&[1, 2]);
        assert!((f[0] / f[1] - (sum[0] - sum[1]).exp()).abs() < 1e-5);
    }
}
