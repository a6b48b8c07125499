//! What the paper derives about the augmented loss (sections 3, 4 and 5.2), held against the fast path.

mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{AugmentedForm, AugmentedLoss, Network, Pass, State, Use};
use bowline::params::Params;
use bowline::rng::{Purpose, Stream, unit};
use bowline::spec::ModelSpec;
use bowline::subspace;
use bowline_kernels::loss::{self, Augment};
use bowline_kernels::{Isa, Team};
use oracle::case::Case;
use std::sync::Arc;

fn random(n: usize, seed: u64) -> Vec<f32> {
    let mut x = vec![0.0; n];
    Stream::new(seed, Purpose::Weights, 0).fill(&mut x, |r| 2.0 * unit(r) - 1.0);
    x
}

/// Takes the mean out of every column of a row-major matrix: the paper assumes inner products that are zero on average.
fn centre(matrix: &mut [f32], columns: usize) {
    let rows = matrix.len() / columns;
    for j in 0..columns {
        let mean = (0..rows).map(|i| f64::from(matrix[i * columns + j])).sum::<f64>() / rows as f64;
        (0..rows).for_each(|i| matrix[i * columns + j] -= mean as f32);
    }
}

/// `rows` times a vector.
fn times(rows: &[f32], x: &[f32]) -> Vec<f32> {
    rows.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
}

/// The gradient of `scale * tau * J_aug` by the logits `z`, with the similarities `s = L^T u`.
fn gradient(isa: Isa, z: &[f32], s: &[f32], tau: f32, scale: f32) -> Vec<f32> {
    let (mut z, mut target) = (z.to_vec(), s.to_vec());
    let target_negentropy = loss::target_distribution(isa, &mut target, tau, None);
    loss::augmented(isa, &mut z, None, 0, 0.0, Augment { tau, scale, target: &target, target_negentropy }, None);
    z
}

/// Equation `Jaug_matching_logits`: the gradient of `J_aug` tends to `(W h - L^T u) / (tau^2 |V|)` as tau grows.
#[test]
fn at_high_temperature_the_augmented_loss_matches_logits() {
    const V: usize = 501;
    let (mut z, mut s) = (random(V, 1), random(V, 2));
    centre(&mut z, 1);
    centre(&mut s, 1);
    for isa in Isa::available() {
        let mut last = f64::INFINITY;
        for tau in [4.0f32, 16.0, 64.0, 256.0] {
            let found = gradient(isa, &z, &s, tau, 1.0 / tau);
            let limit = |i: usize| f64::from(z[i] - s[i]) / (f64::from(tau).powi(2) * V as f64);
            let off: f64 = (0..V).map(|i| (f64::from(found[i]) - limit(i)).powi(2)).sum();
            let size: f64 = (0..V).map(|i| limit(i).powi(2)).sum();
            let error = (off / size).sqrt();
            // The first term that is left out is of relative size 1 / tau.
            assert!(error < 1.0 / f64::from(tau), "{isa:?}, tau {tau}: {error}");
            assert!(error < 0.5 * last, "{isa:?}, tau {tau}: {error} after {last}");
            last = error;
        }
    }
}

/// Section 4: with the augmented loss alone, at high temperature and zero loss, `W = L^T A`.
#[test]
fn at_zero_loss_the_classifier_spans_what_the_word_vectors_span() {
    const V: usize = 60;
    const D: usize = 5;
    const TAU: f32 = 50.0;
    let isa = Isa::detect();
    let mut vectors = random(V * D, 3);
    let mut w = random(V * D, 4);
    centre(&mut vectors, D);
    centre(&mut w, D);
    // h_t = B u_t, a mapping that a network could have learned; zero loss is then possible, with A = B^-1.
    let b: Vec<f32> =
        random(D * D, 5).iter().enumerate().map(|(i, x)| 0.4 * x + if i % (D + 1) == 0 { 1.0 } else { 0.0 }).collect();
    let u = |t: usize| &vectors[t * D..(t + 1) * D];
    let before = subspace::distance(&vectors, &w, D).distance;
    let mut total = 0.0;
    for _ in 0..400 {
        total = 0.0;
        let mut d_w = vec![0.0; V * D];
        for t in 0..V {
            let h = times(&b, u(t));
            let (z, s) = (times(&w, &h), times(&vectors, u(t)));
            // The scale of equation `AL_mixture`: tau^2 |V| J_aug.
            for ((d_row, d_z), (z, s)) in
                d_w.chunks_exact_mut(D).zip(gradient(isa, &z, &s, TAU, TAU * V as f32)).zip(z.iter().zip(&s))
            {
                d_row.iter_mut().zip(&h).for_each(|(d, h)| *d += d_z * h);
                total += f64::from(z - s).powi(2);
            }
        }
        w.iter_mut().zip(&d_w).for_each(|(w, d)| *w -= 0.02 * d);
    }
    let after = subspace::distance(&vectors, &w, D).distance;
    assert!(before > 0.9, "{before}");
    assert!(total / ((V * V) as f64) < 1e-6, "the logits are matched: {total}");
    assert!(after < 2e-3, "{after}");
}

fn window(case: &Case, steps: usize, batch: usize) -> Window {
    Window { steps, batch, inputs: case.window.inputs.clone(), targets: case.window.targets.clone() }
}

/// The gradient of the fast path for a case, with any augmented loss, and any `y~` where it is given.
fn fast(case: &Case, spec: &ModelSpec, isa: Isa, augment: AugmentedLoss, given: Option<&[f32]>) -> Vec<f32> {
    let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let mut params = Params::zeros(spec);
    params.data_mut().copy_from_slice(&narrow(&case.params));
    let window = window(case, 7, 3);
    let mut network = Network::new(spec, Compute::new(Arc::new(Team::new(2)), isa), Use::Train, 7, 3);
    network.pack(&params, Use::Train);
    if let Some(given) = given {
        network.given_targets(window.targets.len()).copy_from_slice(given);
    }
    let mut state = State::zeros(spec, 3);
    for (part, values) in state.parts.iter_mut().zip(&case.state.parts) {
        part.values = narrow(values);
    }
    let mut gradient = Params::zeros(spec);
    network.train(
        &params,
        &window,
        &mut state,
        Pass { masks: None, augment: Some(augment), ..Pass::default() },
        &mut gradient,
    );
    gradient.data().to_vec()
}

fn assert_close(what: &str, found: &[f32], expected: &[f64]) {
    let largest = expected.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*f) - e).abs() < 2e-5 * largest, "{what}, weight {i}: {f}, expected {e}");
    }
}

/// Equation `AL_mixture`: `beta tau^2 |V| J_aug + (1 - beta) J`, against a combination of the oracle's gradients.
#[test]
fn the_mixture_of_the_losses_has_the_mixed_gradient() {
    for tied in [true, false] {
        let spec = ModelSpec::paper(31, 9, 2, tied);
        let case = Case::random(&spec, (7, 3), 0.6, None, 21);
        let (tau, gamma) = (5.0, 0.7);
        for flow in [false, true] {
            let plain = case.run(None).gradient;
            let both = case.run(Some(oracle::Augment { tau, gamma, flow })).gradient;
            for beta in [0.0, 0.3, 1.0] {
                // The gradient of J_aug alone is (both - plain) / (gamma tau).
                let weight = beta * tau * tau * 31.0 / (gamma * tau);
                let mixed: Vec<f64> =
                    plain.iter().zip(&both).map(|(p, b)| (1.0 - beta) * p + weight * (b - p)).collect();
                let augment = AugmentedLoss {
                    tau: tau as f32,
                    gamma: (beta * tau * 31.0) as f32,
                    cross: (1.0 - beta) as f32,
                    flow,
                    form: AugmentedForm::Exact,
                };
                for isa in Isa::available() {
                    let what = format!("{isa:?}, tied {tied}, flow {flow}, beta {beta}");
                    assert_close(&what, &fast(&case, &spec, isa, augment, None), &mixed);
                }
            }
        }
    }
}

/// A `y~` that is given does what the same one does when it is estimated.
#[test]
fn given_targets_do_what_estimated_ones_do() {
    for tied in [true, false] {
        let spec = ModelSpec::paper(31, 9, 2, tied);
        let case = Case::random(&spec, (7, 3), 0.6, None, 22);
        let isa = Isa::detect();
        let augment = AugmentedLoss { tau: 2.0, gamma: 0.7, cross: 1.0, flow: false, form: AugmentedForm::Exact };
        let vectors: Vec<f32> = case.params[..31 * 9].iter().map(|&x| x as f32).collect();
        let mut targets = Vec::new();
        for &word in &case.window.targets {
            let mut y = times(&vectors, &vectors[word as usize * 9..(word as usize + 1) * 9]);
            loss::target_distribution(isa, &mut y, 2.0, None);
            targets.extend(y);
        }
        let estimated: Vec<f64> = fast(&case, &spec, isa, augment, None).iter().map(|&x| f64::from(x)).collect();
        let given = AugmentedLoss { form: AugmentedForm::Given, ..augment };
        assert_close("given", &fast(&case, &spec, isa, given, Some(&targets)), &estimated);
        let uniform = vec![1.0 / 31.0; targets.len()];
        let other = fast(&case, &spec, isa, given, Some(&uniform));
        assert!(
            other.iter().zip(&estimated).any(|(a, b)| (f64::from(*a) - b).abs() > 1e-3),
            "other targets, other gradient"
        );
    }
}
