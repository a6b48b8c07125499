//! `bowline compare`: the likeliest next words of two models side by side, as in the paper's qualitative comparison
//! (its Table 4).

use super::{print_json, printable};
use crate::options::Threads;
use crate::screen::stdout;
use crate::terminal::note;
use anyhow::bail;
use bowline::corpus::Phrase;
use bowline::loaded_model::{Candidate, LoadedModel};
use bowline_kernels::{Isa, Team};
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Args)]
pub struct CompareOptions {
    /// A model's folder, or a run's
    #[arg(value_name = "MODEL")]
    pub first: PathBuf,
    /// The model to compare it with
    #[arg(value_name = "MODEL")]
    pub second: PathBuf,
    /// Beginnings of sentences
    #[arg(value_name = "PHRASE", required = true)]
    pub phrases: Vec<String>,
    /// How many words to show
    #[arg(short, value_name = "N", default_value_t = 10)]
    pub k: usize,
    #[command(flatten)]
    pub threads: Threads,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &CompareOptions) -> anyhow::Result<ExitCode> {
    if let Some(model) = options.phrases.iter().find(|phrase| std::path::Path::new(phrase).is_dir()) {
        bail!(
            "`{}` is a folder, and two models are compared at a time\n  try: two models, then phrases: \
             bowline compare A B \"the company said\"",
            printable(model)
        );
    }
    let models = [LoadedModel::load(&options.first)?, LoadedModel::load(&options.second)?];
    let team = Arc::new(Team::new(options.threads.get()));
    let mut rows = Vec::new();
    for text in &options.phrases {
        let mut both = Vec::new();
        for model in &models {
            let phrase = Phrase::new(text, &model.vocabulary, model.tokenize)?;
            let next = model.next_words(&team, Isa::detect(), &phrase, options.k)?;
            both.push((phrase, next));
        }
        rows.push((text, both));
    }
    if options.json {
        let names: Vec<_> = models.iter().map(|m| json!({"folder": m.folder, "model": m.kind})).collect();
        let phrases: Vec<_> = rows
            .iter()
            .map(|(text, both)| {
                let predictions: Vec<_> =
                    both.iter().map(|(phrase, next)| json!({"unseen": phrase.unseen_words(), "next": next})).collect();
                json!({"phrase": text, "predictions": predictions})
            })
            .collect();
        print_json(&json!({"models": names, "phrases": phrases}))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Two runs of one kind are told apart by their folders.
    let name = |i: usize, path: &PathBuf| match models[0].kind == models[1].kind {
        true => path.display().to_string(),
        false => models[i].kind.clone(),
    };
    let names = [name(0, &options.first), name(1, &options.second)];
    for (i, (text, both)) in rows.iter().enumerate() {
        for ((phrase, _), name) in both.iter().zip(&names) {
            for word in phrase.unseen_words() {
                let word = printable(word);
                note(format_args!("`{word}` is not in the vocabulary of {name} and is read as <unk>"));
            }
        }
        if i > 0 {
            writeln!(stdout())?;
        }
        table(text, &names, &both[0].1, &both[1].1)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A phrase, the models' names, and their words with probabilities.
fn table(phrase: &str, names: &[String; 2], left: &[Candidate], right: &[Candidate]) -> std::io::Result<()> {
    let cell = |candidate: Option<&Candidate>| {
        candidate.map_or((String::new(), String::new()), |c| (printable(&c.word), format!("{:.4}", c.probability)))
    };
    let rows: Vec<_> = (0..left.len().max(right.len())).map(|i| (cell(left.get(i)), cell(right.get(i)))).collect();
    let width = |name: &str, words: &mut dyn Iterator<Item = usize>| words.max().unwrap_or(0).max(name.chars().count());
    let first = width(&names[0], &mut rows.iter().map(|((word, _), _)| word.chars().count()));
    let second = width(&names[1], &mut rows.iter().map(|(_, (word, _))| word.chars().count()));
    let mut out = stdout();
    writeln!(out, "{} ...", printable(phrase.trim()))?;
    writeln!(out, "  {:<first$}          {}", names[0], names[1])?;
    for ((word, p), (other, q)) in rows {
        let line = format!("  {word:<first$}  {p:>6}  {other:<second$}  {q:>6}");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
