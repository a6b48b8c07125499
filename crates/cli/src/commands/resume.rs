//! `bowline resume`: continues a run.

use super::train::{code, report};
use crate::interrupt::Interrupt;
use crate::options::ResumeOptions;
use crate::ranks::{Silent, require_one};
use crate::terminal::Terminal;
use anyhow::bail;
use bowline::budget::{self, Budget};
use bowline::run::ranks::Ranks;
use bowline::run::{self, Session};
use bowline_interop::tensorboard::TensorBoard;
use bowline_kernels::Isa;
use std::process::ExitCode;

pub fn run(options: &ResumeOptions, ranks: &dyn Ranks) -> anyhow::Result<ExitCode> {
    let session = Session { threads: options.threads.get(), isa: Isa::detect() };
    if options.budget.is_some() {
        require_one(ranks, "a plan for a time (`--budget`)", "`bowline resume` without it")?;
    }
    if !ranks.leads() {
        let mut watch = Silent(Interrupt::listen_silently());
        return Ok(code(&run::resume_among(&options.run, session, ranks, &mut watch)?));
    }
    let mut terminal = Terminal::new(Interrupt::listen(), "");
    let mut watch = TensorBoard::beside(&mut terminal, &options.run, options.tensorboard);
    let outcome = match options.budget {
        None => run::resume_among(&options.run, session, ranks, &mut watch)?,
        Some(Budget::Seconds(seconds)) => budget::resume(&options.run, seconds, session, &mut watch)?,
        Some(Budget::Auto) => bail!("`--budget auto`: a run that is under way needs a time\n  try: 30m, 2h and so on"),
    };
    report(&options.run, outcome, options.json)
}
