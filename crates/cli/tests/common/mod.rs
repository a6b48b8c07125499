//! What the tests of the program share: a small corpus, the program itself, and what a run leaves behind.

// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Random numbers that are the same each time (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    /// Uniform in 0 .. 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0 .. n.
    pub fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }
}

/// Lines of made-up words, the frequent ones much more frequent than the others.
pub fn text(seed: u64, lines: usize, words: usize) -> String {
    let mut dice = Dice(seed);
    let mut text = String::new();
    for _ in 0..lines {
        for i in 0..3 + dice.below(7) {
            let word = (words as f64 * dice.unit().powf(2.5)) as usize;
            text += &format!("{}{}", if i > 0 { " " } else { "" }, name(word));
        }
        text.push('\n');
    }
    text
}

/// Word number `i`, spelled with letters only.
fn name(i: usize) -> String {
    let syllables = ["ba", "do", "fi", "gu", "ka", "lo", "mi", "nu"];
    format!("{}{}{}", syllables[i % 8], syllables[i / 8 % 8], syllables[i / 64 % 8])
}

/// Writes a corpus of three files: some 3,500 training words, 300 of them different.
pub fn write_corpus(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    for (split, seed, lines) in [("train", 1, 500), ("valid", 2, 60), ("test", 3, 60)] {
        fs::write(dir.join(format!("{split}.txt")), text(seed, lines, 300)).unwrap();
    }
}

/// A temporary folder with a corpus in `corpus/`, and room for runs.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        write_corpus(&dir.path().join("corpus"));
        Place { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `bowline train` on the corpus, with one thread and a network small enough to be done in a moment.
    pub fn train(&self, out: &str) -> Command {
        self.train_with(1, out)
    }

    /// The same with several threads.
    pub fn train_with(&self, threads: usize, out: &str) -> Command {
        // All words are kept, so that the vocabulary is that of the text.
        let mut command =
            bowline(["train", "--threads", &threads.to_string(), "--min-count", "1", "--set", "hidden=24"]);
        command.args(["--set", "batch=4", "--set", "unroll=8", "--data"]).arg(self.path("corpus"));
        command.arg("--out").arg(self.path(out));
        command
    }

    /// `bowline resume`, with one thread.
    pub fn resume(&self, run: &str) -> Command {
        self.resume_with(1, run)
    }

    /// The same with several threads.
    pub fn resume_with(&self, threads: usize, run: &str) -> Command {
        let mut command = bowline(["resume", "--threads", &threads.to_string()]);
        command.arg(self.path(run));
        command
    }

    /// A run of one epoch, done, for tests that need a model.
    pub fn trained(&self, out: &str) -> PathBuf {
        finish(self.train(out).args(["--epochs", "1"])).success();
        self.path(out)
    }

    /// Checks that a command fails with exactly this message and says nothing else. [`Place::plain`] says how paths and
    /// hashes are written; without advice there is no second line.
    #[track_caller]
    pub fn check_refusal(&self, command: &mut Command, problem: &str, advice: &str) {
        let ended = finish(command);
        self.check_error(&ended, problem, advice);
        assert!(ended.stderr.starts_with("bowline: "), "something was said before: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }

    /// The same for a command that may have said other things before.
    #[track_caller]
    pub fn check_error(&self, ended: &Ended, problem: &str, advice: &str) {
        let advice = if advice.is_empty() { String::new() } else { format!("\n  try: {advice}") };
        assert_eq!(self.plain(ended.error()), format!("{problem}{advice}"));
    }

    /// Text with this folder's path as `DIR` and every SHA-256 as `SHA256`.
    pub fn plain(&self, text: &str) -> String {
        let mut out = String::new();
        let text = text.replace(self.dir.path().to_str().unwrap(), "DIR");
        let mut digits = String::new();
        for c in text.chars().chain(['\0']) {
            if c.is_ascii_hexdigit() {
                digits.push(c);
                continue;
            }
            out += if digits.len() == 64 { "SHA256" } else { &digits };
            digits.clear();
            out.push(c);
        }
        out.pop();
        out
    }
}

/// The program.
pub fn bowline<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(args).stdin(Stdio::null()).env("RUST_BACKTRACE", "0");
    command
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn of(output: Output) -> Ended {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let ended = Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        ended
    }

    #[track_caller]
    pub fn success(self) -> Ended {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// The one JSON object on standard output.
    #[track_caller]
    pub fn json(self) -> Value {
        let ended = self.success();
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    }

    /// What follows `bowline: ` on standard error, to the end.
    #[track_caller]
    pub fn error(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        let start = if self.stderr.starts_with("bowline: ") { 0 } else { self.stderr.find("\nbowline: ").unwrap() + 1 };
        self.stderr[start + "bowline: ".len()..].trim_end()
    }
}

/// Runs a program to its end.
pub fn finish(command: &mut Command) -> Ended {
    Ended::of(command.output().unwrap())
}

/// SHA-256 of a file.
pub fn sha256(path: &Path) -> String {
    Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All that a finished run must have in common with another one of the same settings.
#[derive(Debug, PartialEq)]
pub struct Result {
    /// SHA-256 of `best/model.safetensors`.
    pub weights: String,
    /// `summary.json` but for `timing`.
    pub metrics: Value,
    /// `events.jsonl` but for `resume` lines and what depends on time and machine.
    pub events: Vec<Value>,
}

pub fn result(run: &Path) -> Result {
    let mut metrics: Value = serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
    assert!(metrics.as_object_mut().unwrap().remove("timing").is_some());
    let mut events = events(run);
    events.retain(|event| event["event"] != "resume");
    for event in &mut events {
        for field in ["time", "words_per_second", "eta_seconds", "seconds", "machine"] {
            event.as_object_mut().unwrap().remove(field);
        }
    }
    Result { weights: sha256(&run.join("best/model.safetensors")), metrics, events }
}

/// The lines of a run's log; each must be whole.
pub fn events(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("events.jsonl")).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// Copies a folder with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every file below a folder with its contents, by name.
pub fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_type().unwrap().is_dir() {
            files.extend(snapshot(&entry.path()));
        } else {
            files.push((entry.path(), fs::read(entry.path()).unwrap()));
        }
    }
    files.sort();
    files
}

/// Changes a file.
pub fn change(path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    how(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Changes a text file.
#[track_caller]
pub fn replace(path: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(old), "{} has no `{old}`", path.display());
    fs::write(path, text.replacen(old, new, 1)).unwrap();
}
