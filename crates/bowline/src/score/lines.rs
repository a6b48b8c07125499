//! Lines of text from a file or a pipe, one after the other, with little held in memory.

use crate::error::{Error, Result};
use crate::vocabulary::not_utf8;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// A longer line is no sentence: some ten thousand times the usual length.
const LONGEST: u64 = 1 << 20;

/// Reads lines and knows where it is.
pub struct Lines<R> {
    path: PathBuf,
    number: usize,
    input: R,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`, which messages call `path`.
    pub fn new(path: &Path, input: R) -> Lines<R> {
        Lines { path: path.into(), number: 0, input }
    }

    /// What it reads.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next line with its number, counted from 1, and without its end; `None` after the last.
    pub fn next_line(&mut self) -> Result<Option<(usize, String)>> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(LONGEST + 2).read_until(b'\n', &mut bytes);
        read.map_err(Error::io(&self.path, "read"))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let wrong = |problem: String, advice: &str| Err(Error::corpus_line(&self.path, self.number, problem, advice));
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        if bytes.len() as u64 > LONGEST {
            return wrong(format!("the line has more than {LONGEST} bytes"), "put one sentence on each line");
        }
        if self.number == 1 && bytes.starts_with("\u{feff}".as_bytes()) {
            bytes.drain(.."\u{feff}".len());
        }
        if let Some(column) = bytes.iter().position(|&byte| byte == 0) {
            let problem = format!("byte 0x00 at column {}: this is not text", column + 1);
            return wrong(problem, "give a text file; Kaldi writes archives as text with `ark,t:`");
        }
        match String::from_utf8(bytes) {
            Ok(line) => Ok(Some((self.number, line))),
            Err(error) => {
                let (_, problem) = not_utf8(error.as_bytes(), error.utf8_error().valid_up_to());
                wrong(problem, "convert the text to UTF-8, for example with `iconv -f ISO-8859-1 -t UTF-8`")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(usize, String)>> {
        let mut lines = Lines::new(Path::new("in.txt"), bytes);
        std::iter::from_fn(|| lines.next_line().transpose()).collect()
    }

    #[test]
    fn lines_are_counted_and_lose_their_ends() {
        let lines = all("\u{feff}a b\r\n\nc".as_bytes()).unwrap();
        assert_eq!(lines, [(1, "a b".to_owned()), (2, String::new()), (3, "c".to_owned())]);
        assert!(all(b"").unwrap().is_empty());
        let longest = "x".repeat(LONGEST as usize);
        assert_eq!(all(format!("{longest}\n{longest}").as_bytes()).unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_text_is_named_with_its_line() {
        let error = |bytes: &[u8]| all(bytes).unwrap_err().to_string();
        assert!(error(b"a\nb caf\xE9\n").starts_with("in.txt:2: not UTF-8: byte 0xE9 at column 6\n  try: convert"));
        assert!(error(b"utt-1 \0B\n").starts_with("in.txt:1: byte 0x00 at column 7: this is not text\n  try: "));
        let long = "x".repeat(LONGEST as usize + 1);
        assert!(error(format!("a\n{long}\n").as_bytes()).starts_with("in.txt:2: the line has more than 1048576 bytes"));
    }
}
