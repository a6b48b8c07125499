//! A network with a pointer to the last words: finite differences check the oracle, PyTorch checks it too, the oracle checks the
//! fast path; its distributions add up to 1, look only back, and do not depend on how a text is cut into windows.

mod fast;
mod oracle;

use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, PointerSpec, ProjectionSpec, Unit};
use fast::{agrees, distributions, flat, has_the_same_bits_at_any_number_of_threads, is_pytorch_s};
use oracle::case::{Case, Random};
use oracle::check::{assert_close, slopes_match};
use oracle::pointer::Carried;
use serde::Deserialize;
use std::collections::BTreeMap;

const WINDOW: usize = 4;

/// Cases with few words, so that many of them come again; one stream brings nothing along, one less than a window, one more.
fn cases(vocab: usize, shape: (usize, usize)) -> Vec<Case> {
    let projection = ProjectionSpec { width: 3, activation: Activation::Linear, bias: false };
    let units = [
        (Unit::Lstm { coupled: false }, None, true),
        (Unit::Rnn { activation: Activation::Tanh }, Some(projection), false),
    ];
    let one = |(i, (unit, projection, bias)): (usize, (Unit, Option<ProjectionSpec>, bool))| {
        let pointer = Some(PointerSpec { window: WINDOW });
        let spec = ModelSpec {
            vocab,
            input: InputSpec::words(4),
            layers: [6, 5].into_iter().map(|units| LayerSpec::new(unit, units)).collect(),
            output: OutputSpec { projection, bias, pointer, ..OutputSpec::default() },
        };
        let mut case = Case::random(&spec, shape, 0.7, Some(0.6), 40 + i as u64);
        case = if i == 1 { case.by_site(0.6, 3) } else { case };
        case.activity = [0.0; 2];
        let mut random = Random::new(50 + i as u64);
        let stream = |b: usize| {
            let mut state = || (0..spec.width()).map(|_| random.within(0.9)).collect();
            let states: Vec<Vec<f64>> = (0..2 * b).map(|_| state()).collect();
            Carried { words: (0..2 * b).map(|_| random.below(vocab as u64) as u32).collect(), states }
        };
        case.pointed = (0..shape.1).map(stream).collect();
        case
    };
    units.into_iter().enumerate().map(one).collect()
}

#[test]
fn slopes_match_the_gradient() {
    cases(5, (7, 3)).iter().for_each(slopes_match);
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    cases(5, (11, 3)).iter().for_each(agrees);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    cases(5, (40, 3)).iter().for_each(has_the_same_bits_at_any_number_of_threads);
}

#[test]
fn distributions_add_up_and_do_not_depend_on_how_a_text_is_cut() {
    cases(5, (12, 1)).iter().for_each(|case| drop(distributions(case)));
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    #[serde(rename = "torch")]
    _torch: String,
    vocab: usize,
    width: usize,
    units: usize,
    window: usize,
    steps: usize,
    batch: usize,
    weights: BTreeMap<String, Vec<f64>>,
    state: Vec<f64>,
    carried_words: Vec<Vec<u32>>,
    carried_states: Vec<Vec<Vec<f64>>>,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    loss: f64,
    mean_ce: f64,
    gradients: BTreeMap<String, Vec<f64>>,
}

/// `fixtures/make_pointer_fixture.py` says how the numbers were made.
#[test]
fn pytorch_computes_the_same() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/pointer_fixture.json")).unwrap();
    let Fixture { vocab, steps, batch, .. } = fixture;
    assert_eq!(fixture.window, WINDOW);
    let spec = ModelSpec {
        vocab,
        input: InputSpec::words(fixture.width),
        layers: vec![LayerSpec::new(Unit::Rnn { activation: Activation::Tanh }, fixture.units)],
        output: OutputSpec { bias: true, pointer: Some(PointerSpec { window: WINDOW }), ..OutputSpec::default() },
    };
    let words_and_states = fixture.carried_words.into_iter().zip(fixture.carried_states);
    let mut case = Case::random(&spec, (steps, batch), 0.5, None, 1);
    case.params = flat(&spec, &fixture.weights);
    case.window = oracle::Window { steps, batch, inputs: fixture.inputs, targets: fixture.targets };
    case.state = oracle::State { parts: vec![fixture.state] };
    case.pointed = words_and_states.map(|(words, states)| Carried { words, states }).collect();
    assert_close("the oracle's cross-entropy", &[case.run(None).mean_ce], &[fixture.mean_ce], 1e-11);
    is_pytorch_s(&case, fixture.loss, &fixture.gradients);
}
