//! The settings of a run: a preset, changed by `--set key=value`, validated once, written to the run's `config.toml`.

mod augment;
mod finish;
mod loss;
mod model;
mod network;
mod presets;
mod set;
mod settings;
mod streams;
mod topics;
mod validate;

pub use augment::{AugmentConfig, Form, LossRule, TargetGradient, TargetSource};
pub use finish::FinishConfig;
pub use loss::LossConfig;
pub use model::{ModelKind, RecipeName};
pub use network::{NetworkConfig, StartConfig, UnitName};
pub use presets::{Size, preset};
pub(crate) use set::nearest;
pub use settings::Setting;
pub use streams::{ActivityConfig, StreamsConfig};
pub use topics::TopicsConfig;

use crate::corpus::IdsIn;
use crate::error::{Error, Result};
use crate::model::{Activity, Dropout, KeepProb};
use crate::optim::{OptimizerConfig, Rule, Schedule, ScheduleConfig, ScheduleKind};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One of a run's trainings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Training {
    /// The one from random weights.
    #[default]
    First,
    /// The one from the first one's final weights (the paper's footnote to Table 1).
    Second,
}

/// Which epoch's weights a run keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Selection {
    /// Those with the best validation perplexity.
    #[default]
    Best,
    /// The last ones.
    Last,
}

/// What the operands of matrix products are rounded to in training. Evaluation is always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Not rounded.
    #[default]
    F32,
    /// To bf16, multiplied by the CPU's own instruction, with f32 sums and weights.
    Bf16,
    /// To bf16, multiplied by f32 instructions: for any CPU, slower than f32, to see what the rounding does.
    Bf16Emulated,
}

impl From<Precision> for bowline_kernels::Precision {
    fn from(precision: Precision) -> bowline_kernels::Precision {
        match precision {
            Precision::F32 => bowline_kernels::Precision::F32,
            Precision::Bf16 => bowline_kernels::Precision::Bf16,
            Precision::Bf16Emulated => bowline_kernels::Precision::Bf16Emulated,
        }
    }
}

/// The corpus of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// `ptb`, `wikitext-2`, `demo`, or the path of a folder or file.
    pub source: String,
    /// Keep only so many words; 0 keeps all.
    pub vocab_size: usize,
    /// Words seen less often than this in training become `<unk>`; 0 and 1 keep all.
    #[serde(default)]
    pub min_count: u64,
    /// A file with the words of the vocabulary, one a line; empty to take them from the training text.
    #[serde(default)]
    pub vocabulary: String,
    /// Whether the words of the training text are added to those of that file.
    #[serde(default)]
    pub extend: bool,
    /// Lower-case the text and split words from punctuation.
    pub tokenize: bool,
    /// Where the ids of the training text are kept: `memory`, `file`, or `auto`, which is `file` above 64 MB of text.
    #[serde(default)]
    pub ids: IdsIn,
    /// Learn from a piece of the training text that begins with this word, from 0. The vocabulary is that of the whole.
    #[serde(default)]
    pub train_start: usize,
    /// And has so many words; 0 goes to the end.
    #[serde(default)]
    pub train_words: usize,
    /// Validate on so many words; 0 takes all.
    #[serde(default)]
    pub valid_words: usize,
}

/// When a checkpoint is written, besides at the end of each epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointConfig {
    /// After so many seconds; 0 writes one after every step.
    pub every_seconds: f64,
}

fn one() -> usize {
    1
}

/// Everything that decides what a run computes. The number of threads is not here: it changes nothing but the speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of this file's format.
    pub version: u32,
    /// Which of the four models, or another recipe.
    pub model: ModelKind,
    /// Where its numbers come from: a preset's name.
    pub size: Size,
    /// Everything random follows from it.
    pub seed: u64,
    /// Units in each layer and in a word vector, `d`.
    pub hidden: usize,
    /// LSTM layers.
    pub layers: usize,
    /// Weights start uniform within plus or minus this.
    pub init: f32,
    /// The classifier's matrix starts within plus or minus this, if it has one of its own; 0 for the same as `init`.
    #[serde(default)]
    pub classifier_init: f32,
    /// Probability that dropout keeps a unit.
    pub keep: KeepProb,
    /// Streams side by side, `B`.
    pub batch: usize,
    /// Equal groups of streams whose gradients are computed apart and added in this order, on one machine or on several; the
    /// number of machines then changes no bit.
    #[serde(default = "one")]
    pub shards: usize,
    /// Steps of back-propagation through time, `T`.
    pub unroll: usize,
    /// Passes over the training split.
    pub epochs: u32,
    /// Epochs of a second training that starts from the first one's final weights with the schedule reset (the paper's
    /// footnote to Table 1); 0 for none.
    pub second_training_epochs: u32,
    /// The first epochs' learning rate.
    pub learning_rate: f64,
    /// Factor on it for each epoch after `decay_after`.
    pub decay: f64,
    /// The last epoch at the full rate.
    pub decay_after: u32,
    /// Largest global norm of a gradient.
    pub clip: f64,
    /// Pulls every weight towards 0: so much of it is added to its clipped gradient.
    #[serde(default)]
    pub weight_decay: f64,
    /// It spares the word vectors, whose lengths decide how much the augmented loss asks for.
    #[serde(default)]
    pub spare_vectors: bool,
    /// The model is the mean of the weights over about this share of the steps done so far, the last ones
    /// ([`optim::average`](crate::optim::average)); 0 for the last step's weights alone.
    #[serde(default)]
    pub average: f64,
    /// Which epoch's weights are kept.
    #[serde(default)]
    pub select: Selection,
    /// Keep every word vector at length 1, as the theory experiment does.
    #[serde(default)]
    pub unit_vectors: bool,
    /// Stop when the validation perplexity has not improved for so many epochs; 0 never stops early.
    pub patience: u32,
    /// Streams used when validating during training (the final figures always use one).
    pub validation_streams: usize,
    /// What operands are rounded to.
    #[serde(default)]
    pub precision: Precision,
    /// Of a run that went on from another one with other settings (`bowline branch`): which, and what changed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// What the network is made of.
    #[serde(default)]
    pub network: NetworkConfig,
    /// How its weights start.
    #[serde(default)]
    pub start: StartConfig,
    /// Dropout by site, where `keep` is 1: the probability of keeping a unit.
    #[serde(default)]
    pub masks: Dropout,
    /// The optimiser.
    #[serde(default)]
    pub optimizer: OptimizerConfig,
    /// The learning rate.
    #[serde(default)]
    pub schedule: ScheduleConfig,
    /// How the training text is read.
    #[serde(default)]
    pub streams: StreamsConfig,
    /// Activation regularisation.
    #[serde(default)]
    pub activity: ActivityConfig,
    /// How the cross-entropy is computed.
    #[serde(default)]
    pub loss: LossConfig,
    /// The topics, where the network has them.
    #[serde(default)]
    pub topics: TopicsConfig,
    /// The corpus.
    pub data: DataConfig,
    /// The augmented loss, where the model has it.
    pub augment: AugmentConfig,
    /// Checkpoints.
    pub checkpoint: CheckpointConfig,
    /// What follows the training.
    #[serde(default)]
    pub finish: FinishConfig,
}

/// The version of `config.toml` that this program writes.
pub const VERSION: u32 = 2;

/// A `config.toml` has not more bytes than this.
pub(crate) const LONGEST_CONFIG: u64 = 1 << 20;

impl Config {
    /// The learning rate in the course of a training.
    pub fn schedule(&self) -> Schedule {
        let (learning_rate, decay, decay_after) = (self.learning_rate, self.decay, self.decay_after);
        Schedule { learning_rate, decay, decay_after, config: self.schedule.clone() }
    }

    /// Whether the rate of a training with `done` epochs done has been constant and does not depend, so far, on how many follow.
    pub fn rate_is_constant(&self, done: f64) -> bool {
        self.schedule.kind == ScheduleKind::Cosine && done <= self.schedule.constant * f64::from(self.epochs)
    }

    /// What the last layer's activity costs.
    pub fn activity(&self) -> Activity {
        Activity { ar: self.activity.ar, tar: self.activity.tar }
    }

    /// How a step at this learning rate is done.
    pub fn rule(&self, learning_rate: f64) -> Rule {
        Rule { learning_rate, clip: self.clip, weight_decay: self.weight_decay, spare_vectors: self.spare_vectors }
    }

    /// Epochs of one training.
    pub fn epochs_of(&self, training: Training) -> u32 {
        match training {
            Training::First => self.epochs,
            Training::Second => self.second_training_epochs,
        }
    }

    /// Epochs of both trainings.
    pub fn total_epochs(&self) -> u32 {
        self.epochs.saturating_add(self.second_training_epochs)
    }

    /// The settings of one of the paper's models, for a corpus: `ptb`, `wikitext-2`, `demo`, or a path.
    pub fn new(size: Size, model: ModelKind, data: &str) -> Config {
        preset(size, model, data)
    }

    /// Changes settings given as `key=value` and validates the result.
    pub fn with(self, settings: &[String]) -> Result<Config> {
        let config = set::apply(self, settings)?;
        config.validate()?;
        Ok(config)
    }

    /// The same with the settings of a table, by the names that [`Config::with`] takes.
    pub fn overlaid(self, settings: &toml::Table) -> Result<Config> {
        let config = set::overlay(&self, settings)?;
        config.validate()?;
        Ok(config)
    }

    /// The settings in which this differs from another: dotted name, the value here, the value there.
    pub fn differences(&self, other: &Config) -> Vec<(String, String, String)> {
        set::differences(self, other)
    }

    /// The text of `config.toml`.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| Error::config("config", e.to_string(), "another value"))
    }

    /// Reads a run's `config.toml`.
    pub fn read(path: &Path) -> Result<Config> {
        const PUT_BACK: &str =
            "restore the file as it was when the run began; settings are changed with `bowline train --set`";
        let bytes = crate::storage::files::read(path, LONGEST_CONFIG)?;
        let line_of = |at: usize| 1 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count();
        let text = std::str::from_utf8(&bytes)
            .map_err(|e| Error::run(path, format!("line {}: it is not UTF-8", line_of(e.valid_up_to())), PUT_BACK))?;
        let mut config: Config = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |span| line_of(span.start));
            Error::run(path, format!("line {line}: {}", e.message()), PUT_BACK)
        })?;
        // Version 1 has fewer settings, and those it lacks are as they were then.
        config.version = config.version.max(VERSION);
        config
            .validate()
            .map_err(|e| Error::run(path, e.to_string().replace("\n  try: ", "; possible is "), PUT_BACK))?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_kernels::Isa;

    #[test]
    fn a_config_survives_its_file() {
        for size in Size::ALL {
            for model in ModelKind::ALL {
                for data in ["ptb", "wikitext-2", "demo", "some/folder"] {
                    let config = preset(size, model, data);
                    config.validate().unwrap();
                    let back: Config = toml::from_str(&config.to_toml().unwrap()).unwrap();
                    assert_eq!(back, config);
                }
            }
        }
    }

    #[test]
    fn a_file_from_before_there_were_precisions_is_f32() {
        let config = preset(Size::Small, ModelKind::Real, "ptb");
        let text = config.to_toml().unwrap();
        assert!(text.contains("precision = \"f32\"\n"));
        assert_eq!(toml::from_str::<Config>(&text.replace("precision = \"f32\"\n", "")).unwrap(), config);
        for (name, precision) in [("bf16", Precision::Bf16), ("bf16-emulated", Precision::Bf16Emulated)] {
            let config = config.clone().with(&[format!("precision={name}")]).unwrap();
            assert_eq!(config.precision, precision);
            assert_eq!(bowline_kernels::Precision::from(precision).name(), name);
            // No CPU has the instruction on the portable path.
            let refused = config.check_cpu(Isa::PORTABLE).is_err();
            assert_eq!(refused, precision == Precision::Bf16);
        }
    }

    #[test]
    fn impossible_values_are_refused_with_the_possible_ones() {
        let message = |setting: &str| {
            let config = preset(Size::Small, ModelKind::Real, "ptb");
            config.with(&[setting.to_owned()]).unwrap_err().to_string()
        };
        assert_eq!(
            message("keep=0"),
            "setting `keep`: 0 is impossible\n  try: a value above 0, up to 1 (1 drops nothing)"
        );
        assert_eq!(
            message("keep=1.5"),
            "setting `keep`: 1.5 is impossible\n  try: a value above 0, up to 1 (1 drops nothing)"
        );
        assert_eq!(message("batch=0"), "setting `batch`: 0 is impossible\n  try: a value from 1 to 65536");
        assert_eq!(message("clip=-1"), "setting `clip`: -1 is impossible\n  try: a value above 0");
        assert_eq!(message("learning_rate=inf"), "setting `learning_rate`: inf is impossible\n  try: a value above 0");
        assert_eq!(message("augment.tau=0"), "setting `augment.tau`: 0 is impossible\n  try: a value above 0");
    }
}
