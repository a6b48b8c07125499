//! The page about one or several runs.

use super::curves::{divergence_chart, learning_rate_chart, training_chart, validation_chart};
use super::page::{Block, Page, Section};
use super::predictors::predictors_section;
use super::record::{RunRecord, Stage};
use super::table::{Cell, Column, Table};
use super::text::{date, duration, number};
use bowline::paper::BAND;
use bowline::predictor::PredictorRow;
use bowline::wording::grouped;

/// A page that shows runs side by side: results, curves, ways of predicting where they were
/// measured, and what each was made of.
pub fn training_page(runs: &[RunRecord]) -> Page {
    let title = match runs {
        [run] => format!("{}: {}, {}, on {}", run.name, run.config.title(), run.config.size(), data(run)),
        _ => format!("{} runs side by side", runs.len()),
    };
    let unfinished = runs.iter().filter(|run| run.summary.is_none()).count();
    let state = match (unfinished, runs.len()) {
        (0, 1) => "A finished run.".to_owned(),
        (0, n) => format!("{n} finished runs."),
        (1, 1) => "A run that is not finished, up to now.".to_owned(),
        (m, n) => format!("{} finished, {m} not finished, shown up to now.", n - m),
    };
    let mut results = vec![Block::from(results_table(runs))];
    let standings: Vec<(String, String)> = runs.iter().filter_map(standing).collect();
    if !standings.is_empty() {
        results.extend([Block::Heading("Beside the paper".to_owned()), Block::Facts(standings)]);
    }
    let lead = finding(runs).map_or_else(|| state.clone(), |finding| format!("{finding} {state}"));
    let mut sections = vec![Section::new("Results", results)];
    sections.extend(runs.iter().filter_map(predictors_section));
    sections.push(curves_section(runs));
    sections.extend(runs.iter().map(run_section));
    Page { title, lead, sections }
}

/// Perplexities of a run with all that is stored with its model, on valid and test.
fn full(run: &RunRecord) -> Option<[f64; 2]> {
    run.summary.as_ref().and_then(|summary| summary.predictor).map(|with| with.full)
}

/// Whether the finished runs predicted the same words: perplexities over different vocabularies cannot be compared.
fn comparable(runs: &[RunRecord]) -> bool {
    let predicted = |run: &RunRecord| run.beginning.as_ref().map(|begin| (begin.vocab, begin.words[2]));
    let mut finished = runs.iter().filter(|run| run.test().is_some()).map(predicted);
    finished.next().is_none_or(|first| finished.all(|other| other == first))
}

/// The finished run with the lowest test perplexity, in the way that it predicts best; none where they cannot be compared.
fn best(runs: &[RunRecord]) -> Option<&RunRecord> {
    let reached = |run: &RunRecord| full(run).map(|[_, test]| test).or(run.test()).unwrap_or(f64::INFINITY);
    let finished = runs.iter().filter(|run| comparable(runs) && run.test().is_some_and(f64::is_finite));
    finished.min_by(|a, b| reached(a).total_cmp(&reached(b)))
}

/// What came out, in a sentence: the best run, and how far it is from an n-gram model and from the paper.
fn finding(runs: &[RunRecord]) -> Option<String> {
    if !comparable(runs) {
        return Some("These runs have different vocabularies, so their perplexities cannot be compared.".to_owned());
    }
    let run = best(runs)?;
    let test = run.test()?;
    let who = match runs {
        [_] => format!("Test perplexity {}", number(test, 2)),
        _ => format!("The best is {} with a test perplexity of {}", run.name, number(test, 2)),
    };
    let beside = |other: f64, name: &str| {
        let percent = 100.0 * (test / other - 1.0);
        let side = if percent < 0.0 { "below" } else { "above" };
        format!("{}% {side} {name} ({})", number(percent.abs(), 1), number(other, 2))
    };
    let with = run.summary.as_ref().and_then(|summary| summary.predictor);
    let who = match with {
        Some(with) => format!("{who}; {} with n-grams, cache and dynamic evaluation", number(with.full[1], 2)),
        None => who,
    };
    let alone = |row: &&PredictorRow| row.technique.starts_with("KN") && row.technique.ends_with("alone");
    let ngram = run.predictors.as_ref().and_then(|measured| measured.table.rows.iter().find(alone));
    let ngram = ngram.map(|row| row.test).or(with.map(|with| with.ngrams[1]));
    let mut distances: Vec<String> = ngram.map(|test| beside(test, "a Kneser-Ney model")).into_iter().collect();
    distances.extend(run.expected().map(|paper| beside(paper.test, "the paper")));
    let distances = if distances.is_empty() { String::new() } else { format!(", {}", distances.join(" and ")) };
    Some(format!("{who}{distances}."))
}

/// The curves of runs: validation, training, divergence where a loss is augmented, learning rate.
pub fn curves_section(runs: &[RunRecord]) -> Section {
    let mut curves = vec![validation_chart(runs).into(), training_chart(runs).into()];
    curves.extend(divergence_chart(runs).map(Block::from));
    curves.push(learning_rate_chart(runs).into());
    Section::new("Curves", curves)
}

/// The corpus by name, or by the last part of its path.
fn data(run: &RunRecord) -> String {
    let source = &run.config.data().source;
    source.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(source).to_owned()
}

/// Perplexities, and where the paper has such runs, its own and the differences.
pub fn results_table(runs: &[RunRecord]) -> Table {
    let in_paper = runs.iter().any(|run| run.expected().is_some());
    let going_on = runs.iter().any(|run| run.summary.is_none());
    let in_full = runs.iter().any(|run| full(run).is_some());
    // What matters most stands first, where a telephone shows it.
    let mut columns = vec![Column::text("run"), Column::number("valid"), Column::number("test")];
    if in_full {
        columns.extend(
            ["valid", "test"].map(|split| Column::number(format!("full {split}")).key(format!("full_{split}"))),
        );
    }
    columns.push(Column::text("model"));
    if in_paper {
        for split in ["valid", "test"] {
            columns.push(Column::number(format!("paper {split}")).key(format!("paper_{split}")));
            columns.push(Column::number("diff.").key(format!("difference_{split}")));
        }
        columns.push(Column::text("band"));
    }
    columns.extend([Column::text("data"), Column::number("vocabulary"), Column::number("OOV, %").key("oov_percent")]);
    columns.extend([Column::text("size"), Column::number("epochs"), Column::number("seed")]);
    if going_on {
        columns.push(Column::text("state"));
    }
    let row = |run: &RunRecord| {
        let paper = run.expected();
        let is_best = runs.len() > 1 && best(runs).is_some_and(|best| best.dir == run.dir);
        let perplexity = |value: Option<f64>| match value {
            None => Cell::NotYet,
            Some(value) if is_best => Cell::Best { value, decimals: 2 },
            Some(value) => Cell::number(value, 2),
        };
        let mut row = vec![Cell::text(run.name.clone()), perplexity(run.valid()), perplexity(run.test())];
        if in_full {
            row.extend(full(run).map_or([Cell::Empty, Cell::Empty], |full| full.map(|value| perplexity(Some(value)))));
        }
        row.push(Cell::text(run.config.title()));
        for (ours, paper) in [(run.valid(), paper.map(|p| p.valid)), (run.test(), paper.map(|p| p.test))] {
            if in_paper {
                // A run that goes on is not yet to be compared.
                let over = ours.zip(paper).filter(|_| run.summary.is_some()).map(|(ours, paper)| ours - paper);
                row.extend([Cell::quoted(paper, 1), Cell::difference(over, 2)]);
            }
        }
        if in_paper {
            row.push(match run.comparison() {
                None => Cell::Empty,
                Some(comparison) if !comparison.other_settings.is_empty() => Cell::text("other settings"),
                Some(comparison) => Cell::text(if comparison.inside { "inside" } else { "above" }),
            });
        }
        row.push(Cell::text(data(run)));
        row.extend(match &run.beginning {
            Some(begin) => {
                let oov = 100.0 * begin.unseen[1] as f64 / begin.words[2].max(1) as f64;
                [Cell::number(begin.vocab as f64, 0), Cell::number(oov, 1)]
            }
            None => [Cell::Empty, Cell::Empty],
        });
        row.push(Cell::text(run.config.size()));
        row.extend([
            Cell::number(run.epochs.len() as f64, 0),
            run.config.seed().map_or(Cell::Empty, |seed| Cell::text(seed.to_string())),
        ]);
        if going_on {
            row.push(Cell::text(if run.summary.is_some() { "finished" } else { "not finished" }));
        }
        row
    };
    let mut notes = vec![
        "Perplexities of finished runs are those of the kept model, one stream, state carried. Lower is better."
            .to_owned(),
    ];
    if in_full {
        notes.push(
            "Full: with the n-grams, the cache and the dynamic evaluation that are stored with the model.".to_owned(),
        );
    }
    if in_paper {
        notes.push(format!("Band: both perplexities at most {}% above the paper's.", 100.0 * BAND));
    }
    if going_on {
        notes.push(
            "For a run that is not finished, valid is the best so far, measured as during training (several streams)."
                .to_owned(),
        );
    }
    Table {
        name: "results".to_owned(),
        caption: if in_paper { "Perplexity, the paper's and ours" } else { "Perplexity" }.to_owned(),
        columns,
        rows: runs.iter().map(row).collect(),
        notes,
    }
}

/// How a finished run stands to the paper: its name, and a sentence.
fn standing(run: &RunRecord) -> Option<(String, String)> {
    let (comparison, summary) = (run.comparison()?, run.summary.as_ref()?);
    let standing = comparison.standing(summary.valid, summary.test);
    let settings = match comparison.other_settings.as_slice() {
        [] => String::new(),
        others => format!("; its settings are not the paper's: {}", others.join(", ")),
    };
    Some((run.name.clone(), standing + &settings))
}

/// What a run was made of.
pub fn run_section(run: &RunRecord) -> Section {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut hashes: Vec<(String, String)> = Vec::new();
    let mut hash = |name: String, value: &str| hashes.push((name, value.to_owned()));
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    fact("state", run.progress());
    if let Stage::Within(last) = run.state {
        fact("training perplexity of this epoch so far", number(last.perplexity, 1));
        fact("time left, about", duration(last.eta_seconds));
    }
    fact("model", format!("{} (--model {})", run.config.title(), run.config.model()));
    if let Some(config) = run.config.network() {
        fact("size", format!("{}: {} layers of {} units", config.size.name(), config.layers, config.hidden));
        fact("seed", config.seed.to_string());
    }
    fact("data", run.config.data().source.clone());
    if let Some(begin) = &run.beginning {
        let [train, valid, test] = begin.words.map(grouped);
        fact("words", format!("{train} for training, {valid} for validation, {test} for the test"));
        fact("vocabulary", format!("{} words", grouped(begin.vocab)));
        fact("parameters", grouped(begin.parameters));
    }
    match (&run.summary, &run.beginning) {
        (Some(summary), _) => {
            for (split, sha256) in ["training", "validation", "test"].iter().zip(&summary.data_sha256) {
                hash(format!("the {split} split"), sha256);
            }
            hash("the weights".to_owned(), &summary.weights_sha256);
        }
        (None, Some(begin)) => hash("the training split".to_owned(), &begin.data_sha256),
        (None, None) => {}
    }
    if let Some(config) = run.config.network().filter(|config| !config.origin.is_empty()) {
        fact("began as", config.origin.clone());
    }
    if let Some(second) = run.second_training {
        fact("second training", format!("from epoch {second} on, with the learning rate reset"));
    }
    if let Some(summary) = &run.summary {
        fact("best epoch", format!("{} of {}", summary.best_epoch, summary.epochs));
        fact("speed", format!("{} words a second", grouped(summary.timing.words_per_second.max(0.0) as usize)));
        fact("machine", summary.timing.machine.clone());
    } else if let Some(begin) = &run.beginning {
        fact("machine", begin.machine.clone());
    }
    if !run.epochs.is_empty() {
        fact("time of all epochs", duration(run.seconds()));
    }
    if let Some(begin) = &run.beginning {
        let end = run.end_time.map_or_else(String::new, |end| format!(", ended {}", date(end)));
        let resumed = match run.resumed {
            0 => String::new(),
            1 => ", resumed once".to_owned(),
            n => format!(", resumed {n} times"),
        };
        fact("time", format!("began {}{end}{resumed}", date(begin.time)));
        fact("program", format!("bowline {}", begin.version));
    }
    let settings = run.config.to_toml().unwrap_or_else(|error| error.to_string());
    let blocks = vec![
        Block::Facts(facts),
        Block::Folded("Hashes (SHA-256)".to_owned(), vec![Block::Facts(hashes)]),
        Block::Folded("All settings (config.toml)".to_owned(), vec![Block::Verbatim(settings)]),
        Block::Folded("Every epoch".to_owned(), vec![epochs_table(run).into()]),
    ];
    Section::new(format!("The run {}", run.name), blocks)
}

/// Every epoch of a run.
fn epochs_table(run: &RunRecord) -> Table {
    let augmented = run.config.augmented();
    let mut columns = vec![
        Column::number("epoch"),
        Column::number("learning rate").key("learning_rate"),
        Column::number("training perplexity").key("train"),
        Column::number("validation perplexity").key("valid"),
    ];
    if augmented {
        columns.push(Column::number("KL, nats a word").key("kl"));
    }
    columns.extend([Column::number("seconds"), Column::text("kept")]);
    let rows = run.epochs.iter().map(|end| {
        let mut row = vec![
            Cell::number(f64::from(end.epoch), 0),
            Cell::number(end.learning_rate, 4),
            Cell::number(end.train, 2),
            Cell::number(end.valid, 2),
        ];
        if augmented {
            row.push(Cell::number(end.kl, 5));
        }
        row.push(Cell::number(end.seconds, 0));
        row.push(if end.best { Cell::text("best so far") } else { Cell::Empty });
        row
    });
    Table {
        name: format!("epochs-{}", run.name),
        caption: format!("Every epoch of {}", run.name),
        columns,
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

#[cfg(test)]
#[path = "training_tests.rs"]
mod tests;
