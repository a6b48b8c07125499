//! `bowline runs`: the runs in a folder as a table.

use super::{print_json, printable};
use crate::terminal::duration;
use crate::terminal::width::{self, fit};
use bowline::Error;
use bowline_serve::{Run, Runs};
use clap::Args;
use serde_json::json;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct RunsOptions {
    /// The folder that holds the runs, or a run itself
    #[arg(default_value = "runs", value_name = "DIR")]
    pub dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &RunsOptions) -> anyhow::Result<ExitCode> {
    let mut runs = Runs::new(options.dir.clone());
    runs.look().map_err(Error::io(&options.dir, "read the folder"))?;
    let all = runs.all();
    if options.json {
        print_json(&json!({"dir": options.dir, "runs": all}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    if all.is_empty() {
        let dir = options.dir.display();
        writeln!(out, "no runs in {dir}; `bowline train --data TEXT --out {dir}/NAME` starts one")?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; 9]> = all.iter().map(|run| row(run)).collect();
    let header = ["run", "state", "model", "epoch", "valid", "test", "full", "words/s", "left"].map(str::to_owned);
    let in_full = all.iter().any(|run| run.full.is_some());
    let widest = |column: usize| rows.iter().chain([&header]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(widest).collect();
    // A narrow terminal goes without these, in this order.
    let ranks = [0, 1, 4, 3, 1, 2, 2, 6, 5];
    for row in std::iter::once(&header).chain(&rows) {
        let cell = |i: usize| match i {
            0..=2 => format!("{:<1$}", row[i], widths[i]),
            _ => format!("{:>1$}", row[i], widths[i]),
        };
        let shown = (0..row.len()).filter(|&i| i != 6 || in_full);
        let fields: Vec<(u8, String)> = shown.map(|i| (ranks[i], cell(i))).collect();
        writeln!(out, "{}", fit(&fields, width::of_stdout().unwrap_or(usize::MAX)).trim_end())?;
    }
    if in_full {
        writeln!(out, "full: test perplexity with n-grams, cache and dynamic evaluation")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(run: &Run) -> [String; 9] {
    let best = run.curve.iter().map(|point| point[2]).reduce(f64::min);
    let valid = run.result.map(|result| result[0]).or(best);
    let going = run.state == "running";
    let done = run.curve.last().map_or(0.0, |point| point[0]);
    [
        printable(&run.name),
        run.state.to_owned(),
        run.model.clone(),
        format!("{done:.0}/{}", run.epochs),
        valid.map_or_else(String::new, |valid| format!("{valid:.2}")),
        run.result.map_or_else(String::new, |result| format!("{:.2}", result[1])),
        run.full.map_or_else(String::new, |full| format!("{:.2}", full[1])),
        if going { format!("{:.0}", run.words_per_second) } else { String::new() },
        if going { duration(run.eta_seconds) } else { String::new() },
    ]
}
