//! A folder that comes into being whole or not at all.
//!
//! It is made under another name beside its place and renamed when all of it is on the disk. So a command that fails or is
//! killed half way leaves nothing in its place, and can simply be repeated.

use std::path::Path;

use super::files;
use super::partial::Partial;
use crate::error::{Error, Result};

/// Makes the folder `dir`, which must not be there or be empty. `fill` gets the path under which it is made.
pub fn create<T>(dir: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if dir.is_file() || std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        let advice = "an --out that does not exist yet, or an empty folder";
        return Err(Error::run(dir, "something is already here", advice));
    }
    if let Some(above) = dir.parent().filter(|above| !above.as_os_str().is_empty()) {
        files::create_dir_all(above).map_err(Error::io(above, "create the folder"))?;
    }
    let mut partial = Partial::beside(dir).map_err(Error::io(dir, "create the folder"))?;
    files::create_dir_all(partial.path()).map_err(Error::io(dir, "create the folder"))?;
    let value = fill(partial.path())?;
    if cfg!(windows) && dir.is_dir() {
        // Elsewhere an empty folder is replaced.
        std::fs::remove_dir(dir).map_err(Error::io(dir, "replace the folder"))?;
    }
    partial.publish(dir).map_err(Error::io(dir, "give the folder its name"))?;
    if let Err(source) = files::sync_folder(dir) {
        // Nobody has seen it yet: gone again, it does not stand in the way of the next attempt.
        let _ = std::fs::remove_dir_all(dir);
        return Err(Error::Io { path: dir.into(), action: "sync the folder of", source });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_folder_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("above/model");
        let half = |folder: &Path| {
            fs::write(folder.join("one"), "1").unwrap();
            Err::<(), _>(Error::run(folder, "half way", "again"))
        };
        assert!(create(&path, half).is_err());
        assert_eq!(names(&dir.path().join("above")), Vec::<String>::new());
        for _ in 0..2 {
            let whole = |folder: &Path| {
                assert!(!path.join("one").exists());
                fs::write(folder.join("one"), "1").map_err(Error::io(folder, "write"))
            };
            create(&path, whole).unwrap();
            assert_eq!(names(&dir.path().join("above")), ["model"]);
            assert_eq!(names(&path), ["one"]);
            assert!(create(&path, |_| Ok(())).unwrap_err().to_string().contains("something is already here"));
            // An empty folder is as good as none.
            fs::remove_file(path.join("one")).unwrap();
        }
    }
}
