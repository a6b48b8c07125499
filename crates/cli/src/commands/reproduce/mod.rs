//! `bowline reproduce`: the paper's experiments, cell by cell.

mod gather;
mod plan;
mod train;

use super::{print_json, shell};
use crate::options::{ModelName, SizeName, Threads, seed};
use crate::screen::stdout;
use crate::terminal::note;
use bowline::config::ModelKind;
use bowline::storage::atomic;
use bowline_report::RunRecord;
use bowline_reproduce::{self as reproduce, Cell, Choice, Experiment, Results};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub struct ReproduceOptions {
    /// What to reproduce
    #[arg(value_enum)]
    experiment: ExperimentName,
    /// Network sizes to run (tables 1, 3, 4 and figure 2) [default: small]
    #[arg(long = "size", value_enum, value_delimiter = ',')]
    sizes: Vec<SizeName>,
    /// Corpora to run (tables 1 and 4): ptb, wikitext-2, or a folder of your own [default: ptb]
    #[arg(long, value_delimiter = ',', value_name = "NAME|DIR")]
    data: Vec<String>,
    /// Models to run [default: all four]
    #[arg(long, value_parser = crate::options::networks(), value_delimiter = ',')]
    models: Vec<ModelName>,
    /// Systems to run (table3): names of `bowline recipes`, rnn-lda+kn5+cache, 4-small-real, 2-narrow-2-gru [default: the paper's models]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Runs of each cell, with consecutive seeds [default: 3 for figure1, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Epochs other than the recipe's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    epochs: Option<u32>,
    /// Cells to work on at the same time; they share the threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Where the runs and results go; a second call continues where the first stopped
    #[arg(long, value_name = "DIR", default_value = "runs/reproduce")]
    out: PathBuf,
    /// Run one cell alone, by its number in --list: for job arrays; --no-run then makes the page
    #[arg(long, value_name = "K", conflicts_with_all = ["dry_run", "no_run", "list", "jobs", "json"])]
    cell: Option<usize>,
    /// List the cells with their numbers, and run nothing
    #[arg(long, conflicts_with_all = ["dry_run", "no_run", "json"])]
    list: bool,
    /// Show what would be run, and how long it would take
    #[arg(long)]
    dry_run: bool,
    /// Run nothing; make tables and figures from the runs that are there
    #[arg(long, conflicts_with = "dry_run")]
    no_run: bool,
    /// Phrases of your own beside the paper's (table4)
    #[arg(long = "phrase", value_name = "TEXT")]
    phrases: Vec<String>,
    /// The first seed
    #[arg(long, default_value_t = 1, value_parser = seed())]
    seed: u64,
    /// Change a setting of all cells, as for train
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    threads: Threads,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExperimentName {
    /// Perplexities of the four models on PTB and WikiText-2
    Table1,
    /// The small models on the two halves of WikiText-2
    Table2,
    /// Our systems on PTB beside the published ones
    Table3,
    /// The most likely next words of VD-LSTM and +REAL
    Table4,
    /// The distance between the subspaces of the word vectors and the classifier
    Figure1,
    /// Validation perplexity of the four models by epoch
    Figure2,
    /// Section 3's ideal case, on the built-in corpus: the target is the truth
    Ideal,
}

impl From<ExperimentName> for Experiment {
    fn from(name: ExperimentName) -> Experiment {
        match name {
            ExperimentName::Table1 => Experiment::Table1,
            ExperimentName::Table2 => Experiment::Table2,
            ExperimentName::Table3 => Experiment::Table3,
            ExperimentName::Table4 => Experiment::Table4,
            ExperimentName::Figure1 => Experiment::Figure1,
            ExperimentName::Figure2 => Experiment::Figure2,
            ExperimentName::Ideal => Experiment::Ideal,
        }
    }
}

#[derive(Serialize)]
struct ReproduceAnswer<'a> {
    experiment: &'a str,
    cells: Vec<CellAnswer>,
    page: String,
}

#[derive(Serialize)]
struct CellAnswer {
    run: String,
    model: &'static str,
    size: &'static str,
    data: String,
    seed: u64,
    state: String,
    valid: Option<f64>,
    test: Option<f64>,
    distance: Option<f64>,
}

pub fn run(options: &ReproduceOptions) -> anyhow::Result<ExitCode> {
    let experiment = Experiment::from(options.experiment);
    let choice = choice(options, experiment)?;
    let cells = reproduce::cells(experiment, &choice)?;
    if let Some(number) = options.cell {
        return one_cell(options, experiment, &cells, number);
    }
    // Every folder is looked at before anything is run: one that holds something else is found out now, not in a day.
    let record = |cell: &Cell| read(options, experiment, cell);
    let records = cells.iter().map(record).collect::<bowline::Result<Vec<_>>>()?;
    if options.list {
        let mut out = stdout();
        for (number, (cell, record)) in cells.iter().zip(&records).enumerate() {
            writeln!(out, "{number:>3}  {:<36} {}", cell.folder, state(record.as_ref()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if options.dry_run {
        plan::plan(options, &cells)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !options.no_run && !train::train(options, &cells)? {
        let name = experiment.name();
        note(format_args!(
            "resume with: bowline reproduce {name} --out {} (and the same options)",
            shell(&options.out)
        ));
        return Ok(ExitCode::from(130));
    }
    if !options.no_run {
        train::join(options, &choice)?;
    }
    let mut results = gather::gather(options, experiment, &cells)?;
    if experiment == Experiment::Table3 {
        results.systems = reproduce::rows(&options.out, &reproduce::label(&choice))?;
    }
    let (page, machine) = reproduce::page(experiment, &results);
    let dir = options.out.join(format!("{}-report", experiment.name()));
    page.write(&dir)?;
    for table in &machine {
        let csv = dir.join(format!("{}.csv", table.name));
        atomic::write(&csv, |out| out.write_all(table.csv().as_bytes()))?;
    }
    let file = dir.join("report.html");
    if options.json {
        print_json(&answer(options, experiment, &cells, &results, &file)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    for table in reproduce::tables(&page) {
        writeln!(out, "{}", table.text())?;
    }
    writeln!(out, "the page is {}", shell(&file))?;
    Ok(ExitCode::SUCCESS)
}

/// Starts or continues one cell. The others may be under way in other processes, so nothing is read or made of them.
fn one_cell(
    options: &ReproduceOptions,
    experiment: Experiment,
    cells: &[Cell],
    number: usize,
) -> anyhow::Result<ExitCode> {
    let Some(cell) = cells.get(number) else {
        let problem = format!("there is no cell {number}; there are {}, from 0 on", cells.len());
        let advice = format!("`bowline reproduce {} --list` with the same options", experiment.name());
        return Err(bowline::Error::config("cell", problem, advice).into());
    };
    let finished = train::train(options, std::slice::from_ref(cell))?;
    let command = format!("bowline reproduce {} --out {}", experiment.name(), shell(&options.out));
    if !finished {
        note(format_args!("resume with: {command} --cell {number} (and the same options)"));
        return Ok(ExitCode::from(130));
    }
    note(format_args!(
        "cell {number}, {}, is finished; {command} --no-run makes the page of those that are",
        cell.folder
    ));
    Ok(ExitCode::SUCCESS)
}

/// How far a cell is.
fn state(record: Option<&RunRecord>) -> String {
    match record {
        Some(record) if record.summary.is_some() => "finished".to_owned(),
        Some(record) => record.progress(),
        None => "not begun".to_owned(),
    }
}

/// What there is of a cell: to go on with, or only to be shown.
fn read(options: &ReproduceOptions, experiment: Experiment, cell: &Cell) -> bowline::Result<Option<RunRecord>> {
    if options.no_run { experiment.found(cell, &options.out) } else { cell.record(&options.out) }
}

fn choice(options: &ReproduceOptions, experiment: Experiment) -> anyhow::Result<Choice> {
    if !options.only.is_empty() && experiment != Experiment::Table3 {
        let advice = "`bowline reproduce table3 --only NAME`; other experiments have `--models`";
        return Err(bowline::Error::config("only", "this experiment has no systems to choose from", advice).into());
    }
    let sizes = if options.sizes.is_empty() { vec![SizeName::Small] } else { options.sizes.clone() };
    let data = options.data.iter().map(|data| bowline::run::fit::source(data)).collect();
    let models = options.models.iter().map(|&model| model.try_into()).collect::<bowline::Result<Vec<ModelKind>>>()?;
    Ok(Choice {
        sizes: sizes.into_iter().map(Into::into).collect(),
        data: if options.data.is_empty() { vec!["ptb".to_owned()] } else { data },
        models: if models.is_empty() { ModelKind::ALL.to_vec() } else { models },
        only: options.only.clone(),
        runs: options.runs.unwrap_or(if experiment == Experiment::Figure1 { 3 } else { 1 }),
        seed: options.seed,
        epochs: options.epochs,
        settings: options.settings.clone(),
    })
}

fn answer<'a>(
    options: &ReproduceOptions,
    experiment: Experiment,
    cells: &[Cell],
    results: &Results,
    page: &Path,
) -> anyhow::Result<ReproduceAnswer<'a>> {
    let of_cell = |cell: &Cell| {
        let record = read(options, experiment, cell)?;
        let distance = results.distances.iter().find(|found| found.cell == *cell).map(|found| found.distance);
        Ok(CellAnswer {
            run: options.out.join(&cell.folder).display().to_string(),
            model: cell.config.model.name(),
            size: cell.config.size.name(),
            data: cell.config.data.source.clone(),
            seed: cell.config.seed,
            state: record.as_ref().map_or("not run".to_owned(), RunRecord::progress),
            valid: record.as_ref().and_then(RunRecord::valid),
            test: record.as_ref().and_then(RunRecord::test),
            distance,
        })
    };
    let cells = cells.iter().map(of_cell).collect::<bowline::Result<_>>()?;
    Ok(ReproduceAnswer { experiment: experiment.name(), cells, page: page.display().to_string() })
}
