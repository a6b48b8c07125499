//! `bowline report`: a page about runs, with their curves and results beside the paper's.

use super::{print_json, shell};
use crate::screen::stdout;
use bowline_report::{RunRecord, read_runs, training_page};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `bowline report` takes.
#[derive(Args)]
pub struct ReportOptions {
    /// The folders of the runs; unfinished runs are shown up to now
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The folder for report.html, the figures (*.svg) and the tables (*.md, *.csv)
    #[arg(long, value_name = "DIR", default_value = "report")]
    pub out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct ReportAnswer {
    page: PathBuf,
    files: Vec<PathBuf>,
    runs: Vec<RunAnswer>,
}

#[derive(Serialize)]
struct RunAnswer {
    run: PathBuf,
    model: &'static str,
    size: String,
    data: String,
    seed: Option<u64>,
    finished: bool,
    epochs: usize,
    /// Of the kept model; for a run that is not finished, the best so far as measured during training.
    valid: Option<f64>,
    test: Option<f64>,
    paper_valid: Option<f64>,
    paper_test: Option<f64>,
    /// Whether a finished run is inside the band, and the settings that are not the paper's.
    inside: Option<bool>,
    other_settings: Vec<String>,
}

pub fn run(options: &ReportOptions) -> anyhow::Result<ExitCode> {
    let runs = read_runs(&options.runs)?;
    let files = training_page(&runs).write(&options.out)?;
    let page = options.out.join("report.html");
    if options.json {
        print_json(&ReportAnswer { page, files, runs: runs.iter().map(answer).collect() })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    for run in &runs {
        writeln!(out, "{}: {}", shell(&run.dir), run.progress())?;
        if let (Some(comparison), Some(summary)) = (run.comparison(), &run.summary) {
            writeln!(out, "  {}", comparison.line(summary.valid, summary.test))?;
        }
    }
    writeln!(out, "the report is {} ({} files in all)", shell(&page), files.len())?;
    Ok(ExitCode::SUCCESS)
}

fn answer(run: &RunRecord) -> RunAnswer {
    let (paper, comparison) = (run.expected(), run.comparison());
    RunAnswer {
        run: run.dir.clone(),
        model: run.config.model(),
        size: run.config.size(),
        data: run.config.data().source.clone(),
        seed: run.config.seed(),
        finished: run.summary.is_some(),
        epochs: run.epochs.len(),
        valid: run.valid(),
        test: run.test(),
        paper_valid: paper.map(|paper| paper.valid),
        paper_test: paper.map(|paper| paper.test),
        inside: comparison.as_ref().map(|comparison| comparison.inside),
        other_settings: comparison.map(|comparison| comparison.other_settings).unwrap_or_default(),
    }
}
