//! Bytes to words: a text must be UTF-8, and is walked line by line and word by word. It is read whole, or, where it is
//! large, stays in its file and is read anew for each walk, a line at a time.
//!
//! A line ends with a line feed, with or without a carriage return before it; the last one may go without. Each line
//! gives its words and then `<eos>`, so an empty line is `<eos>` alone (WikiText-2 has many). A line that already ends
//! with a literal `<eos>` gets no second one.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::digest::{Hasher, sha256_hex};
use super::tokenize::for_each_token;
use crate::storage::files;
use crate::vocabulary::{EOS, not_utf8};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

const BYTE_ORDER_MARK: char = '\u{feff}';
const TO_UTF_8: &str = "convert the file to UTF-8, for example `iconv -f ISO-8859-1 -t UTF-8 OLD > NEW`";
const EMPTY: &str = "the file is empty";
const PUT_TEXT: &str = "put text in it, one sentence a line";

/// A file of more bytes than this is not read whole, unless somebody wants it so.
const LARGE: u64 = 64 << 20;
/// Bytes of a line in a large text, at most: a line is read whole.
const LONGEST_LINE: u64 = 64 << 20;
/// Bytes that are read at a time.
const BUFFER: usize = 1 << 20;

/// Where the words of a training text are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdsIn {
    /// In memory, unless the text has more than 64 MB.
    #[default]
    Auto,
    /// In memory.
    Memory,
    /// In a file of the run.
    File,
}

/// A text, and what to call it in messages.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub path: PathBuf,
    /// The line of the file at which this text starts, counted from 1.
    pub first_line: usize,
    pub sha256: String,
    /// Not empty.
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Memory(String),
    /// These bytes of the file.
    File(Range<u64>),
}

impl Text {
    /// Reads a file, which must not be empty.
    pub fn read(path: &Path) -> Result<Text> {
        let bytes = files::read_stream(path).map_err(Error::io(path, "read"))?;
        Text::from_bytes(path, bytes)
    }

    /// Reads a file, or, where it is large or somebody wants it so, goes through it once and leaves it where it is.
    pub fn open(path: &Path, ids: IdsIn) -> Result<Text> {
        let length = std::fs::metadata(path).map_or(0, |file| if file.is_file() { file.len() } else { 0 });
        let large = match ids {
            IdsIn::Memory => false,
            IdsIn::File => true,
            IdsIn::Auto => length > LARGE,
        };
        if !large || length == 0 {
            return Text::read(path);
        }
        let mut text = Text { path: path.into(), first_line: 1, sha256: String::new(), body: Body::File(0..length) };
        text.sha256 = text.hash()?;
        let mut first = [0; BYTE_ORDER_MARK.len_utf8()];
        let mut marked = [0; BYTE_ORDER_MARK.len_utf8()];
        BYTE_ORDER_MARK.encode_utf8(&mut marked);
        let begin = files::open(path).and_then(|mut file| file.read(&mut first)).map_err(Error::io(path, "read"))?;
        if first[..begin] == marked {
            let after = begin as u64;
            if after == length {
                return Err(Error::corpus(path, EMPTY, PUT_TEXT));
            }
            text.body = Body::File(after..length);
        }
        Ok(text)
    }

    /// The text in some bytes; `path` is for the messages.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Text> {
        let sha256 = sha256_hex(&bytes);
        let mut text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let (line, problem) = not_utf8(error.as_bytes(), error.utf8_error().valid_up_to());
                return Err(Error::corpus_line(path, line, problem, TO_UTF_8));
            }
        };
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len_utf8());
        }
        if text.is_empty() {
            return Err(Error::corpus(path, EMPTY, PUT_TEXT));
        }
        Ok(Text { path: path.into(), first_line: 1, sha256, body: Body::Memory(text) })
    }

    /// Whether it stays in its file.
    pub fn is_large(&self) -> bool {
        matches!(self.body, Body::File(_))
    }

    /// Number of lines.
    pub fn lines(&self) -> Result<usize> {
        let mut lines = 0;
        self.for_each_line(|_, _| lines += 1)?;
        Ok(lines)
    }

    /// The text cut before the lines `first` and `second`, both counted from 0. Of a large one the first part stays in the
    /// file.
    pub fn cut_at_lines(&self, first: usize, second: usize) -> Result<[Text; 3]> {
        let (mut cuts, mut at) = ([None, None], 0);
        self.for_each_line(|line, bytes| {
            for (cut, before) in cuts.iter_mut().zip([first, second]) {
                if line - self.first_line == before {
                    *cut = Some(at);
                }
            }
            at += bytes as u64;
        })?;
        let cuts = cuts.map(|cut| cut.unwrap_or(at));
        let part = |from: u64, to: u64, line: usize| -> Result<Text> {
            let body = match &self.body {
                Body::Memory(text) => Body::Memory(text[from as usize..to as usize].to_owned()),
                Body::File(bytes) => Body::File(bytes.start + from..bytes.start + to),
            };
            let first_line = self.first_line + line;
            let mut part = Text { path: self.path.clone(), first_line, sha256: String::new(), body };
            part.sha256 = part.hash()?;
            Ok(part)
        };
        let [train, valid, test] = [part(0, cuts[0], 0)?, part(cuts[0], cuts[1], first)?, part(cuts[1], at, second)?];
        Ok([train, valid.in_memory()?, test.in_memory()?])
    }

    /// The same text in memory.
    pub fn in_memory(self) -> Result<Text> {
        let Body::File(bytes) = &self.body else { return Ok(self) };
        let mut text = String::new();
        let read = self.reader(bytes).and_then(|mut file| file.read_to_string(&mut text));
        read.map_err(Error::io(&self.path, "read"))?;
        Ok(Text { body: Body::Memory(text), ..self })
    }

    /// The hash of its bytes.
    fn hash(&self) -> Result<String> {
        match &self.body {
            Body::Memory(text) => Ok(sha256_hex(text.as_bytes())),
            Body::File(_) => {
                let mut hasher = Hasher::new();
                self.for_each_line_of(|_, line| hasher.update(line.as_bytes()))?;
                Ok(hasher.hex())
            }
        }
    }

    fn reader(&self, bytes: &Range<u64>) -> std::io::Result<impl BufRead + use<>> {
        let mut file = files::open(&self.path)?;
        file.seek(SeekFrom::Start(bytes.start))?;
        Ok(BufReader::with_capacity(BUFFER, file).take(bytes.end - bytes.start))
    }

    /// Calls `each` with every line of the file, by its number, with the line feed that ends it.
    fn for_each_line_of(&self, mut each: impl FnMut(usize, &str)) -> Result<()> {
        let bytes = match &self.body {
            Body::Memory(text) => {
                text.split_inclusive('\n').enumerate().for_each(|(i, line)| each(self.first_line + i, line));
                return Ok(());
            }
            Body::File(bytes) => bytes,
        };
        let mut file = self.reader(bytes).map_err(Error::io(&self.path, "read"))?;
        let (mut line, mut number) = (Vec::new(), self.first_line);
        loop {
            line.clear();
            let mut limited = (&mut file).take(LONGEST_LINE + 1);
            if limited.read_until(b'\n', &mut line).map_err(Error::io(&self.path, "read"))? == 0 {
                return Ok(());
            }
            if line.len() as u64 > LONGEST_LINE {
                let problem = format!("the line has more than {} MB", LONGEST_LINE >> 20);
                return Err(Error::corpus_line(&self.path, number, problem, "one sentence a line"));
            }
            match std::str::from_utf8(&line) {
                Ok(line) => each(number, line),
                Err(error) => {
                    let (_, problem) = not_utf8(&line, error.valid_up_to());
                    return Err(Error::corpus_line(&self.path, number, problem, TO_UTF_8));
                }
            }
            number += 1;
        }
    }

    /// Calls `each` with the number of every line, and how many bytes it has with its end.
    fn for_each_line(&self, mut each: impl FnMut(usize, usize)) -> Result<()> {
        self.for_each_line_of(|number, line| each(number, line.len()))
    }

    /// Calls `each` with every word and every line's `<eos>`, in order, and with the line of the file it stands on.
    /// Returns the number of lines.
    pub fn for_each_word(&self, tokenize: bool, mut each: impl FnMut(usize, &str)) -> Result<usize> {
        let mut lines = 0;
        self.for_each_line_of(|number, line| {
            let mut ended = false;
            for_each_word_of_line(line, tokenize, |word| {
                ended = word == EOS;
                each(number, word);
            });
            if !ended {
                each(number, EOS);
            }
            lines += 1;
        })?;
        Ok(lines)
    }

    /// The text as it stands in the file, or as a model that tokenizes reads it: words with one space between them.
    pub fn to_string(&self, tokenize: bool) -> Result<String> {
        let mut out = String::new();
        self.for_each_line_of(|_, line| {
            if !tokenize {
                return out.push_str(line);
            }
            let start = out.len();
            for_each_token(line, |word| {
                if out.len() > start {
                    out.push(' ');
                }
                out.push_str(word);
            });
            out.push('\n');
        })?;
        Ok(out)
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
        let lines = text.for_each_word(false, |line, word| words.push(format!("{line}:{word}"))).unwrap();
        assert_eq!(lines, text.lines().unwrap());
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
        let parts = text.cut_at_lines(2, 3).unwrap();
        let of = |part: &Text| (part.first_line, part.lines().unwrap(), part.to_string(false).unwrap());
        let texts = [(1, 2, "a\nb\n"), (3, 1, "c\n"), (4, 1, "d")].map(|(first, n, text)| (first, n, text.to_owned()));
        assert_eq!(parts.each_ref().map(of), texts);
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

    /// The words with their lines, the number of lines and the hash, or the message.
    fn seen(text: Result<Text>) -> std::result::Result<(Vec<String>, usize, String), String> {
        let text = text.map_err(|e| e.to_string())?;
        let mut words = Vec::new();
        let lines = text.for_each_word(true, |line, word| words.push(format!("{line}:{word}")));
        Ok((words, lines.map_err(|e| e.to_string())?, text.sha256))
    }

    #[test]
    fn a_text_in_its_file_is_the_text_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        for bytes in [
            &b"a b\n\n c \n"[..],
            b"a\nb",
            b"\n",
            b"\xEF\xBB\xBFIt's a\r\nb <eos>\n",
            b"one\ntwo caf\xE9\n",
            b"",
            b"\xEF\xBB\xBF",
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(seen(Text::open(&path, IdsIn::File)), seen(Text::read(&path)), "{bytes:?}");
            assert_eq!(seen(Text::open(&path, IdsIn::Auto)), seen(Text::read(&path)));
        }
    }

    #[test]
    fn the_first_part_of_a_text_in_its_file_stays_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.txt");
        std::fs::write(&path, "\u{feff}a \u{e9}\nb\r\nc\nd").unwrap();
        let [small, large] = [IdsIn::Memory, IdsIn::File].map(|ids| Text::open(&path, ids).unwrap());
        assert!(large.is_large() && !small.is_large());
        let [small, large] = [small, large].map(|text| text.cut_at_lines(2, 3).unwrap());
        assert_eq!(large.each_ref().map(Text::is_large), [true, false, false]);
        for (small, large) in small.into_iter().zip(large) {
            assert_eq!(small.first_line, large.first_line);
            assert_eq!(seen(Ok(small)), seen(Ok(large)));
        }
    }
}
