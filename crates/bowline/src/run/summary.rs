//! `summary.json`: what came out of a run.

use super::checkpoint::{CurvePoint, infinite_if_null};
use crate::error::{Error, Result};
use crate::storage::atomic;
use serde::{Deserialize, Serialize};
use std::path::Path;

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
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::run(path, format!("the summary cannot be written: {e}"), "report this"))?;
        atomic::write(path, |out| out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")))
    }

    /// Reads one.
    pub fn read(path: &Path) -> Result<Summary> {
        let text = std::fs::read_to_string(path).map_err(Error::io(path, "read"))?;
        serde_json::from_str(&text).map_err(|e| {
            Error::run(path, format!("line {}: {e}", e.line()), "`bowline resume` on its run, which writes it anew")
        })
    }
}
