//! Bytes to words: a text is read whole, must be UTF-8, and is walked once, line by line and word by word.
//!
//! A line ends with a line feed, with or without a carriage return before it; the last one may go without. Each line
//! gives its words and then `<eos>`, so an empty line is `<eos>` alone (WikiText-2 has many). A line that already ends
//! with a literal `<eos>` gets no second one.

use std::path::{Path, PathBuf};

use super::digest::sha256_hex;
use super::tokenize::for_each_token;
use crate::storage::files;
use crate::vocabulary::{EOS, not_utf8};
use crate::{Error, Result};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A text in memory, and what to call it in messages.
pub(crate) struct Text {
    pub path: PathBuf,
    /// The line of the file at which this text starts, counted from 1.
    pub first_line: usize,
    pub sha256: String,
    /// Not empty.
    text: String,
}

impl Text {
    /// Reads a file, which must not be empty.
    pub fn read(path: &Path) -> Result<Text> {
        let bytes = files::read_stream(path).map_err(Error::io(path, "read"))?;
        Text::from_bytes(path, bytes)
    }

    /// The text in some bytes; `path` is for the messages.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Text> {
        let sha256 = sha256_hex(&bytes);
        let mut text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let (line, problem) = not_utf8(error.as_bytes(), error.utf8_error().valid_up_to());
                return Err(Error::corpus_line(
                    path,
                    line,
                    problem,
                    "convert the file to UTF-8, for example `iconv -f ISO-8859-1 -t UTF-8 OLD > NEW`",
                ));
            }
        };
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len_utf8());
        }
        if text.is_empty() {
            return Err(Error::corpus(path, "the file is empty", "put text in it, one sentence a line"));
        }
        Ok(Text { path: path.into(), first_line: 1, sha256, text })
    }

    /// Number of lines.
    pub fn lines(&self) -> usize {
        self.each_line().count()
    }

    /// The text cut before the lines `first` and `second`, both counted from 0.
    pub fn cut_at_lines(&self, first: usize, second: usize) -> [Text; 3] {
        let mut starts = vec![0];
        starts.extend(self.text.match_indices('\n').map(|(place, _)| place + 1));
        let at = |line: usize| starts.get(line).copied().unwrap_or(self.text.len());
        let part = |from: usize, to: usize, line: usize| {
            let text = &self.text[from..to];
            let sha256 = sha256_hex(text.as_bytes());
            Text { path: self.path.clone(), first_line: self.first_line + line, sha256, text: text.to_owned() }
        };
        [part(0, at(first), 0), part(at(first), at(second), first), part(at(second), self.text.len(), second)]
    }

    /// Calls `each` with every word and every line's `<eos>`, in order, and with the line of the file it stands on.
    /// Returns the number of lines.
    pub fn for_each_word(&self, tokenize: bool, mut each: impl FnMut(usize, &str)) -> usize {
        let mut lines = 0;
        for line in self.each_line() {
            let number = self.first_line + lines;
            let mut ended = false;
            for_each_word_of_line(line, tokenize, |word| {
                ended = word == EOS;
                each(number, word);
            });
            if !ended {
                each(number, EOS);
            }
            lines += 1;
        }
        lines
    }

    /// The text as it stands in the file.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text as it is read by a model that tokenizes: words with one space between them.
    pub fn tokenized(&self) -> String {
        let mut out = String::with_capacity(self.text.len());
        for line in self.each_line() {
            let start = out.len();
            for_each_token(line, |word| {
                if out.len() > start {
                    out.push(' ');
                }
                out.push_str(word);
            });
            out.push('\n');
        }
        out
    }

    fn each_line(&self) -> impl Iterator<Item = &str> {
        self.text.split_terminator('\n')
    }
}

/// The words of one line, without `<eos>`: what stands between white spaces, or the tokens in it.
pub(crate) fn for_each_word_of_line(line: &str, tokenize: bool, mut each: impl FnMut(&str)) {
    if tokenize {
        for_each_token(line, each);
    } else {
        // A carriage return before the line feed is white space, too.
        for word in line.split_whitespace() {
            each(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let text = Text::from_bytes(Path::new("t"), text.as_bytes().to_vec()).unwrap();
        let mut words = Vec::new();
        let lines = text.for_each_word(false, |line, word| words.push(format!("{line}:{word}")));
        assert_eq!(lines, text.lines());
        words
    }

    #[test]
    fn every_line_ends_with_one_eos() {
        assert_eq!(words("a b\n\n c \n"), ["1:a", "1:b", "1:<eos>", "2:<eos>", "3:c", "3:<eos>"]);
        assert_eq!(words("a\nb"), ["1:a", "1:<eos>", "2:b", "2:<eos>"], "the last line may lack its end");
        assert_eq!(words("\n"), ["1:<eos>"]);
        assert_eq!(words("a <eos>\n<eos> b\n"), ["1:a", "1:<eos>", "2:<eos>", "2:b", "2:<eos>"], "no second one");
    }

    #[test]
    fn windows_line_ends_and_byte_order_marks_leave_no_trace() {
        assert_eq!(words("\u{feff}a b\r\n\r\nc\r\n"), words("a b\n\nc\n"));
    }

    #[test]
    fn parts_start_where_they_were_cut_and_know_their_lines() {
        let text = Text::from_bytes(Path::new("t"), b"a\nb\nc\nd".to_vec()).unwrap();
        let parts = text.cut_at_lines(2, 3);
        let texts: Vec<_> = parts.iter().map(|part| (part.first_line, part.lines(), part.text.as_str())).collect();
        assert_eq!(texts, [(1, 2, "a\nb\n"), (3, 1, "c\n"), (4, 1, "d")]);
        assert_eq!(parts[1].sha256, sha256_hex(b"c\n"));
    }

    #[test]
    fn bad_bytes_are_named_with_their_line() {
        let error = |bytes: &[u8]| Text::from_bytes(Path::new("t.txt"), bytes.to_vec()).err().unwrap().to_string();
        assert_eq!(
            error(b"one\ntwo caf\xE9\n"),
            "t.txt:2: not UTF-8: byte 0xE9 at column 8\n  \
             try: convert the file to UTF-8, for example `iconv -f ISO-8859-1 -t UTF-8 OLD > NEW`"
        );
        let empty = "t.txt: the file is empty\n  try: put text in it, one sentence a line";
        assert_eq!(error(b""), empty);
        assert_eq!(error("\u{feff}".as_bytes()), empty);
    }
}
