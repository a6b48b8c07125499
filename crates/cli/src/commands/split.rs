//! The text that `--data` and `--split` mean, in a model's own words.

use bowline::corpus::{Split, SplitName, find_split};
use bowline::data;
use bowline::vocabulary::Vocabulary;
use bowline_demo as demo;
use std::path::{Path, PathBuf};

/// Reads one part of a corpus; a plain text file is taken whole, whatever the part.
pub fn read(data: &str, name: SplitName, vocabulary: &Vocabulary, tokenize: bool) -> bowline::Result<Split> {
    if data == "demo" {
        let splits = demo::splits(demo::DEFAULT_SEED);
        let text = match name {
            SplitName::Train => splits.train,
            SplitName::Valid => splits.valid,
            SplitName::Test => splits.test,
        };
        return Split::from_text("demo", &text, vocabulary, tokenize);
    }
    let path = locate(data)?;
    let file = if path.is_file() { path } else { find_split(&path, name)? };
    Split::read(&file, vocabulary, tokenize)
}

/// Reads a part that must be one of several: a plain text file has no such parts.
pub fn read_part(
    data: &str,
    name: SplitName,
    purpose: &str,
    vocabulary: &Vocabulary,
    tokenize: bool,
) -> bowline::Result<Split> {
    if data != "demo" {
        let path = locate(data)?;
        if path.is_file() {
            let part = name.as_str();
            return Err(bowline::Error::corpus(
                path,
                format!("{purpose} needs the {part} part of a corpus, and this is one text"),
                "--data with a folder of train, valid and test files",
            ));
        }
    }
    read(data, name, vocabulary, tokenize)
}

fn locate(data: &str) -> bowline::Result<PathBuf> {
    match data::by_name(data) {
        Some(corpus) => data::locate(corpus, &data::Environment::current()),
        None => Ok(Path::new(data).to_path_buf()),
    }
}
