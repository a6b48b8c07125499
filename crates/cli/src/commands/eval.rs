//! `bowline eval`: the perplexity of a model, with everything said that makes perplexities comparable.

use super::print_json;
use crate::options::{EvalOptions, SplitOption};
use crate::terminal::grouped;
use anyhow::bail;
use bowline::any_model::AnyModel;
use bowline::corpus::{Split, SplitName, find_split};
use bowline::eval::{Evaluation, Evaluator, Score};
use bowline::model_folder::NgramFolder;
use bowline::ngram::recency::{self, RecencySettings};
use bowline::predict::LanguageModel;
use bowline::{data, demo};
use bowline_kernels::{Isa, Team};
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    evaluation: Evaluation,
    model: &'a str,
    data: &'a str,
    split: &'a str,
    state: &'a str,
    unseen: usize,
    unseen_types: usize,
    data_sha256: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recency: Option<RecencySettings>,
}

pub fn run(options: &EvalOptions) -> anyhow::Result<ExitCode> {
    let model = AnyModel::load(&options.model)?;
    let split = split(options, &model)?;
    split.require_tokens(2, "an evaluation")?;
    let (evaluation, recency) = match &model {
        AnyModel::Neural(model) => (neural(options, model, &split)?, None),
        AnyModel::Ngram(model) => ngram(options, model, &split)?,
    };
    let state = match (&model, recency) {
        (AnyModel::Neural(_), _) => "carried",
        (AnyModel::Ngram(_), None) => "new for each sentence",
        (AnyModel::Ngram(_), Some(_)) => "new for each sentence, cache carried",
    };
    let name = name(options.split).as_str();
    if options.json {
        print_json(&Answer {
            evaluation,
            model: model.kind(),
            data: &options.data,
            split: name,
            state,
            unseen: split.unseen,
            unseen_types: split.unseen_types,
            data_sha256: &split.sha256,
            recency,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let streams =
        if evaluation.streams == 1 { "one stream".to_owned() } else { format!("{} streams", evaluation.streams) };
    let mut out = stdout();
    writeln!(out, "{} on {} ({name}), state {state}, {streams}", model.kind(), options.data)?;
    if let Some(settings) = recency {
        writeln!(out, "  with a recency cache, {settings}")?;
    }
    let mut line = |what: &str, score: Score| {
        writeln!(out, "  perplexity {:>9.3}  over {:>9} predictions  {what}", score.perplexity, grouped(score.tokens))
    };
    line("all words", evaluation.all)?;
    line("without <unk>", evaluation.without_unk)?;
    line("without <eos>", evaluation.without_eos)?;
    line("without both", evaluation.without_both)?;
    if split.unseen > 0 {
        writeln!(
            out,
            "  {} words ({} different) are not in the model's vocabulary and count as <unk>",
            grouped(split.unseen),
            grouped(split.unseen_types)
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn neural(options: &EvalOptions, model: &LanguageModel, split: &Split) -> anyhow::Result<Evaluation> {
    if options.recency.is_some() {
        bail!(
            "`--recency`: this cache is for n-gram models\n  try: leave it out, or a model of `bowline train --model kn`"
        );
    }
    let team = Arc::new(Team::new(options.threads.get()));
    let mut evaluator = Evaluator::new(model.params.architecture(), team, Isa::detect(), options.streams as usize);
    let vocabulary = &model.vocabulary;
    Ok(evaluator.evaluate(&model.params, &split.ids, vocabulary.unk(), vocabulary.eos()))
}

/// The perplexities of an n-gram model, with the cache that was asked for.
fn ngram(
    options: &EvalOptions,
    model: &NgramFolder,
    split: &Split,
) -> anyhow::Result<(Evaluation, Option<RecencySettings>)> {
    if options.streams != 1 {
        bail!("`--streams`: an n-gram model begins anew at each sentence and has no use for it\n  try: leave it out");
    }
    let eos = model.vocabulary.eos();
    let tuned = model.recency.unwrap_or_default();
    let settings = options.recency.as_ref().map(|text| tuned.with(text)).transpose()?;
    let mut nll = model.model.nll(&split.ids);
    if let Some(settings) = settings {
        nll = recency::nll(settings, eos, &split.ids, &nll)?;
    }
    Ok((Evaluation::of(&split.ids, &nll, model.vocabulary.unk(), eos, 1), settings))
}

fn name(split: SplitOption) -> SplitName {
    match split {
        SplitOption::Train => SplitName::Train,
        SplitOption::Valid => SplitName::Valid,
        SplitOption::Test => SplitName::Test,
    }
}

/// The text to evaluate, in the model's own words.
fn split(options: &EvalOptions, model: &AnyModel) -> bowline::Result<Split> {
    let (vocabulary, tokenize) = (model.vocabulary(), model.tokenize());
    if options.data == "demo" {
        let splits = demo::splits(demo::DEFAULT_SEED);
        let text = match options.split {
            SplitOption::Train => splits.train,
            SplitOption::Valid => splits.valid,
            SplitOption::Test => splits.test,
        };
        return Split::from_text("demo", &text, vocabulary, tokenize);
    }
    let path = match data::by_name(&options.data) {
        Some(corpus) => data::locate(corpus, &data::Environment::current())?,
        None => Path::new(&options.data).to_path_buf(),
    };
    let file = if path.is_file() { path } else { find_split(&path, name(options.split))? };
    Split::read(&file, vocabulary, tokenize)
}
