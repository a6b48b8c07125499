//! Text files to ids.
//!
//! A *corpus* is three texts: one to learn from (train), one to choose settings by (valid) and one to report results on
//! (test). Each is a *split*: a file in a folder ([`Corpus::from_dir`]), or a tenth of one plain text file
//! ([`Corpus::from_file`]; eight tenths for train). A split becomes a sequence of *tokens*, the ids of its words in the
//! vocabulary, with one `<eos>` per line; an empty line is `<eos>` alone.
//!
//! The vocabulary comes from the training split only. Words that it lacks become `<unk>`, and are counted.
//!
//! A large training text is not read whole: its ids are in a file, see [`Ids`].
//!
//! Words are separated by white space. If the text is tokenized, it is lower-cased and punctuation is split off first.

mod detokenize;
mod digest;
mod ids;
mod large;
mod layout;
mod split;
mod survey;
mod text;
mod tokenize;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

pub use detokenize::Detokenizer;
pub use ids::{IdFile, Ids, Page};
pub use layout::{SplitName, find_split, find_splits};
pub use split::{Phrase, Split, Stranger};
pub use survey::{Part, Survey};
pub use text::IdsIn;

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
    /// Where the ids of the training split are kept.
    pub ids: IdsIn,
}

/// Three splits and the vocabulary they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// The words of the training split.
    pub vocabulary: Vocabulary,
    /// What the model learns from.
    pub train: Split<Ids>,
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
        Corpus::build([&Text::open(&train, options.ids)?, &Text::read(&valid)?, &Text::read(&test)?], options)
    }

    /// A plain text file split by itself, by lines and in order: the first 80% of them for train, the next 10% for
    /// valid, and the rest for test. In order, since the next line often goes on with the same
    /// matter: lines drawn at random would put the neighbours of every test line into train.
    pub fn from_file(path: &Path, options: CorpusOptions) -> Result<Corpus> {
        let text = Text::open(path, options.ids)?;
        let [train, valid, test] = &parts(&text)?.ok_or_else(|| too_few_lines(path, &text))?;
        Corpus::build([train, valid, test], options)
    }

    /// Three texts in memory.
    pub fn from_texts(train: &str, valid: &str, test: &str, options: CorpusOptions) -> Result<Corpus> {
        let text = |name: &str, text: &str| Text::from_bytes(Path::new(name), text.into());
        let (train, valid, test) = (text("train", train)?, text("valid", valid)?, text("test", test)?);
        Corpus::build([&train, &valid, &test], options)
    }

    /// One of the splits by name, in memory.
    pub fn split(&self, name: SplitName) -> Result<Split> {
        match name {
            SplitName::Train => Ok(self.train.with(self.train_ids()?.into_owned())),
            SplitName::Valid => Ok(self.valid.clone()),
            SplitName::Test => Ok(self.test.clone()),
        }
    }

    /// Tokens of the three splits.
    pub fn tokens(&self) -> [usize; 3] {
        [self.train.ids.len(), self.valid.ids.len(), self.test.ids.len()]
    }

    /// SHA-256 of the three splits.
    pub fn sha256(&self) -> [String; 3] {
        [self.train.sha256.clone(), self.valid.sha256.clone(), self.test.sha256.clone()]
    }

    /// The ids of the training split, in memory, for what needs them all at once.
    pub fn train_ids(&self) -> Result<Cow<'_, [u32]>> {
        self.train.ids.whole(&self.vocabulary)
    }

    /// Takes the ids of a large training split into memory.
    pub fn hold_ids(&mut self) -> Result<()> {
        if matches!(self.train.ids, Ids::File(_)) {
            self.train.ids = self.train_ids()?.into_owned().into();
        }
        Ok(())
    }

    /// Puts the ids of a large training split into the file at `path`, or finds them there; others stay in memory. They can be
    /// read by pieces from then on.
    pub fn keep_ids(&mut self, path: &Path) -> Result<()> {
        match &mut self.train.ids {
            Ids::Memory(_) => Ok(()),
            Ids::File(file) => file.keep(path, &self.vocabulary),
        }
    }

    /// Numbers the words of all three texts as they come, then chooses the vocabulary from those of the first text, and
    /// renumbers.
    fn build(texts: [&Text; 3], options: CorpusOptions) -> Result<Corpus> {
        if texts[0].is_large() {
            return large::build(texts, options);
        }
        if let Some(mut vocabulary) = options.vocabulary {
            if options.extend {
                let mut census = Census::default();
                let train = census.take(texts[0], options.tokenize)?;
                let counts = counts(&train.ids, census.len());
                let vocab_size = options.vocab_size.unwrap_or(usize::MAX);
                vocabulary = vocabulary.extended(&census.words(), &counts, vocab_size, options.min_count);
            }
            let [train, valid, test] = texts.map(|text| Split::encode(text, &vocabulary, options.tokenize));
            let (train, valid, test) = (train?, valid?, test?);
            let counts = counts(&train.ids, vocabulary.len());
            return Ok(Corpus { vocabulary: vocabulary.with_counts(counts), train: train.into(), valid, test });
        }
        let mut census = Census::default();
        let [train, valid, test] = texts.map(|text| census.take(text, options.tokenize));
        let mut splits = [train?, valid?, test?];
        let counts = counts(&splits[0].ids, census.len());
        let words = census.words();
        check_two_words(&words, &counts, &splits[0].path)?;

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
        Ok(Corpus { vocabulary, train: train.into(), valid, test })
    }
}

/// How often each of `types` numbers is there.
fn counts(numbers: &[u32], types: usize) -> Vec<u64> {
    let mut counts = vec![0; types];
    numbers.iter().for_each(|&number| counts[number as usize] += 1);
    counts
}

/// The three parts of a plain text; `None` where it has too few lines.
fn parts(text: &Text) -> Result<Option<[Text; 3]>> {
    let lines = text.lines()?;
    (lines >= FEWEST_LINES).then(|| text.cut_at_lines(lines * 8 / 10, lines * 9 / 10)).transpose()
}

/// Splits a plain text file as a run would, into `train.txt`, `valid.txt` and `test.txt` in `dir`, and gives their numbers
/// of lines. With `tokenize`, the words are lower-cased and parted from their punctuation.
pub fn split_file(path: &Path, dir: &Path, tokenize: bool) -> Result<[usize; 3]> {
    let text = Text::read(path)?;
    let parts = parts(&text)?.ok_or_else(|| too_few_lines(path, &text))?;
    files::create_dir_all(dir).map_err(Error::io(dir, "create the folder"))?;
    let mut lines = [0; 3];
    for ((part, name), lines) in parts.iter().zip(SplitName::ALL).zip(&mut lines) {
        let file = dir.join(format!("{}.txt", name.as_str()));
        if file.exists() {
            return Err(Error::corpus(file, "the file already exists", "another --out"));
        }
        *lines = part.lines()?;
        let bytes = part.to_string(tokenize)?;
        atomic::write(file, |out| out.write_all(bytes.as_bytes()))?;
    }
    Ok(lines)
}

fn too_few_lines(path: &Path, text: &Text) -> Error {
    let lines = text.lines().unwrap_or(0);
    Error::corpus(
        path,
        format!("{lines} lines are too few to split: 80% train, 10% valid and 10% test need {FEWEST_LINES}"),
        "put one sentence on each line, or give a folder with train.txt, valid.txt and test.txt",
    )
}

/// SHA-256 of the training part of a plain text file, where it can be split.
pub(crate) fn train_sha256_of_file(path: &Path) -> Result<Option<String>> {
    Ok(parts(&Text::open(path, IdsIn::Auto)?)?.map(|[train, ..]| train.sha256))
}

/// All different words of a corpus, numbered as they first appear.
#[derive(Default)]
struct Census {
    numbers: HashMap<Box<str>, u32>,
}

impl Census {
    /// A split with the numbers of its words in the place of their ids.
    fn take(&mut self, text: &Text, tokenize: bool) -> Result<Split> {
        let mut ids = Vec::new();
        let lines = text.for_each_word(tokenize, |_, word| ids.push(self.number(word) as u32))?;
        Ok(Split { ids, ..Split::of(text, lines) })
    }

    /// The number of a word, which may be new.
    fn number(&mut self, word: &str) -> usize {
        // Looked up first: only a new word is copied.
        match self.numbers.get(word) {
            Some(&number) => number as usize,
            None => {
                let number = self.numbers.len();
                self.numbers.insert(word.into(), number as u32);
                number
            }
        }
    }

    fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Calls `each` with every word and its number, in no order.
    fn each(&self, mut each: impl FnMut(&str, usize)) {
        self.numbers.iter().for_each(|(word, &number)| each(word, number as usize));
    }

    /// The words in the order of their numbers.
    fn words(&self) -> Vec<&str> {
        let mut words = vec![""; self.len()];
        self.numbers.iter().for_each(|(word, &number)| words[number as usize] = word);
        words
    }
}

/// With fewer than two words there is nothing to choose between, and so nothing to learn.
fn check_two_words(words: &[&str], counts: &[u64], train: &Path) -> Result<()> {
    let mut real = words.iter().zip(counts).filter(|&(&word, &count)| count > 0 && word != EOS && word != UNK);
    let problem = match (real.next(), real.next()) {
        (Some(_), Some(_)) => return Ok(()),
        (Some((word, _)), None) => format!("the training text has only one word, `{word}`; there is nothing to learn"),
        (None, _) => "the training text has no words; there is nothing to learn".to_owned(),
    };
    Err(Error::corpus(train, problem, "use a text of at least two different words"))
}

#[cfg(test)]
mod tests;
