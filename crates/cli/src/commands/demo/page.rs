//! The demo's report as a page: the models beside the truth, what each expects after a phrase, and the runs.

use super::{PhraseReport, Report};
use bowline::config::ModelKind;
use bowline::loaded_model::Candidate;
use bowline_report::{
    Bar, Bars, Block, Cell, Chart, Column, Page, Reference, RunRecord, Section, Table, curves_section, duration,
    read_runs, run_section, validation_chart,
};
use std::path::Path;

pub fn of(report: &Report, out: &Path) -> bowline::Result<Page> {
    let dirs: Vec<_> = report.models.iter().map(|model| out.join(model.name)).collect();
    let runs = read_runs(&dirs)?;
    let results = vec![curves(report, &runs).into(), Block::from(perplexities(report)), divergences(report).into()];
    let words = report.phrases.iter().enumerate().map(|(i, phrase)| Block::from(next_words(i, phrase)));
    let mut sections = vec![
        Section::new("Results", results),
        Section::new("What comes next", words.collect::<Vec<_>>()),
        curves_section(&runs),
    ];
    sections.extend(runs.iter().map(run_section));
    Ok(Page {
        title: "The paper's four models on the built-in corpus".to_owned(),
        lead: format!(
            "The corpus comes from a grammar, so the least possible perplexity is known, and so is how far each model's \
             predictions are from the truth. All this took {}.",
            duration(report.seconds)
        ),
        sections,
    })
}

/// The four models on their way, and the floor that none can be below.
fn curves(report: &Report, runs: &[RunRecord]) -> Chart {
    let mut chart = validation_chart(runs);
    chart.name = "models-and-floor".to_owned();
    chart.title = "Validation perplexity by epoch, and the exact floor".to_owned();
    let floor = report.floor.valid;
    chart.references.push(Reference::Across { y: floor, label: format!("exact floor {floor:.1}"), look: None });
    chart
}

fn title(name: &str) -> &str {
    ModelKind::ALL.iter().find(|kind| kind.name() == name).map_or(name, |kind| kind.title())
}

fn perplexities(report: &Report) -> Table {
    let mut rows: Vec<Vec<Cell>> = report
        .models
        .iter()
        .map(|model| {
            vec![
                Cell::text(title(model.name)),
                Cell::number(model.parameters as f64, 0),
                Cell::number(model.valid, 2),
                Cell::number(model.test, 2),
                Cell::number(model.kl_from_truth, 3),
            ]
        })
        .collect();
    rows.push(vec![
        Cell::text("exact floor"),
        Cell::Empty,
        Cell::number(report.floor.valid, 2),
        Cell::number(report.floor.test, 2),
        Cell::number(0.0, 3),
    ]);
    Table {
        name: "perplexities".to_owned(),
        caption: "Perplexity on the built-in corpus".to_owned(),
        columns: vec![
            Column::text("model"),
            Column::number("parameters"),
            Column::number("valid"),
            Column::number("test"),
            Column::number("KL from the truth").key("kl_from_truth"),
        ],
        rows,
        notes: vec![
            "Lower is better. The exact floor is the exponential of the grammar's own mean entropy: no model can be below \
             it on average."
                .to_owned(),
            "KL from the truth: mean divergence of the prediction from the grammar's distribution of the next word, in nats, \
             on the test split."
                .to_owned(),
        ],
    }
}

fn divergences(report: &Report) -> Bars {
    let bar = |(look, model): (usize, &super::ModelReport)| Bar::new(title(model.name), model.kl_from_truth).look(look);
    Bars {
        name: "kl-from-truth".to_owned(),
        title: "How far each model is from the truth".to_owned(),
        description:
            "Mean KL divergence from the grammar's distribution of the next word on the test split. 0 is perfect."
                .to_owned(),
        unit: "nats a word".to_owned(),
        decimals: 3,
        bars: report.models.iter().enumerate().map(bar).collect(),
        ..Bars::default()
    }
}

/// The most likely words after a phrase, by model, beside the grammar's.
fn next_words(number: usize, phrase: &PhraseReport) -> Table {
    let mut lists: Vec<(&str, &[Candidate])> =
        phrase.models.iter().map(|model| (title(model.name), model.next.as_slice())).collect();
    lists.push(("the grammar itself", &phrase.truth));
    let columns =
        lists.iter().flat_map(|(name, _)| [Column::text(*name), Column::number("p").key(format!("p {name}"))]);
    let row = |i: usize| {
        let cells = lists.iter().flat_map(|(_, words)| match words.get(i) {
            Some(word) => [Cell::text(word.word.clone()), Cell::number(word.probability, 3)],
            None => [Cell::Empty, Cell::Empty],
        });
        std::iter::once(Cell::number((i + 1) as f64, 0)).chain(cells).collect()
    };
    Table {
        name: format!("next-words-{}", number + 1),
        caption: format!("After \u{201c}{}\u{201d}", phrase.phrase),
        columns: std::iter::once(Column::number("rank")).chain(columns).collect(),
        rows: (0..lists.iter().map(|(_, words)| words.len()).max().unwrap_or(0)).map(row).collect(),
        notes: Vec::new(),
    }
}
