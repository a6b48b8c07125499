//! `bowline pairs`: which of two sentences is likelier?

use super::predictor::{PredictorOptions, Setup};
use super::{print_json, printable};
use crate::options::Threads;
use crate::read_ahead::{Item, ReadAhead};
use crate::screen::stdout;
use crate::terminal::grouped;
use bowline::predictor::check_logprobs;
use bowline::score::pairs::{Judgement, Pair, Tallies, Tally};
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Pairs that are worked on together.
const CHUNK: usize = 512;

#[derive(Args)]
pub struct PairsOptions {
    /// A model's folder, or a run's
    pub model: PathBuf,
    /// Pairs, one per line: BLiMP's JSON, or `good<TAB>bad<TAB>category`; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The JSON key of the category: UID, linguistics_term, field or another
    #[arg(long, value_name = "KEY", default_value = "UID")]
    pub by: String,
    /// Also print each pair: category, log-probabilities of the good and the bad sentence, right or wrong
    #[arg(long)]
    pub each: bool,
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

pub fn run(options: &PairsOptions) -> anyhow::Result<ExitCode> {
    let input = ReadAhead::start(&options.files)?;
    let setup = Setup::known(&options.model, &options.others, &options.predictor, options.threads.get(), None)?;
    let mut reader = setup.reader(None)?;
    let words = (&setup.model().vocabulary, setup.model().tokenize);
    let (mut tallies, mut total, mut each) = (Tallies::default(), Tally::default(), Vec::new());
    loop {
        let items = input.take(CHUNK);
        if items.is_empty() {
            break;
        }
        let mut pairs = Vec::new();
        for item in items {
            match item {
                Item::Line { source, number, text } => {
                    let file = &options.files[source];
                    let file = if file == Path::new("-") { Path::new("standard input") } else { file };
                    pairs.extend(Pair::parse(file, number, &text, &options.by, words)?);
                }
                Item::End { .. } => {}
                Item::Failed(error) => return Err(error.into()),
            }
        }
        for (pair, judgement) in pairs.iter().zip(reader.judge(&pairs)) {
            check_logprobs(&options.model, [judgement.good, judgement.bad])?;
            tallies.add(&pair.category, &judgement);
            total.add(&judgement);
            match (options.each, options.json) {
                (true, true) => each.push(as_json(pair, &judgement)),
                (true, false) => print(pair, &judgement)?,
                _ => {}
            }
        }
    }
    if total.pairs == 0 {
        let advice = "a file with a pair a line: BLiMP's JSON, or `good<TAB>bad<TAB>category`";
        return Err(bowline::Error::corpus(&options.files[0], "there is no pair in it", advice).into());
    }
    if options.json {
        let categories: Vec<Value> = tallies.each().map(|(name, tally)| with_shares(name, tally)).collect();
        let mut answer = with_shares("all", &total);
        answer["model"] = json!(setup.ensemble.name());
        answer["categories"] = json!(categories);
        if options.each {
            answer["each"] = json!(each);
        }
        print_json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<(&str, &Tally)> =
        tallies.each().filter(|_| tallies.each().len() > 1).chain([("all", &total)]).collect();
    let widest = rows.iter().map(|(name, _)| printable(name).chars().count()).max().unwrap_or(0).max("category".len());
    let mut out = stdout();
    writeln!(
        out,
        "{:<widest$}  {:>8}  {:>8}  {:>8}  {:>14}",
        "category", "pairs", "right", "unknown", "right if known"
    )?;
    for (name, tally) in rows {
        writeln!(
            out,
            "{:<widest$}  {:>8}  {:>8}  {:>8}  {:>14}",
            printable(name),
            grouped(tally.pairs),
            percent(tally.accuracy()),
            grouped(tally.unknown),
            percent(tally.accuracy_known())
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", 100.0 * share))
}

fn with_shares(name: &str, tally: &Tally) -> Value {
    json!({
        "category": name,
        "pairs": tally.pairs,
        "right": tally.right,
        "ties": tally.ties,
        "unknown": tally.unknown,
        "accuracy": tally.accuracy(),
        "accuracy_known": tally.accuracy_known(),
    })
}

fn as_json(pair: &Pair, judgement: &Judgement) -> Value {
    json!({
        "category": pair.category,
        "good": judgement.good,
        "bad": judgement.bad,
        "right": judgement.is_right(),
        "unknown": judgement.unknown,
    })
}

fn print(pair: &Pair, judgement: &Judgement) -> std::io::Result<()> {
    let verdict = if judgement.is_right() { "right" } else { "wrong" };
    let category = printable(&pair.category);
    writeln!(stdout(), "{category}\t{:.4}\t{:.4}\t{verdict}", judgement.good, judgement.bad)
}
