//! What a run does after its training.

use serde::{Deserialize, Serialize};

/// What a run does after its training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishConfig {
    /// Fit the model's own way of predicting: Kneser-Ney n-grams beside it, a cache, dynamic evaluation.
    pub predictor: bool,
    /// Seconds for that, about.
    pub seconds: f64,
}
