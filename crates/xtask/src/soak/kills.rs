//! Commands that are killed at any instant, and then recover to the same result.

use super::{Dice, bowline, write_corpus};
use crate::say;
use anyhow::{Context, Result, ensure};
use bowline::storage::tensor_file::sha256;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A command that may be killed.
struct Trial {
    name: &'static str,
    /// What is done before it.
    before: &'static [&'static [&'static str]],
    command: &'static [&'static str],
    /// What brings it to its end; the command itself where that is none.
    recover: Option<&'static [&'static str]>,
    /// The file that must be the same in the end.
    result: &'static str,
}

const SMALL: [&str; 12] = [
    "--threads",
    "1",
    "--set",
    "hidden=24",
    "--set",
    "batch=4",
    "--set",
    "unroll=8",
    "--set",
    "checkpoint.every_seconds=0.005",
    "--data",
    "corpus",
];

const FIRST: &[&str] = &["train", "SMALL", "--epochs", "3", "--out", "first"];
const RESUME: Option<&[&str]> = Some(&["resume", "--threads", "1", "run"]);
const TUNE: &[&str] = &["eval", "--threads", "1", "--tune", "--cache", "--data", "corpus", "first"];

const TRIALS: [Trial; 5] = [
    Trial {
        name: "train",
        before: &[],
        command: &["train", "SMALL", "--epochs", "6", "--out", "run"],
        recover: RESUME,
        result: "run/best/model.safetensors",
    },
    Trial {
        name: "train, two trainings",
        before: &[],
        command: &["train", "SMALL", "--epochs", "3", "--second-training", "--out", "run"],
        recover: RESUME,
        result: "run/summary.json",
    },
    Trial {
        name: "kn",
        before: &[],
        command: &["train", "--model", "kn", "--data", "corpus", "--out", "run"],
        recover: RESUME,
        result: "run/best/model.safetensors",
    },
    Trial {
        name: "branch",
        before: &[FIRST],
        command: &["branch", "--threads", "1", "--set", "epochs=6", "--out", "run", "first"],
        recover: RESUME,
        result: "run/summary.json",
    },
    Trial { name: "tune", before: &[FIRST], command: TUNE, recover: None, result: "first/best/tuned.json" },
];

/// Kills `times` times in all, the commands in turn.
pub fn run(program: &Path, place: &Path, times: u64) -> Result<()> {
    let (mut dice, mut resumed) = (Dice(7), 0);
    let begin = Instant::now();
    for (number, trial) in TRIALS.iter().enumerate() {
        let folder = place.join(format!("kills-{number}"));
        write_corpus(&folder.join("corpus"))?;
        let whole = Instant::now();
        trial.prepare(program, &folder)?;
        let preparing = whole.elapsed();
        trial.finish(program, &folder)?;
        let (expected, usual) = (trial.result(&folder)?, (whole.elapsed() - preparing).as_secs_f64());
        let share = times / TRIALS.len() as u64 + u64::from((number as u64) < times % TRIALS.len() as u64);
        for i in 0..share {
            trial.prepare(program, &folder)?;
            resumed += u64::from(trial.kill(program, &folder, dice.unit() * usual)?);
            trial.recover(program, &folder)?;
            let found = trial.result(&folder)?;
            ensure!(
                found == expected,
                "{}: kill {i} led to another result:\n{found}\ninstead of\n{expected}",
                trial.name
            );
        }
        say(&format!("{:<21} {share:>4} times killed, {share:>4} times the same result", trial.name))?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    say(&format!("{times} kills in {seconds:.0} s, {resumed} of them before the command was done"))
}

impl Trial {
    fn command(&self, program: &Path, folder: &Path, arguments: &[&str]) -> Command {
        let all: Vec<&str> = arguments
            .iter()
            .flat_map(|argument| if *argument == "SMALL" { SMALL.to_vec() } else { vec![*argument] })
            .collect();
        let mut command = bowline(program, &all);
        command.current_dir(folder);
        command
    }

    /// Clears the folder and does what comes before.
    fn prepare(&self, program: &Path, folder: &Path) -> Result<()> {
        for name in ["run", "first"] {
            if folder.join(name).exists() {
                std::fs::remove_dir_all(folder.join(name))?;
            }
        }
        for arguments in self.before {
            let status = self.command(program, folder, arguments).status()?;
            ensure!(status.success(), "{}: `bowline {}` failed", self.name, arguments.join(" "));
        }
        Ok(())
    }

    /// Does it without a disturbance.
    fn finish(&self, program: &Path, folder: &Path) -> Result<()> {
        let status = self.command(program, folder, self.command).status()?;
        ensure!(status.success(), "{}: `bowline {}` failed", self.name, self.command.join(" "));
        Ok(())
    }

    /// Starts it and kills it after some seconds; false if it was done by then.
    fn kill(&self, program: &Path, folder: &Path, seconds: f64) -> Result<bool> {
        let mut child = self.command(program, folder, self.command).spawn()?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let running = child.try_wait()?.is_none();
        child.kill()?;
        child.wait()?;
        Ok(running)
    }

    /// Brings it to its end.
    fn recover(&self, program: &Path, folder: &Path) -> Result<()> {
        let begun = folder.join("run/config.toml").exists();
        match self.recover.filter(|_| begun) {
            None => self.finish(program, folder),
            Some(arguments) => {
                let output = self.command(program, folder, arguments).stderr(std::process::Stdio::piped()).output()?;
                let said = String::from_utf8_lossy(&output.stderr);
                ensure!(output.status.success(), "{}: `bowline {}` failed: {said}", self.name, arguments.join(" "));
                Ok(())
            }
        }
    }

    /// What must be the same each time: the hash of the file, or its JSON but for how long things took.
    fn result(&self, folder: &Path) -> Result<String> {
        let bytes = std::fs::read(folder.join(self.result)).with_context(|| format!("{}: no result", self.name))?;
        if !self.result.ends_with(".json") {
            return Ok(sha256(&bytes));
        }
        let mut json: Value = serde_json::from_slice(&bytes)?;
        if let Some(json) = json.as_object_mut() {
            json.remove("timing");
        }
        Ok(json.to_string())
    }
}
