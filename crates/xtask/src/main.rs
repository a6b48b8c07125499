//! Chores of the repository, run as `cargo xtask <chore>`.
//!
//! ```text
//! cargo xtask results RUN... FILE.csv...    keep the evidence of finished runs under docs/results/ and renew its pages
//! cargo xtask bench             Bowline and its peers side by side, into bench/runs/
//! ```

mod bench;
mod reproduction;
mod results;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((chore, rest)) if chore == "results" => results::run(rest),
        Some((chore, rest)) if chore == "bench" => bench::run(rest),
        _ => bail!("usage: cargo xtask results RUN... | cargo xtask bench [--help]"),
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").components().collect()
}
