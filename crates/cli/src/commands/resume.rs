//! `bowline resume`: continues a run.

use super::train::report;
use crate::interrupt::Interrupt;
use crate::options::ResumeOptions;
use crate::terminal::Terminal;
use anyhow::bail;
use bowline::budget::{self, Budget};
use bowline::run::{self, Session};
use bowline_interop::tensorboard::TensorBoard;
use bowline_kernels::Isa;
use std::process::ExitCode;

pub fn run(options: &ResumeOptions) -> anyhow::Result<ExitCode> {
    let session = Session { threads: options.threads.get(), isa: Isa::detect() };
    let mut terminal = Terminal::new(Interrupt::listen(), "");
    let mut watch = TensorBoard::beside(&mut terminal, &options.run, options.tensorboard);
    let outcome = match options.budget {
        None => run::resume(&options.run, session, &mut watch)?,
        Some(Budget::Seconds(seconds)) => budget::resume(&options.run, seconds, session, &mut watch)?,
        Some(Budget::Auto) => bail!("`--budget auto`: a run that is under way needs a time\n  try: 30m, 2h and so on"),
    };
    report(&options.run, outcome, options.json)
}
