//! `bowline branch`: continue from another run's checkpoint in a new run, with other settings.

use super::train::report;
use crate::interrupt::Interrupt;
use crate::options::BranchOptions;
use crate::terminal::Terminal;
use bowline::run::{self, Session};
use bowline_kernels::Isa;
use std::process::ExitCode;

pub fn run(options: &BranchOptions) -> anyhow::Result<ExitCode> {
    run::branch(&options.run, &options.out, &options.settings)?;
    let session = Session { threads: options.threads.get(), isa: Isa::detect() };
    let mut terminal = Terminal::new(Interrupt::listen(), "");
    let outcome = run::resume(&options.out, session, &mut terminal)?;
    report(&options.out, outcome, options.json)
}
