//! The fast path on the oracle's cases, and what every network must pass, whatever its parts: the oracle's numbers on every
//! instruction set, the same bits at any number of threads, one distribution by every way of asking, and PyTorch's numbers.

// Each test binary that includes this uses a part of it.
#![allow(dead_code)]

use super::oracle::case::Case;
use super::oracle::check::{assert_close, narrow};
use bowline::batch::Window;
use bowline::characters::Spelling;
use bowline::compute::Compute;
use bowline::model::{Activity, Masks, Network, Pass, Question, State, Use};
use bowline::params::Params;
use bowline::spec::ModelSpec;
use bowline::topics::Topics;
use bowline_kernels::{Isa, Precision, Team};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A case's weights, with its table of topics and the spelling of its words.
pub fn params(case: &Case) -> Params {
    let (spec, mut params) = (&case.spec, Params::zeros(&case.spec));
    params.data_mut().copy_from_slice(&narrow(&case.params));
    if let Some(topics) = spec.input.topics {
        let mut table = Topics::none(topics, spec.vocab);
        table.table_mut().copy_from_slice(&narrow(&case.topics));
        params.set_topics(table);
    }
    if let Some(characters) = &spec.input.characters {
        let mut spelling = Spelling::none(characters, spec.vocab);
        spelling.table_mut().iter_mut().zip(case.spelling.concat()).for_each(|(to, symbol)| *to = symbol as f32);
        params.set_spelling(spelling);
    }
    params
}

/// What a case carries into its window: the last words, what a pointer remembers, and the states of the layers.
pub fn state(case: &Case) -> State {
    let spec = &case.spec;
    let mut state = State::zeros(spec, case.window.batch);
    let layers = state.parts.len() - case.state.parts.len();
    state.parts[layers..].iter_mut().zip(&case.state.parts).for_each(|(part, values)| part.values = narrow(values));
    if let Some(words) = state.parts.iter_mut().find(|part| part.name == "words") {
        for (row, words) in words.values.chunks_exact_mut(words.width).zip(&case.context) {
            row.iter_mut().rev().zip(words.iter().rev()).for_each(|(to, &word)| *to = (word + 1) as f32);
        }
    }
    if let Some(pointer) = spec.output.pointer {
        let (first, d) = (layers - 2, spec.width());
        for (b, carried) in case.pointed.iter().enumerate() {
            for (back, (word, h)) in carried.words.iter().zip(&carried.states).rev().take(pointer.window).enumerate() {
                let place = (b + 1) * pointer.window - 1 - back;
                state.parts[first].values[place] = (word + 1) as f32;
                state.parts[first + 1].values[place * d..][..d].copy_from_slice(&narrow(h));
            }
        }
    }
    state
}

/// A case's masks: the paper's have one for all steps, and one for both places where a state is consumed.
pub fn masks(case: &Case) -> Option<Masks> {
    let m = case.masks.as_ref()?;
    let paper = m.states == m.outputs;
    let of = |mask: &[f64]| narrow(&mask[..if paper { mask.len() / case.window.steps } else { mask.len() }]);
    Some(Masks {
        input: of(&m.input),
        states: m.states.iter().map(|m| of(m)).collect(),
        outputs: if paper { Vec::new() } else { m.outputs.iter().map(|m| of(m)).collect() },
        projection: of(&m.projection),
        ..Masks::default()
    })
}

/// What a window brought: the sum of the cross-entropies, the gradient, and the state after it.
pub struct Trained {
    pub ce: f64,
    pub gradient: Params,
    pub after: State,
}

/// Trains on a case's window.
pub fn train(case: &Case, compute: Compute) -> Trained {
    train_with(case, masks(case).as_ref(), compute)
}

/// The same with other masks.
pub fn train_with(case: &Case, masks: Option<&Masks>, compute: Compute) -> Trained {
    let (weights, mut after) = (params(case), state(case));
    let (steps, batch) = (case.window.steps, case.window.batch);
    let mut network = Network::new(&case.spec, compute, Use::Train, steps, batch);
    let window = Window { steps, batch, inputs: case.window.inputs.clone(), targets: case.window.targets.clone() };
    let [ar, tar] = case.activity.map(|x| x as f32);
    let pass = Pass { masks, activity: Activity { ar, tar }, ..Pass::default() };
    network.pack_masked(&weights, Use::Train, pass);
    // Another window before it leaves nothing behind, nor does what is in the gradient.
    let other = Window { inputs: window.targets.clone(), targets: window.inputs.clone(), ..window.clone() };
    let mut gradient = weights.zeros_like();
    network.train(&weights, &other, &mut state(case), pass, &mut gradient);
    gradient.data_mut().fill(f32::NAN);
    let ce = network.train(&weights, &window, &mut after, pass, &mut gradient).ce;
    Trained { ce, gradient, after }
}

/// Values as the oracle has them.
pub fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Loss, gradient and state of the oracle, on every instruction set, in f32.
pub fn agrees(case: &Case) {
    for isa in Isa::available() {
        let compute = Compute::new(Arc::new(Team::new(2)), isa);
        agrees_at(case, compute, [1e-6, 2e-5]);
    }
}

/// The same with one way of computing, and tolerances of the loss, and of the gradient and the state.
pub fn agrees_at(case: &Case, compute: Compute, [of_loss, of_values]: [f64; 2]) {
    let (truth, what) = (case.run(None), format!("{:?} {:?}, {:?}", compute.isa, compute.precision, case.spec));
    let Trained { ce, gradient, after } = train(case, compute);
    let mean = ce / case.window.targets.len() as f64;
    assert!((mean - truth.mean_ce).abs() <= of_loss * truth.mean_ce, "{what}: {mean} {}", truth.mean_ce);
    for tensor in case.spec.layout().tensors() {
        let (found, expected) = (wide(gradient.get(tensor)), &truth.gradient[tensor.range()]);
        assert_close(&format!("{what}, {}", tensor.name), &found, expected, of_values);
    }
    let layers = after.parts.len() - truth.state.parts.len();
    for (part, expected) in after.parts[layers..].iter().zip(&truth.state.parts) {
        assert_close(&format!("{what}, {}", part.name), &wide(&part.values), expected, of_values);
    }
    // The last words of the first stream are carried on, where words are.
    if layers > 0 {
        let (carried, batch) = (&after.parts[0], case.window.batch);
        let words = carried.values[..carried.width].iter().rev();
        let read = case.window.inputs.iter().step_by(batch).map(|&word| (word + 1) as f32).rev();
        assert!(words.zip(read).all(|(a, b)| *a == b), "{what}: {carried:?}");
    }
}

/// A case computed by one, two and three threads.
pub fn has_the_same_bits_at_any_number_of_threads(case: &Case) {
    let one = train(case, Compute::with_threads(1));
    for threads in [2, 3] {
        let more = train(case, Compute::with_threads(threads));
        let same = more.ce == one.ce && more.gradient.data() == one.gradient.data() && more.after == one.after;
        assert!(same, "{threads} threads: {:?}", case.spec);
    }
}

/// The distributions after each of a case's words, (T, V), read by one stream from the start. Read at once or word by word, they
/// are the same to the bit, whatever comes after. Each adds up to 1, and is what every way of asking gives.
pub fn distributions(case: &Case) -> Vec<f32> {
    let (spec, weights, words) = (&case.spec, params(case), &case.window.inputs);
    let (n, v) = (words.len(), spec.vocab);
    let mut network = Network::new(spec, Compute::with_threads(2), Use::Evaluate, n, 1);
    network.pack(&weights, Use::Evaluate);
    let window = |part: &[u32]| Window { steps: part.len(), batch: 1, inputs: part.to_vec(), targets: part.to_vec() };
    let mut read = |parts: &[&[u32]]| {
        let (mut state, mut all) = (State::zeros(spec, 1), Vec::new());
        for part in parts {
            let mut out = vec![0.0; part.len() * v];
            network.probabilities(&weights, &window(part), &mut state, &mut out);
            all.extend(out);
        }
        let (mut after, outlook) = (vec![0.0; v], network.outlook_of(&weights, &state));
        network.distributions(&weights, &outlook, 1.0, &mut after);
        (all, state, after)
    };
    let (whole, end, after) = read(&[words]);
    let single: Vec<&[u32]> = words.chunks(1).collect();
    for (all, state, _) in [read(&single), read(&[&words[..5], &words[5..]])] {
        assert!(all == whole && state == end, "{spec:?}");
    }
    assert_eq!(read(&[&words[..7]]).0, whole[..7 * v]);
    // What is computed of one vector may have its sums in another order.
    assert!(after.iter().zip(&whole[(n - 1) * v..]).all(|(a, b)| (a - b).abs() < 1e-6), "{spec:?}: {after:?}");
    for y in whole.chunks_exact(v) {
        let sum: f64 = y.iter().map(|&y| f64::from(y)).sum();
        assert!((sum - 1.0).abs() < 1e-6 && y.iter().all(|&y| y > 0.0), "{spec:?}: {y:?}");
    }
    let (mut state, mut nll) = (State::zeros(spec, 1), vec![0.0; 2 * n]);
    network.read(&weights, &window(words), &mut state, None);
    network.classify(&weights, (n, 1), words, &[1.0, 2.0], &mut nll);
    let mut tempered = vec![0.0; n * v];
    network.distributions(&weights, network.outlook(n, 1), 2.0, &mut tempered);
    let mut questions: Vec<Question> =
        (0..n).map(|row| Question { row, target: words[row], top: 2, ..Question::default() }).collect();
    state.reset();
    network.answer(&weights, &window(words), &mut state, &mut questions);
    for (row, (question, nll)) in questions.iter().zip(nll.chunks(2)).enumerate() {
        let log = |all: &[f32]| f64::from(all[row * v + words[row] as usize]).ln();
        assert!((nll[0] + log(&whole)).abs() < 1e-5 && (nll[1] + log(&tempered)).abs() < 1e-5, "{spec:?}: {nll:?}");
        let best = f64::from(whole[row * v..][..v].iter().copied().fold(0.0, f32::max)).ln();
        assert!((question.logprob - log(&whole)).abs() < 1e-5, "{spec:?}: {question:?}");
        assert!((question.likeliest[0].1 - best).abs() < 1e-5, "{spec:?}: {question:?}");
    }
    whole
}

/// Named tensors in the order of the flat buffer.
pub fn flat(spec: &ModelSpec, named: &BTreeMap<String, Vec<f64>>) -> Vec<f64> {
    let layout = spec.layout();
    assert_eq!(layout.tensors().len(), named.len());
    layout.tensors().iter().flat_map(|tensor| named[&tensor.name].clone()).collect()
}

/// Loss and gradients that PyTorch computed in f64: the oracle's, and on every instruction set those of the fast path.
pub fn is_pytorch_s(case: &Case, loss: f64, gradients: &BTreeMap<String, Vec<f64>>) {
    let (output, gradients) = (case.run(None), flat(&case.spec, gradients));
    assert_close("the oracle's loss", &[output.loss], &[loss], 1e-11);
    assert_close("the oracle's gradient", &output.gradient, &gradients, 1e-11);
    for isa in Isa::available() {
        let Trained { ce, gradient, .. } = train(case, Compute::new(Arc::new(Team::new(2)), isa));
        let mean = ce / case.window.targets.len() as f64;
        assert_close("the cross-entropy", &[mean], &[output.mean_ce], 1e-6);
        assert_close("the gradient", &wide(gradient.data()), &gradients, 1e-5);
    }
}

/// Every precision of an instruction set but f32.
pub fn rounded(isa: Isa) -> impl Iterator<Item = Compute> {
    let all = Precision::all_available(isa).into_iter().filter(|&precision| precision != Precision::F32);
    all.map(move |precision| Compute::new(Arc::new(Team::new(2)), isa).at(precision))
}
