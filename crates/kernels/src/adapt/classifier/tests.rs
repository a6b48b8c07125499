use super::super::tests::{RULE, naive, scales, wide};
use super::*;
use crate::reference::numbers;

/// A classifier, a segment that it has read and what that left to be done.
struct Case {
    vocab: usize,
    d: usize,
    x: Vec<f32>,
    x0: Vec<f32>,
    r: Vec<Scale>,
    b: Vec<f32>,
    h: Vec<f32>,
    z: Vec<f32>,
    stride: usize,
    targets: Vec<u32>,
    minus: Vec<f32>,
    rows: Vec<u32>,
    gradients: Vec<f32>,
    next: Vec<f32>,
}

impl Case {
    fn new(isa: Isa, vocab: usize, steps: usize, d: usize) -> Case {
        let stride = steps.next_multiple_of(isa.lanes());
        let word = |i: usize| (i * 37 % vocab) as u32;
        // The later a row, the larger: what comes late leaves the largest so far behind, more than once.
        let x = numbers(1, vocab * d).iter().enumerate().map(|(i, x)| x * (1 + i / d / 30) as f32).collect();
        Case {
            vocab,
            d,
            x,
            x0: numbers(2, vocab * d),
            r: scales(3, vocab * d),
            b: numbers(4, vocab),
            h: numbers(5, steps * d),
            z: numbers(6, vocab * stride),
            stride,
            targets: (0..steps).map(word).collect(),
            minus: numbers(7, stride).iter().map(|x| x - 3.0).collect(),
            rows: (0..steps).map(|i| word(i / 2 + 1)).collect(),
            gradients: numbers(8, steps * d),
            next: numbers(9, steps * d),
        }
    }

    fn pending(&self) -> Pending<'_> {
        let Case { h, targets, minus, rows, gradients, .. } = self;
        Pending { h, targets, minus_log_sums: minus, rows, gradients }
    }

    /// The matrix and the bias after the step, in f64.
    fn stepped(&self, scaled: bool, biased: bool) -> (Vec<f64>, Vec<f64>) {
        let (d, steps) = (self.d, self.targets.len());
        let (mut x, mut b) = (wide(&self.x), wide(&self.b));
        let (h, z) = (wide(&self.h), wide(&self.z));
        let r = |i: usize| scaled.then(|| f64::from(self.r[i].value()));
        for v in 0..self.vocab {
            let slopes: Vec<f64> = (0..steps)
                .map(|t| {
                    let bias = if biased { b[v] } else { 0.0 };
                    let hit = if self.targets[t] as usize == v { 1.0 } else { 0.0 };
                    (z[v * self.stride + t] + bias + f64::from(self.minus[t])).exp() - hit
                })
                .collect();
            for j in 0..d {
                let g: f64 = (0..steps).map(|t| slopes[t] * h[t * d + j]).sum();
                let i = v * d + j;
                x[i] = naive(RULE, x[i], f64::from(self.x0[i]), g, r(i));
            }
            if biased {
                b[v] = naive(RULE, b[v], f64::from(self.b[v]) * 0.5, slopes.iter().sum(), r(v));
            }
        }
        for (&row, g) in self.rows.iter().zip(self.gradients.chunks_exact(d)) {
            for (j, &g) in g.iter().enumerate() {
                let i = row as usize * d + j;
                x[i] = naive(Rule { decay: 0.0, ..RULE }, x[i], 0.0, f64::from(g), r(i));
            }
        }
        (x, b)
    }

    /// Matrix, bias, logits, `Y W` and the logarithms of the sums.
    #[allow(clippy::type_complexity)]
    fn run(
        &self,
        isa: Isa,
        threads: usize,
        scaled: bool,
        biased: bool,
        step: bool,
        read: bool,
    ) -> (Vec<f32>, Vec<f32>, Vec<f32>, Vec<f32>, Vec<f64>) {
        let (mut x, mut b, mut z) = (self.x.clone(), self.b.clone(), self.z.clone());
        let b0: Vec<f32> = self.b.iter().map(|b| b * 0.5).collect();
        let mut columns = Columns::new(isa);
        columns.take(&self.next, self.d);
        let (mut y_w, mut log_sums) = (vec![5.0; self.next.len()], vec![0.0; self.stride]);
        let mut room = Buffer::new();
        room.grow(9);
        room.fill(f32::NAN);
        let classifier = Classifier {
            matrix: Weights { now: &mut x, trained: &self.x0, scale: scaled.then_some(&self.r[..]) },
            bias: biased.then(|| Weights { now: &mut b, trained: &b0, scale: scaled.then(|| &self.r[..self.vocab]) }),
        };
        let reading = read.then(|| Reading { columns: &columns, y_w: &mut y_w, log_sums: &mut log_sums });
        let pending = step.then(|| (self.pending(), RULE));
        pass(&Team::new(threads), isa, classifier, self.d, &mut z, pending, reading, &mut room);
        (x, b, z, y_w, log_sums)
    }
}

fn close(got: f32, want: f64, tolerance: f64) -> bool {
    (f64::from(got) - want).abs() <= tolerance * want.abs().max(1.0)
}

#[test]
fn a_pass_is_a_step_and_a_reading_by_plain_loops() {
    for isa in Isa::available() {
        for (vocab, steps, d) in [(1, 1, 1), (9, 3, 19), (203, 20, 40), (1207, 13, 33)] {
            let case = Case::new(isa, vocab, steps, d);
            let next = wide(&case.next);
            for (scaled, biased, step) in
                [(false, false, true), (true, true, true), (false, true, false), (true, false, true)]
            {
                let result = case.run(isa, 1, scaled, biased, step, true);
                assert!(case.run(isa, 2, scaled, biased, step, true) == result);
                assert!(case.run(isa, 3, scaled, biased, step, true) == result);
                let (x, b, z, y_w, log_sums) = result;
                let (want_x, want_b) = if step { case.stepped(scaled, biased) } else { (wide(&case.x), wide(&case.b)) };
                assert!(x.iter().zip(&want_x).all(|(x, &want)| close(*x, want, 2e-5)), "{isa:?} {vocab}");
                assert!(b.iter().zip(&want_b).all(|(b, &want)| close(*b, want, 2e-5)), "{isa:?} {vocab}");
                for t in 0..steps {
                    let logits: Vec<f64> =
                        (0..vocab).map(|v| (0..d).map(|j| want_x[v * d + j] * next[t * d + j]).sum::<f64>()).collect();
                    for v in 0..vocab {
                        assert!(close(z[v * case.stride + t], logits[v], 5e-5), "{isa:?} {vocab} {v} {t}");
                    }
                    let bias = |v: usize| if biased { want_b[v] } else { 0.0 };
                    let largest = (0..vocab).map(|v| logits[v] + bias(v)).fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = (0..vocab).map(|v| (logits[v] + bias(v) - largest).exp()).sum();
                    let want = largest + sum.ln();
                    assert!((log_sums[t] - want).abs() < 5e-4, "{isa:?} {vocab}: {} {want}", log_sums[t]);
                    for j in 0..d {
                        let want: f64 =
                            (0..vocab).map(|v| (logits[v] + bias(v) - want).exp() * want_x[v * d + j]).sum();
                        assert!(close(y_w[t * d + j], want, 2e-3), "{isa:?} {vocab}: {} {want}", y_w[t * d + j]);
                    }
                }
            }
        }
    }
}

#[test]
fn a_step_alone_is_the_same_step_and_so_are_rows_asked_for_before_it() {
    for isa in Isa::available() {
        for (vocab, steps, d) in [(9, 3, 19), (203, 20, 40), (617, 9, 200)] {
            let case = Case::new(isa, vocab, steps, d);
            for scaled in [false, true] {
                let (x, _, z, ..) = case.run(isa, 2, scaled, false, true, false);
                assert!(z == case.z);
                assert!(x == case.run(isa, 2, scaled, false, true, true).0);
                let words: Vec<u32> = (0..vocab as u32).rev().collect();
                let mut rows = vec![0.0; vocab * d];
                let weights = (&case.x[..], &case.x0[..], scaled.then_some(&case.r[..]));
                rows_after(isa, weights, &case.z, case.pending(), RULE, &words, &mut rows);
                for (word, row) in words.iter().zip(rows.chunks_exact(d)) {
                    assert!(row == &x[*word as usize * d..][..d], "{isa:?} {word}");
                }
            }
        }
    }
}

/// Four columns are half a register: rows of z would be read beyond their end.
#[test]
#[should_panic(expected = "stride.is_multiple_of")]
fn rows_after_wants_whole_registers() {
    let (now, z, sums, h) = ([0.0; 6], [0.0; 12], [0.0; 4], [0.0; 2]);
    let pending = Pending { minus_log_sums: &sums, targets: &[1], h: &h, rows: &[], gradients: &[] };
    rows_after(Isa::detect(), (&now, &now, None), &z, pending, RULE, &[2], &mut [0.0; 2]);
}
