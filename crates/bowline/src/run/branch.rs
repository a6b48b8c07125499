//! A new run that goes on from where another one is, with other settings.
//!
//! The two have the same weights, the same place in the text and the same random numbers from there on, so that what a
//! setting does shows within an epoch or two. With more epochs alone, or the second training asked for later, the new run
//! is, to the bit, the one that would have come of asking for them at the start; so it is with the augmented loss where
//! that begins with the second training (`augment.begin`).

use super::checkpoint::{self, Made, Position, Restored};
use super::folder::{LONGEST_LOG, RunFolder};
use super::log::Log;
use super::setup::epochs_done;
use super::{check_length, kneser_ney, open_corpus};
use crate::config::{Config, Training};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model_folder::ModelFolder;
use crate::optim::{Optimizer, OptimizerConfig, ScheduleKind, slot_names};
use crate::predictor::Shipped;
use crate::storage::{atomic, files, new_folder};
use std::fs;
use std::path::Path;

/// What the weights, the state and the place in the text depend on: it stays as it is.
const FIXED: [&str; 5] = ["hidden", "layers", "batch", "unroll", "unit_vectors"];

/// Tables of settings of which the same is true.
const FIXED_TABLES: [&str; 4] = ["data.", "network.", "streams.", "topics."];

/// How long a run is and how often it is saved: the steps so far would have been the same.
const LENGTH: [&str; 5] =
    ["epochs", "second_training_epochs", "checkpoint.every_seconds", "finish.predictor", "finish.seconds"];

/// Makes the run `dir` of the run `from` as it is, with the settings (`key=value`) changed. It is continued by
/// [`resume`](super::resume). The run `from` stays as it is.
pub fn branch(from: &Path, dir: &Path, settings: &[String]) -> Result<()> {
    branch_with(from, dir, |old| old.with(settings))
}

/// The same with all settings given.
pub fn branch_as(from: &Path, dir: &Path, config: &Config) -> Result<()> {
    branch_with(from, dir, |_| Ok(config.clone()))
}

fn branch_with(from: &Path, dir: &Path, change: impl FnOnce(Config) -> Result<Config>) -> Result<()> {
    let (source, target) = (RunFolder::new(from), RunFolder::new(dir));
    source.require()?;
    let _source_lock = source.lock()?;
    if kneser_ney::is_one(&source) {
        let advice = "a run of a network; to estimate an n-gram model again, use `bowline train --model kn`";
        return Err(Error::run(from, "it is an n-gram model, which has no epochs", advice));
    }
    let old = Config::read(&source.config())?;
    let mut config = change(old.clone())?;
    let changes = config.differences(&old);
    if let Some((key, ..)) = changes.iter().find(|(key, ..)| fixed(key)) {
        let problem = "it cannot change in the middle of a run";
        return Err(Error::config(key, problem, "another setting, or a new run by `bowline train`"));
    }
    if config.tied() != old.tied() {
        let (new, old) = (config.model.name(), old.model.name());
        let problem = format!("{new} has other weights than {old}");
        return Err(Error::config("model", problem, "al with vd-lstm, re with real, or a new run by `bowline train`"));
    }
    let corpus = open_corpus(&config.data)?;
    check_length(&config, &corpus)?;
    let spec = config.spec(corpus.vocabulary.len());
    let Some(restored) = checkpoint::restore(&source, &spec, &old, &corpus)? else {
        let advice = format!("`bowline resume {}`, or a new run by `bowline train`", from.display());
        return Err(Error::run(from, "it has no checkpoint yet", advice));
    };
    let mut position = restored.position.clone();
    check_best(&source, &position)?;
    let training = position.training();
    let plain = !old.augments(training) && !config.augments(training);
    // A rate that goes by the part of the training that is done would have been another one in a longer training, unless it is
    // still constant in both.
    let same_rate = match config.schedule.kind {
        ScheduleKind::Cosine => {
            let done = epochs_done(&old, &corpus, &position);
            training == Training::First && old.rate_is_constant(done) && config.rate_is_constant(done)
        }
        ScheduleKind::OneCycle => false,
        _ => true,
    };
    let no_mixture = same_rate
        && changes.iter().all(|(key, ..)| LENGTH.contains(&key.as_str()) || (plain && of_augmented_loss(key)));
    let began_second = place_in_schedule(from, &mut position, &config, &old, no_mixture)?;
    if !no_mixture {
        config.origin = origin(from, &old, &position, &changes);
    }

    target.remove_leftovers()?;
    new_folder::create(dir, |partial| {
        let folder = RunFolder::new(partial);
        folder.create()?;
        copy_log(&source, &folder, position.log)?;
        if began_second {
            let mut log = Log::open(&folder.events(), position.log)?;
            log.write(&Event::SecondTraining { epoch: position.first_epoch })?;
            position.log = log.sync()?;
        }
        if position.best.is_some() {
            copy_files(&source.best(), &folder.best())?;
        }
        write_branch(&folder, &config, &old.optimizer, restored, position)
    })
}

/// Writes the first checkpoint of a branch, and the settings that make its folder a run. The optimiser of the run it comes from
/// was `remembered`.
fn write_branch(
    folder: &RunFolder,
    config: &Config,
    remembered: &OptimizerConfig,
    restored: Restored,
    mut position: Position,
) -> Result<()> {
    // A mean that is asked for now begins with the weights of now.
    let averages = config.average > 0.0 || position.averages_since.is_some();
    let average = averages.then(|| restored.average.as_ref().unwrap_or(&restored.params));
    // So does an optimiser that remembers other things.
    let mut optimizer = Optimizer::new(&config.optimizer, &restored.params);
    if slot_names(&config.optimizer) == slot_names(remembered) {
        optimizer.slots_mut().clone_from_slice(restored.optimizer.slots());
    } else {
        position.optimizer_steps = 0;
    }
    let (params, state, position) = (&restored.params, &restored.state, &position);
    checkpoint::save(folder, config, &Made { params, average, optimizer: &optimizer, state, position })?;
    // The settings come last: with them the folder is a run.
    let text = config.to_toml()?;
    atomic::write(folder.config(), |out| out.write_all(text.as_bytes()))
}

/// The best model must be that of the checkpoint. It is newer if the run was killed at the end of an epoch, right between
/// the two: going on with it for a moment mends that.
fn check_best(source: &RunFolder, position: &Position) -> Result<()> {
    let Some(best) = position.best else { return Ok(()) };
    let there = ModelFolder::load(source.best())?;
    if there.metadata.get("epoch") == Some(&best.epoch.to_string()) {
        return Ok(());
    }
    let advice = format!("`bowline resume {}` to the end of its epoch, then this again", source.dir().display());
    Err(Error::run(source.best(), "it is newer than the run's checkpoint", advice))
}

fn fixed(key: &str) -> bool {
    FIXED.contains(&key) || FIXED_TABLES.iter().any(|table| key.starts_with(table))
}

/// What does not matter to a training whose loss is not augmented.
fn of_augmented_loss(key: &str) -> bool {
    key == "model" || key.starts_with("augment.")
}

/// Finds the position's place in a schedule of another length: what is over may go on, or go over into the second
/// training (then this is true), and what is at the end of an epoch may be over with it.
fn place_in_schedule(
    from: &Path,
    position: &mut Position,
    config: &Config,
    old: &Config,
    no_mixture: bool,
) -> Result<bool> {
    let first_training = position.training() == Training::First;
    let epochs = config.epochs_of(position.training());
    let (setting, done) = match first_training {
        true => ("epochs", position.epoch - 1),
        false => ("second_training_epochs", position.epoch - position.first_epoch),
    };
    if !first_training && config.epochs != old.epochs {
        let problem = "the first training is over";
        return Err(Error::config("epochs", problem, "`second_training_epochs`, which is still to be chosen"));
    }
    if epochs < done || (epochs == done && position.window > 0) {
        let problem = format!("{epochs} is impossible: {} has trained longer than that", from.display());
        return Err(Error::config(setting, problem, format!("a value above {done}")));
    }
    let out_of_patience = config.patience > 0 && position.stale >= config.patience;
    if epochs > done && !out_of_patience {
        position.ended = None;
        return Ok(false);
    }
    if first_training && config.second_training_epochs > 0 {
        (position.first_epoch, position.stale, position.ended) = (position.epoch, 0, None);
        return Ok(true);
    }
    if position.ended.is_none() && no_mixture && done > 0 {
        position.ended = Some("done".to_owned());
        return Ok(false);
    }
    let problem = "it is finished, and with these settings nothing is left to do";
    let advice = format!("`--set {setting}=N` with N above {done}, or `--set second_training_epochs=N`");
    Err(Error::run(from, problem, if out_of_patience { "`--set patience=0`".to_owned() } else { advice }))
}

/// Where a run comes from whose first epochs had other settings.
fn origin(from: &Path, old: &Config, position: &Position, changes: &[(String, String, String)]) -> String {
    let name = from.file_name().map_or_else(|| from.display().to_string(), |name| name.to_string_lossy().into_owned());
    let changed: Vec<String> =
        changes.iter().map(|(key, ours, theirs)| format!("{key} {ours} instead of {theirs}")).collect();
    let before = if old.origin.is_empty() { String::new() } else { format!("{}; ", old.origin) };
    format!("{before}{name} at step {} (epoch {}), then {}", position.step, position.epoch, changed.join(", "))
}

/// The first `len` bytes of the log: the events up to the checkpoint.
fn copy_log(source: &RunFolder, folder: &RunFolder, len: u64) -> Result<()> {
    let path = source.events();
    let mut bytes = files::read(&path, LONGEST_LOG)?;
    bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    let path = folder.events();
    files::write(&path, &bytes).map_err(Error::io(&path, "write"))
}

fn copy_files(source: &Path, target: &Path) -> Result<()> {
    files::create_dir_all(target).map_err(Error::io(target, "create the folder"))?;
    for entry in fs::read_dir(source).map_err(Error::io(source, "read"))? {
        let path = entry.map_err(Error::io(source, "read"))?.path();
        // How it predicts is found again at the end.
        if let (true, Some(name)) = (path.is_file(), path.file_name().filter(|name| *name != Shipped::FILE)) {
            files::copy(&path, &target.join(name)).map_err(Error::io(&path, "copy"))?;
        }
    }
    Ok(())
}
