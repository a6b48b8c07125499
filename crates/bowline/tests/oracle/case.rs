//! Random but repeatable models, windows, states and masks for tests. Weights and states are values that f32 holds
//! exactly, so that an f32 implementation can start from the very same numbers.

use super::pointer::Carried;
use super::{Augment, Masks, Output, Pass, State, Window};
use bowline::spec::{ModelSpec, Unit};

/// A pass that owns its parts, and the weights.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the model is made of.
    pub spec: ModelSpec,
    /// The flat weights.
    pub params: Vec<f64>,
    /// The words.
    pub window: Window,
    /// The state carried in, not zero.
    pub state: State,
    /// The masks, or none.
    pub masks: Option<Masks>,
    /// Activation regularisation.
    pub activity: [f64; 2],
    /// Features of the words, or none.
    pub features: Vec<Vec<f64>>,
    /// What a pointer remembers of each stream, or nothing.
    pub pointed: Vec<Carried>,
    /// What is added to each logit when the loss is over a sample of the words, or nothing.
    pub corrections: Vec<f64>,
    /// The symbols of the words, where words are read by them.
    pub spelling: Vec<Vec<usize>>,
    /// The words before the window, where those count.
    pub context: Vec<Vec<u32>>,
    /// The table of topics that the features are made from, or nothing.
    pub topics: Vec<f64>,
}

impl Case {
    /// Weights within +-`scale`, word vectors and classifier within twice that so that `y~` and `y^` are far from
    /// uniform; `keep` is the probability that a unit is kept, `None` for no masks.
    pub fn random(spec: &ModelSpec, (steps, batch): (usize, usize), scale: f64, keep: Option<f64>, seed: u64) -> Case {
        let mut random = Random::new(seed);
        let mut params = Vec::new();
        for tensor in spec.layout().tensors() {
            let vectors = ["encoder.", "decoder."].iter().any(|part| tensor.name.starts_with(part));
            let scale = if vectors { 2.0 * scale } else { scale };
            params.extend((0..tensor.len()).map(|_| random.within(scale)));
        }
        let mut state = State::zeros(spec, batch);
        for (i, part) in state.parts.iter_mut().enumerate() {
            let scale = if spec.layers[0].state().len() == 2 && i % 2 == 1 { 1.5 } else { 0.8 };
            part.iter_mut().for_each(|x| *x = random.within(scale));
        }
        let mut words = || (0..steps * batch).map(|_| random.below(spec.vocab as u64) as u32).collect();
        let window = Window { steps, batch, inputs: words(), targets: words() };
        let masks = keep.map(|keep| {
            let mut mask = |width| -> Vec<f64> {
                (0..batch * width).map(|_| if random.unit() < keep { 1.0 / keep } else { 0.0 }).collect()
            };
            let input = mask(spec.input.width);
            let layers: Vec<Vec<f64>> = spec.layers.iter().map(|layer| mask(layer.units)).collect();
            Masks::held(steps, &input, &layers)
        });
        Case {
            spec: spec.clone(),
            params,
            window,
            state,
            masks,
            activity: [0.0; 2],
            features: Vec::new(),
            pointed: Vec::new(),
            corrections: Vec::new(),
            spelling: Vec::new(),
            context: Vec::new(),
            topics: Vec::new(),
        }
    }

    /// The pass over the window.
    pub fn pass(&self, augment: Option<Augment>) -> Pass<'_> {
        Pass {
            spec: &self.spec,
            window: &self.window,
            state: &self.state,
            masks: self.masks.as_ref(),
            augment,
            activity: self.activity,
            features: &self.features,
            pointed: &self.pointed,
            corrections: &self.corrections,
            spelling: &self.spelling,
            context: &self.context,
        }
    }

    /// The same with masks that are other ones at every step and wherever a state is consumed, and regularised activity.
    pub fn by_site(mut self, keep: f64, seed: u64) -> Case {
        let (rows, mut random) = (self.window.steps * self.window.batch, Random::new(seed));
        let mut mask = |width: usize| -> Vec<f64> {
            (0..rows * width).map(|_| if random.unit() < keep { 1.0 / keep } else { 0.0 }).collect()
        };
        let widths: Vec<usize> = self.spec.layers.iter().map(|layer| layer.units).collect();
        let mut of_layers = || -> Vec<Vec<f64>> { widths.iter().map(|&width| mask(width)).collect() };
        let (states, outputs) = (of_layers(), of_layers());
        let projection = if self.spec.output.projection.is_some() { mask(self.spec.projected()) } else { Vec::new() };
        let input = mask(self.spec.input.width);
        let (gate_inputs, gate_states) = (Vec::new(), Vec::new());
        self.masks = Some(Masks { input, states, outputs, projection, gate_inputs, gate_states });
        self.activity = [0.7, 0.4];
        self
    }

    /// The same with another mask for each gate that consumes a layer's input or state.
    pub fn by_gate(self, keep: f64, seed: u64) -> Case {
        let mut case = self.by_site(keep, seed);
        let (rows, mut random) = (case.window.steps * case.window.batch, Random::new(seed + 1));
        let mut of_layers = |width: &dyn Fn(usize) -> usize| -> Vec<Vec<Vec<f64>>> {
            let mut mask = |n: usize| (0..n).map(|_| if random.unit() < keep { 1.0 / keep } else { 0.0 }).collect();
            let layers = case.spec.layers.iter().enumerate();
            layers.map(|(l, layer)| (0..gates(layer.unit)).map(|_| mask(rows * width(l))).collect()).collect()
        };
        let mut gate_inputs = of_layers(&|l| case.spec.inputs(l));
        case.spec.layers.iter().zip(&mut gate_inputs).filter(|(layer, _)| layer.direct).for_each(|(_, m)| m.clear());
        let gate_states = of_layers(&|l| case.spec.layers[l].units);
        let shared = case.masks.take().unwrap();
        let mut outputs = vec![Vec::new(); case.spec.layers.len()];
        outputs[case.spec.layers.len() - 1] = shared.outputs[case.spec.layers.len() - 1].clone();
        let states = vec![Vec::new(); case.spec.layers.len()];
        case.masks = Some(Masks { input: Vec::new(), states, outputs, gate_inputs, gate_states, ..shared });
        case
    }

    /// Runs the pass with the case's weights.
    pub fn run(&self, augment: Option<Augment>) -> Output {
        self.pass(augment).run(&self.params)
    }
}

/// Gates of a unit.
pub fn gates(unit: Unit) -> usize {
    match unit {
        Unit::Lstm { .. } | Unit::Mogrifier { .. } => 4,
        Unit::Gru => 3,
        Unit::Highway { .. } => 2,
        Unit::Rnn { .. } | Unit::Deep { .. } => 1,
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
