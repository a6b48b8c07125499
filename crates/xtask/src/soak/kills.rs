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
    /// Whether that is killed as well, which is the kill that counts.
    twice: bool,
    /// The files that must be the same in the end.
    results: &'static [&'static str],
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
const TRAIN: &[&str] = &["train", "SMALL", "--epochs", "6", "--out", "run"];
const RESUME: Option<&[&str]> = Some(&["resume", "--threads", "1", "run"]);
const TUNE: &[&str] = &["eval", "--threads", "1", "--tune", "--cache", "--data", "corpus", "first"];
const REPRODUCE: &[&str] = &["reproduce", "table1", "SMALL", "--models", "vd-lstm,al", "--epochs", "3", "--out", "run"];

/// What follows for all of them.
const USUAL: Trial = Trial {
    name: "train",
    before: &[],
    command: TRAIN,
    recover: RESUME,
    twice: false,
    results: &["run/best/model.safetensors", "run/summary.json"],
};

const TRIALS: [Trial; 8] = [
    USUAL,
    Trial { name: "resume", twice: true, ..USUAL },
    Trial {
        name: "train, two trainings",
        command: &["train", "SMALL", "--epochs", "3", "--second-training", "--out", "run"],
        ..USUAL
    },
    Trial {
        name: "train, with predictor",
        command: &["train", "SMALL", "--epochs", "3", "--set", "finish.predictor=true", "--out", "run"],
        results: &["run/best/model.safetensors", "run/best/predictor.json", "run/best/ngrams/model.safetensors"],
        ..USUAL
    },
    Trial {
        name: "kn",
        command: &["train", "--model", "kn", "--threads", "1", "--data", "corpus", "--out", "run"],
        ..USUAL
    },
    Trial {
        name: "branch",
        before: &[FIRST],
        command: &["branch", "--threads", "1", "--set", "epochs=6", "--out", "run", "first"],
        ..USUAL
    },
    Trial {
        name: "tune",
        before: &[FIRST],
        command: TUNE,
        recover: None,
        results: &["first/best/tuned.json"],
        ..USUAL
    },
    Trial {
        name: "reproduce",
        command: REPRODUCE,
        recover: None,
        results: &[
            "run/corpus-small-vd-lstm/best/model.safetensors",
            "run/corpus-small-al/best/model.safetensors",
            "run/table1-report/table1.csv",
        ],
        ..USUAL
    },
];

/// Kills `times` times in all, the commands in turn.
pub fn run(program: &Path, place: &Path, times: u64) -> Result<()> {
    let (mut dice, mut early) = (Dice(7), 0);
    let begin = Instant::now();
    for (number, trial) in TRIALS.iter().enumerate() {
        let folder = place.join(format!("kills-{number}"));
        write_corpus(&folder.join("corpus"))?;
        for arguments in trial.before {
            trial.finish(program, &folder, arguments)?;
        }
        let kept = folder.join("kept");
        copy_folder(&folder.join("first"), &kept)?;
        let whole = Instant::now();
        trial.finish(program, &folder, trial.command)?;
        let (expected, usual) = (trial.result(&folder)?, whole.elapsed().as_secs_f64());
        let share = times / TRIALS.len() as u64 + u64::from((number as u64) < times % TRIALS.len() as u64);
        let mut before_its_end = 0;
        for i in 0..share {
            for name in ["run", "first"] {
                remove_folder(&folder.join(name))?;
            }
            copy_folder(&kept, &folder.join("first"))?;
            let mut killed = trial.kill(program, &folder, trial.command, dice.unit() * usual)?;
            if let Some(recover) = trial.recover.filter(|_| trial.twice) {
                killed = trial.kill(program, &folder, recover, dice.unit() * usual)?;
            }
            before_its_end += u64::from(killed);
            trial.recover(program, &folder)?;
            let found = trial.result(&folder)?;
            let name = trial.name;
            ensure!(found == expected, "{name}: kill {i} led to another result:\n{found}\ninstead of\n{expected}");
        }
        say(&format!(
            "{:<21} {share:>4} times killed, {before_its_end:>4} of them before its end, {share:>4} times the same result",
            trial.name
        ))?;
        early += before_its_end;
    }
    let seconds = begin.elapsed().as_secs_f64();
    say(&format!("{times} kills in {seconds:.0} s, {early} of them before the command was done"))
}

fn remove_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// Copies a folder with all that is in it, if there is one.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
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

    /// Does something without a disturbance.
    fn finish(&self, program: &Path, folder: &Path, arguments: &[&str]) -> Result<()> {
        let output = self.command(program, folder, arguments).stderr(std::process::Stdio::piped()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: `bowline {}` failed: {said}", self.name, arguments.join(" "));
        Ok(())
    }

    /// Starts something and kills it after some seconds; false if it was done by then.
    fn kill(&self, program: &Path, folder: &Path, arguments: &[&str], seconds: f64) -> Result<bool> {
        let mut child = self.command(program, folder, arguments).spawn()?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let running = child.try_wait()?.is_none();
        child.kill()?;
        child.wait()?;
        Ok(running)
    }

    /// Brings it to its end.
    fn recover(&self, program: &Path, folder: &Path) -> Result<()> {
        let begun = folder.join("run/config.toml").exists();
        self.finish(program, folder, self.recover.filter(|_| begun).unwrap_or(self.command))
    }

    /// What must be the same each time: the hashes of the files, or their JSON but for how long things took.
    fn result(&self, folder: &Path) -> Result<String> {
        let file = |name: &&str| {
            let bytes = std::fs::read(folder.join(name)).with_context(|| format!("{}: no {name}", self.name))?;
            if !name.ends_with(".json") {
                return Ok(sha256(&bytes));
            }
            let mut json: Value = serde_json::from_slice(&bytes)?;
            if let Some(json) = json.as_object_mut() {
                json.remove("timing");
            }
            Ok(json.to_string())
        };
        Ok(self.results.iter().map(file).collect::<Result<Vec<_>>>()?.join("\n"))
    }
}
