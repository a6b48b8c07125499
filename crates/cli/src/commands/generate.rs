//! `bowline generate`: a text that goes on by itself.

use super::{print_json, printable};
use crate::options::{Threads, seed};
use crate::terminal::note;
use bowline::corpus::Phrase;
use bowline::predict::LanguageModel;
use bowline::score::{Continuation, Reader, Sampling};
use bowline_kernels::{Isa, Team};
use clap::Args;
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Args)]
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
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = temperature)]
    pub temperature: f64,
    /// Draw from the K likeliest words only; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: usize,
    /// Draw from the likeliest words only that together have the probability P
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = probability)]
    pub top_p: f64,
    /// Let <unk> be drawn, too
    #[arg(long)]
    pub unk: bool,
    /// Go on with the next sentence at <eos>, instead of ending there
    #[arg(long)]
    pub through_eos: bool,
    /// How many texts, each on lines of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: u32,
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

pub fn run(options: &GenerateOptions) -> anyhow::Result<ExitCode> {
    let model = Arc::new(LanguageModel::load(&options.model)?);
    let prompt = Phrase::new(&options.prompt, &model.vocabulary, model.tokenize)?;
    let team = Arc::new(Team::new(options.threads.get()));
    let mut reader = Reader::new(Arc::clone(&model), team, Isa::detect());
    let GenerateOptions { temperature, top_k, top_p, unk, .. } = *options;
    let sampling = Sampling { temperature, top_k, top_p, unk };
    let start = |reader: &Reader, sample: u32| {
        Continuation::new(reader, &prompt.ids, sampling, options.seed, u64::from(sample))
    };
    if options.json {
        let mut texts: Vec<Continuation> = (0..options.samples).map(|sample| start(&reader, sample)).collect();
        let samples = draw_all(&mut reader, &mut texts, options);
        let (kind, unseen) = (model.kind.as_str(), prompt.unseen);
        print_json(&Answer { prompt: &options.prompt, model: kind, seed: options.seed, unseen, samples })?;
        return Ok(ExitCode::SUCCESS);
    }
    for word in &prompt.unseen {
        note(format_args!("`{}` is not in the model's vocabulary and is read as <unk>", printable(word)));
    }
    // One after the other, so that each can be read while it comes.
    for sample in 0..options.samples {
        let mut text = start(&reader, sample);
        let mut out = stdout();
        let mut separator = "";
        if !options.prompt.trim().is_empty() {
            write!(out, "{}", printable(options.prompt.trim()))?;
            separator = " ";
        }
        for _ in 0..options.words {
            let drawn = reader.extend(&mut [&mut text], 0);
            let id = drawn[0].id;
            if id == model.vocabulary.eos() {
                if !options.through_eos {
                    break;
                }
                writeln!(out)?;
                separator = "";
            } else {
                write!(out, "{separator}{}", printable(model.vocabulary.word(id)))?;
                separator = " ";
            }
            out.flush()?;
        }
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws all texts side by side; those that have ended leave.
fn draw_all(reader: &mut Reader, texts: &mut [Continuation], options: &GenerateOptions) -> Vec<Sample> {
    let model = Arc::clone(reader.model());
    let mut samples: Vec<Sample> = texts.iter().map(|_| Sample { ended: "words", ..Sample::default() }).collect();
    for _ in 0..options.words {
        let mut going: Vec<(&mut Continuation, &mut Sample)> =
            texts.iter_mut().zip(&mut samples).filter(|(_, sample)| sample.ended != "eos").collect();
        // As many as a batch has room for, so that memory does not grow with the number of texts.
        for part in going.chunks_mut(80) {
            let mut continuations: Vec<&mut Continuation> = part.iter_mut().map(|(text, _)| &mut **text).collect();
            for (word, (_, sample)) in reader.extend(&mut continuations, 0).into_iter().zip(part) {
                sample.words.push(model.vocabulary.word(word.id).to_owned());
                sample.logprobs.push(word.logprob);
                sample.logprob += word.logprob;
                if word.id == model.vocabulary.eos() && !options.through_eos {
                    sample.ended = "eos";
                }
            }
        }
    }
    samples
}
