//! `bowline eval`: the perplexity of a model, with everything said that makes perplexities comparable.

use super::print_json;
use crate::options::{EvalOptions, SplitOption};
use crate::terminal::grouped;
use bowline::corpus::{Split, SplitName, find_split};
use bowline::eval::{Evaluation, Evaluator, Score};
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
}

pub fn run(options: &EvalOptions) -> anyhow::Result<ExitCode> {
    let model = LanguageModel::load(&options.model)?;
    let split = split(options, &model)?;
    split.require_tokens(2, "an evaluation")?;
    let team = Arc::new(Team::new(options.threads.get()));
    let mut evaluator = Evaluator::new(model.params.architecture(), team, Isa::detect(), options.streams as usize);
    let vocabulary = &model.vocabulary;
    let evaluation = evaluator.evaluate(&model.params, &split.ids, vocabulary.unk(), vocabulary.eos());
    let name = name(options.split).as_str();
    if options.json {
        print_json(&Answer {
            evaluation,
            model: &model.kind,
            data: &options.data,
            split: name,
            state: "carried",
            unseen: split.unseen,
            unseen_types: split.unseen_types,
            data_sha256: &split.sha256,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let streams =
        if evaluation.streams == 1 { "one stream".to_owned() } else { format!("{} streams", evaluation.streams) };
    let mut out = stdout();
    writeln!(out, "{} on {} ({name}), state carried, {streams}", model.kind, options.data)?;
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

fn name(split: SplitOption) -> SplitName {
    match split {
        SplitOption::Train => SplitName::Train,
        SplitOption::Valid => SplitName::Valid,
        SplitOption::Test => SplitName::Test,
    }
}

/// The text to evaluate, in the model's own words.
fn split(options: &EvalOptions, model: &LanguageModel) -> bowline::Result<Split> {
    let (vocabulary, tokenize) = (&model.vocabulary, model.tokenize);
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
