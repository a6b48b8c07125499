//! Finding the three parts of a corpus in a folder.
//!
//! A *layout* is a way to name the three files. The names in use are those of the Penn Treebank, of WikiText, and the
//! plain ones.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Which of the three parts of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplitName {
    /// What the model learns from.
    Train,
    /// What settings and the best epoch are chosen by.
    Valid,
    /// What results are reported on.
    Test,
}

impl SplitName {
    /// The three, in the usual order.
    pub const ALL: [SplitName; 3] = [SplitName::Train, SplitName::Valid, SplitName::Test];

    /// As it stands in file names.
    pub fn as_str(self) -> &'static str {
        match self {
            SplitName::Train => "train",
            SplitName::Valid => "valid",
            SplitName::Test => "test",
        }
    }
}

/// What stands before and after the name of the split.
const LAYOUTS: [(&str, &str); 3] = [("", ".txt"), ("ptb.", ".txt"), ("wiki.", ".tokens")];

fn file_name((before, after): (&str, &str), split: SplitName) -> String {
    format!("{before}{}{after}", split.as_str())
}

/// The layouts of which `dir` holds at least one of `splits`.
fn layouts_in(dir: &Path, splits: &[SplitName]) -> Result<Vec<(&'static str, &'static str)>> {
    if !dir.is_dir() {
        return Err(Error::corpus(dir, "there is no such folder", "check the path given as `--data`"));
    }
    let holds = |layout| splits.iter().any(|&split| dir.join(file_name(layout, split)).is_file());
    Ok(LAYOUTS.into_iter().filter(|&layout| holds(layout)).collect())
}

fn ambiguous(dir: &Path, one: String, other: String) -> Error {
    Error::corpus(
        dir,
        format!("two corpora are in this folder: {one} and {other}"),
        "keep the files of only one of them in the folder",
    )
}

/// The files of the three splits in a folder, in the order of [`SplitName::ALL`].
pub fn find_splits(dir: &Path) -> Result<[PathBuf; 3]> {
    let path = |layout, split| dir.join(file_name(layout, split));
    let layout = match layouts_in(dir, &SplitName::ALL)?[..] {
        [layout] => layout,
        [one, other, ..] => {
            let present = |layout| {
                let split = SplitName::ALL.into_iter().find(|&split| path(layout, split).is_file());
                file_name(layout, split.unwrap_or(SplitName::Train))
            };
            return Err(ambiguous(dir, present(one), present(other)));
        }
        [] => {
            let names: Vec<String> =
                LAYOUTS.iter().map(|&layout| SplitName::ALL.map(|split| file_name(layout, split)).join(", ")).collect();
            return Err(Error::corpus(
                dir,
                format!("no corpus is in this folder; looked for {}", names.join("; or ")),
                "name the three files so, or give one text file, which is then split by itself",
            ));
        }
    };
    let missing: Vec<String> = SplitName::ALL
        .into_iter()
        .filter(|&split| !path(layout, split).is_file())
        .map(|split| file_name(layout, split))
        .collect();
    if !missing.is_empty() {
        return Err(Error::corpus(
            dir,
            format!("the corpus is not complete; missing: {}", missing.join(", ")),
            "put the missing file there, or give one text file, which is then split by itself",
        ));
    }
    Ok(SplitName::ALL.map(|split| path(layout, split)))
}

/// The file of one split in a folder; the others need not be there.
pub fn find_split(dir: &Path, split: SplitName) -> Result<PathBuf> {
    match layouts_in(dir, &[split])?[..] {
        [layout] => Ok(dir.join(file_name(layout, split))),
        [one, other, ..] => Err(ambiguous(dir, file_name(one, split), file_name(other, split))),
        [] => {
            let names = LAYOUTS.map(|layout| file_name(layout, split));
            Err(Error::corpus(
                dir,
                format!("no {} split is in this folder; looked for {}", split.as_str(), names.join(", ")),
                "name the file so, or give the file itself",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            std::fs::write(dir.path().join(file), "a b\n").unwrap();
        }
        dir
    }

    #[track_caller]
    fn check_error<T: std::fmt::Debug>(result: Result<T>, dir: &Path, expected: &str) {
        assert_eq!(result.unwrap_err().to_string().replace(&dir.display().to_string(), "DIR"), expected);
    }

    #[test]
    fn the_three_layouts_are_found() {
        for files in [
            ["train.txt", "valid.txt", "test.txt"],
            ["ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"],
            ["wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"],
        ] {
            let dir = folder(&[files[0], files[1], files[2], "README.md"]);
            assert_eq!(find_splits(dir.path()).unwrap(), files.map(|file| dir.path().join(file)));
            assert_eq!(find_split(dir.path(), SplitName::Valid).unwrap(), dir.path().join(files[1]));
        }
    }

    #[test]
    fn one_split_is_found_without_the_others() {
        let dir = folder(&["wiki.test.tokens", "train.txt"]);
        assert_eq!(find_split(dir.path(), SplitName::Test).unwrap(), dir.path().join("wiki.test.tokens"));
        check_error(
            find_split(dir.path(), SplitName::Valid),
            dir.path(),
            "DIR: no valid split is in this folder; looked for valid.txt, ptb.valid.txt, wiki.valid.tokens\n  \
             try: name the file so, or give the file itself",
        );
    }

    #[test]
    fn a_folder_without_a_corpus_says_what_was_looked_for() {
        let dir = folder(&["notes.txt"]);
        check_error(
            find_splits(dir.path()),
            dir.path(),
            "DIR: no corpus is in this folder; looked for train.txt, valid.txt, test.txt; or ptb.train.txt, \
             ptb.valid.txt, ptb.test.txt; or wiki.train.tokens, wiki.valid.tokens, wiki.test.tokens\n  \
             try: name the three files so, or give one text file, which is then split by itself",
        );
    }

    #[test]
    fn an_incomplete_corpus_says_what_is_missing() {
        let dir = folder(&["ptb.train.txt"]);
        check_error(
            find_splits(dir.path()),
            dir.path(),
            "DIR: the corpus is not complete; missing: ptb.valid.txt, ptb.test.txt\n  \
             try: put the missing file there, or give one text file, which is then split by itself",
        );
    }

    #[test]
    fn two_corpora_in_one_folder_are_refused() {
        let dir = folder(&["train.txt", "valid.txt", "test.txt", "ptb.test.txt"]);
        let expected = "DIR: two corpora are in this folder: train.txt and ptb.test.txt\n  \
                        try: keep the files of only one of them in the folder";
        check_error(find_splits(dir.path()), dir.path(), expected);
        check_error(
            find_split(dir.path(), SplitName::Test),
            dir.path(),
            &expected.replace("train.txt and", "test.txt and"),
        );
        assert!(find_split(dir.path(), SplitName::Train).is_ok());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let expected = "nowhere: there is no such folder\n  try: check the path given as `--data`";
        check_error(find_splits(Path::new("nowhere")), Path::new("/none"), expected);
        check_error(find_split(Path::new("nowhere"), SplitName::Test), Path::new("/none"), expected);
    }
}
