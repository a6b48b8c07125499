//! Mogrifier layers, and layers that are summed: finite differences check the oracle, PyTorch checks it too, the oracle checks the
//! fast path; distributions add up to 1, look only back, and are the same however a text is cut and whoever computes.

mod fast;
mod oracle;

use bowline::compute::Compute;
use bowline::model::Masks;
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use fast::{
    Trained, agrees, distributions, flat, has_the_same_bits_at_any_number_of_threads, is_pytorch_s, train_with,
};
use oracle::case::Case;
use oracle::check::{assert_close, slopes_match};
use serde::Deserialize;
use std::collections::BTreeMap;

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
    specs(11, 9).iter().flat_map(|spec| cases(spec, (6, 3), 0.7)).for_each(|case| agrees(&case));
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
        let Trained { ce, gradient, .. } = train_with(&case, Some(&dropped), Compute::with_threads(2));
        let mut by_hand = case.clone();
        for (range, masks) in ranges.iter().zip(&dropped.weights) {
            by_hand.params[range.clone()].iter_mut().zip(&masks[0]).for_each(|(w, m)| *w *= f64::from(*m));
        }
        let Trained { ce: expected, gradient: mut d_expected, .. } =
            train_with(&by_hand, Some(&plain), Compute::with_threads(2));
        for (range, masks) in ranges.iter().zip(&dropped.weights) {
            d_expected.data_mut()[range.clone()].iter_mut().zip(&masks[0]).for_each(|(g, m)| *g *= m);
        }
        assert!((ce - expected).abs() < 1e-6 * expected);
        let [found, expected] = [&gradient, &d_expected].map(|g| g.data().iter().map(|&g| f64::from(g)).collect());
        let (found, expected): (Vec<f64>, Vec<f64>) = (found, expected);
        assert_close("the gradient", &found, &expected, 1e-5);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let case = |spec: &ModelSpec| Case::random(spec, (7, 21), 0.2, Some(0.7), 74);
    specs(40, 100).iter().map(case).for_each(|case| has_the_same_bits_at_any_number_of_threads(&case));
}

#[test]
fn distributions_add_up_and_do_not_depend_on_how_a_text_is_cut() {
    let case = |spec: &ModelSpec| Case::random(spec, (12, 1), 0.7, None, 75);
    specs(13, 9).iter().map(case).for_each(|case| drop(distributions(&case)));
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
    let mut case = Case::random(&spec, (steps, batch), 0.5, None, 1);
    let (inputs, targets) = (fixture.inputs.clone(), fixture.targets.clone());
    case.params = flat(&spec, &fixture.weights);
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
    for (found, expected) in case.run(None).state.parts.iter().zip(&fixture.state_after) {
        assert_close("the oracle's state", found, expected, 1e-11);
    }
    is_pytorch_s(&case, fixture.loss, &fixture.gradients);
}
