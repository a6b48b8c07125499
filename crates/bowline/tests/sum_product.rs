//! A sum-product network over the last words: finite differences check the oracle, PyTorch checks it too, the oracle checks the
//! fast path, at any number of threads to the bit; distributions add up to 1, look only back, and do not depend on how a text is cut.

mod fast;
mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Network, Pass, State, Use};
use bowline::params::Params;
use bowline::spec::{InputSpec, LayerSpec, ModelSpec, OutputSpec, Unit};
use fast::{agrees, distributions, flat, has_the_same_bits_at_any_number_of_threads, is_pytorch_s};
use oracle::case::{Case, Random};
use oracle::check::slopes_match;
use serde::Deserialize;
use std::collections::BTreeMap;

const CONTEXT: usize = 4;

fn spec(vocab: usize, width: usize, powers: usize) -> ModelSpec {
    ModelSpec {
        vocab,
        input: InputSpec { width, context: Some(CONTEXT), ..InputSpec::default() },
        layers: Vec::new(),
        output: OutputSpec { sum_product: Some(powers), ..OutputSpec::default() },
    }
}

/// One without layers, and one with a layer above the words and a softmax. The first stream brings no words along, the second fewer
/// than are read, the third more.
fn cases(vocab: usize, shape: (usize, usize)) -> Vec<Case> {
    let layers = vec![LayerSpec::new(Unit::Lstm { coupled: false }, 5)];
    let plain = spec(vocab, 3, 6);
    let softmax = ModelSpec { layers, output: OutputSpec::default(), ..plain.clone() };
    let one = |(i, spec): (usize, ModelSpec)| {
        let mut case = Case::random(&spec, shape, 0.4, None, 80 + i as u64);
        if spec.output.sum_product.is_some() {
            // All weights are at least 0, and here no sum is near it.
            case.params.iter_mut().for_each(|x| *x = f64::from((0.02 + x.abs()) as f32));
        }
        let mut random = Random::new(90 + i as u64);
        case.context = (0..shape.1).map(|b| (0..3 * b).map(|_| random.below(vocab as u64) as u32).collect()).collect();
        case
    };
    [plain, softmax].into_iter().enumerate().map(one).collect()
}

#[test]
fn slopes_match_the_gradient() {
    cases(7, (5, 3)).iter().for_each(slopes_match);
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for case in &cases(37, (9, 3)) {
        agrees(case);
        has_the_same_bits_at_any_number_of_threads(case);
    }
}

/// A word further back than the context changes nothing, where there is no layer above it.
#[test]
fn distributions_add_up_and_see_the_last_words_alone() {
    for case in cases(37, (12, 1)) {
        let whole = distributions(&case);
        if case.spec.layers.is_empty() {
            let mut other = case.clone();
            other.window.inputs[3] = (other.window.inputs[3] + 1) % 37;
            let other = distributions(&other);
            let same = |t: usize| other[t * 37..][..37] == whole[t * 37..][..37];
            assert_eq!((2..9).map(same).collect::<Vec<_>>(), [true, false, false, false, false, true, true]);
        }
    }
}

/// Sums whose tenth power f32 does not hold, and polynomials that have come down to nothing.
#[test]
fn large_sums_and_empty_polynomials_stay_numbers() {
    let spec = spec(5, 2, 10);
    let mut weights = Params::zeros(&spec);
    let layout = spec.layout();
    for tensor in layout.tensors() {
        let scale = if tensor.name == "decoder.weight" { 2e4 } else { 1.0 };
        weights.data_mut()[tensor.range()].iter_mut().enumerate().for_each(|(i, x)| *x = scale * (1 + i % 3) as f32);
    }
    let empty = layout.tensors().iter().filter(|tensor| tensor.name.starts_with("sum_product."));
    empty.for_each(|tensor| weights.data_mut()[tensor.range()][..tensor.len() / 5].fill(0.0));
    let window = Window { steps: 3, batch: 1, inputs: vec![1, 2, 3], targets: vec![2, 3, 0] };
    let (mut network, mut gradient) =
        (Network::new(&spec, Compute::with_threads(1), Use::Train, 3, 1), weights.zeros_like());
    network.pack(&weights, Use::Train);
    let mut state = State::zeros(&spec, 1);
    let loss = network.train(&weights, &window, &mut state, Pass::default(), &mut gradient);
    assert!(loss.ce.is_finite() && gradient.data().iter().all(|g| g.is_finite()), "{loss:?}");
    let mut y = vec![0.0; 15];
    state.reset();
    network.probabilities(&weights, &window, &mut state, &mut y);
    assert!(y.chunks(5).all(|y| (y.iter().sum::<f32>() - 1.0).abs() < 1e-6), "{y:?}");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    #[serde(rename = "torch")]
    _torch: String,
    vocab: usize,
    width: usize,
    context: usize,
    powers: usize,
    steps: usize,
    batch: usize,
    weights: BTreeMap<String, Vec<f64>>,
    carried: Vec<Vec<u32>>,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    loss: f64,
    gradients: BTreeMap<String, Vec<f64>>,
}

#[test]
fn loss_and_gradients_are_pytorch_s() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/sum_product_fixture.json")).unwrap();
    let Fixture { vocab, width, powers, steps, batch, .. } = fixture;
    assert_eq!(fixture.context, CONTEXT);
    let spec = spec(vocab, width, powers);
    let mut case = Case::random(&spec, (steps, batch), 1.0, None, 1);
    case.params = flat(&spec, &fixture.weights);
    case.window = oracle::Window { steps, batch, inputs: fixture.inputs, targets: fixture.targets };
    case.context = fixture.carried;
    is_pytorch_s(&case, fixture.loss, &fixture.gradients);
}
