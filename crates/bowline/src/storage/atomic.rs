//! Replacing a file in one step.
//!
//! The new contents go into a *temporary file* beside the target, are forced onto the disk, and only then take the
//! target's name. So the target is at every instant either what it was or what it shall be, whatever happens: an error, a
//! kill, a power cut. Each writer has a temporary file of its own, so two at the same time do not disturb each other, and
//! what a killed process left is removed by the next write (module `partial`).
//!
//! For checkpoints the old contents are kept too, under the name of the *previous* file, see
//! [`write_keeping_previous`] and [`read_newest`].

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::files::{self, Output};
use super::partial::Partial;
use crate::error::{Error, Result};

/// Writes a file whole or not at all. `fill` gets a buffered writer. When anything fails, the temporary file is removed
/// and what was at `path` before stays as it was.
pub fn write(path: impl AsRef<Path>, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    replace(path.as_ref(), None, create, fill)
}

/// As [`write()`], but the file that was at `path` becomes `previous` (in the same folder) instead of vanishing.
///
/// The order is: the temporary file is complete and on the disk; `path` is renamed to `previous`; the temporary file is
/// renamed to `path`. A kill between the two renames leaves only `previous`, which [`read_newest`] then finds. A `path`
/// known to be damaged should be [`set_aside`] first, or it would push out a good `previous`.
pub fn write_keeping_previous(
    path: impl AsRef<Path>,
    previous: impl AsRef<Path>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    replace(path.as_ref(), Some(previous.as_ref()), create, fill)
}

/// What [`read_newest`] found.
#[derive(Debug)]
pub struct Newest<T> {
    /// What was read.
    pub value: T,
    /// The file it was read from: the newest one, or the previous one.
    pub path: PathBuf,
    /// Why the newest file was passed over, when it was.
    pub passed_over: Option<Error>,
}

/// Reads the file at `path` or, when that is missing or damaged, the one at `previous`.
pub fn read_newest<T>(
    path: impl AsRef<Path>,
    previous: impl AsRef<Path>,
    mut read: impl FnMut(&Path) -> Result<T>,
) -> Result<Newest<T>> {
    let (path, previous) = (path.as_ref(), previous.as_ref());
    let first = match read(path) {
        Ok(value) => return Ok(Newest { value, path: path.into(), passed_over: None }),
        // What cannot be read now may be readable later: it is not damaged, and nothing older stands in for it.
        Err(error @ Error::Io { .. }) if !is_missing(&error) => return Err(error),
        Err(error) => error,
    };
    let second = match read(previous) {
        Ok(value) => return Ok(Newest { value, path: previous.into(), passed_over: Some(first) }),
        Err(error) => error,
    };
    if is_missing(&first) && is_missing(&second) {
        return Err(Error::run(
            path,
            format!("it is not there, and neither is the previous one, {}", previous.display()),
            "nothing was saved yet: start from the beginning",
        ));
    }
    let indented = |error: Error| error.to_string().replace('\n', "\n    ");
    Err(Error::run(
        path,
        format!("neither this file nor the previous one can be used:\n  {}\n  {}", indented(first), indented(second)),
        "restore one of them from a copy, or start again in another folder",
    ))
}

/// Renames a damaged file to `NAME.damaged`, so that it can still be looked at and no longer be taken for a good one.
/// Gives the new name, or `None` when there was no such file.
pub fn set_aside(path: impl AsRef<Path>) -> Result<Option<PathBuf>> {
    let path = path.as_ref();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".damaged");
    let aside = path.with_file_name(name);
    match files::rename(path, &aside) {
        Ok(()) => files::sync_folder(path).map(|()| Some(aside)).map_err(Error::io(path, "sync the folder of")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, "rename")(error)),
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// Creates the temporary file and locks it, so that nobody takes it for abandoned.
fn create(temporary: &Path) -> io::Result<Output> {
    let file = Output::create_new(temporary)?;
    // Where there are no locks, the number of the process in the name has to do.
    let _ = file.file().try_lock();
    Ok(file)
}

/// All of [`write()`] and [`write_keeping_previous`]; `create` is `create` except in tests of a full disk.
fn replace(
    path: &Path,
    previous: Option<&Path>,
    create: impl FnOnce(&Path) -> io::Result<Output>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let mut temporary = Partial::beside(path).map_err(Error::io(path, "write"))?;
    write_synced(temporary.path(), create, fill).map_err(|source| refused(path, "write", source))?;
    let moved = match previous {
        Some(previous) => step_aside(path, previous).map_err(|source| refused(path, "keep the previous", source))?,
        None => false,
    };
    if let Err(source) = temporary.publish(path) {
        if let (true, Some(previous)) = (moved, previous) {
            // Back to where it was; should even this fail, it is still there under the previous name.
            let _ = files::rename(previous, path);
        }
        return Err(refused(path, "replace", source));
    }
    files::sync_folder(path).map_err(|source| refused(path, "sync the folder of", source))
}

fn write_synced(
    temporary: &Path,
    create: impl FnOnce(&Path) -> io::Result<Output>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(1 << 16, create(temporary)?);
    let written = fill(&mut writer).and_then(|()| writer.flush());
    let (mut file, _unwritten) = writer.into_parts();
    written?;
    file.sync()
}

/// Renames the newest file to the previous one; `false` when there is none yet.
fn step_aside(path: &Path, previous: &Path) -> io::Result<bool> {
    match files::rename(path, previous) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn refused(path: &Path, action: &'static str, source: io::Error) -> Error {
    let advice = match source.kind() {
        ErrorKind::StorageFull => "free some space on that disk and run the command again",
        ErrorKind::QuotaExceeded => "free some of your quota on that disk and run the command again",
        ErrorKind::FileTooLarge => "raise the file size limit (`ulimit -f`) or use another disk, and run it again",
        _ => return Error::Io { path: path.into(), action, source },
    };
    Error::run(path, format!("cannot {action}: {source}; what was there before is unchanged"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn message(error: Error, folder: &Path) -> String {
        error.to_string().replace(folder.to_str().unwrap(), "DIR")
    }

    fn text(path: &Path) -> Result<String> {
        let text = fs::read_to_string(path).map_err(Error::io(path, "read"))?;
        if text == "bad" { Err(Error::model(path, "text", "bad", "do better")) } else { Ok(text) }
    }

    #[test]
    fn new_contents_replace_old_ones_and_leftovers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(dir.path().join(".file.partial"), "left by a kill").unwrap();
        for contents in ["one", "two"] {
            write(&path, |w| w.write_all(contents.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
        }
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn writers_at_the_same_time_do_not_write_into_each_other_s_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let wholes: Vec<String> = (0..8).map(|i| i.to_string().repeat(200_000)).collect();
        std::thread::scope(|scope| {
            for whole in &wholes {
                scope.spawn(|| (0..5).for_each(|_| write(&path, |w| w.write_all(whole.as_bytes())).unwrap()));
            }
        });
        assert!(wholes.contains(&fs::read_to_string(&path).unwrap()));
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_temporary_file_s_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("elsewhere"), "precious").unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), dir.path().join(".file.partial")).unwrap();
        write(dir.path().join("file"), |w| w.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("elsewhere")).unwrap(), "precious");
        assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "new");
    }

    #[test]
    fn a_writer_that_fails_half_way_changes_nothing() {
        let cases = [
            (
                ErrorKind::StorageFull,
                "DIR/file: cannot write: no storage space; what was there before is unchanged\n  try: free some space on that disk and run the command again",
            ),
            (
                ErrorKind::QuotaExceeded,
                "DIR/file: cannot write: quota exceeded; what was there before is unchanged\n  try: free some of your quota on that disk and run the command again",
            ),
            (
                ErrorKind::FileTooLarge,
                "DIR/file: cannot write: file too large; what was there before is unchanged\n  try: raise the file size limit (`ulimit -f`) or use another disk, and run it again",
            ),
            (ErrorKind::PermissionDenied, "DIR/file: cannot write: permission denied"),
        ];
        for (kind, expected) in cases {
            for keeping in [false, true] {
                let dir = tempfile::tempdir().unwrap();
                let (path, previous) = (dir.path().join("file"), dir.path().join("file.previous"));
                fs::write(&path, "old").unwrap();
                fs::write(&previous, "older").unwrap();
                let half = |w: &mut dyn Write| {
                    w.write_all(&[7; 100_000])?;
                    Err(io::Error::from(kind))
                };
                let result = if keeping { write_keeping_previous(&path, &previous, half) } else { write(&path, half) };
                assert_eq!(message(result.unwrap_err(), dir.path()), expected);
                assert_eq!(fs::read_to_string(&path).unwrap(), "old");
                assert_eq!(fs::read_to_string(&previous).unwrap(), "older");
                assert_eq!(names(dir.path()), ["file", "file.previous"]);
            }
        }
    }

    /// `/dev/full` answers every write with the system's own "no space left"; a short text reaches it only in the
    /// flush, a long one in the middle.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_s_full_disk_is_noticed_in_the_middle_and_in_the_flush() {
        for length in [1, 1_000_000] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            fs::write(&path, "old").unwrap();
            let on_full_disk = |temporary: &Path| {
                create(temporary)?;
                Output::append(Path::new("/dev/full"))
            };
            let error = replace(&path, None, on_full_disk, |w| w.write_all(&vec![7; length])).unwrap_err();
            assert_eq!(
                message(error, dir.path()),
                "DIR/file: cannot write: No space left on device (os error 28); what was there before is unchanged\n  \
                 try: free some space on that disk and run the command again"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), "old");
            assert_eq!(names(dir.path()), ["file"]);
        }
    }

    #[test]
    fn a_folder_that_is_not_there_and_a_path_without_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let error = write(dir.path().join("no/file"), |_| Ok(())).unwrap_err();
        assert_eq!(message(error, dir.path()), "DIR/no/file: cannot write: No such file or directory (os error 2)");
        let error = write(dir.path().join(".."), |_| Ok(())).unwrap_err();
        assert_eq!(message(error, dir.path()), "DIR/..: cannot write: the path does not end in a file name");
    }

    #[test]
    fn a_file_that_cannot_be_read_now_is_not_taken_for_damaged() {
        let refuse = |path: &Path| match path.ends_with("file") {
            true => Err(Error::io(path, "read")(io::Error::from(ErrorKind::PermissionDenied))),
            false => Ok("older"),
        };
        let error = read_newest("file", "file.previous", refuse).unwrap_err();
        assert_eq!(error.to_string(), "file: cannot read: permission denied");
    }

    #[test]
    fn the_previous_file_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (path, previous) = (dir.path().join("file"), dir.path().join("file.previous"));
        for contents in ["one", "two", "three"] {
            write_keeping_previous(&path, &previous, |w| w.write_all(contents.as_bytes())).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(fs::read_to_string(&previous).unwrap(), "two");
        assert_eq!(names(dir.path()), ["file", "file.previous"]);
    }

    #[test]
    fn a_kill_between_the_renames_leaves_the_previous_file_to_read() {
        let dir = tempfile::tempdir().unwrap();
        let (path, previous) = (dir.path().join("file"), dir.path().join("file.previous"));
        fs::write(&path, "two").unwrap();
        fs::write(&previous, "one").unwrap();
        // The steps of `replace` up to the kill.
        let partial = dir.path().join(".file.partial");
        write_synced(&partial, create, |w| w.write_all(b"three")).unwrap();
        step_aside(&path, &previous).unwrap();
        assert_eq!(names(dir.path()), [".file.partial", "file.previous"]);

        let found = read_newest(&path, &previous, text).unwrap();
        assert_eq!((found.value.as_str(), &found.path), ("two", &previous));
        assert_eq!(
            message(found.passed_over.unwrap(), dir.path()),
            "DIR/file: cannot read: No such file or directory (os error 2)"
        );
        write_keeping_previous(&path, &previous, |w| w.write_all(b"three again")).unwrap();
        assert_eq!(read_newest(&path, &previous, text).unwrap().value, "three again");
        assert_eq!(fs::read_to_string(&previous).unwrap(), "two");
        assert_eq!(names(dir.path()), ["file", "file.previous"]);
    }

    #[test]
    fn when_the_last_rename_fails_the_newest_file_gets_its_name_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, previous) = (dir.path().join("file"), dir.path().join("file.previous"));
        fs::write(&path, "old").unwrap();
        let remove = |_: &mut dyn Write| {
            let partial = names(dir.path()).into_iter().find(|name| name.ends_with(".partial")).unwrap();
            fs::remove_file(dir.path().join(partial))
        };
        let error = write_keeping_previous(&path, &previous, remove).unwrap_err();
        assert_eq!(message(error, dir.path()), "DIR/file: cannot replace: No such file or directory (os error 2)");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn a_damaged_file_is_passed_over_and_does_not_push_out_the_good_one() {
        let dir = tempfile::tempdir().unwrap();
        let (path, previous) = (dir.path().join("file"), dir.path().join("file.previous"));
        fs::write(&path, "bad").unwrap();
        fs::write(&previous, "good").unwrap();
        let found = read_newest(&path, &previous, text).unwrap();
        assert_eq!((found.value.as_str(), &found.path), ("good", &previous));
        assert_eq!(message(found.passed_over.unwrap(), dir.path()), "DIR/file: text: bad\n  try: do better");

        assert_eq!(set_aside(&path).unwrap(), Some(dir.path().join("file.damaged")));
        assert_eq!(set_aside(&path).unwrap(), None);
        write_keeping_previous(&path, &previous, |w| w.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&previous).unwrap(), "good");
        assert_eq!(names(dir.path()), ["file", "file.damaged", "file.previous"]);
    }

    #[test]
    fn nothing_to_read() {
        let dir = tempfile::tempdir().unwrap();
        let (path, previous) = (dir.path().join("file"), dir.path().join("file.previous"));
        assert_eq!(
            message(read_newest(&path, &previous, text).unwrap_err(), dir.path()),
            "DIR/file: it is not there, and neither is the previous one, DIR/file.previous\n  \
             try: nothing was saved yet: start from the beginning"
        );
        fs::write(&previous, "bad").unwrap();
        assert_eq!(
            message(read_newest(&path, &previous, text).unwrap_err(), dir.path()),
            "DIR/file: neither this file nor the previous one can be used:\n  \
             DIR/file: cannot read: No such file or directory (os error 2)\n  \
             DIR/file.previous: text: bad\n      try: do better\n  \
             try: restore one of them from a copy, or start again in another folder"
        );
    }
}
