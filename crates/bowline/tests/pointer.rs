//! A network with a pointer to the last words: finite differences check the oracle, PyTorch checks it too, the oracle checks the
//! fast path; its distributions add up to 1, look only back, and do not depend on how a text is cut into windows.

mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Network, Pass, Question, State, Use};
use bowline::params::Params;
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, PointerSpec, ProjectionSpec, Unit};
use bowline_kernels::{Isa, Team};
use oracle::case::{Case, Random};
use oracle::check::{assert_close, narrow, slopes_match};
use oracle::pointer::Carried;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

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

fn params(spec: &ModelSpec, values: &[f64]) -> Params {
    let mut params = Params::zeros(spec);
    params.data_mut().copy_from_slice(&narrow(values));
    params
}

/// The state that the fast path carries: the last words and their states first.
fn state(spec: &ModelSpec, batch: usize, parts: &[Vec<f64>], carried: &[Carried]) -> State {
    let mut state = State::zeros(spec, batch);
    let d = spec.width();
    for (b, carried) in carried.iter().enumerate() {
        for (back, (word, h)) in carried.words.iter().zip(&carried.states).rev().take(WINDOW).enumerate() {
            let place = (b + 1) * WINDOW - 1 - back;
            state.parts[0].values[place] = (word + 1) as f32;
            state.parts[1].values[place * d..][..d].copy_from_slice(&narrow(h));
        }
    }
    state.parts[2..].iter_mut().zip(parts).for_each(|(part, values)| part.values = narrow(values));
    state
}

#[test]
fn slopes_match_the_gradient() {
    cases(5, (7, 3)).iter().for_each(slopes_match);
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for (isa, case) in
        Isa::available().into_iter().flat_map(|isa| cases(5, (11, 3)).into_iter().map(move |case| (isa, case)))
    {
        let (spec, truth) = (&case.spec, case.run(None));
        for threads in [1, 2] {
            let compute = Compute::new(Arc::new(Team::new(threads)), isa);
            let mut network = Network::new(spec, compute, Use::Train, 11, 3);
            let weights = params(spec, &case.params);
            let mut gradient = weights.zeros_like();
            gradient.data_mut().fill(f32::NAN);
            let (inputs, targets) = (case.window.inputs.clone(), case.window.targets.clone());
            let window = Window { steps: 11, batch: 3, inputs, targets };
            let all = |masks: &[Vec<f64>]| masks.iter().map(|m| narrow(m)).collect();
            let held = case.masks.as_ref().is_some_and(|m| m.states == m.outputs);
            let first = |mask: &[f64]| narrow(&mask[..if held { mask.len() / 11 } else { mask.len() }]);
            let masks = case.masks.as_ref().map(|m| bowline::model::Masks {
                input: first(&m.input),
                states: m.states.iter().map(|m| first(m)).collect(),
                outputs: if held { Vec::new() } else { all(&m.outputs) },
                projection: narrow(&m.projection),
                ..Default::default()
            });
            let pass = Pass { masks: masks.as_ref(), ..Pass::default() };
            let mut carried = state(spec, 3, &case.state.parts, &case.pointed);
            network.pack_masked(&weights, Use::Train, pass);
            let loss = network.train(&weights, &window, &mut carried, pass, &mut gradient);
            assert!((loss.ce / 33.0 - truth.mean_ce).abs() <= 1e-6 * truth.mean_ce, "{isa:?}: {loss:?}");
            for tensor in spec.layout().tensors() {
                let found: Vec<f64> = gradient.get(tensor).iter().map(|&g| f64::from(g)).collect();
                assert_close(&format!("{isa:?}, {}", tensor.name), &found, &truth.gradient[tensor.range()], 2e-5);
            }
            // The last words of each stream are carried on.
            let last: Vec<f32> = (7..11).map(|t| (window.inputs[t * 3] + 1) as f32).collect();
            assert_eq!(carried.parts[0].values[..WINDOW], last);
        }
    }
}

/// Read at once or word by word, a text gives the same, to the bit, whatever comes after. Every way of asking gives the same
/// distribution, which adds up to 1.
#[test]
fn distributions_add_up_and_do_not_depend_on_how_a_text_is_cut() {
    for case in cases(5, (12, 1)) {
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
        let cut = [read(&single), read(&[&words[..5], &words[5..]])];
        for (all, other, _) in &cut {
            assert_eq!(all, &whole);
            assert_eq!(other, &state);
        }
        assert_eq!(read(&[&words[..7]]).0, whole[..7 * spec.vocab]);
        for y in whole.chunks_exact(spec.vocab) {
            let sum: f64 = y.iter().map(|&y| f64::from(y)).sum();
            assert!((sum - 1.0).abs() < 1e-6 && y.iter().all(|&y| y > 0.0), "{y:?}");
        }
        let last = &whole[11 * spec.vocab..];
        assert!(after.iter().zip(last).all(|(a, b)| (a - b).abs() < 1e-6), "{after:?} {last:?}");

        let (mut begin, mut nll) = (State::zeros(spec, 1), vec![0.0; 12]);
        network.evaluate(&weights, &window(words), &mut begin, &mut nll);
        let mut questions: Vec<Question> =
            (0..12).map(|row| Question { row, target: words[row], top: 2, ..Question::default() }).collect();
        begin.reset();
        network.answer(&weights, &window(words), &mut begin, &mut questions);
        for (row, (question, nll)) in questions.iter().zip(nll).enumerate() {
            let y = &whole[row * spec.vocab..][..spec.vocab];
            let expected = f64::from(y[words[row] as usize]).ln();
            assert!((question.logprob - expected).abs() < 1e-5 && (nll + expected).abs() < 1e-5, "{row}: {nll}");
            let best = y.iter().copied().fold(0.0, f32::max);
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
    let flat = |named: &BTreeMap<String, Vec<f64>>| -> Vec<f64> {
        spec.layout().tensors().iter().flat_map(|tensor| named[&tensor.name].clone()).collect()
    };
    let (inputs, targets) = (fixture.inputs.clone(), fixture.targets.clone());
    let window = oracle::Window { steps, batch, inputs: inputs.clone(), targets: targets.clone() };
    let words_and_states = fixture.carried_words.iter().zip(&fixture.carried_states);
    let carried: Vec<Carried> =
        words_and_states.map(|(words, states)| Carried { words: words.clone(), states: states.clone() }).collect();
    let before = oracle::State { parts: vec![fixture.state.clone()] };
    let pass = oracle::Pass {
        spec: &spec,
        window: &window,
        state: &before,
        masks: None,
        augment: None,
        activity: [0.0; 2],
        features: &[],
        pointed: &carried,
        corrections: &[],
        spelling: &[],
        context: &[],
    };
    let output = pass.run(&flat(&fixture.weights));
    assert_close("the oracle's loss", &[output.loss, output.mean_ce], &[fixture.loss, fixture.mean_ce], 1e-11);
    assert_close("the oracle's gradient", &output.gradient, &flat(&fixture.gradients), 1e-11);

    for isa in Isa::available() {
        let mut network = Network::new(&spec, Compute::new(Arc::new(Team::new(2)), isa), Use::Train, steps, batch);
        let weights = params(&spec, &flat(&fixture.weights));
        let mut gradient = weights.zeros_like();
        let mut state = state(&spec, batch, &before.parts, &carried);
        let window = Window { steps, batch, inputs: inputs.clone(), targets: targets.clone() };
        network.pack(&weights, Use::Train);
        let loss = network.train(&weights, &window, &mut state, Pass::default(), &mut gradient);
        assert_close("the loss", &[loss.ce / (steps * batch) as f64], &[fixture.mean_ce], 1e-6);
        let found: Vec<f64> = gradient.data().iter().map(|&g| f64::from(g)).collect();
        assert_close("the gradient", &found, &flat(&fixture.gradients), 1e-5);
    }
}
