//! Who is measured, and how one measurement is made.

use super::child;
use super::machine;
use super::options::{BenchOptions, Case};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The peers that `bench/peers.py` knows.
pub const PEERS: [&str; 9] = [
    "jax-vd",
    "torch-vd",
    "torch-vd-compile",
    "torch-vd-bf16",
    "torch-vd-compile-bf16",
    "torch-lstm",
    "torch-lstm-compile",
    "torch-lstm-bf16",
    "torch-lstm-compile-bf16",
];

/// One of Bowline's models, with changed settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    name: String,
    settings: Vec<String>,
}

impl Model {
    pub fn plain(name: &str) -> Model {
        Model { name: name.to_owned(), settings: Vec::new() }
    }

    /// From `real` or `real+KEY=VALUE+KEY=VALUE`, where `isa=avx2` asks for an instruction set. The program itself checks the
    /// names.
    pub fn parse(text: &str) -> Result<Model> {
        let mut parts = text.split('+').map(str::to_owned);
        let name = parts.next().unwrap_or_default();
        let settings: Vec<String> = parts.collect();
        if let Some(wrong) = settings.iter().find(|setting| !setting.contains('=')) {
            bail!("--models: `{wrong}` in `{text}` is no KEY=VALUE");
        }
        Ok(Model { name, settings })
    }
}

/// Who is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    Bowline { model: Model, threads: usize, alone: bool },
    Peer(&'static str),
}

/// The contenders in the order of a round: Bowline first in odd rounds; the other way round in even ones.
pub fn in_turn(options: &BenchOptions, round: usize) -> Vec<Contender> {
    let bowline = |model: &Model, threads, alone| Contender::Bowline { model: model.clone(), threads, alone };
    let mut all: Vec<Contender> = options.models.iter().map(|model| bowline(model, options.threads, false)).collect();
    if let Some(real) = options.models.iter().find(|model| **model == Model::plain("real") && options.threads > 1) {
        all.push(bowline(real, 1, true));
    }
    all.extend(options.peers.iter().map(|name| Contender::Peer(name)));
    if round.is_multiple_of(2) {
        all.reverse();
    }
    all
}

impl Contender {
    /// Its name in the table.
    pub fn name(&self) -> String {
        match self {
            Contender::Peer(name) => (*name).to_owned(),
            Contender::Bowline { model, alone, .. } => {
                let mut name = format!("bowline {}", model.name);
                model.settings.iter().for_each(|setting| name.push_str(&format!(", {setting}")));
                if *alone { name + ", 1 thread" } else { name }
            }
        }
    }

    fn precision(&self) -> &'static str {
        let bf16 = match self {
            Contender::Peer(name) => name.ends_with("-bf16"),
            Contender::Bowline { model, .. } => {
                model.settings.iter().any(|s| s.trim_end_matches('"').ends_with("bf16"))
            }
        };
        if bf16 { "bf16" } else { "f32" }
    }

    /// Runs it once. The result is what it printed, with the name, the round and the peak memory; or, for a peer that
    /// cannot run here, why not. That Bowline cannot run is an error.
    pub fn measure(&self, tools: &Tools, case: &Case, options: &BenchOptions, round: usize) -> Result<Value> {
        let steps = options.steps.unwrap_or_else(|| case.default_steps());
        let mut record = match (self, self.run(tools, case, options, steps)) {
            (_, Ok(record)) => record,
            (Contender::Bowline { .. }, Err(error)) => return Err(error.context(self.name())),
            (Contender::Peer(name), Err(error)) => json!({
                "peer": name, "size": case.size, "vocab": case.vocab, "threads": options.threads,
                "skipped": format!("{error:#}"),
            }),
        };
        record["contender"] = self.name().into();
        record["round"] = round.into();
        record["precision"] = self.precision().into();
        Ok(record)
    }

    fn run(&self, tools: &Tools, case: &Case, options: &BenchOptions, steps: usize) -> Result<Value> {
        let mut command = match self {
            Contender::Bowline { model, threads, .. } => {
                let mut command = Command::new(&tools.bowline);
                command.args(["bench", "--json", "--model", &model.name, "--threads", &threads.to_string()]);
                for setting in &model.settings {
                    // The instruction set is the process's, not a setting of the model.
                    match setting.strip_prefix("isa=") {
                        Some(isa) => command.args(["--isa", isa]),
                        None => command.args(["--set", setting]),
                    };
                }
                command
            }
            Contender::Peer(name) => {
                // Without the instructions it is emulated, many times slower than f32, and says nothing about anyone.
                ensure!(
                    self.precision() != "bf16" || machine::has_bf16(),
                    "this CPU has no instructions for bf16 products (avx512_bf16 or amx_bf16)"
                );
                let mut command = Command::new(&tools.python);
                command.arg(&tools.peers).args([name, "--threads", &options.threads.to_string()]);
                command
            }
        };
        command.args(["--size", &case.size, "--vocab", &case.vocab.to_string(), "--steps", &steps.to_string()]);
        let ended = child::run(&mut command, super::LIMIT)?;
        match self {
            _ if ended.success => {}
            Contender::Bowline { .. } => bail!("{}", ended.stderr.trim()),
            Contender::Peer(_) => bail!("{}", ended.last_words()),
        }
        let mut record: Value = serde_json::from_str(ended.stdout.trim()).context("what it printed is no JSON")?;
        ensure!(
            record["tokens_per_second"].as_f64().is_some_and(|speed| speed > 0.0),
            "it printed no tokens_per_second"
        );
        record["peak_memory_bytes"] = ended.peak_memory.into();
        Ok(record)
    }
}

/// What is run.
pub struct Tools {
    bowline: PathBuf,
    python: PathBuf,
    peers: PathBuf,
}

impl Tools {
    /// Builds the program once.
    pub fn build(options: &BenchOptions) -> Result<Tools> {
        let peers = crate::root().join("bench/peers.py");
        Ok(Tools { bowline: program()?, python: options.python.clone(), peers })
    }
}

/// The program, built as it is released.
pub fn program() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--package", "bowline-cli", "--bin", "bowline", "--message-format", "json"])
        .current_dir(crate::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo build --release failed; see above");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "bowline")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo build did not say where the program is")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str, round: usize) -> Vec<String> {
        let options = BenchOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).unwrap();
        in_turn(&options, round).iter().map(Contender::name).collect()
    }

    #[test]
    fn bowline_is_first_in_odd_rounds_and_last_in_even_ones() {
        let first = ["bowline real", "bowline re", "bowline real, 1 thread", "jax-vd", "torch-vd"];
        let mut last = first;
        last.reverse();
        for (round, wanted) in [(1, first), (2, last), (3, first)] {
            assert_eq!(names("--peers jax-vd,torch-vd", round), wanted);
        }
        assert_eq!(names("--skip-peers --threads 1", 1), ["bowline real", "bowline re"]);
    }

    #[test]
    fn settings_are_part_of_a_name_and_tell_the_precision() {
        let of = |text: &str| Contender::Bowline { model: Model::parse(text).unwrap(), threads: 2, alone: false };
        assert_eq!(
            of("real+augment.form=gram+precision=bf16").name(),
            "bowline real, augment.form=gram, precision=bf16"
        );
        assert_eq!((of("real+precision=bf16").precision(), of("real").precision()), ("bf16", "f32"));
        assert_eq!(
            (Contender::Peer("torch-lstm-bf16").precision(), Contender::Peer("jax-vd").precision()),
            ("bf16", "f32")
        );
    }
}
