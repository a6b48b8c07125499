//! What the augmented loss brings at equal compute: `docs/results/paired.csv` and its table, from the runs under
//! `docs/results/paired/` and Table 1's small cells. Runs are compared where everything but the loss and the seed is the same.

use anyhow::{Context, Result, ensure};
use bowline::config::{ModelKind, Size};
use bowline::optim::OptimizerKind;
use bowline_report::RunRecord;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = "base,augmented,decay,seed,epochs,valid,test,train,kl,recipe,words,size,streams\n";

/// What runs have in common that are compared: size, recipe, words, epochs, streams, and the bits of the decay.
type Same<'a> = (Size, &'a str, u64, u64, usize, u64);

/// What is compared, tied and augmented or not: a row of numbers for each seed.
type Models = BTreeMap<(bool, bool), Vec<[f64; 4]>>;

/// One finished run.
struct Row {
    base: &'static str,
    augmented: bool,
    decay: f64,
    seed: u64,
    epochs: u64,
    /// Valid, test and training perplexity, and the mean KL of the last epoch.
    found: [f64; 4],
    recipe: &'static str,
    words: u64,
    size: Size,
    streams: usize,
}

impl Row {
    fn same(&self) -> Same<'static> {
        (self.size, self.recipe, self.words, self.epochs, self.streams, self.decay.to_bits())
    }
}

/// Writes `paired.csv` beside the evidence; returns the table for people, empty if there are no such runs.
pub fn write(results: &Path) -> Result<String> {
    let mut rows = Vec::new();
    for run in runs(results)? {
        rows.push(row(&run).with_context(|| run.display().to_string())?);
    }
    if rows.is_empty() {
        return Ok(String::new());
    }
    rows.sort_by_key(|row| (row.same(), row.base, row.augmented, row.seed));
    let mut csv = HEAD.to_owned();
    for row in &rows {
        let [valid, test, train, kl] = row.found;
        let augmented = if row.augmented { "yes" } else { "no" };
        let Row { base, decay, seed, epochs, recipe, words, streams, .. } = row;
        let size = row.size.name();
        writeln!(
            csv,
            "{base},{augmented},{decay},{seed},{epochs},{valid:.2},{test:.2},{train:.2},{kl:.4},{recipe},{words},{size},{streams}"
        )?;
    }
    let path = results.join("paired.csv");
    fs::write(&path, csv).with_context(|| format!("{}: cannot write", path.display()))?;
    table(&rows)
}

/// The runs of `paired/`, and Table 1's small cells, which begin their second trainings in pairs from the same weights.
fn runs(results: &Path) -> Result<Vec<PathBuf>> {
    let mut runs: Vec<PathBuf> = ["vd-lstm", "al", "re", "real"].map(|m| results.join(format!("ptb-small-{m}"))).into();
    let folder = results.join("paired");
    if folder.is_dir() {
        for entry in fs::read_dir(&folder).with_context(|| format!("{}: cannot read", folder.display()))? {
            runs.push(entry?.path());
        }
    }
    runs.retain(|run| run.is_dir());
    Ok(runs)
}

fn row(run: &Path) -> Result<Row> {
    let record = RunRecord::read(run)?;
    let config = record.config.network().context("this is no network")?;
    let read = |file: &str| fs::read_to_string(run.join(file)).with_context(|| format!("{file}: cannot read"));
    let summary: Value = serde_json::from_str(&read("summary.json")?)?;
    let (base, augmented) = match config.model {
        ModelKind::VdLstm => ("vd-lstm", false),
        ModelKind::Al => ("vd-lstm", true),
        ModelKind::Re => ("re", false),
        ModelKind::Real => ("re", true),
        _ => anyhow::bail!("the model is none of the paper's four"),
    };
    let number = |value: &Value| value.as_f64().context("the summary lacks a number");
    let events = read("events.jsonl")?;
    let mut last_first = events.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = last_first.find(|event| event["event"] == "epoch").context("no epoch is logged")?;
    ensure!(summary["ended"] == "done", "the run has not ended by itself");
    Ok(Row {
        base,
        augmented,
        decay: config.weight_decay,
        seed: config.seed,
        epochs: match config.second_training_epochs {
            0 => u64::from(config.epochs),
            second => u64::from(second),
        },
        found: [number(&summary["valid"])?, number(&summary["test"])?, number(&last["train"])?, number(&last["kl"])?],
        recipe: if config.optimizer.kind == OptimizerKind::Adam { "adam" } else { "sgd" },
        words: config.data.train_words as u64,
        size: config.size,
        streams: config.batch,
    })
}

/// Mean and spread over the seeds; the gain is that over the same base without the augmented loss.
fn table(rows: &[Row]) -> Result<String> {
    let mut groups: BTreeMap<Same<'_>, Models> = BTreeMap::new();
    for row in rows {
        groups.entry(row.same()).or_default().entry((row.base == "re", row.augmented)).or_default().push(row.found);
    }
    let mut out = String::from(
        "| training | model | seeds | training perplexity | valid | test | what AL brings on test | KL |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for ((size, recipe, words, epochs, streams, decay), models) in &groups {
        let text = if *words == 0 { "all of PTB".to_owned() } else { format!("{words} words of PTB") };
        let decay = f64::from_bits(*decay);
        let with = if decay == 0.0 { String::new() } else { format!(", decay {decay}") };
        for (&(tied, augmented), found) in models {
            let name = match (tied, augmented) {
                (false, false) => "VD-LSTM",
                (false, true) => "+AL",
                (true, false) => "+RE",
                (true, true) => "+REAL",
            };
            let mean = |i: usize| found.iter().map(|row| row[i]).sum::<f64>() / found.len() as f64;
            let shown = |i: usize| {
                let squares: f64 = found.iter().map(|row| (row[i] - mean(i)).powi(2)).sum();
                match found.len() {
                    1 => format!("{:.1}", mean(i)),
                    n => format!("{:.1} ± {:.1}", mean(i), (squares / (n - 1) as f64).sqrt()),
                }
            };
            let without = models.get(&(tied, false)).filter(|_| augmented);
            let gain = without.map_or_else(String::new, |rows| {
                let before = rows.iter().map(|row| row[1]).sum::<f64>() / rows.len() as f64;
                format!("{:+.1}%", 100.0 * (mean(1) / before - 1.0))
            });
            writeln!(
                out,
                "| {}, {recipe}, {epochs} epochs, {streams} streams, {text}{with} | {name} | {} | {} | {} | {} | {gain} | {:.3} |",
                size.name(),
                found.len(),
                shown(2),
                shown(0),
                shown(1),
                mean(3)
            )?;
        }
    }
    Ok(out)
}
