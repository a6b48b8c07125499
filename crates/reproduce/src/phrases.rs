//! Table 4: what two models expect after a phrase.

use bowline::corpus::Phrase;
use bowline::error::Result;
use bowline::loaded_model::{Candidate, LoadedModel};
use bowline_kernels::{Isa, Team};
use bowline_report::{Cell, Column, Table};
use std::sync::Arc;

/// The paper's phrases, and the word that came next.
pub const PHRASES: [(&str, &str); 4] = [
    ("information international said it believes that the complaints filed in", "federal"),
    ("oil company refineries ran flat out to prepare for a robust holiday driving season in july and", "august"),
    ("southmark said it plans to <unk> its <unk> to provide financial results as soon as its audit is", "completed"),
    ("merieux said the government 's minister of industry science and", "technology"),
];

/// Words shown for each phrase.
pub(super) const SHOWN: usize = 10;

/// What the models expect after one phrase.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The phrase.
    pub phrase: String,
    /// The word that came, where it is known.
    pub next: Option<String>,
    /// Each model's most likely words, likeliest first.
    pub models: Vec<Vec<Candidate>>,
}

/// The most likely next words of each model after each phrase.
pub fn predictions(
    models: &[&LoadedModel],
    phrases: &[(String, Option<String>)],
    team: &Arc<Team>,
    isa: Isa,
) -> Result<Vec<Prediction>> {
    let of_phrase = |(phrase, next): &(String, Option<String>)| {
        let of_model = |model: &&LoadedModel| {
            let words = Phrase::new(phrase, &model.vocabulary, model.tokenize)?;
            model.next_words(team, isa, &words, SHOWN)
        };
        let models = models.iter().map(of_model).collect::<Result<_>>()?;
        Ok(Prediction { phrase: phrase.clone(), next: next.clone(), models })
    };
    phrases.iter().map(of_phrase).collect()
}

/// A table for each phrase: rank by rank, a pair of columns a model. The word that came is marked.
pub(super) fn tables(names: &[&str], predictions: &[Prediction]) -> Vec<Table> {
    let mark = |candidate: &Candidate, next: &Option<String>| match next {
        Some(next) if *next == candidate.word => format!("> {}", candidate.word),
        _ => candidate.word.clone(),
    };
    let table = |(i, prediction): (usize, &Prediction)| {
        let mut columns = vec![Column::number("rank")];
        for name in names {
            columns.push(Column::text(*name).key(format!("{name} word")));
            columns.push(Column::number("probability").key(format!("{name} probability")));
        }
        let rows = (0..SHOWN).map(|rank| {
            let mut row = vec![Cell::number(rank as f64 + 1.0, 0)];
            for candidates in &prediction.models {
                let candidate = candidates.get(rank);
                row.push(candidate.map_or(Cell::Empty, |c| Cell::text(mark(c, &prediction.next))));
                row.push(candidate.map_or(Cell::Empty, |c| Cell::number(c.probability, 3)));
            }
            row
        });
        let came = prediction.next.as_ref().map_or_else(String::new, |next| format!(" + {next}"));
        Table {
            name: format!("table4-{}", i + 1),
            caption: format!("{}{came}", prediction.phrase),
            columns,
            rows: rows.collect(),
            notes: Vec::new(),
        }
    };
    predictions.iter().enumerate().map(table).collect()
}
