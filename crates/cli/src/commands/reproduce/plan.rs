//! `bowline reproduce --dry-run`: what would be run, and how long it would take.

use super::ReproduceOptions;
use super::train::tasks;
use crate::screen::stdout;
use crate::terminal::width::{self, wrap};
use crate::terminal::{duration, grouped};
use bowline::bench;
use bowline::config::{Config, Training};
use bowline::run;
use bowline_kernels::Isa;
use bowline_report::RunRecord;
use bowline_reproduce::Cell;
use std::io::Write;

/// What would be run, with the time it would take by a short measurement of each kind of cell.
pub(super) fn plan(options: &ReproduceOptions, cells: &[Cell]) -> anyhow::Result<()> {
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
        let state = super::state(record.as_ref());
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
