//! The command line among other processes: rank 0 speaks for all, the others are silent.

use crate::interrupt::Interrupt;
use crate::terminal::note;
use anyhow::bail;
use bowline::event::{Event, Progress};
use bowline::run::Watch;
use bowline::run::ranks::Ranks;
use bowline::{Error, run};
use bowline_kernels::Isa;
use bowline_mpi::Processes;
use std::process::ExitCode;

/// A rank that only listens whether to stop.
pub struct Silent(pub Interrupt);

impl Watch for Silent {
    fn event(&mut self, _: &Event) {}
    fn progress(&mut self, _: &Progress) {}
    fn notice(&mut self, _: &str) {}
    fn stop(&self) -> bool {
        self.0.asked()
    }
}

/// What this process has made, if all could; else what one of them could not.
pub fn all<T>(ranks: &dyn Ranks, made: anyhow::Result<T>) -> anyhow::Result<T> {
    if ranks.size() > 1 {
        run::all_can(ranks, made.as_ref().map(|_| ()).map_err(|error| error.to_string()))?;
    }
    made
}

/// Refuses what is only made for one process.
pub fn require_one(ranks: &dyn Ranks, what: &str, advice: &str) -> anyhow::Result<()> {
    if ranks.size() > 1 {
        bail!(Error::ranks(format!("{what} is for one process, and there are {}", ranks.size()), advice));
    }
    Ok(())
}

/// Makes one instruction set that of all ranks.
pub fn choose_isa(ranks: &dyn Ranks, asked: &str) -> anyhow::Result<()> {
    let isa: Isa = run::common_isa(ranks, (asked != "auto").then_some(asked))?;
    isa.choose();
    Ok(())
}

/// Says what is wrong: once where all ranks know it; otherwise this rank does, and ends the others, who would wait for it.
pub fn failed(processes: &Processes, error: &anyhow::Error) -> ExitCode {
    let ranks = processes.ranks();
    let shared = matches!(error.downcast_ref(), Some(Error::Ranks { .. } | Error::Diverged { .. }));
    match (ranks.size(), shared) {
        (1, _) => note(format_args!("bowline: {error}")),
        (_, true) if ranks.leads() => note(format_args!("bowline: {error}")),
        (_, true) => {}
        (_, false) => {
            note(format_args!("bowline: rank {}: {error}", ranks.rank()));
            processes.abort();
        }
    }
    ExitCode::FAILURE
}
