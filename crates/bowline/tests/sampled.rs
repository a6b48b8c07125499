//! The loss over a sample of the words: finite differences check the oracle, the oracle checks the fast path, with all words
//! it is the softmax, and the bits do not depend on the threads.

mod fast;
mod oracle;

use bowline::batch::Window;
use bowline::characters::CharactersSpec;
use bowline::compute::Compute;
use bowline::model::{Network, Pass, Sample, Sampler, Use, WindowLoss};
use bowline::optim::{self, Rule};
use bowline::params::Params;
use bowline::spec::{InputSpec, LayerSpec, ModelSpec, OutputSpec, Unit};
use bowline_kernels::{Isa, Team};
use fast::{masks, params, state, wide};
use oracle::case::Case;
use oracle::check::{assert_close, slopes_match};
use std::sync::Arc;

const SHAPE: (usize, usize) = (19, 3);

/// Tied without a bias, tied with one, untied with word vectors of another width, and words read by their characters.
fn specs(vocab: usize) -> Vec<ModelSpec> {
    let layers = vec![LayerSpec::new(Unit::Lstm { coupled: false }, 13); 2];
    let output = |tied, bias| OutputSpec { tied, bias, ..OutputSpec::default() };
    let spec = |input, output| ModelSpec { vocab, input, layers: layers.clone(), output };
    let words = InputSpec::words;
    let characters = CharactersSpec { symbols: 9, length: 4, width: 3, maps: vec![2, 3], highways: 1 };
    vec![
        spec(words(13), output(true, false)),
        spec(words(13), output(true, true)),
        spec(words(9), output(false, true)),
        spec(InputSpec::characters(characters), output(false, false)),
    ]
}

/// A case whose few words have a sample of few others: most rows of the large matrices have no gradient.
fn case(spec: &ModelSpec, seed: u64) -> (Case, Sample) {
    let mut case = Case::random(spec, SHAPE, 0.6, Some(0.7), seed);
    let few = |words: &mut Vec<u32>, every: u32| words.iter_mut().for_each(|word| *word -= *word % every);
    few(&mut case.window.inputs, 5);
    few(&mut case.window.targets, 7);
    let counts: Vec<u64> = (0..spec.vocab as u64).map(|i| 900 / (i + 1)).collect();
    let sample = Sampler::new(3, &counts, spec.vocab / 4).draw(&Team::new(1), seed, &case.window.targets).clone();
    assert!(sample.words.len() < spec.vocab / 2, "{}", sample.words.len());
    assert!(sample.corrections.iter().any(|&c| c > 0.1));
    if spec.input.characters.is_some() {
        case.spelling = (0..spec.vocab).map(|word| vec![1 + word % 8, 1 + word / 8 % 8, word % 3, 0]).collect();
    }
    case.corrections = vec![f64::NEG_INFINITY; spec.vocab];
    for (&word, &correction) in sample.words.iter().zip(&sample.corrections) {
        case.corrections[word as usize] = f64::from(correction);
    }
    (case, sample)
}

fn network(spec: &ModelSpec, threads: usize, isa: Isa) -> Network {
    Network::new(spec, Compute::new(Arc::new(Team::new(threads)), isa), Use::Train, SHAPE.0, SHAPE.1)
}

/// Trains on the window of a case.
fn train(network: &mut Network, case: &Case, sample: Option<&Sample>, gradient: &mut Params) -> WindowLoss {
    let weights = params(case);
    let (masks, mut state) = (masks(case), state(case));
    let (inputs, targets) = (case.window.inputs.clone(), case.window.targets.clone());
    let window = Window { steps: SHAPE.0, batch: SHAPE.1, inputs, targets };
    let pass = Pass { masks: masks.as_ref(), sample, ..Pass::default() };
    network.pack_masked(&weights, Use::Train, pass);
    network.train(&weights, &window, &mut state, pass, gradient)
}

#[test]
fn slopes_match_the_gradient() {
    specs(61).iter().for_each(|spec| slopes_match(&case(spec, 1).0));
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for isa in Isa::available() {
        for spec in specs(103) {
            let mut network = network(&spec, 2, isa);
            let mut gradient = Params::zeros(&spec);
            gradient.data_mut().fill(f32::NAN); // whatever was there must not matter
            // What the first window touched must not be left over in the second.
            for seed in [1, 2] {
                let (case, sample) = case(&spec, seed);
                let truth = case.run(None);
                let loss = train(&mut network, &case, Some(&sample), &mut gradient);
                let mean = loss.ce / case.window.targets.len() as f64;
                assert!((mean - truth.mean_ce).abs() < 1e-6 * truth.mean_ce, "{mean} {}", truth.mean_ce);
                for tensor in gradient.tensors() {
                    let (found, expected) = (wide(gradient.get(tensor)), &truth.gradient[tensor.range()]);
                    assert_close(&format!("{isa:?} {seed} {}", tensor.name), &found, expected, 1e-5);
                }
            }
        }
    }
}

#[test]
fn with_all_words_it_is_the_softmax() {
    for spec in specs(103) {
        let (case, _) = case(&spec, 1);
        let all = Sample { words: (0..103).collect(), corrections: vec![0.0; 103] };
        let mut gradients = [Params::zeros(&spec), Params::zeros(&spec)];
        let [some, whole] = [Some(&all), None].map(|sample| {
            let gradient = &mut gradients[usize::from(sample.is_none())];
            train(&mut network(&spec, 2, Isa::detect()), &case, sample, gradient).ce
        });
        assert!((some - whole).abs() < 1e-5 * whole, "{some} {whole}");
        assert_close("the gradient", &wide(gradients[0].data()), &wide(gradients[1].data()), 1e-5);
    }
}

#[test]
fn the_touched_rows_are_all_that_a_step_moves() {
    let compute = Compute::with_threads(2);
    for spec in specs(103) {
        let (case, sample) = case(&spec, 2);
        let (mut network, mut gradient) = (network(&spec, 2, Isa::detect()), Params::zeros(&spec));
        train(&mut network, &case, Some(&sample), &mut gradient);
        let touched = network.touched().unwrap();
        let norm = optim::global_norm(&compute, &gradient);
        assert!((touched.norm(&compute, &gradient) - norm).abs() < 1e-6 * norm);
        for clip in [0.1 * norm, 10.0 * norm] {
            let rule = Rule { learning_rate: 0.5, clip, weight_decay: 0.0, spare_vectors: false };
            let (mut all, mut some) = (params(&case), params(&case));
            optim::step(&compute, &mut all, &gradient, norm, rule);
            assert!(touched.suffices(&rule, &some));
            touched.step(&compute, &mut some, &gradient, norm, rule);
            assert_close("the weights", &wide(some.data()), &wide(all.data()), 1e-6);
            assert_ne!(some.data(), params(&case).data());
            // Words not drawn, and if tied not read, stay where they are, to the last bit.
            let (before, d) = (params(&case), spec.width());
            let rows = before.classifier().chunks_exact(d).zip(some.classifier().chunks_exact(d));
            assert!(rows.filter(|(before, after)| before == after).count() > 20);
        }
        let decay = Rule { learning_rate: 0.5, clip: 1.0, weight_decay: 0.1, spare_vectors: true };
        assert_eq!(touched.suffices(&decay, &gradient), spec.output.tied);
        assert!(!touched.suffices(&Rule { spare_vectors: false, ..decay }, &gradient));
    }
}

#[test]
fn threads_change_no_bit() {
    for spec in specs(9_001) {
        let (case, sample) = case(&spec, 5);
        let bits = |threads: usize| {
            let (mut network, mut gradient) = (network(&spec, threads, Isa::detect()), Params::zeros(&spec));
            let loss = train(&mut network, &case, Some(&sample), &mut gradient);
            let norm = network.touched().unwrap().norm(&Compute::with_threads(threads), &gradient);
            let bits: Vec<u32> = gradient.data().iter().map(|x| x.to_bits()).collect();
            (bits, loss.ce.to_bits(), norm.to_bits())
        };
        let one = bits(1);
        assert!(bits(2) == one && bits(3) == one);
    }
}
