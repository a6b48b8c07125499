//! Finite differences check the oracle's gradients, in all combinations of tied or untied, augmented loss off, flowing
//! or stopped, masks on or off, with a carried state that is not zero.
//!
//! The difference quotient is the central one of fourth order,
//! `(8 (f(e) - f(-e)) - (f(2e) - f(-2e))) / 12e`: in f64 with `e = 1e-3` all slopes here agree to
//! better than a relative 1e-8; the rest of the tolerance is for other machines' `exp` and `tanh`.

mod oracle;
mod specs;

use bowline::spec::ModelSpec;
use oracle::case::{Case, Random};
use oracle::loss;
use oracle::{Augment, Pass, sgd};

const STEP: f64 = 1e-3;

/// Step and agreement for units with kinks (rectifiers, the coupled gate), which a larger step would reach over.
const SHORT_STEP: f64 = 1e-6;
const ROUGHLY: f64 = 1e-5;

/// Agreement of a slope with the gradient, relative to the gradient's usual size along such a direction.
const TOLERANCE: f64 = 1e-7;

/// The derivative at 0 of a function of one variable.
fn slope(f: impl Fn(f64) -> f64) -> f64 {
    slope_by(STEP, f)
}

fn slope_by(step: f64, f: impl Fn(f64) -> f64) -> f64 {
    (8.0 * (f(step) - f(-step)) - (f(2.0 * step) - f(-2.0 * step))) / (12.0 * step)
}

/// The derivative of a pass's loss along a direction. With `flow`, or without the augmented loss, all that depends on
/// the weights moves; with "stop", `y~` keeps the weights where we stand.
fn slope_along(pass: &Pass, params: &[f64], direction: &[f64]) -> f64 {
    slope_along_by(STEP, pass, params, direction)
}

fn slope_along_by(step: f64, pass: &Pass, params: &[f64], direction: &[f64]) -> f64 {
    let stopped = pass.augment.is_some_and(|a| !a.flow);
    slope_by(step, |e| {
        let moved: Vec<f64> = params.iter().zip(direction).map(|(p, v)| p + e * v).collect();
        pass.loss(&moved, if stopped { params } else { &moved })
    })
}

/// Unit length, random within `range`, zero elsewhere.
fn random_direction(random: &mut Random, len: usize, range: std::ops::Range<usize>) -> Vec<f64> {
    let mut direction = vec![0.0; len];
    for i in range {
        direction[i] = random.within(1.0);
    }
    let norm = sgd::global_norm(&direction);
    direction.iter().map(|v| v / norm).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Every combination that has to be right, with its name, for models of `layers` layers.
fn combinations(layers: usize) -> Vec<(String, Case, Option<Augment>)> {
    let augments = [
        ("AL off", None),
        ("AL flow", Some(Augment { tau: 1.7, gamma: 0.8, flow: true })),
        ("AL stop", Some(Augment { tau: 1.7, gamma: 0.8, flow: false })),
    ];
    let mut all = Vec::new();
    for tied in [false, true] {
        for (augment_name, augment) in augments {
            for keep in [None, Some(0.6)] {
                let spec = ModelSpec::paper(7, 3, layers, tied);
                let seed = 10 * layers as u64 + u64::from(tied);
                let case = Case::random(&spec, (5, 2), 0.5, keep, seed);
                let tie = if tied { "tied" } else { "untied" };
                let masks = if keep.is_some() { "masks" } else { "no masks" };
                all.push((format!("{layers} layers, {tie}, {augment_name}, {masks}"), case, augment));
            }
        }
    }
    all
}

#[test]
fn slopes_along_random_directions_match_the_gradient() {
    let mut random = Random::new(1);
    for layers in 1..=3 {
        for (name, case, augment) in combinations(layers) {
            let (pass, n) = (case.pass(augment), case.params.len());
            let output = pass.run(&case.params);
            assert!(output.loss.is_finite(), "{name}: the loss is {}", output.loss);
            // All tensors together, then each tensor by itself.
            let mut parts = vec![("all tensors".to_owned(), 0..n); 4];
            parts.extend(case.spec.layout().tensors().iter().map(|t| (t.name.clone(), t.range())));
            for (part, range) in parts {
                let gradient = &output.gradient[range.clone()];
                let norm = sgd::global_norm(gradient);
                assert!(norm > 1e-3, "{name}: the gradient of {part} is nearly zero ({norm:e}), so nothing is checked");
                let direction = random_direction(&mut random, n, range.clone());
                let (expected, found) =
                    (slope_along(&pass, &case.params, &direction), dot(&output.gradient, &direction));
                let scale = norm / (gradient.len() as f64).sqrt();
                assert!(
                    (found - expected).abs() <= TOLERANCE * scale,
                    "{name}: along a random direction of {part} the loss rises by {expected:e}, the gradient says {found:e}"
                );
            }
        }
    }
}

/// Every unit, with layers of unequal width, word vectors of another size, a projection, tied with a bias and untied without,
/// masks of every kind, and regularised activity.
fn of_all_parts() -> Vec<(String, Case)> {
    let mut all = Vec::new();
    for (i, spec) in specs::all(7).into_iter().enumerate() {
        let case = Case::random(&spec, (5, 2), 0.5, None, 40 + i as u64);
        all.push((format!("{spec:?}, no masks"), case.clone()));
        all.push((format!("{spec:?}, masks by site"), case.clone().by_site(0.6, 90 + i as u64)));
        all.push((format!("{spec:?}, masks by gate"), case.by_gate(0.6, 110 + i as u64)));
    }
    all
}

#[test]
fn slopes_of_every_unit_and_site_match_the_gradient() {
    let mut random = Random::new(3);
    for (name, case) in of_all_parts() {
        let (pass, n) = (case.pass(None), case.params.len());
        let gradient = pass.run(&case.params).gradient;
        for tensor in case.spec.layout().tensors() {
            let own = &gradient[tensor.range()];
            let norm = sgd::global_norm(own);
            assert!(norm > 1e-4, "{name}: the gradient of {} is nearly zero ({norm:e})", tensor.name);
            let scale = norm / (own.len() as f64).sqrt();
            for _ in 0..2 {
                let direction = random_direction(&mut random, n, tensor.range());
                let (expected, found) =
                    (slope_along_by(SHORT_STEP, &pass, &case.params, &direction), dot(&gradient, &direction));
                assert!(
                    (found - expected).abs() <= ROUGHLY * scale,
                    "{name}: along {} the loss rises by {expected:e}, the gradient says {found:e}",
                    tensor.name
                );
            }
        }
    }
}

#[test]
fn slopes_along_every_single_weight_match_the_gradient() {
    for (name, case, augment) in combinations(2) {
        let (pass, n) = (case.pass(augment), case.params.len());
        let gradient = pass.run(&case.params).gradient;
        for tensor in case.spec.layout().tensors() {
            let scale = sgd::global_norm(&gradient[tensor.range()]) / (tensor.len() as f64).sqrt();
            for i in tensor.range() {
                let mut direction = vec![0.0; n];
                direction[i] = 1.0;
                let expected = slope_along(&pass, &case.params, &direction);
                assert!(
                    (gradient[i] - expected).abs() <= TOLERANCE * scale,
                    "{name}: by {}[{}] the loss rises by {expected:e}, the gradient says {:e}",
                    tensor.name,
                    i - tensor.offset,
                    gradient[i]
                );
            }
        }
    }
}

#[test]
fn the_augmented_loss_has_the_paper_s_gradient_by_the_logits() {
    let mut random = Random::new(2);
    for tau in [1.0, 2.5, 20.0] {
        let mut values = |scale| (0..9).map(|_| random.within(scale)).collect::<Vec<f64>>();
        // Scores of size tau, so that the distributions differ visibly at each temperature.
        let (scores, similarities) = (values(2.0 * tau), values(2.0 * tau));
        let probabilities = |x: &[f64]| -> Vec<f64> {
            let exps: Vec<f64> = x.iter().map(|x| (x / tau).exp()).collect();
            exps.iter().map(|e| e / exps.iter().sum::<f64>()).collect()
        };
        let (y_hat, y_tilde) = (probabilities(&scores), probabilities(&similarities));
        let kl: f64 = y_tilde.iter().zip(&y_hat).map(|(tilde, hat)| tilde * (tilde / hat).ln()).sum();
        assert!((loss::augmented_loss(&scores, &similarities, tau) - kl).abs() < 1e-14);
        let by_scores = loss::gradient_by_scores(&scores, &similarities, tau);
        let by_similarities = loss::gradient_by_similarities(&scores, &similarities, tau);
        for i in 0..scores.len() {
            let moved = |x: &[f64], e: f64| {
                let mut x = x.to_vec();
                x[i] += e;
                x
            };
            // Equation 3.4.
            assert!((by_scores[i] - (y_hat[i] - y_tilde[i]) / tau).abs() < 1e-15);
            let expected = slope(|e| loss::augmented_loss(&moved(&scores, e), &similarities, tau));
            assert!((by_scores[i] - expected).abs() < 1e-11, "tau {tau}: {} against {expected}", by_scores[i]);
            let expected = slope(|e| loss::augmented_loss(&scores, &moved(&similarities, e), tau));
            assert!(
                (by_similarities[i] - expected).abs() < 1e-11,
                "tau {tau}: {} against {expected}",
                by_similarities[i]
            );
        }
    }
}

#[test]
fn the_loss_is_the_sum_over_the_steps_and_the_mean_over_the_streams() {
    for (name, case, augment) in combinations(2) {
        let output = case.run(augment);
        let alpha = augment.map_or(0.0, |a| a.gamma * a.tau);
        let expected = case.window.steps as f64 * (output.mean_ce + alpha * output.mean_kl);
        assert!((output.loss - expected).abs() < 1e-12 * expected, "{name}: {} against {expected}", output.loss);
        assert_eq!(augment.is_some(), output.mean_kl > 1e-3, "{name}: mean KL {}", output.mean_kl);
    }
}

#[test]
fn a_window_cut_in_two_gives_the_same_predictions_and_state() {
    for (name, case, augment) in combinations(2) {
        let whole = case.run(augment);
        let at = 2 * case.window.batch;
        let mut first = case.clone();
        first.window.steps = 2;
        first.window.inputs.truncate(at);
        first.window.targets.truncate(at);
        let mut second = case.clone();
        second.window.steps -= 2;
        second.window.inputs.drain(..at);
        second.window.targets.drain(..at);
        let before = first.run(augment);
        second.state = before.state.clone();
        let after = second.run(augment);
        let logits: Vec<f64> = before.logits.iter().chain(&after.logits).copied().collect();
        assert_eq!(logits, whole.logits, "{name}");
        assert_eq!(after.state, whole.state, "{name}");
        assert!((before.loss + after.loss - whole.loss).abs() < 1e-12 * whole.loss, "{name}");
    }
}

#[test]
fn steps_are_clipped_by_the_global_norm() {
    let mut params = vec![1.0, 1.0];
    assert_eq!(sgd::step(&mut params, &[3.0, 4.0], 0.5, 10.0), 5.0);
    assert_eq!(params, [-0.5, -1.0]);
    assert_eq!(sgd::step(&mut params, &[3.0, 4.0], 0.5, 2.5), 5.0);
    assert_eq!(params, [-1.25, -2.0]);
}
