//! A network with features of topics: finite differences check the oracle, PyTorch checks it too, the oracle checks the fast path,
//! and the features of a text do not depend on how it is cut into windows.

mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Network, Pass, State, Use};
use bowline::params::Params;
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use bowline::topics::{Topics, TopicsSpec};
use bowline_kernels::{Isa, Team};
use oracle::case::{Case, Random};
use oracle::check::{assert_close, narrow, slopes_match};
use oracle::topics::features;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

const TOPICS: TopicsSpec = TopicsSpec { count: 3, window: 5 };

/// A case with a random table and words before the window, of which one stream has fewer than the features look back on.
struct WithTopics {
    case: Case,
    table: Vec<f64>,
    carried: Vec<Vec<u32>>,
}

fn cases(vocab: usize, shape: (usize, usize)) -> Vec<WithTopics> {
    let projection = ProjectionSpec { width: 4, activation: Activation::Tanh, bias: true };
    let units =
        [(Unit::Rnn { activation: Activation::Sigmoid }, None), (Unit::Lstm { coupled: false }, Some(projection))];
    let one = |(i, (unit, projection)): (usize, (Unit, Option<ProjectionSpec>))| {
        let spec = ModelSpec {
            vocab,
            input: InputSpec { width: 4, topics: Some(TOPICS), ..InputSpec::default() },
            layers: [6, 5].into_iter().map(|units| LayerSpec::new(unit, units)).collect(),
            output: OutputSpec { projection, tied: false, bias: i == 1, ..OutputSpec::default() },
        };
        let mut random = Random::new(20 + i as u64);
        let table: Vec<f64> = (0..vocab * TOPICS.count).map(|_| random.within(1.0)).collect();
        let carried: Vec<Vec<u32>> =
            (0..shape.1).map(|b| (0..2 + 3 * b).map(|_| random.below(vocab as u64) as u32).collect()).collect();
        let mut case = Case::random(&spec, shape, 0.5, None, 30 + i as u64);
        case = if i == 1 { case.by_site(0.6, 9) } else { case };
        case.activity = [0.0; 2];
        case.features = features(&table, (TOPICS.count, TOPICS.window), &carried, &case.window);
        WithTopics { case, table, carried }
    };
    units.into_iter().enumerate().map(one).collect()
}

fn params(spec: &ModelSpec, values: &[f64], table: &[f64]) -> Params {
    let mut params = Params::zeros(spec);
    params.data_mut().copy_from_slice(&narrow(values));
    let mut topics = Topics::none(TOPICS, spec.vocab);
    topics.table_mut().copy_from_slice(&narrow(table));
    params.set_topics(topics);
    params
}

/// The state that the fast path carries: the last words first.
fn state(spec: &ModelSpec, batch: usize, parts: &[Vec<f64>], carried: &[Vec<u32>]) -> State {
    let mut state = State::zeros(spec, batch);
    for (row, words) in state.parts[0].values.chunks_exact_mut(TOPICS.window).zip(carried) {
        let last = words.iter().rev().take(TOPICS.window);
        row.iter_mut().rev().zip(last).for_each(|(to, &word)| *to = (word + 1) as f32);
    }
    state.parts[1..].iter_mut().zip(parts).for_each(|(part, values)| part.values = narrow(values));
    state
}

#[test]
fn slopes_match_the_gradient() {
    cases(7, (5, 2)).iter().for_each(|with| slopes_match(&with.case));
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for (isa, WithTopics { case, table, carried }) in
        Isa::available().into_iter().flat_map(|isa| cases(31, (9, 3)).into_iter().map(move |case| (isa, case)))
    {
        let (spec, truth) = (&case.spec, case.run(None));
        let mut network = Network::new(spec, Compute::new(Arc::new(Team::new(2)), isa), Use::Train, 9, 3);
        let weights = params(spec, &case.params, &table);
        let mut gradient = weights.zeros_like();
        gradient.data_mut().fill(f32::NAN);
        let (inputs, targets) = (case.window.inputs.clone(), case.window.targets.clone());
        let window = Window { steps: 9, batch: 3, inputs, targets };
        let all = |masks: &[Vec<f64>]| masks.iter().map(|m| narrow(m)).collect();
        let masks = case.masks.as_ref().map(|m| bowline::model::Masks {
            input: narrow(&m.input),
            states: all(&m.states),
            outputs: all(&m.outputs),
            projection: narrow(&m.projection),
            ..Default::default()
        });
        let pass = Pass { masks: masks.as_ref(), ..Pass::default() };
        let mut carried = state(spec, 3, &case.state.parts, &carried);
        network.pack_masked(&weights, Use::Train, pass);
        let loss = network.train(&weights, &window, &mut carried, pass, &mut gradient);
        assert!((loss.ce / 27.0 - truth.mean_ce).abs() <= 1e-6 * truth.mean_ce, "{isa:?}: {loss:?}");
        for tensor in spec.layout().tensors() {
            let found: Vec<f64> = gradient.get(tensor).iter().map(|&g| f64::from(g)).collect();
            assert_close(&format!("{isa:?}, {}", tensor.name), &found, &truth.gradient[tensor.range()], 2e-5);
        }
        // The last five words of each stream are carried on.
        let last: Vec<f32> = (4..9).flat_map(|t| [window.inputs[t * 3]]).map(|word| (word + 1) as f32).collect();
        assert_eq!(carried.parts[0].values[..5], last);
    }
}

/// Read at once or word by word, a text gives the same, to the bit, whatever comes after; and so does its state.
#[test]
fn features_do_not_depend_on_how_a_text_is_cut() {
    for WithTopics { case, table, .. } in cases(31, (12, 1)) {
        let (spec, weights) = (&case.spec, params(&case.spec, &case.params, &table));
        let mut network = Network::new(spec, Compute::with_threads(2), Use::Evaluate, 12, 1);
        network.pack(&weights, Use::Evaluate);
        let mut read = |parts: &[&[u32]]| {
            let (mut state, mut all) = (State::zeros(spec, 1), Vec::new());
            for part in parts {
                let window = Window { steps: part.len(), batch: 1, inputs: part.to_vec(), targets: part.to_vec() };
                network.read(&weights, &window, &mut state, None);
                all.extend_from_slice(network.hidden(part.len(), 1));
            }
            let last = network.outlook_of(&weights, &state);
            let seen = &all[all.len() - last.len()..];
            assert_eq!(seen[spec.projected()..], last[spec.projected()..]);
            // A projection of one vector has its sums in another order.
            assert!(seen.iter().zip(&last).all(|(a, b)| (a - b).abs() < 1e-6));
            all
        };
        let words = &case.window.inputs;
        let (whole, ones) = (read(&[words]), words.chunks(1).collect::<Vec<_>>());
        assert_eq!(read(&ones), whole);
        assert_eq!(read(&[&words[..5], &words[5..]]), whole);
        let mut other = words.clone();
        other[8..].iter_mut().for_each(|word| *word = (*word + 1) % 31);
        assert_eq!(read(&[&other])[..8 * spec.width()], whole[..8 * spec.width()]);
        // The features themselves are a distribution, beside what the last layer gives.
        for seen in whole.chunks(spec.width()) {
            let sum: f32 = seen[spec.projected()..].iter().sum();
            assert!((sum - 1.0).abs() < 1e-6);
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
    topics: usize,
    window: usize,
    steps: usize,
    batch: usize,
    weights: BTreeMap<String, Vec<f64>>,
    table: Vec<f64>,
    state: Vec<f64>,
    carried: Vec<Vec<u32>>,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    loss: f64,
    gradients: BTreeMap<String, Vec<f64>>,
    state_after: Vec<f64>,
}

#[test]
fn loss_and_gradients_are_pytorch_s() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/topics_fixture.json")).unwrap();
    let Fixture { vocab, steps, batch, .. } = fixture;
    assert_eq!((fixture.topics, fixture.window), (TOPICS.count, TOPICS.window));
    let spec = ModelSpec {
        vocab,
        input: InputSpec { width: fixture.width, topics: Some(TOPICS), ..InputSpec::default() },
        layers: vec![LayerSpec::new(Unit::Rnn { activation: Activation::Sigmoid }, fixture.units)],
        output: OutputSpec::default(),
    };
    let flat = |named: &BTreeMap<String, Vec<f64>>| -> Vec<f64> {
        spec.layout().tensors().iter().flat_map(|tensor| named[&tensor.name].clone()).collect()
    };
    let (inputs, targets) = (fixture.inputs.clone(), fixture.targets.clone());
    let window = oracle::Window { steps, batch, inputs: inputs.clone(), targets: targets.clone() };
    let of = features(&fixture.table, (TOPICS.count, TOPICS.window), &fixture.carried, &window);
    let before = oracle::State { parts: vec![fixture.state.clone()] };
    let pass = oracle::Pass {
        spec: &spec,
        window: &window,
        state: &before,
        masks: None,
        augment: None,
        activity: [0.0; 2],
        features: &of,
        pointed: &[],
        corrections: &[],
        spelling: &[],
        context: &[],
    };
    let output = pass.run(&flat(&fixture.weights));
    assert_close("the oracle's loss", &[output.loss], &[fixture.loss], 1e-11);
    assert_close("the oracle's gradient", &output.gradient, &flat(&fixture.gradients), 1e-11);
    assert_close("the oracle's state", &output.state.parts[0], &fixture.state_after, 1e-11);

    for isa in Isa::available() {
        let mut network = Network::new(&spec, Compute::new(Arc::new(Team::new(2)), isa), Use::Train, steps, batch);
        let weights = params(&spec, &flat(&fixture.weights), &fixture.table);
        let mut gradient = weights.zeros_like();
        let mut carried = state(&spec, batch, &before.parts, &fixture.carried);
        let window = Window { steps, batch, inputs: inputs.clone(), targets: targets.clone() };
        network.pack(&weights, Use::Train);
        let loss = network.train(&weights, &window, &mut carried, Pass::default(), &mut gradient);
        assert_close("the loss", &[loss.ce / batch as f64], &[fixture.loss], 1e-6);
        let found: Vec<f64> = gradient.data().iter().map(|&g| f64::from(g)).collect();
        assert_close("the gradient", &found, &flat(&fixture.gradients), 1e-5);
    }
}
