//! `bowline train`: a new run.

use super::{budget, fit, print_json, shell};
use crate::interrupt::Interrupt;
use crate::options::TrainOptions;
use crate::ranks::{self, Silent, require_one};
use crate::screen::stdout;
use crate::terminal::width::{self, wrap};
use crate::terminal::{Terminal, duration, note};
use anyhow::bail;
use bowline::budget::Budget;
use bowline::config::{Config, DataConfig, Precision, Size};
use bowline::data;
use bowline::loaded_model::LoadedModel;
use bowline::model_folder::VOCABULARY;
use bowline::recipes::Recipe;
use bowline::run::fit::source;
use bowline::run::ranks::Ranks;
use bowline::run::{self, NgramConfig, Outcome, Session};
use bowline_interop::tensorboard::TensorBoard;
use bowline_kernels::Isa;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub fn run(options: &TrainOptions, ranks: &dyn Ranks) -> anyhow::Result<ExitCode> {
    let session = Session { threads: options.threads.get(), isa: Isa::detect() };
    if let Some(budget) = budgeted(options) {
        require_one(ranks, "a plan for a time (`--budget`)", "what to train: `--model`, `--size` or `--epochs`")?;
        return budget::run(options, budget, session);
    }
    let model = options.model.as_deref().unwrap_or("real");
    if model == "kn" {
        require_one(ranks, "an n-gram model (`--model kn`)", "it without `mpirun`, or a network")?;
        let (config, notes) = ngram_config(options)?;
        let mut watch = Terminal::new(Interrupt::listen(), "").saying(notes);
        let outcome = run::start_ngram(&options.out, &config, session, &mut watch)?;
        return report(&options.out, outcome, options.json);
    }
    let (config, notes) = ranks::all(ranks, config(options, ranks.size()))?;
    if !ranks.leads() {
        let mut watch = Silent(Interrupt::listen_silently());
        return Ok(code(&run::start_among(&options.out, &config, session, ranks, &mut watch)?));
    }
    let mut terminal = Terminal::new(Interrupt::listen(), "").saying(notes);
    let mut watch = TensorBoard::beside(&mut terminal, &options.out, options.tensorboard);
    let outcome = run::start_among(&options.out, &config, session, ranks, &mut watch)?;
    report(&options.out, outcome, options.json)
}

/// A stopped run has its own exit code, that of an interrupted program.
pub fn code(outcome: &Outcome) -> ExitCode {
    match outcome {
        Outcome::Finished(_) => ExitCode::SUCCESS,
        Outcome::Stopped(_) => ExitCode::from(130),
    }
}

/// Whether a setting is given by `--set`.
fn given(options: &TrainOptions, key: &str) -> bool {
    options.settings.iter().any(|s| s.split('=').next().is_some_and(|k| k.trim() == key))
}

/// The budget of a run that has one: asked for, or because nothing says what else to do.
fn budgeted(options: &TrainOptions) -> Option<Budget> {
    let network =
        options.model.is_some() || options.size.is_some() || options.order.is_some() || options.init.is_some();
    let length =
        options.epochs.is_some() || options.patience.is_some() || options.second_training || given(options, "epochs");
    options.budget.or((!network && !length && options.prune.is_empty()).then_some(Budget::Auto))
}

/// The settings of a network for so many ranks, and what is to be said about how they were chosen.
fn config(options: &TrainOptions, size: usize) -> anyhow::Result<(Config, Vec<String>)> {
    let mut notes = Vec::new();
    if options.order.is_some() || !options.prune.is_empty() {
        let option = if options.order.is_some() { "--order" } else { "--prune" };
        bail!("`{option}`: a network has no n-grams\n  try: `--model kn`, or leave it out");
    }
    let source = source(&options.data);
    // A folder with the files of a public corpus has the settings of that corpus, wherever it lies.
    let known = data::recognise(Path::new(&source)).map_or(source.as_str(), |corpus| corpus.name);
    let mut config = match &options.init {
        Some(model) => begun_with(model, options.model.as_deref(), known)?,
        None => {
            let recipe = Recipe::find(options.model.as_deref().unwrap_or("real"))?;
            recipe.config(options.size.map(Size::from), known)?
        }
    };
    config.data.source.clone_from(&source);
    config.epochs = options.epochs.unwrap_or(config.epochs);
    config.seed = options.seed.unwrap_or(config.seed);
    config.patience = options.patience.unwrap_or(config.patience);
    config.precision = options.precision.map_or(config.precision, Precision::from);
    if let Some(survey) = fit::data(options, &mut config.data, &mut notes)? {
        fit::network(options, &mut config, &survey, &mut notes);
    }
    if let Some(model) = &options.init {
        let folder = LoadedModel::load(model)?.folder;
        config.data.vocabulary = absolute(&folder.join(VOCABULARY));
        config.data.extend = true;
    }
    config.augment.teachers.extend(options.teachers.iter().map(|path| absolute(path)));
    let mut config = config.with(&options.settings)?;
    if options.second_training && config.second_training_epochs == 0 {
        config.second_training_epochs = config.epochs;
    }
    if size > 1 && !given(options, "shards") {
        config.shards = size;
        notes.push(format!("{size} shards of the batch, one for each rank (--set shards)"));
    }
    config.validate()?;
    Ok((config, notes))
}

/// Absolute, so that `resume` finds it from anywhere.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}

/// The settings of a run that begins with a model: those of the model's own run, or of a recipe, for its network.
fn begun_with(model: &Path, recipe: Option<&str>, data: &str) -> anyhow::Result<Config> {
    let loaded = LoadedModel::load(model)?;
    let spec = loaded.require_network("weights to begin with")?.spec();
    let of_run = [model, model.parent().unwrap_or(model)].map(|folder| folder.join("config.toml"));
    let mut config = match (recipe, of_run.iter().find(|path| path.is_file())) {
        (None, Some(path)) => Config::read(path)?,
        (recipe, _) => Recipe::find(recipe.unwrap_or(&loaded.kind))
            .map_err(|error| {
                let tip = "--model, for the settings of a training; the network is that of --init";
                anyhow::anyhow!("{error}\n  try: {tip}")
            })?
            .config(None, data)?,
    };
    config.take_network(spec).map_err(|problem| {
        anyhow::anyhow!("{}: this is {problem}\n  try: another --model, or none", model.display())
    })?;
    config.origin.clear();
    config.data = DataConfig { tokenize: loaded.tokenize, ..DataConfig::default() };
    config.start.model = absolute(model);
    config.start.model_sha256.clear();
    Ok(config)
}

/// The settings of an n-gram model. What only a network has is refused.
fn ngram_config(options: &TrainOptions) -> anyhow::Result<(NgramConfig, Vec<String>)> {
    let mut notes = Vec::new();
    let given = [
        ("--size", options.size.is_some()),
        ("--epochs", options.epochs.is_some()),
        ("--seed", options.seed.is_some()),
        ("--patience", options.patience.is_some()),
        ("--second-training", options.second_training),
        ("--set", !options.settings.is_empty()),
        ("--tensorboard", options.tensorboard),
        ("--teacher", !options.teachers.is_empty()),
        ("--init", options.init.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        bail!(
            "`{option}`: an n-gram model (`--model kn`) has no such setting\n  try: leave it out; what it has is `--order`"
        );
    }
    let mut data = DataConfig { source: source(&options.data), ..DataConfig::default() };
    fit::data(options, &mut data, &mut notes)?;
    let mut config = NgramConfig::new(options.order.unwrap_or(run::DEFAULT_ORDER), data);
    config.prune.clone_from(&options.prune);
    config.validate()?;
    Ok((config, notes))
}

/// Says how it ended and what to do next.
pub fn report(folder: &Path, outcome: Outcome, json: bool) -> anyhow::Result<ExitCode> {
    let (run, code) = (shell(folder), code(&outcome));
    match outcome {
        Outcome::Finished(summary) if json => print_json(&*summary)?,
        Outcome::Finished(summary) => {
            let epoch = match summary.epochs {
                1 => String::new(),
                epochs => format!(" (epoch {} of {epochs})", summary.best_epoch),
            };
            let mut lines = vec![format!(
                "done in {}: valid perplexity {:.2}, test perplexity {:.2}{epoch}",
                duration(summary.timing.seconds),
                summary.valid,
                summary.test,
            )];
            if let Some(with) = summary.predictor {
                let [valid, test] = with.full;
                lines.push(format!(
                    "with n-grams, cache and dynamic evaluation: valid perplexity {valid:.2}, test perplexity {test:.2} \
                     (n-grams alone {:.2}, {:.2})",
                    with.ngrams[0], with.ngrams[1],
                ));
            }
            lines.extend(summary.paper.as_ref().map(|paper| paper.line(summary.valid, summary.test)));
            lines.push(format!("the model is in {}", shell(&folder.join("best"))));
            lines.push(format!("next: bowline next {run} \"the beginning of a sentence\""));
            writeln!(stdout(), "{}", wrap(&lines.join("\n"), width::of_stdout()))?;
        }
        Outcome::Stopped(position) => {
            note(format_args!("saved at step {}, in epoch {}", position.step, position.epoch));
            note(format_args!("resume with: bowline resume {run}"));
        }
    }
    Ok(code)
}
