//! Text files to ids.
//!
//! A *corpus* is three texts: one to learn from (train), one to choose settings by (valid) and one to report results on
//! (test). Each is a *split*: a file in a folder ([`Corpus::from_dir`]), or a tenth of one plain text file
//! ([`Corpus::from_file`]; eight tenths for train). A split becomes a sequence of *tokens*, the ids of its words in the
//! vocabulary, with one `<eos>` per line; an empty line is `<eos>` alone.
//!
//! The vocabulary comes from the training split only. Words that it lacks become `<unk>`, and are counted.
//!
//! Words are separated by white space. If the text is tokenized, it is lower-cased and punctuation is split off first.

mod detokenize;
mod digest;
mod layout;
mod split;
mod survey;
mod text;
mod tokenize;

use std::collections::HashMap;
use std::path::Path;

pub use detokenize::Detokenizer;
pub use layout::{SplitName, find_split, find_splits};
pub use split::{Phrase, Split};
pub use survey::{Part, Survey};

pub(crate) use digest::{sha256_hex, sha256_of_file};
pub(crate) use text::for_each_word_of_line;

use crate::storage::{atomic, files};
use crate::vocabulary::{EOS, UNK, Vocabulary};
use crate::{Error, Result};
use text::Text;

/// A plain file must have this many lines to be split by itself, so that no part is empty.
const FEWEST_LINES: usize = 10;

/// How a corpus is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorpusOptions {
    /// Keep only the most frequent words, so that the vocabulary has at most this many, `<eos>` and `<unk>` included.
    pub vocab_size: Option<usize>,
    /// Words seen less often than this in the training split become `<unk>`; 0 and 1 keep all.
    pub min_count: u64,
    /// The words of this vocabulary, and no others, whatever the training split has.
    pub vocabulary: Option<Vocabulary>,
    /// But after them the other words of the training split, as `vocab_size` and `min_count` allow.
    pub extend: bool,
    /// Lower-case the text and part it from its punctuation.
    pub tokenize: bool,
}

/// Three splits and the vocabulary they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// The words of the training split.
    pub vocabulary: Vocabulary,
    /// What the model learns from.
    pub train: Split,
    /// What settings and the best epoch are chosen by.
    pub valid: Split,
    /// What results are reported on.
    pub test: Split,
}

impl Corpus {
    /// What `--data PATH` means: a folder with three files, or a plain text file.
    pub fn open(path: &Path, options: CorpusOptions) -> Result<Corpus> {
        if path.is_dir() {
            Corpus::from_dir(path, options)
        } else if path.exists() {
            Corpus::from_file(path, options)
        } else {
            Err(Error::corpus(
                path,
                "there is no such file or folder",
                "check the path; `ptb`, `wikitext-2` and `demo` are known by name",
            ))
        }
    }

    /// The corpus in a folder, whose files are named `train.txt`, `ptb.train.txt` or `wiki.train.tokens`, and so on.
    pub fn from_dir(dir: &Path, options: CorpusOptions) -> Result<Corpus> {
        let [train, valid, test] = find_splits(dir)?;
        Corpus::build([&Text::read(&train)?, &Text::read(&valid)?, &Text::read(&test)?], options)
    }

    /// A plain text file split by itself, by lines and in order: the first 80% of them for train, the next 10% for
    /// valid, and the rest for test. In order, since the next line often goes on with the same
    /// matter: lines drawn at random would put the neighbours of every test line into train.
    pub fn from_file(path: &Path, options: CorpusOptions) -> Result<Corpus> {
        let text = Text::read(path)?;
        let Some([train, valid, test]) = &parts(&text) else {
            return Err(too_few_lines(path, text.lines()));
        };
        Corpus::build([train, valid, test], options)
    }

    /// Three texts in memory.
    pub fn from_texts(train: &str, valid: &str, test: &str, options: CorpusOptions) -> Result<Corpus> {
        let text = |name: &str, text: &str| Text::from_bytes(Path::new(name), text.into());
        let (train, valid, test) = (text("train", train)?, text("valid", valid)?, text("test", test)?);
        Corpus::build([&train, &valid, &test], options)
    }

    /// One of the splits by name.
    pub fn split(&self, name: SplitName) -> &Split {
        match name {
            SplitName::Train => &self.train,
            SplitName::Valid => &self.valid,
            SplitName::Test => &self.test,
        }
    }

    /// Numbers the words of all three texts as they come, then chooses the vocabulary from those of the first text, and
    /// renumbers.
    fn build(texts: [&Text; 3], options: CorpusOptions) -> Result<Corpus> {
        if let Some(mut vocabulary) = options.vocabulary {
            if options.extend {
                let mut census = Census::default();
                let train = census.take(texts[0], options.tokenize);
                let vocab_size = options.vocab_size.unwrap_or(usize::MAX);
                vocabulary = vocabulary.extended(&census.words(), &train.ids, vocab_size, options.min_count);
            }
            let [train, valid, test] = texts.map(|text| Split::encode(text, &vocabulary, options.tokenize));
            let (train, valid, test) = (train?, valid?, test?);
            return Ok(Corpus { vocabulary: vocabulary.counted(&train.ids), train, valid, test });
        }
        let mut census = Census::default();
        let mut splits = texts.map(|text| census.take(text, options.tokenize));
        let mut counts = vec![0; census.numbers.len()];
        for &number in &splits[0].ids {
            counts[number as usize] += 1;
        }
        let words = census.words();
        check_two_words(&words, &counts, &splits[0])?;

        let (vocabulary, choices) = Vocabulary::choose(&words, &counts, options.vocab_size, options.min_count)?;
        for split in &mut splits {
            let mut is_unseen = vec![false; words.len()];
            for id in &mut split.ids {
                let number = *id as usize;
                let choice = choices[number];
                *id = choice.id;
                split.unseen += usize::from(choice.left_out);
                is_unseen[number] = choice.left_out;
            }
            split.unseen_types = is_unseen.iter().filter(|&&unseen| unseen).count();
        }
        let [train, valid, test] = splits;
        let (train, valid, test) =
            (train.checked(&vocabulary)?, valid.checked(&vocabulary)?, test.checked(&vocabulary)?);
        Ok(Corpus { vocabulary, train, valid, test })
    }
}

/// The three parts of a plain text; `None` where it has too few lines.
fn parts(text: &Text) -> Option<[Text; 3]> {
    let lines = text.lines();
    (lines >= FEWEST_LINES).then(|| text.cut_at_lines(lines * 8 / 10, lines * 9 / 10))
}

/// Splits a plain text file as a run would, into `train.txt`, `valid.txt` and `test.txt` in `dir`, and gives their numbers
/// of lines. With `tokenize`, the words are lower-cased and parted from their punctuation.
pub fn split_file(path: &Path, dir: &Path, tokenize: bool) -> Result<[usize; 3]> {
    let text = Text::read(path)?;
    let parts = parts(&text).ok_or_else(|| too_few_lines(path, text.lines()))?;
    files::create_dir_all(dir).map_err(Error::io(dir, "create the folder"))?;
    let mut lines = [0; 3];
    for ((part, name), lines) in parts.iter().zip(SplitName::ALL).zip(&mut lines) {
        let file = dir.join(format!("{}.txt", name.as_str()));
        if file.exists() {
            return Err(Error::corpus(file, "the file already exists", "another --out"));
        }
        *lines = part.lines();
        let bytes = if tokenize { part.tokenized() } else { part.as_str().to_owned() };
        atomic::write(file, |out| out.write_all(bytes.as_bytes()))?;
    }
    Ok(lines)
}

fn too_few_lines(path: &Path, lines: usize) -> Error {
    Error::corpus(
        path,
        format!("{lines} lines are too few to split: 80% train, 10% valid and 10% test need {FEWEST_LINES}"),
        "put one sentence on each line, or give a folder with train.txt, valid.txt and test.txt",
    )
}

/// SHA-256 of the training part of a plain text file, where it can be split.
pub(crate) fn train_sha256_of_file(path: &Path) -> Result<Option<String>> {
    Ok(parts(&Text::read(path)?).map(|[train, ..]| train.sha256))
}

/// All different words of a corpus, numbered as they first appear.
#[derive(Default)]
struct Census {
    numbers: HashMap<Box<str>, u32>,
}

impl Census {
    /// A split with the numbers of its words in the place of their ids.
    fn take(&mut self, text: &Text, tokenize: bool) -> Split {
        let mut ids = Vec::new();
        let lines = text.for_each_word(tokenize, |_, word| {
            // Looked up first: only a new word is copied.
            let number = match self.numbers.get(word) {
                Some(&number) => number,
                None => {
                    let number = self.numbers.len() as u32;
                    self.numbers.insert(word.into(), number);
                    number
                }
            };
            ids.push(number);
        });
        Split { ids, ..Split::of(text, lines) }
    }

    fn words(self) -> Vec<Box<str>> {
        let mut numbered: Vec<(Box<str>, u32)> = self.numbers.into_iter().collect();
        numbered.sort_unstable_by_key(|&(_, number)| number);
        numbered.into_iter().map(|(word, _)| word).collect()
    }
}

/// With fewer than two words there is nothing to choose between, and so nothing to learn.
fn check_two_words(words: &[Box<str>], counts: &[u64], train: &Split) -> Result<()> {
    let mut real = words.iter().zip(counts).filter(|&(word, &count)| count > 0 && **word != *EOS && **word != *UNK);
    let problem = match (real.next(), real.next()) {
        (Some(_), Some(_)) => return Ok(()),
        (Some((word, _)), None) => format!("the training text has only one word, `{word}`; there is nothing to learn"),
        (None, _) => "the training text has no words; there is nothing to learn".to_owned(),
    };
    Err(Error::corpus(&train.path, problem, "use a text of at least two different words"))
}

#[cfg(test)]
mod tests;
