//! The ways of predicting that `eval --all` measured for a run, in its report.

use super::bars::{Bar, Bars};
use super::page::{Block, Section};
use super::record::RunRecord;
use super::table::{Cell, Column, Table};
use super::text::number;
use bowline::predictor::{PredictorRow, PredictorTable};
use bowline::wording::grouped;

/// The table and the chart of a run whose ways of predicting were measured.
pub fn predictors_section(run: &RunRecord) -> Option<Section> {
    let measured = run.predictors.as_ref()?;
    let table = &measured.table;
    let mut blocks = vec![Block::text(format!(
        "What the model is worth depends on how it is used: with a memory of the text, learning from it, joined with other \
         models. Settings were found on the validation split of {} and the test split was looked at once.",
        table.data
    ))];
    if measured.other_weights {
        blocks.push(Block::text(
            "These figures are of other weights than those now in the run's folder: `bowline eval RUN --data DIR --all` \
             measures again.",
        ));
    }
    blocks.extend([chart(run, table).into(), rows(run, table).into()]);
    Some(Section::new(format!("Ways of predicting of {}", run.name), blocks))
}

/// The cost of a token: `143 us, 1.2 x`.
fn cost(row: &PredictorRow) -> String {
    let (time, times) = (if row.microseconds < 10.0 { 1 } else { 0 }, if row.relative < 1.0 { 2 } else { 1 });
    format!("{} \u{b5}s, {}\u{d7}", number(row.microseconds, time), number(row.relative, times))
}

fn chart(run: &RunRecord, table: &PredictorTable) -> Bars {
    let bar = |row: &PredictorRow| {
        Bar::new(row.technique.clone(), row.test).look(usize::from(row.models > 1)).note(format!("({})", cost(row)))
    };
    let least = table.rows.iter().min_by(|a, b| a.test.total_cmp(&b.test));
    let best = least.map_or_else(String::new, |row| {
        let change = table.change(row).map_or_else(String::new, |change| format!(", {}%", number(change, 1)));
        format!(" The lowest is {} with {}{change}.", row.technique, number(row.test, 2))
    });
    Bars {
        name: format!("predictor-bars-{}", run.name),
        title: "Test perplexity by way of predicting".to_owned(),
        description: format!(
            "Test perplexity of {} for each way of predicting; in brackets the time that a token takes, and how many times \
             that of the static evaluation it is.{best}",
            run.name
        ),
        unit: "test perplexity (cost of a token)".to_owned(),
        decimals: 2,
        bars: table.rows.iter().map(bar).collect(),
        looks: vec!["one model".to_owned(), "several models".to_owned()],
        references: Vec::new(),
    }
}

fn rows(run: &RunRecord, table: &PredictorTable) -> Table {
    let row = |row: &PredictorRow| {
        vec![
            Cell::text(row.technique.clone()),
            Cell::number(row.valid, 2),
            Cell::number(row.test, 2),
            Cell::difference(table.change(row), 1),
            Cell::number(row.microseconds, 1),
            Cell::number(row.relative, 2),
            Cell::text(row.settings.clone()),
        ]
    };
    let [valid, test] = table.tokens.map(grouped);
    Table {
        name: format!("predictors-{}", run.name),
        caption: format!("Perplexity and cost of {} by way of predicting", run.name),
        columns: vec![
            Column::text("way").key("technique"),
            Column::number("valid"),
            Column::number("test"),
            Column::number("change on test, %").key("change_percent"),
            Column::number("\u{b5}s a token").key("microseconds_per_token"),
            Column::number("relative cost").key("relative_cost"),
            Column::text("settings"),
        ],
        rows: table.rows.iter().map(row).collect(),
        notes: vec![
            format!("One stream, state carried; {valid} predictions on valid and {test} on test. Lower is better."),
            format!(
                "Cost on {} thread(s): each way by itself, in turn with the others, the best of three.",
                table.threads
            ),
        ],
    }
}

#[cfg(test)]
#[path = "predictors_tests.rs"]
mod tests;
