//! The output formats of `bowline score`: Bowline's own and those of other tools.

use bowline::score::{Scored, Sentence, Surprisal};
use bowline::vocabulary::{EOS, UNK, Vocabulary};
use clap::ValueEnum;
use serde::Serialize;
use std::f64::consts::LN_10;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// How scores are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Readable: log-probability, perplexity and each word, one line per sentence
    Text,
    /// One object a line: {"words":[..],"logprobs":[..],"logprob":..}, natural logarithms, <eos> last
    Json,
    /// For linguists, a line per word between tabs: sentence, position, word, surprisal, entropy, entropy reduction (bits),
    /// rank
    Surprisal,
    /// As SRILM's `ngram -ppl FILE -debug 2` prints it, base-10 logarithms
    Srilm,
    /// As Kaldi's steps/pytorchnn reads it: from `utt-k words` to `utt-k` and a cost per word and for the end
    Kaldi,
    /// As `rnnlm -nbest -debug 0` prints it for Kaldi: from `utt-k words` to one base-10 logarithm a line
    Rnnlm,
}

impl Format {
    /// Whether the first field of a line is a key, not a word.
    pub fn has_keys(self) -> bool {
        matches!(self, Format::Kaldi | Format::Rnnlm)
    }
}

/// A sentence in JSON.
#[derive(Serialize)]
struct ScoreAnswer<'a> {
    /// The words as they stand in the text, and `<eos>`.
    words: Vec<&'a str>,
    /// Natural logarithms, as many as words.
    logprobs: &'a [f64],
    /// Their sum.
    logprob: f64,
    /// The places of the words that were read as `<unk>`.
    unk: &'a [usize],
}

/// Sums over sentences.
#[derive(Clone, Copy, Default)]
pub struct Total {
    pub sentences: usize,
    pub words: usize,
    pub unseen: usize,
    /// Natural logarithm.
    pub logprob: f64,
}

impl Total {
    fn add(&mut self, other: Total) {
        self.sentences += other.sentences;
        self.words += other.words;
        self.unseen += other.unseen;
        self.logprob += other.logprob;
    }
}

/// Prints scores.
pub struct Writer<'a, W> {
    format: Format,
    out: W,
    vocabulary: &'a Vocabulary,
    /// Of the current file, and of those before.
    file: Total,
    before: Total,
}

impl<'a, W: Write> Writer<'a, W> {
    pub fn new(format: Format, out: W, vocabulary: &'a Vocabulary) -> Writer<'a, W> {
        Writer { format, out, vocabulary, file: Total::default(), before: Total::default() }
    }

    /// Sums over all sentences so far.
    pub fn total(&self) -> Total {
        let mut total = self.before;
        total.add(self.file);
        total
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Prints a sentence; `key` is empty where the format has none.
    pub fn sentence(&mut self, key: &str, sentence: &Sentence, scored: &Scored) -> io::Result<()> {
        let sums =
            Total { sentences: 1, words: sentence.words.len(), unseen: sentence.unseen.len(), logprob: scored.logprob };
        self.file.add(sums);
        match self.format {
            Format::Text => self.text(sentence, scored),
            Format::Json => {
                let words: Vec<&str> = sentence.words.iter().map(String::as_str).chain([EOS]).collect();
                let Scored { logprobs, logprob } = scored;
                let answer = ScoreAnswer { words, logprobs, logprob: *logprob, unk: &sentence.unseen };
                writeln!(self.out, "{}", serde_json::to_string(&answer)?)
            }
            Format::Srilm => self.srilm(sentence, scored, sums),
            Format::Kaldi => {
                // Every field is followed by a space, the last one too, as Kaldi's own script writes it.
                write!(self.out, "{key} ")?;
                for logprob in &scored.logprobs {
                    write!(self.out, "{:.4} ", positive(-logprob))?;
                }
                writeln!(self.out)
            }
            Format::Rnnlm => writeln!(self.out, "{:.6}", scored.logprob / LN_10),
            // Who asks for it says more about each word.
            Format::Surprisal => Ok(()),
        }
    }

    /// Prints a sentence with the surprisal of its words. Sentences are counted over all files, words within a sentence, both
    /// from 1.
    pub fn surprisal(&mut self, sentence: &Sentence, scored: &Scored, words: &[Surprisal]) -> io::Result<()> {
        let number = self.total().sentences + 1;
        if number == 1 {
            writeln!(self.out, "sentence\tposition\tword\tsurprisal\tentropy\tentropy_reduction\trank")?;
        }
        self.sentence("", sentence, scored)?;
        let spelled = sentence.words.iter().map(String::as_str).chain([EOS]);
        for (i, (word, Surprisal { bits, entropy, reduction, rank })) in spelled.zip(words).enumerate() {
            let (bits, position) = (positive(*bits), i + 1);
            writeln!(self.out, "{number}\t{position}\t{word}\t{bits:.6}\t{entropy:.6}\t{reduction:.6}\t{rank}")?;
        }
        Ok(())
    }

    /// A file is over.
    pub fn end(&mut self, file: &Path) -> io::Result<()> {
        if self.format == Format::Srilm {
            writeln!(self.out, "file {}: {}", file.display(), srilm_sums(self.file))?;
        }
        self.before.add(std::mem::take(&mut self.file));
        Ok(())
    }

    fn text(&mut self, sentence: &Sentence, scored: &Scored) -> io::Result<()> {
        let perplexity = (-scored.logprob / scored.logprobs.len() as f64).exp();
        write!(self.out, "{:>10.4}  ppl {perplexity:>10.2} ", scored.logprob)?;
        let mut unseen = sentence.unseen.iter().peekable();
        let words = sentence.words.iter().map(String::as_str).chain([EOS]);
        for (i, (word, logprob)) in words.zip(&scored.logprobs).enumerate() {
            let mark = if unseen.next_if_eq(&&i).is_some() { " (<unk>)" } else { "" };
            write!(self.out, "  {}{mark} {logprob:.3}", crate::commands::printable(word))?;
        }
        writeln!(self.out)
    }

    /// The sentence, a line for each word, and the sums. A word that the model reads as `<unk>` is shown as such, as
    /// SRILM does with `-unk`. The order of the n-gram is that of all that was read since the beginning of the sentence.
    fn srilm(&mut self, sentence: &Sentence, scored: &Scored, sums: Total) -> io::Result<()> {
        let mut text = sentence.words.join(" ");
        text.push('\n');
        let known = |&id: &u32| if Some(id) == self.vocabulary.unk() { UNK } else { self.vocabulary.word(id) };
        let mut before = "<s>";
        for (i, (word, logprob)) in sentence.ids.iter().map(known).chain(["</s>"]).zip(&scored.logprobs).enumerate() {
            let (more, order) = (if i == 0 { " " } else { " ..." }, i + 2);
            let (p, log) = (significant(logprob.exp()), significant(logprob / LN_10));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\tp( {word} | {before}{more}) \t= [{order}gram] {p} [ {log} ]");
            before = word;
        }
        writeln!(self.out, "{text}{}\n", srilm_sums(sums))
    }
}

/// SRILM's two lines of sums. Unknown words are words of the model, so none of them is out of its vocabulary.
fn srilm_sums(sums: Total) -> String {
    let log = sums.logprob / LN_10;
    let perplexity = |predictions: usize| match predictions {
        0 => "undefined".to_owned(),
        n => significant(10f64.powf(-log / n as f64)),
    };
    let mut text = format!("{} sentences, {} words, 0 OOVs", sums.sentences, sums.words);
    if sums.sentences > 0 {
        let _ = write!(
            text,
            "\n0 zeroprobs, logprob= {} ppl= {} ppl1= {}",
            significant(log),
            perplexity(sums.words + sums.sentences),
            perplexity(sums.words)
        );
    }
    text
}

/// Without the sign of a zero.
fn positive(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x }
}

/// A number as C's `%.7g` prints it: seven significant digits, without the zeros at their end.
fn significant(x: f64) -> String {
    const DIGITS: i32 = 7;
    if !x.is_finite() {
        return if x.is_nan() { "nan".to_owned() } else { format!("{}inf", if x < 0.0 { "-" } else { "" }) };
    }
    let rounded = format!("{:.*e}", DIGITS as usize - 1, positive(x));
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let fixed = format!("{:.*}", (DIGITS - 1 - exponent) as usize, positive(x));
        return without_last_zeros(&fixed).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_last_zeros(digits), exponent.abs())
}

fn without_last_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `printf("%.7g\n", ...)` prints.
    #[test]
    fn numbers_look_as_c_prints_them() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-36717.492, "-36717.49"),
            (0.068_062_674, "0.06806267"),
            (6.597_231e-6, "6.597231e-06"),
            (0.0001, "0.0001"),
            (0.000_099_999_99, "9.999999e-05"),
            (0.000_099_999_999_9, "0.0001"),
            (1e-100, "1e-100"),
            (9_999_999.0, "9999999"),
            (9_999_999.6, "1e+07"),
            (123_456_789.0, "1.234568e+08"),
            (584.729_2, "584.7292"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (x, text) in cases {
            assert_eq!(significant(x), text);
        }
    }
}
