//! A run: a folder that holds a training from its settings to its result, and can be resumed at any time.
//!
//! ```text
//! config.toml      the settings, written once
//! events.jsonl     all that happened, one JSON object a line
//! checkpoints/     last.safetensors and the one before it
//! best/            the model with the best validation perplexity
//! summary.json     the result, when the run is over
//! train.ids        the words of a large training text, by their numbers; made again if missing
//! tensorboard/     the curves for TensorBoard, where they were asked for
//! ```

mod agree;
mod branch;
mod checkpoint;
mod clock;
mod config;
mod describe;
mod finish;
pub mod fit;
mod folder;
mod init;
mod kneser_ney;
mod log;
mod memory;
mod own_text;
pub mod ranks;
mod rewrite;
mod setup;
mod shards;
mod summary;
mod teacher;
mod train;
mod true_targets;

pub use agree::{all_can, common_isa};
pub use branch::{branch, branch_as};
pub(crate) use checkpoint::infinite_if_null;
pub use checkpoint::{Best, CurvePoint, Position};
pub use config::RunConfig;
pub use folder::{LONGEST_LOG, RunFolder};
pub use kneser_ney::{DEFAULT_ORDER, NgramConfig, start_ngram};
pub use own_text::{OwnText, recorded_isa};
pub(crate) use rewrite::rewrite;
pub use summary::{Summary, Timing};
pub use train::{Outcome, Session, Watch, resume, resume_among, start, start_among};

use crate::config::{Config, DataConfig};
use crate::corpus::{Corpus, CorpusOptions};
use crate::data;
use crate::error::{Error, Result};
use crate::event::{Event, Progress};
use crate::storage::files;
use crate::vocabulary::Vocabulary;
use bowline_demo as demo;
use bowline_kernels::Isa;

use std::path::Path;

/// All threads of the machine, with its best instructions.
impl Default for Session {
    fn default() -> Session {
        Session { threads: std::thread::available_parallelism().map_or(1, usize::from), isa: Isa::detect() }
    }
}

/// Nobody watches.
impl Watch for () {
    fn event(&mut self, _: &Event) {}
    fn progress(&mut self, _: &Progress) {}
    fn notice(&mut self, _: &str) {}
    fn stop(&self) -> bool {
        false
    }
}

/// Opens the corpus that the settings name: `demo`, a public one that `bowline data get` has brought, or a path; and cuts
/// it to the piece they ask for. The vocabulary is that of the whole training text.
pub fn open_corpus(config: &DataConfig) -> Result<Corpus> {
    let mut corpus = open_whole(config)?;
    let ids = &mut corpus.train.ids;
    if let Some((_, half)) = data::half(&config.source) {
        let middle = ids.len() / 2;
        ids.cut(if half == 0 { 0..middle } else { middle..ids.len() });
    }
    let end = if config.train_words == 0 { ids.len() } else { config.train_start.saturating_add(config.train_words) };
    if end > ids.len() || config.train_start >= end {
        let (first, words) = (config.train_start, ids.len());
        let problem = format!("words {first} to {end} are asked for, and the training text has {words}");
        return Err(Error::config("data.train_words", problem, "a piece that lies within the text, or 0 for all"));
    }
    ids.cut(config.train_start..end);
    if config.valid_words > 0 {
        corpus.valid.ids.truncate(config.valid_words);
    }
    Ok(corpus)
}

/// A file of words has not more bytes than this.
const LONGEST_VOCABULARY: u64 = 1 << 28;

fn open_whole(config: &DataConfig) -> Result<Corpus> {
    let vocab_size = (config.vocab_size > 0).then_some(config.vocab_size);
    let vocabulary = match config.vocabulary.as_str() {
        "" => None,
        path => Some(Vocabulary::from_list(Path::new(path), &files::read(Path::new(path), LONGEST_VOCABULARY)?)?),
    };
    let options = CorpusOptions {
        vocab_size,
        min_count: config.min_count,
        vocabulary,
        extend: config.extend,
        tokenize: config.tokenize,
        ids: config.ids,
    };
    if config.source == "demo" {
        let splits = demo::splits(demo::DEFAULT_SEED);
        return Corpus::from_texts(&splits.train, &splits.valid, &splits.test, options);
    }
    match data::by_name(&config.source) {
        Some(corpus) => Corpus::open(&data::locate(corpus, &data::Environment::current())?, options),
        None => Corpus::open(Path::new(&config.source), options),
    }
}

/// Checks that a training with these settings, and so many different words, fits into the memory that is free.
pub(crate) fn require_memory(config: &Config, vocab: usize) -> Result<()> {
    memory::require(setup::memory(config, vocab), memory::available())
}

/// Checks that a corpus is long enough for the settings.
pub(crate) fn check_length(config: &Config, corpus: &Corpus) -> Result<()> {
    corpus.train.require_tokens(config.batch + 1, &format!("{} streams (setting `batch`)", config.batch))?;
    corpus.valid.require_tokens(2, "an evaluation")?;
    corpus.test.require_tokens(2, "an evaluation")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo(train_start: usize, train_words: usize, valid_words: usize) -> Result<Corpus> {
        open_corpus(&DataConfig {
            source: "demo".to_owned(),
            train_start,
            train_words,
            valid_words,
            ..DataConfig::default()
        })
    }

    #[test]
    fn a_piece_of_a_text_has_the_vocabulary_of_the_whole() {
        let (whole, piece) = (demo(0, 0, 0).unwrap(), demo(700, 2_000, 300).unwrap());
        let whole_ids = whole.train_ids().unwrap();
        assert_eq!(*piece.train_ids().unwrap(), whole_ids[700..2_700]);
        assert_eq!(piece.valid.ids, whole.valid.ids[..300]);
        assert_eq!(*demo(700, 0, 0).unwrap().train_ids().unwrap(), whole_ids[700..]);
        assert_eq!((&piece.test, &piece.vocabulary), (&whole.test, &whole.vocabulary));
    }

    #[test]
    fn a_piece_must_lie_within_the_text() {
        for (start, words) in [(0, 10_000_000), (149_000, 5_000), (10_000_000, 0), (usize::MAX, usize::MAX)] {
            let message = demo(start, words, 0).unwrap_err().to_string();
            assert!(message.contains("and the training text has"), "{message}");
        }
    }
}
