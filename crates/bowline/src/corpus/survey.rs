//! A look at a corpus before anything is trained on it: how much text there is, which words, and whether it looks like
//! words at all.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Serialize;

use super::text::{IdsIn, Text};
use super::{SplitName, find_splits, parts};
use crate::vocabulary::{EOS, UNK};
use crate::{Error, Result};

/// Words with punctuation attached to them, from this share of the text on, say that it was not tokenised.
const ATTACHED: f64 = 0.01;

/// What a corpus is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    /// The three parts; one whole text has only the first.
    pub parts: Vec<Part>,
    /// Different words of the training part, `<eos>` and `<unk>` not counted.
    pub types: usize,
    /// How many of them it has only once.
    pub singletons: usize,
    /// Whether the training part has `<unk>`: then somebody has chosen a vocabulary already.
    pub has_unk: bool,
    /// Words of the training part with punctuation attached, such as `end,` or `"So`.
    pub attached: usize,
    /// One of them.
    pub attached_example: Option<String>,
    /// The most frequent words of the training part, with their counts.
    pub frequent: Vec<(String, u64)>,
}

/// One part of a corpus.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// `train`, `valid` or `test`; `text` for one that has no parts.
    pub name: &'static str,
    /// Lines.
    pub lines: usize,
    /// Words, with one `<eos>` per line.
    pub tokens: usize,
    /// Words that the training part does not have.
    pub unseen: usize,
    /// How many different ones.
    pub unseen_types: usize,
    /// Words that the training part has at most once: what becomes `<unk>` if rare words do.
    pub rare: usize,
}

impl Survey {
    /// Looks at a folder with three files, or at a plain file, which is split as a run would split it. With `most`
    /// frequent words.
    pub fn of(path: &Path, tokenize: bool, most: usize) -> Result<Survey> {
        if path.is_dir() {
            let [train, valid, test] = find_splits(path)?;
            let train = Text::open(&train, IdsIn::Auto)?;
            return Survey::of_texts(&[train, Text::read(&valid)?, Text::read(&test)?], tokenize, most);
        }
        if !path.exists() {
            let advice = "check the path; `ptb`, `wikitext-2` and `demo` are known by name";
            return Err(Error::corpus(path, "there is no such file or folder", advice));
        }
        let text = Text::open(path, IdsIn::Auto)?;
        match parts(&text)? {
            Some(parts) => Survey::of_texts(&parts, tokenize, most),
            None => Survey::of_texts(&[text], tokenize, most),
        }
    }

    /// Looks at three texts in memory.
    pub fn of_strings(texts: [&str; 3], tokenize: bool, most: usize) -> Result<Survey> {
        let [train, valid, test] = texts.map(|text| Text::from_bytes(Path::new("text"), text.into()));
        Survey::of_texts(&[train?, valid?, test?], tokenize, most)
    }

    fn of_texts(texts: &[Text], tokenize: bool, most: usize) -> Result<Survey> {
        let mut counts: HashMap<Box<str>, u64> = HashMap::new();
        let (mut attached, mut example) = (0, None);
        texts[0].for_each_word(tokenize, |_, word| {
            match counts.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(counts.insert(word.into(), 1)),
            }
            if has_punctuation_attached(word) {
                attached += 1;
                example.get_or_insert_with(|| word.to_owned());
            }
        })?;
        let part = |(text, name): (&Text, &'static str)| {
            let (mut tokens, mut unseen, mut rare, mut different) = (0, 0, 0, HashSet::new());
            let lines = text.for_each_word(tokenize, |_, word| {
                tokens += 1;
                let count = counts.get(word).copied().unwrap_or(0);
                let special = [EOS, UNK].contains(&word);
                rare += usize::from(count <= 1 && !special);
                if count == 0 && !special {
                    unseen += 1;
                    different.insert(word.to_owned());
                }
            })?;
            Ok(Part { name, lines, tokens, unseen, unseen_types: different.len(), rare })
        };
        let names = SplitName::ALL.map(SplitName::as_str);
        let parts = match texts {
            [text] => vec![part((text, "text"))?],
            _ => texts.iter().zip(names).map(part).collect::<Result<_>>()?,
        };
        let words = || counts.iter().filter(|(word, _)| ![EOS, UNK].contains(&&***word));
        let mut frequent: Vec<(String, u64)> = words().map(|(word, &count)| (word.to_string(), count)).collect();
        frequent.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        frequent.truncate(most);
        Ok(Survey {
            types: words().count(),
            singletons: words().filter(|&(_, &count)| count == 1).count(),
            has_unk: counts.contains_key(UNK),
            parts,
            attached,
            attached_example: example,
            frequent,
        })
    }

    /// Tokens of the training part.
    pub fn train_tokens(&self) -> usize {
        self.parts.first().map_or(0, |part| part.tokens)
    }

    /// Whether the text looks as if nobody had split its words from their punctuation.
    pub fn looks_untokenised(&self) -> bool {
        self.attached as f64 > ATTACHED * self.train_tokens() as f64
    }
}

/// Whether a letter has a comma, a question mark, a quote or a bracket at its side. A full stop does not count:
/// abbreviations keep theirs.
fn has_punctuation_attached(word: &str) -> bool {
    let mut chars = word.chars();
    let (Some(first), Some(last)) = (chars.next(), chars.next_back()) else { return false };
    let letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    let before_last = word.chars().rev().nth(1);
    (",;:!?)\"”".contains(last) && (letter(before_last) || before_last == Some('.')))
        || ("(\"“".contains(first) && letter(word.chars().nth(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_counted_as_a_run_would_split_it() {
        let text = |lines: &[&str]| lines.join("\n") + "\n";
        let survey = Survey::of_strings(
            [&text(&["the cat sat", "the dog sat"]), &text(&["the bird sat bird"]), &text(&["a cat"])],
            false,
            2,
        )
        .unwrap();
        assert_eq!((survey.types, survey.singletons, survey.has_unk), (4, 2, false));
        assert_eq!(survey.frequent, [("sat".to_owned(), 2), ("the".to_owned(), 2)]);
        let part = |i: usize| {
            let p = &survey.parts[i];
            (p.name, p.lines, p.tokens, p.unseen, p.unseen_types, p.rare)
        };
        assert_eq!(
            [part(0), part(1), part(2)],
            [("train", 2, 8, 0, 0, 2), ("valid", 1, 5, 2, 1, 2), ("test", 1, 3, 1, 1, 2)]
        );
    }

    #[test]
    fn punctuation_on_words_is_noticed_and_that_of_numbers_and_abbreviations_is_not() {
        for word in ["end,", "So?", "\"So", "(the", "me.\"", "one:"] {
            assert!(has_punctuation_attached(word), "{word}");
        }
        for word in [",", "mr.", "u.s.", "1,000", "10:30", "n't", "'s", "well-known", "<unk>", "--", "x"] {
            assert!(!has_punctuation_attached(word), "{word}");
        }
        let raw = "So, this is a line.\nAnd this, too: it has \"words\" in it!\n";
        assert!(Survey::of_strings([raw; 3], false, 0).unwrap().looks_untokenised());
        assert!(!Survey::of_strings([raw; 3], true, 0).unwrap().looks_untokenised());
    }
}
