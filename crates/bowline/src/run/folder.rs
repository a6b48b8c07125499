//! The places in a run's folder, and the lock that keeps a second process out of it.

use crate::error::{Error, Result};
use crate::event::Event;
use crate::storage::files::{self, Output};
use crate::storage::partial::is_partial_of;
use std::fs::{DirEntry, TryLockError};
use std::path::{Path, PathBuf};

/// A run's folder.
#[derive(Clone, Debug)]
pub struct RunFolder {
    dir: PathBuf,
}

impl RunFolder {
    /// The folder at `dir`, whether it is there or not.
    pub fn new(dir: impl AsRef<Path>) -> RunFolder {
        RunFolder { dir: dir.as_ref().to_path_buf() }
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The settings.
    pub fn config(&self) -> PathBuf {
        self.dir.join("config.toml")
    }

    /// The events.
    pub fn events(&self) -> PathBuf {
        self.dir.join("events.jsonl")
    }

    /// The result.
    pub fn summary(&self) -> PathBuf {
        self.dir.join("summary.json")
    }

    /// The best model.
    pub fn best(&self) -> PathBuf {
        self.dir.join(crate::model_folder::BEST)
    }

    fn checkpoints(&self) -> PathBuf {
        self.dir.join("checkpoints")
    }

    /// The curves for TensorBoard, where they were asked for.
    pub fn tensorboard(&self) -> PathBuf {
        self.dir.join("tensorboard")
    }

    /// The ids of the training text, where it is too large for memory.
    pub fn ids(&self) -> PathBuf {
        self.dir.join("train.ids")
    }

    /// The newest checkpoint.
    pub fn last_checkpoint(&self) -> PathBuf {
        self.checkpoints().join("last.safetensors")
    }

    /// The checkpoint before it.
    pub fn previous_checkpoint(&self) -> PathBuf {
        self.checkpoints().join("previous.safetensors")
    }

    /// Makes the folder for a new run. A folder that holds a run already, or anything else, is refused.
    pub(crate) fn create(&self) -> Result<()> {
        self.require_free()?;
        let checkpoints = self.checkpoints();
        files::create_dir_all(&checkpoints).map_err(Error::io(&checkpoints, "create the folder"))
    }

    /// Removes what a start left that came to an end before there was a run.
    pub(super) fn remove_leftovers(&self) -> Result<()> {
        self.require_free()?;
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return Ok(()) };
        for path in entries.flatten().map(|entry| entry.path()) {
            let removed = if path.is_dir() { files::remove_dir_all(&path) } else { files::remove_file(&path) };
            removed.map_err(Error::io(&path, "remove"))?;
        }
        Ok(())
    }

    /// Checks that there is neither a run nor anything else.
    pub(crate) fn require_free(&self) -> Result<()> {
        if self.config().exists() {
            let resume = format!("`bowline resume {}` to continue it, or another --out", self.dir.display());
            return Err(Error::run(&self.dir, "this folder already has a run", resume));
        }
        let folders = [self.checkpoints(), self.tensorboard()];
        // What a start left that came to an end (a kill, a full disk) before there was a config.toml is no hindrance.
        let leftover = |entry: DirEntry| {
            let name = entry.file_name();
            let empty = |dir: &Path| std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
            let partial = name.to_str().is_some_and(|name| is_partial_of(name, "config.toml"));
            name == LOCK || partial || (folders.contains(&entry.path()) && empty(&entry.path()))
        };
        let occupied = std::fs::read_dir(&self.dir)
            .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| !leftover(entry))));
        if occupied {
            let advice = "an --out that does not exist yet, or an empty folder";
            return Err(Error::run(&self.dir, "the folder is not empty, and it is not a run", advice));
        }
        Ok(())
    }

    /// Checks that there is a run.
    pub fn require(&self) -> Result<()> {
        if self.config().is_file() {
            return Ok(());
        }
        let problem = if self.dir.exists() { "this folder has no run" } else { "there is no such folder" };
        let advice = "the folder that was given to `bowline train --out` (it has a config.toml)";
        Err(Error::run(&self.dir, problem, advice))
    }

    /// Checks that a run without a checkpoint has not come further than its first one: to start it anew would overwrite
    /// what it has.
    pub(super) fn require_nothing_to_lose(&self) -> Result<()> {
        let epoch =
            |line: &str| serde_json::from_str::<Event>(line).is_ok_and(|event| matches!(event, Event::Epoch(_)));
        let found = if self.summary().exists() {
            "a result (summary.json)"
        } else if self.best().exists() {
            "a model (best/)"
        } else if self.events().exists() && files::read_text(&self.events(), LONGEST_LOG)?.lines().any(epoch) {
            "epochs in its log (events.jsonl)"
        } else {
            return Ok(());
        };
        let problem = format!("its checkpoints are missing, but it has {found}, which starting again would overwrite");
        let advice = "restore checkpoints/last.safetensors from a copy; or train again with another --out; \
                      the model, if there is one, can be used as it is";
        Err(Error::run(&self.dir, problem, advice))
    }

    /// Takes the run for this process, until the file is dropped.
    pub(super) fn lock(&self) -> Result<Output> {
        let path = self.dir.join(LOCK);
        let file = Output::create(&path).map_err(Error::io(&path, "create"))?;
        match file.file().try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(Error::run(
                &self.dir,
                "another process is working on this run",
                "wait for it, or stop it (Ctrl-C saves it)",
            )),
            Err(TryLockError::Error(source)) => Err(Error::Io { path, action: "lock", source }),
        }
    }
}

const LOCK: &str = ".lock";

/// A log of more bytes than this is none of ours.
pub const LONGEST_LOG: u64 = 1 << 30;
