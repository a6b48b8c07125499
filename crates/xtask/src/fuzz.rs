//! `cargo xtask fuzz`: throws mutated inputs at every reader, and says what came of it.

use crate::{root, say};
use anyhow::{Context, Result, bail, ensure};
use bowline_fuzz::{TARGETS, Target, campaign, target};
use std::time::Instant;

const USAGE: &str = "usage: cargo xtask fuzz [--cases N] [--from N] [TARGET...] | --write-seeds";

/// Runs the campaign: `--cases` mutations of each target, or of those that are named.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut cases, mut from, mut targets) = (100_000, 0, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || -> Result<u64> { Ok(rest.next().context(USAGE)?.replace('_', "").parse()?) };
        match argument.as_str() {
            "--cases" => cases = number()?,
            "--from" => from = number()?,
            "--write-seeds" => return write_seeds(),
            name => targets.push(target(name).with_context(|| format!("there is no target `{name}`\n{USAGE}"))?),
        }
    }
    if targets.is_empty() {
        targets = TARGETS.iter().collect();
    }
    // What panics is caught, counted and told at the end.
    std::panic::set_hook(Box::new(|_| {}));
    let failed: usize = targets.iter().map(|target| one(target, from..from + cases)).sum::<Result<usize>>()?;
    ensure!(failed == 0, "{failed} inputs were not read as they should be; they are in fuzz/artifacts/");
    Ok(())
}

fn one(target: &Target, numbers: std::ops::Range<u64>) -> Result<usize> {
    let begin = Instant::now();
    let outcome = campaign::run(target, numbers);
    say(&format!(
        "{:<13} {:>9} inputs in {:>5.0} s, slowest {:>6.1} ms, most memory {:>6.1} MB, {} failures",
        target.name,
        outcome.inputs,
        begin.elapsed().as_secs_f64(),
        outcome.slowest.as_secs_f64() * 1e3,
        outcome.most_bytes as f64 / 1e6,
        outcome.failures.len()
    ))?;
    let folder = root().join("fuzz/artifacts").join(target.name);
    for (name, input, what) in &outcome.failures {
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(name.replace(' ', "-"));
        std::fs::write(&path, input)?;
        say(&format!("  {}: {what}", path.display()))?;
    }
    Ok(outcome.failures.len())
}

/// Writes the seeds where libFuzzer looks for them.
fn write_seeds() -> Result<()> {
    for target in &TARGETS {
        let folder = root().join("fuzz/seeds").join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (i, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(folder.join(format!("{i:02}")), seed)?;
        }
    }
    say("the seeds are in fuzz/seeds/")
}

/// `cargo xtask faults`: every file call of every command that writes fails once, and is killed once.
pub fn faults(arguments: &[String]) -> Result<()> {
    let command = match arguments {
        [] => None,
        [command] => Some(command),
        _ => bail!("usage: cargo xtask faults [COMMAND]"),
    };
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "-p", "bowline-cli", "--test", "faults", "--", "--nocapture"]).current_dir(root());
    cargo.env("BOWLINE_FAULTS", "all");
    if let Some(command) = command {
        cargo.env("BOWLINE_FAULTS_OF", command);
    }
    ensure!(cargo.status()?.success(), "a fault did damage; see above");
    Ok(())
}
