//! `summary.json`: what came out of a run.

use super::checkpoint::{CurvePoint, infinite_if_null};
use crate::error::{Error, Result};
use crate::paper::Comparison;
use crate::predictor::Perplexities;
use crate::storage::{atomic, files};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A summary has not more bytes than this.
const LONGEST: u64 = 64 << 20;

/// The result of a run. All but `timing` depends on the settings and the data alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// `vd-lstm`, `al`, `re`, `real` or `kn`.
    pub model: String,
    /// `small`, `medium` or `large`; `5-gram` and the like for `kn`.
    pub size: String,
    /// The corpus, as it was asked for.
    pub data: String,
    /// SHA-256 of its three splits.
    pub data_sha256: [String; 3],
    /// Everything random follows from it; 0 for `kn`, where nothing is random.
    pub seed: u64,
    /// Trainable values.
    pub parameters: usize,
    /// Epochs done.
    pub epochs: u32,
    /// Training steps done.
    pub steps: u64,
    /// Why the training ended: `done` or `patience`.
    pub ended: String,
    /// The epoch whose weights are in `best/`.
    pub best_epoch: u32,
    /// Validation perplexity of `best/`, one stream.
    #[serde(deserialize_with = "infinite_if_null")]
    pub valid: f64,
    /// Test perplexity of `best/`, one stream.
    #[serde(deserialize_with = "infinite_if_null")]
    pub test: f64,
    /// Predictions made on the validation and test split.
    pub tokens: [usize; 2],
    /// Content hash of the weights in `best/`.
    pub weights_sha256: String,
    /// The paper's numbers for such a run and how this one stands to them, where the paper has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<Comparison>,
    /// What the model's own way of predicting brings, where the run has fitted one. How far the search for it came
    /// depends on the time it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictor: Option<Perplexities>,
    /// Every epoch.
    pub curve: Vec<CurvePoint>,
    /// How long it took, and where.
    pub timing: Timing,
}

/// What is different each time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Seconds of the process that finished the run.
    pub seconds: f64,
    /// Training words per second of that process, validation left out.
    pub words_per_second: f64,
    /// Threads, instruction set, processor.
    pub machine: String,
}

impl Summary {
    /// Writes it.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::run(path, format!("the summary cannot be written: {e}"), "report this"))?;
        atomic::write(path, |out| out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")))
    }

    /// Reads one.
    pub fn read(path: &Path) -> Result<Summary> {
        let text = files::read_text(path, LONGEST)?;
        serde_json::from_str(&text).map_err(|e| {
            Error::run(path, format!("line {}: {e}", e.line()), "`bowline resume` on its run, which writes it again")
        })
    }
}
