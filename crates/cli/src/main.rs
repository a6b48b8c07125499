//! `bowline`: word-level language models from the command line.
//!
//! `main` turns errors into exit codes, [`run`] is one match over the commands, and each command is a file.

mod commands;
mod interrupt;
mod options;
mod terminal;

use clap::Parser;
use options::{Command, Options};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bowline: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> anyhow::Result<ExitCode> {
    match options.command {
        Command::Demo(options) => commands::demo::run(&options),
        Command::Train(options) => commands::train::run(&options),
        Command::Resume(options) => commands::resume::run(&options),
        Command::Eval(options) => commands::eval::run(&options),
        Command::Next(options) => commands::next::run(&options),
        Command::Data(options) => commands::data::run(&options),
        Command::Bench(options) => commands::bench::run(&options),
    }
}
