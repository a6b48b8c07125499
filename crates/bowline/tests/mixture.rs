//! A network with a mixture of softmaxes: finite differences check the oracle, PyTorch checks it too, the oracle checks the fast
//! path; its distributions add up to 1, look only back, and are the same however a text is cut and whoever computes.

mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Masks, Network, Pass, Question, State, Use};
use bowline::params::Params;
use bowline::spec::{Activation, InputSpec, LayerSpec, MixtureSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use bowline_kernels::{Isa, Precision, Team};
use oracle::case::Case;
use oracle::check::{assert_close, narrow, slopes_match};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

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

fn params(spec: &ModelSpec, values: &[f64]) -> Params {
    let mut params = Params::zeros(spec);
    params.data_mut().copy_from_slice(&narrow(values));
    params
}

fn state(case: &Case) -> State {
    let mut state = State::zeros(&case.spec, case.window.batch);
    state.parts.iter_mut().zip(&case.state.parts).for_each(|(part, values)| part.values = narrow(values));
    state
}

/// The loss and the gradient of a case.
fn train(case: &Case, compute: Compute) -> (f64, Params) {
    let (spec, weights) = (&case.spec, params(&case.spec, &case.params));
    let (steps, batch) = (case.window.steps, case.window.batch);
    let mut network = Network::new(spec, compute, Use::Train, steps, batch);
    let mut gradient = weights.zeros_like();
    let window = Window { steps, batch, inputs: case.window.inputs.clone(), targets: case.window.targets.clone() };
    let all = |masks: &[Vec<f64>]| masks.iter().map(|m| narrow(m)).collect();
    let masks = case.masks.as_ref().map(|m| Masks {
        input: narrow(&m.input),
        states: all(&m.states),
        outputs: all(&m.outputs),
        projection: narrow(&m.projection),
        ..Masks::default()
    });
    let [ar, tar] = case.activity.map(|x| x as f32);
    let pass = Pass { masks: masks.as_ref(), activity: bowline::model::Activity { ar, tar }, ..Pass::default() };
    network.pack_masked(&weights, Use::Train, pass);
    // Whatever was there, and whatever the buffers hold after a window, must not matter.
    let mut loss = 0.0;
    for _ in 0..2 {
        gradient.data_mut().fill(f32::NAN);
        loss = network.train(&weights, &window, &mut state(case), pass, &mut gradient).ce;
    }
    (loss, gradient)
}

#[test]
fn slopes_match_the_gradient() {
    cases((5, 2)).iter().for_each(slopes_match);
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for isa in Isa::available() {
        for case in cases(SHAPE) {
            let truth = case.run(None);
            for precision in Precision::all_available(isa) {
                let [of_loss, of_gradient] = if precision == Precision::F32 { [1e-6, 2e-5] } else { [2e-2, 5e-2] };
                let (loss, gradient) = train(&case, Compute::new(Arc::new(Team::new(2)), isa).at(precision));
                assert!((loss / 33.0 - truth.mean_ce).abs() <= of_loss * truth.mean_ce, "{isa:?}: {loss}");
                for tensor in case.spec.layout().tensors() {
                    let found: Vec<f64> = gradient.get(tensor).iter().map(|&g| f64::from(g)).collect();
                    let (what, expected) = (format!("{isa:?}, {}", tensor.name), &truth.gradient[tensor.range()]);
                    assert_close(&what, &found, expected, of_gradient);
                }
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for case in cases((40, 3)) {
        let (loss, gradient) = train(&case, Compute::with_threads(1));
        for threads in [2, 3] {
            let (other, others) = train(&case, Compute::with_threads(threads));
            assert!(other == loss && others.data() == gradient.data(), "{threads} threads");
        }
    }
}

/// Read at once or word by word, a text gives the same, to the bit, whatever comes after. Every way of asking gives the same
/// distribution, which adds up to 1 and is the oracle's.
#[test]
fn distributions_add_up_and_do_not_depend_on_how_a_text_is_cut() {
    for mut case in cases((12, 1)) {
        case.masks = None;
        case.state = oracle::State::zeros(&case.spec, 1);
        let (spec, weights) = (&case.spec, params(&case.spec, &case.params));
        let mut network = Network::new(spec, Compute::with_threads(2), Use::Evaluate, 12, 1);
        network.pack(&weights, Use::Evaluate);
        let words = &case.window.inputs;
        let window =
            |part: &[u32]| Window { steps: part.len(), batch: 1, inputs: part.to_vec(), targets: part.to_vec() };
        let mut read = |parts: &[&[u32]]| {
            let (mut state, mut all) = (State::zeros(spec, 1), Vec::new());
            for part in parts {
                let mut out = vec![0.0; part.len() * spec.vocab];
                network.probabilities(&weights, &window(part), &mut state, &mut out);
                all.extend(out);
            }
            let mut after = vec![0.0; spec.vocab];
            let outlook = network.outlook_of(&weights, &state);
            network.distributions(&weights, &outlook, 1.0, &mut after);
            (all, state, after)
        };
        let (whole, state, after) = read(&[words]);
        let single: Vec<&[u32]> = words.chunks(1).collect();
        for (all, other, _) in [read(&single), read(&[&words[..5], &words[5..]])] {
            assert_eq!((all, other), (whole.clone(), state.clone()));
        }
        assert_eq!(read(&[&words[..7]]).0, whole[..7 * spec.vocab]);
        for y in whole.chunks_exact(spec.vocab) {
            let sum: f64 = y.iter().map(|&y| f64::from(y)).sum();
            assert!((sum - 1.0).abs() < 1e-6 && y.iter().all(|&y| y > 0.0), "{y:?}");
        }
        let found: Vec<f64> = whole.iter().map(|&y| f64::from(y).ln()).collect();
        assert_close("log P", &found, &case.run(None).logits, 2e-6);
        let last = &whole[11 * spec.vocab..];
        assert!(after.iter().zip(last).all(|(a, b)| (a - b).abs() < 1e-6), "{after:?} {last:?}");

        let (mut begin, mut nll) = (State::zeros(spec, 1), vec![0.0; 24]);
        network.read(&weights, &window(words), &mut begin, None);
        network.classify(&weights, (12, 1), words, &[1.0, 2.0], &mut nll);
        let mut tempered = vec![0.0; 12 * spec.vocab];
        network.distributions(&weights, network.outlook(12, 1), 2.0, &mut tempered);
        let mut questions: Vec<Question> =
            (0..12).map(|row| Question { row, target: words[row], top: 2, ..Question::default() }).collect();
        begin.reset();
        network.answer(&weights, &window(words), &mut begin, &mut questions);
        for (row, (question, nll)) in questions.iter().zip(nll.chunks(2)).enumerate() {
            let log = |all: &[f32]| f64::from(all[row * spec.vocab + words[row] as usize]).ln();
            assert!((nll[0] + log(&whole)).abs() < 1e-5 && (nll[1] + log(&tempered)).abs() < 1e-5, "{row}: {nll:?}");
            assert!((question.logprob - log(&whole)).abs() < 1e-5, "{row}: {question:?}");
            let best = whole[row * spec.vocab..][..spec.vocab].iter().copied().fold(0.0, f32::max);
            assert!((question.likeliest[0].1 - f64::from(best).ln()).abs() < 1e-5);
        }
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
    let flat = |named: &BTreeMap<String, Vec<f64>>| -> Vec<f64> {
        spec.layout().tensors().iter().flat_map(|tensor| named[&tensor.name].clone()).collect()
    };
    let (inputs, targets) = (fixture.inputs.clone(), fixture.targets.clone());
    let mut case = Case::random(&spec, (steps, batch), 0.5, None, 1);
    case.params = flat(&fixture.weights);
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
    let output = case.run(None);
    assert_close("the oracle's loss", &[output.loss], &[fixture.loss], 1e-11);
    assert_close("the oracle's log P", &output.logits, &fixture.log_probabilities, 1e-11);
    assert_close("the oracle's gradient", &output.gradient, &flat(&fixture.gradients), 1e-11);
    for isa in Isa::available() {
        let (loss, gradient) = train(&case, Compute::new(Arc::new(Team::new(2)), isa));
        assert_close("the loss", &[loss / batch as f64], &[fixture.loss], 1e-6);
        let found: Vec<f64> = gradient.data().iter().map(|&g| f64::from(g)).collect();
        assert_close("the gradient", &found, &flat(&fixture.gradients), 1e-5);
    }
}
