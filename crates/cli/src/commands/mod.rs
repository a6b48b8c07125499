//! One file per command.

pub mod arpa;
pub mod bench;
pub mod branch;
pub mod budget;
pub mod compare;
pub mod completions;
pub mod data;
pub mod demo;
pub mod eval;
pub mod export;
pub mod fit;
pub mod generate;
pub mod import;
pub mod man;
pub mod neighbours;
pub mod next;
pub mod pairs;
pub mod predictor;
pub mod recipes;
pub mod report;
pub mod reproduce;
pub mod rescore;
pub mod resume;
pub mod runs;
pub mod score;
pub mod serve;
pub mod settings;
pub mod split;
pub mod subspace;
pub mod tensorboard;
pub mod train;

use crate::screen::stdout;
use crate::terminal::note;
use bowline::corpus::Phrase;
use bowline::score::Reader;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// One JSON object on standard output.
fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    writeln!(stdout(), "{}", serde_json::to_string(value)?)?;
    Ok(())
}

/// A path as it can be pasted into a shell.
pub fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// A word as a terminal may show it: a vocabulary from elsewhere can hold control characters.
fn printable(word: &str) -> String {
    word.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// Says which words of a phrase the model's vocabulary lacks, and how they are read.
fn say_unseen(phrase: &Phrase, reader: &Reader) {
    let how = if reader.spells() { "by its characters" } else { "as <unk>" };
    for word in phrase.unseen_words() {
        note(format_args!("`{}` is not in the model's vocabulary and is read {how}", printable(word)));
    }
}
