//! The file is read back by a reader that shares nothing with the writer, and computed by a few lines of f64.

use super::*;
use crate::protobuf::independent_reader::Fields;
use bowline::model_folder::{Contents, ModelCard, ModelFolder};
use bowline::params::Params;
use bowline::spec::ModelSpec;
use bowline_kernels::{Isa, Team};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

const WORDS: &str = "the\n<eos>\ncat\n<unk>\nsat\n";
const V: usize = 5;
const D: usize = 3;

/// A model of weights that are all different, two layers.
fn params(tied: bool) -> Params {
    let mut params = Params::zeros(&ModelSpec::paper(V, D, 2, tied));
    for (i, x) in params.data_mut().iter_mut().enumerate() {
        *x = ((i * 37 % 101) as f32 - 50.0) / 40.0 + i as f32 * 1e-4;
    }
    params
}

fn saved(tied: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let model = if tied { "real" } else { "vd-lstm" };
    let metadata = vec![("tokenize".to_owned(), "false".to_owned())];
    let card = ModelCard::default();
    let contents = Contents { model, params: &params(tied), vocabulary: WORDS, metadata, card: &card };
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
    let node = |node: &Fields| Node {
        operator: node.text(4),
        takes: node.texts(1),
        gives: node.texts(2),
        attributes: node.messages(5).iter().map(|attribute| (attribute.text(1), attribute.number(3))).collect(),
    };
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
    let words = [2, 0, 4, 3, 0, 2];
    for tied in [true, false] {
        let (dir, sequence) = exported(tied, Form::Sequence);
        let model = LoadedModel::load(dir.path().join("model")).unwrap();
        let team = Arc::new(Team::new(1));
        let state = Array { shape: vec![2, 1, D], values: vec![0.0; 2 * D] };
        let array = |shape: &[usize], ids: &[u32]| Array {
            shape: shape.to_vec(),
            values: ids.iter().map(|&id| f64::from(id)).collect(),
        };
        let inputs: Vec<u32> = [&[model.vocabulary.eos()], &words[..]].concat();
        let whole = evaluate(&sequence, array(&[inputs.len(), 1], &inputs), state.clone(), state.clone());
        assert_eq!(whole[0].shape, [inputs.len(), 1, V]);
        let (_dir, step) = exported(tied, Form::Step);
        let (mut h, mut c) = (state.clone(), state);
        for (t, &word) in inputs.iter().enumerate() {
            let [log_p, next_h, next_c] = evaluate(&step, array(&[1], &[word]), h, c);
            assert_eq!(log_p.shape, [1, V]);
            let bowline = model.distribution(&team, Isa::detect(), &words[..t]).unwrap();
            for (v, &probability) in bowline.iter().enumerate() {
                let ln = f64::from(probability).ln();
                assert!((log_p.values[v] - ln).abs() < 1e-5, "step {t}, word {v}: {} {ln}", log_p.values[v]);
                assert!((whole[0].values[t * V + v] - ln).abs() < 1e-5, "sequence {t}, word {v}");
            }
            (h, c) = (next_h, next_c);
        }
        for (end, step) in [(&whole[1], &h), (&whole[2], &c)] {
            assert_eq!(end.shape, [2, 1, D]);
            assert!(end.values.iter().zip(&step.values).all(|(a, b)| (a - b).abs() < 1e-12));
        }
    }
}

/// Log-probabilities and the next states of one stream (a batch of one).
fn evaluate(file: &File, ids: Array, h: Array, c: Array) -> [Array; 3] {
    let mut known = file.initializers.clone();
    known.extend([("ids".to_owned(), ids), ("h".to_owned(), h), ("c".to_owned(), c)]);
    for node in &file.nodes {
        let x = |i: usize| known[&node.takes[i]].clone();
        let attribute = |name: &str| *node.attributes.get(name).unwrap_or(&0);
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
                let bias = node.takes.get(2).map(|name| known[name].values.clone()).unwrap_or(vec![0.0; V]);
                let row = |row: &[f64]| (0..V).map(|v| bias[v] + dot(row, &b.values[v * D..])).collect::<Vec<_>>();
                let values = a.values.chunks(D).flat_map(row).collect();
                vec![Array { shape: vec![a.shape[0], V], values }]
            }
            "LogSoftmax" => {
                assert_eq!(attribute("axis"), 1);
                let row = |row: &[f64]| {
                    let sum: f64 = row.iter().map(|x| x.exp()).sum();
                    row.iter().map(|x| x - sum.ln()).collect::<Vec<_>>()
                };
                vec![Array { shape: x(0).shape, values: x(0).values.chunks(V).flat_map(row).collect() }]
            }
            "LSTM" => {
                assert_eq!((attribute("hidden_size"), node.takes[4].as_str()), (D as i64, ""));
                lstm(&x(0), [&x(1), &x(2), &x(3)], x(5), x(6)).to_vec()
            }
            other => panic!("operator {other}"),
        };
        known.extend(node.gives.iter().cloned().zip(results));
    }
    ["log_probabilities", "next_h", "next_c"].map(|name| known[name].clone())
}

/// ONNX's definition: gates in the order i, o, f, c; `C = f C + i c`, `H = o tanh(C)`.
fn lstm(x: &Array, [w, r, b]: [&Array; 3], mut h: Array, mut c: Array) -> [Array; 3] {
    let mut states = Vec::new();
    for x in x.values.chunks(D) {
        let gate = |n: usize, j: usize| {
            let row = n * D + j;
            let bias = b.values[row] + b.values[4 * D + row];
            dot(x, &w.values[row * D..]) + dot(&h.values, &r.values[row * D..]) + bias
        };
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let next: Vec<(f64, f64)> = (0..D)
            .map(|j| {
                let (i, o, f, g) = (sigmoid(gate(0, j)), sigmoid(gate(1, j)), sigmoid(gate(2, j)), gate(3, j).tanh());
                let c = f * c.values[j] + i * g;
                (o * c.tanh(), c)
            })
            .collect();
        (h.values, c.values) = next.into_iter().unzip();
        states.extend_from_slice(&h.values);
    }
    [Array { shape: vec![x.shape[0], 1, 1, D], values: states }, h, c]
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
