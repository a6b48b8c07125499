//! The cells of an experiment as a queue of trainings, several at a time if asked for.

use super::ReproduceOptions;
use crate::commands::shell;
use crate::interrupt::Interrupt;
use crate::terminal::{Terminal, note};
use bowline::run::{self, Outcome, Session};
use bowline_kernels::{Isa, Team};
use bowline_report::RunRecord;
use bowline_reproduce::{self as reproduce, Cell, Choice, Joined};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What is to be run: the first trainings that several cells share, then the cells.
pub(super) fn tasks(out: &Path, cells: &[Cell]) -> bowline::Result<Vec<Cell>> {
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
pub(super) fn train(options: &ReproduceOptions, cells: &[Cell]) -> anyhow::Result<bool> {
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
pub(super) fn join(options: &ReproduceOptions, choice: &Choice) -> anyhow::Result<()> {
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
