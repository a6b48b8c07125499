//! Names for what is not finished: `.NAME.PROCESS-NUMBER.partial`, beside the place it is for.
//!
//! Every process has names of its own, so that two that write the same file do not write into each other's; the last one
//! to finish wins. What a killed process left is removed by the next that writes to the same place.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::files;

const ENDING: &str = ".partial";

/// A path for a file or folder that is to become `path`, which nobody else uses. It is removed when this is dropped,
/// unless it is in its place by then.
pub(super) struct Partial {
    path: PathBuf,
    in_place: bool,
}

impl Partial {
    /// A name for what is to become `path`.
    pub(super) fn beside(path: &Path) -> io::Result<Partial> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let Some(target) = path.file_name() else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the path does not end in a file name"));
        };
        remove_abandoned(path);
        let mut name = OsString::from(".");
        name.push(target);
        name.push(format!(".{}-{}{ENDING}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        Ok(Partial { path: path.with_file_name(name), in_place: false })
    }

    /// Where it is now.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    pub(super) fn publish(&mut self, path: &Path) -> io::Result<()> {
        files::rename(&self.path, path)?;
        self.in_place = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.in_place {
            // Nothing more can be done about what will not go; a later write removes it.
            let _ = if self.path.is_dir() { fs::remove_dir_all(&self.path) } else { fs::remove_file(&self.path) };
        }
    }
}

/// Whether a name in a folder is one for what is to become `target` there, finished or not.
pub(crate) fn is_partial_of(name: &str, target: &str) -> bool {
    process_of(name, target).is_some()
}

/// The process that chose a name; 0 for names of older versions, which had none.
fn process_of(name: &str, target: &str) -> Option<u32> {
    let rest = name.strip_prefix('.')?.strip_prefix(target)?.strip_suffix(ENDING)?;
    if rest.is_empty() {
        return Some(0);
    }
    let (process, number) = rest.strip_prefix('.')?.split_once('-')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

/// Removes what killed processes left that was to become `path`.
fn remove_abandoned(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Some(target), Ok(entries)) = (path.file_name().and_then(|name| name.to_str()), fs::read_dir(folder)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| process_of(name, target)) else { continue };
        if process != std::process::id() && !is_alive(process) && !is_locked(&entry.path()) {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let _ = if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        }
    }
}

/// Whether a process of this machine runs. Where that cannot be told, it may.
fn is_alive(process: u32) -> bool {
    let processes = Path::new("/proc/self");
    process != 0 && (!processes.exists() || processes.with_file_name(process.to_string()).exists())
}

/// Whether somebody, perhaps on another machine, has it locked. A link is never followed: it is not one of ours.
fn is_locked(path: &Path) -> bool {
    let link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    !link && File::open(path).is_ok_and(|file| file.try_lock().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_belong_to_one_target() {
        assert!(is_partial_of(".config.toml.partial", "config.toml"));
        assert!(is_partial_of(".config.toml.12-0.partial", "config.toml"));
        for other in ["config.toml", ".config.toml.x-0.partial", ".tuned.json.12-0.partial", ".config.toml.12.partial"]
        {
            assert!(!is_partial_of(other, "config.toml"), "{other}");
        }
    }

    #[test]
    fn what_a_killed_process_left_goes_and_what_a_running_one_writes_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let dead = dir.path().join(".file.4294967294-3.partial");
        let running = dir.path().join(".file.1-0.partial");
        let locked = dir.path().join(".file.4294967293-0.partial");
        for left in [&dead, &running, &locked] {
            fs::write(left, "half").unwrap();
        }
        let lock = File::open(&locked).unwrap();
        lock.lock().unwrap();
        let (one, two) = (Partial::beside(&path).unwrap(), Partial::beside(&path).unwrap());
        assert_ne!(one.path(), two.path());
        assert!(!dead.exists() && locked.exists());
        assert!(running.exists() || !Path::new("/proc/1").exists());
    }
}
