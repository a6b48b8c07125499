//! Other settings for a run that is under way, in place.
//!
//! A checkpoint and `config.toml` must agree, and two files cannot be replaced at once. So the new settings are written to a
//! third file first: whoever finds it knows which of the two is older, and mends it.

use super::checkpoint::{self, Made};
use super::folder::RunFolder;
use super::{check_length, open_corpus};
use crate::config::{Config, LONGEST_CONFIG};
use crate::error::{Error, Result};
use crate::storage::{atomic, files};
use std::path::{Path, PathBuf};

fn announced(folder: &RunFolder) -> PathBuf {
    folder.dir().join("config.next.toml")
}

/// Changes the settings of a run. `change` is told the settings and how many epochs are done.
pub(crate) fn rewrite(dir: &Path, change: impl FnOnce(&Config, f64) -> Result<Config>) -> Result<()> {
    let folder = RunFolder::new(dir);
    folder.require()?;
    let _lock = folder.lock()?;
    mend(&folder)?;
    let old = Config::read(&folder.config())?;
    let corpus = open_corpus(&old.data)?;
    check_length(&old, &corpus)?;
    let spec = old.spec(corpus.vocabulary.len());
    let Some(restored) = checkpoint::restore(&folder, &spec, &old, &corpus)? else {
        return Err(Error::run(dir, "it has no checkpoint yet", "`bowline resume` on it first"));
    };
    let mut position = restored.position.clone();
    let done = super::setup::epochs_done(&old, &corpus, &position);
    let config = change(&old, done)?;
    config.validate()?;
    if f64::from(config.epochs) < done {
        let advice = format!("at least {} epochs", done.ceil());
        return Err(Error::config("epochs", format!("{} are fewer than are done", config.epochs), advice));
    }
    if position.epoch <= config.epochs {
        position.ended = None;
    }
    let text = config.to_toml()?;
    atomic::write(announced(&folder), |out| out.write_all(text.as_bytes()))?;
    let made = Made {
        params: &restored.params,
        average: restored.average.as_ref(),
        optimizer: &restored.optimizer,
        state: &restored.state,
        position: &position,
    };
    checkpoint::save(&folder, &config, &made)?;
    mend(&folder)
}

/// Finishes what a kill left half done: with a checkpoint of the new settings they count, without it the old ones do.
pub(super) fn mend(folder: &RunFolder) -> Result<()> {
    let path = announced(folder);
    let Some(bytes) = files::read_if_there(&path, LONGEST_CONFIG)? else { return Ok(()) };
    let text = String::from_utf8_lossy(&bytes);
    if checkpoint::settings(folder)?.is_some_and(|then| then == text) {
        atomic::write(folder.config(), |out| out.write_all(&bytes))?;
    }
    files::remove_file(&path).map_err(Error::io(&path, "remove"))
}
