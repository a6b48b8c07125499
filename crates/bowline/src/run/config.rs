//! The settings of a run, whatever it trains.

use super::kneser_ney::{KIND, NgramConfig};
use crate::config::{Config, DataConfig};
use crate::error::{Error, Result};
use std::path::Path;

/// What a run's `config.toml` says.
#[derive(Clone, Debug, PartialEq)]
pub enum RunConfig {
    /// A network is trained.
    Network(Box<Config>),
    /// An n-gram model is estimated.
    Ngrams(NgramConfig),
}

impl From<Config> for RunConfig {
    fn from(config: Config) -> RunConfig {
        RunConfig::Network(Box::new(config))
    }
}

impl RunConfig {
    /// Reads a run's `config.toml`.
    pub fn read(path: &Path) -> Result<RunConfig> {
        match NgramConfig::read(path)? {
            Some(config) => Ok(RunConfig::Ngrams(config)),
            None => Config::read(path).map(RunConfig::from),
        }
    }

    /// The settings of a network's training.
    pub fn network(&self) -> Option<&Config> {
        match self {
            RunConfig::Network(config) => Some(config),
            RunConfig::Ngrams(_) => None,
        }
    }

    /// The name that `--model` takes.
    pub fn model(&self) -> &'static str {
        match self {
            RunConfig::Network(config) => config.model.name(),
            RunConfig::Ngrams(_) => KIND,
        }
    }

    /// The model's name for people.
    pub fn title(&self) -> String {
        match self {
            RunConfig::Network(config) => config.model.title().to_owned(),
            RunConfig::Ngrams(config) => format!("KN-{}", config.order),
        }
    }

    /// Whether the loss is augmented.
    pub fn augmented(&self) -> bool {
        self.network().is_some_and(|config| config.augmented())
    }

    /// The size's name; `5-gram` and the like for n-grams.
    pub fn size(&self) -> String {
        match self {
            RunConfig::Network(config) => config.size.name().to_owned(),
            RunConfig::Ngrams(config) => format!("{}-gram", config.order),
        }
    }

    /// The corpus.
    pub fn data(&self) -> &DataConfig {
        match self {
            RunConfig::Network(config) => &config.data,
            RunConfig::Ngrams(config) => &config.data,
        }
    }

    /// What everything random follows from, where something is.
    pub fn seed(&self) -> Option<u64> {
        self.network().map(|config| config.seed)
    }

    /// Passes over the training text.
    pub fn total_epochs(&self) -> u32 {
        self.network().map_or(1, Config::total_epochs)
    }

    /// As `config.toml` has it.
    pub fn to_toml(&self) -> Result<String> {
        match self {
            RunConfig::Network(config) => config.to_toml(),
            RunConfig::Ngrams(config) => {
                toml::to_string(config).map_err(|e| Error::config("config", e.to_string(), "another value"))
            }
        }
    }
}
