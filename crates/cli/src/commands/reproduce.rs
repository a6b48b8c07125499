//! `bowline reproduce`: the paper's experiments, cell by cell.

use super::{print_json, shell};
use crate::interrupt::Interrupt;
use crate::options::{ModelName, SizeName, Threads, seed};
use crate::screen::stdout;
use crate::terminal::width::{self, wrap};
use crate::terminal::{Terminal, duration, grouped, note};
use bowline::bench;
use bowline::config::{Config, ModelKind, Training};
use bowline::corpus::{Split, SplitName, find_split};
use bowline::loaded_model::LoadedModel;
use bowline::run::{self, Outcome, Session};
use bowline::storage::atomic;
use bowline::{data, subspace};
use bowline_demo::{self as demo, Truth};
use bowline_kernels::{Isa, Team};
use bowline_report::RunRecord;
use bowline_reproduce::{self as reproduce, Cell, Choice, Distance, Experiment, Joined, Results};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

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

/// Words whose probability the paper speaks of.
const WATCHED: [&str; 4] = ["<unk>", "a", "an", "the"];

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
        plan(options, &cells)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !options.no_run && !train(options, &cells)? {
        let name = experiment.name();
        note(format_args!(
            "resume with: bowline reproduce {name} --out {} (and the same options)",
            shell(&options.out)
        ));
        return Ok(ExitCode::from(130));
    }
    if !options.no_run {
        join(options, &choice)?;
    }
    let mut results = gather(options, experiment, &cells)?;
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
    let finished = train(options, std::slice::from_ref(cell))?;
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

/// What is to be run: the first trainings that several cells share, then the cells.
fn tasks(out: &Path, cells: &[Cell]) -> bowline::Result<Vec<Cell>> {
    let mut firsts: Vec<(Cell, usize)> = Vec::new();
    for cell in cells {
        let (Some(first), None) = (cell.first_training(), cell.record(out)?) else { continue };
        match firsts.iter_mut().find(|(other, _)| other.is(&first)) {
            Some((_, cells)) => *cells += 1,
            None => firsts.push((first, 1)),
        }
    }
    let shared = firsts.into_iter().filter(|&(_, cells)| cells > 1).map(|(first, _)| first);
    Ok(shared.chain(cells.iter().cloned()).collect())
}

/// The tasks that wait and those that are under way.
struct Queue<'a> {
    waiting: Vec<&'a Cell>,
    running: Vec<&'a Cell>,
}

impl<'a> Queue<'a> {
    /// With several at a time the augmented ones, which take longest, go first: then the jobs end at about the same time.
    fn new(tasks: &'a [Cell], jobs: usize) -> Queue<'a> {
        let mut waiting: Vec<&Cell> = tasks.iter().collect();
        if jobs > 1 {
            waiting.sort_by_key(|task| !task.config.model.augmented());
        }
        Queue { waiting, running: Vec::new() }
    }

    /// The next task whose first training is not still to be done.
    fn take(&mut self) -> Option<&'a Cell> {
        let open = |first: &Cell| self.waiting.iter().chain(&self.running).any(|task| task.is(first));
        let ready = self.waiting.iter().position(|task| !task.first_training().is_some_and(|first| open(&first)))?;
        let task = self.waiting.remove(ready);
        self.running.push(task);
        Some(task)
    }
}

/// Runs what is not finished; false if asked to stop.
fn train(options: &ReproduceOptions, cells: &[Cell]) -> anyhow::Result<bool> {
    let interrupt = Interrupt::listen();
    let tasks = tasks(&options.out, cells)?;
    let jobs = usize::from(options.jobs).min(tasks.len().max(1));
    let session = Session { threads: (options.threads.get() / jobs).max(1), isa: Isa::detect() };
    let queue = Mutex::new(Queue::new(&tasks, jobs));
    let (done, branching) = (Condvar::new(), Mutex::new(()));
    let failure: Mutex<Option<bowline::Error>> = Mutex::new(None);
    let over = || interrupt.asked() || failure.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        while !over() && !queue.waiting.is_empty() {
            if let Some(task) = queue.take() {
                return Some(task);
            }
            queue = done.wait_timeout(queue, Duration::from_secs(1)).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    };
    let work = || {
        while let Some(task) = next() {
            let mut watch = Terminal::new(interrupt.clone(), &task.folder);
            if let Err(error) = one(&options.out, task, session, &mut watch, &branching) {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
            queue.lock().unwrap_or_else(PoisonError::into_inner).running.retain(|other| other.folder != task.folder);
            done.notify_all();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error.into());
    }
    Ok(!interrupt.asked())
}

/// Starts or continues a cell; a finished one is left as it is. A run can be branched from by one at a time.
fn one(out: &Path, cell: &Cell, session: Session, watch: &mut Terminal, branching: &Mutex<()>) -> bowline::Result<()> {
    let dir = out.join(&cell.folder);
    match cell.record(out)? {
        Some(RunRecord { summary: Some(_), .. }) => Ok(()),
        Some(_) => run::resume(&dir, session, watch).map(said),
        None => match cell.begins_with(out) {
            Some(first) => {
                note(format_args!("{}: its first training is {}", cell.folder, shell(&first)));
                let alone = branching.lock().unwrap_or_else(PoisonError::into_inner);
                run::branch_as(&first, &dir, &cell.config)?;
                drop(alone);
                run::resume(&dir, session, watch).map(said)
            }
            None => run::start(&dir, &cell.config, session, watch).map(said),
        },
    }
}

fn said(outcome: Outcome) {
    if let Outcome::Finished(summary) = outcome {
        note(format_args!("{}: valid {:.2}, test {:.2}", summary.model, summary.valid, summary.test));
    }
}

/// Joins the trained cells of the systems that are made of several.
fn join(options: &ReproduceOptions, choice: &Choice) -> anyhow::Result<()> {
    let systems: Vec<Joined> = choice.only.iter().filter_map(|name| reproduce::joined(name)).collect();
    if systems.is_empty() {
        return Ok(());
    }
    let (config, folder) = reproduce::ngrams(choice);
    let session = Session { threads: options.threads.get(), isa: Isa::detect() };
    let (dir, mut watch) = (options.out.join(&folder), Terminal::new(Interrupt::listen(), &folder));
    if systems.iter().any(|system| system.has_ngrams()) {
        match dir.join("config.toml").exists() {
            true => run::resume(&dir, session, &mut watch)?,
            false => run::start_ngram(&dir, &config, session, &mut watch)?,
        };
    }
    let corpus = run::open_corpus(&config.data)?;
    let team = Arc::new(Team::new(session.threads));
    for system in systems {
        let how = if system.has_ngrams() { "weights and cache are found on the validation split" } else { "the mean" };
        note(format_args!("{}: {how}", system.name()));
        let found = reproduce::join(system, choice, &options.out, &corpus, &team)?;
        note(format_args!("{}: valid {:.2}, test {:.2}", system.name(), found.valid, found.test));
    }
    Ok(())
}

/// What would be run, with the time it would take by a short measurement of each kind of cell.
fn plan(options: &ReproduceOptions, cells: &[Cell]) -> anyhow::Result<()> {
    let tasks = tasks(&options.out, cells)?;
    let mut speeds: Vec<(Config, usize, f64)> = Vec::new();
    let mut out = stdout();
    let (threads, jobs) = (options.threads.get(), usize::from(options.jobs));
    let mut total = 0.0;
    for cell in &tasks {
        let record = cell.record(&options.out)?;
        let finished = record.as_ref().is_some_and(|record| record.summary.is_some());
        let parts = if finished { Vec::new() } else { to_go(options, &tasks, cell, record.as_ref()) };
        let (mut epochs, mut words, mut seconds) = (0, 0.0, 0.0);
        for (config, part) in parts {
            let corpus = run::open_corpus(&config.data)?;
            let vocab = corpus.vocabulary.len();
            let kind = kind(&config);
            let speed = match speeds.iter().find(|(other, words, _)| *other == kind && *words == vocab) {
                Some((_, _, speed)) => *speed,
                None => {
                    let (kinds, steps) = (threads / jobs.max(1), 3);
                    let found = bench::measure(&kind, vocab, kinds.max(1), Isa::detect(), steps, &mut |_| {});
                    speeds.push((kind, vocab, found.tokens_per_second));
                    found.tokens_per_second
                }
            };
            // A word of the validation text costs about a third of a training word, which has a backward pass too.
            let in_epoch = corpus.train.ids.len() as f64 + corpus.valid.ids.len() as f64 / 3.0;
            epochs += part;
            words += f64::from(part) * in_epoch;
            seconds += f64::from(part) * in_epoch / speed;
        }
        total += seconds;
        let state = state(record.as_ref());
        let time = if epochs > 0 {
            let speed = grouped((words / seconds) as usize);
            format!("{epochs} epochs to go at {speed} words/s, about {}", duration(seconds))
        } else {
            String::new()
        };
        writeln!(out, "{:<36} {state:<24} {time}", cell.folder)?;
        writeln!(out, "{}", wrap(&format!("  {}", settings(&cell.config)), width::of_stdout()))?;
    }
    let jobs_note = if jobs > 1 { format!(", {jobs} at a time") } else { String::new() };
    let total = duration(total / jobs.max(1) as f64);
    writeln!(out, "{} cells, about {total} with {threads} threads{jobs_note}", cells.len())?;
    Ok(())
}

/// The settings of a cell in one line: those that decide its result.
fn settings(config: &Config) -> String {
    let mut all = vec![
        format!("data {}", config.data.source),
        format!("hidden {}", config.hidden),
        format!("keep {}", config.keep.0),
        format!("batch {}", config.batch),
        format!("epochs {}", config.epochs),
    ];
    if config.second_training_epochs > 0 {
        all.push(format!("then {}", config.second_training_epochs));
    }
    all.push(format!("lr {} x {} after {}", config.learning_rate, config.decay, config.decay_after));
    if config.weight_decay > 0.0 {
        all.push(format!("weight decay {}", config.weight_decay));
    }
    if config.average > 0.0 {
        all.push(format!("average {}", config.average));
    }
    if config.model.augmented() {
        all.push(format!("tau {}, gamma {}", config.augment.tau, config.augment.gamma));
    }
    all.join(", ")
}

/// The epochs that are left of a cell, with the settings they are trained with: two kinds of them if the augmented loss
/// begins with the second training, but one alone if its first training is a run of its own.
fn to_go(options: &ReproduceOptions, tasks: &[Cell], cell: &Cell, record: Option<&RunRecord>) -> Vec<(Config, u32)> {
    let done = record.map_or(0, |record| record.epochs.len() as u32);
    let config = cell.config.clone();
    let total = config.total_epochs();
    let parts = match cell.first_training() {
        None => vec![(config, total.saturating_sub(done))],
        Some(first) => {
            let planned = tasks.iter().any(|other| other.is(&first));
            let shared = record.is_none() && (planned || cell.begins_with(&options.out).is_some());
            let of_first = if shared { 0 } else { config.epochs.saturating_sub(done) };
            let of_second = total.saturating_sub(done.max(config.epochs));
            vec![(first.config, of_first), (config, of_second)]
        }
    };
    parts.into_iter().filter(|&(_, epochs)| epochs > 0).collect()
}

/// The settings that decide the speed.
fn kind(config: &Config) -> Config {
    let mut kind = config.clone();
    kind.augment.begin = Training::First;
    (kind.seed, kind.epochs, kind.second_training_epochs) = (1, 1, 0);
    (kind.decay, kind.decay_after) = (1.0, 1);
    (kind.data.train_start, kind.data.train_words) = (0, 0);
    (kind.augment.beta, kind.augment.tau) = (0.5, 20.0);
    // The measurement draws its own words, of which the truth is not known.
    kind.augment.target = bowline::config::TargetSource::Embedding;
    kind
}

/// Reads what the cells have brought, and measures what is to be measured of them.
fn gather(options: &ReproduceOptions, experiment: Experiment, cells: &[Cell]) -> anyhow::Result<Results> {
    let mut results = Results::default();
    let team = Arc::new(Team::new(options.threads.get()));
    let mut models = Vec::new();
    if experiment == Experiment::Figure1 {
        note(format_args!("measuring the distances between the subspaces"));
    }
    for cell in cells {
        let Some(record) = read(options, experiment, cell)? else { continue };
        let finished = record.summary.is_some();
        let dir = options.out.join(&cell.folder);
        match experiment {
            Experiment::Figure1 if finished => {
                let model = LoadedModel::load(&dir)?;
                let distance = subspace::of_model(model.require_network("word vectors")?).distance;
                let losses = [record.epochs.first(), record.epochs.last()].map(|end| end.map_or(f64::NAN, |e| e.loss));
                results.distances.push(Distance { cell: cell.clone(), distance, losses });
            }
            Experiment::Table4 if finished => {
                results.names.push(format!("{}, {}", cell.config.model.title(), cell.config.size.name()));
                models.push((cell, LoadedModel::load(&dir)?));
            }
            _ => {}
        }
        results.runs.push(record);
    }
    if experiment == Experiment::Ideal {
        let truth = Truth::new();
        let splits = truth.splits(demo::DEFAULT_SEED);
        results.floor = Some(truth.floor(&splits.test)?.perplexity());
    }
    if let Some((cell, last)) = models.last() {
        let all: Vec<&LoadedModel> = models.iter().map(|(_, model)| model).collect();
        results.predictions = reproduce::predictions(&all, &phrases(options), &team, Isa::detect())?;
        note(format_args!("measuring the models over the test split"));
        let test = test_split(cell, last)?;
        let near = reproduce::neighbours(last, &test.ids)?;
        for model in all {
            results.tendencies.push(reproduce::tendencies(model, &team, Isa::detect(), &test.ids, &WATCHED, &near)?);
        }
    }
    Ok(results)
}

fn phrases(options: &ReproduceOptions) -> Vec<(String, Option<String>)> {
    let papers = reproduce::PHRASES.iter().map(|&(phrase, next)| (phrase.to_owned(), Some(next.to_owned())));
    papers.chain(options.phrases.iter().map(|phrase| (phrase.clone(), None))).collect()
}

fn test_split(cell: &Cell, model: &LoadedModel) -> bowline::Result<Split> {
    let source = &cell.config.data.source;
    let path = match data::by_name(source) {
        Some(corpus) => data::locate(corpus, &data::Environment::current())?,
        None => PathBuf::from(source),
    };
    Split::read(&find_split(&path, SplitName::Test)?, &model.vocabulary, model.tokenize)
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
