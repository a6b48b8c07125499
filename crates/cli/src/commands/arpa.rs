//! `bowline arpa`: n-gram models to and from ARPA files.

use super::{print_json, shell};
use crate::screen::stdout;
use crate::terminal::grouped;
use bowline::loaded_model::LoadedModel;
use bowline::model_folder::NgramFolder;
use bowline::ngram::arpa;
use clap::{Args, Subcommand};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct ArpaOptions {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write an n-gram model as an ARPA file
    Write(WriteOptions),
    /// Make a model of an ARPA file
    Read(ReadOptions),
}

#[derive(Args)]
struct WriteOptions {
    /// The folder of an n-gram model, or of its run
    model: PathBuf,
    /// The file; compressed if its name ends in .gz
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ReadOptions {
    /// The ARPA file, compressed or not
    file: PathBuf,
    /// The model's folder, which must not hold anything yet
    #[arg(long, value_name = "MODELDIR")]
    out: PathBuf,
    /// Its text was lower-cased and split from punctuation, so do the same to what it is used on
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
    let loaded = LoadedModel::load(&options.model)?;
    let model = loaded.require_ngrams()?;
    arpa::save(&options.file, model, &loaded.vocabulary)?;
    let ngrams = model.ngrams();
    if options.json {
        print_json(&json!({"file": options.file, "order": model.order(), "ngrams": ngrams}))?;
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
        writeln!(out, "the model has no <unk>: it can only be used on texts of its own words")?;
    }
    writeln!(out, "the model is in {}", shell(&options.out))?;
    writeln!(out, "next: bowline next {} \"the beginning of a sentence\"", shell(&options.out))?;
    Ok(ExitCode::SUCCESS)
}
