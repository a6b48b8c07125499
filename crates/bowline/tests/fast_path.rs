//! The fast path against the f64 oracle and against PyTorch, on every instruction set this machine has.

mod fixture;
mod oracle;
mod specs;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{
    Activity, AugmentedForm, AugmentedLoss, Dropout, KeepProb, Masks, Network, Pass, Site, State, Use,
};
use bowline::optim;
use bowline::params::Params;
use bowline::spec::ModelSpec;
use bowline_kernels::{Isa, Precision, Team};
use fixture::{Fixture, TorchCase};
use oracle::Augment;
use oracle::case::Case;
use oracle::check::narrow;
use std::sync::Arc;

fn params(spec: &ModelSpec, values: &[f64]) -> Params {
    let mut params = Params::zeros(spec);
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

fn fast_state(spec: &ModelSpec, batch: usize, parts: &[Vec<f64>]) -> State {
    let mut state = State::zeros(spec, batch);
    state.parts.iter_mut().zip(parts).for_each(|(part, values)| part.values = narrow(values));
    state
}

/// The paper's masks, of which the oracle has one for each step.
fn fast_masks(case: &Case) -> Option<Masks> {
    let first = |mask: &[f64]| narrow(&mask[..mask.len() / case.window.steps]);
    case.masks.as_ref().map(|m| Masks {
        input: first(&m.input),
        states: m.states.iter().map(|m| first(m)).collect(),
        ..Masks::default()
    })
}

#[test]
fn every_gradient_agrees_with_the_oracle() {
    for (isa, precision, [loss_tolerance, tolerance, state_tolerance]) in arithmetics() {
        for tied in [true, false] {
            for augment in ["off", "stop", "flow"] {
                for keep in [None, Some(0.6)] {
                    // 57 positions are more than a block of rows, 103 words more than a few panels of columns.
                    let spec = ModelSpec::paper(103, 21, 2, tied);
                    let case = Case::random(&spec, (19, 3), 0.6, keep, 11);
                    let what = format!("{isa:?} {precision:?}, tied {tied}, AL {augment}, keep {keep:?}");
                    let (tau, gamma, flow) = (3.0, 0.65, augment == "flow");
                    let truth = case.run((augment != "off").then_some(Augment { tau, gamma, flow }));

                    let team = Arc::new(Team::new(2));
                    let mut network = Network::new(&spec, Compute::new(team, isa).at(precision), Use::Train, 19, 3);
                    let (weights, mut gradient) = (params(&spec, &case.params), Params::zeros(&spec));
                    gradient.data_mut().fill(f32::NAN); // whatever was there must not matter
                    let window = Window {
                        steps: 19,
                        batch: 3,
                        inputs: case.window.inputs.clone(),
                        targets: case.window.targets.clone(),
                    };
                    let masks = fast_masks(&case);
                    let mut state = fast_state(&spec, 3, &case.state.parts);
                    network.pack(&weights, Use::Train);
                    let augmented = (augment != "off").then_some(AugmentedLoss {
                        tau: 3.0,
                        gamma: 0.65,
                        cross: 1.0,
                        flow,
                        form: AugmentedForm::Exact,
                    });
                    let loss = network.train(
                        &weights,
                        &window,
                        &mut state,
                        Pass { masks: masks.as_ref(), augment: augmented, ..Pass::default() },
                        &mut gradient,
                    );

                    let words = window.targets.len() as f64;
                    let (ce, kl) = (truth.mean_ce, truth.mean_kl);
                    assert!((loss.ce / words - ce).abs() <= loss_tolerance * ce, "{what}: {loss:?} {ce}");
                    assert!((loss.kl / words - kl).abs() <= loss_tolerance * kl, "{what}: {loss:?} {kl}");
                    let error = assert_gradient(&what, &gradient, &truth.gradient, tolerance);
                    assert!(precision == Precision::F32 || error > 1e-3, "{what}: nothing was rounded ({error:e})");
                    for (part, expected) in state.parts.iter().zip(&truth.state.parts) {
                        for (found, expected) in part.values.iter().zip(expected) {
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
    spec: ModelSpec,
    weights: Params,
    state: State,
    augment: Option<AugmentedLoss>,
}

fn from_fixture(fixture: &Fixture, case: &TorchCase) -> FromFixture {
    let spec = fixture.spec(case);
    let layers = |x: &[f64]| x.chunks(fixture.batch * fixture.hidden).map(<[f64]>::to_vec).collect::<Vec<_>>();
    let both = layers(&fixture.state.h).into_iter().zip(layers(&fixture.state.c)).flat_map(|(h, c)| [h, c]);
    FromFixture {
        weights: params(&spec, &fixture.params(case)),
        state: fast_state(&spec, fixture.batch, &both.collect::<Vec<_>>()),
        augment: case.augment.map(|a| AugmentedLoss {
            tau: a.tau as f32,
            gamma: a.gamma as f32,
            cross: 1.0,
            flow: a.flow,
            form: AugmentedForm::Exact,
        }),
        spec,
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
            let FromFixture { spec, mut weights, mut state, augment } = from_fixture(&fixture, case);
            let compute = Compute::new(Arc::new(Team::new(2)), isa);
            let room = |purpose| Network::new(&spec, compute.clone(), purpose, fixture.steps, fixture.batch);
            let (mut network, mut gradient) = (room(Use::Train), Params::zeros(&spec));
            for k in 0..fixture.windows() {
                let window = window(&fixture, k);
                let mut masks = fixture.masks(k).iter().map(|m| narrow(m)).collect::<Vec<_>>();
                let masks = Masks { input: masks.remove(0), states: masks, ..Masks::default() };
                network.pack(&weights, Use::Train);
                let loss = network.train(
                    &weights,
                    &window,
                    &mut state,
                    Pass { masks: Some(&masks), augment, ..Pass::default() },
                    &mut gradient,
                );
                let alpha = augment.map_or(0.0, |a| f64::from(a.gamma * a.tau));
                let total = (loss.ce + alpha * loss.kl) / fixture.batch as f64;
                let norm = optim::global_norm(&compute, &gradient);
                if k == 0 {
                    assert_gradient(&name, &gradient, &fixture.gradient(case), 1e-5);
                }
                let (expected, expected_norm) = (case.losses[k], case.gradient_norms[k]);
                assert!((total - expected).abs() <= 1e-5 * expected, "{name}, window {k}: {total}, not {expected}");
                assert!((norm - expected_norm).abs() <= 1e-4 * expected_norm, "{name}, window {k}: |g| {norm}");
                let (learning_rate, clip) = (fixture.learning_rate, fixture.clip);
                let rule = optim::Rule { learning_rate, clip, weight_decay: 0.0, spare_vectors: false };
                optim::step(&compute, &mut weights, &gradient, norm, rule);
            }
            let (mut network, mut state) = (room(Use::Evaluate), State::zeros(&spec, fixture.batch));
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
    let spec = ModelSpec::paper(403, 131, 2, true);
    let case = Case::random(&spec, (17, 5), 0.2, Some(0.7), 5);
    let run = |threads, precision| {
        let (weights, mut gradient) = (params(&spec, &case.params), Params::zeros(&spec));
        let mut network = Network::new(&spec, Compute::with_threads(threads).at(precision), Use::Train, 17, 5);
        let window =
            Window { steps: 17, batch: 5, inputs: case.window.inputs.clone(), targets: case.window.targets.clone() };
        let mut state = fast_state(&spec, case.window.batch, &case.state.parts);
        network.pack(&weights, Use::Train);
        let augment =
            Some(AugmentedLoss { tau: 20.0, gamma: 0.65, cross: 1.0, flow: true, form: AugmentedForm::Exact });
        let loss = network.train(
            &weights,
            &window,
            &mut state,
            Pass { masks: None, augment, ..Pass::default() },
            &mut gradient,
        );
        let norm = optim::global_norm(network.compute(), &gradient);
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
    let spec = ModelSpec::paper(103, 21, 2, true);
    let case = Case::random(&spec, (11, 3), 0.6, Some(0.7), 13);
    let weights = params(&spec, &case.params);
    let window =
        Window { steps: 11, batch: 3, inputs: case.window.inputs.clone(), targets: case.window.targets.clone() };
    let masks = fast_masks(&case);
    let run = |augment: Option<AugmentedLoss>| {
        let team = Arc::new(Team::new(2));
        let mut network = Network::new(&spec, Compute::new(team, Isa::detect()), Use::Train, 11, 3);
        let (mut gradient, mut state) = (Params::zeros(&spec), fast_state(&spec, case.window.batch, &case.state.parts));
        network.pack(&weights, Use::Train);
        let loss = network.train(
            &weights,
            &window,
            &mut state,
            Pass { masks: masks.as_ref(), augment, ..Pass::default() },
            &mut gradient,
        );
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

/// The masks by site of a case, of which the oracle has one for each step.
fn masks_by_site(case: &Case) -> Option<Masks> {
    let all = |masks: &[Vec<f64>]| -> Vec<Vec<f32>> { masks.iter().map(|m| narrow(m)).collect() };
    case.masks.as_ref().map(|m| {
        let mut masks = Masks {
            input: narrow(&m.input),
            states: all(&m.states),
            outputs: all(&m.outputs),
            projection: narrow(&m.projection),
            ..Masks::default()
        };
        if !m.gate_states.is_empty() {
            // The masks of a layer's inputs are with what gives them.
            masks.per_gate = vec![Site::Input, Site::State, Site::Between].into();
            let mut inputs = m.gate_inputs.iter().map(|gates| narrow(&gates.concat()));
            masks.input = inputs.next().unwrap();
            masks.outputs.iter_mut().zip(inputs).for_each(|(output, mask)| *output = mask);
            masks.states = m.gate_states.iter().map(|gates| narrow(&gates.concat())).collect();
        }
        masks
    })
}

#[test]
fn every_unit_width_and_site_agrees_with_the_oracle() {
    for (isa, (i, spec)) in
        Isa::available().into_iter().flat_map(|isa| specs::all(31).into_iter().enumerate().map(move |s| (isa, s)))
    {
        let case = Case::random(&spec, (9, 3), 0.6, None, 60 + i as u64);
        let (by_site, by_gate) = (case.clone().by_site(0.6, 70 + i as u64), case.clone().by_gate(0.6, 80 + i as u64));
        for (masks, case) in [("no", case), ("masks by site", by_site), ("masks by gate", by_gate)] {
            let what = format!("{isa:?} {spec:?}, {masks}");
            let truth = case.run(None);
            let mut network = Network::new(&spec, Compute::new(Arc::new(Team::new(2)), isa), Use::Train, 9, 3);
            let (weights, mut gradient) = (params(&spec, &case.params), Params::zeros(&spec));
            gradient.data_mut().fill(f32::NAN);
            let (inputs, targets) = (case.window.inputs.clone(), case.window.targets.clone());
            let window = Window { steps: 9, batch: 3, inputs, targets };
            let masks = masks_by_site(&case);
            let [ar, tar] = case.activity.map(|x| x as f32);
            let pass = Pass { masks: masks.as_ref(), activity: Activity { ar, tar }, ..Pass::default() };
            let mut state = fast_state(&spec, 3, &case.state.parts);
            network.pack_masked(&weights, Use::Train, pass);
            let loss = network.train(&weights, &window, &mut state, pass, &mut gradient);
            assert!((loss.ce / 27.0 - truth.mean_ce).abs() <= 1e-6 * truth.mean_ce, "{what}: {loss:?}");
            assert_gradient(&what, &gradient, &truth.gradient, 2e-5);
            for (part, expected) in state.parts.iter().zip(&truth.state.parts) {
                for (found, expected) in part.values.iter().zip(expected) {
                    assert!(
                        (f64::from(*found) - expected).abs() < 4e-6,
                        "{what}: the carried state: {found}, {expected}"
                    );
                }
            }
        }
    }
}

/// A masked recurrent matrix is another matrix, whose gradient is masked too; and so is a word that is dropped.
#[test]
fn weight_and_word_masks_are_those_of_a_masked_model() {
    for spec in specs::all(31) {
        let case = Case::random(&spec, (7, 2), 0.6, None, 5);
        let weights = params(&spec, &case.params);
        let window =
            Window { steps: 7, batch: 2, inputs: case.window.inputs.clone(), targets: case.window.targets.clone() };
        let dropout = Dropout { weights: KeepProb(0.5), word: KeepProb(0.7), ..Dropout::default() };
        let mut masks = Masks::default();
        masks.draw_by_site(&dropout, &spec, &window, (1, 3));
        assert!(masks.words.contains(&0.0));
        let run = |weights: &Params, masks: &Masks| {
            let (mut network, mut gradient) =
                (Network::new(&spec, Compute::with_threads(2), Use::Train, 7, 2), weights.zeros_like());
            let pass = Pass { masks: Some(masks), ..Pass::default() };
            network.pack_masked(weights, Use::Train, pass);
            let mut state = fast_state(&spec, 2, &case.state.parts);
            let loss = network.train(weights, &window, &mut state, pass, &mut gradient);
            (loss.ce, gradient)
        };
        let (ce, gradient) = run(&weights, &masks);
        // The same by hand: the matrices with their masks, and the word masks as masks of all values.
        let mut by_hand = weights.clone();
        let width = spec.input.width;
        let input = masks.words.iter().flat_map(|&m| vec![m; width]).collect();
        let none = vec![Vec::new(); spec.layers.len()];
        let plain = Masks { input, states: none.clone(), outputs: none, ..Masks::default() };
        let matrices: Vec<_> = spec.layout().layers.iter().map(|layer| layer.levels.clone()).collect();
        for (levels, masks) in matrices.iter().zip(&masks.weights) {
            for (level, mask) in levels.iter().zip(masks) {
                by_hand.of_mut(level.w_hh).iter_mut().zip(mask).for_each(|(w, m)| *w *= m);
            }
        }
        let (expected, mut d_expected) = run(&by_hand, &plain);
        for (levels, masks) in matrices.iter().zip(&masks.weights) {
            for (level, mask) in levels.iter().zip(masks) {
                d_expected.of_mut(level.w_hh).iter_mut().zip(mask).for_each(|(w, m)| *w *= m);
            }
        }
        assert_eq!(ce, expected, "{spec:?}");
        let expected: Vec<f64> = d_expected.data().iter().map(|&x| f64::from(x)).collect();
        assert_gradient(&format!("{spec:?}"), &gradient, &expected, 1e-6);
    }
}

/// A `y~` that is given, as a teacher gives it, has the gradient of the same `y~` as the word vectors estimate it, where that
/// counts as a constant.
#[test]
fn given_targets_agree_with_the_oracle() {
    for (isa, tied) in Isa::available().into_iter().flat_map(|isa| [(isa, true), (isa, false)]) {
        let spec = ModelSpec::paper(53, 21, 2, tied);
        let case = Case::random(&spec, (19, 3), 0.6, Some(0.6), 12);
        let truth = case.run(Some(Augment { tau: 3.0, gamma: 0.65, flow: false }));
        let mut network = Network::new(&spec, Compute::new(Arc::new(Team::new(2)), isa), Use::Train, 19, 3);
        let (weights, mut gradient) = (params(&spec, &case.params), Params::zeros(&spec));
        let (inputs, targets) = (case.window.inputs.clone(), case.window.targets.clone());
        let window = Window { steps: 19, batch: 3, inputs, targets };
        let (layout, vectors) = (oracle::layout::Layout::new(&spec), spec.layout());
        let given = network.given_targets(window.targets.len()).chunks_exact_mut(53).zip(&window.targets);
        for (y, &target) in given {
            let u = layout.word_vector(&case.params, target);
            let similarities: Vec<f64> = case.params[vectors.range(vectors.embedding)]
                .chunks(21)
                .map(|v| v.iter().zip(u).map(|(v, u)| v * u).sum())
                .collect();
            let log = oracle::loss::at_temperature(&similarities, 3.0);
            y.iter_mut().zip(log).for_each(|(y, log)| *y = log.exp() as f32);
        }
        let masks = fast_masks(&case);
        let form = AugmentedForm::Given;
        let augment = Some(AugmentedLoss { tau: 3.0, gamma: 0.65, cross: 1.0, flow: false, form });
        let mut state = fast_state(&spec, 3, &case.state.parts);
        network.pack(&weights, Use::Train);
        let pass = Pass { masks: masks.as_ref(), augment, ..Pass::default() };
        let loss = network.train(&weights, &window, &mut state, pass, &mut gradient);
        let words = window.targets.len() as f64;
        assert!((loss.kl / words - truth.mean_kl).abs() <= 1e-5 * truth.mean_kl, "{loss:?}");
        assert_gradient(&format!("{isa:?}, tied {tied}, given"), &gradient, &truth.gradient, 1e-5);
    }
}
