//! Variational dropout (appendix A): masks drawn once per window, the same at all of its steps.

use crate::rng::{Purpose, Stream};
use serde::{Deserialize, Serialize};

/// The probability that a unit is **kept**. The paper's "dropout probabilities" are these: 0.7 keeps 70 of 100 units.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeepProb(pub f32);

/// The masks of one window: 0 for a dropped unit, `1 / keep` for a kept one.
#[derive(Clone, Debug)]
pub struct Masks {
    /// (B, d), on the input's word vector.
    pub input: Vec<f32>,
    /// (B, d) for each layer, on its state wherever it is consumed: by the layer's own next step and by the layer above
    /// (or the classifier). Never on the cell.
    pub states: Vec<Vec<f32>>,
}

impl Masks {
    /// Masks that drop nothing, to be drawn.
    pub fn new(layers: usize, batch: usize, hidden: usize) -> Masks {
        Masks { input: vec![1.0; batch * hidden], states: vec![vec![1.0; batch * hidden]; layers] }
    }

    /// Draws the masks of a step: a function of `(seed, step)` alone.
    pub fn draw(&mut self, seed: u64, step: u64, keep: KeepProb) {
        let scale = 1.0 / keep.0;
        // A u32 below keep * 2^32 is kept; 2^32 itself (keep = 1) keeps all.
        let limit = (f64::from(keep.0) * 2f64.powi(32)) as u64;
        let value = |r: u32| if u64::from(r) < limit { scale } else { 0.0 };
        Stream::new(seed, Purpose::InputMask, step).fill(&mut self.input, value);
        for (layer, mask) in self.states.iter_mut().enumerate() {
            Stream::new(seed, Purpose::StateMask(layer as u16), step).fill(mask, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_keeps_the_asked_share_and_scales_it_up() {
        let mut masks = Masks::new(2, 20, 500);
        for keep in [0.35, 0.7, 1.0] {
            masks.draw(3, 17, KeepProb(keep));
            for mask in std::iter::once(&masks.input).chain(&masks.states) {
                assert!(mask.iter().all(|&m| m == 0.0 || m == 1.0 / keep));
                let kept = mask.iter().filter(|&&m| m > 0.0).count() as f32 / 10_000.0;
                assert!((kept - keep).abs() < 0.02, "kept {kept} of {keep}");
            }
        }
        masks.draw(3, 17, KeepProb(0.5));
        let again = masks.clone();
        masks.draw(3, 18, KeepProb(0.5));
        assert_ne!(masks.input, again.input);
        assert_ne!(again.states[0], again.states[1]);
        masks.draw(3, 17, KeepProb(0.5));
        assert_eq!(masks.states, again.states);
    }
}
