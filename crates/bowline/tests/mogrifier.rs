//! Mogrifier layers, and layers that are summed: finite differences check the oracle, PyTorch checks it too, the oracle checks the
//! fast path; distributions add up to 1, look only back, and are the same however a text is cut and whoever computes.

mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Masks, Network, Pass, State, Use};
use bowline::params::Params;
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use bowline_kernels::{Isa, Team};
use oracle::case::Case;
use oracle::check::{assert_close, narrow, slopes_match};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rounds of every parity, coupled or not, layers of unequal widths under a projection, or summed and tied.
fn specs(vocab: usize, units: usize) -> Vec<ModelSpec> {
    let unit = |coupled, rounds| Unit::Mogrifier { coupled, rounds, rank: 2 };
    let projection = Some(ProjectionSpec { width: 3, activation: Activation::Linear, bias: false });
    let spec = |width, layers: &[(Unit, usize)], output| ModelSpec {
        vocab,
        input: InputSpec::words(width),
        layers: layers.iter().map(|&(unit, units)| LayerSpec::new(unit, units)).collect(),
        output,
    };
    let tied = OutputSpec { tied: true, bias: true, ..OutputSpec::default() };
    let summed = OutputSpec { sum_layers: true, ..tied.clone() };
    let projected = OutputSpec { projection, bias: true, ..OutputSpec::default() };
    let plain = Unit::Lstm { coupled: false };
    vec![
        spec(4, &[(unit(false, 1), units + 2), (unit(false, 2), units)], projected.clone()),
        spec(units, &[(unit(true, 5), units), (unit(true, 4), units)], summed.clone()),
        spec(units, &[(unit(false, 3), units)], tied),
        spec(units, &[(plain, units), (plain, units), (plain, units)], summed.clone()),
        spec(4, &[(plain, units), (unit(false, 2), units)], OutputSpec { sum_layers: true, ..projected }),
    ]
}

/// Without masks, with the paper's, and with others at every site and step.
fn cases(spec: &ModelSpec, shape: (usize, usize), scale: f64) -> Vec<Case> {
    let mut by_site = Case::random(spec, shape, scale, None, 71).by_site(0.7, 72);
    if spec.output.sum_layers {
        by_site.activity = [0.0; 2];
    }
    vec![Case::random(spec, shape, scale, None, 70), Case::random(spec, shape, scale, Some(0.7), 71), by_site]
}

fn params(spec: &ModelSpec, values: &[f64]) -> Params {
    let mut params = Params::zeros(spec);
    params.data_mut().copy_from_slice(&narrow(values));
    params
}

fn state(case: &Case) -> State {
    let mut state = State::zeros(&case.spec, case.window.batch);
    state.parts.iter_mut().zip(&case.state.parts).for_each(|(part, values)| part.values = narrow(values));
    state
}

/// The fast path's masks: the paper's have one for all steps, and one for both places where a state is consumed.
fn masks(case: &Case) -> Option<Masks> {
    let m = case.masks.as_ref()?;
    let paper = m.states == m.outputs;
    let of = |mask: &[f64]| narrow(&mask[..if paper { mask.len() / case.window.steps } else { mask.len() }]);
    Some(Masks {
        input: of(&m.input),
        states: m.states.iter().map(|m| of(m)).collect(),
        outputs: if paper { Vec::new() } else { m.outputs.iter().map(|m| of(m)).collect() },
        projection: of(&m.projection),
        ..Masks::default()
    })
}

/// The loss, the gradient and the state after a case's window.
fn train(case: &Case, masks: Option<&Masks>, compute: Compute) -> (f64, Params, State) {
    let (spec, weights) = (&case.spec, params(&case.spec, &case.params));
    let (steps, batch) = (case.window.steps, case.window.batch);
    let mut network = Network::new(spec, compute, Use::Train, steps, batch);
    let mut gradient = weights.zeros_like();
    let window = Window { steps, batch, inputs: case.window.inputs.clone(), targets: case.window.targets.clone() };
    let [ar, tar] = case.activity.map(|x| x as f32);
    let pass = Pass { masks, activity: bowline::model::Activity { ar, tar }, ..Pass::default() };
    network.pack_masked(&weights, Use::Train, pass);
    // Whatever was there, and whatever the buffers hold after a window, must not matter.
    let (mut loss, mut after) = (0.0, state(case));
    for _ in 0..2 {
        gradient.data_mut().fill(f32::NAN);
        after = state(case);
        loss = network.train(&weights, &window, &mut after, pass, &mut gradient).ce;
    }
    (loss, gradient, after)
}

#[test]
fn slopes_match_the_gradient() {
    // Without the coupled gate, which has a kink; PyTorch checks that one.
    let smooth = |mut spec: ModelSpec| {
        for layer in &mut spec.layers {
            if let Unit::Mogrifier { coupled, .. } = &mut layer.unit {
                *coupled = false;
            }
        }
        spec
    };
    for spec in specs(7, 5).into_iter().map(smooth) {
        cases(&spec, (4, 2), 0.7).iter().for_each(slopes_match);
    }
}

#[test]
fn the_fast_path_agrees_with_the_oracle() {
    for isa in Isa::available() {
        for case in specs(11, 9).iter().flat_map(|spec| cases(spec, (6, 3), 0.7)) {
            let truth = case.run(None);
            let compute = Compute::new(Arc::new(Team::new(2)), isa);
            let (loss, gradient, after) = train(&case, masks(&case).as_ref(), compute);
            assert!((loss / 18.0 - truth.mean_ce).abs() <= 1e-6 * truth.mean_ce, "{isa:?}: {loss}");
            for tensor in case.spec.layout().tensors() {
                let found: Vec<f64> = gradient.get(tensor).iter().map(|&g| f64::from(g)).collect();
                let what = format!("{isa:?} {:?}, {}", case.spec, tensor.name);
                assert_close(&what, &found, &truth.gradient[tensor.range()], 2e-5);
            }
            for (part, expected) in after.parts.iter().zip(&truth.state.parts) {
                let found: Vec<f64> = part.values.iter().map(|&x| f64::from(x)).collect();
                assert_close(&part.name, &found, expected, 2e-5);
            }
        }
    }
}

/// A masked recurrent matrix is another matrix, whose gradient is masked too.
#[test]
fn weight_drop_is_that_of_a_masked_model() {
    for case in specs(11, 9).iter().map(|spec| Case::random(spec, (5, 2), 0.7, None, 73)) {
        let layers = case.spec.layout().layers;
        let kept = |n: usize| (0..n).map(|i| if i % 3 == 0 { 0.0 } else { 1.5 }).collect::<Vec<f32>>();
        let ranges: Vec<_> = layers.iter().map(|layer| case.spec.layout().range(layer.levels[0].w_hh)).collect();
        let none = vec![Vec::new(); layers.len()];
        let plain = Masks { states: none.clone(), outputs: none, ..Masks::default() };
        let dropped = Masks { weights: ranges.iter().map(|r| vec![kept(r.len())]).collect(), ..plain.clone() };
        let (loss, gradient, _) = train(&case, Some(&dropped), Compute::with_threads(2));
        let mut by_hand = case.clone();
        for (range, masks) in ranges.iter().zip(&dropped.weights) {
            by_hand.params[range.clone()].iter_mut().zip(&masks[0]).for_each(|(w, m)| *w *= f64::from(*m));
        }
        let (expected, mut d_expected, _) = train(&by_hand, Some(&plain), Compute::with_threads(2));
        for (range, masks) in ranges.iter().zip(&dropped.weights) {
            d_expected.data_mut()[range.clone()].iter_mut().zip(&masks[0]).for_each(|(g, m)| *g *= m);
        }
        assert!((loss - expected).abs() < 1e-6 * expected);
        let [found, expected] = [&gradient, &d_expected].map(|g| g.data().iter().map(|&g| f64::from(g)).collect());
        let (found, expected): (Vec<f64>, Vec<f64>) = (found, expected);
        assert_close("the gradient", &found, &expected, 1e-5);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for spec in specs(40, 100) {
        let case = Case::random(&spec, (7, 21), 0.2, Some(0.7), 74);
        let masks = masks(&case);
        let (loss, gradient, after) = train(&case, masks.as_ref(), Compute::with_threads(1));
        for threads in [2, 3] {
            let (other, others, state) = train(&case, masks.as_ref(), Compute::with_threads(threads));
            assert!(other == loss && others.data() == gradient.data() && state == after, "{threads} threads");
        }
    }
}

/// Read at once or word by word, a text gives the same, to the bit, whatever comes after.
#[test]
fn distributions_add_up_and_do_not_depend_on_how_a_text_is_cut() {
    for spec in &specs(13, 9) {
        let case = Case::random(spec, (12, 1), 0.7, None, 75);
        let (weights, words) = (params(spec, &case.params), &case.window.inputs);
        let mut network = Network::new(spec, Compute::with_threads(2), Use::Evaluate, 12, 1);
        network.pack(&weights, Use::Evaluate);
        let mut read = |parts: &[&[u32]]| {
            let (mut state, mut all) = (State::zeros(spec, 1), Vec::new());
            for part in parts {
                let window = Window { steps: part.len(), batch: 1, inputs: part.to_vec(), targets: part.to_vec() };
                let mut out = vec![0.0; part.len() * spec.vocab];
                network.probabilities(&weights, &window, &mut state, &mut out);
                all.extend(out);
            }
            let (mut after, outlook) = (vec![0.0; spec.vocab], network.outlook_of(&weights, &state));
            network.distributions(&weights, &outlook, 1.0, &mut after);
            (all, state, after)
        };
        let (whole, state, after) = read(&[words]);
        let single: Vec<&[u32]> = words.chunks(1).collect();
        for (all, other, _) in [read(&single), read(&[&words[..5], &words[5..]])] {
            assert_eq!((all, other), (whole.clone(), state.clone()));
        }
        assert_eq!(read(&[&words[..7]]).0, whole[..7 * spec.vocab]);
        for y in whole.chunks_exact(spec.vocab) {
            let sum: f64 = y.iter().map(|&y| f64::from(y)).sum();
            assert!((sum - 1.0).abs() < 1e-6, "{y:?}");
        }
        let last = &whole[11 * spec.vocab..];
        assert!(after.iter().zip(last).all(|(a, b)| (a - b).abs() < 1e-6), "{after:?} {last:?}");
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    #[serde(rename = "torch")]
    _torch: String,
    vocab: usize,
    width: usize,
    units: usize,
    rounds: usize,
    rank: usize,
    steps: usize,
    batch: usize,
    weights: BTreeMap<String, Vec<f64>>,
    state: Vec<Vec<f64>>,
    input_mask: Vec<f64>,
    output_masks: Vec<Vec<f64>>,
    state_masks: Vec<Vec<f64>>,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    loss: f64,
    state_after: Vec<Vec<f64>>,
    gradients: BTreeMap<String, Vec<f64>>,
}

/// `fixtures/make_mogrifier_fixture.py` says how the numbers were made.
#[test]
fn pytorch_computes_the_same() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/mogrifier_fixture.json")).unwrap();
    let Fixture { vocab, rounds, rank, steps, batch, .. } = fixture;
    let unit = Unit::Mogrifier { coupled: true, rounds, rank };
    let spec = ModelSpec {
        vocab,
        input: InputSpec::words(fixture.width),
        layers: vec![LayerSpec::new(unit, fixture.units); 2],
        output: OutputSpec { tied: true, bias: true, sum_layers: true, ..OutputSpec::default() },
    };
    let flat = |named: &BTreeMap<String, Vec<f64>>| -> Vec<f64> {
        spec.layout().tensors().iter().flat_map(|tensor| named[&tensor.name].clone()).collect()
    };
    let mut case = Case::random(&spec, (steps, batch), 0.5, None, 1);
    let (inputs, targets) = (fixture.inputs.clone(), fixture.targets.clone());
    case.params = flat(&fixture.weights);
    case.window = oracle::Window { steps, batch, inputs, targets };
    case.state = oracle::State { parts: fixture.state.clone() };
    let held = |masks: &[Vec<f64>]| masks.iter().map(|mask| mask.repeat(steps)).collect::<Vec<_>>();
    case.masks = Some(oracle::Masks {
        input: fixture.input_mask.repeat(steps),
        states: held(&fixture.state_masks),
        outputs: held(&fixture.output_masks),
        projection: Vec::new(),
        gate_inputs: Vec::new(),
        gate_states: Vec::new(),
    });
    let output = case.run(None);
    assert_close("the oracle's loss", &[output.loss], &[fixture.loss], 1e-11);
    assert_close("the oracle's gradient", &output.gradient, &flat(&fixture.gradients), 1e-11);
    for (found, expected) in output.state.parts.iter().zip(&fixture.state_after) {
        assert_close("the oracle's state", found, expected, 1e-11);
    }
    for isa in Isa::available() {
        let compute = Compute::new(Arc::new(Team::new(2)), isa);
        let (loss, gradient, _) = train(&case, masks(&case).as_ref(), compute);
        assert_close("the loss", &[loss / batch as f64], &[fixture.loss], 1e-6);
        let found: Vec<f64> = gradient.data().iter().map(|&g| f64::from(g)).collect();
        assert_close("the gradient", &found, &flat(&fixture.gradients), 1e-5);
    }
}
