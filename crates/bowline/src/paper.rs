//! The paper's own numbers, and how a run stands to them.
//!
//! Tables 1 and 2 of Inan, Khosravi and Socher (2017) give a validation and a test perplexity for every corpus, size and
//! model. A run is *comparable* if its settings are those of the preset, up to what the paper leaves open. It is inside
//! the *band* if both of its perplexities are at most [`BAND`] above the paper's; lower is better, so there is no lower
//! edge.

use crate::config::{Config, ModelKind, Size, TargetGradient, Training, preset};
use crate::optim::Place;
use crate::wording::percent;
use serde::{Deserialize, Serialize};

/// How far above the paper's number a perplexity may be, as a share of it.
pub const BAND: f64 = 0.02;

/// The halves of WikiText-2's training split that Table 2 is about, as they are named here.
pub const WIKITEXT_2_HALVES: [&str; 2] = ["wikitext-2-half1", "wikitext-2-half2"];

/// What the paper reports for a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Validation perplexity.
    pub valid: f64,
    /// Test perplexity.
    pub test: f64,
}

/// Valid and test of VD-LSTM, +AL, +RE, +REAL.
type Row = [(f64, f64); 4];

/// Table 1, and Table 2 for the halves: corpus, size, the four models.
const NUMBERS: [(&str, Size, Row); 7] = [
    ("ptb", Size::Small, [(92.6, 87.3), (86.3, 82.9), (89.9, 85.1), (86.3, 82.7)]),
    ("ptb", Size::Medium, [(82.0, 77.7), (77.4, 74.7), (77.1, 73.9), (75.7, 73.2)]),
    ("ptb", Size::Large, [(76.8, 72.6), (74.5, 71.2), (72.5, 69.0), (71.1, 68.5)]),
    ("wikitext-2", Size::Small, [(112.2, 105.9), (110.3, 103.8), (106.1, 100.5), (105.6, 98.9)]),
    ("wikitext-2", Size::Medium, [(100.2, 95.3), (98.8, 93.1), (92.3, 87.7), (91.5, 87.0)]),
    (WIKITEXT_2_HALVES[0], Size::Small, [(159.1, 148.0), (153.0, 142.5), (152.4, 141.9), (149.3, 140.6)]),
    (WIKITEXT_2_HALVES[1], Size::Small, [(163.19, 148.6), (156.4, 143.7), (152.5, 140.9), (150.5, 138.4)]),
];

/// The paper's perplexities of a model, if it has them.
pub fn expected(data: &str, size: Size, model: ModelKind) -> Option<Expected> {
    let (_, _, row) = NUMBERS.iter().find(|(name, of, _)| *name == data && *of == size)?;
    let at = ModelKind::ALL.iter().position(|&kind| kind == model)?;
    row.get(at).map(|&(valid, test)| Expected { valid, test })
}

/// Every corpus and size the paper has numbers for, in its order.
pub fn cells() -> impl Iterator<Item = (&'static str, Size)> {
    NUMBERS.iter().map(|&(data, size, _)| (data, size))
}

impl Expected {
    /// Whether a run with these perplexities is inside the band.
    pub fn inside(&self, valid: f64, test: f64) -> bool {
        valid <= self.valid * (1.0 + BAND) && test <= self.test * (1.0 + BAND)
    }
}

/// A finished run beside the paper's numbers; `summary.json` keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The paper's validation perplexity.
    pub valid: f64,
    /// The paper's test perplexity.
    pub test: f64,
    /// Whether both of the run's are at most [`BAND`] above.
    pub inside: bool,
    /// Settings that are not the paper's, as "epochs 3 instead of 55"; none in a run that is comparable.
    pub other_settings: Vec<String>,
}

/// Compares the final perplexities of a run with the paper's; none if the paper has none for such a run.
pub fn compare(config: &Config, valid: f64, test: f64) -> Option<Comparison> {
    let paper = expected(&config.data.source, config.size, config.model)?;
    Some(Comparison {
        valid: paper.valid,
        test: paper.test,
        inside: paper.inside(valid, test),
        other_settings: other_settings(config),
    })
}

impl Comparison {
    /// The paper's numbers.
    pub fn expected(&self) -> Expected {
        Expected { valid: self.valid, test: self.test }
    }

    /// How a run with these perplexities stands: "inside the band", or by how much it is above.
    pub fn standing(&self, valid: f64, test: f64) -> String {
        let band = 100.0 * BAND;
        if self.inside {
            return format!("inside the band (at most {band}% above)");
        }
        let above = |name: &str, ours: f64, paper: f64| match 100.0 * (ours / paper - 1.0) {
            percent if !percent.is_finite() => format!("{name} without bound"),
            percent if percent >= 0.0 => format!("{name} by {percent:.1}%"),
            percent => format!("{name} is {:.1}% below", -percent),
        };
        let (valid, test) = (above("valid", valid, self.valid), above("test", test, self.test));
        format!("above the band of {band}%: {valid}, {test}")
    }

    /// One line for the end of a run.
    pub fn line(&self, valid: f64, test: f64) -> String {
        let numbers =
            format!("the paper: {} / {} (valid / test); this run: {valid:.2} / {test:.2}", self.valid, self.test);
        let standing = self.standing(valid, test);
        match self.other_settings.as_slice() {
            [] => format!("{numbers}, {standing}"),
            others => format!("{numbers}, {standing}; its settings are not the paper's: {}", others.join(", ")),
        }
    }
}

/// What a run has where the paper leaves a choice that matters for the perplexity, in a few words: "batch 10, weight decay
/// 0.0001, 42 epochs, gamma 0.8, flow".
pub fn chosen(config: &Config) -> String {
    let mut parts = vec![format!("batch {}", config.batch)];
    if config.weight_decay > 0.0 {
        let spared = if config.spare_vectors { " of all but the word vectors" } else { "" };
        parts.push(format!("weight decay {}{spared}", config.weight_decay));
    }
    if config.average > 0.0 {
        parts.push(format!("mean of the last {}% of steps", percent(config.average)));
    }
    parts.push(match config.second_training_epochs {
        0 => format!("{} epochs", config.epochs),
        second => format!("{} and again {second} epochs", config.epochs),
    });
    if config.model.augmented() {
        let gradient = match config.augment.gradient {
            TargetGradient::Flow => "flow",
            TargetGradient::Stop => "stop",
        };
        let late = if config.augments(Training::First) { "" } else { ", augmented in the second training" };
        parts.push(format!("gamma {}, {gradient}{late}", config.augment.gamma));
    }
    parts.join(", ")
}

/// A schedule is at its end when the learning rate is at most this part of the first one.
const SMALL: f64 = 0.05;

/// The same where the model is the mean of the last steps' weights, which takes out what a higher rate makes them move about.
const SMALL_WITH_MEAN: f64 = 0.2;

/// Whether the learning rate has become small by the end of the last training.
fn at_its_end(config: &Config) -> bool {
    let epochs = if config.second_training_epochs > 0 { config.second_training_epochs } else { config.epochs };
    let small = if config.average > 0.0 { SMALL_WITH_MEAN } else { SMALL };
    config.schedule().at(Place::epoch(epochs)) <= small * config.learning_rate
}

/// The settings of a run that are not the paper's.
///
/// Left open by the paper, and so no difference: the seed, the batch size and its shards, the weight decay and what it spares, whether the
/// weights are averaged, a gamma within the paper's range, whether the gradient flows through the target, the number of
/// epochs once the learning rate has become small ([`at_its_end`]), the second training of the footnote and whether the loss
/// is augmented in both, the precision, and how a run is watched and saved. [`chosen`] says what a run has there.
fn other_settings(config: &Config) -> Vec<String> {
    let wikitext = config.data.source.starts_with("wikitext-2");
    let mut paper = preset(config.size, config.model, if wikitext { "wikitext-2" } else { &config.data.source });
    paper.seed = config.seed;
    (paper.batch, paper.shards) = (config.batch, config.shards);
    paper.weight_decay = config.weight_decay;
    paper.spare_vectors = config.spare_vectors;
    paper.average = config.average;
    if at_its_end(config) {
        paper.epochs = config.epochs;
    }
    paper.second_training_epochs = config.second_training_epochs;
    paper.patience = config.patience;
    paper.validation_streams = config.validation_streams;
    paper.checkpoint = config.checkpoint.clone();
    paper.data.source.clone_from(&config.data.source);
    paper.precision = config.precision;
    paper.augment.gradient = config.augment.gradient;
    paper.augment.begin = config.augment.begin;
    let range = if wikitext { 1.0..=1.5 } else { 0.5..=0.8 };
    if range.contains(&config.augment.gamma) {
        paper.augment.gamma = config.augment.gamma;
    }
    if !config.model.augmented() {
        paper.augment = config.augment.clone();
    }
    paper.origin.clone_from(&config.origin);
    let mut others: Vec<String> = config
        .differences(&paper)
        .into_iter()
        .map(|(key, ours, theirs)| format!("{key} {ours} instead of {theirs}"))
        .collect();
    if !config.origin.is_empty() {
        others.push(format!("it began as {}", config.origin));
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_tables() {
        let of = |data, size, model| expected(data, size, model).map(|e| (e.valid, e.test));
        assert_eq!(of("ptb", Size::Small, ModelKind::Re), Some((89.9, 85.1)));
        assert_eq!(of("ptb", Size::Large, ModelKind::Real), Some((71.1, 68.5)));
        assert_eq!(of("wikitext-2", Size::Medium, ModelKind::VdLstm), Some((100.2, 95.3)));
        assert_eq!(of("wikitext-2-half2", Size::Small, ModelKind::Al), Some((156.4, 143.7)));
        assert_eq!(of("wikitext-2", Size::Large, ModelKind::Real), None);
        assert_eq!(of("demo", Size::Small, ModelKind::Real), None);
        // In every cell of the paper both ideas together are the best of the four on the test split.
        for (data, size) in cells() {
            let test = ModelKind::ALL.map(|model| expected(data, size, model).map_or(f64::NAN, |e| e.test));
            assert!(test.iter().all(|&t| t >= test[3]) && test.iter().all(|&t| t <= test[0]), "{data} {size:?}");
        }
    }

    #[test]
    fn the_band_has_an_upper_edge_alone() {
        let paper = Expected { valid: 100.0, test: 50.0 };
        assert!(paper.inside(102.0, 51.0) && paper.inside(10.0, 10.0));
        assert!(!paper.inside(102.1, 50.0) && !paper.inside(100.0, 51.1) && !paper.inside(f64::INFINITY, f64::NAN));
    }

    #[test]
    fn a_run_of_a_preset_says_where_it_stands() {
        let config = preset(Size::Small, ModelKind::Re, "ptb");
        let line = |config: &Config, valid, test| compare(config, valid, test).unwrap().line(valid, test);
        assert_eq!(
            line(&config, 90.5, 86.0),
            "the paper: 89.9 / 85.1 (valid / test); this run: 90.50 / 86.00, inside the band (at most 2% above)"
        );
        assert_eq!(
            line(&config, 95.0, 85.0),
            "the paper: 89.9 / 85.1 (valid / test); this run: 95.00 / 85.00, above the band of 2%: valid by 5.7%, test is 0.1% below"
        );
        let short = Config { epochs: 3, ..config };
        assert!(
            line(&short, 150.7, f64::INFINITY)
                .ends_with("test without bound; its settings are not the paper's: epochs 3 instead of 55"),
        );
        assert_eq!(compare(&preset(Size::Small, ModelKind::Re, "demo"), 1.0, 1.0), None);
    }

    #[test]
    fn a_run_says_what_it_has_where_the_paper_is_silent() {
        let of = |model, settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|&s| s.to_owned()).collect();
            chosen(&preset(Size::Small, model, "ptb").with(&settings).unwrap())
        };
        let again = ["epochs=35", "second_training_epochs=30", "augment.gamma=0.5"];
        assert_eq!(of(ModelKind::Re, &again), "batch 20, 35 and again 30 epochs");
        assert_eq!(
            of(
                ModelKind::Al,
                &["batch=10", "weight_decay=1e-4", "average=0.1", "augment.gamma=0.8", "augment.gradient=flow"]
            ),
            "batch 10, weight decay 0.0001, mean of the last 10% of steps, 55 epochs, gamma 0.8, flow"
        );
        let spared = ["weight_decay=1e-4", "spare_vectors=true"];
        assert_eq!(of(ModelKind::Re, &spared), "batch 20, weight decay 0.0001 of all but the word vectors, 55 epochs");
    }

    #[test]
    fn what_the_paper_leaves_open_is_no_difference() {
        let free = |settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|&s| s.to_owned()).collect();
            let config = preset(Size::Small, ModelKind::Real, "ptb").with(&settings).unwrap();
            compare(&config, 80.0, 80.0).unwrap().other_settings
        };
        let open = ["seed=9", "augment.gamma=0.5", "augment.gradient=flow", "second_training_epochs=55", "patience=3"];
        let settings = ["batch=10", "weight_decay=1e-4", "spare_vectors=true", "average=0.1"];
        assert_eq!(free(&settings), Vec::<String>::new());
        assert_eq!(free(&open), Vec::<String>::new());
        // 0.9^29 = 0.047: after 34 epochs there is hardly anything left of the learning rate.
        assert_eq!(free(&["epochs=34"]), Vec::<String>::new());
        assert_eq!(free(&["epochs=33"]), ["epochs 33 instead of 55"]);
        // It is the last training that counts.
        assert_eq!(free(&["epochs=10", "second_training_epochs=34"]), Vec::<String>::new());
        assert_eq!(free(&["epochs=10", "second_training_epochs=33"]), ["epochs 10 instead of 55"]);
        // 0.9^16 = 0.185, with a mean of the last steps.
        assert_eq!(free(&["average=0.1", "epochs=10", "second_training_epochs=21"]), Vec::<String>::new());
        assert_eq!(free(&["average=0.1", "epochs=20"]), ["epochs 20 instead of 55"]);
        assert_eq!(
            free(&["augment.gamma=0.9", "keep=0.6", "data.tokenize=true"]),
            ["augment.gamma 0.9 instead of 0.65", "data.tokenize true instead of false", "keep 0.6 instead of 0.7"]
        );
        let branch =
            Config { origin: "re at step 9 (epoch 2)".to_owned(), ..preset(Size::Small, ModelKind::Re, "ptb") };
        let others = compare(&branch, 80.0, 80.0).unwrap().other_settings;
        assert_eq!(others, ["it began as re at step 9 (epoch 2)"]);
        // The halves of WikiText-2 are trained like the whole.
        let mut half = preset(Size::Small, ModelKind::VdLstm, "wikitext-2");
        half.data.source = WIKITEXT_2_HALVES[0].to_owned();
        assert_eq!(compare(&half, 100.0, 100.0).unwrap().other_settings, Vec::<String>::new());
    }
}
