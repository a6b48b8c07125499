//! Minimal pairs: two sentences that differ in little, of which one is good and the other is not. A model knows the
//! difference if it gives the good one the higher probability.
//!
//! A file of pairs has one a line, as BLiMP has them (JSON with `sentence_good`, `sentence_bad` and, for the category, `UID`)
//! or as fields between tabs: good, bad and, where there are categories, the category.

use super::{Reader, Scored, Sentence};
use crate::error::{Error, Result};
use crate::vocabulary::Vocabulary;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;

/// The category of pairs that have none.
const ALL: &str = "all";

/// A good sentence and a bad one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What the difference is about.
    pub category: String,
    /// The sentence that should be likelier.
    pub good: Sentence,
    /// The other.
    pub bad: Sentence,
}

/// What a model says about a pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// Natural logarithm of the good sentence's probability, its end counted.
    pub good: f64,
    /// And of the bad one's.
    pub bad: f64,
    /// Whether a word of either is unknown, so that the model has not seen the whole pair.
    pub unknown: bool,
}

/// Sums over pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Pairs.
    pub pairs: usize,
    /// Pairs whose good sentence is likelier.
    pub right: usize,
    /// Pairs that are equally likely; they are not right.
    pub ties: usize,
    /// Pairs with a word that the model does not know.
    pub unknown: usize,
    /// Pairs without one whose good sentence is likelier.
    pub right_known: usize,
}

impl Pair {
    /// Line `number` of a file; `by` names the category in JSON. `None` for an empty line, and for the names of the fields
    /// in the first line.
    pub fn parse(path: &Path, number: usize, line: &str, by: &str, words: (&Vocabulary, bool)) -> Result<Option<Pair>> {
        let wrong = |problem: String| {
            let advice = "a pair a line: JSON with `sentence_good` and `sentence_bad`, or `good<TAB>bad<TAB>category`";
            Error::corpus_line(path, number, problem, advice)
        };
        let line = line.trim_matches(['\r', '\u{feff}']);
        if line.trim().is_empty() {
            return Ok(None);
        }
        let (good, bad, category) = if line.trim_start().starts_with('{') {
            let object: Map<String, Value> =
                serde_json::from_str(line).map_err(|e| wrong(format!("this is not a JSON object: {e}")))?;
            let text = |key: &str| match object.get(key) {
                Some(Value::String(text)) => Ok(text.clone()),
                Some(_) => Err(wrong(format!("`{key}` is not a text"))),
                None => Err(wrong(format!("there is no `{key}`"))),
            };
            let category = if object.contains_key(by) { text(by)? } else { ALL.to_owned() };
            (text("sentence_good")?, text("sentence_bad")?, category)
        } else {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                ["good", "bad"] | ["good", "bad", "category"] if number == 1 => return Ok(None),
                [good, bad] => (good.to_owned(), bad.to_owned(), ALL.to_owned()),
                [good, bad, category] => (good.to_owned(), bad.to_owned(), category.trim().to_owned()),
                _ => return Err(wrong(format!("there are {} fields between tabs, not 2 or 3", fields.len()))),
            }
        };
        let (vocabulary, tokenize) = words;
        let sentence = |which: &str, text: &str| {
            let sentence = Sentence::at(path, number, text, vocabulary, tokenize)?;
            if sentence.words.is_empty() {
                return Err(wrong(format!("the {which} sentence is empty")));
            }
            Ok(sentence)
        };
        let (good, bad) = (sentence("good", &good)?, sentence("bad", &bad)?);
        Ok(Some(Pair { category, good, bad }))
    }
}

impl Judgement {
    /// Whether the good sentence is likelier.
    pub fn is_right(&self) -> bool {
        self.good > self.bad
    }
}

impl Tally {
    /// Counts a pair.
    pub fn add(&mut self, judgement: &Judgement) {
        let right = judgement.is_right();
        self.pairs += 1;
        self.right += usize::from(right);
        self.ties += usize::from(judgement.good == judgement.bad);
        self.unknown += usize::from(judgement.unknown);
        self.right_known += usize::from(right && !judgement.unknown);
    }

    /// The share of pairs that are right.
    pub fn accuracy(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.right as f64 / self.pairs as f64)
    }

    /// The same of the pairs whose words are all known.
    pub fn accuracy_known(&self) -> Option<f64> {
        let known = self.pairs - self.unknown;
        (known > 0).then(|| self.right_known as f64 / known as f64)
    }
}

/// Sums over the pairs of each category, in the order in which these come first.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    places: HashMap<String, usize>,
    all: Vec<(String, Tally)>,
}

impl Tallies {
    /// Counts a pair.
    pub fn add(&mut self, category: &str, judgement: &Judgement) {
        let place = match self.places.get(category) {
            Some(&place) => place,
            None => {
                self.places.insert(category.to_owned(), self.all.len());
                self.all.push((category.to_owned(), Tally::default()));
                self.all.len() - 1
            }
        };
        self.all[place].1.add(judgement);
    }

    /// Each category and its sums.
    pub fn each(&self) -> impl ExactSizeIterator<Item = (&str, &Tally)> {
        self.all.iter().map(|(category, tally)| (category.as_str(), tally))
    }
}

impl Reader {
    /// Judges pairs; each sentence stands at the beginning of a text.
    pub fn judge(&mut self, pairs: &[Pair]) -> Vec<Judgement> {
        let sentences: Vec<Sentence> = pairs.iter().flat_map(|pair| [&pair.good, &pair.bad]).cloned().collect();
        let scores = self.score(&sentences);
        let judgement = |(pair, scores): (&Pair, &[Scored])| Judgement {
            good: scores[0].logprob,
            bad: scores[1].logprob,
            unknown: !(pair.good.unseen.is_empty() && pair.bad.unseen.is_empty()),
        };
        pairs.iter().zip(scores.chunks_exact(2)).map(judgement).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(number: usize, line: &str) -> Result<Option<Pair>> {
        let vocabulary = Vocabulary::from_text(Path::new("v"), b"<eos>\n<unk>\nthe\ncat\nsits\nsit\n").unwrap();
        Pair::parse(Path::new("pairs"), number, line, "UID", (&vocabulary, false))
    }

    #[test]
    fn both_layouts_say_the_same() {
        let tabs = parse(2, "the cat sits\tthe cat sit\tagreement\r").unwrap().unwrap();
        let json = r#"{"sentence_good":"the cat sits","sentence_bad":"the cat sit","UID":"agreement","pairID":"0"}"#;
        assert_eq!(parse(1, json).unwrap().unwrap(), tabs);
        assert_eq!((tabs.good.ids, tabs.bad.ids), (vec![2, 3, 4], vec![2, 3, 5]));
        assert_eq!(parse(9, "the cat sits\tthe cat sit").unwrap().unwrap().category, "all");
        assert_eq!(parse(1, "good\tbad\tcategory").unwrap(), None);
        assert_eq!(parse(3, "  ").unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let error = |line: &str| parse(7, line).unwrap_err().to_string();
        for (line, said) in [
            ("the cat", "pairs:7: there are 1 fields between tabs, not 2 or 3\n  try: a pair a line: JSON with "),
            ("a\tb\tc\td", "pairs:7: there are 4 fields between tabs"),
            ("{\"sentence_good\":\"a\"", "pairs:7: this is not a JSON object: "),
            ("{\"sentence_good\":\"a\"}", "pairs:7: there is no `sentence_bad`"),
            ("{\"sentence_good\":\"a\",\"sentence_bad\":3}", "pairs:7: `sentence_bad` is not a text"),
            ("the cat\t ", "pairs:7: the bad sentence is empty"),
        ] {
            assert!(error(line).starts_with(said), "{}", error(line));
        }
    }

    #[test]
    fn ties_are_not_right_and_unknown_words_are_counted() {
        let mut tallies = Tallies::default();
        let judge = |good, bad, unknown| Judgement { good, bad, unknown };
        tallies.add("b", &judge(-1.0, -2.0, false));
        tallies.add("a", &judge(-2.0, -2.0, false));
        tallies.add("b", &judge(-1.0, -2.0, true));
        tallies.add("b", &judge(-3.0, -2.0, false));
        let all: Vec<_> = tallies.each().map(|(name, tally)| (name, *tally)).collect();
        let b = Tally { pairs: 3, right: 2, ties: 0, unknown: 1, right_known: 1 };
        assert_eq!(all, [("b", b), ("a", Tally { pairs: 1, ties: 1, ..Tally::default() })]);
        assert_eq!((b.accuracy(), b.accuracy_known()), (Some(2.0 / 3.0), Some(0.5)));
        assert_eq!(Tally::default().accuracy(), None);
    }
}
