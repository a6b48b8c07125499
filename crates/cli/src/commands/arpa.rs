//! `bowline arpa`: n-gram models to and from ARPA files.

use super::predictor::{PredictorOptions, Setup};
use super::{print_json, shell};
use crate::screen::stdout;
use crate::terminal::grouped;
use bowline::loaded_model::LoadedModel;
use bowline::model_folder::NgramFolder;
use bowline::ngram::{NgramModel, arpa};
use bowline::vocabulary::Vocabulary;
use clap::{Args, Subcommand};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Args)]
pub struct ArpaOptions {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write an n-gram model, or a mixture of several, as an ARPA file
    Write(WriteOptions),
    /// Import an ARPA file as a model
    Read(ReadOptions),
}

#[derive(Args)]
struct WriteOptions {
    /// The folder of an n-gram model, or of its run
    model: PathBuf,
    /// The file; compressed if its name ends in .gz
    file: PathBuf,
    /// Mix in another n-gram model; may be given several times
    #[arg(long = "with", value_name = "MODEL")]
    others: Vec<PathBuf>,
    /// Mixture weights, comma-separated [default: those that `eval --tune` found]
    #[arg(long, value_name = "W,W..", value_delimiter = ',')]
    weights: Option<Vec<f64>>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ReadOptions {
    /// The ARPA file, compressed or not
    file: PathBuf,
    /// The model's folder; it must be new or empty
    #[arg(long, value_name = "MODELDIR")]
    out: PathBuf,
    /// Lower-case text for this model and split words from their punctuation
    #[arg(long)]
    tokenize: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(options: &ArpaOptions) -> anyhow::Result<ExitCode> {
    match &options.action {
        Action::Write(options) => write(options),
        Action::Read(options) => read(options),
    }
}

fn write(options: &WriteOptions) -> anyhow::Result<ExitCode> {
    let (model, vocabulary, weights) = match options.others.is_empty() && options.weights.is_none() {
        true => {
            let loaded = LoadedModel::load(&options.model)?;
            (Arc::clone(loaded.require_ngrams()?), loaded.vocabulary, vec![1.0])
        }
        false => mixture(options)?,
    };
    arpa::save(&options.file, &model, &vocabulary)?;
    let ngrams = model.ngrams();
    if options.json {
        print_json(&json!({"file": options.file, "order": model.order(), "ngrams": ngrams, "weights": weights}))?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        stdout(),
        "{}: {} n-grams of up to {} words",
        shell(&options.file),
        grouped(ngrams.iter().sum()),
        ngrams.len()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The models as one, their words, and what each counts.
fn mixture(options: &WriteOptions) -> anyhow::Result<(Arc<NgramModel>, Vocabulary, Vec<f64>)> {
    let predictor = PredictorOptions { weights: options.weights.clone(), ..PredictorOptions::default() };
    let ensemble = Setup::known(&options.model, &options.others, &predictor, 1, None)?.ensemble;
    let members =
        ensemble.members().map(|(m, _)| m.require_ngrams().map(|m| &**m)).collect::<bowline::Result<Vec<_>>>()?;
    let weights = ensemble.shares();
    let model = NgramModel::interpolate(&members, &weights)?;
    Ok((Arc::new(model), ensemble.model().vocabulary.clone(), weights))
}

fn read(options: &ReadOptions) -> anyhow::Result<ExitCode> {
    let model = NgramFolder::import_arpa(&options.file, &options.out, options.tokenize)?;
    let (ngrams, words) = (model.model.ngrams(), model.vocabulary.len());
    if options.json {
        print_json(&json!({"model": options.out, "order": ngrams.len(), "words": words, "ngrams": ngrams}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    writeln!(
        out,
        "{} words, {} n-grams of up to {} words",
        grouped(words),
        grouped(ngrams.iter().sum()),
        ngrams.len()
    )?;
    if model.vocabulary.unk().is_none() {
        writeln!(out, "the model has no <unk>: use it only on texts of its own words")?;
    }
    writeln!(out, "the model is in {}", shell(&options.out))?;
    writeln!(out, "next: bowline next {} \"the beginning of a sentence\"", shell(&options.out))?;
    Ok(ExitCode::SUCCESS)
}
