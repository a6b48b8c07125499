//! The file is read back by a reader that shares nothing with the writer, and computed by a few lines of f64.

use super::*;
use crate::protobuf::independent_reader::Fields;
use bowline::model_folder::{Contents, ModelCard, ModelFolder};
use bowline::params::Params;
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use bowline_kernels::{Isa, Team};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

const WORDS: &str = "the\n<eos>\ncat\n<unk>\nsat\n";
const V: usize = 5;
const D: usize = 3;

/// A model of weights that are all different, two layers.
fn params(tied: bool) -> Params {
    filled(&ModelSpec::paper(V, D, 2, tied))
}

fn filled(spec: &ModelSpec) -> Params {
    let mut params = Params::zeros(spec);
    for (i, x) in params.data_mut().iter_mut().enumerate() {
        *x = ((i * 37 % 101) as f32 - 50.0) / 40.0 + i as f32 * 1e-4;
    }
    params
}

fn saved(tied: bool) -> tempfile::TempDir {
    saved_as(&params(tied), if tied { "real" } else { "vd-lstm" })
}

fn saved_as(params: &Params, model: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let metadata = vec![("tokenize".to_owned(), "false".to_owned())];
    let card = ModelCard::default();
    let contents = Contents { model, params, vocabulary: WORDS, metadata, card: &card };
    ModelFolder::save(dir.path().join("model"), &contents).unwrap();
    dir
}

/// A tensor of the file: its shape and values.
#[derive(Clone, Debug, PartialEq)]
struct Array {
    shape: Vec<usize>,
    values: Vec<f64>,
}

#[derive(Debug)]
struct Node {
    operator: String,
    takes: Vec<String>,
    gives: Vec<String>,
    attributes: BTreeMap<String, i64>,
    /// The function that a plain RNN computes.
    activation: String,
    /// What is done in every step.
    body: Option<Body>,
}

/// A graph within the graph, with the names of what it takes and gives.
#[derive(Debug)]
struct Body {
    nodes: Vec<Node>,
    takes: Vec<String>,
    gives: Vec<String>,
}

fn node(node: &Fields) -> Node {
    let of_kind = |kind| node.messages(5).into_iter().filter(move |attribute| attribute.number(20) == kind);
    let names = |values: Vec<Fields>| values.iter().map(|value| value.text(1)).collect();
    Node {
        operator: node.text(4),
        takes: node.texts(1),
        gives: node.texts(2),
        attributes: of_kind(2).map(|attribute| (attribute.text(1), attribute.number(3))).collect(),
        activation: node.messages(5).iter().flat_map(|attribute| attribute.texts(9)).collect(),
        body: of_kind(5).next().map(|attribute| {
            let graph = attribute.message(6);
            let nodes = graph.messages(1).iter().map(self::node).collect();
            Body { nodes, takes: names(graph.messages(11)), gives: names(graph.messages(12)) }
        }),
    }
}

/// The file as a runtime sees it.
struct File {
    model: Fields,
    nodes: Vec<Node>,
    initializers: BTreeMap<String, Array>,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

fn read(bytes: &[u8]) -> File {
    let model = Fields::parse(bytes);
    let graph = model.message(7);
    let array = |tensor: &Fields| {
        let shape: Vec<usize> = tensor.numbers(1).iter().map(|&size| size as usize).collect();
        let values: Vec<f64> = match tensor.number(2) {
            1 => {
                let four = |four: &[u8]| f64::from(f32::from_le_bytes(four.try_into().unwrap()));
                tensor.bytes(9)[0].chunks_exact(4).map(four).collect()
            }
            7 => tensor.numbers(7).iter().map(|&number| number as f64).collect(),
            other => panic!("element type {other}"),
        };
        assert_eq!(values.len(), shape.iter().product::<usize>());
        (tensor.text(8), Array { shape, values })
    };
    // `ids:7[time,batch]`
    let value = |value: &Fields| {
        let tensor = value.message(2).message(1);
        let size = |size: &Fields| if size.text(2).is_empty() { size.number(1).to_string() } else { size.text(2) };
        let sizes: Vec<_> = tensor.message(2).messages(1).iter().map(size).collect();
        format!("{}:{}[{}]", value.text(1), tensor.number(1), sizes.join(","))
    };
    File {
        nodes: graph.messages(1).iter().map(node).collect(),
        initializers: graph.messages(5).iter().map(array).collect(),
        inputs: graph.messages(11).iter().map(value).collect(),
        outputs: graph.messages(12).iter().map(value).collect(),
        model,
    }
}

fn exported(tied: bool, form: Form) -> (tempfile::TempDir, File) {
    let dir = saved(tied);
    let out = dir.path().join("model.onnx");
    let bytes = export(&dir.path().join("model"), form, &out).unwrap();
    let file = fs::read(&out).unwrap();
    assert_eq!(file.len() as u64, bytes);
    (dir, read(&file))
}

#[test]
fn the_nodes_are_these() {
    let list = |file: &File| {
        let node = |n: &Node| format!("{}({}) -> {}", n.operator, n.takes.join(" "), n.gives.join(" "));
        file.nodes.iter().map(node).collect::<Vec<_>>()
    };
    let layers = [
        "Gather(h layer_l0) -> h_l0",
        "Gather(c layer_l0) -> c_l0",
        "LSTM(vectors rnn.W_l0 rnn.R_l0 rnn.B_l0  h_l0 c_l0) -> states_l0 next_h_l0 next_c_l0",
        "Squeeze(states_l0 directions) -> inputs_above_l0",
        "Gather(h layer_l1) -> h_l1",
        "Gather(c layer_l1) -> c_l1",
        "LSTM(inputs_above_l0 rnn.W_l1 rnn.R_l1 rnn.B_l1  h_l1 c_l1) -> states_l1 next_h_l1 next_c_l1",
        "Concat(next_h_l0 next_h_l1) -> next_h",
        "Concat(next_c_l0 next_c_l1) -> next_c",
        "Reshape(states_l1 rows) -> states",
    ];
    let (_dir, file) = exported(true, Form::Sequence);
    let mut expected = vec!["Gather(encoder.weight ids) -> vectors"];
    expected.extend(layers);
    expected.extend([
        "Gemm(states encoder.weight) -> logits",
        "LogSoftmax(logits) -> log_probability_rows",
        "Shape(ids) -> time_and_batch",
        "Concat(time_and_batch vocabulary_size) -> result_shape",
        "Reshape(log_probability_rows result_shape) -> log_probabilities",
    ]);
    assert_eq!(list(&file), expected);
    assert_eq!(file.inputs, ["ids:7[time,batch]", "h:1[2,batch,3]", "c:1[2,batch,3]"]);
    assert_eq!(file.outputs, ["log_probabilities:1[time,batch,5]", "next_h:1[2,batch,3]", "next_c:1[2,batch,3]"]);

    let (_dir, file) = exported(false, Form::Step);
    let mut expected =
        vec!["Gather(encoder.weight ids) -> word_vectors", "Unsqueeze(word_vectors first_axis) -> vectors"];
    expected.extend(layers);
    expected.extend(["Gemm(states decoder.weight decoder.bias) -> logits", "LogSoftmax(logits) -> log_probabilities"]);
    assert_eq!(list(&file), expected);
    assert_eq!(file.inputs, ["ids:7[batch]", "h:1[2,batch,3]", "c:1[2,batch,3]"]);
    assert_eq!(file.outputs, ["log_probabilities:1[batch,5]", "next_h:1[2,batch,3]", "next_c:1[2,batch,3]"]);
}

#[test]
fn the_tensors_have_onnx_s_shapes_and_order_of_gates() {
    for tied in [true, false] {
        let (_dir, file) = exported(tied, Form::Sequence);
        let shapes: Vec<_> = file.initializers.iter().map(|(name, a)| format!("{name}{:?}", a.shape)).collect();
        let decoder = ["decoder.bias[5]", "decoder.weight[5, 3]"];
        let mut expected: Vec<&str> = if tied { vec![] } else { decoder.to_vec() };
        expected.extend(["directions[1]", "encoder.weight[5, 3]", "layer_l0[1]", "layer_l1[1]"]);
        expected.extend(["rnn.B_l0[1, 24]", "rnn.B_l1[1, 24]", "rnn.R_l0[1, 12, 3]", "rnn.R_l1[1, 12, 3]"]);
        expected.extend(["rnn.W_l0[1, 12, 3]", "rnn.W_l1[1, 12, 3]", "rows[2]", "vocabulary_size[1]"]);
        assert_eq!(shapes, expected, "tied: {tied}");

        let params = params(tied);
        let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        assert_eq!(file.initializers["encoder.weight"].values, wide(params.embedding()));
        for layer in 0..2 {
            let ours = params.layer(layer);
            // i, o, f, g out of i, f, g, o.
            let gates = |values: &[f32]| {
                let gate = |n: usize| wide(&values[n * values.len() / 4..(n + 1) * values.len() / 4]);
                [gate(0), gate(3), gate(1), gate(2)].concat()
            };
            assert_eq!(file.initializers[&format!("rnn.W_l{layer}")].values, gates(ours.w_ih));
            assert_eq!(file.initializers[&format!("rnn.R_l{layer}")].values, gates(ours.w_hh));
            let biases = [gates(ours.bias), vec![0.0; 4 * D]].concat();
            assert_eq!(file.initializers[&format!("rnn.B_l{layer}")].values, biases);
        }
    }
}

#[test]
fn the_file_says_what_it_is() {
    let (dir, file) = exported(true, Form::Step);
    let model = &file.model;
    assert_eq!((model.number(1), model.text(2)), (7, "bowline".to_owned()));
    let operators = model.message(8);
    assert_eq!((operators.text(1), operators.number(2)), (String::new(), 13));
    let metadata: BTreeMap<_, _> = model.messages(14).iter().map(|pair| (pair.text(1), pair.text(2))).collect();
    let hash = LoadedModel::load(dir.path().join("model")).unwrap().metadata[HASH_KEY].clone();
    let expected = [
        ("bowline.eos", "1"),
        ("bowline.form", "step"),
        ("bowline.model", "real"),
        ("bowline.tokenize", "false"),
        ("bowline.unk", "3"),
        ("bowline.vocabulary", "vocab.txt"),
        ("bowline.vocabulary_sha256", &sha256(WORDS.as_bytes())),
        ("bowline.weights_sha256", &hash),
    ];
    assert!(metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).eq(expected), "{metadata:?}");
    assert_eq!(model.message(7).text(2), "bowline_step");
}

/// Runs the nodes on one stream by ONNX's definitions, and compares with Bowline itself.
#[test]
fn both_forms_computed_by_the_definition_agree_with_bowline() {
    for tied in [true, false] {
        agrees(&params(tied), if tied { "real" } else { "vd-lstm" });
    }
    // Layers of other widths than the word vectors, alike and not, with a projection under a tied classifier and without.
    let units = [
        Unit::Lstm { coupled: false },
        Unit::Gru,
        Unit::Rnn { activation: Activation::Tanh },
        Unit::Rnn { activation: Activation::Sigmoid },
        Unit::Rnn { activation: Activation::Relu },
    ];
    let activations = [Activation::Linear, Activation::Tanh, Activation::Sigmoid, Activation::Relu, Activation::Linear];
    for (i, unit) in units.into_iter().enumerate() {
        for (widths, projected) in [([4, 2], true), ([4, 4], true), ([2, 6], false)] {
            let projection = ProjectionSpec { width: 3, activation: activations[i], bias: i % 2 == 0 };
            let output = OutputSpec {
                projection: projected.then_some(projection),
                tied: projected,
                bias: i % 2 == 1,
                ..OutputSpec::default()
            };
            let layers = widths.map(|units| LayerSpec::new(unit, units)).to_vec();
            agrees(&filled(&ModelSpec { vocab: V, input: InputSpec::words(D), layers, output }), "any");
        }
    }
    // Rounds before every step, an even and an odd number of them.
    for (coupled, rounds, widths) in [(false, 5, vec![4]), (true, 2, vec![3, 3]), (false, 1, vec![4, 2])] {
        let layers = widths.iter().map(|&units| LayerSpec::new(Unit::Mogrifier { coupled, rounds, rank: 2 }, units));
        let projection = ProjectionSpec { width: D, activation: Activation::Linear, bias: false };
        let output =
            OutputSpec { projection: Some(projection), tied: true, bias: rounds == 1, ..OutputSpec::default() };
        agrees(&filled(&ModelSpec { vocab: V, input: InputSpec::words(D), layers: layers.collect(), output }), "any");
    }
}

fn agrees(params: &Params, model: &str) {
    let words = [2, 0, 4, 3, 0, 2];
    let dir = saved_as(params, model);
    let folder = dir.path().join("model");
    let [step, sequence] = [Form::Step, Form::Sequence].map(|form| {
        let out = dir.path().join(form.name());
        export(&folder, form, &out).unwrap();
        read(&fs::read(&out).unwrap())
    });
    let model = LoadedModel::load(&folder).unwrap();
    let team = Arc::new(Team::new(1));
    let array = |shape: &[usize], ids: &[u32]| Array {
        shape: shape.to_vec(),
        values: ids.iter().map(|&id| f64::from(id)).collect(),
    };
    // `h:1[2,batch,3]`: zeros of that shape, for one stream.
    let zeros = |value: &String| {
        let (name, rest) = value.split_once(':').unwrap();
        let sizes = rest[2..].trim_end_matches(']').split(',').map(|size| size.parse().unwrap_or(1));
        let shape: Vec<usize> = sizes.collect();
        (name.to_owned(), Array { values: vec![0.0; shape.iter().product()], shape })
    };
    let state: BTreeMap<String, Array> = step.inputs[1..].iter().map(zeros).collect();
    let inputs: Vec<u32> = [&[model.vocabulary.eos()], &words[..]].concat();
    let whole = evaluate(&sequence, array(&[inputs.len(), 1], &inputs), &state);
    assert_eq!(whole["log_probabilities"].shape, [inputs.len(), 1, V]);
    let next = |known: &BTreeMap<String, Array>| -> BTreeMap<String, Array> {
        state.keys().map(|name| (name.clone(), known[&format!("next_{name}")].clone())).collect()
    };
    let mut now = state.clone();
    for (t, &word) in inputs.iter().enumerate() {
        let known = evaluate(&step, array(&[1], &[word]), &now);
        let log_p = &known["log_probabilities"];
        assert_eq!(log_p.shape, [1, V]);
        let bowline = model.distribution(&team, Isa::detect(), &words[..t]).unwrap();
        for (v, &probability) in bowline.iter().enumerate() {
            let ln = f64::from(probability).ln();
            let what = format!("{:?}, word {v} after {t}", params.spec());
            assert!((log_p.values[v] - ln).abs() < 1e-5, "{what}, step: {} {ln}", log_p.values[v]);
            let of_sequence = whole["log_probabilities"].values[t * V + v];
            assert!((of_sequence - ln).abs() < 1e-5, "{what}, sequence: {of_sequence} {ln}");
        }
        now = next(&known);
    }
    for (name, end) in next(&whole) {
        assert_eq!(end.shape, state[&name].shape);
        assert!(end.values.iter().zip(&now[&name].values).all(|(a, b)| (a - b).abs() < 1e-12), "{name}");
    }
}

#[test]
fn what_onnx_has_no_operator_for_is_refused() {
    for (unit, direct, what) in [
        (Unit::Highway { depth: 2 }, false, "recurrent highway layers"),
        (Unit::Deep { activation: Activation::Tanh }, false, "deep transition layers"),
        (Unit::Lstm { coupled: true }, false, "coupled LSTM layers"),
        (Unit::Rnn { activation: Activation::Tanh }, true, "word vectors without a matrix"),
    ] {
        let output = OutputSpec { bias: true, ..OutputSpec::default() };
        let layers = vec![LayerSpec { direct, ..LayerSpec::new(unit, D) }];
        let params = filled(&ModelSpec { vocab: V, input: InputSpec::words(D), layers, output });
        let dir = saved_as(&params, "any");
        let message = export(&dir.path().join("model"), Form::Step, &dir.path().join("x")).unwrap_err().to_string();
        assert!(message.contains(&format!("ONNX has no operator for {what};")), "{message}");
        assert!(!dir.path().join("x").exists());
    }
}

/// All that is known after the nodes were computed for one stream (a batch of one).
fn evaluate(file: &File, ids: Array, state: &BTreeMap<String, Array>) -> BTreeMap<String, Array> {
    let mut known = file.initializers.clone();
    known.extend(state.clone());
    known.insert("ids".to_owned(), ids);
    compute(&file.nodes, &mut known);
    known
}

/// Adds what the nodes give to what is known.
fn compute(nodes: &[Node], known: &mut BTreeMap<String, Array>) {
    for node in nodes {
        let x = |i: usize| known[&node.takes[i]].clone();
        let attribute = |name: &str| *node.attributes.get(name).unwrap_or(&0);
        let each = |f: &dyn Fn(f64) -> f64| {
            vec![Array { shape: x(0).shape, values: x(0).values.iter().map(|&x| f(x)).collect() }]
        };
        // A single number goes with each of the others.
        let both = |f: &dyn Fn(f64, f64) -> f64| {
            let (a, b) = if x(0).values.len() == 1 {
                (vec![x(0).values[0]; x(1).values.len()], x(1))
            } else {
                (x(0).values, x(1))
            };
            assert_eq!(a.len(), b.values.len());
            vec![Array { values: a.iter().zip(&b.values).map(|(&a, &b)| f(a, b)).collect(), shape: b.shape }]
        };
        let results = match node.operator.as_str() {
            "Gather" => {
                assert_eq!(attribute("axis"), 0);
                let (data, at) = (x(0), x(1));
                let row: usize = data.shape[1..].iter().product();
                let of = |&i: &f64| data.values[i as usize * row..(i as usize + 1) * row].to_vec();
                let shape = [&at.shape[..], &data.shape[1..]].concat();
                vec![Array { shape, values: at.values.iter().flat_map(of).collect() }]
            }
            "Unsqueeze" => vec![Array { shape: [&[1], &x(0).shape[..]].concat(), values: x(0).values }],
            "Squeeze" => {
                let mut shape = x(0).shape;
                assert_eq!(shape.remove(x(1).values[0] as usize), 1);
                vec![Array { shape, values: x(0).values }]
            }
            "Concat" => {
                let parts: Vec<Array> = (0..node.takes.len()).map(x).collect();
                let mut shape = parts[0].shape.clone();
                shape[0] = parts.iter().map(|part| part.shape[0]).sum();
                vec![Array { shape, values: parts.into_iter().flat_map(|part| part.values).collect() }]
            }
            "Shape" => {
                let shape = x(0).shape;
                vec![Array { shape: vec![shape.len()], values: shape.iter().map(|&size| size as f64).collect() }]
            }
            "Reshape" => {
                let (data, sizes) = (x(0), x(1).values);
                let others: f64 = sizes.iter().filter(|&&size| size > 0.0).product();
                let size = |&s: &f64| if s < 0.0 { data.values.len() / others as usize } else { s as usize };
                vec![Array { shape: sizes.iter().map(size).collect(), values: data.values }]
            }
            "Gemm" => {
                assert_eq!(attribute("transB"), 1);
                let (a, b) = (x(0), x(1));
                let [n, k] = b.shape[..] else { panic!("{:?}", b.shape) };
                let bias = node.takes.get(2).map(|name| known[name].values.clone()).unwrap_or(vec![0.0; n]);
                let row = |row: &[f64]| (0..n).map(|i| bias[i] + dot(row, &b.values[i * k..])).collect::<Vec<_>>();
                let values = a.values.chunks(k).flat_map(row).collect();
                vec![Array { shape: vec![a.shape[0], n], values }]
            }
            "Tanh" => each(&f64::tanh),
            "Sigmoid" => each(&sigmoid),
            "Relu" => each(&|x| x.max(0.0)),
            "LogSoftmax" => {
                assert_eq!(attribute("axis"), 1);
                let row = |row: &[f64]| {
                    let sum: f64 = row.iter().map(|x| x.exp()).sum();
                    row.iter().map(|x| x - sum.ln()).collect::<Vec<_>>()
                };
                vec![Array { shape: x(0).shape, values: x(0).values.chunks(V).flat_map(row).collect() }]
            }
            "LSTM" | "GRU" | "RNN" => {
                assert_eq!((attribute("hidden_size"), node.takes[4].as_str()), (x(5).shape[2] as i64, ""));
                assert_eq!(attribute("linear_before_reset"), i64::from(node.operator == "GRU"));
                let mut state: Vec<Array> = (5..node.takes.len()).map(x).collect();
                let mut all = vec![recurrent(node, &x(0), [&x(1), &x(2), &x(3)], &mut state)];
                all.extend(state);
                all
            }
            "Add" => both(&|x, y| x + y),
            "Sub" => both(&|x, y| x - y),
            "Mul" => both(&|x, y| x * y),
            "Min" => both(&f64::min),
            "Identity" => vec![x(0)],
            "Split" => {
                // A row in equal parts.
                assert_eq!((attribute("axis"), x(0).shape[0]), (1, 1));
                let width = x(0).values.len() / node.gives.len();
                x(0).values.chunks(width).map(|part| Array { shape: vec![1, width], values: part.to_vec() }).collect()
            }
            "Scan" => scan(node, known),
            other => panic!("operator {other}"),
        };
        known.extend(node.gives.iter().cloned().zip(results));
    }
}

/// ONNX's `Scan` over the first axis of one input, with two states: those after the last step, and what each step gave.
fn scan(node: &Node, known: &BTreeMap<String, Array>) -> Vec<Array> {
    let (body, x) = (node.body.as_ref().unwrap(), &known[&node.takes[2]]);
    assert_eq!((node.attributes["num_scan_inputs"], node.takes.len(), body.gives.len()), (1, 3, 3));
    let mut state = [&node.takes[0], &node.takes[1]].map(|name| known[name].clone());
    let (steps, shape) = (x.shape[0], x.shape[1..].to_vec());
    let mut all = Array { shape: Vec::new(), values: Vec::new() };
    for x in x.values.chunks(x.values.len() / steps) {
        let mut inside = known.clone();
        let taken = state.into_iter().chain([Array { shape: shape.clone(), values: x.to_vec() }]);
        inside.extend(body.takes.iter().cloned().zip(taken));
        compute(&body.nodes, &mut inside);
        let [h, c, output] = [0, 1, 2].map(|i| inside[&body.gives[i]].clone());
        all.shape = [&[steps], &output.shape[..]].concat();
        all.values.extend(output.values);
        state = [h, c];
    }
    let [h, c] = state;
    vec![h, c, all]
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// ONNX's definitions. LSTM, gates i, o, f, c: `C = f C + i c`, `H = o tanh(C)`. GRU, gates z, r, h, where the reset gate is on
/// the product: `H = (1 - z) h + z H`. RNN: `H = f(..)`.
fn recurrent(node: &Node, x: &Array, [w, r, b]: [&Array; 3], state: &mut [Array]) -> Array {
    let (d, inputs, rows) = (r.shape[2], w.shape[2], w.shape[1]);
    let mut states = Vec::new();
    for x in x.values.chunks(inputs) {
        let h = state[0].values.clone();
        let of_input = |n: usize, j: usize| dot(x, &w.values[(n * d + j) * inputs..]) + b.values[n * d + j];
        let of_state = |n: usize, j: usize| dot(&h, &r.values[(n * d + j) * d..]) + b.values[rows + n * d + j];
        let gate = |n: usize, j: usize| of_input(n, j) + of_state(n, j);
        for (j, &before) in h.iter().enumerate() {
            state[0].values[j] = match (node.operator.as_str(), node.activation.as_str()) {
                ("LSTM", "") => {
                    let [i, o, f] = [0, 1, 2].map(|n| sigmoid(gate(n, j)));
                    state[1].values[j] = f * state[1].values[j] + i * gate(3, j).tanh();
                    o * state[1].values[j].tanh()
                }
                ("GRU", "") => {
                    let [z, r] = [0, 1].map(|n| sigmoid(gate(n, j)));
                    (1.0 - z) * (of_input(2, j) + r * of_state(2, j)).tanh() + z * before
                }
                ("RNN", "Tanh") => gate(0, j).tanh(),
                ("RNN", "Sigmoid") => sigmoid(gate(0, j)),
                ("RNN", "Relu") => gate(0, j).max(0.0),
                other => panic!("{other:?}"),
            };
        }
        states.extend_from_slice(&state[0].values);
    }
    Array { shape: vec![x.shape[0], 1, 1, d], values: states }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn a_file_that_no_reader_could_read_is_not_written() {
    check_length(Path::new("x.onnx"), LONGEST).unwrap();
    assert_eq!(
        check_length(Path::new("x.onnx"), LONGEST + 1).unwrap_err().to_string(),
        "x.onnx: length: the file would have 2147483648 bytes, but a protobuf message can have 2147483647 at most\n  \
         try: load `model.safetensors` instead, which has no such limit (docs/interop/pytorch.py)"
    );
    // The estimate is not more than what is written.
    let (dir, _) = exported(false, Form::Step);
    let model = LoadedModel::load(dir.path().join("model")).unwrap();
    let least = estimate(model.params().unwrap());
    let bytes = fs::metadata(dir.path().join("model.onnx")).unwrap().len();
    assert!(least < bytes && bytes < least + 4000, "{bytes}");
}
