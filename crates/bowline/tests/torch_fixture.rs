//! The oracle against PyTorch, f64 against f64: logits, every gradient, ten training steps, evaluation.

mod fixture;
mod oracle;

use fixture::{Fixture, TorchCase};
use oracle::{Augment, Masks, Pass, State, Window, sgd};

/// Relative to the largest value of what is compared.
const TOLERANCE: f64 = 1e-11;

fn assert_close(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= TOLERANCE * scale, "{what}: value {i} is {f:e}, PyTorch has {e:e}");
    }
}

fn window(fixture: &Fixture, k: usize) -> Window {
    Window { steps: fixture.steps, batch: fixture.batch, inputs: fixture.inputs(k), targets: fixture.targets(k) }
}

fn masks(fixture: &Fixture, k: usize) -> Masks {
    let mut masks = fixture.masks(k);
    Masks::held(fixture.steps, &masks.remove(0), &masks)
}

fn initial_state(fixture: &Fixture) -> State {
    let layers = |x: &[f64]| x.chunks_exact(fixture.batch * fixture.hidden).map(<[f64]>::to_vec).collect::<Vec<_>>();
    let both = layers(&fixture.state.h).into_iter().zip(layers(&fixture.state.c));
    State { parts: both.flat_map(|(h, c)| [h, c]).collect() }
}

/// `h` (0) or `c` (1) of all layers.
fn every_other(state: &State, first: usize) -> Vec<f64> {
    state.parts.iter().skip(first).step_by(2).flatten().copied().collect()
}

fn augment(case: &TorchCase) -> Option<Augment> {
    case.augment.map(|a| Augment { tau: a.tau, gamma: a.gamma, flow: a.flow })
}

#[test]
fn the_fixture_covers_the_four_models_with_and_without_clipping() {
    let fixture = Fixture::load();
    let names: Vec<&str> = fixture.cases.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["vd-lstm", "al-flow", "al-stop", "re", "real-flow", "real-stop"]);
    assert_eq!(fixture.windows(), 10);
    for case in &fixture.cases {
        assert_eq!(case.tied, case.name.starts_with("re"));
        assert_eq!(case.augment.map(|a| a.flow), case.name.split_once('-').and_then(|(_, g)| flow(g)));
        let clipped = case.gradient_norms.iter().filter(|n| **n > fixture.clip).count();
        assert!((1..fixture.windows()).contains(&clipped), "{}: {clipped} steps are clipped", case.name);
    }
}

fn flow(name: &str) -> Option<bool> {
    match name {
        "flow" => Some(true),
        "stop" => Some(false),
        _ => None,
    }
}

#[test]
fn logits_and_gradients_of_the_first_window_are_pytorch_s() {
    let fixture = Fixture::load();
    let (window, masks, state) = (window(&fixture, 0), masks(&fixture, 0), initial_state(&fixture));
    for case in &fixture.cases {
        let spec = fixture.spec(case);
        let pass = Pass {
            spec: &spec,
            window: &window,
            state: &state,
            masks: Some(&masks),
            augment: augment(case),
            activity: [0.0; 2],
            features: &[],
            pointed: &[],
            corrections: &[],
            spelling: &[],
            context: &[],
        };
        let output = pass.run(&fixture.params(case));
        assert_close(&format!("{}, logits", case.name), &output.logits, &case.logits);
        let expected = fixture.gradient(case);
        for tensor in spec.layout().tensors() {
            let what = format!("{}, gradient of {}", case.name, tensor.name);
            assert_close(&what, &output.gradient[tensor.range()], &expected[tensor.range()]);
        }
    }
}

#[test]
fn ten_training_steps_and_the_evaluation_after_them_are_pytorch_s() {
    let fixture = Fixture::load();
    for case in &fixture.cases {
        let (name, spec) = (&case.name, fixture.spec(case));
        let (mut params, mut state) = (fixture.params(case), initial_state(&fixture));
        for k in 0..fixture.windows() {
            let (window, masks) = (window(&fixture, k), masks(&fixture, k));
            let pass = Pass {
                spec: &spec,
                window: &window,
                state: &state,
                masks: Some(&masks),
                augment: augment(case),
                activity: [0.0; 2],
                features: &[],
                pointed: &[],
                corrections: &[],
                spelling: &[],
                context: &[],
            };
            let output = pass.run(&params);
            let norm = sgd::step(&mut params, &output.gradient, fixture.learning_rate, fixture.clip);
            assert_close(&format!("{name}, loss of window {k}"), &[output.loss], &case.losses[k..=k]);
            assert_close(&format!("{name}, CE of window {k}"), &[output.mean_ce], &case.mean_ce[k..=k]);
            assert_close(&format!("{name}, KL of window {k}"), &[output.mean_kl], &case.mean_kl[k..=k]);
            assert_close(&format!("{name}, norm of window {k}"), &[norm], &case.gradient_norms[k..=k]);
            state = output.state;
        }
        assert_close(&format!("{name}, h at the end"), &every_other(&state, 0), &case.state.h);
        assert_close(&format!("{name}, c at the end"), &every_other(&state, 1), &case.state.c);

        let (mut state, mut total) = (State::zeros(&spec, fixture.batch), 0.0);
        for k in 0..fixture.windows() {
            let window = window(&fixture, k);
            let output = Pass {
                spec: &spec,
                window: &window,
                state: &state,
                masks: None,
                augment: None,
                activity: [0.0; 2],
                features: &[],
                pointed: &[],
                corrections: &[],
                spelling: &[],
                context: &[],
            }
            .run(&params);
            (state, total) = (output.state, total + output.mean_ce);
        }
        assert_close(&format!("{name}, evaluation"), &[total / fixture.windows() as f64], &[case.evaluation_ce]);
    }
}
