//! `events.jsonl`: appended while a run goes on, cut back to the checkpoint when it is resumed.

use crate::error::{Error, Result};
use crate::event::Event;
use crate::storage::files::Output;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The open log.
pub(super) struct Log {
    path: PathBuf,
    file: Output,
    len: u64,
}

impl Log {
    /// Opens the log and cuts off what came after byte `len`: events of steps that will be done again.
    pub(super) fn open(path: &Path, len: u64) -> Result<Log> {
        let mut file = Output::update(path).map_err(Error::io(path, "open"))?;
        let there = file.len().map_err(Error::io(path, "read the size of"))?;
        let len = len.min(there);
        file.set_len(len).map_err(Error::io(path, "shorten"))?;
        file.seek(SeekFrom::Start(len)).map_err(Error::io(path, "go to the end of"))?;
        Ok(Log { path: path.to_path_buf(), file, len })
    }

    /// Writes one line.
    pub(super) fn write(&mut self, event: &Event) -> Result<()> {
        let mut line = serde_json::to_string(event)
            .map_err(|e| Error::run(&self.path, format!("an event cannot be written: {e}"), "report this"))?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(Error::io(&self.path, "write to"))?;
        self.len += line.len() as u64;
        Ok(())
    }

    /// Makes sure that all lines are on the disk and says how many bytes they are.
    pub(super) fn sync(&mut self) -> Result<u64> {
        self.file.sync().map_err(Error::io(&self.path, "write to"))?;
        Ok(self.len)
    }
}
