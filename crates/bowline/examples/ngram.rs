//! The log10 probability of each sentence of a text under an n-gram model, one a line, as other n-gram tools give it:
//! `cargo run --release -p bowline --example ngram -- RUN TEXT`.

use bowline::corpus::Split;
use bowline::{LoadedModel, Result};
use std::io::{BufWriter, Write, stdout};
use std::path::Path;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, text] = arguments.as_slice() else { return Err("give a model's folder and a text".into()) };
    let mut out = BufWriter::new(stdout().lock());
    for log10 in sentences(Path::new(model), Path::new(text))? {
        writeln!(out, "{log10:.6}")?;
    }
    Ok(out.flush()?)
}

fn sentences(model: &Path, text: &Path) -> Result<Vec<f64>> {
    let loaded = LoadedModel::load(model)?;
    let (model, vocabulary) = (loaded.require_ngrams()?, &loaded.vocabulary);
    let split = Split::read(text, vocabulary, loaded.tokenize)?;
    let mut state = model.start();
    let score = |sentence: &[u32]| sentence.iter().map(|&word| model.step(&mut state, word).log10()).sum();
    Ok(split.ids.split_inclusive(|&id| id == vocabulary.eos()).map(score).collect())
}
