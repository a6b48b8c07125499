//! The one door to the file system: all that this program changes there, and the reading of files that should be small.
//!
//! One door, so that it can be shut: in a build with debug assertions, which is what the tests use, the environment
//! variable `BOWLINE_FAULT` makes one call fail or be the last thing that the process does, and the test of faults goes
//! through all of them. `fail:7` lets the seventh call fail, `full:7` it and all after it, `kill:7` ends the process in the
//! middle of it; `BOWLINE_FAULT_LOG` names a file that gets a line for each call. A build for users has none of this.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// A file that is being written.
#[derive(Debug)]
pub struct Output(File);

impl Output {
    /// Creates a file, or empties it.
    pub fn create(path: &Path) -> io::Result<Output> {
        call("create", path)?;
        File::create(path).map(Output)
    }

    /// Creates a file that must not be there.
    pub fn create_new(path: &Path) -> io::Result<Output> {
        call("create", path)?;
        File::options().write(true).create_new(true).open(path).map(Output)
    }

    /// Opens a file as it is, at its beginning, or creates it.
    pub fn update(path: &Path) -> io::Result<Output> {
        call("open", path)?;
        OpenOptions::new().write(true).create(true).truncate(false).open(path).map(Output)
    }

    /// Opens a file that is there, at its end.
    pub fn append(path: &Path) -> io::Result<Output> {
        call("open", path)?;
        OpenOptions::new().append(true).open(path).map(Output)
    }

    /// Opens a file at its end, or creates it.
    pub fn extend(path: &Path) -> io::Result<Output> {
        call("open", path)?;
        OpenOptions::new().append(true).create(true).open(path).map(Output)
    }

    /// Its length.
    pub fn len(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Makes it shorter, or longer by zeros.
    pub fn set_len(&mut self, len: u64) -> io::Result<()> {
        call("shorten", Path::new(""))?;
        self.0.set_len(len)
    }

    /// Forces contents and size onto the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        call("sync", Path::new(""))?;
        self.0.sync_all()
    }

    /// The file, to be locked.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Half of it gets through: a torn write is the worst kind.
        call_with("write", Path::new(""), || self.0.write_all(&bytes[..bytes.len() / 2]))?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// Gives a file or folder another name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    call("rename", to)?;
    fs::rename(from, to)
}

/// Removes a file.
pub fn remove_file(path: &Path) -> io::Result<()> {
    call("remove", path)?;
    fs::remove_file(path)
}

/// Removes a folder with all that is in it.
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    call("remove", path)?;
    fs::remove_dir_all(path)
}

/// Makes a folder and those above it.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    call("create the folder", path)?;
    fs::create_dir_all(path)
}

/// Copies a file.
pub fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    call("copy", to)?;
    fs::copy(from, to)
}

/// Writes a file that nobody misses when it is torn.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Output::create(path)?.write_all(bytes)
}

/// Forces the entry of `path` in its folder onto the disk, after a rename or a creation. Only Unix lets a folder be
/// opened for that, and a few file systems refuse it there.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    call("sync the folder", path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder)?.sync_all() {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Opens a file that must be one: a pipe or a device would be waited for, or never end.
pub fn open(path: &Path) -> io::Result<File> {
    call("open to read", path)?;
    let metadata = fs::metadata(path)?;
    if metadata.is_file() || metadata.is_dir() {
        // A folder is opened too: the system's own error says what it is.
        return File::open(path);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is a pipe or a device, not a regular file"))
}

/// Reads a whole file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let file = open(path).map_err(Error::io(path, "read"))?;
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::io(path, "read"))?;
    if bytes.len() as u64 > limit {
        let problem = format!("the file has more than {limit} bytes, which no such file has");
        return Err(Error::run(path, problem, "restore the original file"));
    }
    Ok(bytes)
}

/// The same of a file that may be missing.
pub fn read_if_there(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    match read(path, limit) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some),
    }
}

/// Reads a whole text, whatever its size. It may come through a pipe, but not from a device, which may have no end.
pub fn read_stream(path: &Path) -> io::Result<Vec<u8>> {
    call("open to read", path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = fs::metadata(path)?.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is a device"));
        }
    }
    fs::read(path)
}

/// Reads a whole text file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        Error::run(path, format!("line {line}: it is not UTF-8"), "restore the original file")
    })
}

fn call(what: &str, path: &Path) -> io::Result<()> {
    call_with(what, path, || Ok(()))
}

#[cfg(not(debug_assertions))]
fn call_with(_: &str, _: &Path, _: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    Ok(())
}

/// Counts the call, and does what the environment asks to be done at this one; `half` is what a torn call gets done.
#[cfg(debug_assertions)]
fn call_with(what: &str, path: &Path, half: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static CALLS: AtomicU64 = AtomicU64::new(0);
    static PLAN: OnceLock<Option<(String, u64)>> = OnceLock::new();
    let plan = PLAN.get_or_init(|| {
        let plan = std::env::var("BOWLINE_FAULT").ok()?;
        let (what, number) = plan.split_once(':')?;
        Some((what.to_owned(), number.parse().ok()?))
    });
    let number = 1 + CALLS.fetch_add(1, Ordering::Relaxed);
    if let Some(log) = std::env::var_os("BOWLINE_FAULT_LOG") {
        let mut log = OpenOptions::new().append(true).create(true).open(log)?;
        writeln!(log, "{number} {what} {}", path.display())?;
    }
    let Some((fault, at)) = plan else { return Ok(()) };
    match (fault.as_str(), number == *at, number >= *at) {
        ("kill", true, _) => {
            let _ = half();
            std::process::abort();
        }
        ("fail", true, _) | ("full", _, true) => {
            let _ = half();
            Err(io::Error::new(ErrorKind::StorageFull, format!("no space left ({what}, injected)")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(read(&path, 4).unwrap_err().to_string().contains("more than 4 bytes"));
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_devices_are_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(read_stream(&link).unwrap_err().to_string().contains("a device"));
        assert!(read(&link, 1 << 20).unwrap_err().to_string().contains("not a regular file"));
        let pipe = dir.path().join("pipe");
        if std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
            assert!(read(&pipe, 1 << 20).unwrap_err().to_string().contains("not a regular file"));
        }
    }

    #[test]
    fn text_that_is_no_utf_8_is_named_by_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"one\ntwo \xff\n").unwrap();
        assert!(read_text(&path, 100).unwrap_err().to_string().contains("line 2: it is not UTF-8"));
    }
}
