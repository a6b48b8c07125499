//! The Mogrifier (Melis et al. 2020): `x` and the masked `h'` gate each other before an LSTM's step,
//!
//! ```text
//! x = 2 sigmoid(U_r D_r h' + b_r) * x   in the rounds r = 0, 2, ..
//! h' = 2 sigmoid(U_r D_r x + b_r) * h'  in the rounds r = 1, 3, ..
//! ```

use super::lstm::Lstm;
use super::{Layout, Product, Read, Step, sigmoid, sum, times};
use std::ops::Range;

pub struct Mogrifier {
    lstm: Lstm,
    rounds: Vec<Round>,
    mask: Vec<f64>,
}

/// One vector gates another.
struct Round {
    down: Product,
    up: Product,
    bias: Range<usize>,
    /// What is gated, before it is.
    y: Vec<f64>,
    s: Vec<f64>,
}

impl Mogrifier {
    pub fn step(layout: &Layout, l: usize, coupled: bool, rounds: usize, params: &[f64], read: &Read<'_>) -> Mogrifier {
        assert!(read.input_masks.is_empty() && read.masks.len() == 1, "masks by gate are for layers without rounds");
        let mask = read.masks[0].clone();
        let (mut x, mut h) = (read.x.to_vec(), times(&read.state[0], &mask));
        let mut taken = Vec::new();
        for r in 0..rounds {
            let place = |what: &str| layout.place(&format!("mogrifier.{what}_l{l}_r{r}"));
            let (u, y) = if r % 2 == 0 { (&h, &x) } else { (&x, &h) };
            let down = Product::new(place("down"), u, &[]);
            let up = Product::new(place("up"), &down.value(params), &[]);
            let bias = place("bias");
            let a = sum(&[&up.value(params), &params[bias.clone()]]);
            let s: Vec<f64> = a.into_iter().map(sigmoid).collect();
            let turned = times(&s, y).iter().map(|y| 2.0 * y).collect();
            taken.push(Round { down, up, bias, y: y.clone(), s });
            if r % 2 == 0 {
                x = turned;
            } else {
                h = turned;
            }
        }
        let state = [h, read.state[1].clone()];
        let lstm = Lstm::step(layout, l, coupled, params, &Read { x: &x, input_masks: &[], state: &state, masks: &[] });
        Mogrifier { lstm, rounds: taken, mask }
    }
}

impl Step for Mogrifier {
    fn state(&self) -> Vec<Vec<f64>> {
        self.lstm.state()
    }

    fn backward(&self, params: &[f64], d_state: &[Vec<f64>], gradient: &mut [f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let (mut d_x, mut d_before) = self.lstm.backward(params, d_state, gradient);
        let mut d_h = d_before.swap_remove(0);
        for (r, round) in self.rounds.iter().enumerate().rev() {
            let (d_y, d_u) = if r % 2 == 0 { (&mut d_x, &mut d_h) } else { (&mut d_h, &mut d_x) };
            let d_a: Vec<f64> =
                (0..d_y.len()).map(|k| d_y[k] * 2.0 * round.y[k] * round.s[k] * (1.0 - round.s[k])).collect();
            d_y.iter_mut().zip(&round.s).for_each(|(d, s)| *d *= 2.0 * s);
            super::super::add(&mut gradient[round.bias.clone()], &d_a);
            let d_low = round.up.backward(params, &d_a, gradient);
            super::super::add(d_u, &round.down.backward(params, &d_low, gradient));
        }
        (d_x, vec![times(&d_h, &self.mask), d_before.remove(0)])
    }
}
