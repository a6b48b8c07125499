//! One error type for the whole library.
//!
//! Every message names what it is about (a file, a line of it, a key of the configuration), says what is wrong, and
//! ends with what to do next.

use bowline_demo::NotOfThisGrammar;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// All that can go wrong, with enough in it to put it right.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("{path}: cannot {action}: {source}", path = .path.display())]
    Io {
        /// What it was about.
        path: PathBuf,
        /// What was being done, as a verb: "read", "create the folder".
        action: &'static str,
        /// The system's own word.
        source: io::Error,
    },

    /// A corpus, a split or a vocabulary is not what it should be.
    #[error("{path}{line}: {problem}\n  try: {advice}", path = .path.display(), line = Line(*.line))]
    Corpus {
        /// The file or folder.
        path: PathBuf,
        /// The line, counted from 1, where there is one.
        line: Option<usize>,
        /// What is wrong.
        problem: String,
        /// What to do next.
        advice: String,
    },

    /// A setting does not exist, or its value is impossible.
    #[error("setting `{key}`: {problem}\n  try: {advice}")]
    Config {
        /// The dotted name, as `--set` takes it.
        key: String,
        /// What is wrong.
        problem: String,
        /// What to do next.
        advice: String,
    },

    /// A model folder or one of its files is damaged or of another kind.
    #[error("{path}: {field}: {problem}\n  try: {advice}", path = .path.display())]
    Model {
        /// The file or folder.
        path: PathBuf,
        /// The tensor, key or part of the file at fault.
        field: String,
        /// What is wrong.
        problem: String,
        /// What to do next.
        advice: String,
    },

    /// A run's folder cannot be used as asked, or its checkpoints are gone.
    #[error("{path}: {problem}\n  try: {advice}", path = .path.display())]
    Run {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What to do next.
        advice: String,
    },

    /// A download failed from every mirror, or brought something else than it should.
    #[error("{what}: {problem}\n  try: {advice}")]
    Download {
        /// The corpus or file.
        what: String,
        /// What is wrong.
        problem: String,
        /// What to do next.
        advice: String,
    },

    /// The processes that train one model do not agree, or one of them is gone. All of them know.
    #[error("{problem}\n  try: {advice}")]
    Ranks {
        /// What is wrong, with the number of the rank.
        problem: String,
        /// What to do next.
        advice: String,
    },

    /// The loss or the gradient stopped being a number; the weights were left untouched.
    #[error("{what} is not finite at step {step} (epoch {epoch}); the weights were not changed\n  try: {advice}")]
    Diverged {
        /// "the loss" or "the gradient".
        what: &'static str,
        /// The step (counted from 0 over the whole run).
        step: u64,
        /// The epoch, counted from 1.
        epoch: u32,
        /// What to do next.
        advice: String,
    },
}

impl Error {
    /// An error that all processes of a training have together.
    pub fn ranks(problem: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Ranks { problem: problem.into(), advice: advice.into() }
    }

    /// For `map_err` on system calls: `.map_err(Error::io(path, "read"))`.
    pub fn io(path: impl AsRef<Path>, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::Io { path, action, source }
    }

    /// A corpus error about a whole file or folder.
    pub fn corpus(path: impl AsRef<Path>, problem: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Corpus { path: path.as_ref().into(), line: None, problem: problem.into(), advice: advice.into() }
    }

    /// A corpus error at one line.
    pub fn corpus_line(
        path: impl AsRef<Path>,
        line: usize,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Error {
        Error::Corpus { path: path.as_ref().into(), line: Some(line), problem: problem.into(), advice: advice.into() }
    }

    /// A configuration error.
    pub fn config(key: impl Into<String>, problem: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Config { key: key.into(), problem: problem.into(), advice: advice.into() }
    }

    /// A model error.
    pub fn model(
        path: impl AsRef<Path>,
        field: impl Into<String>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Error {
        Error::Model { path: path.as_ref().into(), field: field.into(), problem: problem.into(), advice: advice.into() }
    }

    /// An error about a run's folder.
    pub fn run(path: impl AsRef<Path>, problem: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Run { path: path.as_ref().into(), problem: problem.into(), advice: advice.into() }
    }

    /// A download error.
    pub fn download(what: impl Into<String>, problem: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Download { what: what.into(), problem: problem.into(), advice: advice.into() }
    }
}

impl From<NotOfThisGrammar> for Error {
    fn from(NotOfThisGrammar { line, problem, advice }: NotOfThisGrammar) -> Error {
        Error::Corpus { path: "demo".into(), line, problem, advice: advice.to_owned() }
    }
}

/// `:12` for a line, nothing for none.
struct Line(Option<usize>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(line) => write!(f, ":{line}"),
            None => Ok(()),
        }
    }
}
