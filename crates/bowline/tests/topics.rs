//! A network with features of topics: finite differences check the oracle, PyTorch checks it too, the oracle checks the fast path,
//! and the features of a text do not depend on how it is cut into windows.

mod fast;
mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Network, State, Use};
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use bowline::topics::TopicsSpec;
use fast::{agrees, distributions, flat, has_the_same_bits_at_any_number_of_threads, is_pytorch_s, params};
use oracle::case::{Case, Random};
use oracle::check::{assert_close, slopes_match};
use oracle::topics::features;
use serde::Deserialize;
use std::collections::BTreeMap;

const TOPICS: TopicsSpec = TopicsSpec { count: 3, window: 5 };

/// With a random table and words before the window, of which one stream has fewer than the features look back on.
fn cases(vocab: usize, shape: (usize, usize)) -> Vec<Case> {
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
        Case { topics: table, context: carried, ..case }
    };
    units.into_iter().enumerate().map(one).collect()
}

#[test]
fn slopes_match_the_gradient() {
    cases(7, (5, 2)).iter().for_each(slopes_match);
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for case in &cases(31, (9, 3)) {
        agrees(case);
        has_the_same_bits_at_any_number_of_threads(case);
    }
}

#[test]
fn distributions_add_up_and_do_not_depend_on_how_a_text_is_cut() {
    cases(31, (12, 1)).iter().for_each(|case| drop(distributions(case)));
}

/// Read at once or word by word, a text gives the same, to the bit, whatever comes after; and so does its state.
#[test]
fn features_do_not_depend_on_how_a_text_is_cut() {
    for case in cases(31, (12, 1)) {
        let (spec, weights) = (&case.spec, params(&case));
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
    let mut case = Case::random(&spec, (steps, batch), 1.0, None, 1);
    case.params = flat(&spec, &fixture.weights);
    case.window = oracle::Window { steps, batch, inputs: fixture.inputs, targets: fixture.targets };
    case.state = oracle::State { parts: vec![fixture.state] };
    case.features = features(&fixture.table, (TOPICS.count, TOPICS.window), &fixture.carried, &case.window);
    (case.topics, case.context) = (fixture.table, fixture.carried);
    assert_close("the oracle's state", &case.run(None).state.parts[0], &fixture.state_after, 1e-11);
    is_pytorch_s(&case, fixture.loss, &fixture.gradients);
}
