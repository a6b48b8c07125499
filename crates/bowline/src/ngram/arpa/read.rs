//! Reading an ARPA file, of this program or another.
//!
//! Tools differ in what they leave out and how they space it; all of that is read: text before `\data\`, tabs or spaces,
//! missing back-off weights, no `<unk>` (or `<UNK>`), n-grams in any order, a shorter n-gram that was pruned away while a
//! longer one ends in it. Everything else is an error at its line.

use super::super::model::{Level, MAX_ORDER, NgramModel, child_of};
use super::{BEGIN, END, LOG_ZERO};
use crate::error::{Error, Result};
use crate::storage::{files, printable};
use crate::vocabulary::{EOS, UNK, Vocabulary};
use flate2::bufread::MultiGzDecoder;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// No line of an ARPA file is longer.
const LONGEST_LINE: usize = 1 << 20;
/// A compressed file is not so many times longer when it is unpacked.
const MOST_UNPACKED: u64 = 200;
/// Nor are there so many lines without an n-gram one after the other.
const MOST_IDLE_LINES: usize = 10_000;

const WRITE_ANEW: &str = "write the file again with the tool that made it, or restore it from a copy";
const CUT_OFF: &str = "the end of the file seems to be missing: copy it again";

/// Reads an ARPA file, compressed or not.
pub fn read(path: &Path) -> Result<(NgramModel, Vocabulary)> {
    let mut input = BufReader::with_capacity(1 << 16, files::open(path).map_err(Error::io(path, "read"))?);
    let compressed = input.fill_buf().map_err(Error::io(path, "read"))?.starts_with(&[0x1f, 0x8b]);
    if compressed {
        let packed = input.get_ref().metadata().map_err(Error::io(path, "read"))?.len();
        let unpacked = Bounded { input: MultiGzDecoder::new(input), left: packed.saturating_mul(MOST_UNPACKED) };
        return parse(path, BufReader::with_capacity(1 << 16, unpacked));
    }
    parse(path, input)
}

/// A reader that fails when more comes out of it than is believable.
struct Bounded<R> {
    input: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(bytes)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| std::io::Error::other(format!("it unpacks to more than {MOST_UNPACKED} times its size")))?;
        Ok(read)
    }
}

/// Reads the text of an ARPA file; `path` is for the messages.
pub fn parse(path: &Path, input: impl BufRead) -> Result<(NgramModel, Vocabulary)> {
    let mut lines = Lines { path, input, number: 0, text: Vec::new() };
    let announced = lines.header()?;
    let mut words = Words::default();
    let mut levels = vec![lines.single_words(announced[0], &mut words)?];
    for length in 2..=announced.len() {
        let grams = lines.section(length, announced[length - 1], announced.len(), &words, &levels)?;
        let last = length == announced.len();
        let (level, first) = lines.level(grams, levels[length - 2].words.len(), last)?;
        levels[length - 2].first = first;
        levels.push(level);
    }
    lines.end()?;
    if levels.len() == 1 {
        levels[0].backoffs.clear();
    }
    let vocabulary = Vocabulary::from_text(path, words.text.as_bytes())?;
    Ok((NgramModel::from_levels(vocabulary.eos(), levels), vocabulary))
}

/// The words by spelling, as the file has them: `<s>` and `</s>` have one id.
#[derive(Default)]
struct Words {
    ids: HashMap<Box<str>, u32>,
    /// What `vocab.txt` will be.
    text: String,
}

/// An n-gram as it was read.
struct Gram {
    /// The node of its first words and its last word.
    key: u64,
    probability: f32,
    backoff: f32,
    line: usize,
}

/// The lines of the file, and how to get the parts out of them.
struct Lines<'a, R> {
    path: &'a Path,
    input: R,
    /// Of the last line read, counted from 1.
    number: usize,
    text: Vec<u8>,
}

impl<R: BufRead> Lines<'_, R> {
    fn wrong_at(&self, line: usize, problem: impl Into<String>) -> Error {
        Error::corpus_line(self.path, line, problem, WRITE_ANEW)
    }

    fn wrong(&self, problem: impl Into<String>) -> Error {
        self.wrong_at(self.number, problem)
    }

    fn cut_off(&self, expected: &str) -> Error {
        let problem = format!("the file ends here, before {expected}");
        Error::corpus_line(self.path, self.number.max(1), problem, CUT_OFF)
    }

    /// The next line without its end and the spaces around it; none at the end of the file.
    fn next(&mut self) -> Result<Option<String>> {
        self.text.clear();
        let mut limited = self.input.by_ref().take(LONGEST_LINE as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.text).map_err(|error| {
            let problem = format!("it cannot be read from here on: {error}");
            Error::corpus_line(self.path, self.number + 1, problem, CUT_OFF)
        })?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.text.len() > LONGEST_LINE {
            return Err(self.wrong(format!("the line has more than {LONGEST_LINE} bytes")));
        }
        match std::str::from_utf8(&self.text) {
            Ok(text) => Ok(Some(text.trim_matches([' ', '\t', '\r', '\n']).to_owned())),
            Err(_) => Err(self.wrong("the line is not UTF-8")),
        }
    }

    /// The next line that is not empty.
    fn next_filled(&mut self) -> Result<Option<String>> {
        for _ in 0..MOST_IDLE_LINES {
            match self.next()? {
                Some(line) if line.is_empty() => {}
                other => return Ok(other),
            }
        }
        Err(self.wrong(format!("{MOST_IDLE_LINES} empty lines one after the other")))
    }

    /// How many n-grams of each length are announced. Ends after the line `\1-grams:`.
    fn header(&mut self) -> Result<Vec<usize>> {
        let mut found = false;
        while !found {
            found = match self.next()? {
                Some(line) if self.number <= MOST_IDLE_LINES => line == "\\data\\",
                _ => {
                    let problem = "there is no line `\\data\\`: this is not an ARPA file";
                    let advice = "a file that SRILM, KenLM or `bowline arpa write` has written";
                    return Err(Error::corpus_line(self.path, self.number.max(1), problem, advice));
                }
            };
        }
        let mut announced = Vec::new();
        loop {
            let Some(line) = self.next_filled()? else { return Err(self.cut_off("the line `\\1-grams:`")) };
            if line.starts_with('\\') {
                if announced.is_empty() {
                    return Err(self.wrong("no line `ngram 1=...` says how many n-grams there are"));
                }
                self.section_begins(&line, 1)?;
                return Ok(announced);
            }
            let (length, count) = line
                .strip_prefix("ngram ")
                .and_then(|rest| rest.split_once('='))
                .and_then(|(length, count)| Some((length.trim().parse().ok()?, count.trim().parse().ok()?)))
                .ok_or_else(|| self.wrong(format!("`{}` is not a line like `ngram 1=10000`", printable(&line))))?;
            let (length, count): (usize, usize) = (length, count);
            if length != announced.len() + 1 {
                return Err(self.wrong(format!("`ngram {length}` is there instead of `ngram {}`", announced.len() + 1)));
            }
            if length > MAX_ORDER {
                let advice = format!("use a model of order {MAX_ORDER} or lower");
                let problem = format!("n-grams of {length} words are longer than this program reads");
                return Err(Error::corpus_line(self.path, self.number, problem, advice));
            }
            if count >= u32::MAX as usize {
                return Err(self.wrong(format!("{count} n-grams are more than this program reads")));
            }
            announced.push(count);
        }
    }

    fn section_begins(&self, line: &str, length: usize) -> Result<()> {
        if line == format!("\\{length}-grams:") {
            return Ok(());
        }
        Err(self.wrong(format!("`{}` is there instead of `\\{length}-grams:`", printable(line))))
    }

    /// The next n-gram of a section that is to have `announced`, of which `read` are read.
    fn gram_line(&mut self, length: usize, announced: usize, read: usize) -> Result<String> {
        let so_far = || format!("after {read} of the {announced} {length}-grams that the head of the file announces");
        match self.next()? {
            None => Err(self.cut_off(&format!("all {length}-grams are there: {read} of {announced}"))),
            Some(line) if line.is_empty() => Err(self.wrong(format!("the line is empty, {}", so_far()))),
            Some(line) if line.starts_with('\\') => {
                Err(self.wrong(format!("`{}` comes {}", printable(&line), so_far())))
            }
            Some(line) => Ok(line),
        }
    }

    /// Splits a line into probability, words and back-off weight.
    fn fields<'l>(&self, line: &'l str, length: usize, last: bool) -> Result<(f32, Vec<&'l str>, f32)> {
        let fields: Vec<&str> = line.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
        if fields.len() != length + 1 && fields.len() != length + 2 {
            return Err(self.wrong(format!(
                "there are {} fields; a {length}-gram has a probability, {length} word{}{}",
                fields.len(),
                if length == 1 { "" } else { "s" },
                if last { "" } else { " and perhaps a back-off weight" },
            )));
        }
        let probability = self.number_of(fields[0], "probability")?;
        if probability > 1e-6 {
            return Err(self.wrong(format!("the probability {} is above 1: its logarithm is positive", fields[0])));
        }
        let backoff = fields.get(length + 1).map_or(Ok(0.0), |field| self.number_of(field, "back-off weight"))?;
        if last && backoff != 0.0 {
            return Err(self.wrong("the longest n-grams have no back-off weights"));
        }
        let weight = power(backoff);
        if !weight.is_finite() {
            return Err(self.wrong(format!("the back-off weight {} is too large", fields[length + 1])));
        }
        Ok((power(probability).min(1.0), fields[1..=length].to_vec(), weight))
    }

    fn number_of(&self, field: &str, what: &str) -> Result<f64> {
        match field.parse::<f64>() {
            Ok(number) if !number.is_nan() => Ok(number),
            _ => Err(self.wrong(format!("the {what} `{}` is not a number", printable(field)))),
        }
    }

    /// The section of the single words, from which the vocabulary comes.
    fn single_words(&mut self, announced: usize, words: &mut Words) -> Result<Level> {
        let mut level = Level::default();
        let (mut begin, mut end) = (None, None);
        for read in 0..announced {
            let line = self.gram_line(1, announced, read)?;
            let (probability, fields, backoff) = self.fields(&line, 1, false)?;
            let word = if fields[0] == "<UNK>" { UNK } else { fields[0] };
            if word.contains(char::is_whitespace) {
                return Err(self.wrong(format!("the word `{}` contains white space", word.escape_debug())));
            }
            if word == EOS {
                let problem = format!("the word `{EOS}` is this program's name for `{END}`");
                let advice = format!("rename `{EOS}` in the file, or train on a text without it");
                return Err(Error::corpus_line(self.path, self.number, problem, advice));
            }
            let id = level.words.len() as u32;
            match word {
                BEGIN if begin.is_none() => {
                    begin = Some(backoff);
                    continue;
                }
                END if end.is_none() => end = Some(id),
                BEGIN | END => return Err(self.twice(word)),
                _ => {
                    if words.ids.insert(word.into(), id).is_some() {
                        return Err(self.twice(word));
                    }
                }
            }
            level.words.push(id);
            level.probabilities.push(probability);
            level.backoffs.push(backoff);
            words.text.push_str(if word == END { EOS } else { word });
            words.text.push('\n');
        }
        let missing = |word: &str| {
            let problem = format!("the single words above do not have `{word}`");
            let advice = "make the model with a tool that marks the beginnings and ends of sentences";
            Error::corpus_line(self.path, self.number, problem, advice)
        };
        let (Some(begin), Some(end)) = (begin, end) else {
            return Err(missing(if begin.is_none() { BEGIN } else { END }));
        };
        level.backoffs[end as usize] = begin;
        words.ids.insert(BEGIN.into(), end);
        words.ids.insert(END.into(), end);
        Ok(level)
    }

    fn twice(&self, gram: &str) -> Error {
        self.wrong(format!("`{}` is there twice", printable(gram)))
    }

    /// A section of n-grams of two or more words.
    fn section(
        &mut self,
        length: usize,
        announced: usize,
        order: usize,
        words: &Words,
        levels: &[Level],
    ) -> Result<Vec<Gram>> {
        match self.next_filled()? {
            None => return Err(self.cut_off(&format!("the line `\\{length}-grams:`"))),
            Some(line) => self.section_begins(&line, length)?,
        }
        let mut grams = Vec::with_capacity(announced.min(1 << 20));
        let mut ids = Vec::with_capacity(length);
        for read in 0..announced {
            let line = self.gram_line(length, announced, read)?;
            let (probability, fields, backoff) = self.fields(&line, length, length == order)?;
            ids.clear();
            for (place, &word) in fields.iter().enumerate() {
                let word = if word == "<UNK>" { UNK } else { word };
                if (word == BEGIN && place > 0) || (word == END && place + 1 < length) {
                    let side = if word == BEGIN { "begin" } else { "end" };
                    return Err(self.wrong(format!("`{word}` stands where no sentence can {side}")));
                }
                let id = words.ids.get(word).copied();
                ids.push(id.ok_or_else(|| {
                    self.wrong(format!("the word `{}` is not among the single words", printable(word)))
                })?);
            }
            let parent = node(levels, &ids[..length - 1]).ok_or_else(|| {
                let context = printable(&fields[..length - 1].join(" "));
                self.wrong(format!("its context `{context}` is not among the {}-grams", length - 1))
            })?;
            let key = u64::from(parent) << 32 | u64::from(ids[length - 1]);
            grams.push(Gram { key, probability, backoff, line: self.number });
        }
        Ok(grams)
    }

    /// A level of the trie from its n-grams, and where the children of each of the `parents` begin.
    fn level(&self, mut grams: Vec<Gram>, parents: usize, last: bool) -> Result<(Level, Vec<u32>)> {
        grams.sort_unstable_by_key(|gram| (gram.key, gram.line));
        if let Some(pair) = grams.windows(2).filter(|pair| pair[0].key == pair[1].key).min_by_key(|pair| pair[1].line) {
            let problem = format!("this n-gram is a duplicate, first on line {}", pair[0].line);
            return Err(self.wrong_at(pair[1].line, problem));
        }
        let (mut level, mut first) = (Level::default(), Vec::with_capacity(parents + 1));
        for (at, gram) in grams.iter().enumerate() {
            // This node is the first child of every parent up to its own that has none yet.
            first.resize((gram.key >> 32) as usize + 1, at as u32);
            level.words.push(gram.key as u32);
            level.probabilities.push(gram.probability);
            if !last {
                level.backoffs.push(gram.backoff);
            }
        }
        first.resize(parents + 1, grams.len() as u32);
        Ok((level, first))
    }

    /// What follows the last n-gram: `\end\` and nothing else.
    fn end(&mut self) -> Result<()> {
        match self.next_filled()? {
            None => return Err(self.cut_off("the line `\\end\\`")),
            Some(line) if line == "\\end\\" => {}
            Some(line) => {
                let problem =
                    format!("`{}` is there instead of `\\end\\`: are these more n-grams than", printable(&line));
                return Err(self.wrong(format!("{problem} the head of the file announces?")));
            }
        }
        match self.next_filled()? {
            None => Ok(()),
            Some(line) => Err(self.wrong(format!("`{}` comes after `\\end\\`", printable(&line)))),
        }
    }
}

/// The node of an n-gram, if the levels have it.
fn node(levels: &[Level], ids: &[u32]) -> Option<u32> {
    let (&first, rest) = ids.split_first()?;
    let mut places = rest.iter().enumerate();
    places.try_fold(first, |node, (at, &word)| child_of(&levels[at], &levels[at + 1].words, node, word))
}

/// The value of a logarithm to base 10. What is above zero stays above it.
fn power(log: f64) -> f32 {
    if log <= LOG_ZERO { 0.0 } else { (10f64.powf(log) as f32).max(f32::MIN_POSITIVE) }
}
