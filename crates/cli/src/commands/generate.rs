//! `bowline generate`: a text that goes on by itself.

use super::predictor::{PredictorOptions, Setup};
use super::{print_json, printable};
use crate::options::{Threads, seed};
use crate::terminal::note;
use bowline::corpus::{Detokenizer, Phrase};
use bowline::predict::LanguageModel;
use bowline::predictor::{Predictor, Telling};
use bowline::score::{Continuation, Reader, Sampling, Word};
use bowline::vocabulary::Vocabulary;
use bowline_kernels::{Isa, Team};
use clap::Args;
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Args)]
// `--temperature` is that of the drawing here, so that of the networks has another name.
#[command(mut_arg("temperature", |arg| arg.long("network-temperature")))]
pub struct GenerateOptions {
    /// A model's folder, or a run's
    pub model: PathBuf,
    /// The beginning of the first sentence
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prompt: String,
    /// Words to draw at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub words: u32,
    /// The same seed gives the same text
    #[arg(long, default_value_t = 1, value_parser = seed())]
    pub seed: u64,
    /// Below 1 likely words become likelier, above 1 less so; 0 takes the likeliest each time
    #[arg(long = "temperature", id = "drawing", value_name = "T", default_value_t = 1.0, value_parser = temperature)]
    pub drawing: f64,
    /// Draw from the K likeliest words only; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: usize,
    /// Draw from the likeliest words only that together have the probability P
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = probability)]
    pub top_p: f64,
    /// Let <unk> be drawn, too
    #[arg(long)]
    pub unk: bool,
    /// Print the words as the model has them, instead of joining what its tokenizer parted
    #[arg(long)]
    pub raw: bool,
    /// Go on with the next sentence at <eos>, instead of ending there
    #[arg(long)]
    pub through_eos: bool,
    /// How many texts, each on lines of its own
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
struct Answer<'a> {
    prompt: &'a str,
    model: &'a str,
    seed: u64,
    unseen: Vec<String>,
    samples: Vec<Sample>,
}

/// What draws.
enum Engine {
    /// The network as trained, many texts side by side.
    Network(Box<Reader>),
    /// Any other way of predicting, text by text.
    Predictor(Box<dyn Predictor>),
}

pub fn run(options: &GenerateOptions) -> anyhow::Result<ExitCode> {
    let folder = bowline::model_folder::resolve(&options.model)?;
    let ways = options.predictor.any() || !options.others.is_empty();
    if ways || bowline::model_folder::is_ngram(&folder) {
        let setup = Setup::known(&options.model, &options.others, &options.predictor, options.threads.get())?;
        let engine = Engine::Predictor(setup.predictor()?);
        let model = &setup.members[0];
        return write(options, engine, &setup.name(), &model.vocabulary, model.tokenize);
    }
    let model = Arc::new(LanguageModel::load(&options.model)?);
    let team = Arc::new(Team::new(options.threads.get()));
    let reader = Reader::new(Arc::clone(&model), team, Isa::detect());
    write(options, Engine::Network(Box::new(reader)), &model.kind, &model.vocabulary, model.tokenize)
}

fn write(
    options: &GenerateOptions,
    mut engine: Engine,
    name: &str,
    vocabulary: &Vocabulary,
    tokenize: bool,
) -> anyhow::Result<ExitCode> {
    let prompt = Phrase::new(&options.prompt, vocabulary, tokenize)?;
    let GenerateOptions { drawing: temperature, top_k, top_p, unk, .. } = *options;
    let sampling = Sampling { temperature, top_k, top_p, unk };
    let start = |reader: &Reader, sample: u32| {
        Continuation::new(reader, &prompt.ids, sampling, options.seed, u64::from(sample))
    };
    // The prompt stands at the beginning of a sentence: an `<eos>` is read before it.
    let text = [&[vocabulary.eos()], &prompt.ids[..]].concat();
    let tell = |predictor: &mut dyn Predictor, sample: u32, take: &mut dyn FnMut(Word) -> anyhow::Result<bool>| {
        let chance = (sampling, options.seed, u64::from(sample));
        let mut telling = Telling::new(predictor, &text, vocabulary.unk(), chance);
        for _ in 0..options.words {
            if !take(telling.next(0))? {
                break;
            }
        }
        anyhow::Ok(())
    };
    if options.json {
        let samples = match &mut engine {
            Engine::Network(reader) => {
                let mut texts: Vec<Continuation> = (0..options.samples).map(|sample| start(reader, sample)).collect();
                draw_all(reader, &mut texts, options)
            }
            Engine::Predictor(predictor) => {
                let mut samples = Vec::new();
                for number in 0..options.samples {
                    let mut sample = Sample::new();
                    tell(predictor.as_mut(), number, &mut |word| Ok(sample.push(&word, vocabulary, options)))?;
                    samples.push(sample);
                }
                samples
            }
        };
        let unseen = prompt.unseen;
        print_json(&Answer { prompt: &options.prompt, model: name, seed: options.seed, unseen, samples })?;
        return Ok(ExitCode::SUCCESS);
    }
    for word in &prompt.unseen {
        note(format_args!("`{}` is not in the model's vocabulary and is read as <unk>", printable(word)));
    }
    // One after the other, so that each can be read while it comes.
    for sample in 0..options.samples {
        let mut out = stdout();
        let mut separator = "";
        let joins = tokenize && !options.raw;
        let mut text_of = Detokenizer::new(&options.prompt);
        if !options.prompt.trim().is_empty() {
            write!(out, "{}", printable(options.prompt.trim()))?;
            separator = " ";
        }
        // Writes a word; whether the text goes on after it.
        let mut say = |word: Word| {
            if word.id == vocabulary.eos() {
                if !options.through_eos {
                    return Ok(false);
                }
                writeln!(out)?;
                separator = "";
                text_of = Detokenizer::new("");
            } else if joins {
                write!(out, "{}", printable(&text_of.next(vocabulary.word(word.id))))?;
            } else {
                write!(out, "{separator}{}", printable(vocabulary.word(word.id)))?;
                separator = " ";
            }
            out.flush()?;
            Ok(true)
        };
        match &mut engine {
            Engine::Network(reader) => {
                let mut text = start(reader, sample);
                for _ in 0..options.words {
                    let drawn = reader.extend(&mut [&mut text], 0);
                    if !say(drawn[0].clone())? {
                        break;
                    }
                }
            }
            Engine::Predictor(predictor) => tell(predictor.as_mut(), sample, &mut say)?,
        }
        writeln!(stdout())?;
    }
    Ok(ExitCode::SUCCESS)
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

/// Draws all texts side by side; those that have ended leave.
fn draw_all(reader: &mut Reader, texts: &mut [Continuation], options: &GenerateOptions) -> Vec<Sample> {
    let model = Arc::clone(reader.model());
    let mut samples: Vec<Sample> = texts.iter().map(|_| Sample::new()).collect();
    for _ in 0..options.words {
        let mut going: Vec<(&mut Continuation, &mut Sample)> =
            texts.iter_mut().zip(&mut samples).filter(|(_, sample)| sample.ended != "eos").collect();
        // As many as a batch has room for, so that memory does not grow with the number of texts.
        for part in going.chunks_mut(80) {
            let mut continuations: Vec<&mut Continuation> = part.iter_mut().map(|(text, _)| &mut **text).collect();
            for (word, (_, sample)) in reader.extend(&mut continuations, 0).into_iter().zip(part) {
                sample.push(&word, &model.vocabulary, options);
            }
        }
    }
    samples
}
