//! A network that reads words by their characters: finite differences check the oracle, PyTorch checks it too, the oracle checks
//! the fast path, at any number of threads to the bit; and for evaluation the table of all words says the same.

mod oracle;

use bowline::batch::Window;
use bowline::characters::{CharactersSpec, Spelling};
use bowline::compute::Compute;
use bowline::model::{Network, Pass, State, Use, word_vectors};
use bowline::params::Params;
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, Unit};
use bowline_kernels::{Isa, Team};
use oracle::case::{Case, Random};
use oracle::check::{assert_close, narrow, slopes_match};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Words of all lengths, the longest as long as there is room. One case has more maps than are worked on together.
fn cases(vocab: usize, shape: (usize, usize), maps: usize) -> Vec<Case> {
    let units = [Unit::Lstm { coupled: false }, Unit::Rnn { activation: Activation::Tanh }];
    let one = |(i, unit): (usize, Unit)| {
        let characters = CharactersSpec {
            symbols: 9,
            length: 7,
            width: 3,
            maps: if i == 0 { vec![2, 3, 4] } else { vec![0, maps, 0, 2] },
            highways: 2 - i,
        };
        let spec = ModelSpec {
            vocab,
            input: InputSpec::characters(characters),
            layers: [6, 5].into_iter().map(|units| LayerSpec::new(unit, units)).collect(),
            output: OutputSpec { bias: i == 0, ..OutputSpec::default() },
        };
        let mut random = Random::new(60 + i as u64);
        let mut word = |id: usize| -> Vec<usize> {
            let symbols = (0..1 + id % 7).map(|_| 1 + random.below(8) as usize);
            symbols.chain(std::iter::repeat(0)).take(7).collect()
        };
        let spelling = (0..vocab).map(&mut word).collect();
        let case = Case::random(&spec, shape, 0.6, Some(0.7), 70 + i as u64);
        let case = if i == 1 { case.by_site(0.6, 3) } else { case };
        Case { spelling, activity: [0.0; 2], ..case }
    };
    units.into_iter().enumerate().map(one).collect()
}

fn params(spec: &ModelSpec, values: &[f64], spelled: &[Vec<usize>]) -> Params {
    let mut params = Params::zeros(spec);
    params.data_mut().copy_from_slice(&narrow(values));
    let mut spelling = Spelling::none(spec.input.characters.as_ref().unwrap(), spec.vocab);
    spelling.table_mut().iter_mut().zip(spelled.concat()).for_each(|(to, symbol)| *to = symbol as f32);
    params.set_spelling(spelling);
    params
}

fn state(spec: &ModelSpec, batch: usize, parts: &[Vec<f64>]) -> State {
    let mut state = State::zeros(spec, batch);
    state.parts.iter_mut().zip(parts).for_each(|(part, values)| part.values = narrow(values));
    state
}

#[test]
fn slopes_match_the_gradient() {
    cases(9, (5, 2), 3).iter().for_each(slopes_match);
}

/// One window of a case, with one of the machine's instruction sets and so many threads.
fn trained(case: &Case, isa: Isa, threads: usize) -> (f64, Params) {
    let (spec, (steps, batch)) = (&case.spec, (case.window.steps, case.window.batch));
    let mut network = Network::new(spec, Compute::new(Arc::new(Team::new(threads)), isa), Use::Train, steps, batch);
    let weights = params(spec, &case.params, &case.spelling);
    let mut gradient = weights.zeros_like();
    let all = |masks: &[Vec<f64>]| masks.iter().map(|m| narrow(m)).collect();
    let masks = case.masks.as_ref().map(|m| bowline::model::Masks {
        input: narrow(&m.input),
        states: all(&m.states),
        outputs: all(&m.outputs),
        ..Default::default()
    });
    let pass = Pass { masks: masks.as_ref(), ..Pass::default() };
    let (inputs, targets) = (case.window.inputs.clone(), case.window.targets.clone());
    let window = Window { steps, batch, inputs, targets };
    network.pack_masked(&weights, Use::Train, pass);
    // Another window before it leaves nothing behind.
    let other = Window { inputs: window.targets.clone(), ..window.clone() };
    network.train(&weights, &other, &mut State::zeros(spec, batch), pass, &mut gradient);
    gradient.data_mut().fill(f32::NAN);
    let loss = network.train(&weights, &window, &mut state(spec, batch, &case.state.parts), pass, &mut gradient);
    (loss.ce, gradient)
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for case in cases(31, (9, 3), 70) {
        let (spec, truth) = (&case.spec, case.run(None));
        for isa in Isa::available() {
            let (ce, gradient) = trained(&case, isa, 2);
            assert!((ce / 27.0 - truth.mean_ce).abs() <= 1e-6 * truth.mean_ce, "{isa:?}: {ce}");
            for tensor in spec.layout().tensors() {
                let found: Vec<f64> = gradient.get(tensor).iter().map(|&g| f64::from(g)).collect();
                assert_close(&format!("{isa:?}, {}", tensor.name), &found, &truth.gradient[tensor.range()], 2e-5);
            }
            // The vector of the padding does not move.
            assert_eq!(gradient.embedding()[..3], [0.0; 3]);
            for threads in [1, 3] {
                assert_eq!(trained(&case, isa, threads).1.data(), gradient.data(), "{isa:?}, {threads} threads");
            }
        }
    }
}

/// A network for evaluation looks words up in a table; one for training works out those of the window. Both see the same, read at
/// once or word by word.
#[test]
fn the_table_of_all_words_is_what_their_characters_give() {
    for case in cases(31, (12, 1), 70) {
        let (spec, words) = (&case.spec, &case.window.inputs);
        let weights = params(spec, &case.params, &case.spelling);
        let read = |purpose: Use, parts: &[&[u32]]| {
            let mut network = Network::new(spec, Compute::with_threads(2), purpose, 12, 1);
            network.pack(&weights, purpose);
            let (mut state, mut all) = (State::zeros(spec, 1), Vec::new());
            for part in parts {
                let window = Window { steps: part.len(), batch: 1, inputs: part.to_vec(), targets: part.to_vec() };
                network.read(&weights, &window, &mut state, None);
                all.extend_from_slice(network.hidden(part.len(), 1));
            }
            all
        };
        let whole = read(Use::Evaluate, &[words]);
        assert_eq!(read(Use::Train, &[words]), whole);
        assert_eq!(read(Use::Evaluate, &words.chunks(1).collect::<Vec<_>>()), whole);
        assert_eq!(read(Use::Train, &[&words[..5], &words[5..]]), whole);
        let vectors = word_vectors(&weights);
        assert_eq!(vectors.len(), spec.vocab * spec.input.width);
        // A word has the vector of its characters, whatever else is in the vocabulary.
        let mut spelled = case.spelling.clone();
        spelled.swap(3, 4);
        let (d, swapped) = (spec.input.width, params(spec, &case.params, &spelled));
        assert_eq!(vectors[3 * d..4 * d], word_vectors(&swapped)[4 * d..5 * d]);
        assert_ne!(vectors[3 * d..4 * d], vectors[4 * d..5 * d]);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    #[serde(rename = "torch")]
    _torch: String,
    vocab: usize,
    symbols: usize,
    length: usize,
    width: usize,
    maps: Vec<usize>,
    units: usize,
    steps: usize,
    batch: usize,
    weights: BTreeMap<String, Vec<f64>>,
    spelling: Vec<Vec<usize>>,
    state: Vec<Vec<f64>>,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    loss: f64,
    gradients: BTreeMap<String, Vec<f64>>,
    state_after: Vec<Vec<f64>>,
}

#[test]
fn loss_and_gradients_are_pytorch_s() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/characters_fixture.json")).unwrap();
    let Fixture { vocab, symbols, length, width, steps, batch, .. } = fixture;
    let spec = ModelSpec {
        vocab,
        input: InputSpec::characters(CharactersSpec {
            symbols,
            length,
            width,
            maps: fixture.maps.clone(),
            highways: 2,
        }),
        layers: vec![LayerSpec::new(Unit::Lstm { coupled: false }, fixture.units)],
        output: OutputSpec { bias: true, ..OutputSpec::default() },
    };
    let flat = |named: &BTreeMap<String, Vec<f64>>| -> Vec<f64> {
        assert_eq!(named.len(), spec.layout().tensors().len());
        spec.layout().tensors().iter().flat_map(|tensor| named[&tensor.name].clone()).collect()
    };
    let case = Case {
        spec: spec.clone(),
        params: flat(&fixture.weights),
        window: oracle::Window { steps, batch, inputs: fixture.inputs, targets: fixture.targets },
        state: oracle::State { parts: fixture.state },
        masks: None,
        activity: [0.0; 2],
        features: Vec::new(),
        pointed: Vec::new(),
        corrections: Vec::new(),
        spelling: fixture.spelling,
        context: Vec::new(),
    };
    let output = case.run(None);
    assert_close("the oracle's loss", &[output.loss], &[fixture.loss], 1e-11);
    assert_close("the oracle's gradient", &output.gradient, &flat(&fixture.gradients), 1e-11);
    assert_close("the oracle's state", &output.state.parts.concat(), &fixture.state_after.concat(), 1e-11);
    for isa in Isa::available() {
        let (ce, gradient) = trained(&case, isa, 2);
        assert_close("the loss", &[ce / batch as f64], &[fixture.loss], 1e-6);
        let found: Vec<f64> = gradient.data().iter().map(|&g| f64::from(g)).collect();
        assert_close("the gradient", &found, &flat(&fixture.gradients), 1e-5);
    }
}
