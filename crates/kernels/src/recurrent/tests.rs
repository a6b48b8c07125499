use super::*;
use crate::reference::{self, Chain, wide};

/// A layer whose numbers are the same in every run, and the naive one beside it.
struct Layer {
    unit: Unit,
    steps: usize,
    batch: usize,
    d: usize,
    parts: usize,
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
    /// Whether each gate has its own.
    per_gate: bool,
    apart: bool,
}

impl Layer {
    fn random(unit: Unit, (steps, batch, d): (usize, usize, usize), like: Like) -> Layer {
        let (g, l) = (unit.gates(), like.levels);
        let parts = if like.per_gate { g } else { 1 };
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
            parts,
            weights: (0..l).map(|k| matrix(10 + k as u32)).collect(),
            bias: like.bias.then(|| r(20, g * d)),
            shortcut: like.shortcut.then(|| matrix(30)),
            gates: r(2, l * steps * batch * g * d),
            d_products: vec![0.0; if_needed(unit.splits(), l * steps * batch * g * d)],
            carried: r(3, if_needed(unit.carries(), l * (steps + 1) * batch * d)),
            saved: vec![0.0; if_needed(unit.saves(), l * steps * batch * d)],
            states: r(4, parts * l * (steps + 1) * batch * d),
            outputs: vec![0.0; if_needed(like.apart, steps * batch * d)],
            last: vec![0.0; batch * d],
            mask: (like.masks > 0).then(|| mask(parts * like.masks.min(steps))),
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
            states: self.states.chunks(self.states.len() / self.parts).map(|x| wide(&x[first..][..step])).collect(),
            masks: self.mask.as_ref().map(|masks| {
                let all = |m: &[f32]| wide(m).into_iter().cycle().take(self.steps * step).collect();
                masks.chunks(masks.len() / self.parts).map(all).collect()
            }),
        }
    }

    /// Forward, then what `between` does, then backward.
    fn run(&mut self, isa: Isa, precision: Precision, threads: usize, between: impl FnOnce(&Layer)) {
        let team = Team::new(threads);
        let (unit, d) = (self.unit, self.d);
        let (parts, gates) = (self.parts, unit.gates() / self.parts);
        let packed = |w: &[f32]| {
            let mut weights = RecurrentWeights::new(isa, precision, threads, gates, d);
            weights.pack(&team, w, true);
            weights
        };
        let weights: Vec<RecurrentWeights> =
            self.weights.iter().flat_map(|w| w.chunks(gates * d * d)).map(packed).collect();
        let shortcut = self.shortcut.as_deref().map(packed);
        let bias = self.bias.clone();
        let levels = Levels { weights: &weights, parts, bias: bias.as_deref(), shortcut: shortcut.as_ref() };
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
    let seen = if apart { &out.outputs } else { &out.states[0] };
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
        Like { masks: 1, per_gate: true, apart: true, bias: true, ..plain },
        Like { levels: 3, masks: 9, per_gate: true, apart: true, ..plain },
    ];
    for (isa, unit) in Isa::available().into_iter().flat_map(|isa| Unit::ALL.map(|unit| (isa, unit))) {
        for (size, like) in [(1, 1, 1), (3, 2, 5), (4, 3, 19), (3, 20, 133)].iter().flat_map(|s| all.map(|l| (*s, l))) {
            let mut layer = Layer::random(unit, size, like);
            let (naive, what) = (layer.naive(), format!("{isa:?} {unit:?} {size:?} {like:?}"));
            layer.run(isa, Precision::F32, 2, |layer| {
                let want = naive.run();
                for (states, want) in layer.states.chunks(layer.states.len() / layer.parts).zip(&want.states) {
                    close(layer.top(states, 1), want, &format!("{what}: states"));
                }
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
    let per_gate = Like { levels: 2, masks: 1, per_gate: true, apart: true, ..like };
    for (isa, unit) in Isa::available().into_iter().flat_map(|isa| Unit::ALL.map(|unit| (isa, unit))) {
        let all = [like, several, per_gate];
        for (precision, like) in Precision::all_available(isa).into_iter().flat_map(|p| all.map(|like| (p, like))) {
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

/// In sizes that wrap, `T B d` is 0 here and `(T + 1) B d` is 4, as long as the buffers are.
#[test]
fn sizes_whose_product_does_not_fit_are_refused() {
    let team = Team::new(1);
    let like = Like { levels: 1, ..Like::default() };
    for (steps, batch) in [(1 << 62, 1), (0, (1 << 62) + 1), (usize::MAX, 1)] {
        let mut layer = Layer::random(Unit::RnnTanh, (0, 1, 4), like);
        let mut weights = [RecurrentWeights::new(Isa::detect(), Precision::F32, 1, 1, 4)];
        weights[0].pack(&team, &layer.weights[0], true);
        (layer.steps, layer.batch) = (steps, batch);
        let levels = Levels { weights: &weights, parts: 1, bias: None, shortcut: None };
        let message = |f: &mut dyn FnMut()| {
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_err();
            panic.downcast_ref::<String>().cloned().unwrap_or_default()
        };
        let way_there = message(&mut || forward(Unit::RnnTanh, &team, &levels, &mut layer.window()));
        let d_outputs = Vec::new();
        let way_back = message(&mut || {
            backward(Unit::RnnTanh, &team, &levels, &mut layer.window(), &d_outputs, &mut [0.0; 4]);
        });
        for found in [way_there, way_back] {
            assert!(found.contains("elements for ["), "{steps} {batch}: {found}");
        }
    }
}
