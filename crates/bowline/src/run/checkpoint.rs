//! A checkpoint: all that a run needs to go on as if it had never stopped.
//!
//! One tensor file: the weights, their running mean if the run has one, what the optimiser remembers of them, the carried
//! state, and the [`Position`] as JSON in the metadata, all under one content hash. Random numbers are a function of the seed and the step, so there is no
//! generator to save.

use super::folder::RunFolder;
use crate::config::{Config, Training};
use crate::corpus::Corpus;
use crate::error::{Error, Result};
use crate::model::{Part, State};
use crate::optim::{Optimizer, slot_names};
use crate::params::Params;
use crate::storage::atomic;
use crate::storage::tensor_file::{ContentHash, TensorFile, TensorFileWriter};
use crate::{layout::Tensor, spec::ModelSpec};
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
    /// Steps that the optimiser has done.
    #[serde(default)]
    pub optimizer_steps: u64,
    /// How often the validation perplexity has made the learning rate fall in this training, and epochs since it last improved
    /// or did that.
    #[serde(default)]
    pub drops: u32,
    /// See `drops`.
    #[serde(default)]
    pub waited: u32,
    /// The step after which averaged gradient descent began to average.
    #[serde(default)]
    pub averages_since: Option<u64>,
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
pub(super) const FREE: [&str; 7] = [
    "data.source",
    "data.ids",
    "augment.teachers",
    "start.model",
    "checkpoint.every_seconds",
    "finish.predictor",
    "finish.seconds",
];

/// All that a run has made so far.
pub(super) struct Made<'a> {
    pub(super) params: &'a Params,
    pub(super) average: Option<&'a Params>,
    pub(super) optimizer: &'a Optimizer,
    pub(super) state: &'a State,
    pub(super) position: &'a Position,
}

/// Writes a checkpoint; the one before it is kept.
pub(super) fn save(folder: &RunFolder, config: &Config, made: &Made<'_>) -> Result<()> {
    let path = folder.last_checkpoint();
    file(&path, config, made)?.save_keeping_previous(&path, folder.previous_checkpoint()).map(|_| ())
}

/// The bytes of a checkpoint, for another process.
pub(super) fn to_bytes(folder: &RunFolder, config: &Config, made: &Made<'_>) -> Result<Vec<u8>> {
    let path = folder.last_checkpoint();
    file(&path, config, made)?.to_bytes(&path)
}

fn file<'a>(path: &Path, config: &Config, made: &Made<'a>) -> Result<TensorFileWriter<'a>> {
    let Made { params, average, optimizer, state, position } = *made;
    let position = serde_json::to_string(position)
        .map_err(|e| Error::run(path, format!("the position cannot be written: {e}"), "report this"))?;
    let mut file = TensorFileWriter::new();
    file.metadata(POSITION, position);
    file.metadata(CONFIG, config.to_toml()?);
    for tensor in params.tensors() {
        file.tensor(&tensor.name, &tensor.shape, params.get(tensor));
    }
    params.save_besides(&mut file);
    if let Some(average) = average {
        for tensor in average.tensors() {
            file.tensor(within(AVERAGE, tensor), &tensor.shape, average.get(tensor));
        }
    }
    for slot in optimizer.slots() {
        for tensor in params.tensors() {
            file.tensor(within(slot.name, tensor), &tensor.shape, slot.values.get(tensor));
        }
    }
    for part in &state.parts {
        file.tensor(in_state(part), &[part.values.len() / part.width, part.width], &part.values);
    }
    Ok(file)
}

/// What the tensors of the running mean are called.
const AVERAGE: &str = "average";

/// The name of a tensor of the running mean, or of what the optimiser remembers.
fn within(what: &str, tensor: &Tensor) -> String {
    format!("{what}.{}", tensor.name)
}

/// The name of a part of the carried state.
fn in_state(part: &Part) -> String {
    format!("state.{}", part.name)
}

/// A checkpoint that was read, and what was wrong with the newer one if it had to be passed over.
pub(super) struct Restored {
    pub(super) params: Params,
    pub(super) average: Option<Params>,
    pub(super) optimizer: Optimizer,
    pub(super) state: State,
    pub(super) position: Position,
    pub(super) passed_over: Option<Error>,
}

/// Reads the newest checkpoint whose content is whole; `None` if none was ever written. One that was made with another
/// text is an error.
pub(super) fn restore(
    folder: &RunFolder,
    spec: &ModelSpec,
    config: &Config,
    corpus: &Corpus,
) -> Result<Option<Restored>> {
    let (last, previous) = (folder.last_checkpoint(), folder.previous_checkpoint());
    if !last.exists() && !previous.exists() {
        return Ok(None);
    }
    let newest = atomic::read_newest(&last, &previous, |path| {
        let file = TensorFile::read(path, ContentHash::Required)?;
        of_file(&file, (folder, path), spec, config, corpus)
    })?;
    Ok(Some(Restored { passed_over: newest.passed_over, ..newest.value? }))
}

/// What another process has made so far, and its settings.
pub(super) fn from_bytes(folder: &RunFolder, bytes: Vec<u8>) -> Result<(TensorFile, Config)> {
    let file = TensorFile::parse(folder.last_checkpoint(), bytes, ContentHash::Required)?;
    let config = toml::from_str(&file.value::<String>(CONFIG)?).map_err(|e| {
        Error::ranks(format!("rank 0 sent settings that cannot be read: {e}"), "the same program on every machine")
    })?;
    Ok((file, config))
}

/// What is in the checkpoint that another process has sent.
pub(super) fn received(folder: &RunFolder, file: &TensorFile, config: &Config, corpus: &Corpus) -> Result<Restored> {
    of_file(file, (folder, &folder.last_checkpoint()), &config.spec(corpus.vocabulary.len()), config, corpus)?
}

/// What is in a checkpoint. The inner error is one that an older checkpoint would not help against.
fn of_file(
    file: &TensorFile,
    (folder, path): (&RunFolder, &Path),
    spec: &ModelSpec,
    config: &Config,
    corpus: &Corpus,
) -> Result<Result<Restored>> {
    let text: String = file.value(POSITION)?;
    let position: Position = serde_json::from_str(&text).map_err(|e| {
        Error::model(path, POSITION, e.to_string(), "use the version of the program that wrote this checkpoint")
    })?;
    if let Some(then) = file.metadata().get(CONFIG)
        && let Some(error) = other_settings(folder, path, config, then)?
    {
        return Ok(Err(error));
    }
    // Asked before the shapes, which follow from the text: it is the cause, they are the symptom.
    let paths = [&corpus.train.path, &corpus.valid.path, &corpus.test.path];
    let hashes = position.data_sha256.iter().zip(corpus.sha256());
    if let Some((_, path)) = hashes.zip(paths).find(|((then, now), _)| *then != now) {
        return Ok(Err(other_text(folder, path)));
    }
    if position.first_epoch == 0 || position.epoch < position.first_epoch {
        let problem = format!("epoch {} of a training that begins with {}", position.epoch, position.first_epoch);
        return Err(Error::model(path, POSITION, problem, "use the checkpoint as this program wrote it"));
    }
    let layout = spec.layout();
    let tensors = layout.tensors();
    let averages = config.average > 0.0 || position.averages_since.is_some();
    let slots = slot_names(&config.optimizer).iter().copied().chain(averages.then_some(AVERAGE));
    let besides: Vec<(String, &Tensor)> =
        slots.flat_map(|what| tensors.iter().map(move |tensor| (within(what, tensor), tensor))).collect();
    let mut state = State::zeros(spec, config.batch);
    let in_state: Vec<(String, [usize; 2])> =
        state.parts.iter().map(|part| (in_state(part), [config.batch, part.width])).collect();
    let with_weights = Params::besides(spec);
    file.expect_exactly(
        tensors
            .iter()
            .map(|t| (t.name.as_str(), &t.shape[..]))
            .chain(besides.iter().map(|(name, t)| (name.as_str(), &t.shape[..])))
            .chain(in_state.iter().map(|(name, shape)| (name.as_str(), &shape[..])))
            .chain(with_weights.iter().map(|(name, shape)| (*name, &shape[..]))),
    )?;
    let mut params = Params::zeros(spec);
    params.read_besides(path, file)?;
    let mut average = averages.then(|| params.zeros_like());
    let mut optimizer = Optimizer::new(&config.optimizer, &params);
    for tensor in tensors {
        file.copy_to(&tensor.name, &mut params.data_mut()[tensor.range()])?;
    }
    let slots = optimizer.slots_mut().iter_mut().map(|slot| (slot.name, &mut slot.values));
    for (what, values) in slots.chain(average.as_mut().map(|average| (AVERAGE, average))) {
        for tensor in tensors {
            file.copy_to(&within(what, tensor), &mut values.data_mut()[tensor.range()])?;
        }
    }
    for (part, (name, _)) in state.parts.iter_mut().zip(&in_state) {
        file.copy_to(name, &mut part.values)?;
    }
    Ok(Ok(Restored { params, average, optimizer, state, position, passed_over: None }))
}

/// The settings of the newest checkpoint that is whole.
pub(super) fn settings(folder: &RunFolder) -> Result<Option<String>> {
    let (last, previous) = (folder.last_checkpoint(), folder.previous_checkpoint());
    if !last.exists() && !previous.exists() {
        return Ok(None);
    }
    let read = |path: &Path| Ok(TensorFile::read(path, ContentHash::Required)?.metadata().get(CONFIG).cloned());
    atomic::read_newest(&last, &previous, read).map(|newest| newest.value)
}

fn other_text(folder: &RunFolder, path: &Path) -> Error {
    let problem = format!("the text has changed since the run began ({})", path.display());
    Error::run(folder.dir(), problem, "restore the old text, or start a new run")
}

/// The error that says which settings are not those (`then`) that the checkpoint was made with.
fn other_settings(folder: &RunFolder, path: &Path, now: &Config, then: &str) -> Result<Option<Error>> {
    let then: Config = toml::from_str(then).map_err(|e| {
        Error::model(path, CONFIG, e.message(), "use the version of the program that wrote this checkpoint")
    })?;
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
        "restore the original settings, then `bowline branch {dir} --out ANOTHER {sets}` to continue with other settings"
    );
    Ok(Some(Error::run(folder.config(), problem, advice)))
}
