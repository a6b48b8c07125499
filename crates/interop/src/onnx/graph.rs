//! The graph: embedding, recurrent layers, projection, classifier and logarithm of the softmax as ONNX's operators.
//!
//! A *node* is an operator with the names of what it takes and gives. An *initializer* is a tensor that is in the file.
//! The numbers of the fields are those of ONNX's `onnx.proto3`. The parts are put together here for [`Form`], and in `sherpa` for
//! sherpa-onnx. What a layer with rounds is made of is in `rounds`.

use std::borrow::Cow;

use super::Form;
use crate::protobuf::Message;
use bowline::model::word_vectors;
use bowline::params::Params;
use bowline::spec::{Activation, LayerSpec, ModelSpec, Unit};

/// ONNX's element types.
pub(super) const FLOAT: i64 = 1;
pub(super) const INT64: i64 = 7;

/// Kinds of attribute.
const ATTRIBUTE_INT: i64 = 2;
const ATTRIBUTE_TEXTS: i64 = 8;

/// A recurrent layer that is one operator of ONNX's.
struct Operator {
    name: &'static str,
    /// Which of our gates comes when. PyTorch and Bowline have an LSTM's in the order i, f, g, o and a GRU's in the order r, z,
    /// n; ONNX has i, o, f, c, where c is g, and z, r, h, where h is n.
    gates: &'static [usize],
    /// Attributes beside the size.
    attribute: Option<(&'static str, i64)>,
    activation: Option<&'static str>,
}

/// The operator for a layer, or why there is none.
fn operator(layer: &LayerSpec) -> Result<Operator, String> {
    let none = |name, gates| Operator { name, gates, attribute: None, activation: None };
    match layer.unit {
        _ if layer.direct => Err("word vectors without a matrix".to_owned()),
        Unit::Lstm { coupled: false } => Ok(none("LSTM", &[0, 3, 1, 2])),
        Unit::Gru => Ok(Operator { attribute: Some(("linear_before_reset", 1)), ..none("GRU", &[1, 0, 2]) }),
        Unit::Rnn { activation } => Ok(Operator { activation: activation_name(activation), ..none("RNN", &[0]) }),
        unit => Err(format!("{} layers", unit.title())),
    }
}

/// The operator for a function of one number.
fn activation_name(activation: Activation) -> Option<&'static str> {
    match activation {
        Activation::Linear => None,
        Activation::Tanh => Some("Tanh"),
        Activation::Sigmoid => Some("Sigmoid"),
        Activation::Relu => Some("Relu"),
    }
}

/// Whether ONNX has operators for all of a model; if not, for what it has none.
pub(super) fn check(spec: &ModelSpec) -> Result<(), String> {
    if spec.input.topics.is_some() {
        return Err("topics beside the word vectors".to_owned());
    }
    if spec.input.context.is_some() || spec.output.sum_product.is_some() {
        return Err("words that are read side by side, or the polynomials of a sum-product network".to_owned());
    }
    if spec.output.pointer.is_some() {
        return Err("a pointer to the last words".to_owned());
    }
    if spec.output.mixture.is_some() {
        return Err("a mixture of softmaxes".to_owned());
    }
    if spec.output.classes.is_some() {
        return Err("classes of words".to_owned());
    }
    if spec.output.sum_layers {
        return Err("a sum of layers under the classifier".to_owned());
    }
    let single = |layer: &&LayerSpec| !matches!(layer.unit, Unit::Mogrifier { .. });
    spec.layers.iter().filter(single).try_for_each(|layer| operator(layer).map(|_| ()))
}

/// Whether the layers' states are one tensor: all of one size.
pub(super) fn stacked(spec: &ModelSpec) -> bool {
    spec.layers.iter().all(|layer| *layer == spec.layers[0])
}

/// A size that is known, or the name of one that is not.
#[derive(Clone, Copy)]
pub(super) enum Size {
    Known(usize),
    Any(&'static str),
}

/// Where a stream begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// With the state that is handed in.
    Given,
    /// With zeros.
    Zeros,
}

/// A `GraphProto` under construction.
#[derive(Default)]
pub(super) struct Graph<'a> {
    nodes: Vec<Message<'a>>,
    initializers: Vec<Message<'a>>,
}

/// The model, for which there are [operators](check), as a `GraphProto`: a step or, in any other form, a sequence.
pub(super) fn graph<'a>(params: &'a Params, form: Form) -> Message<'a> {
    let a = params.spec();
    let v = a.vocab;
    let mut graph = Graph::of(params);

    // Word vectors, (time, batch, d). In a step, time is 1.
    if form == Form::Step {
        graph.ints("first_axis", &[0]);
        graph.node("Gather", &["encoder.weight", "ids"], &["word_vectors"], &[]);
        graph.node("Unsqueeze", &["word_vectors", "first_axis"], &["vectors"], &[]);
    } else {
        graph.node("Gather", &["encoder.weight", "ids"], &["vectors"], &[]);
    }
    let below = graph.layers(params, "vectors", Begin::Given);
    // The state: name, layers in it, size.
    let mut states: Vec<(String, usize, usize)> = Vec::new();
    if stacked(a) {
        let layer = &a.layers[0];
        for part in layer.state() {
            graph.stack(a.layers.len(), part, &format!("next_{part}"));
            states.push(((*part).to_owned(), a.layers.len(), layer.units));
        }
    } else {
        for (l, layer) in a.layers.iter().enumerate() {
            states.extend(layer.state().iter().map(|part| (format!("{part}_l{l}"), 1, layer.units)));
        }
    }

    graph.classifier(params, &below);
    let time_and_batch: &[Size] = if form == Form::Step {
        graph.node("LogSoftmax", &["logits"], &["log_probabilities"], &[("axis", 1)]);
        &[Size::Any("batch")]
    } else {
        graph.node("LogSoftmax", &["logits"], &["log_probability_rows"], &[("axis", 1)]);
        graph.node("Shape", &["ids"], &["time_and_batch"], &[]);
        graph.ints("vocabulary_size", &[v as i64]);
        graph.node("Concat", &["time_and_batch", "vocabulary_size"], &["result_shape"], &[("axis", 0)]);
        graph.node("Reshape", &["log_probability_rows", "result_shape"], &["log_probabilities"], &[]);
        &[Size::Any("time"), Size::Any("batch")]
    };

    let result = [time_and_batch, &[Size::Known(v)]].concat();
    let mut inputs = vec![value("ids", INT64, time_and_batch)];
    let mut outputs = vec![value("log_probabilities", FLOAT, &result)];
    for (name, layers, units) in &states {
        let shape = [Size::Known(*layers), Size::Any("batch"), Size::Known(*units)];
        inputs.push(value(name, FLOAT, &shape));
        outputs.push(value(&format!("next_{name}"), FLOAT, &shape));
    }

    graph.message(&format!("bowline_{}", form.name()), inputs, outputs)
}

impl<'a> Graph<'a> {
    /// A graph that has the word vectors. Words that are read by their characters become a table.
    pub(super) fn of(params: &'a Params) -> Graph<'a> {
        let (a, mut graph) = (params.spec(), Graph::default());
        graph.floats("encoder.weight", &[a.vocab, a.input.width], word_vectors(params));
        graph
    }

    /// The `GraphProto`.
    pub(super) fn message(self, name: &str, inputs: Vec<Message<'a>>, outputs: Vec<Message<'a>>) -> Message<'a> {
        let fields = |number, of: Vec<Message<'a>>| of.into_iter().map(move |message| (number, message));
        let before = fields(1, self.nodes);
        let after = fields(5, self.initializers).chain(fields(11, inputs)).chain(fields(12, outputs));
        let add = |message: Message<'a>, (number, part)| message.message(number, part);
        after.fold(before.fold(Message::new(), add).text(2, name), add)
    }

    /// All layers on `below`; returns the name of the last one's states, (time, 1, batch, d).
    pub(super) fn layers(&mut self, params: &'a Params, below: &str, begin: Begin) -> String {
        (0..params.spec().layers.len()).fold(below.to_owned(), |below, layer| self.layer(params, layer, &below, begin))
    }

    /// A part of the state after the words, `h` or `c`, of all layers: (layers, batch, d).
    pub(super) fn stack(&mut self, layers: usize, part: &str, name: &str) {
        let of_layers: Vec<String> = (0..layers).map(|layer| format!("next_{part}_l{layer}")).collect();
        let of_layers: Vec<&str> = of_layers.iter().map(String::as_str).collect();
        self.node("Concat", &of_layers, &[name], &[("axis", 0)]);
    }

    /// `logits`, (time * batch, V), of the last layer's states. `W = L^T` when tied, and the embedding is the one tensor for both.
    pub(super) fn classifier(&mut self, params: &'a Params, below: &str) {
        let a = params.spec();
        self.ints("rows", &[-1, a.inputs(a.layers.len()) as i64]);
        self.node("Reshape", &[below, "rows"], &["states"], &[]);
        let seen = self.projection(params);
        let mut classifier = vec![seen, "encoder.weight"];
        if !a.output.tied {
            self.floats("decoder.weight", &[a.vocab, a.width()], Cow::Borrowed(params.classifier()));
            classifier[1] = "decoder.weight";
        }
        if let Some(bias) = params.classifier_bias() {
            self.floats("decoder.bias", &[a.vocab], Cow::Borrowed(bias));
            classifier.push("decoder.bias");
        }
        self.node("Gemm", &classifier, &["logits"], &[("transB", 1)]);
    }

    /// A layer on `below`, (time, batch, inputs); returns the name of its states, (time, batch, d), or of the last layer's, which
    /// may have an axis more: the classifier takes rows of size d, whatever the axes before it.
    fn layer(&mut self, params: &'a Params, layer: usize, below: &str, begin: Begin) -> String {
        let (spec, named) = (params.spec(), |what: &str| format!("{what}_l{layer}"));
        if begin == Begin::Given && stacked(spec) {
            // This layer's part of the state, (1, batch, d).
            let which = named("layer");
            self.ints(&which, &[layer as i64]);
            for part in spec.layers[layer].state() {
                self.node("Gather", &[part, &which], &[&named(part)], &[("axis", 0)]);
            }
        }
        let Ok(operator) = operator(&spec.layers[layer]) else { return self.scan(params, layer, below, begin) };
        let states = self.recurrent(params, layer, (below, begin), &operator);
        if layer + 1 == spec.layers.len() {
            return states;
        }
        let above = named("inputs_above");
        if spec.layers[..layer].iter().all(|layer| matches!(layer.unit, Unit::Mogrifier { .. })) {
            self.ints("directions", &[1]);
        }
        self.node("Squeeze", &[&states, "directions"], &[&above], &[]);
        above
    }

    /// The operator of a layer; returns the name of its states, (time, 1, batch, d). The 1 is ONNX's number of directions.
    fn recurrent(
        &mut self,
        params: &'a Params,
        layer: usize,
        (below, begin): (&str, Begin),
        operator: &Operator,
    ) -> String {
        let (spec, weights) = (params.spec(), params.layer(layer));
        let (d, inputs) = (spec.layers[layer].units, spec.inputs(layer));
        let rows = operator.gates.len() * d;
        let named = |what: &str| format!("{what}_l{layer}");
        let (w, r, b) = (named("rnn.W"), named("rnn.R"), named("rnn.B"));
        let onnx_gates = |values: &[f32]| in_order(values, operator.gates);
        self.floats(&w, &[1, rows, inputs], Cow::Owned(onnx_gates(weights.w_ih)));
        self.floats(&r, &[1, rows, d], Cow::Owned(onnx_gates(weights.w_hh)));
        // ONNX has two biases, one after the other: of the products with the inputs and of those with the state. A GRU has both;
        // of the others they are added, and ours is the first.
        let mut bias = onnx_gates(weights.bias);
        let second = params.layout().layers[layer].product_bias.map_or(Vec::new(), |id| onnx_gates(params.of(id)));
        bias.extend(second);
        bias.resize(2 * rows, 0.0);
        self.floats(&b, &[1, 2 * rows], Cow::Owned(bias));
        let (mut takes, mut gives) = (vec![below.to_owned(), w, r, b, String::new()], vec![named("states")]);
        for part in spec.layers[layer].state() {
            takes.push(if begin == Begin::Given { named(part) } else { String::new() });
            gives.push(named(&format!("next_{part}")));
        }
        let (takes, gives): (Vec<&str>, Vec<&str>) =
            (takes.iter().map(String::as_str).collect(), gives.iter().map(String::as_str).collect());
        let attributes: Vec<_> = [("hidden_size", d as i64)].into_iter().chain(operator.attribute).collect();
        self.node(operator.name, &takes, &gives, &attributes);
        if let Some(activation) = operator.activation {
            self.attribute(Message::new().text(1, "activations").text(9, activation).int(20, ATTRIBUTE_TEXTS));
        }
        named("states")
    }

    /// The projection of `states`, where there is one; returns the name of what the classifier sees.
    fn projection(&mut self, params: &'a Params) -> &'static str {
        let (spec, layout) = (params.spec(), params.layout());
        let (Some(projection), Some(tensors)) = (&spec.output.projection, layout.projection) else { return "states" };
        let shape = [projection.width, spec.inputs(spec.layers.len())];
        self.floats("projection.weight", &shape, Cow::Borrowed(params.of(tensors.weight)));
        let mut takes = vec!["states", "projection.weight"];
        if let Some(bias) = tensors.bias {
            self.floats("projection.bias", &[projection.width], Cow::Borrowed(params.of(bias)));
            takes.push("projection.bias");
        }
        self.node("Gemm", &takes, &["projected"], &[("transB", 1)]);
        let Some(activation) = activation_name(projection.activation) else { return "projected" };
        self.node(activation, &["projected"], &["seen"], &[]);
        "seen"
    }

    /// A `NodeProto`, named after the first thing it gives.
    pub(super) fn node(&mut self, operator: &str, takes: &[&str], gives: &[&str], attributes: &[(&str, i64)]) {
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

    /// One more attribute of the last node.
    pub(super) fn attribute(&mut self, attribute: Message<'a>) {
        if let Some(node) = self.nodes.pop() {
            self.nodes.push(node.message(5, attribute));
        }
    }

    /// A `TensorProto` of floats.
    pub(super) fn floats(&mut self, name: &str, shape: &[usize], values: Cow<'a, [f32]>) {
        let mut tensor = Message::new();
        for &size in shape {
            tensor = tensor.int(1, size as i64);
        }
        self.initializers.push(tensor.int(2, FLOAT).text(8, name).floats(9, values));
    }

    /// A `TensorProto` of a few whole numbers.
    pub(super) fn ints(&mut self, name: &str, values: &[i64]) {
        let mut tensor = Message::new().int(1, values.len() as i64).int(2, INT64);
        for &value in values {
            tensor = tensor.int(7, value);
        }
        self.initializers.push(tensor.text(8, name));
    }
}

/// The rows of the gates in another order.
pub(super) fn in_order(values: &[f32], order: &[usize]) -> Vec<f32> {
    let gate = values.len() / order.len();
    order.iter().flat_map(|&ours| &values[ours * gate..(ours + 1) * gate]).copied().collect()
}

/// A `ValueInfoProto`: the name, element type and shape of what goes in or comes out.
pub(super) fn value<'a>(name: &str, element: i64, shape: &[Size]) -> Message<'a> {
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
