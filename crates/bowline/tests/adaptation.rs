//! Dynamic evaluation takes the step its rule says, with every unit, rounds of gating, unequal widths and a projection: two
//! segments, the second of which starts from weights that have moved.

mod specs;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Adaptation, Network, Pass, State, Use};
use bowline::params::Params;
use bowline::rng::{Purpose, Stream, unit};
use bowline::spec::{ModelSpec, Unit};

const RATE: f64 = 0.05;
const DECAY: f64 = 0.1;
const STEPS: usize = 7;

fn trained(spec: &ModelSpec) -> Params {
    let mut params = Params::zeros(spec);
    Stream::new(3, Purpose::Weights, 0).fill(params.data_mut(), |r| 1.2 * (unit(r) - 0.5));
    params
}

/// The models of all other tests, and some of them with rounds before every step.
fn all() -> Vec<ModelSpec> {
    let (mut all, others) = (specs::all(23), specs::all(23));
    for (mut spec, rounds) in others.into_iter().zip([1, 2, 5, 4]) {
        spec.layers.iter_mut().for_each(|layer| layer.unit = Unit::Mogrifier { coupled: rounds > 4, rounds, rank: 2 });
        all.push(spec);
    }
    all
}

#[test]
fn two_segments_move_the_weights_as_the_gradient_says() {
    for spec in all() {
        let trained = trained(&spec);
        let words: Vec<u32> = (0..2 * STEPS as u32 + 1).map(|i| (i * 7 + i * i) % 23).collect();
        let mut network = Network::new(&spec, Compute::with_threads(2), Use::Train, STEPS, 1);
        let mut adaptation = Adaptation::new(&network, trained.clone(), None, RATE, DECAY, 0.0);
        let (mut moving, mut state) = (trained.clone(), State::zeros(&spec, 1));
        network.pack_recurrent(&moving);
        // The same by the gradient of a training step.
        let mut other = Network::new(&spec, Compute::with_threads(1), Use::Train, STEPS, 1);
        let (mut theta, mut other_state) = (trained.clone(), State::zeros(&spec, 1));
        let mut gradient = trained.zeros_like();
        for at in [0, STEPS] {
            let (inputs, targets) = (words[at..at + STEPS].to_vec(), words[at + 1..=at + STEPS].to_vec());
            let window = Window { steps: STEPS, batch: 1, inputs, targets };
            let mut nll = vec![0.0; STEPS];
            network.adapt(&mut moving, &window, &mut state, &mut adaptation, &[1.0], &mut nll);
            other.pack(&theta, Use::Train);
            let loss = other.train(&theta, &window, &mut other_state, Pass::default(), &mut gradient);
            assert!((loss.ce - nll.iter().sum::<f64>()).abs() < 1e-4, "{spec:?}: {} {nll:?}", loss.ce);
            let moves = theta.data_mut().iter_mut().zip(trained.data()).zip(gradient.data());
            for ((x, x0), g) in moves {
                let [now, start, g] = [*x, *x0, *g].map(f64::from);
                *x = (now + DECAY * (start - now) - RATE * g) as f32;
            }
        }
        adaptation.finish(&network, &mut moving);
        let largest = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        for tensor in theta.tensors() {
            let far = largest(theta.get(tensor), trained.get(tensor));
            let off = largest(theta.get(tensor), moving.get(tensor));
            // A tensor that hardly moves is rounded by more than a thousandth of its way.
            assert!(off < 1e-3 * far + 5e-7, "{spec:?}, {}: off by {off:e} of {far:e}", tensor.name);
        }
    }
}
