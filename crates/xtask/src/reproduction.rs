//! `docs/reproduction.md`: `docs/results/reproduction.template.md` with its tables, which are made from `docs/results/`.

use anyhow::{Context, Result, ensure};
use bowline::recipes::Recipe;
use bowline_report::RunRecord;
use bowline_reproduce::{self as reproduce, Experiment, Results};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Writes `table1.csv` beside the evidence, and the page.
pub fn write(root: &Path) -> Result<()> {
    let results = root.join("docs/results");
    let paired = super::paired::write(&results)?;
    let runs = records(&results)?;
    let (full, others): (Vec<RunRecord>, Vec<RunRecord>) = runs.into_iter().partition(is_a_cell);
    let found = Results { runs: full, ..Results::default() };
    let (page, machine) = reproduce::page(Experiment::Table1, &found);
    for table in &machine {
        let path = results.join(format!("{}.csv", table.name));
        fs::write(&path, table.csv()).with_context(|| format!("{}: cannot write", path.display()))?;
    }
    let systems = reproduce::machine_table(&reproduce::rows(&results, "ptb")?);
    let path = results.join("table3.csv");
    fs::write(&path, systems.csv()).with_context(|| format!("{}: cannot write", path.display()))?;
    let csv = |name: &str| {
        let path = results.join(name);
        fs::read_to_string(&path).with_context(|| format!("{}: cannot read", path.display()))
    };
    let of_page = reproduce::tables(&page).next().context("table 1 has no table")?;
    let table1 = of_page.markdown().replacen(&format!("{}\n\n", of_page.caption), "", 1);
    let table1: String = table1.lines().filter(|line| !line.contains("| not run |")).flat_map(|l| [l, "\n"]).collect();
    let tables = [
        ("{{table1}}", table1),
        ("{{paired}}", paired),
        ("{{table3}}", as_markdown(&csv("table3.csv")?)),
        ("{{begun}}", begun(&others, &csv("published-epochs.csv")?)?),
        ("{{figure1}}", points(&csv("figure1.csv")?)?),
        ("{{ideal}}", as_markdown(&csv("ideal.csv")?)),
    ];
    let mut out = csv("reproduction.template.md")?;
    for (place, table) in tables {
        ensure!(out.contains(place), "docs/results/reproduction.template.md: `{place}` is missing");
        out = out.replace(place, table.trim_end());
    }
    let path = root.join("docs/reproduction.md");
    fs::write(&path, out).with_context(|| format!("{}: cannot write", path.display()))
}

fn records(results: &Path) -> Result<Vec<RunRecord>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(results).context("docs/results: cannot read")? {
        let dir = entry?.path();
        if dir.join("summary.json").is_file() {
            records.push(RunRecord::read(&dir)?);
        }
    }
    records.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(records)
}

/// The runs of published systems that did not go to the end of their recipe, with an estimate of what that would take.
/// `published` has the validation perplexities by epoch of those who printed theirs: `run,valid,source`.
fn begun(runs: &[RunRecord], published: &str) -> Result<String> {
    let mut out = String::from(
        "| run | epochs | of | validation by epoch | published by epoch | hours for all | on |\n\
         |---|---:|---:|---|---|---:|---|\n",
    );
    for run in runs {
        let (Some(config), Some(summary)) = (run.config.network(), &run.summary) else { continue };
        let Ok(recipe) = Recipe::find(config.model.name()) else { continue };
        if recipe.about.sizes || recipe.about.published.is_empty() {
            continue;
        }
        let (all, done) = (recipe.config(None, &config.data.source)?.epochs, summary.epochs);
        if done >= all {
            continue;
        }
        let hours = run.seconds() / f64::from(done) * f64::from(all) / 3600.0;
        let threads = summary.timing.machine.split(',').next().unwrap_or_default();
        let valid: Vec<String> = run.epochs.iter().map(|epoch| format!("{:.1}", epoch.valid)).collect();
        let valid = valid.join(", ");
        let name = &run.name;
        let theirs = published.lines().find_map(|line| line.strip_prefix(name.as_str())?.strip_prefix(','));
        let theirs = theirs.map_or(String::new(), |line| line.split(',').next().unwrap_or_default().replace(' ', ", "));
        writeln!(out, "| [{name}](results/{name}/) | {done} | {all} | {valid} | {theirs} | {hours:.0} | {threads} |")?;
    }
    Ok(out)
}

/// Whether a run is one of Table 1's, by its name: trials of another recipe are evidence too, but no cells. Where a cell is
/// not as the paper says the table marks it.
fn is_a_cell(run: &RunRecord) -> bool {
    let Some(config) = run.config.network() else { return false };
    let name = format!("{}-{}-{}", config.data.source, config.size.name(), config.model.name());
    run.name == name || run.name == format!("{name}-seed{}", config.seed)
}

/// Mean and spread over the runs of every point.
fn points(csv: &str) -> Result<String> {
    let mut rows: Vec<(String, Vec<[f64; 3]>)> = Vec::new();
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [panel, beta, tau, _, distance, first, last] = fields[..] else {
            anyhow::bail!("figure1.csv: not seven fields: {line}");
        };
        let key = format!("| {panel} | {beta} | {tau} |");
        let mut found = [0.0; 3];
        for (number, text) in found.iter_mut().zip([distance, first, last]) {
            *number = text.parse().with_context(|| format!("figure1.csv: {line}"))?;
        }
        match rows.iter_mut().find(|(other, _)| *other == key) {
            Some((_, all)) => all.push(found),
            None => rows.push((key, vec![found])),
        }
    }
    let mut out = String::from(
        "| panel | beta | tau | mean distance | standard deviation | loss of the first epoch | of the last | runs |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for (key, found) in &rows {
        let n = found.len() as f64;
        let [distance, first, last] = [0, 1, 2].map(|i| found.iter().map(|run| run[i]).sum::<f64>() / n);
        let squares: f64 = found.iter().map(|run| (run[0] - distance).powi(2)).sum();
        let deviation = (squares / (n - 1.0).max(1.0)).sqrt();
        writeln!(out, "{key} {distance:.4} | {deviation:.4} | {first:.3} | {last:.3} | {n} |")?;
    }
    Ok(out)
}

fn as_markdown(csv: &str) -> String {
    let row = |line: &str| format!("| {} |\n", line.replace(',', " | "));
    let mut lines = csv.lines();
    let head = lines.next().unwrap_or_default();
    let rule = format!("|{}\n", "---:|".repeat(head.split(',').count()));
    row(head) + &rule + &lines.map(row).collect::<String>()
}
