//! A corpus whose training text stays in its file: its words are counted in one walk and written down as ids in another.
//!
//! The vocabulary and the ids are those of the same text in memory.

use std::path::Path;

use super::ids::{IdFile, Ids};
use super::text::Text;
use super::{Census, Corpus, CorpusOptions, Split, check_two_words};
use crate::vocabulary::{UNK, Vocabulary};
use crate::{Error, Result};

/// Different words of a training text, at most: counting them takes about 100 bytes for each.
const MOST_TYPES: usize = 8 << 20;

/// Counts the words of the first text, which is large, and numbers those of the others.
pub(super) fn build(texts: [&Text; 3], options: CorpusOptions) -> Result<Corpus> {
    let [train, valid, test] = texts;
    let mut census = Census::default();
    let (mut counts, lines) = count(&mut census, train, options.tokenize, MOST_TYPES)?;
    let limit = options.vocab_size;
    let vocabulary = match options.vocabulary {
        Some(given) if options.extend => {
            given.extended(&census.words(), &counts, limit.unwrap_or(usize::MAX), options.min_count)
        }
        Some(given) => given,
        None => {
            for text in [valid, test] {
                text.for_each_word(options.tokenize, |_, word| {
                    census.number(word);
                })?;
            }
            counts.resize(census.len(), 0);
            let words = census.words();
            check_two_words(&words, &counts, &train.path)?;
            Vocabulary::choose(&words, &counts, limit, options.min_count)?.0
        }
    };
    // The words of the census are counted by their ids.
    let mut by_id = vec![0; vocabulary.len()];
    let (mut unseen, mut unseen_types) = (0, 0);
    census.each(|word, number| {
        let count = counts.get(number).copied().unwrap_or(0);
        match vocabulary.id(word).or(vocabulary.unk()) {
            _ if count == 0 => {}
            Some(id) => {
                by_id[id as usize] += count;
                if Some(id) == vocabulary.unk() && word != UNK {
                    unseen += count as usize;
                    unseen_types += 1;
                }
            }
            None => {}
        }
    });
    let total = counts.iter().sum::<u64>() as usize;
    if by_id.iter().sum::<u64>() != total as u64 {
        let problem =
            format!("it has words that are not among the {} given, and there is no `{UNK}`", vocabulary.len());
        return Err(Error::corpus(&train.path, problem, "add the line `<unk>` to the vocabulary"));
    }
    let vocabulary = vocabulary.with_counts(by_id);
    let ids = Ids::File(IdFile::of(train.clone(), options.tokenize, total));
    Ok(Corpus {
        train: Split { unseen, unseen_types, ..Split::of(train, lines) }.with(ids),
        valid: Split::encode(valid, &vocabulary, options.tokenize)?,
        test: Split::encode(test, &vocabulary, options.tokenize)?,
        vocabulary,
    })
}

/// Numbers the words of a text and counts them; also gives the number of lines.
fn count(census: &mut Census, text: &Text, tokenize: bool, most: usize) -> Result<(Vec<u64>, usize)> {
    let mut counts: Vec<u64> = Vec::new();
    let mut full = None;
    let lines = text.for_each_word(tokenize, |line, word| {
        if full.is_some() {
            return;
        }
        let number = census.number(word);
        if number == counts.len() {
            counts.push(0);
            if number == most {
                full = Some(line);
            }
        }
        counts[number] += 1;
    })?;
    match full {
        None => Ok((counts, lines)),
        Some(line) => Err(too_many(&text.path, line, most)),
    }
}

fn too_many(path: &Path, line: usize, most: usize) -> Error {
    let problem = format!("up to this line the text has more than {most} different words, too many to count");
    Error::corpus_line(path, line, problem, "`--tokenize`, or a text whose rare words were replaced by `<unk>`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_different_words_are_refused_with_the_line() {
        let text = Text::from_bytes(Path::new("t"), b"a b\nc a d\ne\n".to_vec()).unwrap();
        // a, b, <eos>, c, d
        assert_eq!(count(&mut Census::default(), &text, false, 6).unwrap(), (vec![2, 1, 3, 1, 1, 1], 3));
        let error = count(&mut Census::default(), &text, false, 4).unwrap_err().to_string();
        assert!(error.starts_with("t:2: up to this line the text has more than 4 different words"), "{error}");
    }
}
