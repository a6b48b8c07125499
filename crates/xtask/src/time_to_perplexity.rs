//! `cargo xtask time-to-perplexity`: what Bowline and PyTorch make of a text in the same time on the same cores.
//!
//! Bowline trains with `--budget`; `bench/train_peers.py` trains the recipes that a user of PyTorch would take. One after the
//! other, alone on the machine. What came out goes to `curves.csv` and `chart.svg` in a folder of `bench/runs/`. Hours may be too long
//! at a stretch: with `--only NAME` one of them runs, and those that are in the folder already stay there.

use crate::bench::child;
use crate::bench::machine::{self, Machine, Quiet};
use crate::bench::program;
use crate::{root, say};
use anyhow::{Context, Result, bail, ensure};
use bowline_report::{Axis, Chart, Point, Series};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The recipes that `bench/train_peers.py` knows, with their names for people.
const PEERS: [(&str, &str); 3] = [
    ("torch-200", "PyTorch example, 2x200"),
    ("torch-650", "PyTorch example, 2x650"),
    ("torch-awd", "AWD-LSTM in PyTorch"),
];

/// Bowline's two curves.
const ALONE: &str = "Bowline, the network alone";
const WHOLE: &str = "Bowline, everything on";

const USAGE: &str = "usage: cargo xtask time-to-perplexity --data DIR --minutes N [--python PYTHON] [--threads N] [--out DIR] \
                     [--only bowline|torch-200|torch-650|torch-awd]";

struct Options {
    data: PathBuf,
    minutes: f64,
    python: PathBuf,
    threads: usize,
    out: Option<PathBuf>,
    /// The only one to run.
    only: Option<String>,
}

impl Options {
    fn runs(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == name)
    }
}

fn options(arguments: &[String]) -> Result<Options> {
    let (mut data, mut minutes, mut python, mut out, mut only) = (None, None, PathBuf::from("python3"), None, None);
    let mut threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let value = rest.next().with_context(|| format!("{option} needs a value\n{USAGE}"))?;
        match option.as_str() {
            "--data" => data = Some(PathBuf::from(value)),
            "--minutes" => {
                minutes = Some(value.parse::<f64>().with_context(|| format!("--minutes {value}: no number"))?)
            }
            "--python" => python = PathBuf::from(value),
            "--threads" => threads = value.parse().with_context(|| format!("--threads {value}: no number"))?,
            "--out" => out = Some(PathBuf::from(value)),
            "--only" => {
                let known = value == "bowline" || PEERS.iter().any(|(name, _)| name == value);
                ensure!(known, "--only {value}: there is no such contender\n{USAGE}");
                only = Some(value.clone());
            }
            _ => bail!("{option}: there is no such option\n{USAGE}"),
        }
    }
    let (data, minutes) = (data.context(USAGE)?, minutes.context(USAGE)?);
    ensure!(minutes.is_finite() && minutes > 0.0, "--minutes {minutes}: it must be above 0");
    ensure!(data.is_dir(), "{}: there is no such folder\n{USAGE}", data.display());
    Ok(Options { data, minutes, python, threads, out, only })
}

/// Validation perplexities over time, and the result.
#[derive(Clone, Debug, PartialEq)]
struct Curve {
    name: String,
    /// Minutes and perplexities.
    valid: Vec<(f64, f64)>,
    test: f64,
    minutes: f64,
}

pub fn run(arguments: &[String]) -> Result<()> {
    let options = options(arguments)?;
    let (load, machine) = (machine::load_average(), Machine::describe());
    let bowline = program()?;
    let quiet = Quiet { load, busy: machine::busy(Duration::from_secs(2)) };
    if let Some(warning) = quiet.warning() {
        say(&format!("*** WARNING: {warning}"))?;
    }
    let name = format!("{}-{}-{}-minutes", machine.date, machine.slug(), options.minutes);
    let out = options.out.clone().unwrap_or_else(|| root().join("bench/runs").join(name));
    std::fs::create_dir_all(&out).with_context(|| format!("{}: cannot create", out.display()))?;
    let file = out.join("curves.csv");
    let before = match std::fs::read_to_string(&file) {
        Ok(text) if options.only.is_some() => read(&text).with_context(|| file.display().to_string())?,
        _ => Vec::new(),
    };
    let kept = |name: &str| before.iter().filter(|curve| curve.name == name).cloned().collect::<Vec<Curve>>();
    let mut curves = if options.runs("bowline") {
        of_bowline(&bowline, &options, &out)?
    } else {
        [kept(ALONE), kept(WHOLE)].concat()
    };
    let mut versions = HashMap::new();
    for (peer, title) in PEERS {
        if !options.runs(peer) {
            curves.extend(kept(title));
            continue;
        }
        say(&format!("{title}, {} minutes", options.minutes))?;
        curves.push(of_peer(peer, title, &options, &mut versions)?);
    }
    let write = |file: &str, text: &str| {
        std::fs::write(out.join(file), text).with_context(|| format!("{}: cannot write", out.join(file).display()))
    };
    write("machine.txt", &machine.text(&quiet, machine::load_average(), &versions))?;
    write("curves.csv", &csv(&curves))?;
    write("chart.svg", &chart(&curves, &options).svg())?;
    for curve in &curves {
        say(&format!("{:<34} test {:>8.2} after {:.1} minutes", curve.name, curve.test, curve.minutes))?;
    }
    say(&format!("kept in {}", out.display()))
}

/// Bowline's run: the network alone, and with everything on.
fn of_bowline(program: &Path, options: &Options, out: &Path) -> Result<Vec<Curve>> {
    let (seconds, run) = (60.0 * options.minutes, out.join("run"));
    if run.exists() {
        std::fs::remove_dir_all(&run).with_context(|| format!("{}: cannot remove", run.display()))?;
    }
    say(&format!("bowline train --budget, {} minutes", options.minutes))?;
    let begin = Instant::now();
    let mut command = Command::new(program);
    command.args(["train", "--budget", &format!("{seconds}s"), "--threads", &options.threads.to_string(), "--data"]);
    command.arg(&options.data).arg("--out").arg(&run);
    let ended = child::run(&mut command, Duration::from_secs_f64(2.0 * seconds + 600.0))?;
    ensure!(ended.success, "bowline failed: {}", ended.last_words());
    let minutes = begin.elapsed().as_secs_f64() / 60.0;
    let read = |file: &str| {
        let path = run.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("{}: cannot read", path.display()))
    };
    let (mut valid, mut spent) = (Vec::new(), 0.0);
    for event in read("events.jsonl")?.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if event["event"] == "epoch" {
            spent += event["seconds"].as_f64().unwrap_or(0.0) / 60.0;
            valid.push((spent, event["valid"].as_f64().unwrap_or(f64::NAN)));
        }
    }
    let summary: Value = serde_json::from_str(&read("summary.json")?)?;
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let full = &summary["predictor"]["full"];
    let alone = Curve { name: ALONE.to_owned(), valid, test: number(&summary["test"]), minutes };
    let with = vec![(minutes, number(&full[0]))];
    let whole = Curve { name: WHOLE.to_owned(), valid: with, test: number(&full[1]), minutes };
    Ok(vec![alone, whole])
}

fn of_peer(peer: &str, title: &str, options: &Options, versions: &mut HashMap<String, String>) -> Result<Curve> {
    let seconds = 60.0 * options.minutes;
    let mut command = Command::new(&options.python);
    command.arg(root().join("bench/train_peers.py")).arg(peer).arg(&options.data);
    command.args([seconds.to_string(), options.threads.to_string(), "1".to_owned()]);
    let ended = child::run(&mut command, Duration::from_secs_f64(2.0 * seconds + 1800.0))?;
    ensure!(ended.success, "{peer} failed: {}", ended.last_words());
    let mut curve = Curve { name: title.to_owned(), valid: Vec::new(), test: f64::NAN, minutes: 0.0 };
    for line in ended.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        curve.minutes = line["seconds"].as_f64().unwrap_or(f64::NAN) / 60.0;
        match line["test"].as_f64() {
            Some(test) => curve.test = test,
            None => curve.valid.push((curve.minutes, line["valid"].as_f64().unwrap_or(f64::NAN))),
        }
        if let Some(version) = line["torch"].as_str() {
            versions.insert("torch".to_owned(), version.to_owned());
        }
    }
    Ok(curve)
}

fn csv(curves: &[Curve]) -> String {
    let mut text = "name,minutes,valid,test\n".to_owned();
    for curve in curves {
        for (minutes, valid) in &curve.valid {
            let _ = writeln!(text, "\"{}\",{minutes:.3},{valid:.3},", curve.name);
        }
        let _ = writeln!(text, "\"{}\",{:.3},,{:.3}", curve.name, curve.minutes, curve.test);
    }
    text
}

/// The curves that `csv` wrote.
fn read(text: &str) -> Result<Vec<Curve>> {
    let mut curves: Vec<Curve> = Vec::new();
    for line in text.lines().skip(1) {
        let (name, rest) = line.strip_prefix('"').and_then(|line| line.split_once("\",")).context("no name")?;
        let fields: Vec<&str> = rest.split(',').collect();
        let [minutes, valid, test] = fields[..] else { bail!("not four fields: {line}") };
        let number = |text: &str| text.parse::<f64>().with_context(|| format!("no number: {line}"));
        if curves.last().is_none_or(|curve| curve.name != name) {
            curves.push(Curve { name: name.to_owned(), valid: Vec::new(), test: f64::NAN, minutes: 0.0 });
        }
        let Some(curve) = curves.last_mut() else { continue };
        curve.minutes = number(minutes)?;
        if valid.is_empty() {
            curve.test = number(test)?;
        } else {
            curve.valid.push((curve.minutes, number(valid)?));
        }
    }
    Ok(curves)
}

fn chart(curves: &[Curve], options: &Options) -> Chart {
    let series = |(look, curve): (usize, &Curve)| {
        let points = curve.valid.iter().map(|&(minutes, valid)| Point::new(minutes, valid));
        Series::line(format!("{} (test {:.1})", curve.name, curve.test), points).look(look)
    };
    Chart {
        name: "chart".to_owned(),
        title: format!("Perplexity on validation in {} minutes", options.minutes),
        description: format!("Validation perplexity against minutes on {} threads of one machine.", options.threads),
        x: Axis::linear("minutes"),
        y: Axis::log("perplexity on validation"),
        series: curves.iter().enumerate().map(series).collect(),
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let of = |line: &str| options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert!(of("--data . --minutes 10").is_ok_and(|o| o.minutes == 10.0 && o.out.is_none()));
        for (line, problem) in [
            ("--data .", "usage"),
            ("--data . --minutes", "needs a value"),
            ("--data . --minutes -1", "above 0"),
            ("--data nowhere --minutes 1", "no such folder"),
            ("--hours 3", "no such option"),
            ("--data . --minutes 1 --only jax", "no such contender"),
        ] {
            let message = of(line).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(problem), "{line}: {message}");
        }
    }

    #[test]
    fn curves_become_rows_and_lines() {
        let curves =
            [Curve { name: "one, two".to_owned(), valid: vec![(1.0, 200.0), (2.0, 150.0)], test: 140.0, minutes: 2.5 }];
        assert_eq!(
            csv(&curves),
            "name,minutes,valid,test\n\"one, two\",1.000,200.000,\n\"one, two\",2.000,150.000,\n\"one, two\",2.500,,140.000\n"
        );
        assert_eq!(read(&csv(&curves)).unwrap(), curves);
        let options = options(&["--data", ".", "--minutes", "2.5"].map(str::to_owned)).unwrap();
        assert!(chart(&curves, &options).svg().contains("one, two (test 140.0)"));
    }
}
