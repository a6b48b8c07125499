use super::*;
use crate::reference::{self, Chain, wide};

/// A layer whose numbers are the same in every run, and the naive one beside it.
struct Layer {
    unit: Unit,
    steps: usize,
    batch: usize,
    d: usize,
    weights: Vec<Vec<f32>>,
    bias: Option<Vec<f32>>,
    shortcut: Option<Vec<f32>>,
    gates: Vec<f32>,
    d_products: Vec<f32>,
    carried: Vec<f32>,
    saved: Vec<f32>,
    states: Vec<f32>,
    outputs: Vec<f32>,
    last: Vec<f32>,
    mask: Option<Vec<f32>>,
    d_outputs: Vec<f32>,
}

/// What a layer is like, besides its unit and size.
#[derive(Clone, Copy, Debug, Default)]
struct Like {
    levels: usize,
    bias: bool,
    shortcut: bool,
    /// Masks in a window: none, one, or one for each step.
    masks: usize,
    apart: bool,
}

impl Layer {
    fn random(unit: Unit, (steps, batch, d): (usize, usize, usize), like: Like) -> Layer {
        let (g, l) = (unit.gates(), like.levels);
        let r = |seed, n| reference::numbers(seed, n);
        let mask = |n| r(9, n * batch * d).iter().map(|&x| if x > 0.0 { 2.0 } else { 0.0 }).collect::<Vec<f32>>();
        // Small enough that a wide layer does not make more of a rounding from step to step.
        let scale = (1.5 / (d as f32).sqrt()).min(1.0);
        let matrix = |seed| r(seed, g * d * d).into_iter().map(|x| scale * x).collect::<Vec<f32>>();
        let if_needed = |needed: bool, n: usize| if needed { n } else { 0 };
        Layer {
            unit,
            steps,
            batch,
            d,
            weights: (0..l).map(|k| matrix(10 + k as u32)).collect(),
            bias: like.bias.then(|| r(20, g * d)),
            shortcut: like.shortcut.then(|| matrix(30)),
            gates: r(2, l * steps * batch * g * d),
            d_products: vec![0.0; if_needed(unit.splits(), l * steps * batch * g * d)],
            carried: r(3, if_needed(unit.carries(), l * (steps + 1) * batch * d)),
            saved: vec![0.0; if_needed(unit.saves(), l * steps * batch * d)],
            states: r(4, l * (steps + 1) * batch * d),
            outputs: vec![0.0; if_needed(like.apart, steps * batch * d)],
            last: vec![0.0; batch * d],
            mask: (like.masks > 0).then(|| mask(like.masks.min(steps))),
            d_outputs: r(5, steps * batch * d),
        }
    }

    fn naive(&self) -> Chain {
        let (l, step) = (self.weights.len(), self.batch * self.d);
        let first = (l - 1) * (self.steps + 1) * step;
        let all = |x: &[Vec<f32>]| x.iter().map(|x| wide(x)).collect();
        Chain {
            unit: self.unit,
            steps: self.steps,
            batch: self.batch,
            d: self.d,
            weights: all(&self.weights),
            bias: self.bias.as_deref().map(wide),
            shortcut: self.shortcut.as_deref().map(wide),
            gates: wide(&self.gates),
            offsets: vec![0.0; self.gates.len()],
            carried: if self.unit.carries() { wide(&self.carried[first..][..step]) } else { vec![0.0; step] },
            state: wide(&self.states[first..][..step]),
            mask: self.mask.as_ref().map(|m| wide(m).into_iter().cycle().take(self.steps * step).collect()),
        }
    }

    /// Forward, then what `between` does, then backward.
    fn run(&mut self, isa: Isa, precision: Precision, threads: usize, between: impl FnOnce(&Layer)) {
        let team = Team::new(threads);
        let (unit, d) = (self.unit, self.d);
        let packed = |w: &Vec<f32>| {
            let mut weights = RecurrentWeights::new(isa, precision, threads, unit.gates(), d);
            weights.pack(&team, w, true);
            weights
        };
        let weights: Vec<RecurrentWeights> = self.weights.iter().map(packed).collect();
        let shortcut = self.shortcut.as_ref().map(packed);
        let bias = self.bias.clone();
        let levels = Levels { weights: &weights, bias: bias.as_deref(), shortcut: shortcut.as_ref() };
        forward(unit, &team, &levels, &mut self.window());
        between(self);
        let (d_outputs, mut d_carried) = (self.d_outputs.clone(), vec![1.0; self.batch * d]);
        backward(unit, &team, &levels, &mut self.window(), &d_outputs, &mut d_carried);
    }

    fn window(&mut self) -> Window<'_> {
        Window {
            steps: self.steps,
            batch: self.batch,
            gates: &mut self.gates,
            d_products: &mut self.d_products,
            carried: &mut self.carried,
            saved: &mut self.saved,
            states: &mut self.states,
            outputs: &mut self.outputs,
            last_state: &mut self.last,
            mask: self.mask.as_deref(),
        }
    }

    /// Some of the values of the last level, from step `first` on.
    fn top<'a>(&self, x: &'a [f32], first: usize) -> &'a [f32] {
        let step = self.batch * self.d;
        &x[((self.weights.len() - 1) * (self.steps + 1) + first) * step..]
    }
}

fn close(got: &[f32], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*g) - w).abs() < 5e-6 * w.abs().max(1.0), "{what}[{i}]: {g} {w}");
    }
}

/// What the layer above sees, times the gradient it gives.
fn loss(chain: &Chain, apart: bool, d_outputs: &[f32]) -> f64 {
    let out = chain.run();
    let seen = if apart { &out.outputs } else { &out.states };
    seen.iter().zip(d_outputs).map(|(x, d)| x * f64::from(*d)).sum()
}

#[test]
fn forward_and_backward_agree_with_the_naive_layer() {
    let plain = Like { levels: 1, ..Like::default() };
    let all = [
        plain,
        Like { masks: 1, ..plain },
        Like { masks: 1, apart: true, bias: true, ..plain },
        Like { masks: 9, apart: true, ..plain },
        Like { levels: 3, masks: 1, bias: true, ..plain },
        Like { levels: 2, masks: 9, shortcut: true, apart: true, ..plain },
    ];
    for (isa, unit) in Isa::available().into_iter().flat_map(|isa| Unit::ALL.map(|unit| (isa, unit))) {
        for (size, like) in [(1, 1, 1), (3, 2, 5), (4, 3, 19), (3, 20, 133)].iter().flat_map(|s| all.map(|l| (*s, l))) {
            let mut layer = Layer::random(unit, size, like);
            let (naive, what) = (layer.naive(), format!("{isa:?} {unit:?} {size:?} {like:?}"));
            layer.run(isa, Precision::F32, 2, |layer| {
                let want = naive.run();
                close(layer.top(&layer.states, 1), &want.states, &format!("{what}: states"));
                if unit.carries() {
                    close(layer.top(&layer.carried, 1), &want.carried, &format!("{what}: carried"));
                }
                if like.apart {
                    close(&layer.outputs, &want.outputs, &format!("{what}: outputs"));
                }
                close(&layer.last, &want.outputs[want.outputs.len() - layer.last.len()..], &format!("{what}: last"));
            });
            // The slope of the naive layer's loss by some of the gates, and by some of the products.
            let d_products = if unit.splits() { &layer.d_products } else { &layer.gates };
            let probes = if layer.gates.len() < 5_000 { 40 } else { 2 };
            for i in (0..layer.gates.len()).step_by(1 + layer.gates.len() / probes) {
                let slope = |part: fn(&mut Chain) -> &mut Vec<f64>| {
                    let at = |e: f64| {
                        let mut moved = naive.clone();
                        part(&mut moved)[i] += e;
                        loss(&moved, like.apart, &layer.d_outputs)
                    };
                    (8.0 * (at(1e-5) - at(-1e-5)) - (at(2e-5) - at(-2e-5))) / 12e-5
                };
                close(&layer.gates[i..=i], &[slope(|c| &mut c.gates)], &format!("{what}: by gate {i}"));
                close(&d_products[i..=i], &[slope(|c| &mut c.offsets)], &format!("{what}: by product {i}"));
            }
        }
    }
}

#[test]
fn the_bits_do_not_depend_on_the_number_of_threads() {
    let like = Like { levels: 1, masks: 1, ..Like::default() };
    let several = Like { levels: 2, shortcut: true, masks: 9, apart: true, ..like };
    for (isa, unit) in Isa::available().into_iter().flat_map(|isa| Unit::ALL.map(|unit| (isa, unit))) {
        for (precision, like) in Precision::all_available(isa).into_iter().flat_map(|p| [(p, like), (p, several)]) {
            let run = |threads| {
                let mut layer = Layer::random(unit, (6, 20, 275), like);
                layer.run(isa, precision, threads, |_| {});
                (layer.gates, layer.states, layer.last)
            };
            let one = run(1);
            for threads in 2..=5 {
                assert!(run(threads) == one, "{isa:?}, {unit:?}, {threads} threads");
            }
        }
    }
}
