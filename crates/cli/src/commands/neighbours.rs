//! `bowline neighbours`: the words whose vectors are nearest to a word's.

use super::{print_json, printable};
use crate::screen::stdout;
use crate::terminal::note;
use bowline::Error;
use bowline::loaded_model::LoadedModel;
use bowline::model::word_vectors;
use bowline::model_folder::VOCABULARY;
use bowline::score::{neighbours, similar_spelling};
use clap::Args;
use serde_json::json;
use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct NeighboursOptions {
    /// A model's folder, or a run's
    pub model: PathBuf,
    /// A word of the model's vocabulary
    pub word: String,
    /// How many words to show
    #[arg(short, value_name = "N", default_value_t = 10)]
    pub k: usize,
    /// Use the classifier's vectors instead of the embedding (untied models)
    #[arg(long)]
    pub classifier: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &NeighboursOptions) -> anyhow::Result<ExitCode> {
    let model = LoadedModel::load(&options.model)?;
    let params = model.require_network("word vectors")?;
    let vocabulary = &model.vocabulary;
    let lower = options.word.to_lowercase();
    let Some(id) = vocabulary.id(&options.word).or_else(|| vocabulary.id(&lower)) else {
        let problem = format!("`{}` is not among the model's {} words", printable(&options.word), vocabulary.len());
        let advice = match similar_spelling(vocabulary, &options.word) {
            Some(word) => format!("did you mean `{}`?", printable(word)),
            None => "choose one of the words in this file".to_owned(),
        };
        return Err(Error::corpus(model.folder.join(VOCABULARY), problem, advice).into());
    };
    let vectors = if options.classifier { Cow::Borrowed(params.classifier()) } else { word_vectors(params) };
    let found = neighbours(&vectors, vocabulary, id, options.k);
    let kind = if options.classifier { "classifier" } else { "embedding" };
    if options.json {
        print_json(&json!({"word": vocabulary.word(id), "model": model.kind, "vectors": kind, "neighbours": found}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.classifier && params.spec().output.tied {
        note(format_args!("the model is tied: its classifier's vectors are those of the embedding"));
    }
    let widest = found.iter().map(|n| printable(&n.word).chars().count()).max().unwrap_or(0);
    for neighbour in &found {
        let bar = "#".repeat((30.0 * neighbour.cosine.max(0.0)).round() as usize);
        let line = format!("{:<widest$}  {:>7.4}  {bar}", printable(&neighbour.word), neighbour.cosine);
        writeln!(stdout(), "{}", line.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
