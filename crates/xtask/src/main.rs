//! Chores of the repository, run as `cargo xtask <chore>`.
//!
//! ```text
//! cargo xtask results RUN... FILE.csv...    keep the evidence of finished runs under docs/results/ and renew its pages
//! cargo xtask bench             Bowline and its peers side by side, into bench/runs/
//! cargo xtask time-to-perplexity --data DIR --minutes N  what Bowline and PyTorch make of a text in the same time
//! cargo xtask spills            check that the kernels' inner loops stay in registers
//! cargo xtask fuzz [--cases N] [TARGET...]  throw mutated inputs at every reader
//! cargo xtask faults            let every file call of every command fail once, and be killed once
//! cargo xtask soak [--kills N] [--seconds N]  kill and resume; serve good and bad clients
//! cargo xtask large make DIR | run PROGRAM ...  a made text of 100 million words; the memory of a run
//! cargo xtask miri [TEST...]    the kernels under Miri, where there is a nightly toolchain
//! cargo xtask python            build the Python package and test it in a virtual environment
//! cargo xtask mpi [--kills N]   train by several processes with a real MPI, kill some, and resume
//! cargo xtask dist [--into DIR] the program with completions, manual and service file, as an archive or installed
//! cargo xtask notices           check the licences of all crates and write THIRD-PARTY.md
//! cargo xtask check             all that `.ci/run` checks besides the tests
//! ```

mod bench;
mod dist;
mod fuzz;
mod large;
mod miri;
mod mpi;
mod notices;
mod paired;
mod python;
mod reproduction;
mod results;
mod soak;
mod spills;
mod time_to_perplexity;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((chore, rest)) if chore == "results" => results::run(rest),
        Some((chore, rest)) if chore == "bench" => bench::run(rest),
        Some((chore, rest)) if chore == "time-to-perplexity" => time_to_perplexity::run(rest),
        Some((chore, rest)) if chore == "spills" => spills::run(rest),
        Some((chore, rest)) if chore == "fuzz" => fuzz::run(rest),
        Some((chore, rest)) if chore == "faults" => fuzz::faults(rest),
        Some((chore, rest)) if chore == "soak" => soak::run(rest),
        Some((chore, rest)) if chore == "large" => large::run(rest),
        Some((chore, rest)) if chore == "miri" => miri::run(rest),
        Some((chore, [])) if chore == "notices" => notices::run(),
        Some((chore, rest)) if chore == "dist" => dist::run(rest),
        Some((chore, [])) if chore == "python" => python::run(),
        Some((chore, rest)) if chore == "mpi" => mpi::run(rest),
        Some((chore, [])) if chore == "check" => check(),
        _ => bail!(
            "usage: cargo xtask results RUN... | bench [--help] | time-to-perplexity | spills [FILE] | fuzz | faults | soak | large | miri | python | mpi | dist | notices | check"
        ),
    }
}

/// Formatting, lints, and the kernels' loops.
fn check() -> Result<()> {
    for arguments in [
        &["fmt", "--all", "--check"][..],
        &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
    ] {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = std::process::Command::new(cargo).args(arguments).current_dir(root()).status()?;
        anyhow::ensure!(status.success(), "cargo {} failed; see above", arguments[0]);
    }
    spills::run(&[])
}

/// A line of what a chore has to say.
fn say(text: &str) -> Result<()> {
    print(&format!("{text}\n"))
}

/// What a chore has to say.
fn print(text: &str) -> Result<()> {
    use std::io::Write;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").components().collect()
}
