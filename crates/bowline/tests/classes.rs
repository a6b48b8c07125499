//! A classifier in two steps, class and word: finite differences check the oracle, PyTorch checks it too, the oracle checks the fast
//! path, at any number of threads to the bit; every way of asking gives the same distribution, which adds up to 1.

mod fast;
mod oracle;

use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, Unit};
use fast::{agrees, distributions, flat, has_the_same_bits_at_any_number_of_threads, is_pytorch_s};
use oracle::case::Case;
use oracle::check::slopes_match;
use serde::Deserialize;
use std::collections::BTreeMap;

fn spec(vocab: usize, units: usize, classes: usize) -> ModelSpec {
    let layer = LayerSpec::new(Unit::Rnn { activation: Activation::Sigmoid }, units);
    ModelSpec {
        vocab,
        input: InputSpec::words(units),
        layers: vec![LayerSpec { direct: true, ..layer }],
        output: OutputSpec { classes: Some(classes), ..OutputSpec::default() },
    }
}

/// Few classes of many words, classes of one word each, and one class of all: then the softmax over the classes says nothing.
fn cases(vocab: usize, shape: (usize, usize)) -> Vec<Case> {
    let one = |(i, classes): (usize, usize)| Case::random(&spec(vocab, 5, classes), shape, 0.6, None, 120 + i as u64);
    [4, vocab, 1].into_iter().enumerate().map(one).collect()
}

#[test]
fn slopes_match_the_gradient() {
    cases(9, (4, 2)).iter().for_each(slopes_match);
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for case in &cases(37, (9, 3)) {
        agrees(case);
        has_the_same_bits_at_any_number_of_threads(case);
    }
}

#[test]
fn every_way_of_asking_gives_one_distribution_that_adds_up() {
    for mut case in cases(37, (12, 1)) {
        case.state = oracle::State::zeros(&case.spec, 1);
        // The oracle has the probability of the word that comes alone.
        case.window.targets = case.window.inputs.clone();
        let (y, truth) = (distributions(&case), case.run(None).logits);
        for (row, &word) in case.window.targets.iter().enumerate() {
            let at = row * 37 + word as usize;
            assert!((truth[at] - f64::from(y[at]).ln()).abs() < 1e-5, "{row}: {} {}", truth[at], y[at]);
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    #[serde(rename = "torch")]
    _torch: String,
    vocab: usize,
    units: usize,
    classes: usize,
    steps: usize,
    batch: usize,
    weights: BTreeMap<String, Vec<f64>>,
    state: Vec<f64>,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    loss: f64,
    gradients: BTreeMap<String, Vec<f64>>,
}

#[test]
fn loss_and_gradients_are_pytorch_s() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/classes_fixture.json")).unwrap();
    let Fixture { vocab, units, classes, steps, batch, .. } = fixture;
    let spec = spec(vocab, units, classes);
    let mut case = Case::random(&spec, (steps, batch), 1.0, None, 1);
    case.params = flat(&spec, &fixture.weights);
    case.state.parts[0] = fixture.state;
    case.window = oracle::Window { steps, batch, inputs: fixture.inputs, targets: fixture.targets };
    is_pytorch_s(&case, fixture.loss, &fixture.gradients);
}
