//! How the loss of a word is computed.

use serde::{Deserialize, Serialize};

/// How the cross-entropy is computed in training. Evaluation is always over the whole vocabulary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossConfig {
    /// Over about so many words, drawn for each window, besides its targets; 0 for the whole vocabulary.
    pub sampled: usize,
}
