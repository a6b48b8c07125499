//! Words as characters: which symbols a model knows, and how it spells each word (Kim et al. 2016).
//!
//! A *symbol* is a row of the table of character vectors. The first few are special: [`PAD`] fills a word up to the longest
//! length and has no vector, [`START`] and [`END`] stand around each word, [`UNKNOWN`] is any character that has no symbol of its
//! own, and [`SENTENCE`] is the one character of `<eos>`. The others are the characters of the vocabulary's words, those of the
//! most words first. `<unk>` is spelled as one unknown character.
//!
//! The spelling belongs to the model like its weights, but is not trained with them.

use crate::error::{Error, Result};
use crate::storage::tensor_file::{TensorFile, TensorFileWriter};
use crate::vocabulary::{EOS, UNK, Vocabulary};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Fills a word up; its vector is zero and stays so.
pub const PAD: usize = 0;
/// Before the first character of a word.
pub const START: usize = 1;
/// After the last one.
pub const END: usize = 2;
/// A character that has no symbol.
pub const UNKNOWN: usize = 3;
/// The end of a sentence.
pub const SENTENCE: usize = 4;
/// How many symbols are no characters.
const SPECIAL: usize = 5;
/// What the table has in the place of a character that is not there.
const NONE: char = '\0';

/// The names of the spelling in files: the code point of each symbol's character (0 for none), (S), and the symbols of each word,
/// (V, L).
pub(crate) const TENSORS: [&str; 2] = ["characters.symbols", "characters.spelling"];

/// How a word vector comes from characters: their vectors, convolutions of growing width with the largest value of each kept, and
/// layers of a feed-forward highway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CharactersSpec {
    /// Symbols of the table, `S`, the special ones included.
    pub symbols: usize,
    /// Symbols of a word, `L`, its start and its end included; longer words are cut.
    pub length: usize,
    /// Size of a character vector.
    pub width: usize,
    /// Maps of the convolution of width 1, of that of width 2, and so on. None: words have vectors of their own.
    pub maps: Vec<usize>,
    /// Layers of the highway.
    pub highways: usize,
}

impl Default for CharactersSpec {
    fn default() -> CharactersSpec {
        CharactersSpec { symbols: 51, length: 21, width: 15, maps: Vec::new(), highways: 2 }
    }
}

impl CharactersSpec {
    /// Size of a word vector.
    pub fn outputs(&self) -> usize {
        self.maps.iter().sum()
    }

    /// The convolutions that have maps: width and number of maps.
    pub fn convolutions(&self) -> impl Iterator<Item = (usize, usize)> {
        self.maps.iter().enumerate().map(|(i, &maps)| (i + 1, maps)).filter(|&(_, maps)| maps > 0)
    }

    /// Whether there can be such a table; if not, why.
    pub(crate) fn check(&self, most: usize) -> std::result::Result<(), String> {
        if !(SPECIAL + 1..=most).contains(&self.symbols) {
            let least = SPECIAL + 1;
            return Err(format!("a table of {} symbols cannot be made: from {least} to {most} can", self.symbols));
        }
        if !(self.maps.len().max(3)..=most).contains(&self.length) {
            let (length, widest) = (self.length, self.maps.len());
            return Err(format!("words of {length} symbols have no room for their ends or a convolution of {widest}"));
        }
        let sizes = self.maps.iter().chain([&self.width, &self.highways]);
        if self.width == 0 || self.outputs() == 0 || sizes.into_iter().any(|&size| size > most) {
            return Err(format!("character vectors of {} values under maps {:?}", self.width, self.maps));
        }
        Ok(())
    }
}

/// The symbols of a model, and how it spells its words.
#[derive(Clone, Debug, PartialEq)]
pub struct Spelling {
    length: usize,
    /// The code point of each symbol's character, or 0; (S).
    symbols: Vec<f32>,
    /// (V, L).
    table: Vec<f32>,
}

impl Spelling {
    /// One of which every word is empty.
    pub fn none(spec: &CharactersSpec, vocab: usize) -> Spelling {
        let (symbols, table) = (vec![0.0; spec.symbols], vec![PAD as f32; vocab * spec.length]);
        Spelling { length: spec.length, symbols, table }
    }

    /// The symbols of the words of a vocabulary, and their spelling.
    pub fn of(spec: &CharactersSpec, vocabulary: &Vocabulary) -> Spelling {
        let mut words_with: BTreeMap<char, usize> = BTreeMap::new();
        for word in vocabulary.words().filter(|word| ![EOS, UNK].contains(word)) {
            let characters: HashSet<char> = word.chars().filter(|&c| c != NONE).collect();
            characters.into_iter().for_each(|c| *words_with.entry(c).or_default() += 1);
        }
        let mut characters: Vec<(char, usize)> = words_with.into_iter().collect();
        // A stable sort: characters of as many words stay in the order of their code points.
        characters.sort_by_key(|&(_, words)| std::cmp::Reverse(words));
        let mut spelling = Spelling::none(spec, 0);
        for (symbol, (c, _)) in spelling.symbols[SPECIAL..].iter_mut().zip(characters) {
            *symbol = u32::from(c) as f32;
        }
        spelling.table = vocabulary.words().flat_map(|word| spelling.spell(word)).collect();
        spelling
    }

    /// The symbols of any word, (L).
    pub fn spell(&self, word: &str) -> Vec<f32> {
        let symbol = |c: char| {
            let known = self.symbols[SPECIAL..].iter().position(|&other| other == u32::from(c) as f32);
            known.filter(|_| c != NONE).map_or(UNKNOWN, |place| SPECIAL + place)
        };
        let characters: Vec<usize> = match word {
            EOS => vec![SENTENCE],
            UNK => vec![UNKNOWN],
            word => word.chars().take(self.length - 2).map(symbol).collect(),
        };
        let all = std::iter::once(START).chain(characters).chain([END]).chain(std::iter::repeat(PAD));
        all.take(self.length).map(|symbol| symbol as f32).collect()
    }

    /// The symbols of a word of the vocabulary, (L).
    pub fn word(&self, id: u32) -> &[f32] {
        &self.table[id as usize * self.length..][..self.length]
    }

    /// The spelling of every word, (V, L), for writing.
    pub fn table_mut(&mut self) -> &mut [f32] {
        &mut self.table
    }

    pub(crate) fn save<'a>(&'a self, file: &mut TensorFileWriter<'a>) {
        file.tensor(TENSORS[0], &[self.symbols.len()], &self.symbols);
        file.tensor(TENSORS[1], &[self.table.len() / self.length, self.length], &self.table);
    }

    /// The spelling in a file that is known to have its tensors; a symbol that there is not is an error.
    pub(crate) fn read(path: &Path, file: &TensorFile, spec: &CharactersSpec, vocab: usize) -> Result<Spelling> {
        let mut spelling = Spelling::none(spec, vocab);
        file.copy_to(TENSORS[0], &mut spelling.symbols)?;
        file.copy_to(TENSORS[1], &mut spelling.table)?;
        let whole = |x: f32, below: usize| x >= 0.0 && x < below as f32 && x.fract() == 0.0;
        let wrong = |name: &str, place: usize, x: f32, what: &str| {
            let problem = format!("the value at [{place}] is {x}, which is not {what}");
            Err(Error::model(
                path,
                format!("tensor `{name}`"),
                problem,
                "use the weights that were saved with the model",
            ))
        };
        let character = |x: f32| whole(x, 0x11_0000) && char::from_u32(x as u32).is_some();
        if let Some((place, &x)) = spelling.symbols.iter().enumerate().find(|&(_, &x)| !character(x)) {
            return wrong(TENSORS[0], place, x, "a character");
        }
        match spelling.table.iter().enumerate().find(|&(_, &x)| !whole(x, spec.symbols)) {
            Some((place, &x)) => wrong(TENSORS[1], place, x, &format!("one of {} symbols", spec.symbols)),
            None => Ok(spelling),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary(words: &str) -> Vocabulary {
        Vocabulary::from_text(Path::new("vocab.txt"), words.replace(' ', "\n").as_bytes()).unwrap()
    }

    #[test]
    fn the_characters_of_most_words_have_symbols_and_the_others_one_together() {
        let words = vocabulary("<eos> <unk> banana bandana né cab ");
        let spec = CharactersSpec { symbols: 8, length: 6, ..CharactersSpec::default() };
        // Of 4 words: n in 3, a in 3, b in 3, c, d and é in 1 each; three have room.
        let spelling = Spelling::of(&spec, &words);
        let (a, b, n) = (5.0, 6.0, 7.0);
        assert_eq!(spelling.word(0), [1.0, 4.0, 2.0, 0.0, 0.0, 0.0]);
        assert_eq!(spelling.word(1), [1.0, 3.0, 2.0, 0.0, 0.0, 0.0]);
        assert_eq!(spelling.word(2), [1.0, b, a, n, a, 2.0], "cut");
        assert_eq!(spelling.word(4), [1.0, n, 3.0, 2.0, 0.0, 0.0]);
        assert_eq!(spelling.spell("nab"), [1.0, n, a, b, 2.0, 0.0], "of no vocabulary");
    }

    #[test]
    fn a_table_that_cannot_be_made_is_refused() {
        let good = CharactersSpec { maps: vec![2, 0, 3], ..CharactersSpec::default() };
        assert_eq!(good.check(100), Ok(()));
        assert_eq!(good.convolutions().collect::<Vec<_>>(), [(1, 2), (3, 3)]);
        let refused = |spec: CharactersSpec| spec.check(100).unwrap_err();
        let few = refused(CharactersSpec { symbols: 5, ..good.clone() });
        assert_eq!(few, "a table of 5 symbols cannot be made: from 6 to 100 can");
        let short = refused(CharactersSpec { length: 2, ..good.clone() });
        assert_eq!(short, "words of 2 symbols have no room for their ends or a convolution of 3");
        assert!(refused(CharactersSpec { width: 0, ..good.clone() }).contains("character vectors of 0 values"));
        assert!(refused(CharactersSpec { maps: vec![0, 0], ..good }).contains("maps [0, 0]"));
    }
}
