//! The settings of the topics, for a network that has them (`network.topics`).

use super::Config;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// How the topics are found, and what the features look back on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicsConfig {
    /// How many there are.
    pub count: usize,
    /// Words that the features look back on.
    pub window: usize,
    /// Sentences of a document.
    pub sentences: usize,
    /// Sweeps over the training text.
    pub sweeps: usize,
    /// Occurrences that a word is taken to have besides its own, with the topics of all words: what a rare word seems to say
    /// of its topics is what the few places said where it was found, and there the model learns.
    #[serde(default)]
    pub shrinkage: f32,
    /// Added to the probabilities before their logarithm is taken.
    pub smoothing: f32,
    /// Factor on the logarithm.
    pub sharpness: f32,
}

impl Default for TopicsConfig {
    fn default() -> TopicsConfig {
        TopicsConfig {
            count: 40,
            window: 50,
            sentences: 10,
            sweeps: 60,
            shrinkage: 0.0,
            smoothing: 0.02,
            sharpness: 0.3,
        }
    }
}

impl Config {
    pub(super) fn validate_topics(&self) -> Result<()> {
        let topics = &self.topics;
        for (key, value, most) in [
            ("topics.count", topics.count, 4096),
            ("topics.window", topics.window, 4096),
            ("topics.sentences", topics.sentences, 1 << 20),
            ("topics.sweeps", topics.sweeps, 1 << 20),
        ] {
            if !(1..=most).contains(&value) {
                let advice = format!("a value from 1 to {most}; a network without topics has `network.topics=false`");
                return Err(Error::config(key, format!("{value} is impossible"), advice));
            }
        }
        for (key, value) in [("topics.smoothing", topics.smoothing), ("topics.sharpness", topics.sharpness)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::config(key, format!("{value} is impossible"), "a value above 0"));
            }
        }
        if !(topics.shrinkage >= 0.0 && topics.shrinkage.is_finite()) {
            let problem = format!("{} is impossible", topics.shrinkage);
            return Err(Error::config("topics.shrinkage", problem, "a value of at least 0"));
        }
        Ok(())
    }
}
