//! A checkpoint: all that a run needs to go on as if it had never stopped.
//!
//! One tensor file: the weights, their running mean if the run has one, the carried state, and the [`Position`] as JSON in
//! the metadata, all under one content hash. Random numbers are a function of the seed and the step, so there is no
//! generator to save.

use super::folder::RunFolder;
use crate::architecture::{Architecture, Tensor};
use crate::config::{Config, Training};
use crate::corpus::{Corpus, Split};
use crate::error::{Error, Result};
use crate::model::State;
use crate::params::Params;
use crate::storage::atomic;
use crate::storage::tensor_file::{ContentHash, TensorFile, TensorFileWriter};
use serde::{Deserialize, Deserializer, Serialize};
use std::path::Path;

/// Where a run is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Training steps done in the whole run.
    pub step: u64,
    /// The epoch under way, from 1.
    pub epoch: u32,
    /// The next window of that epoch.
    pub window: usize,
    /// The first epoch of the training under way: 1, or later in the second training.
    pub first_epoch: u32,
    /// Sum of the cross-entropies of this epoch so far.
    pub ce: f64,
    /// Sum of `KL(y~ || y^)` of this epoch so far.
    pub kl: f64,
    /// Words of this epoch so far.
    pub words: u64,
    /// The best model so far.
    pub best: Option<Best>,
    /// Epochs since then.
    pub stale: u32,
    /// The epochs that are over.
    pub curve: Vec<CurvePoint>,
    /// Bytes of the event log that belong to this position.
    pub log: u64,
    /// SHA-256 of the training, validation and test split.
    pub data_sha256: [String; 3],
    /// Why the training ended, once it has: `done` or `patience`.
    pub ended: Option<String>,
}

impl Position {
    /// The training under way.
    pub fn training(&self) -> Training {
        if self.first_epoch > 1 { Training::Second } else { Training::First }
    }
}

/// The best epoch so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Its number, from 1.
    pub epoch: u32,
    /// Its validation perplexity.
    #[serde(deserialize_with = "infinite_if_null")]
    pub valid: f64,
}

/// One epoch's perplexities.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Its number, from 1.
    pub epoch: u32,
    /// Training perplexity, with dropout.
    #[serde(deserialize_with = "infinite_if_null")]
    pub train: f64,
    /// Validation perplexity.
    #[serde(deserialize_with = "infinite_if_null")]
    pub valid: f64,
    /// Learning rate.
    pub learning_rate: f64,
}

/// A perplexity from JSON, which has no infinity and writes `null` for it. A loss above 709 nats a word, which a much too
/// high learning rate can bring, is a number; the perplexity, its exponential, is too large for one.
pub(crate) fn infinite_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

const POSITION: &str = "bowline.position";
const CONFIG: &str = "bowline.config";

/// Settings that may change between two sessions of a run: they change none of its results. What is at another path is
/// still known by its hash.
const FREE: [&str; 2] = ["data.source", "checkpoint.every_seconds"];

/// Writes a checkpoint; the one before it is kept.
pub(super) fn save(
    folder: &RunFolder,
    config: &Config,
    params: &Params,
    average: Option<&Params>,
    state: &State,
    position: &Position,
) -> Result<()> {
    let path = folder.last_checkpoint();
    let position = serde_json::to_string(position)
        .map_err(|e| Error::run(&path, format!("the position cannot be written: {e}"), "report this"))?;
    let mut file = TensorFileWriter::new();
    file.metadata(POSITION, position);
    file.metadata(CONFIG, config.to_toml()?);
    for tensor in params.tensors() {
        file.tensor(&tensor.name, &tensor.shape, params.get(tensor));
    }
    if let Some(average) = average {
        for tensor in average.tensors() {
            file.tensor(in_average(tensor), &tensor.shape, average.get(tensor));
        }
    }
    let d = params.architecture().hidden;
    for (l, layer) in state.layers.iter().enumerate() {
        let shape = [layer.h.len() / d, d];
        file.tensor(format!("state.h_l{l}"), &shape, &layer.h);
        file.tensor(format!("state.c_l{l}"), &shape, &layer.c);
    }
    file.save_keeping_previous(&path, folder.previous_checkpoint()).map(|_| ())
}

/// The name of a tensor of the running mean.
fn in_average(tensor: &Tensor) -> String {
    format!("average.{}", tensor.name)
}

/// A checkpoint that was read, and what was wrong with the newer one if it had to be passed over.
pub(super) struct Restored {
    pub(super) params: Params,
    pub(super) average: Option<Params>,
    pub(super) state: State,
    pub(super) position: Position,
    pub(super) passed_over: Option<Error>,
}

/// Reads the newest checkpoint whose content is whole; `None` if none was ever written. One that was made with another
/// text is an error.
pub(super) fn restore(
    folder: &RunFolder,
    architecture: Architecture,
    config: &Config,
    corpus: &Corpus,
) -> Result<Option<Restored>> {
    let (last, previous) = (folder.last_checkpoint(), folder.previous_checkpoint());
    if !last.exists() && !previous.exists() {
        return Ok(None);
    }
    let newest = atomic::read_newest(&last, &previous, |path| {
        let file = TensorFile::read(path, ContentHash::Required)?;
        let text: String = file.value(POSITION)?;
        let position: Position = serde_json::from_str(&text).map_err(|e| {
            Error::model(path, POSITION, e.to_string(), "use the program version that wrote this checkpoint")
        })?;
        if let Some(then) = file.metadata().get(CONFIG)
            && let Some(error) = other_settings(folder, path, config, then)?
        {
            return Ok(Err(error));
        }
        // Asked before the shapes, which follow from the text: it is the cause, they are the symptom.
        let splits = [&corpus.train, &corpus.valid, &corpus.test];
        if let Some((_, split)) = position.data_sha256.iter().zip(splits).find(|(sha256, s)| **sha256 != s.sha256) {
            return Ok(Err(other_text(folder, split)));
        }
        if position.first_epoch == 0 || position.epoch < position.first_epoch {
            let problem = format!("epoch {} of a training that begins with {}", position.epoch, position.first_epoch);
            return Err(Error::model(path, POSITION, problem, "use the checkpoint as this program wrote it"));
        }
        let tensors = architecture.tensors();
        let mut average = (config.average > 0.0).then(|| Params::zeros(architecture));
        let in_average: Vec<(String, &Tensor)> =
            tensors.iter().filter(|_| average.is_some()).map(|tensor| (in_average(tensor), tensor)).collect();
        let state_shape = [config.batch, architecture.hidden];
        let names: Vec<String> =
            (0..architecture.layers).flat_map(|l| [format!("state.h_l{l}"), format!("state.c_l{l}")]).collect();
        file.expect_exactly(
            tensors
                .iter()
                .map(|t| (t.name.as_str(), &t.shape[..]))
                .chain(in_average.iter().map(|(name, t)| (name.as_str(), &t.shape[..])))
                .chain(names.iter().map(|name| (name.as_str(), &state_shape[..]))),
        )?;
        let (mut params, mut state) = (Params::zeros(architecture), State::zeros(architecture, config.batch));
        for tensor in &tensors {
            file.copy_to(&tensor.name, &mut params.data_mut()[tensor.range()])?;
        }
        if let Some(average) = &mut average {
            for (name, tensor) in &in_average {
                file.copy_to(name, &mut average.data_mut()[tensor.range()])?;
            }
        }
        for (layer, names) in state.layers.iter_mut().zip(names.chunks_exact(2)) {
            file.copy_to(&names[0], &mut layer.h)?;
            file.copy_to(&names[1], &mut layer.c)?;
        }
        Ok(Ok((params, average, state, position)))
    })?;
    let (params, average, state, position) = newest.value?;
    Ok(Some(Restored { params, average, state, position, passed_over: newest.passed_over }))
}

fn other_text(folder: &RunFolder, split: &Split) -> Error {
    let problem = format!("the text is another one than when the run began ({})", split.path.display());
    Error::run(folder.dir(), problem, "bring back the old text, or start a new run")
}

/// The error that says which settings are not those (`then`) that the checkpoint was made with.
fn other_settings(folder: &RunFolder, path: &Path, now: &Config, then: &str) -> Result<Option<Error>> {
    let then: Config = toml::from_str(then)
        .map_err(|e| Error::model(path, CONFIG, e.message(), "use the program version that wrote this checkpoint"))?;
    let mut changes = now.differences(&then);
    changes.retain(|(key, ..)| !FREE.contains(&key.as_str()));
    if changes.is_empty() {
        return Ok(None);
    }
    let list = |one: fn(&(String, String, String)) -> String, between| {
        changes.iter().map(one).collect::<Vec<_>>().join(between)
    };
    let problem = format!(
        "the settings were edited: {}",
        list(|(key, ours, old)| format!("{key} is {ours} and was {old}"), ", ")
    );
    let (dir, sets) = (folder.dir().display(), list(|(key, ours, _)| format!("--set {key}={ours}"), " "));
    let advice = format!(
        "put back what was there, then `bowline branch {dir} --out ANOTHER {sets}` for a run that goes on with other settings"
    );
    Ok(Some(Error::run(folder.config(), problem, advice)))
}
