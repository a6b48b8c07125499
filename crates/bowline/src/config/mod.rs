//! The settings of a run: a preset, changed by `--set key=value`, validated once, written to the run's `config.toml`.

mod finish;
mod loss;
mod model;
mod network;
mod presets;
mod set;
mod settings;
mod streams;
mod topics;

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
use crate::model::{Activity, AugmentedForm, AugmentedLoss, Dropout, KeepProb, Site, Sites};
use crate::optim::{OptimizerConfig, OptimizerKind, Rule, Schedule, ScheduleConfig};
use bowline_kernels::Isa;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Whether the gradient of the augmented loss flows through `y~` into the embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetGradient {
    /// `y~` is differentiated like everything else.
    Flow,
    /// `y~` counts as a constant.
    Stop,
}

/// How the augmented loss is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// As the paper has it.
    #[default]
    Exact,
    /// To second order at high temperature, for tied models: an approximation that costs almost nothing.
    Gram,
}

/// What becomes of the cross-entropy `J` and the augmented loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossRule {
    /// `J + gamma tau J_aug`: what the models are trained with.
    #[default]
    Sum,
    /// `beta tau^2 |V| J_aug + (1 - beta) J`: the theory experiment of section 5.2.
    Mixture,
}

/// Where `y~` comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetSource {
    /// From the similarity of the word vectors, as the paper proposes.
    #[default]
    Embedding,
    /// The true distribution at the temperature `tau` (section 3's ideal case): known of the built-in corpus alone.
    Truth,
    /// The mean of what trained models say at the temperature `tau`.
    Teacher,
}

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

/// The augmented loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugmentConfig {
    /// Temperature.
    pub tau: f32,
    /// Weight: `alpha = gamma * tau`.
    pub gamma: f32,
    /// Through `y~` or not.
    pub gradient: TargetGradient,
    /// Exact, or the cheap approximation.
    #[serde(default)]
    pub form: Form,
    /// A sum, or the theory experiment's mixture.
    #[serde(default)]
    pub loss: LossRule,
    /// The part of the augmented loss in the mixture.
    #[serde(default)]
    pub beta: f32,
    /// The embedding's estimate, or the truth.
    #[serde(default)]
    pub target: TargetSource,
    /// The models it comes from, where it is theirs: folders of models or of runs.
    #[serde(default)]
    pub teachers: Vec<String>,
    /// What tells the weights of each from others; filled in when the run begins.
    #[serde(default)]
    pub teachers_sha256: Vec<String>,
    /// The training with which it begins: the first, as the paper has it, or the second, after a first one that is that of
    /// the model without it.
    #[serde(default)]
    pub begin: Training,
}

/// The second-order form looks at one word of the vocabulary in so many, others each step.
const GRAM_SHARES: usize = 8;

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
    /// Whether the loss of this training is augmented.
    pub fn augments(&self, training: Training) -> bool {
        self.augmented() && training >= self.augment.begin
    }

    /// The augmented loss of a training step with `vocab` words, for a training that has it.
    pub fn augmented_loss(&self, training: Training, step: u64, vocab: usize) -> Option<AugmentedLoss> {
        let augment = &self.augment;
        // In the mixture the weight of J_aug is alpha = beta tau^2 |V|, and gamma = alpha / tau.
        let (gamma, cross) = match augment.loss {
            LossRule::Sum => (augment.gamma, 1.0),
            LossRule::Mixture => (augment.beta * augment.tau * vocab as f32, 1.0 - augment.beta),
        };
        let given = augment.target != TargetSource::Embedding;
        self.augments(training).then_some(AugmentedLoss {
            tau: augment.tau,
            gamma,
            cross,
            flow: augment.gradient == TargetGradient::Flow && !given,
            form: match augment.form {
                Form::Exact if given => AugmentedForm::Given,
                Form::Exact => AugmentedForm::Exact,
                Form::Gram => AugmentedForm::Gram { shares: GRAM_SHARES, turn: step },
            },
        })
    }

    /// Whether the loss is augmented, in one training at least.
    pub fn augmented(&self) -> bool {
        self.model.augmented() || self.augment.target == TargetSource::Teacher
    }

    /// The learning rate in the course of a training.
    pub fn schedule(&self) -> Schedule {
        let (learning_rate, decay, decay_after) = (self.learning_rate, self.decay, self.decay_after);
        Schedule { learning_rate, decay, decay_after, config: self.schedule.clone() }
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

    /// Checks every value; the error names the first impossible one.
    pub fn validate(&self) -> Result<()> {
        let check = |key: &str, possible: bool, found: &dyn std::fmt::Display, range: &str| {
            if possible {
                return Ok(());
            }
            Err(Error::config(key, format!("{found} is impossible"), format!("a value {range}")))
        };
        let (f, positive) = (|x: f64| x.is_finite(), "above 0");
        check(
            "version",
            (1..=VERSION).contains(&self.version),
            &self.version,
            &format!("from 1 to {VERSION}, or another version of bowline"),
        )?;
        check("hidden", (1..=65_536).contains(&self.hidden), &self.hidden, "from 1 to 65536")?;
        // Only a network that reads several words at a time can do without a layer.
        let least = usize::from(self.network.context == 0);
        check("layers", (least..=64).contains(&self.layers), &self.layers, &format!("from {least} to 64"))?;
        check("init", self.init.is_finite() && self.init > 0.0, &self.init, positive)?;
        let of_classifier = self.classifier_init;
        check("classifier_init", of_classifier.is_finite() && of_classifier >= 0.0, &of_classifier, "of at least 0")?;
        check("keep", self.keep.0 > 0.0 && self.keep.0 <= 1.0, &self.keep.0, "above 0, up to 1 (1 drops nothing)")?;
        check("batch", (1..=65_536).contains(&self.batch), &self.batch, "from 1 to 65536")?;
        self.validate_shards()?;
        check("unroll", (1..=65_536).contains(&self.unroll), &self.unroll, "from 1 to 65536")?;
        check("epochs", self.epochs >= 1, &self.epochs, "of at least 1")?;
        check("learning_rate", f(self.learning_rate) && self.learning_rate > 0.0, &self.learning_rate, positive)?;
        check("decay", self.decay > 0.0 && self.decay <= 1.0, &self.decay, "above 0, up to 1 (1 never decays)")?;
        check("clip", f(self.clip) && self.clip > 0.0, &self.clip, positive)?;
        let (decay, most) = (self.weight_decay, 1.0 / self.learning_rate);
        check(
            "weight_decay",
            (0.0..most).contains(&decay),
            &decay,
            &format!("from 0 to below {most} (1 / learning_rate)"),
        )?;
        let share = self.average;
        check("average", (0.0..1.0).contains(&share), &share, "from 0 (no mean) to below 1")?;
        self.validate_topics()?;
        self.validate_network()?;
        self.validate_training()?;
        let streams = self.validation_streams;
        check("validation_streams", (1..=65_536).contains(&streams), &streams, "from 1 to 65536")?;
        let (tau, gamma) = (self.augment.tau, self.augment.gamma);
        check("augment.tau", tau.is_finite() && tau > 0.0, &tau, positive)?;
        check("augment.gamma", gamma.is_finite() && gamma >= 0.0, &gamma, "of at least 0")?;
        if self.augment.form == Form::Gram && self.augmented() && !self.tied() {
            let advice = "`augment.form=exact`, or `--model real`, whose classifier reuses the embedding";
            return Err(Error::config("augment.form", "the second-order form is for tied models", advice));
        }
        if self.augmented() && self.augment.begin == Training::Second && self.second_training_epochs == 0 {
            let advice = "`second_training_epochs=N`, or `augment.begin=first`";
            return Err(Error::config("augment.begin", "there is no second training to begin with", advice));
        }
        let beta = self.augment.beta;
        check("augment.beta", (0.0..=1.0).contains(&beta), &beta, "from 0 to 1")?;
        if self.augment.target == TargetSource::Truth {
            if self.data.source != "demo" {
                let problem = format!("the true distribution of `{}` is not known", self.data.source);
                return Err(Error::config("augment.target", problem, "`augment.target=embedding`, or `--data demo`"));
            }
            if self.data.train_start > 0 {
                let problem = "the true distribution is known from the beginning of the text on";
                return Err(Error::config("data.train_start", problem, "`data.train_start=0`"));
            }
        }
        if self.augment.target != TargetSource::Embedding && self.augment.form == Form::Gram {
            let problem = "the second-order form is of the embedding's estimate";
            return Err(Error::config("augment.form", problem, "`augment.form=exact`"));
        }
        if self.augment.target != TargetSource::Teacher && !self.augment.teachers.is_empty() {
            let problem = "there are teachers, and the target is not theirs";
            return Err(Error::config("augment.target", problem, "`--set augment.target=teacher`, or no `--teacher`"));
        }
        let every = self.checkpoint.every_seconds;
        check("checkpoint.every_seconds", f(every) && every >= 0.0, &every, "of at least 0")?;
        let seconds = self.finish.seconds;
        check("finish.seconds", f(seconds) && seconds >= 0.0, &seconds, "of at least 0")?;
        let words = self.data.vocab_size;
        check("data.vocab_size", words == 0 || words >= 3, &words, "of at least 3, or 0 to keep all words")
    }

    fn validate_shards(&self) -> Result<()> {
        let (shards, batch) = (self.shards, self.batch);
        if shards == 0 || !batch.is_multiple_of(shards) {
            let problem = format!("{batch} streams (setting `batch`) cannot be divided into {shards} equal shards");
            let divisors: Vec<String> =
                (1..=batch).filter(|n| batch.is_multiple_of(*n)).map(|n| n.to_string()).collect();
            return Err(Error::config(
                "shards",
                problem,
                format!("one of {}, or another `batch`", divisors.join(", ")),
            ));
        }
        if shards > 1 && self.augmented() && self.augment.target != TargetSource::Embedding {
            let problem = "targets that the truth or a teacher gives are for whole batches";
            return Err(Error::config("shards", problem, "`shards=1`, or `augment.target=embedding`"));
        }
        Ok(())
    }

    fn validate_network(&self) -> Result<()> {
        let network = &self.network;
        if self.model.paper_tied().is_some() && (network.tied || network.bias) {
            let problem = format!("the name `{}` says already whether the classifier is tied", self.model.name());
            return Err(Error::config("network.tied", problem, "`--model re` for tied, `--model vd-lstm` for untied"));
        }
        // Any number of words will do to see whether there can be such a network, if each class has one.
        let spec = self.spec(self.network.classes.clamp(3, 1 << 20));
        spec.check().map_err(|problem| {
            let advice =
                "other values of `hidden`, `layers`, `network.widths`, `network.embedding`, `network.projection`";
            Error::config("network", problem, advice)
        })?;
        if spec.features() > 0 && self.masks.per_gate.contains(Site::Input) {
            let problem = "topics come in beside the word vectors without a mask, and a mask by gate is on all inputs";
            return Err(Error::config("masks.per_gate", problem, "a list without `input`"));
        }
        if self.network.direct && self.masks.per_gate.contains(Site::Input) {
            let problem = "direct inputs have values of their own for each gate, and so masks";
            return Err(Error::config("masks.per_gate", problem, "a list without `input`"));
        }
        if network.unit == UnitName::Mogrifier && self.masks.per_gate != Sites::default() {
            let problem =
                "the input and the state of a Mogrifier gate each other before they are consumed, once for all gates";
            return Err(Error::config("masks.per_gate", problem, "an empty list"));
        }
        if network.sum_layers && self.activity() != Activity::default() {
            let problem = "the activity that costs is the last layer's, and the classifier sees the sum of all";
            return Err(Error::config(
                "network.sum_layers",
                problem,
                "false, or `activity.ar` and `activity.tar` of 0",
            ));
        }
        if spec.input.characters.is_some() && self.augmented() && self.augment.target == TargetSource::Embedding {
            let problem = "the augmented loss compares word vectors, and these come from characters";
            return Err(Error::config("network.characters.maps", problem, "[], or a model without the augmented loss"));
        }
        if spec.input.characters.is_some() && self.unit_vectors {
            let problem = "word vectors that come from characters cannot be scaled to length 1";
            return Err(Error::config("unit_vectors", problem, "`unit_vectors=false`"));
        }
        let masks_inputs = [self.keep, self.masks.input, self.masks.word].iter().any(|keep| keep.0 < 1.0);
        if spec.input.context.is_some() && masks_inputs {
            let problem = "words that are read side by side have no masks";
            return Err(Error::config("network.context", problem, "0, or `keep`, `masks.input` and `masks.word` at 1"));
        }
        if (spec.input.context.is_some() || spec.output.sum_product.is_some()) && self.augmented() {
            let problem = "the augmented loss is for a softmax over what a network remembers";
            return Err(Error::config("network.context", problem, "0, or a model without the augmented loss"));
        }
        if spec.output.pointer.is_some() && self.augmented() {
            let problem = "the augmented loss is for a classifier that predicts alone, not for one beside a pointer";
            return Err(Error::config("network.pointer", problem, "0, or a model without the augmented loss"));
        }
        if spec.output.classes.is_some() && self.augmented() {
            let problem = "the augmented loss is for one softmax, not for classes of words";
            return Err(Error::config("network.classes", problem, "0, or a model without the augmented loss"));
        }
        if spec.output.mixture.is_some() && self.augmented() {
            let problem = "the augmented loss is for one softmax, not for a mixture of them";
            return Err(Error::config("network.softmaxes", problem, "1, or a model without the augmented loss"));
        }
        let estimated = self.augmented() && self.augment.target == TargetSource::Embedding;
        if estimated && spec.input.width != spec.width() {
            let problem =
                "the augmented loss compares what the classifier sees with word vectors, of another size here";
            let advice = format!("`network.embedding={}`, or a model without it", spec.width());
            return Err(Error::config("network.embedding", problem, advice));
        }
        Ok(())
    }

    fn validate_training(&self) -> Result<()> {
        let check = |key: &str, possible: bool, found: &dyn std::fmt::Display, range: &str| {
            if possible {
                return Ok(());
            }
            Err(Error::config(key, format!("{found} is impossible"), format!("a value {range}")))
        };
        for (site, keep) in self.masks.sites() {
            let possible = keep.0 > 0.0 && keep.0 <= 1.0;
            check(&format!("masks.{site}"), possible, &keep.0, "above 0, up to 1 (1 drops nothing)")?;
        }
        if let Some(site) = self.masks.without_gates().next() {
            let problem =
                format!("what is masked at `{}` is not consumed by gates", format!("{site:?}").to_lowercase());
            return Err(Error::config("masks.per_gate", problem, "only `input`, `state` and `between`"));
        }
        if self.keep.0 < 1.0 && !self.masks.is_off() {
            let problem = "there are masks by site (`masks.*`) and the paper's (`keep`)";
            return Err(Error::config("keep", problem, "`keep=1`, or all of `masks.*` at 1"));
        }
        let optimizer = &self.optimizer;
        check("optimizer.beta1", (0.0..1.0).contains(&optimizer.beta1), &optimizer.beta1, "from 0 to below 1")?;
        check("optimizer.beta2", (0.0..1.0).contains(&optimizer.beta2), &optimizer.beta2, "from 0 to below 1")?;
        let epsilon = optimizer.epsilon;
        check("optimizer.epsilon", epsilon > 0.0 && epsilon.is_finite(), &epsilon, "above 0")?;
        if optimizer.kind == OptimizerKind::Asgd && self.average > 0.0 {
            let problem = "asgd has a mean of its own";
            return Err(Error::config("average", problem, "`average=0`, or `optimizer.kind=sgd`"));
        }
        let schedule = &self.schedule;
        check("schedule.constant", (0.0..1.0).contains(&schedule.constant), &schedule.constant, "from 0 to below 1")?;
        check(
            "schedule.factor",
            schedule.factor > 0.0 && schedule.factor <= 1.0,
            &schedule.factor,
            "above 0, up to 1",
        )?;
        let gain = schedule.gain;
        check("schedule.gain", gain >= 0.0 && gain.is_finite(), &gain, "of at least 0")?;
        check("schedule.patience", schedule.patience >= 1, &schedule.patience, "of at least 1")?;
        let reset = self.streams.reset;
        check("streams.reset", (0.0..=1.0).contains(&reset), &reset, "from 0 to 1")?;
        if self.streams.random_length && self.augment.target == TargetSource::Truth {
            let problem = "the true distribution is laid beside windows of one length";
            return Err(Error::config("streams.random_length", problem, "`streams.random_length=false`"));
        }
        self.validate_sampled()?;
        for (key, weight) in [("activity.ar", self.activity.ar), ("activity.tar", self.activity.tar)] {
            check(key, weight >= 0.0 && weight.is_finite(), &weight, "of at least 0")?;
        }
        Ok(())
    }

    /// What needs the probabilities of all words, or the gradient of each shard, cannot have a sample.
    fn validate_sampled(&self) -> Result<()> {
        let (what, advice) = match () {
            () if self.loss.sampled == 0 => return Ok(()),
            () if self.augmented() => ("the augmented loss", "`--model re` or `--model vd-lstm`"),
            () if self.network.pointer > 0 => ("a pointer", "`network.pointer=0`"),
            () if self.spec(2).output.mixture.is_some() => ("a mixture of softmaxes", "one softmax"),
            () if self.network.sum_product > 0 => ("a sum-product network", "`network.sum_product=0`"),
            () if self.network.classes > 0 => ("a network with classes", "`network.classes=0`"),
            () if self.spec(2).input.characters.is_some() => {
                ("a network that reads characters", "one with word vectors")
            }
            () if self.shards > 1 => ("a batch in shards", "`shards=1`"),
            () => return Ok(()),
        };
        let problem = format!("{what} cannot be learned from a sample of the words");
        Err(Error::config("loss.sampled", problem, format!("{advice}, or `loss.sampled=0`")))
    }

    /// Whether this CPU can do what the settings ask for; they may come from another one.
    pub fn check_cpu(&self, isa: Isa) -> Result<()> {
        if bowline_kernels::Precision::from(self.precision).available(isa) {
            return Ok(());
        }
        let advice = "`precision=f32`, or `precision=bf16-emulated`, which rounds in the same way on any CPU but is \
                      slower than f32";
        Err(Error::config("precision", "this CPU has no instruction for bf16 (avx512_bf16)", advice))
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
