//! The units that PyTorch has, of unequal width and with a projection: the oracle against PyTorch in f64, and the fast path, one
//! window and three steps of Adam. `fixtures/make_unit_fixture.py` says how the numbers were made.

mod fast;
mod oracle;

use bowline::batch::Window;
use bowline::compute::Compute;
use bowline::model::{Network, Pass, State, Use};
use bowline::optim::{self, Optimizer, OptimizerConfig, OptimizerKind, Rule};
use bowline::params::Params;
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use bowline_kernels::{Isa, Team};
use fast::{flat, wide};
use oracle::check::{assert_close, narrow};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    #[serde(rename = "torch")]
    _torch: String,
    vocab: usize,
    widths: Vec<usize>,
    steps: usize,
    batch: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    width: usize,
    projection: Option<usize>,
    tied: bool,
    weights: BTreeMap<String, Vec<f64>>,
    state: Vec<Vec<f64>>,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    loss: f64,
    gradients: BTreeMap<String, Vec<f64>>,
    state_after: Vec<Vec<f64>>,
    adam_losses: Vec<f64>,
}

fn load() -> Fixture {
    serde_json::from_str(include_str!("fixtures/unit_fixture.json")).expect("the committed fixture is readable")
}

fn spec(fixture: &Fixture, case: &Case) -> ModelSpec {
    let unit = match case.name.as_str() {
        "lstm" => Unit::Lstm { coupled: false },
        "gru" | "gru-untied" => Unit::Gru,
        "rnn-tanh" => Unit::Rnn { activation: Activation::Tanh },
        "rnn-relu" => Unit::Rnn { activation: Activation::Relu },
        other => panic!("a case of no known unit: {other}"),
    };
    let projection = case.projection.map(|width| ProjectionSpec { width, activation: Activation::Linear, bias: false });
    ModelSpec {
        vocab: fixture.vocab,
        input: InputSpec::words(case.width),
        layers: fixture.widths.iter().map(|&units| LayerSpec::new(unit, units)).collect(),
        output: OutputSpec { projection, tied: case.tied, bias: true, ..OutputSpec::default() },
    }
}

#[test]
fn loss_gradients_and_state_of_the_oracle_are_pytorch_s() {
    let fixture = load();
    assert_eq!(fixture.cases.len(), 5);
    for case in &fixture.cases {
        let spec = spec(&fixture, case);
        let (steps, batch) = (fixture.steps, fixture.batch);
        let window = oracle::Window { steps, batch, inputs: case.inputs.clone(), targets: case.targets.clone() };
        let state = oracle::State { parts: case.state.clone() };
        let pass = oracle::Pass {
            spec: &spec,
            window: &window,
            state: &state,
            masks: None,
            augment: None,
            activity: [0.0; 2],
            features: &[],
            pointed: &[],
            corrections: &[],
            spelling: &[],
            context: &[],
        };
        let output = pass.run(&flat(&spec, &case.weights));
        assert_close(&format!("{}, loss", case.name), &[output.loss], &[case.loss], 1e-11);
        let expected = flat(&spec, &case.gradients);
        for tensor in spec.layout().tensors() {
            let what = format!("{}, gradient of {}", case.name, tensor.name);
            assert_close(&what, &output.gradient[tensor.range()], &expected[tensor.range()], 1e-11);
        }
        for (found, expected) in output.state.parts.iter().zip(&case.state_after) {
            assert_close(&format!("{}, state", case.name), found, expected, 1e-11);
        }
    }
}

#[test]
fn gradients_and_three_steps_of_adam_on_the_fast_path_are_pytorch_s() {
    let fixture = load();
    for (isa, case) in Isa::available().into_iter().flat_map(|isa| fixture.cases.iter().map(move |case| (isa, case))) {
        let (spec, name) = (spec(&fixture, case), format!("{}, {isa:?}", case.name));
        let (steps, batch) = (fixture.steps, fixture.batch);
        let compute = Compute::new(Arc::new(Team::new(2)), isa);
        let mut network = Network::new(&spec, compute.clone(), Use::Train, steps, batch);
        let mut params = Params::zeros(&spec);
        params.data_mut().copy_from_slice(&narrow(&flat(&spec, &case.weights)));
        let window = Window { steps, batch, inputs: case.inputs.clone(), targets: case.targets.clone() };
        let mut gradient = params.zeros_like();
        let mut start = State::zeros(&spec, batch);
        start.parts.iter_mut().zip(&case.state).for_each(|(part, values)| part.values = narrow(values));
        let mut pass = |params: &Params, gradient: &mut Params| {
            let mut state = start.clone();
            network.pack(params, Use::Train);
            network.train(params, &window, &mut state, Pass::default(), gradient).ce / batch as f64
        };
        let config =
            OptimizerConfig { kind: OptimizerKind::Adam, beta1: 0.0, beta2: 0.99, ..OptimizerConfig::default() };
        let mut optimizer = Optimizer::new(&config, &params);
        assert_close(&name, &[pass(&params, &mut gradient)], &[case.loss], 1e-6);
        let expected = flat(&spec, &case.gradients);
        for tensor in spec.layout().tensors() {
            assert_close(
                &format!("{name}, {}", tensor.name),
                &wide(gradient.get(tensor)),
                &expected[tensor.range()],
                1e-5,
            );
        }
        for (t, expected) in case.adam_losses.iter().enumerate() {
            let rule = Rule { learning_rate: 0.05, clip: 1.0, weight_decay: 0.01, spare_vectors: false };
            let norm = optim::global_norm(&compute, &gradient);
            optimizer.step(&compute, &mut params, &gradient, norm, (rule, t as u64 + 1));
            assert_close(&format!("{name}, step {t}"), &[pass(&params, &mut gradient)], &[*expected], 2e-4);
        }
    }
}
