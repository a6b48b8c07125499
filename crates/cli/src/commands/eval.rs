//! `bowline eval`: the perplexity of a model, with all that makes perplexities comparable.

mod table;
mod tuning;

use super::predictor::{PredictorOptions, Setup};
use super::print_json;
use super::split::Source;
use crate::options::{SplitOption, Threads};
use crate::screen::stdout;
use crate::terminal::{Bar, grouped, last_part, note};
use anyhow::bail;
use bowline::corpus::{Split, SplitName};
use bowline::eval::{Evaluation, Score};
use bowline::loaded_model::LoadedModel;
use bowline::predictor::recency_cache::RecencySettings;
use bowline::predictor::{NeuralSettings, Reads, check_logprobs, short};
use bowline::vocabulary::Vocabulary;
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Args)]
pub struct EvalOptions {
    /// Models' folders, or runs'; several are mixed
    #[arg(required = true, value_name = "MODEL")]
    pub models: Vec<PathBuf>,
    /// ptb, wikitext-2, demo, a folder with train/valid/test files, a text file (taken whole, unless it is the run's
    /// own), or - for standard input [default: the text of the first MODEL's run]
    #[arg(long, value_name = "DIR|FILE|NAME")]
    pub data: Option<String>,
    /// The part of the corpus [default: test]
    #[arg(long, value_enum)]
    pub split: Option<SplitOption>,
    /// Read the text as N streams: faster, but each stream starts without context; 1 is exact
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub streams: u32,
    #[command(flatten)]
    pub predictor: PredictorOptions,
    /// Tune the settings on the validation part, store them with the model, and report test
    #[arg(long, conflicts_with = "split")]
    pub tune: bool,
    /// Seconds for tuning dynamic evaluation
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub tune_seconds: u64,
    /// Compare all ways of predicting in one table, each tuned on the validation part
    #[arg(long, conflicts_with_all = ["split", "tune"])]
    pub all: bool,
    /// Also write the table to FILE, as CSV or (*.json) JSON
    #[arg(long, value_name = "FILE", requires = "all")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub threads: Threads,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct EvalAnswer<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    predictor: Option<Described>,
}

/// How the figures came about.
#[derive(Serialize)]
struct Described {
    title: String,
    members: Vec<DescribedMember>,
    #[serde(skip)]
    recency: Option<RecencySettings>,
    #[serde(skip)]
    state: &'static str,
    mix: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid: Option<f64>,
}

#[derive(Serialize)]
struct DescribedMember {
    model: String,
    folder: String,
    weight: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<NeuralSettings>,
}

pub fn run(options: &EvalOptions) -> anyhow::Result<ExitCode> {
    let (models, asked, threads) = (&options.models, &options.predictor, options.threads.get());
    let setup = match options.all || options.tune || options.streams > 1 {
        true => Setup::new(models, asked, threads)?,
        false => Setup::reading(models, asked, threads, Reads::Text)?,
    };
    if options.all { table::run(options, setup) } else { predict(options, setup) }
}

/// The model, or several, in the way that was asked for.
fn predict(options: &EvalOptions, mut setup: Setup) -> anyhow::Result<ExitCode> {
    let first = Arc::clone(setup.model());
    let (vocabulary, tokenize) = (&first.vocabulary, first.tokenize);
    let source = source(options, vocabulary)?;
    let read = |name, purpose: Option<&str>| match purpose {
        Some(purpose) => source.read_part(name, purpose, vocabulary, tokenize),
        None => source.read(name, vocabulary, tokenize),
    };
    let text = read(part(options), options.tune.then_some("a report on what was tuned"))?;
    text.require_tokens(2, "an evaluation")?;
    let mut valid_perplexity = None;
    if options.tune {
        let valid = read(SplitName::Valid, Some("tuning"))?;
        valid.require_tokens(2, "tuning")?;
        valid_perplexity = Some(tuning::run(options, &mut setup, &source, &valid)?);
    } else {
        for ((model, _), stored) in setup.ensemble.members().zip(&setup.stored) {
            if let Some(stored) = stored
                && options.predictor.any()
                && stored.model != model.mark()
            {
                let folder = model.folder.display();
                note(format_args!(
                    "the tuned settings in {folder} were found for other weights; `--tune` finds new ones"
                ));
            }
        }
    }
    setup.need_scales(Some(&source))?;
    setup.need_weights(|| {
        Ok(read(SplitName::Valid, Some("fitting the weights of a mixture (or give --weights)"))?.ids)
    })?;
    let (ensemble, progress, streams) = (&setup.ensemble, Bar::new(), options.streams as usize);
    progress.show(&format!("{} on {}", ensemble.title(), source.label(part(options), &text)), 0.0);
    let nll = ensemble.nll(&setup.team, setup.isa, &text.ids, streams);
    progress.clear();
    let nll = nll?;
    check_logprobs(&options.models[0], nll.iter().map(|x| -x))?;
    let evaluation = Evaluation::of(&text.ids, &nll, vocabulary.unk(), vocabulary.eos(), streams);
    let member = |((model, settings), weight): ((&Arc<LoadedModel>, &NeuralSettings), f64)| DescribedMember {
        model: model.title(),
        folder: model.folder.display().to_string(),
        weight,
        settings: model.params().map(|_| *settings),
    };
    let described = Described {
        title: ensemble.title(),
        members: ensemble.members().zip(ensemble.shares()).map(member).collect(),
        recency: ensemble.recency,
        state: ensemble.state(),
        mix: ensemble.mix.name(),
        valid: valid_perplexity,
    };
    report(options, &ensemble.name(), &source, evaluation, &text, described)
}

fn report(
    options: &EvalOptions,
    model: &str,
    source: &Source,
    evaluation: Evaluation,
    split: &Split,
    predictor: Described,
) -> anyhow::Result<ExitCode> {
    let part = part(options);
    let (recency, state) = (predictor.recency, predictor.state);
    if options.json {
        print_json(&EvalAnswer {
            evaluation,
            model,
            data: &source.name,
            split: if source.is_whole() { "whole" } else { part.as_str() },
            state,
            unseen: split.unseen,
            unseen_types: split.unseen_types,
            data_sha256: &split.sha256,
            recency,
            // A single model as it was trained needs no further words.
            predictor: Some(predictor).filter(|p| p.title != p.members[0].model),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let streams =
        if evaluation.streams == 1 { "one stream".to_owned() } else { format!("{} streams", evaluation.streams) };
    let mut out = stdout();
    let label = source.label(part, split);
    // What was not asked for by its path is called by its name.
    let data = if options.data.is_some() { source.name.as_str() } else { last_part(&source.name) };
    writeln!(out, "{model} on {data} ({label}), state {state}, {streams}")?;
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
    if let Some(valid) = predictor.valid {
        writeln!(out, "  perplexity {valid:>9.3}  on valid, where the settings were found")?;
    }
    for member in &predictor.members {
        let settings = member.settings.map(|s| s.describe()).filter(|text| !text.is_empty());
        if predictor.members.len() > 1 || settings.is_some() {
            let weight =
                if predictor.members.len() > 1 { format!("weight {}  ", short(member.weight)) } else { "".into() };
            writeln!(out, "  {weight}{}  {}", member.model, settings.unwrap_or_default())?;
        }
    }
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

/// The text to evaluate on.
fn source(options: &EvalOptions, vocabulary: &Vocabulary) -> anyhow::Result<Source> {
    let source = Source::of(&options.models[0], vocabulary, options.data.as_deref())?;
    if options.split.is_some() && source.is_whole() {
        bail!(
            "`--split`: {} is one text, which has no parts\n  try: leave --split out, or give a folder made by \
             `bowline data split`",
            source.name
        );
    }
    Ok(source)
}

fn part(options: &EvalOptions) -> SplitName {
    match options.split {
        Some(SplitOption::Train) => SplitName::Train,
        Some(SplitOption::Valid) => SplitName::Valid,
        Some(SplitOption::Test) | None => SplitName::Test,
    }
}
