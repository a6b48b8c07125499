//! A network with a mixture of softmaxes: finite differences check the oracle, PyTorch checks it too, the oracle checks the fast
//! path; its distributions add up to 1, look only back, and are the same however a text is cut and whoever computes.

mod fast;
mod oracle;

use bowline::spec::{Activation, InputSpec, LayerSpec, MixtureSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use bowline_kernels::Isa;
use fast::{agrees, agrees_at, distributions, flat, has_the_same_bits_at_any_number_of_threads, is_pytorch_s, rounded};
use oracle::case::Case;
use oracle::check::{assert_close, slopes_match};
use serde::Deserialize;
use std::collections::BTreeMap;

const SHAPE: (usize, usize) = (11, 3);

fn spec(vocab: usize, softmaxes: usize, tied: bool) -> ModelSpec {
    let unit = if tied { Unit::Lstm { coupled: false } } else { Unit::Rnn { activation: Activation::Tanh } };
    let projection = Some(ProjectionSpec { width: 4, activation: Activation::Tanh, bias: tied });
    let mixture = Some(MixtureSpec { softmaxes });
    ModelSpec {
        vocab,
        input: InputSpec::words(4),
        layers: [6, 5].into_iter().map(|units| LayerSpec::new(unit, units)).collect(),
        output: OutputSpec { projection, tied, bias: tied, mixture, ..OutputSpec::default() },
    }
}

/// Tied with a bias and untied without, with masks that are held and others at every step, with few softmaxes and with so many
/// that the words of a window are worked on in several portions.
fn cases(shape: (usize, usize)) -> Vec<Case> {
    let few = Case::random(&spec(7, 3, true), shape, 0.9, None, 60);
    let masked = Case::random(&spec(7, 2, false), shape, 0.9, None, 61).by_site(0.6, 62);
    let many = Case::random(&spec(5, 50, true), shape, 0.9, None, 63).by_site(0.7, 64);
    vec![few, masked, many]
}

#[test]
fn slopes_match_the_gradient() {
    cases((5, 2)).iter().for_each(slopes_match);
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for case in cases(SHAPE) {
        agrees(&case);
        let rounded = Isa::available().into_iter().flat_map(rounded);
        rounded.for_each(|compute| agrees_at(&case, compute, [2e-2, 5e-2]));
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    cases((40, 3)).iter().for_each(has_the_same_bits_at_any_number_of_threads);
}

#[test]
fn distributions_add_up_and_are_the_oracle_s() {
    for mut case in cases((12, 1)) {
        (case.masks, case.state) = (None, oracle::State::zeros(&case.spec, 1));
        let found: Vec<f64> = distributions(&case).iter().map(|&y| f64::from(y).ln()).collect();
        assert_close("log P", &found, &case.run(None).logits, 2e-6);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    #[serde(rename = "torch")]
    _torch: String,
    vocab: usize,
    width: usize,
    units: usize,
    softmaxes: usize,
    steps: usize,
    batch: usize,
    weights: BTreeMap<String, Vec<f64>>,
    state: Vec<f64>,
    mask: Vec<f64>,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    loss: f64,
    log_probabilities: Vec<f64>,
    gradients: BTreeMap<String, Vec<f64>>,
}

/// `fixtures/make_mixture_fixture.py` says how the numbers were made.
#[test]
fn pytorch_computes_the_same() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/mixture_fixture.json")).unwrap();
    let Fixture { vocab, steps, batch, .. } = fixture;
    let projection = Some(ProjectionSpec { width: fixture.width, activation: Activation::Tanh, bias: true });
    let mixture = Some(MixtureSpec { softmaxes: fixture.softmaxes });
    let spec = ModelSpec {
        vocab,
        input: InputSpec::words(fixture.width),
        layers: vec![LayerSpec::new(Unit::Rnn { activation: Activation::Tanh }, fixture.units)],
        output: OutputSpec { projection, tied: true, bias: true, mixture, ..OutputSpec::default() },
    };
    let (inputs, targets) = (fixture.inputs.clone(), fixture.targets.clone());
    let mut case = Case::random(&spec, (steps, batch), 0.5, None, 1);
    case.params = flat(&spec, &fixture.weights);
    case.window = oracle::Window { steps, batch, inputs, targets };
    case.state = oracle::State { parts: vec![fixture.state.clone()] };
    // All masks but that of the projection are of ones, and that one is held.
    let ones = |width: usize| vec![1.0; steps * batch * width];
    case.masks = Some(oracle::Masks {
        input: ones(fixture.width),
        states: vec![ones(fixture.units)],
        outputs: vec![ones(fixture.units)],
        projection: fixture.mask.repeat(steps),
        gate_inputs: Vec::new(),
        gate_states: Vec::new(),
    });
    assert_close("the oracle's log P", &case.run(None).logits, &fixture.log_probabilities, 1e-11);
    is_pytorch_s(&case, fixture.loss, &fixture.gradients);
}
