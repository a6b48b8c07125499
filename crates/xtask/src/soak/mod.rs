//! `cargo xtask soak`: kills runs and has them recover, and serves good and bad clients for a long time.

mod clients;
mod kills;
mod server;

use crate::root;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const USAGE: &str = "usage: cargo xtask soak [--kills N] [--seconds N] [--program FILE]";

/// Kills `--kills` times (20), then serves for `--seconds` (60). With 0 of one of them there is the other alone. Without a
/// `--program` one is built for release.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut times, mut seconds, mut program) = (20, 60, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().context(USAGE)?;
        match argument.as_str() {
            "--kills" => times = value.parse()?,
            "--seconds" => seconds = value.parse()?,
            "--program" => program = Some(std::path::absolute(value)?),
            _ => anyhow::bail!(USAGE),
        }
    }
    let program = program.map_or_else(build, Ok)?;
    let place = tempdir()?;
    let outcome = (|| {
        if times > 0 {
            kills::run(&program, &place, times)?;
        }
        if seconds > 0 {
            server::run(&program, &place, seconds)?;
        }
        Ok(())
    })();
    std::fs::remove_dir_all(&place).context("the temporary folder cannot be removed")?;
    outcome
}

fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--release", "-p", "bowline-cli"]).current_dir(root()).status()?;
    ensure!(built.success(), "the program cannot be built");
    Ok(root().join("target/release/bowline"))
}

fn tempdir() -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("bowline-soak-{}", std::process::id()));
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// The program with some arguments, silent.
fn bowline(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Random numbers that follow from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A small corpus of made-up words.
fn write_corpus(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let syllables = ["ba", "do", "fi", "gu", "ka", "lo", "mi", "nu"];
    for (name, seed, lines) in [("train", 1, 500), ("valid", 2, 60), ("test", 3, 60)] {
        let mut dice = Dice(seed);
        let mut text = String::new();
        for _ in 0..lines {
            for _ in 0..3 + (7.0 * dice.unit()) as usize {
                let word = (300.0 * dice.unit().powf(2.5)) as usize;
                text += &[syllables[word % 8], syllables[word / 8 % 8], syllables[word / 64 % 8], " "].concat();
            }
            text.push('\n');
        }
        std::fs::write(folder.join(format!("{name}.txt")), text)?;
    }
    Ok(())
}
