//! The README's table of speeds, made from the runs that were kept: the newest whole one of each kind of CPU, and where that has no
//! bf16, the newest that has.

use super::table::{self, Group, OURS, Row, median, thousands};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// What the table stands between.
const BEGIN: &str = "<!-- speed: made by `cargo xtask bench --readme` -->\n";
const END: &str = "<!-- end of speed -->\n";

/// The sizes of the columns, at the vocabulary of the Penn Treebank.
const SIZES: [&str; 3] = ["small", "medium", "large"];
const VOCAB: u64 = 10_000;

const BF16: &str = "bowline real, precision=bf16";

/// A run with all sizes and at least one peer at each.
struct Run {
    folder: String,
    date: String,
    cpu: String,
    /// The instruction set of [`OURS`].
    isa: String,
    groups: Vec<Group>,
}

impl Run {
    fn group(&self, size: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.size == size && group.vocab == VOCAB)
    }

    fn has_bf16(&self) -> bool {
        self.groups.iter().any(|group| group.row(BF16).is_some())
    }

    /// What is in the columns of one row.
    fn cells(&self, cell: impl Fn(&Group) -> Option<String>) -> String {
        SIZES.map(|size| self.group(size).and_then(&cell).unwrap_or_else(|| "-".to_owned())).join(" | ")
    }
}

/// Puts the table into the README.
pub fn renew() -> Result<()> {
    let path = crate::root().join("README.md");
    let text = fs::read_to_string(&path).with_context(|| format!("{}: cannot read", path.display()))?;
    let (head, rest) = text.split_once(BEGIN).with_context(|| format!("{}: no line {BEGIN}", path.display()))?;
    let (_, tail) = rest.split_once(END).with_context(|| format!("{}: no line {END}", path.display()))?;
    let table = render(&newest()?)?;
    fs::write(&path, [head, BEGIN, "\n", &table, "\n", END, tail].concat())
        .with_context(|| format!("{}: cannot write", path.display()))
}

/// The newest whole run of each kind of CPU, newest first.
fn newest() -> Result<Vec<Run>> {
    let folder = crate::root().join("bench/runs");
    let mut folders: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("{}: cannot read", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    // Curves of perplexity by the minute (`cargo xtask time-to-perplexity`) are kept there, too.
    folders.retain(|folder| folder.join("raw.jsonl").is_file());
    folders.sort();
    let mut runs: Vec<Run> = Vec::new();
    for folder in folders.iter().rev() {
        let run = read(folder)?;
        let whole = SIZES.iter().all(|size| {
            run.group(size).is_some_and(|group| group.row(OURS).is_some() && group.fastest(|_| true).is_some())
        });
        let mut newer = runs.iter().filter(|other| (&other.cpu, &other.isa) == (&run.cpu, &run.isa)).peekable();
        if whole && (newer.peek().is_none() || run.has_bf16() && !newer.any(Run::has_bf16)) {
            runs.push(run);
        }
    }
    ensure!(!runs.is_empty(), "{}: no run has all sizes and a peer", folder.display());
    Ok(runs)
}

fn read(folder: &std::path::Path) -> Result<Run> {
    let raw = folder.join("raw.jsonl");
    let lines = super::read_lines(&raw)?;
    let isa = lines.iter().find(|line| line["contender"] == OURS).and_then(|line| line["isa"].as_str());
    let isa = isa.unwrap_or("?").trim_end_matches("+fma").to_owned();
    let (run, groups) = table::read(&lines).with_context(|| raw.display().to_string())?;
    let text = |key: &str| run[key].as_str().unwrap_or("?").to_owned();
    let folder = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Run { folder, date: text("date"), cpu: text("cpu"), isa, groups })
}

fn render(runs: &[Run]) -> Result<String> {
    let mut out = String::from("| words/s, two threads | small | medium | large |\n|---|---:|---:|---:|\n");
    for (i, run) in runs.iter().enumerate() {
        let Run { folder, date, cpu, isa, .. } = run;
        let only_bf16 = runs[..i].iter().any(|newer| (&newer.cpu, &newer.isa) == (cpu, isa));
        let what = if only_bf16 { ", bf16" } else { "" };
        writeln!(out, "| **{cpu}, {isa}{what}** ([{date}](bench/runs/{folder}/table.md)) | | | |")?;
        if !only_bf16 {
            writeln!(out, "| Bowline, f32 (share of the peak) | {} |", run.cells(|group| ours(group.row(OURS)?)))?;
            let peers = run.cells(|group| rival(group, OURS, |row| row.precision == "f32"));
            writeln!(out, "| fastest f32 peer | {peers} |")?;
        }
        if run.has_bf16() {
            writeln!(out, "| Bowline, bf16 | {} |", run.cells(|group| ours(group.row(BF16)?)))?;
            writeln!(
                out,
                "| fastest bf16 peer | {} |",
                run.cells(|group| rival(group, BF16, |row| row.precision == "bf16"))
            )?;
        }
    }
    Ok(out)
}

fn ours(row: &Row) -> Option<String> {
    Some(format!("{} ({:.0}%)", thousands(row.speed()?), 100.0 * median(&row.shares)?))
}

/// The fastest peer of a kind, and how many times as fast we are.
fn rival(group: &Group, ours: &str, kind: fn(&Row) -> bool) -> Option<String> {
    let ((peer, theirs), ours) = group.fastest(kind).zip(group.speed(ours))?;
    Some(format!("{} {}, **{:.2}x**", peer.name, thousands(theirs), ours / theirs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_names_the_machine_the_peer_and_the_ratio() {
        let line = |contender: &str, precision: &str, speed: f64| {
            let mut line = json!({"contender": contender, "size": "small", "vocab": VOCAB, "precision": precision,
                "tokens_per_second": speed, "share_of_peak": 0.5});
            if !contender.starts_with("bowline") {
                line["peer"] = contender.into();
            }
            line
        };
        let lines = [
            json!({"run": {"date": "2025-01-02", "cpu": "A CPU"}}),
            line(OURS, "f32", 9000.0),
            line(BF16, "bf16", 16_000.0),
            line("jax-vd", "f32", 6000.0),
            line("torch-lstm-bf16", "bf16", 8000.0),
        ];
        let (run, groups) = table::read(&lines).unwrap();
        let text = |key: &str| run[key].as_str().unwrap().to_owned();
        let run = Run { folder: "x".into(), date: text("date"), cpu: text("cpu"), isa: "avx512".into(), groups };
        let table = render(&[run]).unwrap();
        for wanted in [
            "| **A CPU, avx512** ([2025-01-02](bench/runs/x/table.md)) | | | |\n",
            "| Bowline, f32 (share of the peak) | 9,000 (50%) | - | - |\n",
            "| fastest f32 peer | jax-vd 6,000, **1.50x** | - | - |\n",
            "| fastest bf16 peer | torch-lstm-bf16 8,000, **2.00x** | - | - |\n",
        ] {
            assert!(table.contains(wanted), "{table}");
        }
    }
}
