//! Sentences and their log-probabilities.

use super::{Memory, Passage, Reader};
use crate::corpus::{Stranger, for_each_word_of_line};
use crate::error::{Error, Result};
use crate::vocabulary::{EOS, UNK, Vocabulary};
use std::path::Path;

/// A line of text as words and ids, without the `<eos>` at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence {
    /// The words as they stand in the text (lower-cased and parted from punctuation, if the model's text was).
    pub words: Vec<String>,
    /// Their ids.
    pub ids: Vec<u32>,
    /// The places of the words that the vocabulary lacks. They are predicted as `<unk>`, and read as `<unk>` or by their
    /// characters.
    pub unseen: Vec<usize>,
}

impl Sentence {
    /// The words of a line that stands alone, such as one that came over a network.
    pub fn new(line: &str, vocabulary: &Vocabulary, tokenize: bool) -> Result<Sentence> {
        Sentence::parse(line, vocabulary, tokenize).map_err(|word| {
            Error::corpus(
                "the sentence",
                stranger(&word, vocabulary),
                "use the model's words; its vocab.txt lists them",
            )
        })
    }

    /// The words of line `number` of a file, both of which are for the messages.
    pub fn at(path: &Path, number: usize, line: &str, vocabulary: &Vocabulary, tokenize: bool) -> Result<Sentence> {
        Sentence::parse(line, vocabulary, tokenize).map_err(|word| {
            let advice = "use a text of the model's words, or train with `--vocab-size`, which brings `<unk>`";
            Error::corpus_line(path, number, stranger(&word, vocabulary), advice)
        })
    }

    /// The sentence, or a word of it that has no id.
    fn parse(line: &str, vocabulary: &Vocabulary, tokenize: bool) -> std::result::Result<Sentence, String> {
        let (mut sentence, mut stranger) = (Sentence::default(), None);
        for_each_word_of_line(line, tokenize, |word| {
            match vocabulary.id(word).or(vocabulary.unk()) {
                Some(id) => sentence.ids.push(id),
                None => {
                    stranger.get_or_insert_with(|| word.to_owned());
                    return;
                }
            }
            if vocabulary.id(word).is_none() {
                sentence.unseen.push(sentence.words.len());
            }
            sentence.words.push(word.to_owned());
        });
        // As in a corpus, an end that is written out is the line's end, not a second one.
        if sentence.words.last().is_some_and(|word| word == EOS) {
            sentence.words.pop();
            sentence.ids.pop();
        }
        stranger.map_or(Ok(sentence), Err)
    }
}

fn stranger(word: &str, vocabulary: &Vocabulary) -> String {
    format!("the word `{word}` is not among the model's {} words, and it has no `{UNK}`", vocabulary.len())
}

/// The log-probabilities of a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The natural logarithm of the probability of each word, and of the `<eos>` after the last.
    pub logprobs: Vec<f64>,
    /// Their sum.
    pub logprob: f64,
}

impl Scored {
    /// From the logarithm of the probability of each word and of the `<eos>`.
    pub fn new(logprobs: Vec<f64>) -> Scored {
        Scored { logprob: logprobs.iter().sum(), logprobs }
    }
}

impl Reader {
    /// The log-probabilities of a line of text, as it is written.
    pub fn score_line(&mut self, line: &str) -> Result<Scored> {
        let sentence = Sentence::new(line, &self.model().vocabulary, self.model().tokenize)?;
        Ok(self.score(&[sentence]).pop().unwrap_or_else(|| Scored::new(Vec::new())))
    }

    /// The log-probabilities of sentences that each stand at the beginning of a text.
    pub fn score(&mut self, sentences: &[Sentence]) -> Vec<Scored> {
        self.score_after(None, sentences)
    }

    /// The log-probabilities of sentences that each come after the same memory, as the hypotheses for one sentence of a
    /// longer text do.
    pub fn score_after(&mut self, memory: Option<&Memory>, sentences: &[Sentence]) -> Vec<Scored> {
        let texts: Vec<_> = sentences.iter().map(|sentence| self.text(std::slice::from_ref(sentence))).collect();
        let passages: Vec<_> = texts.iter().map(|text| Passage { from: memory, ..passage(text) }).collect();
        self.read(&passages).into_iter().map(|reading| Scored::new(reading.logprobs)).collect()
    }

    /// The log-probabilities of sentences that come one after the other, the first of them after `memory`, which is
    /// brought up to the end of the last.
    pub fn score_on(&mut self, memory: &mut Memory, sentences: &[Sentence]) -> Vec<Scored> {
        let text = self.text(sentences);
        let mut readings = self.read(&[Passage { from: Some(memory), keep: true, ..passage(&text) }]);
        let Some(reading) = readings.pop() else { return Vec::new() };
        if let Some(after) = reading.memory {
            *memory = after;
        }
        let mut logprobs = reading.logprobs.into_iter();
        sentences.iter().map(|s| Scored::new(logprobs.by_ref().take(s.ids.len() + 1).collect())).collect()
    }

    /// `<eos>`, and then each sentence with its `<eos>`; and the words among them that the vocabulary lacks.
    fn text(&self, sentences: &[Sentence]) -> (Vec<u32>, Vec<Stranger>) {
        let eos = self.model().vocabulary.eos();
        let (mut text, mut strangers) = (vec![eos], Vec::new());
        for sentence in sentences {
            let stranger = |&i: &usize| Stranger { place: text.len() + i, word: sentence.words[i].clone() };
            strangers.extend(sentence.unseen.iter().map(stranger));
            text.extend(&sentence.ids);
            text.push(eos);
        }
        (text, strangers)
    }
}

/// Every word of a text but the last is read, and every one but the first predicted.
fn passage((text, strangers): &(Vec<u32>, Vec<Stranger>)) -> Passage<'_> {
    let (inputs, targets) = text.split_last().map_or((&text[..], &text[..]), |(_, inputs)| (inputs, &text[1..]));
    Passage { inputs, targets, strangers, ..Passage::default() }
}
