//! `bowline completions`: what a shell needs to complete commands and options, from the definition of the command line.

use crate::options::Options;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::{Write, stdout};
use std::process::ExitCode;

#[derive(Args)]
pub struct CompletionsOptions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

pub fn run(options: &CompletionsOptions) -> anyhow::Result<ExitCode> {
    // Into memory first: the generator panics where it cannot write, as into a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Options::command(), "bowline", &mut script);
    stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
