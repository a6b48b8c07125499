//! `cargo xtask results`: keeps the evidence of finished runs and renews the table that is made from it.
//!
//! Of a run's folder its `config.toml`, `summary.json` and a thinned `events.jsonl` go to `docs/results/NAME/`, where NAME
//! is the folder's own name; after `--paired`, to `docs/results/paired/NAME/`. Weights stay where they are. A table that `bowline reproduce`
//! wrote (`figure1.csv`), or the result of a system that is joined from others (`NAME.json`), is copied.
//! `docs/results/README.md`, `table1.csv` and `docs/reproduction.md` are written anew from all that is there.

use anyhow::{Context, Result, ensure};
use bowline::budget::Budget;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub fn run(runs: &[String]) -> Result<()> {
    let results = super::root().join("docs/results");
    let mut folder = results.clone();
    for run in runs {
        let path = Path::new(run);
        match path.extension() {
            _ if run == "--paired" => folder = results.join("paired"),
            Some(extension) if extension == "csv" || extension == "json" => keep_table(path, &results)?,
            _ => keep(path, &folder)?,
        }
    }
    fs::write(results.join("budget.csv"), budgets(&results)?).context("docs/results/budget.csv: cannot write")?;
    let table = table(&results)?;
    fs::write(results.join("README.md"), table).context("docs/results/README.md: cannot write")?;
    super::reproduction::write(&super::root())
}

/// Copies a table that an experiment wrote for machines.
fn keep_table(csv: &Path, results: &Path) -> Result<()> {
    let name = csv.file_name().with_context(|| format!("{}: is no file", csv.display()))?;
    fs::copy(csv, results.join(name)).with_context(|| format!("{}: cannot copy", csv.display()))?;
    Ok(())
}

/// Copies what is small and enough.
fn keep(run: &Path, results: &Path) -> Result<()> {
    let name = run.file_name().with_context(|| format!("{}: is no folder of a run", run.display()))?;
    let read = |file: &str| {
        let path = run.join(file);
        fs::read_to_string(&path).with_context(|| format!("{}: cannot read; is the run over?", path.display()))
    };
    let (config, summary, events) = (read("config.toml")?, read("summary.json")?, read("events.jsonl")?);
    let source = serde_json::from_str::<Value>(&summary)?["data"].as_str().unwrap_or_default().to_owned();
    let to = results.join(name);
    fs::create_dir_all(&to).with_context(|| format!("{}: cannot create", to.display()))?;
    for (file, text) in [("config.toml", config), ("summary.json", summary), ("events.jsonl", thin(&events)?)] {
        fs::write(to.join(file), named(&text, &source)).with_context(|| format!("{}: cannot write", to.display()))?;
    }
    Ok(())
}

/// A public corpus has its name in the evidence, wherever its folder lay.
fn named(text: &str, source: &str) -> String {
    match bowline::data::recognise(Path::new(source)) {
        Some(corpus) => text.replace(&format!("\"{source}\""), &format!("\"{}\"", corpus.name)),
        None => text.to_owned(),
    }
}

/// All events but progress, of which one in five stays.
fn thin(events: &str) -> Result<String> {
    let (mut out, mut progress) = (String::new(), 0);
    for (i, line) in events.lines().enumerate() {
        let event: Value = serde_json::from_str(line).with_context(|| format!("events.jsonl:{}", i + 1))?;
        if event["event"] == "progress" {
            progress += 1;
            if progress % 5 != 0 {
                continue;
            }
        }
        writeln!(out, "{line}")?;
    }
    Ok(out)
}

/// One row for each run of `train --budget` that is kept as `budget-DATA-TIME`.
fn budgets(results: &Path) -> Result<String> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(results).context("docs/results: cannot read")? {
        let dir = entry?.path();
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((data, time)) = name.strip_prefix("budget-").and_then(|rest| rest.rsplit_once('-')) else { continue };
        let minutes = time.parse::<Budget>().with_context(|| format!("docs/results/{name}"))?.seconds(0) / 60.0;
        let path = dir.join("summary.json");
        let text = fs::read_to_string(&path).with_context(|| format!("{}: cannot read", path.display()))?;
        let summary: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let number = |value: &Value| value.as_f64().map_or_else(String::new, |x| format!("{x:.2}"));
        let full = &summary["predictor"]["full"];
        let perplexities = [&summary["valid"], &summary["test"], &full[0], &full[1]].map(number).join(",");
        let machine = summary["timing"]["machine"].as_str().unwrap_or_default();
        let row =
            format!("{data},{minutes},{perplexities},{},{},\"{machine}\"\n", summary["parameters"], summary["epochs"]);
        rows.push((data.to_owned(), minutes, row));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let head = "data,budget_minutes,static_valid,static_test,full_valid,full_test,parameters,epochs,machine\n";
    Ok(rows.into_iter().fold(head.to_owned(), |text, (_, _, row)| text + &row))
}

/// One row for each run that is kept.
fn table(results: &Path) -> Result<String> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(results).context("docs/results: cannot read")? {
        let dir = entry?.path();
        let path = dir.join("summary.json");
        if path.is_file() {
            let text = fs::read_to_string(&path)?;
            let summary: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
            ensure!(summary["curve"].is_array(), "{}: no curve", path.display());
            rows.push((dir.file_name().unwrap_or_default().to_string_lossy().into_owned(), summary));
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = String::from(
        "# Results\n\nThe evidence of real runs: settings, summary and thinned events, one folder a run. This page is made from \
         them by\n`cargo xtask results`. Perplexities of the last columns are of the kept model, one stream, state carried; \
         the validation\nperplexities by epoch are those of training (ten streams).\n\n",
    );
    out.push_str("| run | data | size | model | seed | epochs | validation by epoch | valid | test |\n");
    out.push_str("|---|---|---|---|---:|---:|---|---:|---:|\n");
    for (name, s) in &rows {
        let curve: Vec<f64> =
            s["curve"].as_array().into_iter().flatten().filter_map(|point| point["valid"].as_f64()).collect();
        let shown: Vec<String> = match curve.len() {
            0..=6 => curve.iter().map(|v| format!("{v:.1}")).collect(),
            n => [0, 1, 2, 4, 9, 19, 29, 39, 49, n - 1]
                .iter()
                .filter(|&&i| i < n)
                .map(|&i| format!("{}: {:.1}", i + 1, curve[i]))
                .collect(),
        };
        let text = |key: &str| s[key].as_str().unwrap_or("?").to_owned();
        let number = |value: &Value| value.as_f64().map_or("?".to_owned(), |v| format!("{v:.2}"));
        writeln!(
            out,
            "| [{name}]({name}/) | {} | {} | {} | {} | {} | {} | {} | {} |",
            text("data"),
            text("size"),
            text("model"),
            s["seed"],
            s["epochs"],
            shown.join(", "),
            number(&s["valid"]),
            number(&s["test"])
        )?;
    }
    Ok(out)
}
