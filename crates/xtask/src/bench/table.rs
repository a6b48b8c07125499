//! From raw lines to the table.
//!
//! A contender's speed on a case is the *median over the rounds* of what each of its calls measured, which is itself a
//! median over steps. A *ratio* is the quotient of two such speeds. Nothing else goes into a number here, so that the
//! table can be made from `raw.jsonl` at any time.

use anyhow::{Context, Result, ensure};
use bowline::wording::grouped;
use serde_json::Value;
use std::fmt::Write as _;

/// The contender that everyone is compared with.
pub(super) const OURS: &str = "bowline real";

/// A contender on a case, all rounds together.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    peer: bool,
    paper_masks: bool,
    pub(super) precision: String,
    /// Tokens per second of each round, sorted. Empty if it could not run.
    speeds: Vec<f64>,
    /// The share of the measured peak of each round, and the operations per second in 10^9, sorted. Bowline's alone.
    pub(super) shares: Vec<f64>,
    gflops: Vec<f64>,
    /// The highest of all rounds, in bytes.
    peak_memory: Option<u64>,
    skipped: Option<String>,
}

impl Row {
    pub(super) fn speed(&self) -> Option<f64> {
        median(&self.speeds)
    }

    fn shown_memory(&self) -> String {
        self.peak_memory.map_or_else(|| "not measured".to_owned(), |bytes| format!("{:.0} MB", bytes as f64 / 1e6))
    }
}

/// A size with a vocabulary and its contenders, in the order of the first round.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) size: String,
    pub(super) vocab: u64,
    rows: Vec<Row>,
}

/// The rivals of the summary: what to call them, and who is one.
type Rival = (&'static str, fn(&Row) -> bool);
const RIVALS: [Rival; 3] = [
    ("with the paper's masks, f32", |row| row.paper_masks && row.precision == "f32"),
    ("of any kind, f32", |row| row.precision == "f32"),
    ("of any kind and precision", |_| true),
];

impl Group {
    fn title(&self) -> String {
        format!("{}, {} words", self.size, thousands(self.vocab as f64))
    }

    pub(super) fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    pub(super) fn speed(&self, name: &str) -> Option<f64> {
        self.row(name)?.speed()
    }

    /// The fastest peer of a kind, with its speed.
    pub(super) fn fastest(&self, kind: fn(&Row) -> bool) -> Option<(&Row, f64)> {
        let peers = self.rows.iter().filter(|row| row.peer && kind(row));
        peers.filter_map(|row| Some((row, row.speed()?))).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Ours, and what of Bowline does the same in bf16.
    fn champions(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| {
            let bf16 = row.precision == "bf16" && row.name.starts_with(OURS) && !row.name.ends_with(", 1 thread");
            !row.peer && (row.name == OURS || bf16)
        })
    }
}

/// The text of `table.md`.
pub fn render(lines: &[Value]) -> Result<String> {
    let (run, groups) = read(lines)?;
    let mut out = String::from("# Bowline and its peers\n\n");
    let commit = run["commit"].as_str().unwrap_or("?");
    let (commit, changed) = commit.split_once(", ").unwrap_or((commit, ""));
    writeln!(
        out,
        "{}, {}; threads: {}, rounds: {}; commit {}{}{changed}.\n\nOne REAL training step (20 streams x 35 steps, exact \
         augmented loss) unless the name says otherwise. Tokens per second:\nthe median over the rounds of each call's \
         median over its steps. Made from `raw.jsonl` by `cargo xtask bench`; what is\nmeasured, and how to read this, \
         is in `bench/README.md`.\n",
        run["date"].as_str().unwrap_or("?"),
        run["cpu"].as_str().unwrap_or("?"),
        run["threads"],
        groups.iter().flat_map(|g| &g.rows).map(|row| row.speeds.len()).max().unwrap_or(0),
        commit.get(..12).unwrap_or(commit),
        if changed.is_empty() { "" } else { " " },
    )?;
    if let Some(warning) = run["warning"].as_str() {
        writeln!(out, "**WARNING: {warning}**\n")?;
    }
    summary(&mut out, &groups)?;
    for group in &groups {
        section(&mut out, group)?;
    }
    Ok(out)
}

/// All sizes at a glance: how many times as fast as the fastest peer.
fn summary(out: &mut String, groups: &[Group]) -> Result<()> {
    if !groups.iter().any(|group| group.fastest(|_| true).is_some()) {
        return Ok(());
    }
    let titles: Vec<String> = groups.iter().map(Group::title).collect();
    writeln!(out, "| Bowline against the fastest peer | {} |", titles.join(" | "))?;
    writeln!(out, "|---|{}", "---:|".repeat(groups.len()))?;
    let mut names: Vec<&str> = Vec::new();
    for row in groups.iter().flat_map(Group::champions) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    for name in names {
        for (which, kind) in RIVALS {
            // Fewer bits are compared with all peers, never with those of f32 alone.
            if name != OURS && which != RIVALS[2].0 {
                continue;
            }
            let cells = groups.iter().map(|group| {
                let ratio = group.fastest(kind).zip(group.speed(name));
                ratio.map_or("-".to_owned(), |((peer, theirs), ours)| format!("{:.2}x {}", ours / theirs, peer.name))
            });
            writeln!(out, "| {name}; peers {which} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
        }
    }
    Ok(writeln!(out)?)
}

/// One size in full.
fn section(out: &mut String, group: &Group) -> Result<()> {
    writeln!(out, "## {}\n", group.title())?;
    writeln!(
        out,
        "| contender | recurrent masks | precision | tokens/s | lowest - highest | {OURS} is | peak memory |"
    )?;
    writeln!(out, "|---|---|---|---:|---:|---:|---:|")?;
    let ours = group.speed(OURS);
    for row in &group.rows {
        let (Some(speed), Some(low), Some(high)) = (row.speed(), row.speeds.first(), row.speeds.last()) else {
            continue;
        };
        writeln!(
            out,
            "| {} | {} | {} | {} | {} - {} | {} | {} |",
            row.name,
            if row.paper_masks { "yes" } else { "no" },
            row.precision,
            thousands(speed),
            thousands(*low),
            thousands(*high),
            ours.map_or("-".to_owned(), |ours| format!("{:.2}x", ours / speed)),
            row.shown_memory(),
        )?;
    }
    writeln!(out)?;
    for (which, kind) in RIVALS {
        if let Some((peer, speed)) = group.fastest(kind) {
            let ratios = group.champions().filter_map(|row| Some(format!("{} {:.2}x", row.name, row.speed()? / speed)));
            let ratios = ratios.collect::<Vec<_>>().join(", ");
            writeln!(out, "- Fastest peer {which}: {}, {} tokens/s; {ratios}.", peer.name, thousands(speed))?;
        }
    }
    for row in group.champions() {
        if let Some((gflops, share)) = median(&row.gflops).zip(median(&row.shares)) {
            writeln!(out, "- {}: {gflops:.0} GFLOP/s, {:.1}% of the measured peak.", row.name, 100.0 * share)?;
        }
    }
    if let Some((many, one)) = ours.zip(group.speed(&format!("{OURS}, 1 thread"))) {
        writeln!(out, "- All threads are {:.2}x one thread.", many / one)?;
    }
    if let Some((real, re)) = ours.zip(group.speed("bowline re")) {
        writeln!(out, "- The augmented loss costs {:.1}% of the speed of bowline re.", 100.0 * (1.0 - real / re))?;
    }
    for row in &group.rows {
        if let Some(why) = &row.skipped {
            writeln!(out, "- Skipped: {}: {why}.", row.name, why = why.trim_end_matches('.'))?;
        }
    }
    Ok(writeln!(out)?)
}

/// The head of the run and its measurements, sorted into cases and contenders.
pub(super) fn read(lines: &[Value]) -> Result<(Value, Vec<Group>)> {
    let (mut run, mut groups) = (Value::Null, Vec::<Group>::new());
    for (i, line) in lines.iter().enumerate() {
        if line["run"].is_object() {
            run = line["run"].clone();
            continue;
        }
        let text = |key: &str| line[key].as_str().with_context(|| format!("line {}: no `{key}`", i + 1));
        let (name, size, precision) = (text("contender")?, text("size")?, text("precision")?);
        let vocab = line["vocab"].as_u64().with_context(|| format!("line {}: no `vocab`", i + 1))?;
        let group = match groups.iter().position(|group| group.size == size && group.vocab == vocab) {
            Some(at) => &mut groups[at],
            None => {
                groups.push(Group { size: size.to_owned(), vocab, rows: Vec::new() });
                let last = groups.len() - 1;
                &mut groups[last]
            }
        };
        let row = match group.rows.iter().position(|row| row.name == name) {
            Some(at) => &mut group.rows[at],
            None => {
                let peer = line["peer"].is_string();
                group.rows.push(Row {
                    name: name.to_owned(),
                    peer,
                    paper_masks: !peer || line["paper_masks"] == true,
                    precision: precision.to_owned(),
                    speeds: Vec::new(),
                    shares: Vec::new(),
                    gflops: Vec::new(),
                    peak_memory: None,
                    skipped: None,
                });
                let last = group.rows.len() - 1;
                &mut group.rows[last]
            }
        };
        row.speeds.extend(line["tokens_per_second"].as_f64());
        row.shares.extend(line["share_of_peak"].as_f64());
        row.gflops.extend(line["gflops"].as_f64());
        row.peak_memory = row.peak_memory.max(line["peak_memory_bytes"].as_u64());
        if let Some(why) = line["skipped"].as_str() {
            row.skipped = Some(why.to_owned());
        }
    }
    ensure!(!groups.is_empty(), "there is no measurement in it");
    for row in groups.iter_mut().flat_map(|group| &mut group.rows) {
        [&mut row.speeds, &mut row.shares, &mut row.gflops].into_iter().for_each(|v| v.sort_by(f64::total_cmp));
    }
    Ok((run, groups))
}

/// Of sorted values: the one in the middle, or the mean of the two.
pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

/// Rounded, with a comma before every third digit: `12,345`.
pub(super) fn thousands(value: f64) -> String {
    grouped(value.round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bowline(name: &str, speed: f64) -> Value {
        let precision = if name.contains("bf16") { "bf16" } else { "f32" };
        json!({"contender": name, "size": "small", "vocab": 10_000, "precision": precision,
            "tokens_per_second": speed, "share_of_peak": speed / 10_000.0, "gflops": speed / 100.0,
            "peak_memory_bytes": 120_000_000})
    }

    fn peer(name: &str, masks: bool, precision: &str, speed: f64) -> Value {
        json!({"contender": name, "peer": name, "size": "small", "vocab": 10_000, "precision": precision,
            "paper_masks": masks, "tokens_per_second": speed})
    }

    fn lines() -> Vec<Value> {
        vec![
            json!({"run": {"date": "2025-01-02", "cpu": "A CPU", "threads": 2, "warning": null,
                "commit": "0123456789abcdef, with changes"}}),
            bowline("bowline real", 6000.0),
            bowline("bowline real", 5000.0),
            bowline("bowline real", 9000.0),
            bowline("bowline re", 7500.0),
            bowline("bowline real, 1 thread", 3000.0),
            peer("jax-vd", true, "f32", 3000.0),
            peer("jax-vd", true, "f32", 5000.0),
            peer("torch-vd", true, "f32", 2500.0),
            peer("torch-lstm", false, "f32", 4800.0),
            peer("torch-lstm-bf16", false, "bf16", 8000.0),
            json!({"contender": "torch-vd-bf16", "peer": "torch-vd-bf16", "size": "small", "vocab": 10_000,
                "precision": "bf16", "skipped": "no bf16."}),
        ]
    }

    #[test]
    fn medians_and_ratios_are_what_they_say() {
        let table = render(&lines()).unwrap();
        for wanted in [
            "2025-01-02, A CPU; threads: 2, rounds: 3; commit 0123456789ab with changes.\n",
            "| Bowline against the fastest peer | small, 10,000 words |\n|---|---:|\n",
            "| bowline real; peers with the paper's masks, f32 | 1.50x jax-vd |\n",
            "| bowline real; peers of any kind, f32 | 1.25x torch-lstm |\n",
            "| bowline real; peers of any kind and precision | 0.75x torch-lstm-bf16 |\n",
            "| bowline real | yes | f32 | 6,000 | 5,000 - 9,000 | 1.00x | 120 MB |\n",
            "| jax-vd | yes | f32 | 4,000 | 3,000 - 5,000 | 1.50x | not measured |\n",
            "| torch-lstm | no | f32 | 4,800 | 4,800 - 4,800 | 1.25x | not measured |\n",
            "- Fastest peer of any kind and precision: torch-lstm-bf16, 8,000 tokens/s; bowline real 0.75x.\n",
            "- bowline real: 60 GFLOP/s, 60.0% of the measured peak.\n",
            "- All threads are 2.00x one thread.\n",
            "- The augmented loss costs 20.0% of the speed of bowline re.\n",
            "- Skipped: torch-vd-bf16: no bf16.\n",
        ] {
            assert!(table.contains(wanted), "{wanted}\n{table}");
        }
        assert!(!table.contains("WARNING") && !table.contains("| torch-vd-bf16 "), "{table}");
    }

    #[test]
    fn bf16_is_compared_with_all_peers() {
        let mut lines = lines();
        lines.push(bowline("bowline real, precision=bf16", 12_000.0));
        lines[0]["run"]["warning"] = "the machine was not quiet".into();
        let table = render(&lines).unwrap();
        let wanted = "| bowline real, precision=bf16; peers of any kind and precision | 1.50x torch-lstm-bf16 |\n";
        assert!(table.contains(wanted), "{table}");
        assert_eq!(table.matches("| bowline real, precision=bf16; peers").count(), 1, "{table}");
        assert!(table.contains("; bowline real 0.75x, bowline real, precision=bf16 1.50x.\n"), "{table}");
        assert!(table.contains("**WARNING: the machine was not quiet**"), "{table}");
    }

    #[test]
    fn without_peers_there_is_no_comparison() {
        let table = render(&lines()[..5]).unwrap();
        assert!(!table.contains("against") && table.contains("- The augmented loss costs 20.0%"), "{table}");
        assert_eq!(render(&lines()[..1]).unwrap_err().to_string(), "there is no measurement in it");
        let wrong = render(&[json!({"contender": "x"})]).unwrap_err().to_string();
        assert_eq!(wrong, "line 1: no `size`");
    }

    #[test]
    fn vocabularies_are_kept_apart() {
        let mut lines = lines();
        let mut other = bowline("bowline real", 2000.0);
        other["vocab"] = 33_278.into();
        lines.push(other);
        let table = render(&lines).unwrap();
        assert!(table.contains("## small, 33,278 words\n") && table.contains("| 1.50x jax-vd | - |\n"), "{table}");
    }
}
