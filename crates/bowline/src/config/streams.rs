//! How the training text is read.

use serde::{Deserialize, Serialize};

/// How the training text is read, besides `batch` and `unroll`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsConfig {
    /// The text begins at another word in every epoch, and goes on with its beginning after its end.
    pub offset: bool,
    /// The probability that a stream forgets its state before a window.
    pub reset: f64,
    /// Windows are of random length: `unroll` on average (half of it in one of 20), at least 5, with a standard deviation of 5;
    /// the learning rate goes with the length (Merity et al. 2018).
    pub random_length: bool,
}

/// What else the loss has, besides the cross-entropy and the augmented loss.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActivityConfig {
    /// The weight of the mean square of the last layer's output, with its mask.
    pub ar: f32,
    /// The weight of the mean square of its change from step to step, without.
    pub tar: f32,
}
