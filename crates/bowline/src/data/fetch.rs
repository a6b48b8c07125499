//! Getting a corpus: mirror after mirror, until every file is there and verified.
//!
//! A file is downloaded as `NAME.part`. It gets its name only after its hash came out right and its bytes are on the
//! disk, so a file with its right name is never half there. What a broken connection left in `NAME.part` is the start
//! of the next attempt, whichever mirror that goes to.

use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::Agent;

use super::archive::{Wanted, from_tgz, from_zip};
use super::catalog::{KnownFile, Mirror, MirrorKind, PublicCorpus, fill};
use super::http::{Failure, Size, agent, download};
use super::verify::{FileStatus, differs, verify};
use crate::corpus::{sha256_hex, sha256_of_file};
use crate::storage::files::{self, Output};
use crate::{Error, Result};

/// The largest archive that is downloaded. The largest in the catalog has 35 MB.
const LARGEST_ARCHIVE: u64 = 128 << 20;

/// Held locked while files come into a folder, so that two downloads do not write into the same `.part`.
const LOCK_FILE: &str = ".bowline-download.lock";

/// How to download.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// The mirrors to try, in the place of the corpus's own.
    pub mirrors: Option<Vec<Mirror>>,
    /// How long to wait for an answer, or for the next byte of one.
    pub patience: Duration,
    /// Whether to use the proxy that the usual variables (`HTTPS_PROXY` and so on) name.
    pub use_proxy: bool,
}

impl Default for FetchOptions {
    fn default() -> FetchOptions {
        FetchOptions { mirrors: None, patience: Duration::from_secs(30), use_proxy: true }
    }
}

/// What happens during [`fetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The file was there already, and is the right one.
    Present {
        /// Its name.
        file: &'a str,
    },
    /// A mirror is asked.
    Trying {
        /// The address.
        url: &'a str,
    },
    /// Bytes came in.
    Received {
        /// The address.
        url: &'a str,
        /// The bytes that are there now, those of an earlier attempt included.
        bytes: u64,
        /// The bytes there will be, where the server says it.
        total: Option<u64>,
    },
    /// A mirror failed; the next one will be tried.
    Failed {
        /// The address.
        url: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// The file is there now, verified.
    Arrived {
        /// Its name.
        file: &'a str,
    },
}

/// Brings the files of a corpus into a folder (which is created), except those that are there already. A file of
/// another content under one of the names is an error, and stays as it is.
pub fn fetch(
    corpus: &PublicCorpus,
    dir: &Path,
    options: &FetchOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<()> {
    files::create_dir_all(dir).map_err(Error::io(dir, "create the folder"))?;
    let _lock = lock(corpus, dir)?;
    let mut missing = Vec::new();
    for (file, check) in corpus.files.iter().zip(verify(corpus, dir)?) {
        match check.status {
            FileStatus::Ok => progress(Progress::Present { file: file.name }),
            FileStatus::Missing => missing.push(file),
            FileStatus::Differs { .. } => return Err(differs(corpus, &check)),
        }
    }
    let agent = agent(options.patience, options.use_proxy);
    let mut visit = Visit { agent, dir, missing, failures: Vec::new(), progress };
    for mirror in options.mirrors.as_deref().unwrap_or(corpus.mirrors) {
        match &mirror.kind {
            _ if visit.missing.is_empty() => break,
            MirrorKind::Files => visit.files(&mirror.url)?,
            MirrorKind::Tgz { member } | MirrorKind::Zip { member } => visit.archive(mirror, member)?,
        }
    }
    if visit.missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = visit.missing.iter().map(|file| file.name).collect();
    let tried: String = visit.failures.iter().map(|(url, reason)| format!("\n    {url}: {reason}")).collect();
    Err(Error::download(
        corpus.name,
        format!("no mirror gave {}; tried:{tried}", names.join(", ")),
        "the same command later (it continues where it stopped), or get the files elsewhere and use `--data DIR`",
    ))
}

/// What the files and the mirrors still have to do with each other.
struct Visit<'a, 'p> {
    agent: Agent,
    dir: &'a Path,
    /// The files that are not there yet.
    missing: Vec<&'a KnownFile>,
    /// Which address failed, and why.
    failures: Vec<(String, String)>,
    progress: &'p mut dyn FnMut(Progress<'_>),
}

impl Visit<'_, '_> {
    /// Asks a mirror for each missing file by itself.
    fn files(&mut self, pattern: &str) -> Result<()> {
        for file in self.missing.clone() {
            let url = fill(pattern, file.split);
            (self.progress)(Progress::Trying { url: &url });
            match self.file(&url, file) {
                Ok(()) => self.arrived(file),
                Err(Failure::Mirror(reason)) => self.failed(&url, reason),
                Err(Failure::Unreachable(reason)) => {
                    self.failed(&url, reason);
                    break;
                }
                Err(Failure::Local(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn file(&mut self, url: &str, file: &KnownFile) -> std::result::Result<(), Failure> {
        let part = self.part(file.name);
        loop {
            let continued = self.download(url, &part, Size::Exactly(file.bytes))?;
            let found = sha256_of_file(&part).map_err(|error| Failure::Local(Error::io(&part, "read")(error)))?;
            if found == file.sha256 {
                return publish(&part, &self.dir.join(file.name)).map_err(Failure::Local);
            }
            discard(&part)?;
            // The beginning may be another mirror's: this one deserves a try from the start.
            if !continued {
                return Err(Failure::Mirror(wrong_hash(&found, file)));
            }
        }
    }

    /// Asks a mirror for an archive, and takes the missing files out of it.
    fn archive(&mut self, mirror: &Mirror, member: &str) -> Result<()> {
        let url = &*mirror.url;
        (self.progress)(Progress::Trying { url });
        match self.members(mirror, member) {
            Ok(()) => Ok(()),
            Err(Failure::Mirror(reason) | Failure::Unreachable(reason)) => {
                self.failed(url, reason);
                Ok(())
            }
            Err(Failure::Local(error)) => Err(error),
        }
    }

    fn members(&mut self, mirror: &Mirror, member: &str) -> std::result::Result<(), Failure> {
        let part = self.part(archive_name(&mirror.url));
        loop {
            let files = self.missing.clone();
            let wanted: Vec<Wanted> =
                files.iter().map(|file| Wanted { member: fill(member, file.split), bytes: file.bytes }).collect();
            let continued = self.download(&mirror.url, &part, Size::AtMost(LARGEST_ARCHIVE))?;
            let found = match mirror.kind {
                MirrorKind::Zip { .. } => from_zip(&part, &wanted),
                _ => from_tgz(&part, &wanted),
            };
            // Every file that came out right is kept, even if another did not.
            let mut wrong = Vec::new();
            match found {
                Err(error) => wrong.push(format!("the archive cannot be read: {error}")),
                Ok(contents) => {
                    for ((&file, wanted), contents) in files.iter().zip(&wanted).zip(contents) {
                        match contents.map(|contents| (sha256_hex(&contents), contents)) {
                            None => wrong.push(format!("the archive has no {}", wanted.member)),
                            Some((hash, contents)) if hash == file.sha256 => {
                                let name = self.part(file.name);
                                files::write(&name, &contents)
                                    .map_err(|error| Failure::Local(Error::io(&name, "write")(error)))?;
                                publish(&name, &self.dir.join(file.name)).map_err(Failure::Local)?;
                                self.arrived(file);
                            }
                            Some((hash, _)) => wrong.push(format!("{}: {}", wanted.member, wrong_hash(&hash, file))),
                        }
                    }
                }
            }
            discard(&part)?;
            if wrong.is_empty() {
                return Ok(());
            }
            if !continued {
                return Err(Failure::Mirror(wrong.join("; ")));
            }
        }
    }

    fn download(&mut self, url: &str, part: &Path, size: Size) -> std::result::Result<bool, Failure> {
        let progress = &mut self.progress;
        download(&self.agent, url, part, size, &mut |bytes, total| progress(Progress::Received { url, bytes, total }))
    }

    fn part(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.part"))
    }

    fn arrived(&mut self, file: &KnownFile) {
        self.missing.retain(|missing| missing.name != file.name);
        (self.progress)(Progress::Arrived { file: file.name });
    }

    fn failed(&mut self, url: &str, reason: String) {
        (self.progress)(Progress::Failed { url, reason: &reason });
        self.failures.push((url.to_owned(), reason));
    }
}

fn wrong_hash(found: &str, file: &KnownFile) -> String {
    format!("not this corpus: its SHA-256 is {found}, not {}", file.sha256)
}

/// The last part of an address, as far as it can be the name of a file.
fn archive_name(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    match path.rsplit(['/', '\\', ':']).next() {
        Some(name) if !name.is_empty() && !name.starts_with('.') => name,
        _ => "archive",
    }
}

fn discard(part: &Path) -> std::result::Result<(), Failure> {
    files::remove_file(part).map_err(|error| Failure::Local(Error::io(part, "remove")(error)))
}

/// Gives a verified file its name, once its bytes are on the disk.
fn publish(part: &Path, path: &Path) -> Result<()> {
    // Opened for writing, since Windows refuses to flush a file opened for reading.
    Output::append(part).and_then(|mut file| file.sync()).map_err(Error::io(part, "flush"))?;
    files::rename(part, path).map_err(Error::io(path, "give the file its name"))?;
    files::sync_folder(path).map_err(Error::io(path, "flush the folder of"))
}

/// Keeps other downloads out of the folder until it is dropped.
fn lock(corpus: &PublicCorpus, dir: &Path) -> Result<Output> {
    let path = dir.join(LOCK_FILE);
    let file = Output::create(&path).map_err(Error::io(&path, "create"))?;
    match file.file().try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::download(
            corpus.name,
            format!("another download into {} is under way", dir.display()),
            "wait for it to end, or name another folder with `--dir DIR`",
        )),
        // Some network file systems cannot lock; the hashes still keep a wrong file from its name.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}
