//! `bowline train`: a new run.

use super::{print_json, shell};
use crate::interrupt::Interrupt;
use crate::options::TrainOptions;
use crate::terminal::{Terminal, duration, note};
use bowline::config::{Config, Precision, preset};
use bowline::data;
use bowline::run::{self, Outcome, Session};
use bowline_kernels::Isa;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;

pub fn run(options: &TrainOptions) -> anyhow::Result<ExitCode> {
    let config = config(options)?;
    let session = Session { threads: options.threads.get(), isa: Isa::detect() };
    let mut watch = Terminal::new(Interrupt::listen(), "");
    let outcome = run::start(&options.out, &config, session, &mut watch)?;
    report(&options.out, outcome, options.json)
}

fn config(options: &TrainOptions) -> anyhow::Result<Config> {
    let mut config = preset(options.size.into(), options.model.into(), &source(&options.data));
    config.epochs = options.epochs.unwrap_or(config.epochs);
    config.seed = options.seed.unwrap_or(config.seed);
    config.patience = options.patience.unwrap_or(config.patience);
    config.precision = options.precision.map_or(config.precision, Precision::from);
    config.data.vocab_size = options.vocab_size.unwrap_or(0);
    config.data.tokenize = options.tokenize;
    let mut config = config.with(&options.settings)?;
    if options.second_training && config.second_training_epochs == 0 {
        config.second_training_epochs = config.epochs;
    }
    config.validate()?;
    Ok(config)
}

/// A known name, or a path made absolute so that `resume` finds it from anywhere.
fn source(data: &str) -> String {
    if data == "demo" || data::by_name(data).is_some() {
        return data.to_owned();
    }
    std::path::absolute(Path::new(data)).map_or_else(|_| data.to_owned(), |path| path.display().to_string())
}

/// Says how it ended and what to do next. A stopped run has its own exit code, that of an interrupted program.
pub fn report(folder: &Path, outcome: Outcome, json: bool) -> anyhow::Result<ExitCode> {
    let run = shell(folder);
    match outcome {
        Outcome::Finished(summary) if json => print_json(&*summary)?,
        Outcome::Finished(summary) => {
            let mut out = stdout();
            writeln!(
                out,
                "done in {}: valid perplexity {:.2}, test perplexity {:.2} (epoch {} of {})",
                duration(summary.timing.seconds),
                summary.valid,
                summary.test,
                summary.best_epoch,
                summary.epochs
            )?;
            writeln!(out, "the model is in {}", shell(&folder.join("best")))?;
            writeln!(out, "next: bowline next {run} \"the beginning of a sentence\"")?;
        }
        Outcome::Stopped(position) => {
            note(format_args!("saved at step {}, in epoch {}", position.step, position.epoch));
            note(format_args!("go on with: bowline resume {run}"));
            return Ok(ExitCode::from(130));
        }
    }
    Ok(ExitCode::SUCCESS)
}
