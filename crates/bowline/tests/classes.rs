//! A classifier in two steps, class and word: finite differences check the oracle, PyTorch checks it too, the oracle checks the fast
//! path, at any number of threads to the bit; every way of asking gives the same distribution, which adds up to 1.

mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Network, Pass, Question, State, Use};
use bowline::params::Params;
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, Unit};
use bowline_kernels::{Isa, Team};
use oracle::case::Case;
use oracle::check::{assert_close, narrow, slopes_match};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

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

fn params(spec: &ModelSpec, values: &[f64]) -> Params {
    let mut params = Params::zeros(spec);
    params.data_mut().copy_from_slice(&narrow(values));
    params
}

#[test]
fn slopes_match_the_gradient() {
    cases(9, (4, 2)).iter().for_each(slopes_match);
}

/// One window of a case, with one of the machine's instruction sets and so many threads.
fn trained(case: &Case, isa: Isa, threads: usize) -> (f64, Params) {
    let (spec, (steps, batch)) = (&case.spec, (case.window.steps, case.window.batch));
    let mut network = Network::new(spec, Compute::new(Arc::new(Team::new(threads)), isa), Use::Train, steps, batch);
    let weights = params(spec, &case.params);
    let mut gradient = weights.zeros_like();
    gradient.data_mut().fill(f32::NAN);
    let (inputs, targets) = (case.window.inputs.clone(), case.window.targets.clone());
    let window = Window { steps, batch, inputs, targets };
    network.pack(&weights, Use::Train);
    // Another window before it leaves nothing behind.
    let other = Window { targets: window.inputs.clone(), ..window.clone() };
    network.train(&weights, &other, &mut State::zeros(spec, batch), Pass::default(), &mut gradient);
    let mut state = State::zeros(spec, batch);
    state.parts.iter_mut().zip(&case.state.parts).for_each(|(part, values)| part.values = narrow(values));
    let loss = network.train(&weights, &window, &mut state, Pass::default(), &mut gradient);
    (loss.ce, gradient)
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for case in cases(37, (9, 3)) {
        let truth = case.run(None);
        for isa in Isa::available() {
            let (ce, gradient) = trained(&case, isa, 2);
            assert!((ce / 27.0 - truth.mean_ce).abs() <= 1e-6 * truth.mean_ce, "{isa:?}: {ce}");
            for tensor in case.spec.layout().tensors() {
                let found: Vec<f64> = gradient.get(tensor).iter().map(|&g| f64::from(g)).collect();
                assert_close(&format!("{isa:?}, {}", tensor.name), &found, &truth.gradient[tensor.range()], 2e-5);
            }
            for threads in [1, 3] {
                assert_eq!(trained(&case, isa, threads).1.data(), gradient.data(), "{isa:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn every_way_of_asking_gives_one_distribution_that_adds_up() {
    for case in cases(37, (12, 1)) {
        let (spec, weights, words) = (&case.spec, params(&case.spec, &case.params), &case.window.inputs);
        let mut network = Network::new(spec, Compute::with_threads(2), Use::Evaluate, 12, 1);
        network.pack(&weights, Use::Evaluate);
        let window = Window { steps: 12, batch: 1, inputs: words.clone(), targets: words.clone() };
        let (mut state, mut y) = (State::zeros(spec, 1), vec![0.0; 12 * spec.vocab]);
        network.probabilities(&weights, &window, &mut state, &mut y);
        for y in y.chunks_exact(spec.vocab) {
            let sum: f64 = y.iter().map(|&y| f64::from(y)).sum();
            assert!((sum - 1.0).abs() < 1e-6 && y.iter().all(|&y| y > 0.0), "{y:?}");
        }
        let mut nll = vec![0.0; 12];
        state.reset();
        network.evaluate(&weights, &window, &mut state, &mut nll);
        let question = |row: usize| Question { row, target: words[row], ..Question::default() };
        let mut questions: Vec<Question> = (0..12).map(question).collect();
        state.reset();
        network.answer(&weights, &window, &mut state, &mut questions);
        let truth = Case { state: oracle::State::zeros(spec, 1), ..case.clone() };
        let truth = Case { window: oracle::Window { targets: words.clone(), ..truth.window.clone() }, ..truth };
        let truth = truth.run(None).logits;
        for (row, (question, nll)) in questions.iter().zip(nll).enumerate() {
            let at = row * spec.vocab + words[row] as usize;
            let expected = f64::from(y[at]).ln();
            assert!((question.logprob - expected).abs() < 1e-5 && (nll + expected).abs() < 1e-5, "{row}: {nll}");
            assert!((truth[at] - expected).abs() < 1e-5, "{row}: {} {expected}", truth[at]);
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
    let flat = |named: &BTreeMap<String, Vec<f64>>| -> Vec<f64> {
        assert_eq!(named.len(), spec.layout().tensors().len());
        spec.layout().tensors().iter().flat_map(|tensor| named[&tensor.name].clone()).collect()
    };
    let mut case = Case::random(&spec, (steps, batch), 1.0, None, 1);
    case.params = flat(&fixture.weights);
    case.state.parts[0] = fixture.state;
    case.window = oracle::Window { steps, batch, inputs: fixture.inputs, targets: fixture.targets };
    let output = case.run(None);
    assert_close("the oracle's loss", &[output.loss], &[fixture.loss], 1e-11);
    assert_close("the oracle's gradient", &output.gradient, &flat(&fixture.gradients), 1e-11);
    for isa in Isa::available() {
        let (ce, gradient) = trained(&case, isa, 2);
        assert_close("the loss", &[ce / batch as f64], &[fixture.loss], 1e-6);
        let found: Vec<f64> = gradient.data().iter().map(|&g| f64::from(g)).collect();
        assert_close("the gradient", &found, &flat(&fixture.gradients), 1e-5);
    }
}
