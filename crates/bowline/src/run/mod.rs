//! A run: a folder that holds a training from its settings to its result, and can be gone on with at any time.
//!
//! ```text
//! config.toml      the settings, written once
//! events.jsonl     all that happened, one JSON object a line
//! checkpoints/     last.safetensors and the one before it
//! best/            the model with the best validation perplexity
//! summary.json     the result, when the run is over
//! ```

mod card;
mod checkpoint;
mod clock;
mod folder;
mod kneser_ney;
mod log;
mod setup;
mod summary;
mod train;

pub use checkpoint::{Best, CurvePoint, Position};
pub use folder::RunFolder;
pub use kneser_ney::{DEFAULT_ORDER, NgramConfig, start_ngram};
pub use summary::{Summary, Timing};
pub use train::{Outcome, Session, Watch, resume, start};

use crate::config::{Config, DataConfig};
use crate::corpus::{Corpus, Options};
use crate::error::Result;
use crate::{data, demo};
use std::path::Path;

/// Opens the corpus that the settings name: `demo`, a public one that `bowline data get` has brought, or a path.
pub fn open_corpus(config: &DataConfig) -> Result<Corpus> {
    let vocab_size = (config.vocab_size > 0).then_some(config.vocab_size);
    let options = Options { vocab_size, tokenize: config.tokenize };
    if config.source == "demo" {
        let splits = demo::splits(demo::DEFAULT_SEED);
        return Corpus::from_texts(&splits.train, &splits.valid, &splits.test, options);
    }
    match data::by_name(&config.source) {
        Some(corpus) => Corpus::open(&data::locate(corpus, &data::Environment::current())?, options),
        None => Corpus::open(Path::new(&config.source), options),
    }
}

/// Checks that a corpus is long enough for the settings.
pub(crate) fn check_length(config: &Config, corpus: &Corpus) -> Result<()> {
    corpus.train.require_tokens(config.batch + 1, &format!("{} streams (setting `batch`)", config.batch))?;
    corpus.valid.require_tokens(2, "an evaluation")?;
    corpus.test.require_tokens(2, "an evaluation")
}
