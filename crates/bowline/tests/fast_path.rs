//! The fast path against the f64 oracle and against PyTorch, on every instruction set this machine has.

mod fixture;
mod oracle;

use bowline::architecture::Architecture;
use bowline::batch::Window;
use bowline::model::{AugmentedForm, AugmentedLoss, LayerState, Masks, Network, State, Use};
use bowline::optim;
use bowline::params::Params;
use bowline_kernels::{Isa, Precision, Team};
use fixture::{Fixture, TorchCase};
use oracle::Augment;
use oracle::case::Case;
use std::sync::Arc;

fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|&x| x as f32).collect()
}

fn params(architecture: Architecture, values: &[f64]) -> Params {
    let mut params = Params::zeros(architecture);
    params.data_mut().copy_from_slice(&narrow(values));
    params
}

/// Each tensor's largest error, relative to its largest value, must be within the tolerance. Returns the largest of all.
fn assert_gradient(what: &str, found: &Params, expected: &[f64], tolerance: f64) -> f64 {
    let mut largest = 0.0f64;
    for tensor in found.tensors() {
        let (found, expected) = (found.get(tensor), &expected[tensor.range()]);
        let scale = expected.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        for (i, (f, e)) in found.iter().zip(expected).enumerate() {
            let error = (f64::from(*f) - e).abs();
            assert!(error <= tolerance * scale, "{what}, {}[{i}]: {f:e}, expected {e:e}", tensor.name);
            largest = largest.max(error / scale.max(f64::MIN_POSITIVE));
        }
    }
    largest
}

/// Every instruction set and precision that this machine has, with the largest relative error of the loss, of the gradient
/// and of the state that they may have.
fn arithmetics() -> impl Iterator<Item = (Isa, Precision, [f64; 3])> {
    Isa::available().into_iter().flat_map(|isa| {
        Precision::all_available(isa).into_iter().map(move |precision| match precision {
            Precision::F32 => (isa, precision, [1e-6, 1e-5, 2e-6]),
            Precision::Bf16 | Precision::Bf16Emulated => (isa, precision, [2e-2, 4e-2, 5e-2]),
        })
    })
}

fn fast_state(h: &[Vec<f64>], c: &[Vec<f64>]) -> State {
    State { layers: h.iter().zip(c).map(|(h, c)| LayerState { h: narrow(h), c: narrow(c) }).collect() }
}

#[test]
fn every_gradient_agrees_with_the_oracle() {
    for (isa, precision, [loss_tolerance, tolerance, state_tolerance]) in arithmetics() {
        for tied in [true, false] {
            for augment in ["off", "stop", "flow"] {
                for keep in [None, Some(0.6)] {
                    // 57 positions are more than a block of rows, 103 words more than a few panels of columns.
                    let architecture = Architecture { vocab: 103, hidden: 21, layers: 2, tied };
                    let case = Case::random(architecture, (19, 3), 0.6, keep, 11);
                    let what = format!("{isa:?} {precision:?}, tied {tied}, AL {augment}, keep {keep:?}");
                    let (tau, gamma, flow) = (3.0, 0.65, augment == "flow");
                    let truth = case.run((augment != "off").then_some(Augment { tau, gamma, flow }));

                    let team = Arc::new(Team::new(2));
                    let mut network =
                        Network::new(architecture, team, isa, Use::Train, 19, 3).with_precision(precision);
                    let (weights, mut gradient) = (params(architecture, &case.params), Params::zeros(architecture));
                    gradient.data_mut().fill(f32::NAN); // whatever was there must not matter
                    let window = Window {
                        steps: 19,
                        batch: 3,
                        inputs: case.window.inputs.clone(),
                        targets: case.window.targets.clone(),
                    };
                    let masks = case.masks.as_ref().map(|m| Masks {
                        input: narrow(&m.input),
                        states: m.layers.iter().map(|m| narrow(m)).collect(),
                    });
                    let mut state = fast_state(&case.state.h, &case.state.c);
                    network.pack(&weights, Use::Train);
                    let augmented = (augment != "off").then_some(AugmentedLoss {
                        tau: 3.0,
                        gamma: 0.65,
                        cross: 1.0,
                        flow,
                        form: AugmentedForm::Exact,
                    });
                    let loss = network.train(&weights, &window, &mut state, masks.as_ref(), augmented, &mut gradient);

                    let words = window.targets.len() as f64;
                    let (ce, kl) = (truth.mean_ce, truth.mean_kl);
                    assert!((loss.ce / words - ce).abs() <= loss_tolerance * ce, "{what}: {loss:?} {ce}");
                    assert!((loss.kl / words - kl).abs() <= loss_tolerance * kl, "{what}: {loss:?} {kl}");
                    let error = assert_gradient(&what, &gradient, &truth.gradient, tolerance);
                    assert!(precision == Precision::F32 || error > 1e-3, "{what}: nothing was rounded ({error:e})");
                    for (layer, (h, c)) in state.layers.iter().zip(truth.state.h.iter().zip(&truth.state.c)) {
                        for (found, expected) in layer.h.iter().zip(h).chain(layer.c.iter().zip(c)) {
                            let error = (f64::from(*found) - expected).abs();
                            assert!(error < state_tolerance, "{what}: the carried state: {found}, expected {expected}");
                        }
                    }
                }
            }
        }
    }
}

struct FromFixture {
    architecture: Architecture,
    weights: Params,
    state: State,
    augment: Option<AugmentedLoss>,
}

fn from_fixture(fixture: &Fixture, case: &TorchCase) -> FromFixture {
    let architecture = fixture.architecture(case);
    let layers = |x: &[f64]| x.chunks(fixture.batch * fixture.hidden).map(<[f64]>::to_vec).collect::<Vec<_>>();
    FromFixture {
        architecture,
        weights: params(architecture, &fixture.params(case)),
        state: fast_state(&layers(&fixture.state.h), &layers(&fixture.state.c)),
        augment: case.augment.map(|a| AugmentedLoss {
            tau: a.tau as f32,
            gamma: a.gamma as f32,
            cross: 1.0,
            flow: a.flow,
            form: AugmentedForm::Exact,
        }),
    }
}

fn window(fixture: &Fixture, k: usize) -> Window {
    Window { steps: fixture.steps, batch: fixture.batch, inputs: fixture.inputs(k), targets: fixture.targets(k) }
}

#[test]
fn gradients_and_ten_training_steps_are_pytorch_s() {
    let fixture = Fixture::load();
    for isa in Isa::available() {
        for case in &fixture.cases {
            let name = format!("{}, {isa:?}", case.name);
            let FromFixture { architecture, mut weights, mut state, augment } = from_fixture(&fixture, case);
            let team = Arc::new(Team::new(2));
            let room =
                |purpose| Network::new(architecture, Arc::clone(&team), isa, purpose, fixture.steps, fixture.batch);
            let (mut network, mut gradient) = (room(Use::Train), Params::zeros(architecture));
            for k in 0..fixture.windows() {
                let window = window(&fixture, k);
                let mut masks = fixture.masks(k).iter().map(|m| narrow(m)).collect::<Vec<_>>();
                let masks = Masks { input: masks.remove(0), states: masks };
                network.pack(&weights, Use::Train);
                let loss = network.train(&weights, &window, &mut state, Some(&masks), augment, &mut gradient);
                let alpha = augment.map_or(0.0, |a| f64::from(a.gamma * a.tau));
                let total = (loss.ce + alpha * loss.kl) / fixture.batch as f64;
                let norm = optim::global_norm(&team, isa, &gradient);
                if k == 0 {
                    assert_gradient(&name, &gradient, &fixture.gradient(case), 1e-5);
                }
                let (expected, expected_norm) = (case.losses[k], case.gradient_norms[k]);
                assert!((total - expected).abs() <= 1e-5 * expected, "{name}, window {k}: {total}, not {expected}");
                assert!((norm - expected_norm).abs() <= 1e-4 * expected_norm, "{name}, window {k}: |g| {norm}");
                let (learning_rate, clip) = (fixture.learning_rate, fixture.clip);
                let rule = optim::Rule { learning_rate, clip, weight_decay: 0.0, spare_vectors: false };
                optim::step(&team, isa, &mut weights, &gradient, norm, rule);
            }
            let (mut network, mut state) = (room(Use::Evaluate), State::zeros(architecture, fixture.batch));
            network.pack(&weights, Use::Evaluate);
            let mut nll = vec![0.0; fixture.windows() * fixture.steps * fixture.batch];
            for (k, nll) in nll.chunks_mut(fixture.steps * fixture.batch).enumerate() {
                network.evaluate(&weights, &window(&fixture, k), &mut state, nll);
            }
            let ce = nll.iter().sum::<f64>() / nll.len() as f64;
            assert!((ce - case.evaluation_ce).abs() <= 1e-5 * case.evaluation_ce, "{name}: evaluation {ce}");
        }
    }
}

#[test]
fn the_bits_of_a_gradient_do_not_depend_on_the_number_of_threads() {
    let architecture = Architecture { vocab: 403, hidden: 131, layers: 2, tied: true };
    let case = Case::random(architecture, (17, 5), 0.2, Some(0.7), 5);
    let run = |threads, precision| {
        let (weights, mut gradient) = (params(architecture, &case.params), Params::zeros(architecture));
        let mut network = Network::new(architecture, Arc::new(Team::new(threads)), Isa::detect(), Use::Train, 17, 5)
            .with_precision(precision);
        let window =
            Window { steps: 17, batch: 5, inputs: case.window.inputs.clone(), targets: case.window.targets.clone() };
        let mut state = fast_state(&case.state.h, &case.state.c);
        network.pack(&weights, Use::Train);
        let augment =
            Some(AugmentedLoss { tau: 20.0, gamma: 0.65, cross: 1.0, flow: true, form: AugmentedForm::Exact });
        let loss = network.train(&weights, &window, &mut state, None, augment, &mut gradient);
        let norm = optim::global_norm(network.team(), network.isa(), &gradient);
        (gradient.data().iter().map(|g| g.to_bits()).collect::<Vec<_>>(), loss, norm.to_bits(), state)
    };
    for precision in Precision::all_available(Isa::detect()) {
        let one = run(1, precision);
        for threads in [2, 3, 8] {
            assert!(run(threads, precision) == one, "{precision:?}, {threads} threads");
        }
    }
}

/// At a high temperature the exact augmented loss and the second-order form must agree, in value and in gradient.
#[test]
fn the_second_order_form_is_the_limit_of_the_exact_one() {
    let architecture = Architecture { vocab: 103, hidden: 21, layers: 2, tied: true };
    let case = Case::random(architecture, (11, 3), 0.6, Some(0.7), 13);
    let weights = params(architecture, &case.params);
    let window =
        Window { steps: 11, batch: 3, inputs: case.window.inputs.clone(), targets: case.window.targets.clone() };
    let masks = case
        .masks
        .as_ref()
        .map(|m| Masks { input: narrow(&m.input), states: m.layers.iter().map(|m| narrow(m)).collect() });
    let run = |augment: Option<AugmentedLoss>| {
        let team = Arc::new(Team::new(2));
        let mut network = Network::new(architecture, team, Isa::detect(), Use::Train, 11, 3);
        let (mut gradient, mut state) = (Params::zeros(architecture), fast_state(&case.state.h, &case.state.c));
        network.pack(&weights, Use::Train);
        let loss = network.train(&weights, &window, &mut state, masks.as_ref(), augment, &mut gradient);
        (loss.kl, gradient.data().iter().map(|&g| f64::from(g)).collect::<Vec<f64>>())
    };
    let (_, without) = run(None);
    // A weight of tau^2, so that the part that matters does not vanish; at this temperature the next order is a hundredth.
    let (tau, gamma) = (400.0, 400.0);
    for flow in [false, true] {
        let loss = |form| run(Some(AugmentedLoss { tau, gamma, cross: 1.0, flow, form }));
        let (kl, exact) = loss(AugmentedForm::Exact);
        let (kl_gram, gram) = loss(AugmentedForm::Gram { shares: 1, turn: 5 });
        assert!((kl - kl_gram).abs() < 0.02 * kl, "flow {flow}: J_aug {kl:e}, second order {kl_gram:e}");
        let part = |all: &[f64]| all.iter().zip(&without).map(|(a, b)| a - b).collect::<Vec<f64>>();
        let (exact, gram) = (part(&exact), part(&gram));
        let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let difference: Vec<f64> = exact.iter().zip(&gram).map(|(a, b)| a - b).collect();
        let relative = norm(&difference) / norm(&exact);
        assert!(relative < 0.02, "flow {flow}: gradients differ by {relative}");
        // Over all turns, the shares of the words add up to nearly the whole.
        let turns: Vec<Vec<f64>> = (0..4).map(|turn| part(&loss(AugmentedForm::Gram { shares: 4, turn }).1)).collect();
        let mean: Vec<f64> = (0..gram.len()).map(|i| turns.iter().map(|t| t[i]).sum::<f64>() / 4.0).collect();
        let difference: Vec<f64> = mean.iter().zip(&gram).map(|(a, b)| a - b).collect();
        let relative = norm(&difference) / norm(&gram);
        assert!(relative < 0.15, "flow {flow}: the shares differ from the whole by {relative}");
    }
}
