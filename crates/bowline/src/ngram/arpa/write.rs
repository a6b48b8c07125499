//! Writing an ARPA file.

use super::super::model::{Level, NgramModel};
use super::{BEGIN, END, LOG_ZERO};
use crate::error::{Error, Result};
use crate::storage::atomic;
use crate::vocabulary::Vocabulary;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use std::path::Path;

/// Writes a model to a file, whole or not at all; compressed if its name ends in `.gz`.
pub fn save(path: &Path, model: &NgramModel, vocabulary: &Vocabulary) -> Result<()> {
    if let Some(word) = [BEGIN, END].into_iter().find(|word| vocabulary.id(word).is_some()) {
        return Err(Error::corpus(
            path,
            format!("the model has `{word}` as an ordinary word, which has another meaning in an ARPA file"),
            "train on a text without that word: sentences end with their line",
        ));
    }
    if model.vocab() != vocabulary.len() {
        let problem = format!("the model has {} words, the vocabulary {}", model.vocab(), vocabulary.len());
        return Err(Error::corpus(path, problem, "use the vocabulary that was saved with the model"));
    }
    let compress = path.extension().is_some_and(|extension| extension == "gz");
    atomic::write(path, |out| {
        if !compress {
            return write(model, vocabulary, out);
        }
        let mut encoder = io::BufWriter::with_capacity(1 << 16, GzEncoder::new(out, Compression::default()));
        write(model, vocabulary, &mut encoder)?;
        encoder.into_inner()?.finish().map(drop)
    })
}

/// Writes the text of a model. The n-grams of each length are sorted by the ids of their words.
pub fn write(model: &NgramModel, vocabulary: &Vocabulary, out: &mut dyn Write) -> io::Result<()> {
    let (levels, eos) = (model.levels(), model.eos());
    writeln!(out, "\\data\\")?;
    for (level, length) in levels.iter().zip(1..) {
        // The beginning of a sentence is a word more.
        writeln!(out, "ngram {length}={}", level.words.len() + usize::from(length == 1))?;
    }
    writeln!(out, "\n\\1-grams:")?;
    let single = &levels[0];
    for id in 0..single.words.len() {
        if id == eos as usize {
            // One node here, two words there: the end has the probability, the beginning the back-off weight.
            writeln!(out, "{LOG_ZERO}\t{BEGIN}{}", Weight::of(single, id))?;
            writeln!(out, "{}\t{END}", Log(single.probabilities[id]))?;
        } else {
            let word = vocabulary.word(id as u32);
            writeln!(out, "{}\t{word}{}", Log(single.probabilities[id]), Weight::of(single, id))?;
        }
    }
    // The node of the first words of each node, level by level.
    let mut parents: Vec<Vec<u32>> = vec![Vec::new()];
    for (k, level) in levels.iter().enumerate().skip(1) {
        let mut parent = Vec::with_capacity(level.words.len());
        for (node, range) in levels[k - 1].first.windows(2).enumerate() {
            parent.resize(parent.len() + (range[1] - range[0]) as usize, node as u32);
        }
        parents.push(parent);
        writeln!(out, "\n\\{}-grams:", k + 1)?;
        let mut words = vec![0; k + 1];
        for node in 0..level.words.len() {
            let mut at = node;
            for (length, word) in words.iter_mut().enumerate().rev() {
                *word = levels[length].words[at];
                at = if length > 0 { parents[length][at] as usize } else { at };
            }
            write!(out, "{}", Log(level.probabilities[node]))?;
            for (place, &word) in words.iter().enumerate() {
                let spelling = match (word == eos, place) {
                    (true, 0) => BEGIN,
                    (true, _) => END,
                    (false, _) => vocabulary.word(word),
                };
                write!(out, "{}{spelling}", if place == 0 { '\t' } else { ' ' })?;
            }
            writeln!(out, "{}", Weight::of(level, node))?;
        }
    }
    writeln!(out, "\n\\end\\")
}

/// log10 of a value. Eight places after the point give every `f32` back as it was.
struct Log(f32);

impl std::fmt::Display for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0.0 => write!(f, "{LOG_ZERO}"),
            1.0 => write!(f, "0"),
            value => write!(f, "{:.8}", f64::from(value).log10()),
        }
    }
}

/// A tab and the back-off weight, where there is one to write: not for a context that nothing follows.
struct Weight(Option<f32>);

impl Weight {
    fn of(level: &Level, node: usize) -> Weight {
        let weight = level.backoffs.get(node).copied();
        let childless = || level.first[node] == level.first[node + 1];
        Weight(weight.filter(|&weight| weight != 1.0 || !childless()))
    }
}

impl std::fmt::Display for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |weight| write!(f, "\t{}", Log(weight)))
    }
}
