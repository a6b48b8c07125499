//! `bowline next`: the most likely next words after a phrase.

use super::{print_json, printable};
use crate::options::NextOptions;
use crate::terminal::note;
use bowline::any_model::AnyModel;
use bowline::corpus::Phrase;
use bowline_kernels::{Isa, Team};
use serde_json::json;
use std::io::{Write, stdout};
use std::process::ExitCode;
use std::sync::Arc;

pub fn run(options: &NextOptions) -> anyhow::Result<ExitCode> {
    let model = AnyModel::load(&options.model)?;
    let phrase = Phrase::new(&options.phrase, model.vocabulary(), model.tokenize())?;
    let team = Arc::new(Team::new(options.threads.get()));
    let next = model.next_words(&team, Isa::detect(), &phrase, options.k);
    if options.json {
        print_json(&json!({"phrase": options.phrase, "model": model.kind(), "next": next, "unseen": phrase.unseen}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for word in &phrase.unseen {
        let word = printable(word);
        note(format_args!("`{word}` is not in the model's vocabulary and is read as <unk>"));
    }
    let widest = next.iter().map(|c| c.word.chars().count()).max().unwrap_or(0);
    let largest = next.first().map_or(1.0, |c| c.probability);
    for candidate in &next {
        let bar = "#".repeat((30.0 * candidate.probability / largest).round() as usize);
        writeln!(stdout(), "{:<widest$}  {:.4}  {bar}", printable(&candidate.word), candidate.probability)?;
    }
    Ok(ExitCode::SUCCESS)
}
