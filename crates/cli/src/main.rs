//! `bowline`: word-level language models from the command line.
//!
//! `main` turns errors into exit codes, [`run`] is one match over the commands, and each command is a file.

mod commands;
mod interrupt;
mod options;
mod read_ahead;
mod terminal;

use options::{Command, Options};
use std::io::{self, ErrorKind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let error = match run(Options::read()) {
        Ok(code) => return code,
        Err(error) => error,
    };
    // A bare system error is one of standard output: all others come with their file.
    match error.downcast_ref::<io::Error>() {
        // Whoever read it has read enough, as `head` does.
        Some(error) if error.kind() == ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Some(error) => terminal::note(format_args!("bowline: standard output: cannot write: {error}")),
        None => terminal::note(format_args!("bowline: {error}")),
    }
    ExitCode::FAILURE
}

fn run(options: Options) -> anyhow::Result<ExitCode> {
    match options.command {
        Command::Demo(options) => commands::demo::run(&options),
        Command::Train(options) => commands::train::run(&options),
        Command::Resume(options) => commands::resume::run(&options),
        Command::Branch(options) => commands::branch::run(&options),
        Command::Runs(options) => commands::runs::run(&options),
        Command::Settings(options) => commands::settings::run(&options),
        Command::Eval(options) => commands::eval::run(&options),
        Command::Next(options) => commands::next::run(&options),
        Command::Subspace(options) => commands::subspace::run(&options),
        Command::Reproduce(options) => commands::reproduce::run(&options),
        Command::Report(options) => commands::report::run(&options),
        Command::Score(options) => commands::score::run(&options),
        Command::Rescore(options) => commands::rescore::run(&options),
        Command::Generate(options) => commands::generate::run(&options),
        Command::Neighbours(options) => commands::neighbours::run(&options),
        Command::Compare(options) => commands::compare::run(&options),
        Command::Serve(options) => commands::serve::run(&options),
        Command::Data(options) => commands::data::run(&options),
        Command::Arpa(options) => commands::arpa::run(&options),
        Command::Bench(options) => commands::bench::run(&options),
        Command::Export(options) => commands::export::run(&options),
        Command::Import(options) => commands::import::run(&options),
        Command::TensorBoard(options) => commands::tensorboard::run(&options),
        Command::Completions(options) => commands::completions::run(&options),
        Command::Man(options) => commands::man::run(&options),
    }
}
