//! The curves of runs, one series a run: perplexities, learning rate, divergence.

use super::chart::{Chart, Point, Reference, Series};
use super::record::RunRecord;
use super::scale::Axis;
use super::text::number;
use bowline::config::ModelKind;
use bowline::event::EpochEnd;

/// What each run is called in a legend, and its look. Runs of different models are called by the model and look the same
/// in every report; others are called by their names.
pub(super) fn identities(runs: &[RunRecord]) -> Vec<(String, usize)> {
    let titles: Vec<String> = runs.iter().map(|run| run.config.title()).collect();
    let kinds = ModelKind::ALL;
    let place = |model: ModelKind| kinds.iter().position(|&kind| kind == model).unwrap_or(0);
    let distinct = titles.iter().enumerate().all(|(i, title)| !titles[..i].contains(title));
    let same_data = runs.windows(2).all(|w| w[0].config.data() == w[1].config.data());
    let networks: Vec<_> = runs.iter().filter_map(|run| run.config.network()).collect();
    let same_size = networks.windows(2).all(|w| w[0].size == w[1].size);
    let identity = |(i, run): (usize, &RunRecord)| match distinct && same_data && same_size {
        true => (titles[i].clone(), run.config.network().map_or(kinds.len(), |config| place(config.model))),
        false => (run.name.clone(), i),
    };
    runs.iter().enumerate().map(identity).collect()
}

fn by_epoch(run: &RunRecord, value: impl Fn(&EpochEnd) -> f64) -> Vec<Point> {
    run.epochs.iter().map(|end| Point::new(f64::from(end.epoch), value(end))).collect()
}

fn chart(
    runs: &[RunRecord],
    (name, title, description): (&str, &str, &str),
    y: Axis,
    value: impl Fn(&EpochEnd) -> f64,
) -> Chart {
    let identities = identities(runs);
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        description: description.to_owned(),
        x: Axis::whole("epoch"),
        y,
        series: runs
            .iter()
            .zip(identities)
            // An n-gram model is estimated in one pass: it has no curve.
            .filter(|(run, _)| run.config.network().is_some())
            .map(|(run, (name, look))| Series::line(name, by_epoch(run, &value)).look(look))
            .collect(),
        references: second_trainings(runs),
    }
}

/// Where second trainings began.
fn second_trainings(runs: &[RunRecord]) -> Vec<Reference> {
    let mut epochs: Vec<u32> = runs.iter().filter_map(|run| run.second_training).collect();
    epochs.sort_unstable();
    epochs.dedup();
    // Between the last epoch of the first training and the first of the second.
    let begin = |epoch: u32| Reference::Upright { x: f64::from(epoch) - 0.5, label: "second training".to_owned() };
    epochs.into_iter().map(begin).collect()
}

/// Validation perplexity by epoch, with the paper's results as lines across (the paper's Figure 2).
pub fn validation_chart(runs: &[RunRecord]) -> Chart {
    let about = (
        "validation",
        "Validation perplexity by epoch",
        "Measured after each epoch, without dropout. Lower is better. Dotted lines across: the paper's final values.",
    );
    let mut chart = chart(runs, about, Axis::log("perplexity"), |end| end.valid);
    // One line for each value; models of the same value share it.
    let mut lines: Vec<(f64, Vec<String>, usize)> = Vec::new();
    for (run, (_, look)) in runs.iter().zip(identities(runs)) {
        if let Some(expected) = run.expected().filter(|_| !run.epochs.is_empty()) {
            let title = run.config.title().trim_start_matches("VD-LSTM ").to_owned();
            match lines.iter_mut().find(|line| line.0 == expected.valid) {
                Some(line) if line.1.contains(&title) => {}
                Some(line) => line.1.push(title),
                None => lines.push((expected.valid, vec![title], look)),
            }
        }
    }
    if lines.is_empty() {
        chart.description = "Measured after each epoch, without dropout. Lower is better.".to_owned();
    }
    for (run, (name, look)) in runs.iter().zip(identities(runs)).filter(|(run, _)| run.config.network().is_none()) {
        if let Some(y) = run.valid() {
            chart.references.push(Reference::Across { y, label: format!("{name} {}", number(y, 1)), look: Some(look) });
        }
    }
    chart.references.extend(lines.into_iter().map(|(y, titles, look)| Reference::Across {
        y,
        label: format!("paper: {} {}", titles.join(", "), number(y, 1)),
        look: Some(look),
    }));
    chart
}

/// Training perplexity by epoch.
pub fn training_chart(runs: &[RunRecord]) -> Chart {
    let about = (
        "training",
        "Training perplexity by epoch",
        "Mean over each epoch while the weights change, with dropout: not comparable with the validation perplexity.",
    );
    chart(runs, about, Axis::log("perplexity"), |end| end.train)
}

/// Learning rate by epoch.
pub fn learning_rate_chart(runs: &[RunRecord]) -> Chart {
    let about = ("learning-rate", "Learning rate by epoch", "As it was in each epoch.");
    let learners = || runs.iter().filter(|run| run.config.network().is_some());
    let rates = || learners().flat_map(|run| &run.epochs).map(|end| end.learning_rate);
    // A rate that has not changed yet is best seen above zero.
    let falls = rates().fold(0.0, f64::max) > 1.5 * rates().fold(f64::INFINITY, f64::min);
    let axis = if falls {
        Axis::log("learning rate")
    } else {
        Axis::linear("learning rate").from_to(0.0, (1.2 * rates().fold(0.0, f64::max)).max(1e-9))
    };
    chart(runs, about, axis, |end| end.learning_rate)
}

/// Mean `KL(y~ || y^)` by epoch, of the runs whose loss is augmented; none if no run's is.
pub fn divergence_chart(runs: &[RunRecord]) -> Option<Chart> {
    let about = (
        "divergence",
        "Divergence of the augmented loss by epoch",
        "Mean KL divergence of the model's softened prediction from the distribution that the word vectors estimate, \
         in nats a word, while training.",
    );
    let mut chart = chart(runs, about, Axis::linear("KL(y\u{303} \u{2225} y\u{302}), nats a word"), |end| end.kl);
    let learners = runs.iter().filter(|run| run.config.network().is_some());
    let augmented: Vec<bool> = learners.map(|run| run.config.augmented()).collect();
    let mut keep = augmented.iter();
    chart.series.retain(|_| keep.next().copied().unwrap_or(false));
    (!chart.series.is_empty()).then_some(chart)
}
