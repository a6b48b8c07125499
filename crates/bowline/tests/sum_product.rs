//! A sum-product network over the last words: finite differences check the oracle, PyTorch checks it too, the oracle checks the
//! fast path, at any number of threads to the bit; distributions add up to 1, look only back, and do not depend on how a text is cut.

mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Network, Pass, Question, State, Use};
use bowline::params::Params;
use bowline::spec::{InputSpec, LayerSpec, ModelSpec, OutputSpec, Unit};
use bowline_kernels::{Isa, Team};
use oracle::case::{Case, Random};
use oracle::check::{assert_close, narrow, slopes_match};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

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

fn params(spec: &ModelSpec, values: &[f64]) -> Params {
    let mut params = Params::zeros(spec);
    params.data_mut().copy_from_slice(&narrow(values));
    params
}

/// The state that the fast path carries: the last words first.
fn state(spec: &ModelSpec, batch: usize, parts: &[Vec<f64>], context: &[Vec<u32>]) -> State {
    let mut state = State::zeros(spec, batch);
    for (row, words) in state.parts[0].values.chunks_exact_mut(CONTEXT).zip(context) {
        row.iter_mut().rev().zip(words.iter().rev()).for_each(|(to, &word)| *to = (word + 1) as f32);
    }
    state.parts[1..].iter_mut().zip(parts).for_each(|(part, values)| part.values = narrow(values));
    state
}

#[test]
fn slopes_match_the_gradient() {
    cases(7, (5, 3)).iter().for_each(slopes_match);
}

/// One window of a case, with one of the machine's instruction sets and so many threads.
fn trained(case: &Case, isa: Isa, threads: usize) -> (f64, Params, State) {
    let (spec, (steps, batch)) = (&case.spec, (case.window.steps, case.window.batch));
    let mut network = Network::new(spec, Compute::new(Arc::new(Team::new(threads)), isa), Use::Train, steps, batch);
    let weights = params(spec, &case.params);
    let mut gradient = weights.zeros_like();
    gradient.data_mut().fill(f32::NAN);
    let (inputs, targets) = (case.window.inputs.clone(), case.window.targets.clone());
    let mut carried = state(spec, batch, &case.state.parts, &case.context);
    network.pack(&weights, Use::Train);
    let window = Window { steps, batch, inputs, targets };
    let loss = network.train(&weights, &window, &mut carried, Pass::default(), &mut gradient);
    (loss.ce, gradient, carried)
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for case in cases(37, (9, 3)) {
        let truth = case.run(None);
        for isa in Isa::available() {
            let (ce, gradient, carried) = trained(&case, isa, 2);
            assert!((ce / 27.0 - truth.mean_ce).abs() <= 1e-6 * truth.mean_ce, "{isa:?}: {ce}");
            for tensor in case.spec.layout().tensors() {
                let found: Vec<f64> = gradient.get(tensor).iter().map(|&g| f64::from(g)).collect();
                assert_close(&format!("{isa:?}, {}", tensor.name), &found, &truth.gradient[tensor.range()], 2e-5);
            }
            for threads in [1, 3] {
                assert_eq!(trained(&case, isa, threads).1.data(), gradient.data(), "{isa:?}, {threads} threads");
            }
            let last: Vec<f32> = (5..9).map(|t| (case.window.inputs[t * 3] + 1) as f32).collect();
            assert_eq!(carried.parts[0].values[..CONTEXT], last);
        }
    }
}

/// Read at once or word by word, a text gives the same, to the bit, whatever comes after; a word further back than the context
/// changes nothing. Every way of asking gives the same distribution, which adds up to 1.
#[test]
fn distributions_add_up_and_see_the_last_words_alone() {
    for case in cases(37, (12, 1)) {
        let (spec, weights, words) = (&case.spec, params(&case.spec, &case.params), &case.window.inputs);
        let mut network = Network::new(spec, Compute::with_threads(2), Use::Evaluate, 12, 1);
        network.pack(&weights, Use::Evaluate);
        let window =
            |part: &[u32]| Window { steps: part.len(), batch: 1, inputs: part.to_vec(), targets: part.to_vec() };
        let mut read = |parts: &[&[u32]]| {
            let (mut state, mut all) = (State::zeros(spec, 1), Vec::new());
            for part in parts {
                let mut out = vec![0.0; part.len() * spec.vocab];
                network.probabilities(&weights, &window(part), &mut state, &mut out);
                all.extend(out);
            }
            let (outlook, mut after) = (network.outlook_of(&weights, &state), vec![0.0; spec.vocab]);
            network.distributions(&weights, &outlook, 1.0, &mut after);
            assert_eq!(after, all[all.len() - spec.vocab..]);
            all
        };
        let whole = read(&[words]);
        assert_eq!(read(&words.chunks(1).collect::<Vec<_>>()), whole);
        assert_eq!(read(&[&words[..5], &words[5..]]), whole);
        assert_eq!(read(&[&words[..7]]), whole[..7 * spec.vocab]);
        if spec.layers.is_empty() {
            let mut other = words.clone();
            other[3] = (other[3] + 1) % 37;
            let other = read(&[&other]);
            let same = |t: usize| other[t * spec.vocab..][..spec.vocab] == whole[t * spec.vocab..][..spec.vocab];
            assert_eq!((2..9).map(same).collect::<Vec<_>>(), [true, false, false, false, false, true, true]);
        }
        for y in whole.chunks_exact(spec.vocab) {
            let sum: f64 = y.iter().map(|&y| f64::from(y)).sum();
            assert!((sum - 1.0).abs() < 1e-6 && y.iter().all(|&y| y > 0.0), "{y:?}");
        }
        let (mut begin, mut nll) = (State::zeros(spec, 1), vec![0.0; 12]);
        network.evaluate(&weights, &window(words), &mut begin, &mut nll);
        let mut questions: Vec<Question> =
            (0..12).map(|row| Question { row, target: words[row], ..Question::default() }).collect();
        begin.reset();
        network.answer(&weights, &window(words), &mut begin, &mut questions);
        for (row, (question, nll)) in questions.iter().zip(nll).enumerate() {
            let expected = f64::from(whole[row * spec.vocab + words[row] as usize]).ln();
            assert!((question.logprob - expected).abs() < 1e-5 && (nll + expected).abs() < 1e-5, "{row}: {nll}");
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
    let flat = |named: &BTreeMap<String, Vec<f64>>| -> Vec<f64> {
        assert_eq!(named.len(), spec.layout().tensors().len());
        spec.layout().tensors().iter().flat_map(|tensor| named[&tensor.name].clone()).collect()
    };
    let mut case = Case::random(&spec, (steps, batch), 1.0, None, 1);
    case.params = flat(&fixture.weights);
    case.window = oracle::Window { steps, batch, inputs: fixture.inputs, targets: fixture.targets };
    case.context = fixture.carried;
    let output = case.run(None);
    assert_close("the oracle's loss", &[output.loss], &[fixture.loss], 1e-11);
    assert_close("the oracle's gradient", &output.gradient, &flat(&fixture.gradients), 1e-11);
    for isa in Isa::available() {
        let (ce, gradient, _) = trained(&case, isa, 2);
        assert_close("the loss", &[ce / batch as f64], &[fixture.loss], 1e-6);
        let found: Vec<f64> = gradient.data().iter().map(|&g| f64::from(g)).collect();
        assert_close("the gradient", &found, &flat(&fixture.gradients), 1e-5);
    }
}
