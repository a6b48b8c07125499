//! A network that reads words by their characters: finite differences check the oracle, PyTorch checks it too, the oracle checks
//! the fast path, at any number of threads to the bit; and for evaluation the table of all words says the same.

mod fast;
mod oracle;

use bowline::batch::Window;
use bowline::characters::CharactersSpec;
use bowline::compute::Compute;
use bowline::model::{Network, State, Use, word_vectors};
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, Unit};
use fast::{
    Trained, agrees, distributions, flat, has_the_same_bits_at_any_number_of_threads, is_pytorch_s, params, train,
};
use oracle::case::{Case, Random};
use oracle::check::{assert_close, slopes_match};
use serde::Deserialize;
use std::collections::BTreeMap;

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

#[test]
fn slopes_match_the_gradient() {
    cases(9, (5, 2), 3).iter().for_each(slopes_match);
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for case in &cases(31, (9, 3), 70) {
        agrees(case);
        has_the_same_bits_at_any_number_of_threads(case);
        // The vector of the padding does not move.
        let Trained { gradient, .. } = train(case, Compute::with_threads(2));
        assert_eq!(gradient.embedding()[..3], [0.0; 3]);
    }
}

#[test]
fn distributions_add_up_and_do_not_depend_on_how_a_text_is_cut() {
    cases(31, (12, 1), 70).iter().for_each(|case| drop(distributions(case)));
}

/// A network for evaluation looks words up in a table; one for training works out those of the window. Both see the same, read at
/// once or word by word.
#[test]
fn the_table_of_all_words_is_what_their_characters_give() {
    for case in cases(31, (12, 1), 70) {
        let (spec, words) = (&case.spec, &case.window.inputs);
        let weights = params(&case);
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
        let mut other = case.clone();
        other.spelling.swap(3, 4);
        let (d, swapped) = (spec.input.width, params(&other));
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
    let mut case = Case::random(&spec, (steps, batch), 1.0, None, 1);
    case.params = flat(&spec, &fixture.weights);
    case.window = oracle::Window { steps, batch, inputs: fixture.inputs, targets: fixture.targets };
    case.state = oracle::State { parts: fixture.state };
    case.spelling = fixture.spelling;
    let after = case.run(None).state.parts.concat();
    assert_close("the oracle's state", &after, &fixture.state_after.concat(), 1e-11);
    is_pytorch_s(&case, fixture.loss, &fixture.gradients);
}
