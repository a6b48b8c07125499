//! Tables 1 and 2: perplexities of the four models, the paper's and ours.

use bowline::config::{Config, ModelKind, Size};
use bowline::paper;
use bowline_report::{Cell, Column, RunRecord, Table};

/// The paper's table with our numbers in it: `runs` are the cells that were begun. A cell of the paper's without a run
/// has a row that says so.
pub(super) fn table(name: &str, caption: &str, places: &[(&str, Size)], runs: &[RunRecord]) -> Table {
    let mut rows = Vec::new();
    for &(data, size) in places {
        for model in ModelKind::ALL {
            let of_cell = |run: &&RunRecord| {
                let is = |c: &Config| c.data.source == data && c.size == size && c.model == model;
                run.config.network().is_some_and(is)
            };
            let mut found: Vec<Option<&RunRecord>> = runs.iter().filter(of_cell).map(Some).collect();
            if found.is_empty() {
                found.push(None);
            }
            rows.extend(found.into_iter().map(|run| row(data, size, model, run)));
        }
    }
    Table {
        name: name.to_owned(),
        caption: caption.to_owned(),
        columns: vec![
            Column::text("data"),
            Column::text("size"),
            Column::text("model"),
            Column::number("valid"),
            Column::number("paper").key("paper_valid"),
            Column::number("diff.").key("difference_valid"),
            Column::number("test"),
            Column::number("paper").key("paper_test"),
            Column::number("diff.").key("difference_test"),
            Column::number("epochs"),
            Column::number("seed"),
            Column::text("state"),
        ],
        rows,
        notes: notes(runs),
    }
}

fn notes(runs: &[RunRecord]) -> Vec<String> {
    let perplexity = "Perplexity of the kept model, one stream, state carried; lower is better. Of a run under way, valid \
                      is the best so far (several streams).";
    let mut notes = vec![perplexity.to_owned()];
    if !runs.is_empty() {
        let chosen = |run: &RunRecord| Some(format!("{}: {}", run.name, paper::chosen(run.config.network()?)));
        let chosen = runs.iter().filter_map(chosen);
        let chosen: Vec<String> = chosen.collect();
        notes.push(format!("Choices where the paper leaves a question open. {}.", chosen.join("; ")));
    }
    for run in runs {
        let others = others(run);
        if !others.is_empty() {
            notes.push(format!("* {} has settings that are not the paper's: {}.", run.name, others.join(", ")));
        }
    }
    notes
}

/// What a finished run has otherwise than the paper says.
fn others(run: &RunRecord) -> Vec<String> {
    run.comparison().map_or_else(Vec::new, |comparison| comparison.other_settings)
}

fn row(data: &str, size: Size, model: ModelKind, run: Option<&RunRecord>) -> Vec<Cell> {
    let paper = paper::expected(data, size, model);
    let (paper_valid, paper_test) = (paper.map(|p| p.valid), paper.map(|p| p.test));
    let (valid, test) = (run.and_then(RunRecord::valid), run.and_then(RunRecord::test));
    let over = |ours: Option<f64>, paper: Option<f64>| ours.zip(paper).map(|(ours, paper)| ours - paper);
    vec![
        Cell::text(data),
        Cell::text(size.name()),
        Cell::text(model.title()),
        Cell::maybe(valid, 2),
        Cell::quoted(paper_valid, 1),
        Cell::difference(over(valid, paper_valid), 2),
        Cell::maybe(test, 2),
        Cell::quoted(paper_test, 1),
        Cell::difference(over(test, paper_test), 2),
        run.map_or(Cell::Empty, |run| Cell::number(run.epochs.len() as f64, 0)),
        run.and_then(|run| run.config.seed()).map_or(Cell::Empty, |seed| Cell::number(seed as f64, 0)),
        match run {
            None => Cell::Empty,
            Some(run) if run.summary.is_none() => Cell::text("not finished"),
            Some(run) => Cell::text(if others(run).is_empty() { "finished" } else { "finished*" }),
        },
    ]
}

/// The finished runs for machines: `data,size,model,valid,test,paper_valid,paper_test,epochs,seed`, with the models named
/// as `--model` takes them.
pub fn machine_table(name: &str, runs: &[RunRecord]) -> Table {
    let rows = runs.iter().filter_map(|run| {
        let summary = run.summary.as_ref()?;
        let paper = run.expected();
        Some(vec![
            Cell::text(run.config.data().source.clone()),
            Cell::text(run.config.size()),
            Cell::text(run.config.model()),
            Cell::number(summary.valid, 4),
            Cell::number(summary.test, 4),
            paper.map_or(Cell::Empty, |paper| Cell::number(paper.valid, 2)),
            paper.map_or(Cell::Empty, |paper| Cell::number(paper.test, 2)),
            Cell::number(f64::from(summary.epochs), 0),
            run.config.seed().map_or(Cell::Empty, |seed| Cell::number(seed as f64, 0)),
        ])
    });
    let columns = ["data", "size", "model", "valid", "test", "paper_valid", "paper_test", "epochs", "seed"];
    Table {
        name: name.to_owned(),
        columns: columns.map(Column::text).to_vec(),
        rows: rows.collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline::config::preset;
    use std::fs;

    /// A finished run of +REAL on PTB with these settings.
    fn finished(settings: &[&str]) -> RunRecord {
        let dir = tempfile::tempdir().unwrap();
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let config: Config = preset(Size::Small, ModelKind::Real, "ptb").with(&settings).unwrap();
        fs::write(dir.path().join("config.toml"), config.to_toml().unwrap()).unwrap();
        fs::write(dir.path().join("events.jsonl"), "").unwrap();
        let summary = r#"{"model":"real","size":"small","data":"ptb","data_sha256":["a1","b2","c3"],"seed":1,
            "parameters":2642800,"epochs":55,"steps":73040,"ended":"done","best_epoch":55,"valid":86.5,"test":83.25,
            "tokens":[73759,82429],"weights_sha256":"d4","curve":[],
            "timing":{"seconds":640.0,"words_per_second":4100.5,"machine":"2 threads"}}"#;
        fs::write(dir.path().join("summary.json"), summary).unwrap();
        let mut run = RunRecord::read(dir.path()).unwrap();
        run.name = "ptb-small-real".to_owned();
        run
    }

    #[test]
    fn a_run_that_is_not_as_the_paper_says_is_marked() {
        let text = |run| table("table1", "", &[("ptb", Size::Small)], &[run]).markdown();
        let plain = text(finished(&["batch=10", "weight_decay=7e-5"]));
        assert!(plain.contains("| 83.25 |") && plain.contains("| finished |"), "{plain}");
        assert!(!plain.contains("not the paper's"), "{plain}");
        let other = text(finished(&["augment.form=gram"]));
        assert!(other.contains("| 83.25 |") && other.contains("finished\\*"), "{other}");
        assert!(
            other.contains("ptb-small-real has settings that are not the paper's: augment.form gram instead of exact.")
        );
    }
}
