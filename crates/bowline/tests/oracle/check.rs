//! What tests of the oracle and of the fast path compare with.

use super::case::{Case, Random};

/// Values as the fast path has them.
pub fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|&x| x as f32).collect()
}

/// Each value within `tolerance` of the largest one.
pub fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * scale, "{what}: value {i} is {f:e}, not {e:e}");
    }
}

/// The oracle's gradient against finite differences, along a random direction in each tensor.
pub fn slopes_match(case: &Case) {
    let pass = case.pass(None);
    let gradient = pass.run(&case.params).gradient;
    let mut random = Random::new(4);
    for tensor in case.spec.layout().tensors() {
        let mut direction = vec![0.0; case.params.len()];
        tensor.range().for_each(|i| direction[i] = random.within(1.0));
        let along = |e: f64| {
            let moved: Vec<f64> = case.params.iter().zip(&direction).map(|(p, v)| p + e * v).collect();
            pass.loss(&moved, &moved)
        };
        let e = 3e-4;
        let expected = (8.0 * (along(e) - along(-e)) - (along(2.0 * e) - along(-2.0 * e))) / (12.0 * e);
        let found: f64 = gradient.iter().zip(&direction).map(|(g, v)| g * v).sum();
        assert!((found - expected).abs() <= 1e-7 * expected.abs().max(0.1), "{}: {found} {expected}", tensor.name);
    }
}
