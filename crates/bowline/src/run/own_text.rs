//! The text that a model's run was trained on, cut as it was for the training.
//!
//! A plain text file is split by the run itself (80% train, 10% valid, 10% test). To evaluate on that file as a whole would
//! score the training lines again, so whoever evaluates asks here first.

use super::folder::RunFolder;
use super::open_corpus;
use crate::config::{DataConfig, LONGEST_CONFIG};
use crate::corpus::{Corpus, train_sha256_of_file};
use crate::data;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model_folder;
use crate::storage::files;
use crate::vocabulary::Vocabulary;
use bowline_kernels::Isa;
use serde::Deserialize;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The text of a run, as its `config.toml` names it.
#[derive(Clone, Debug)]
pub struct OwnText {
    run: PathBuf,
    data: DataConfig,
    /// Of the training part, where the run's log says it.
    train_sha256: Option<String>,
}

impl OwnText {
    /// The text of the run that a model belongs to: `model` is the run's folder, or its `best/`. `None` for a model that
    /// lies elsewhere.
    pub fn of(model: &Path) -> Result<Option<OwnText>> {
        #[derive(Deserialize)]
        struct Data {
            data: DataConfig,
        }
        let folder = model_folder::resolve(model)?;
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let Some(run) = folder.parent().filter(|_| folder.ends_with(model_folder::BEST)) else { return Ok(None) };
        let folder_of_run = RunFolder::new(run);
        let Ok(text) = files::read_text(&folder_of_run.config(), LONGEST_CONFIG) else { return Ok(None) };
        let config: Data = toml::from_str(&text).map_err(|e| {
            let advice = "restore the file as it was when the run began, or give --data";
            Error::run(folder_of_run.config(), e.message(), advice)
        })?;
        let train_sha256 = train_sha256(&folder_of_run.events());
        Ok(Some(OwnText { run: run.to_owned(), data: config.data, train_sha256 }))
    }

    /// The corpus, as `--data` took it.
    pub fn source(&self) -> &str {
        &self.data.source
    }

    /// Whether the run split one plain file by itself.
    pub fn is_one_file(&self) -> bool {
        self.data.source != "demo"
            && data::by_name(&self.data.source).is_none()
            && !Path::new(&self.data.source).is_dir()
    }

    /// This text, if the file at `path` holds it: a copy will do. A file that was trained on and has changed since is an
    /// error, since nobody can say which of its lines the model has learned from.
    pub fn in_file(mut self, path: &Path) -> Result<Option<OwnText>> {
        if !self.is_one_file() {
            return Ok(None);
        }
        if self.train_sha256.is_some() && train_sha256_of_file(path)? == self.train_sha256 {
            self.data.source = path.display().to_string();
            return Ok(Some(self));
        }
        let same = |a: &Path, b: &Path| std::fs::canonicalize(a).ok().zip(std::fs::canonicalize(b).ok());
        match same(path, Path::new(&self.data.source)) {
            Some((a, b)) if a == b => Err(self.changed()),
            _ => Ok(None),
        }
    }

    /// Reads the corpus. Its words must be the model's: `vocabulary`.
    pub fn corpus(&self, vocabulary: &Vocabulary) -> Result<Corpus> {
        let corpus = open_corpus(&self.data)?;
        let as_before = self.train_sha256.as_ref().is_none_or(|sha256| *sha256 == corpus.train.sha256);
        if !as_before || corpus.vocabulary != *vocabulary {
            return Err(self.changed());
        }
        Ok(corpus)
    }

    fn changed(&self) -> Error {
        let problem = format!("the text has changed since {} was trained on it", self.run.display());
        Error::corpus(&self.data.source, problem, "--data with a text that the model has not seen")
    }
}

/// The hash in the first line of a run's log.
fn train_sha256(events: &Path) -> Option<String> {
    match beginning(events)? {
        Event::Start { data_sha256, .. } => Some(data_sha256),
        _ => None,
    }
}

/// The first line of a run's log.
fn beginning(events: &Path) -> Option<Event> {
    let first = BufReader::new(files::open(events).ok()?.take(LONGEST_CONFIG)).lines().next()?.ok()?;
    serde_json::from_str(&first).ok()
}

/// The name of the instruction set that a run began with, if it says so. To continue with another changes the last bits.
pub fn recorded_isa(run: &Path) -> Option<&'static str> {
    let Event::Start { machine, .. } = beginning(&RunFolder::new(run).events())? else { return None };
    // Version 0.1 wrote `avx2+fma`.
    let parts = machine.split(", ").map(|part| part.trim_end_matches("+fma"));
    parts.into_iter().find_map(|part| Isa::NAMES.into_iter().find(|name| *name == part))
}
