//! `bowline generate`: generate text.

use super::predictor::{PredictorOptions, Setup};
use super::{print_json, printable, say_unseen};
use crate::options::{Threads, seed};
use crate::screen::stdout;
use bowline::corpus::{Detokenizer, Phrase};
use bowline::predictor::Reads;
use bowline::score::{Continuation, Sampling, Word};
use bowline::vocabulary::Vocabulary;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
// `--temperature` is that of the drawing here, so that of the networks has another name.
#[command(mut_arg("temperature", |arg| arg.long("network-temperature")))]
pub struct GenerateOptions {
    /// A model's folder, or a run's
    pub model: PathBuf,
    /// Beginning of the text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prompt: String,
    /// Maximum number of words
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub words: u32,
    /// The same seed gives the same text
    #[arg(long, default_value_t = 1, value_parser = seed())]
    pub seed: u64,
    /// Sampling temperature: below 1 is safer, above 1 more varied; 0 always takes the likeliest word
    #[arg(long = "temperature", id = "drawing", value_name = "T", default_value_t = 1.0, value_parser = temperature)]
    pub drawing: f64,
    /// Draw only from the K likeliest words; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: usize,
    /// Draw only from the likeliest words that together have probability P
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = probability)]
    pub top_p: f64,
    /// Allow <unk>
    #[arg(long)]
    pub unk: bool,
    /// Print the model's tokens, without joining punctuation to words
    #[arg(long)]
    pub raw: bool,
    /// Continue after <eos> with the next sentence
    #[arg(long)]
    pub through_eos: bool,
    /// Number of texts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: u32,
    /// Mix in another model; may be given several times
    #[arg(long = "with", value_name = "MODEL")]
    pub others: Vec<PathBuf>,
    #[command(flatten)]
    pub predictor: PredictorOptions,
    #[command(flatten)]
    pub threads: Threads,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|t| *t >= 0.0 && t.is_finite());
    number.ok_or_else(|| "a number of at least 0 is needed".to_owned())
}

fn probability(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 1.0);
    number.ok_or_else(|| "a number above 0 and up to 1 is needed".to_owned())
}

/// A text that was drawn.
#[derive(Default, Serialize)]
struct Sample {
    /// The drawn words, `<eos>` among them.
    words: Vec<String>,
    /// The natural logarithm of each word's probability as the model says it.
    logprobs: Vec<f64>,
    /// Their sum.
    logprob: f64,
    /// `eos` or `words`: what ended it.
    ended: &'static str,
}

#[derive(Serialize)]
struct GenerateAnswer<'a> {
    prompt: &'a str,
    model: &'a str,
    seed: u64,
    unseen: Vec<&'a str>,
    samples: Vec<Sample>,
}

pub fn run(options: &GenerateOptions) -> anyhow::Result<ExitCode> {
    let (others, threads) = (&options.others, options.threads.get());
    let setup = Setup::known(&options.model, others, &options.predictor, threads, Some(Reads::Phrase))?;
    let mut reader = setup.reader(None)?;
    let vocabulary = &setup.model().vocabulary;
    let prompt = Phrase::new(&options.prompt, vocabulary, setup.model().tokenize)?;
    let GenerateOptions { drawing: temperature, top_k, top_p, unk, .. } = *options;
    let sampling = Sampling { temperature, top_k, top_p, unk };
    // The prompt stands at the beginning of a sentence: an `<eos>` is read before it.
    let (text, strangers) = prompt.after_eos(vocabulary);
    let start = |sample: u32| {
        let text = Continuation::new(text.clone(), sampling, options.seed, u64::from(sample));
        text.with_strangers(strangers.clone())
    };
    let words = options.words as usize;
    if options.json {
        let mut samples: Vec<Sample> = (0..options.samples).map(|_| Sample::new()).collect();
        let texts = (0..options.samples).map(start).collect();
        reader.tell(texts, words, 0, &mut |number, word| samples[number].push(&word, vocabulary, options));
        let (model, unseen) = (&setup.ensemble.name(), prompt.unseen_words());
        print_json(&GenerateAnswer { prompt: &options.prompt, model, seed: options.seed, unseen, samples })?;
        return Ok(ExitCode::SUCCESS);
    }
    say_unseen(&prompt, &reader);
    // One after the other, so that each can be read while it comes.
    let joins = reader.model().tokenize && !options.raw;
    for sample in 0..options.samples {
        let mut line = Line::begin(options.prompt.trim(), joins)?;
        let mut failed = None;
        reader.tell(vec![start(sample)], words, 0, &mut |_, word| {
            let said = match word.id == vocabulary.eos() {
                true if options.through_eos => line.end(),
                true => return false,
                false => line.say(vocabulary.word(word.id)),
            };
            failed = said.err();
            failed.is_none()
        });
        failed.map_or(Ok(()), Err)?;
        writeln!(stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A text that is written word by word, with the words joined as people write them where that was undone for the model.
struct Line {
    separator: &'static str,
    joins: Option<Detokenizer>,
}

impl Line {
    fn begin(prompt: &str, joins: bool) -> io::Result<Line> {
        write!(stdout(), "{}", printable(prompt))?;
        let separator = if prompt.is_empty() { "" } else { " " };
        Ok(Line { separator, joins: joins.then(|| Detokenizer::new(prompt)) })
    }

    fn say(&mut self, word: &str) -> io::Result<()> {
        match &mut self.joins {
            Some(joins) => write!(stdout(), "{}", printable(&joins.next(word)))?,
            None => write!(stdout(), "{}{}", self.separator, printable(word))?,
        }
        self.separator = " ";
        stdout().flush()
    }

    fn end(&mut self) -> io::Result<()> {
        writeln!(stdout())?;
        self.separator = "";
        self.joins = self.joins.take().map(|_| Detokenizer::new(""));
        stdout().flush()
    }
}

impl Sample {
    fn new() -> Sample {
        Sample { ended: "words", ..Sample::default() }
    }

    /// Adds a word; whether the text goes on after it.
    fn push(&mut self, word: &Word, vocabulary: &Vocabulary, options: &GenerateOptions) -> bool {
        self.words.push(vocabulary.word(word.id).to_owned());
        self.logprobs.push(word.logprob);
        self.logprob += word.logprob;
        if word.id == vocabulary.eos() && !options.through_eos {
            self.ended = "eos";
        }
        self.ended != "eos"
    }
}
