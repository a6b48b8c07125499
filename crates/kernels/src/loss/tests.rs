use super::*;
use crate::reference::{self, numbers};

fn close(got: &[f32], want: &[f64], what: &str) {
    let largest = want.iter().fold(1e-9f64, |m, x| m.max(x.abs()));
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*g) - w).abs() < 3e-6 * largest, "{what}[{i}]: {g} {w}");
    }
}

struct Case {
    z: Vec<f32>,
    bias: Option<(Vec<f32>, Vec<f32>, f32)>,
    target: usize,
    s: Vec<f32>,
}

impl Case {
    fn new(n: usize, untied: bool) -> Case {
        let bias = untied.then(|| {
            let values: Vec<f32> = numbers(7, n).iter().map(|x| 3.0 * x).collect();
            let max = values.iter().copied().fold(f32::MIN, f32::max);
            let exp = values.iter().map(|b| (b - max).exp()).collect();
            (values, exp, max)
        });
        let scaled = |seed, by: f32| numbers(seed, n).iter().map(|x| by * x).collect();
        Case { z: scaled(1, 12.0), s: scaled(2, 9.0), bias, target: n / 2 }
    }

    fn bias(&self) -> Option<Bias<'_>> {
        self.bias.as_ref().map(|(values, exp, max)| Bias { values, exp, max: *max })
    }
}

const SIZES: [usize; 7] = [1, 2, 7, 16, 100, 513, 1031];

#[test]
fn cross_entropy_agrees_with_the_naive_one() {
    for isa in Isa::available() {
        for n in SIZES {
            for untied in [false, true] {
                let case = Case::new(n, untied);
                let (want, d_z, _) = reference::loss(&case.z, case.bias().map(|b| b.values), case.target, None);
                let (mut z, mut d_bias) = (case.z.clone(), vec![0.0; n]);
                assert!(
                    (log_sum(isa, &z, case.bias()).value() - want.log_sum).abs() < 1e-6 * want.log_sum.abs().max(1.0)
                );
                let got = cross_entropy(isa, &mut z, case.bias(), case.target, 1.0, Some(&mut d_bias));
                assert_eq!(d_bias, z);
                assert!((got.ce - want.ce).abs() < 1e-6 * want.ce.max(1.0), "{isa:?} {n}: {got:?} {}", want.ce);
                close(&z, &d_z, "d_logits");
                let mut y = case.z.clone();
                softmax(isa, &mut y, case.bias());
                let sum: f64 = y.iter().map(|&y| f64::from(y)).sum();
                assert!((sum - 1.0).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn the_augmented_loss_agrees_with_the_naive_one() {
    for isa in Isa::available() {
        for n in SIZES {
            for untied in [false, true] {
                for tau in [1.0, 2.5, 4.0, 20.0] {
                    let case = Case::new(n, untied);
                    let (gamma, scale) = (0.65, 0.05);
                    let naive = Some((&case.s[..], tau, gamma));
                    let bias = case.bias();
                    let (want, d_z, d_s) = reference::loss(&case.z, bias.map(|b| b.values), case.target, naive);
                    let (d_z, d_s): (Vec<f64>, Vec<f64>) =
                        d_z.iter().zip(&d_s).map(|(a, b)| (a * f64::from(scale), b * f64::from(scale))).unzip();
                    let (mut target, mut log_target) = (case.s.clone(), vec![0.0; n]);
                    let negentropy = target_distribution(isa, &mut target, tau, Some(&mut log_target));
                    let mut alone = case.s.clone();
                    assert_eq!(target_distribution(isa, &mut alone, tau, None), negentropy);
                    assert_eq!(alone, target);
                    let aug = Augment { tau, scale: gamma * scale, target: &target, target_negentropy: negentropy };
                    let (mut z, mut d_bias) = (case.z.clone(), vec![0.0; n]);
                    let stop = augmented(isa, &mut z, bias, case.target, scale, aug, Some(&mut d_bias));
                    let mut d_scores = case.z.clone();
                    flow(isa, &mut d_scores, 1, aug, &log_target);
                    let (_, d_b, _) = reference::loss(&case.z, bias.map(|b| b.values), case.target, None);
                    let d_b: Vec<f64> = d_b.iter().map(|d| d * f64::from(scale)).collect();
                    close(&d_bias, &d_b, "d_bias");
                    let what = format!("{isa:?} {n} untied {untied} tau {tau}: {stop:?}, {} {}", want.ce, want.kl);
                    assert!((stop.ce - want.ce).abs() < 4e-6 * want.ce.max(1.0), "{what}");
                    assert!((stop.kl - want.kl).abs() < 1e-6 * want.kl.max(1.0), "{what}");
                    close(&z, &d_z, &what);
                    close(&d_scores, &d_s, &what);
                    // Another word with the same target: the gradient of both, from the sum of their logits.
                    let other = numbers(5, n);
                    let (_, _, d_s_other) = reference::loss(&other, bias.map(|b| b.values), case.target, naive);
                    let both: Vec<f64> = d_s.iter().zip(&d_s_other).map(|(a, b)| a + b * f64::from(scale)).collect();
                    let mut d_scores: Vec<f32> = case.z.iter().zip(&other).map(|(a, b)| a + b).collect();
                    flow(isa, &mut d_scores, 2, aug, &log_target);
                    close(&d_scores, &both, &what);
                }
            }
        }
    }
}

#[test]
fn a_word_among_huge_logits_keeps_its_probability() {
    for isa in Isa::available() {
        // The other words share the largest logit, so the target has a third of the mass however large that is.
        for largest in [0.0f32, 1e3, 1e9, 1e20, 3e38] {
            let z = vec![largest; 3];
            let ce = minus_log_probability(isa, &z, None, 1);
            assert!((ce - 3f64.ln()).abs() < 1e-6, "{isa:?} {largest}: {ce}");
            let loss = cross_entropy(isa, &mut z.clone(), None, 1, 1.0, None);
            assert!((loss.ce - 3f64.ln()).abs() < 1e-6, "{isa:?} {largest}: {loss:?}");
        }
    }
}
