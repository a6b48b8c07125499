//! Safe standard output: text from files must not control the terminal.
//!
//! On a terminal, control characters other than ends of lines and tabs are shown as `\u{1b}` and the like. In a pipe or a
//! file everything stays as it is: there it is data.

use std::io::{self, IsTerminal, Stdout, Write};

/// Standard output.
pub fn stdout() -> Screen<Stdout> {
    let out = io::stdout();
    Screen { escape: out.is_terminal(), out, rest: Vec::new() }
}

/// A writer that shows control characters, where it has to.
pub struct Screen<W> {
    out: W,
    escape: bool,
    /// The beginning of a character whose end is still to come.
    rest: Vec<u8>,
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.escape {
            return self.out.write(bytes);
        }
        self.rest.extend_from_slice(bytes);
        let mut shown = String::new();
        let mut from = 0;
        while from < self.rest.len() {
            match std::str::from_utf8(&self.rest[from..]) {
                Ok(text) => {
                    shown.push_str(&harmless(text));
                    from = self.rest.len();
                }
                Err(error) => {
                    let valid = from + error.valid_up_to();
                    shown.push_str(&harmless(&String::from_utf8_lossy(&self.rest[from..valid])));
                    from = valid;
                    let Some(bad) = error.error_len() else { break };
                    shown.push('\u{fffd}');
                    from += bad;
                }
            }
        }
        self.rest.drain(..from);
        self.out.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Text whose control characters, but for ends of lines and tabs, are spelled out.
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&[u8]], escape: bool) -> Vec<u8> {
        let mut screen = Screen { out: Vec::new(), escape, rest: Vec::new() };
        pieces.iter().for_each(|piece| screen.write_all(piece).unwrap());
        screen.out
    }

    #[test]
    fn a_terminal_is_not_commanded_by_text() {
        let text = "caf\u{e9}\t\u{1b}]0;gone\u{7}\u{9b}2J\r\n";
        let safe = "caf\u{e9}\t\\u{1b}]0;gone\\u{7}\\u{9b}2J\\r\n";
        assert_eq!(shown(&[text.as_bytes()], true), safe.as_bytes());
        // However it is cut, in the middle of characters too.
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(shown(&bytes, true), safe.as_bytes());
        assert_eq!(shown(&[b"a\xffb\x1b"], true), "a\u{fffd}b\\u{1b}".as_bytes());
        assert_eq!(shown(&[text.as_bytes()], false), text.as_bytes());
    }
}
