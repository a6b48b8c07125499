//! What a run says, as one stream of events: JSON lines in the run's `events.jsonl`, and the same values to whoever watches.

use crate::run::infinite_if_null;
use serde::{Deserialize, Serialize};

/// One line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A run begins.
    Start {
        /// Seconds since 1970.
        time: u64,
        /// Version of the program.
        version: String,
        /// `vd-lstm`, `al`, `re`, `real` or `kn`.
        model: String,
        /// The corpus, as it was asked for.
        data: String,
        /// Of the training split.
        data_sha256: String,
        /// Words in the vocabulary.
        vocab: usize,
        /// Words in the training, validation and test split.
        words: [usize; 3],
        /// Unseen words in the validation and test split, counted as `<unk>`.
        unseen: [usize; 2],
        /// Trainable values.
        parameters: usize,
        /// Epochs of both trainings.
        epochs: u32,
        /// Training steps in an epoch.
        steps_per_epoch: usize,
        /// Bytes of weights, gradient and buffers, about.
        memory: usize,
        /// Threads and instruction set.
        machine: String,
    },
    /// A run goes on from a checkpoint.
    Resume {
        /// Seconds since 1970.
        time: u64,
        /// The step it goes on with.
        step: u64,
        /// The epoch it goes on in, from 1.
        epoch: u32,
        /// Epochs of both trainings; 0 in the logs of earlier versions.
        #[serde(default)]
        epochs: u32,
        /// Whether the training is over, and only the final evaluation is done again.
        #[serde(default)]
        over: bool,
    },
    /// A run was asked to stop, and everything is saved. When the run is resumed, this line goes.
    Stop {
        /// Seconds since 1970.
        time: u64,
        /// Steps done.
        step: u64,
        /// The epoch it is in, from 1.
        epoch: u32,
    },
    /// Some training steps.
    Progress(Progress),
    /// The end of an epoch.
    Epoch(EpochEnd),
    /// The second training of the paper's footnote begins, from the weights as they are.
    SecondTraining {
        /// Its first epoch, from 1.
        epoch: u32,
    },
    /// The run is over.
    End {
        /// Seconds since 1970.
        time: u64,
        /// Why: `done` or `patience`.
        reason: String,
        /// The epoch whose weights were kept.
        best_epoch: u32,
        /// Perplexity of those on the validation split, one stream.
        #[serde(deserialize_with = "infinite_if_null")]
        valid: f64,
        /// And on the test split.
        #[serde(deserialize_with = "infinite_if_null")]
        test: f64,
    },
}

/// The state of a running epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Epoch, from 1.
    pub epoch: u32,
    /// Steps done in the whole run.
    pub step: u64,
    /// Steps done in this epoch.
    pub epoch_step: usize,
    /// Steps in an epoch.
    pub epoch_steps: usize,
    /// Loss per word so far in this epoch, `CE + alpha KL`, in nats.
    #[serde(deserialize_with = "infinite_if_null")]
    pub loss: f64,
    /// Perplexity so far in this epoch, with dropout.
    #[serde(deserialize_with = "infinite_if_null")]
    pub perplexity: f64,
    /// Mean `KL(y~ || y^)` so far in this epoch.
    pub kl: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Global norm of the last gradient, before clipping.
    pub gradient_norm: f64,
    /// Training words per second, lately.
    pub words_per_second: f64,
    /// Seconds until the end of the run, as far as one can tell.
    #[serde(deserialize_with = "infinite_if_null")]
    pub eta_seconds: f64,
}

/// The result of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochEnd {
    /// Epoch, from 1.
    pub epoch: u32,
    /// Steps done in the whole run.
    pub step: u64,
    /// Training loss per word, `CE + alpha KL`.
    #[serde(deserialize_with = "infinite_if_null")]
    pub loss: f64,
    /// Training perplexity, with dropout.
    #[serde(deserialize_with = "infinite_if_null")]
    pub train: f64,
    /// Mean `KL(y~ || y^)`.
    pub kl: f64,
    /// Mean KL of the word vectors' `y~` from the truth on the validation split, where the truth is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kl: Option<f64>,
    /// Validation perplexity.
    #[serde(deserialize_with = "infinite_if_null")]
    pub valid: f64,
    /// Whether it is the best so far.
    pub best: bool,
    /// Learning rate.
    pub learning_rate: f64,
    /// Seconds the epoch took, as far as this process saw it.
    pub seconds: f64,
}
