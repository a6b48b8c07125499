//! What is wrong with a text or a vocabulary that is held against the grammar.

use std::fmt;

/// A text or a vocabulary that is not of the built-in grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOfThisGrammar {
    /// The line of the text, counted from 1, where it is about one.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: String,
    /// What to do next.
    pub advice: &'static str,
}

impl NotOfThisGrammar {
    pub(crate) fn new(problem: String, advice: &'static str) -> NotOfThisGrammar {
        NotOfThisGrammar { line: None, problem, advice }
    }
}

impl fmt::Display for NotOfThisGrammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("demo")?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}\n  try: {}", self.problem, self.advice)
    }
}

impl std::error::Error for NotOfThisGrammar {}
