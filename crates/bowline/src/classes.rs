//! Classes of words, for a classifier in two steps (Goodman 2001; Mikolov et al. 2011): first the class, then the word within it.
//!
//! Words are taken in the order of the vocabulary, which is that of falling frequency. A class ends with the word that takes the
//! sum of all frequencies so far above its share, so that every class occurs about as often: the frequent words have classes of their
//! own, and the last class has thousands of rare ones. The classes belong to the model like its weights, but are not trained.

use crate::error::{Error, Result};
use crate::storage::tensor_file::{TensorFile, TensorFileWriter};
use std::ops::Range;
use std::path::Path;

/// The name in files of the first word of each class, (K).
pub(crate) const TENSOR: &str = "classes.first";

/// Which words are in which class.
#[derive(Clone, Debug, PartialEq)]
pub struct WordClasses {
    vocab: usize,
    /// The first word of each class.
    first: Vec<f32>,
}

impl WordClasses {
    /// `classes` of them, as equal as the numbers of words go.
    pub fn even(classes: usize, vocab: usize) -> WordClasses {
        WordClasses::of(classes, &vec![1; vocab])
    }

    /// `classes` of them for words that occur so often, at least one in each.
    pub fn of(classes: usize, counts: &[u64]) -> WordClasses {
        let total: u64 = counts.iter().sum();
        let (mut first, mut sum, vocab) = (vec![0.0], 0, counts.len());
        for (word, &count) in counts.iter().enumerate().take(vocab.saturating_sub(1)) {
            sum += count;
            let (done, left) = (first.len(), vocab - word - 1);
            // Either this class has its share, or all words that are left are needed, one in each class.
            let full = u128::from(sum) * classes as u128 > u128::from(total) * done as u128;
            if done < classes && (full || left <= classes - done) {
                first.push((word + 1) as f32);
            }
        }
        WordClasses { vocab, first }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// Never so: every word is in one.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The class of a word.
    pub fn class(&self, word: u32) -> usize {
        self.first.partition_point(|&first| first <= word as f32) - 1
    }

    /// The words of a class.
    pub fn words(&self, class: usize) -> Range<usize> {
        self.first[class] as usize..self.first.get(class + 1).map_or(self.vocab, |&next| next as usize)
    }

    pub(crate) fn save<'a>(&'a self, file: &mut TensorFileWriter<'a>) {
        file.tensor(TENSOR, &[self.first.len()], &self.first);
    }

    /// The classes in a file that is known to have them.
    pub(crate) fn read(path: &Path, file: &TensorFile, classes: usize, vocab: usize) -> Result<WordClasses> {
        let mut first = vec![0.0; classes];
        file.copy_to(TENSOR, &mut first)?;
        let rises = first.windows(2).all(|pair| pair[0] < pair[1]);
        let whole = first.iter().all(|&x| x >= 0.0 && x < vocab as f32 && x.fract() == 0.0);
        if first.first() != Some(&0.0) || !rises || !whole {
            let problem =
                format!("the first words of the classes are not whole numbers that rise from 0 to below {vocab}");
            let advice = "use the weights that were saved with the model";
            return Err(Error::model(path, format!("tensor `{TENSOR}`"), problem, advice));
        }
        Ok(WordClasses { vocab, first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_share_of_the_text_and_at_least_a_word() {
        let ranges = |classes: &WordClasses| (0..classes.len()).map(|c| classes.words(c)).collect::<Vec<_>>();
        let classes = WordClasses::of(4, &[40, 20, 10, 10, 8, 5, 4, 3]);
        assert_eq!(ranges(&classes), [0..1, 1..2, 2..4, 4..8]);
        assert_eq!((0..8).map(|word| classes.class(word)).collect::<Vec<_>>(), [0, 1, 2, 2, 3, 3, 3, 3]);
        assert_eq!(ranges(&WordClasses::even(3, 7)), [0..3, 3..5, 5..7]);
        assert_eq!(ranges(&WordClasses::of(3, &[0, 0, 0, 9])), [0..2, 2..3, 3..4], "words left for the last classes");
        for (classes, words) in [(1, 1), (1, 9), (9, 9), (5, 8)] {
            let found = WordClasses::of(classes, &(0..words).map(|i| 1000 >> i).collect::<Vec<u64>>());
            assert_eq!(found.len(), classes);
            assert!(ranges(&found).iter().all(|words| !words.is_empty()), "{found:?}");
        }
    }
}
