//! Text and tokens.
//!
//! A *token* is a word of the model's vocabulary. In a text the words stand between white spaces, and the end of a line
//! is the word `<eos>`, as in the corpora that models are trained on; a literal `<eos>` in the text is the same word. A
//! word that the vocabulary lacks is `<unk>`.
//!
//! The other way, tokens become the *pieces* of a text: each word with the space before it, `<eos>` as the end of a
//! line. The pieces put together are the text, and reading it again gives the same tokens.
//!
//! Every text stands at the beginning of a sentence: an `<eos>` is read before it. A prompt that begins with `<eos>`
//! itself has said so: that one is taken, and no second one is read.

use crate::problem::Problem;
use bowline::corpus::{Phrase, Stranger};
use bowline::loaded_model::LoadedModel;

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its token.
    pub id: u32,
    /// How it is written, if the vocabulary does not have it.
    pub unknown: Option<String>,
}

/// The words of a text.
pub fn read(model: &LoadedModel, text: &str) -> Result<Vec<Word>, Problem> {
    let vocabulary = &model.vocabulary;
    let mut words = Vec::new();
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            words.push(Word { id: vocabulary.eos(), unknown: None });
        }
        // White space parts words in every kind of text, so that each piece between two can be read by itself.
        for chunk in line.split_whitespace() {
            let phrase = Phrase::new(chunk, vocabulary, model.tokenize).map_err(|e| Problem::invalid(e.to_string()))?;
            let first = words.len();
            words.extend(phrase.ids.into_iter().map(|id| Word { id, unknown: None }));
            phrase.unseen.into_iter().for_each(|Stranger { place, word }| words[first + place].unknown = Some(word));
        }
    }
    Ok(words)
}

/// The words that the vocabulary lacks, where `before` tokens are read before the first.
pub fn strangers(words: &[Word], before: usize) -> Vec<Stranger> {
    let stranger = |(i, word): (usize, &Word)| Some(Stranger { place: before + i, word: word.unknown.clone()? });
    words.iter().enumerate().filter_map(stranger).collect()
}

/// The tokens of a text.
pub fn encode(model: &LoadedModel, text: &str) -> Result<Vec<u32>, Problem> {
    Ok(read(model, text)?.into_iter().map(|word| word.id).collect())
}

/// Turns tokens into pieces of text, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    /// Whether the next word begins a line, or follows white space.
    fresh: bool,
}

impl Pieces {
    /// At the beginning of a text.
    pub fn new() -> Pieces {
        Pieces { fresh: true }
    }

    /// After a text.
    pub fn after(text: &str) -> Pieces {
        Pieces { fresh: text.chars().next_back().is_none_or(char::is_whitespace) }
    }

    /// The next word's piece.
    pub fn next(&mut self, model: &LoadedModel, id: u32) -> String {
        let piece = self.peek(model, id);
        self.fresh = id == model.vocabulary.eos();
        piece
    }

    /// What the next word's piece would be.
    pub fn peek(&self, model: &LoadedModel, id: u32) -> String {
        match model.vocabulary.word(id) {
            _ if id == model.vocabulary.eos() => "\n".to_owned(),
            word if self.fresh => word.to_owned(),
            word => format!(" {word}"),
        }
    }
}

/// What a word counts in the size of an answer: 1, unless it is a very long one.
pub fn size(model: &LoadedModel, id: u32) -> usize {
    1 + model.vocabulary.word(id).len() / 32
}

/// The text of some tokens.
pub fn decode(model: &LoadedModel, ids: &[u32]) -> String {
    let mut pieces = Pieces::new();
    ids.iter().map(|&id| pieces.next(model, id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline::params::Params;
    use bowline::spec::ModelSpec;
    use bowline::vocabulary::Vocabulary;
    use std::path::Path;

    fn model(words: &str, tokenize: bool) -> LoadedModel {
        let vocabulary = Vocabulary::from_text(Path::new("vocab.txt"), words.replace(' ', "\n").as_bytes()).unwrap();
        let params = Params::zeros(&ModelSpec::paper(vocabulary.len(), 2, 1, true));
        let mut model = LoadedModel::network("m", "re", params, vocabulary);
        model.tokenize = tokenize;
        model
    }

    #[test]
    fn lines_end_with_eos_and_strangers_keep_their_names() {
        let model = model("the <unk> <eos> cat", false);
        let words = read(&model, " the  dog\ncat <unk>\n\n").unwrap();
        let unknown: Vec<_> = words.iter().map(|word| word.unknown.as_deref()).collect();
        assert_eq!(encode(&model, " the  dog\ncat <unk>\n\n").unwrap(), [0, 1, 2, 3, 1, 2, 2]);
        assert_eq!(unknown, [None, Some("dog"), None, None, None, None, None]);
        assert_eq!(encode(&model, "the <eos> cat").unwrap(), encode(&model, "the\ncat").unwrap());
        assert!(encode(&model, "").unwrap().is_empty());
    }

    #[test]
    fn a_tokenizing_model_parts_words() {
        let model = model("the <unk> <eos> cat , .", true);
        let words = read(&model, "The CAT, the dog.").unwrap();
        assert_eq!(words.iter().map(|word| word.id).collect::<Vec<_>>(), [0, 3, 4, 0, 1, 5]);
        assert_eq!(words[4].unknown.as_deref(), Some("dog"));
    }

    #[test]
    fn pieces_are_the_text_and_reading_it_gives_the_tokens() {
        let model = model("the <unk> <eos> cat", false);
        for ids in [&[0, 3, 2, 0, 1][..], &[2, 2, 3], &[], &[3, 2]] {
            let text = decode(&model, ids);
            assert_eq!(encode(&model, &text).unwrap(), ids, "{text:?}");
        }
        assert_eq!(decode(&model, &[0, 3, 2, 0, 1]), "the cat\nthe <unk>");
        assert_eq!(Pieces::after("the").next(&model, 3), " cat");
        assert_eq!(Pieces::after("the ").next(&model, 3), "cat");
    }

    #[test]
    fn a_stranger_without_unk_is_a_problem() {
        assert!(encode(&model("the <eos>", false), "the cat").is_err());
    }
}
