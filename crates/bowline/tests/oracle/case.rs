//! Random but repeatable models, windows, states and masks for tests. Weights and states are values that f32 holds
//! exactly, so that an f32 implementation can start from the very same numbers.

use super::{Augment, Masks, Output, Pass, State, Window};
use bowline::architecture::Architecture;

/// A pass that owns its parts, and the weights.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the model is made of.
    pub architecture: Architecture,
    /// The flat weights.
    pub params: Vec<f64>,
    /// The words.
    pub window: Window,
    /// The state carried in, not zero.
    pub state: State,
    /// The masks, or none.
    pub masks: Option<Masks>,
}

impl Case {
    /// Weights within +-`scale`, word vectors and classifier within twice that so that `y~` and `y^` are far from
    /// uniform; `keep` is the probability that a unit is kept, `None` for no masks.
    pub fn random(
        architecture: Architecture,
        (steps, batch): (usize, usize),
        scale: f64,
        keep: Option<f64>,
        seed: u64,
    ) -> Case {
        let mut random = Random::new(seed);
        let mut params = Vec::new();
        for tensor in architecture.tensors() {
            let scale = if tensor.name.starts_with("rnn.") { scale } else { 2.0 * scale };
            params.extend((0..tensor.len()).map(|_| random.within(scale)));
        }
        let size = batch * architecture.hidden;
        let mut values = |scale| -> Vec<Vec<f64>> {
            (0..architecture.layers).map(|_| (0..size).map(|_| random.within(scale)).collect()).collect()
        };
        let state = State { h: values(0.8), c: values(1.5) };
        let mut words = || (0..steps * batch).map(|_| random.below(architecture.vocab as u64) as u32).collect();
        let window = Window { steps, batch, inputs: words(), targets: words() };
        let masks = keep.map(|keep| {
            let mut mask = || (0..size).map(|_| if random.unit() < keep { 1.0 / keep } else { 0.0 }).collect();
            Masks { input: mask(), layers: (0..architecture.layers).map(|_| mask()).collect() }
        });
        Case { architecture, params, window, state, masks }
    }

    /// The pass over the window.
    pub fn pass(&self, augment: Option<Augment>) -> Pass<'_> {
        Pass {
            architecture: self.architecture,
            window: &self.window,
            state: &self.state,
            masks: self.masks.as_ref(),
            augment,
        }
    }

    /// Runs the pass with the case's weights.
    pub fn run(&self, augment: Option<Augment>) -> Output {
        self.pass(augment).run(&self.params)
    }
}

/// A small generator of random numbers (SplitMix64): repeatable, good enough for test data.
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in +-`scale`, rounded to what f32 holds.
    pub fn within(&mut self, scale: f64) -> f64 {
        f64::from(((2.0 * self.unit() - 1.0) * scale) as f32)
    }

    /// Uniform in `0..n`; the small bias of the remainder does not matter to a test.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
