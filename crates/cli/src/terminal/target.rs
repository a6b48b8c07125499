//! Where bars are drawn: standard error, a little narrower than it is.
//!
//! A terminal echoes Ctrl-C as `^C` where the cursor stands. At the end of a full row that would be the next row, and the bar
//! above it could not be cleared any more.

use super::width;
use indicatif::{ProgressDrawTarget, TermLike};
use std::io::{Result, Write, stderr};

/// Columns that are left for `^C`.
const ECHO: usize = 2;

/// Columns that a bar may take; `None` in a pipe.
pub fn columns() -> Option<usize> {
    width::of_stderr().map(|columns| columns.saturating_sub(ECHO).max(1))
}

/// The target of all bars.
pub fn target() -> ProgressDrawTarget {
    match columns() {
        Some(_) if cfg!(unix) => ProgressDrawTarget::term_like_with_hz(Box::new(Narrower), 20),
        Some(_) => ProgressDrawTarget::stderr(),
        None => ProgressDrawTarget::hidden(),
    }
}

#[derive(Debug)]
struct Narrower;

impl TermLike for Narrower {
    fn width(&self) -> u16 {
        columns().map_or(80, |columns| u16::try_from(columns).unwrap_or(u16::MAX))
    }

    fn move_cursor_up(&self, n: usize) -> Result<()> {
        moved(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> Result<()> {
        moved(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> Result<()> {
        moved(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> Result<()> {
        moved(n, 'D')
    }

    fn write_line(&self, text: &str) -> Result<()> {
        writeln!(stderr(), "{text}")
    }

    fn write_str(&self, text: &str) -> Result<()> {
        write!(stderr(), "{text}")
    }

    fn clear_line(&self) -> Result<()> {
        clear_line()
    }

    fn flush(&self) -> Result<()> {
        stderr().flush()
    }
}

/// Clears the row of the cursor, which goes to its beginning.
pub fn clear_line() -> Result<()> {
    write!(stderr(), "\r\x1b[2K")
}

fn moved(n: usize, direction: char) -> Result<()> {
    if n == 0 { Ok(()) } else { write!(stderr(), "\x1b[{n}{direction}") }
}
