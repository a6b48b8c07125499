//! `bowline next`: the most likely next words after a phrase.

use super::predictor::{PredictorOptions, Setup};
use super::{print_json, printable, say_unseen};
use crate::options::Threads;
use crate::screen::stdout;
use bowline::corpus::Phrase;
use bowline::explain::{Explanation, PointedWord, TopicShare, explain};
use bowline::loaded_model::likeliest;
use bowline::predictor::{Reads, check_logprobs};
use bowline::score::Passage;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct NextOptions {
    /// A model's folder, or a run's
    pub model: PathBuf,
    /// The beginning of a sentence
    #[arg(default_value = "")]
    pub phrase: String,
    /// How many words to show
    #[arg(short, value_name = "N", default_value_t = 10)]
    pub k: usize,
    /// Show the topics of the phrase, for a model with topics
    #[arg(long)]
    pub explain: bool,
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

pub fn run(options: &NextOptions) -> anyhow::Result<ExitCode> {
    let (others, threads) = (&options.others, options.threads.get());
    let setup = Setup::known(&options.model, others, &options.predictor, threads, Some(Reads::Phrase))?;
    let model = setup.model();
    let phrase = Phrase::new(&options.phrase, &model.vocabulary, model.tokenize)?;
    // The phrase stands at the beginning of a sentence: an `<eos>` is read before it.
    let vocabulary = &model.vocabulary;
    let mut reader = setup.reader(Some(1))?;
    let (read, strangers) = phrase.after_eos(vocabulary);
    let explanation = options.explain.then(|| explain(model, &read)).transpose()?;
    let passage = Passage { inputs: &read, strangers: &strangers, keep: true, ..Passage::default() };
    let memory = reader.read(&[passage]).pop().and_then(|reading| reading.memory).unwrap_or_default();
    let distribution = reader.distributions(&[&memory]);
    check_logprobs(&options.model, distribution.iter().map(|&p| f64::from(p).ln()))?;
    let next = likeliest(vocabulary, &distribution, options.k);
    if options.json {
        let mut answer = json!({"phrase": options.phrase, "model": setup.ensemble.name(), "next": next, "unseen": phrase.unseen_words()});
        if let Some(explanation) = explanation {
            answer["explanation"] = serde_json::to_value(explanation)?;
        }
        print_json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    say_unseen(&phrase, &reader);
    let widest = next.iter().map(|c| c.word.chars().count()).max().unwrap_or(0);
    let largest = next.first().map_or(1.0, |c| c.probability);
    for candidate in &next {
        let bar = "#".repeat((30.0 * candidate.probability / largest).round() as usize);
        writeln!(stdout(), "{:<widest$}  {:.4}  {bar}", printable(&candidate.word), candidate.probability)?;
    }
    if let Some(explanation) = explanation {
        show(&explanation)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why these words, for people.
fn show(explanation: &Explanation) -> anyhow::Result<()> {
    let mut out = stdout();
    if !explanation.topics.is_empty() {
        writeln!(out, "\nthe text is about")?;
    }
    for TopicShare { topic, share, words } in &explanation.topics {
        writeln!(out, "{:>4.0}%  topic {topic}: {}", 100.0 * share, printable(&words.join(", ")))?;
    }
    let Some(pointer) = &explanation.pointer else { return Ok(()) };
    writeln!(out, "\nthe probability comes from\n{:>5.1}%  the softmax", 100.0 * pointer.softmax)?;
    for PointedWord { word, back, share } in &pointer.words {
        let ago = if *back == 1 { "the last word".to_owned() } else { format!("{back} words back") };
        writeln!(out, "{:>5.1}%  {}, {ago}", 100.0 * share, printable(word))?;
    }
    Ok(())
}
