//! Whether the files of a corpus are there and are the right ones.

use std::io;
use std::path::{Path, PathBuf};

use super::{CATALOG, Environment, KnownFile, PublicCorpus};
use crate::corpus::sha256_of_file;
use crate::{Error, Result};

/// What was found where a file should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileStatus {
    /// The right file.
    Ok,
    /// No file.
    Missing,
    /// Another file.
    Differs {
        /// The SHA-256 it should have.
        expected: String,
        /// The SHA-256 it has.
        found: String,
    },
}

/// One file, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCheck {
    /// Its name.
    pub name: &'static str,
    /// Where it was looked for.
    pub path: PathBuf,
    /// What was found.
    pub status: FileStatus,
}

/// Checks every file of a corpus in a folder, by its hash.
pub fn verify(corpus: &PublicCorpus, dir: &Path) -> Result<Vec<FileCheck>> {
    corpus.files.iter().map(|file| check(file, dir)).collect()
}

fn check(file: &KnownFile, dir: &Path) -> Result<FileCheck> {
    let path = dir.join(file.name);
    let status = match sha256_of_file(&path) {
        Ok(found) if found == file.sha256 => FileStatus::Ok,
        Ok(found) => FileStatus::Differs { expected: file.sha256.to_owned(), found },
        Err(error) if error.kind() == io::ErrorKind::NotFound => FileStatus::Missing,
        Err(error) => return Err(Error::io(&path, "read")(error)),
    };
    Ok(FileCheck { name: file.name, path, status })
}

/// No file of a public corpus is larger.
const LARGEST: u64 = 64 << 20;

/// The public corpus whose files a folder holds, all of them as they should be.
pub fn recognise(dir: &Path) -> Option<&'static PublicCorpus> {
    // Only what could be one of them is read: a pipe or a device has no end.
    let regular = |corpus: &PublicCorpus| {
        corpus.files.iter().all(|file| {
            std::fs::metadata(dir.join(file.name)).is_ok_and(|file| file.is_file() && file.len() <= LARGEST)
        })
    };
    let holds = |corpus: &&PublicCorpus| {
        regular(corpus)
            && verify(corpus, dir).is_ok_and(|checks| checks.iter().all(|check| check.status == FileStatus::Ok))
    };
    CATALOG.iter().filter(|_| dir.is_dir()).find(holds)
}

/// The folder that `--data ptb` means, if the corpus is there, whole and unchanged.
pub fn locate(corpus: &PublicCorpus, environment: &Environment) -> Result<PathBuf> {
    let dir = environment.corpus_folder(corpus)?;
    let checks = verify(corpus, &dir)?;
    if let Some(changed) = checks.iter().find(|check| matches!(check.status, FileStatus::Differs { .. })) {
        return Err(differs(corpus, changed));
    }
    let missing: Vec<&str> =
        checks.iter().filter(|check| check.status == FileStatus::Missing).map(|check| check.name).collect();
    if missing.is_empty() {
        return Ok(dir);
    }
    Err(Error::corpus(
        dir,
        format!("the corpus `{}` is not there; missing: {}", corpus.name, missing.join(", ")),
        format!("`bowline data get {}`, or `--data DIR` with a copy of your own", corpus.name),
    ))
}

/// The error for a file under a known name that is not the known file. It may be someone's own: it is not touched.
pub(super) fn differs(corpus: &PublicCorpus, check: &FileCheck) -> Error {
    let hashes = match &check.status {
        FileStatus::Differs { expected, found } => format!(": its SHA-256 is {found}, not {expected}"),
        _ => String::new(),
    };
    Error::corpus(
        &check.path,
        format!("this is not the file of the corpus `{}`{hashes}", corpus.name),
        format!("move it away and run `bowline data get {}`, or use `--data DIR` for your own text", corpus.name),
    )
}
