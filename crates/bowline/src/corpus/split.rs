//! One of the three parts of a corpus, as ids.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::ids::Ids;
use super::text::{Text, for_each_word_of_line};
use crate::vocabulary::{UNK, Vocabulary};
use crate::{Error, Result};

const LONGER_TEXT: &str = "use a longer text, one sentence a line";

/// A text as the ids of its words, with one `<eos>` per line. They are in memory; those of a training text may be elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split<I = Vec<u32>> {
    /// The tokens, in order.
    pub ids: I,
    /// How many of them became `<unk>` because the vocabulary lacks the word (not those that are `<unk>` in the text).
    pub unseen: usize,
    /// How many different words these were.
    pub unseen_types: usize,
    /// Number of lines.
    pub lines: usize,
    /// SHA-256 of the bytes it was read from, in hexadecimal.
    pub sha256: String,
    /// The file it was read from.
    pub path: PathBuf,
    /// The line of that file at which it starts, counted from 1; above 1 only where one file holds all three parts.
    pub first_line: usize,
}

impl Split {
    /// Reads a text with the vocabulary of a model. Words that the vocabulary lacks become `<unk>` and are counted; if
    /// it has no `<unk>` either, they are an error.
    pub fn read(path: &Path, vocabulary: &Vocabulary, tokenize: bool) -> Result<Split> {
        Split::encode(&Text::read(path)?, vocabulary, tokenize)
    }

    /// Like [`Split::read`], for a text in memory; `name` stands for the file's path.
    pub fn from_text(name: &str, text: &str, vocabulary: &Vocabulary, tokenize: bool) -> Result<Split> {
        Split::encode(&Text::from_bytes(Path::new(name), text.into())?, vocabulary, tokenize)
    }

    /// Like [`Split::read`], for the bytes of a text, as standard input gives them.
    pub fn from_bytes(name: &str, bytes: Vec<u8>, vocabulary: &Vocabulary, tokenize: bool) -> Result<Split> {
        Split::encode(&Text::from_bytes(Path::new(name), bytes)?, vocabulary, tokenize)
    }

    pub(super) fn encode(text: &Text, vocabulary: &Vocabulary, tokenize: bool) -> Result<Split> {
        let unk = vocabulary.unk();
        let mut ids = Vec::new();
        let mut unseen = 0;
        let mut unseen_words: HashSet<Box<str>> = HashSet::new();
        let mut stranger = None;
        let walked = text.for_each_word(tokenize, |line, word| match vocabulary.id(word).or(unk) {
            Some(id) => {
                if Some(id) == unk && word != UNK {
                    unseen += 1;
                    if !unseen_words.contains(word) {
                        unseen_words.insert(word.into());
                    }
                }
                ids.push(id);
            }
            None => {
                stranger.get_or_insert_with(|| (line, word.to_owned()));
            }
        });
        if let Some((line, word)) = stranger {
            return Err(Error::corpus_line(
                &text.path,
                line,
                format!("the word `{word}` is not among the model's {} words, and it has no `{UNK}`", vocabulary.len()),
                "use a text of the model's words, or train with `--vocab-size`, which brings `<unk>`",
            ));
        }
        let (unseen_types, lines) = (unseen_words.len(), walked?);
        Split { ids, unseen, unseen_types, ..Split::of(text, lines) }.checked(vocabulary)
    }

    /// A split without its ids yet.
    pub(super) fn of(text: &Text, lines: usize) -> Split {
        Split {
            ids: Vec::new(),
            unseen: 0,
            unseen_types: 0,
            lines,
            sha256: text.sha256.clone(),
            path: text.path.clone(),
            first_line: text.first_line,
        }
    }

    /// The split itself, if it has a word; with its `<eos>` that makes at least one prediction.
    pub(super) fn checked(self, vocabulary: &Vocabulary) -> Result<Split> {
        if self.ids.iter().all(|&id| id == vocabulary.eos()) {
            let problem = format!("{} holds no words, only empty lines", self.part());
            return Err(Error::corpus(&self.path, problem, LONGER_TEXT));
        }
        Ok(self)
    }
}

impl<I> Split<I> {
    /// The same split with other ids.
    pub(super) fn with<J>(&self, ids: J) -> Split<J> {
        Split {
            ids,
            unseen: self.unseen,
            unseen_types: self.unseen_types,
            lines: self.lines,
            sha256: self.sha256.clone(),
            path: self.path.clone(),
            first_line: self.first_line,
        }
    }

    /// What to call it in a message that starts with its path.
    fn part(&self) -> String {
        match self.first_line {
            1 => "the text".to_owned(),
            first => format!("the part from line {first} to line {}", first + self.lines - 1),
        }
    }
}

/// Ids that can be counted.
pub trait Tokens {
    /// How many there are.
    fn tokens(&self) -> usize;
}

impl Tokens for Vec<u32> {
    fn tokens(&self) -> usize {
        self.len()
    }
}

impl Tokens for Ids {
    fn tokens(&self) -> usize {
        self.len()
    }
}

impl<I: Tokens> Split<I> {
    /// An error if there are fewer than `needed` tokens; `purpose` says what they are needed for, as in "20 streams".
    pub fn require_tokens(&self, needed: usize, purpose: &str) -> Result<()> {
        if self.ids.tokens() < needed {
            let (part, tokens) = (self.part(), self.ids.tokens());
            let problem = format!("{part} is too short: {tokens} tokens, and {purpose} need at least {needed}");
            return Err(Error::corpus(&self.path, problem, LONGER_TEXT));
        }
        Ok(())
    }
}

impl From<Split> for Split<Ids> {
    fn from(mut split: Split) -> Split<Ids> {
        let ids = std::mem::take(&mut split.ids);
        split.with(Ids::Memory(ids))
    }
}

/// A word that the vocabulary lacks. `<unk>` stands in its place; a network that reads characters can read it all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Its place in the text.
    pub place: usize,
    /// How it is written.
    pub word: String,
}

impl Stranger {
    /// Moved by some places, as when an `<eos>` is put before its text.
    pub fn moved(&self, by: usize) -> Stranger {
        Stranger { place: self.place + by, word: self.word.clone() }
    }
}

/// A few words as ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// The words, without an `<eos>` that is not in the text.
    pub ids: Vec<u32>,
    /// The words that became `<unk>`.
    pub unseen: Vec<Stranger>,
}

impl Phrase {
    /// The ids of a text of one line, such as the beginning of a sentence to be continued; line ends in it count as
    /// white space.
    pub fn new(text: &str, vocabulary: &Vocabulary, tokenize: bool) -> Result<Phrase> {
        let mut phrase = Phrase { ids: Vec::new(), unseen: Vec::new() };
        let mut stranger = None;
        for_each_word_of_line(text, tokenize, |word| match (vocabulary.id(word), vocabulary.unk()) {
            (Some(id), _) => phrase.ids.push(id),
            (None, Some(unk)) => {
                phrase.unseen.push(Stranger { place: phrase.ids.len(), word: word.to_owned() });
                phrase.ids.push(unk);
            }
            (None, None) => {
                stranger.get_or_insert_with(|| word.to_owned());
            }
        });
        match stranger {
            None => Ok(phrase),
            Some(word) => Err(Error::corpus(
                "the phrase",
                format!("the word `{word}` is not among the model's {} words, and it has no `{UNK}`", vocabulary.len()),
                "use the model's words; its vocab.txt lists them",
            )),
        }
    }

    /// The phrase at the beginning of a sentence: with an `<eos>` before it.
    pub fn after_eos(&self, vocabulary: &Vocabulary) -> (Vec<u32>, Vec<Stranger>) {
        let ids = std::iter::once(vocabulary.eos()).chain(self.ids.iter().copied()).collect();
        (ids, self.unseen.iter().map(|stranger| stranger.moved(1)).collect())
    }

    /// The words that became `<unk>`, as they are written.
    pub fn unseen_words(&self) -> Vec<&str> {
        self.unseen.iter().map(|stranger| stranger.word.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary(words: &str) -> Vocabulary {
        Vocabulary::from_text(Path::new("vocab.txt"), words.replace(' ', "\n").as_bytes()).unwrap()
    }

    #[test]
    fn a_text_takes_the_models_ids_and_counts_what_it_lacks() {
        let vocabulary = vocabulary("the <unk> <eos> cat");
        let split = Split::from_text("t", "the dog <unk>\ndog the bird cat\n", &vocabulary, false).unwrap();
        assert_eq!(split.ids, [0, 1, 1, 2, 1, 0, 1, 3, 2]);
        assert_eq!((split.unseen, split.unseen_types, split.lines), (3, 2, 2));
        let split = Split::from_text("t", "The CAT, the cat", &vocabulary, true).unwrap();
        assert_eq!(split.ids, [0, 3, 1, 0, 3, 2]);
    }

    #[test]
    fn an_unknown_word_without_unk_is_an_error_at_its_line() {
        let error = Split::from_text("t.txt", "a b\n\nb c d\n", &vocabulary("a b <eos>"), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.txt:3: the word `c` is not among the model's 3 words, and it has no `<unk>`\n  \
             try: use a text of the model's words, or train with `--vocab-size`, which brings `<unk>`"
        );
    }

    #[test]
    fn a_text_without_anything_to_predict_is_refused() {
        let error =
            |text: &str| Split::from_text("t.txt", text, &vocabulary("a <eos>"), false).unwrap_err().to_string();
        let advice = "\n  try: use a longer text, one sentence a line";
        assert_eq!(error("\n \n\n"), format!("t.txt: the text holds no words, only empty lines{advice}"));
        assert_eq!(error("<eos>"), format!("t.txt: the text holds no words, only empty lines{advice}"));
        assert_eq!(error(""), "t.txt: the file is empty\n  try: put text in it, one sentence a line");
    }

    #[test]
    fn a_text_too_short_for_its_purpose_is_refused() {
        let mut split = Split::from_text("t.txt", "a a\na\n", &vocabulary("a <eos>"), false).unwrap();
        assert!(split.require_tokens(5, "2 streams").is_ok());
        let advice = "\n  try: use a longer text, one sentence a line";
        assert_eq!(
            split.require_tokens(6, "3 streams").unwrap_err().to_string(),
            format!("t.txt: the text is too short: 5 tokens, and 3 streams need at least 6{advice}")
        );
        split.first_line = 9;
        assert_eq!(
            split.require_tokens(6, "3 streams").unwrap_err().to_string(),
            format!(
                "t.txt: the part from line 9 to line 10 is too short: 5 tokens, and 3 streams need at least 6{advice}"
            )
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Split::read(Path::new("nowhere/test.txt"), &vocabulary("a <eos>"), false).unwrap_err();
        assert!(error.to_string().starts_with("nowhere/test.txt: cannot read: "), "{error}");
    }

    #[test]
    fn a_phrase_has_no_end_and_names_its_unknown_words() {
        let with_unk = vocabulary("the <unk> <eos> do n't");
        assert_eq!(
            Phrase::new("the dog\n", &with_unk, false).unwrap(),
            Phrase { ids: vec![0, 1], unseen: vec![Stranger { place: 1, word: "dog".into() }] }
        );
        assert_eq!(Phrase::new("Don't", &with_unk, true).unwrap().ids, [3, 4]);
        assert!(Phrase::new("", &with_unk, true).unwrap().ids.is_empty());
        assert_eq!(
            Phrase::new("a x y", &vocabulary("a <eos>"), false).unwrap_err().to_string(),
            "the phrase: the word `x` is not among the model's 2 words, and it has no `<unk>`\n  \
             try: use the model's words; its vocab.txt lists them"
        );
    }
}
