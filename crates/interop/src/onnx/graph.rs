//! The graph: embedding, LSTM layers, classifier and logarithm of the softmax as ONNX's operators.
//!
//! A *node* is an operator with the names of what it takes and gives. An *initializer* is a tensor that is in the file.
//! The numbers of the fields are those of ONNX's `onnx.proto3`.

use std::borrow::Cow;

use super::Form;
use crate::protobuf::Message;
use bowline::params::Params;

/// ONNX's element types.
const FLOAT: i64 = 1;
const INT64: i64 = 7;

/// Kinds of attribute.
const ATTRIBUTE_INT: i64 = 2;

/// PyTorch and Bowline have the gates in the order i, f, g, o, ONNX has them in the order i, o, f, c, where c is g. This
/// says which of ours comes when.
const GATES: [usize; 4] = [0, 3, 1, 2];

/// A size that is known, or the name of one that is not.
#[derive(Clone, Copy)]
enum Size {
    Known(usize),
    Any(&'static str),
}

/// A `GraphProto` under construction.
#[derive(Default)]
struct Graph<'a> {
    nodes: Vec<Message<'a>>,
    initializers: Vec<Message<'a>>,
}

/// The model as a `GraphProto`.
pub(super) fn graph<'a>(params: &'a Params, form: Form) -> Message<'a> {
    let a = params.spec();
    let (v, d) = (a.vocab, a.width());
    let mut graph = Graph::default();
    graph.floats("encoder.weight", &[v, d], Cow::Borrowed(params.embedding()));

    // Word vectors, (time, batch, d). In a step, time is 1.
    match form {
        Form::Sequence => graph.node("Gather", &["encoder.weight", "ids"], &["vectors"], &[]),
        Form::Step => {
            graph.ints("first_axis", &[0]);
            graph.node("Gather", &["encoder.weight", "ids"], &["word_vectors"], &[]);
            graph.node("Unsqueeze", &["word_vectors", "first_axis"], &["vectors"], &[]);
        }
    }
    let mut below = "vectors".to_owned();
    for layer in 0..a.layers.len() {
        below = graph.layer(params, layer, &below);
    }
    let of_layers = |state: &str| (0..a.layers.len()).map(|l| format!("next_{state}_l{l}")).collect::<Vec<_>>();
    for state in ["h", "c"] {
        let states = of_layers(state);
        let states: Vec<&str> = states.iter().map(String::as_str).collect();
        graph.node("Concat", &states, &[&format!("next_{state}")], &[("axis", 0)]);
    }

    // The classifier, on rows of size d. `W = L^T` when tied, and the embedding is the one tensor for both.
    graph.ints("rows", &[-1, d as i64]);
    graph.node("Reshape", &[&below, "rows"], &["states"], &[]);
    let mut classifier = vec!["states", "encoder.weight"];
    if let Some(bias) = params.classifier_bias() {
        graph.floats("decoder.weight", &[v, d], Cow::Borrowed(params.classifier()));
        graph.floats("decoder.bias", &[v], Cow::Borrowed(bias));
        classifier = vec!["states", "decoder.weight", "decoder.bias"];
    }
    graph.node("Gemm", &classifier, &["logits"], &[("transB", 1)]);
    let time_and_batch: &[Size] = match form {
        Form::Step => {
            graph.node("LogSoftmax", &["logits"], &["log_probabilities"], &[("axis", 1)]);
            &[Size::Any("batch")]
        }
        Form::Sequence => {
            graph.node("LogSoftmax", &["logits"], &["log_probability_rows"], &[("axis", 1)]);
            graph.node("Shape", &["ids"], &["time_and_batch"], &[]);
            graph.ints("vocabulary_size", &[v as i64]);
            graph.node("Concat", &["time_and_batch", "vocabulary_size"], &["result_shape"], &[("axis", 0)]);
            graph.node("Reshape", &["log_probability_rows", "result_shape"], &["log_probabilities"], &[]);
            &[Size::Any("time"), Size::Any("batch")]
        }
    };

    let state = [Size::Known(a.layers.len()), Size::Any("batch"), Size::Known(d)];
    let result = [time_and_batch, &[Size::Known(v)]].concat();
    let inputs = [("ids", INT64, time_and_batch), ("h", FLOAT, &state), ("c", FLOAT, &state)];
    let outputs = [("log_probabilities", FLOAT, &result[..]), ("next_h", FLOAT, &state), ("next_c", FLOAT, &state)];

    let mut message = Message::new();
    for node in graph.nodes {
        message = message.message(1, node);
    }
    message = message.text(2, &format!("bowline_{}", form.name()));
    for initializer in graph.initializers {
        message = message.message(5, initializer);
    }
    for (name, element, shape) in inputs {
        message = message.message(11, value(name, element, shape));
    }
    for (name, element, shape) in outputs {
        message = message.message(12, value(name, element, shape));
    }
    message
}

impl<'a> Graph<'a> {
    /// An LSTM layer on `below`, (time, batch, d); returns the name of its states, (time, 1, batch, d). The 1 is ONNX's
    /// number of directions.
    fn layer(&mut self, params: &'a Params, layer: usize, below: &str) -> String {
        let d = params.spec().width();
        let weights = params.layer(layer);
        let named = |what: &str| format!("{what}_l{layer}");
        let (w, r, b, which) = (named("rnn.W"), named("rnn.R"), named("rnn.B"), named("layer"));
        self.floats(&w, &[1, 4 * d, d], Cow::Owned(onnx_gates(weights.w_ih)));
        self.floats(&r, &[1, 4 * d, d], Cow::Owned(onnx_gates(weights.w_hh)));
        // ONNX has two biases, one after the other, which are added. Ours is the first.
        let mut bias = onnx_gates(weights.bias);
        bias.resize(8 * d, 0.0);
        self.floats(&b, &[1, 8 * d], Cow::Owned(bias));

        // This layer's part of the state, (1, batch, d).
        self.ints(&which, &[layer as i64]);
        let (h, c, states) = (named("h"), named("c"), named("states"));
        self.node("Gather", &["h", &which], &[&h], &[("axis", 0)]);
        self.node("Gather", &["c", &which], &[&c], &[("axis", 0)]);
        self.node(
            "LSTM",
            &[below, &w, &r, &b, "", &h, &c],
            &[&states, &named("next_h"), &named("next_c")],
            &[("hidden_size", d as i64)],
        );
        if layer + 1 == params.spec().layers.len() {
            // The classifier takes rows of size d, whatever the axes before it.
            return states;
        }
        let above = named("inputs_above");
        if layer == 0 {
            self.ints("directions", &[1]);
        }
        self.node("Squeeze", &[&states, "directions"], &[&above], &[]);
        above
    }

    /// A `NodeProto`, named after the first thing it gives.
    fn node(&mut self, operator: &str, takes: &[&str], gives: &[&str], attributes: &[(&str, i64)]) {
        let mut node = Message::new();
        for name in takes {
            node = node.text(1, name);
        }
        for name in gives {
            node = node.text(2, name);
        }
        node = node.text(3, &format!("{operator}_{}", gives.first().unwrap_or(&""))).text(4, operator);
        for (name, value) in attributes {
            node = node.message(5, Message::new().text(1, name).int(3, *value).int(20, ATTRIBUTE_INT));
        }
        self.nodes.push(node);
    }

    /// A `TensorProto` of floats.
    fn floats(&mut self, name: &str, shape: &[usize], values: Cow<'a, [f32]>) {
        let mut tensor = Message::new();
        for &size in shape {
            tensor = tensor.int(1, size as i64);
        }
        self.initializers.push(tensor.int(2, FLOAT).text(8, name).floats(9, values));
    }

    /// A `TensorProto` of a few whole numbers.
    fn ints(&mut self, name: &str, values: &[i64]) {
        let mut tensor = Message::new().int(1, values.len() as i64).int(2, INT64);
        for &value in values {
            tensor = tensor.int(7, value);
        }
        self.initializers.push(tensor.text(8, name));
    }
}

/// The rows of the four gates, in ONNX's order.
fn onnx_gates(values: &[f32]) -> Vec<f32> {
    let gate = values.len() / 4;
    GATES.iter().flat_map(|&ours| &values[ours * gate..(ours + 1) * gate]).copied().collect()
}

/// A `ValueInfoProto`: the name, element type and shape of what goes in or comes out.
fn value<'a>(name: &str, element: i64, shape: &[Size]) -> Message<'a> {
    let mut sizes = Message::new();
    for size in shape {
        sizes = sizes.message(
            1,
            match size {
                Size::Known(size) => Message::new().int(1, *size as i64),
                Size::Any(name) => Message::new().text(2, name),
            },
        );
    }
    let tensor = Message::new().int(1, element).message(2, sizes);
    Message::new().text(1, name).message(2, Message::new().message(1, tensor))
}
