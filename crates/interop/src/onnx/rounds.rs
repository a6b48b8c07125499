//! A Mogrifier LSTM as ONNX's operators: `Scan` over the steps, with the rounds and the gates of a step in its *body*, a graph
//! within the graph that sees the tensors outside of it.

use std::borrow::Cow;

use super::graph::{Begin, FLOAT, Graph, Size, value};
use crate::protobuf::Message;
use bowline::params::Params;
use bowline::spec::Unit;

/// The kind of attribute that holds a graph, and the number of its field.
const ATTRIBUTE_GRAPH: i64 = 5;
const GRAPH: u32 = 6;

impl<'a> Graph<'a> {
    /// Layer `layer`, which has rounds, on `below`, (time, batch, inputs). A state that is given is (1, batch, d). Returns the name of
    /// the layer's outputs, (time, batch, d).
    pub(super) fn scan(&mut self, params: &'a Params, layer: usize, below: &str, begin: Begin) -> String {
        let d = params.spec().layers[layer].units;
        let named = |what: &str| format!("{what}_l{layer}");
        // The state is (batch, d) inside.
        let axis = named("state_axis");
        self.ints(&axis, &[0]);
        let parts =
            ["h", "c"].map(|part| (named(part), named(&format!("first_{part}")), named(&format!("last_{part}"))));
        if begin == Begin::Zeros {
            let [sizes, second, batch, width, shape] =
                ["sizes", "batch_axis", "batch", "width", "state_shape"].map(&named);
            self.ints(&second, &[1]);
            self.ints(&width, &[d as i64]);
            self.node("Shape", &[below], &[&sizes], &[]);
            self.node("Gather", &[&sizes, &second], &[&batch], &[]);
            self.node("Concat", &[&batch, &width], &[&shape], &[("axis", 0)]);
            parts.iter().for_each(|(_, first, _)| self.node("ConstantOfShape", &[&shape], &[first], &[]));
        } else {
            parts.iter().for_each(|(given, first, _)| self.node("Squeeze", &[given, &axis], &[first], &[]));
        }
        let body = self.step(params, layer);
        let [(_, h, last_h), (_, c, last_c)] = &parts;
        let states = named("states");
        self.node("Scan", &[h, c, below], &[last_h, last_c, &states], &[("num_scan_inputs", 1)]);
        self.attribute(Message::new().text(1, "body").message(GRAPH, body).int(20, ATTRIBUTE_GRAPH));
        for (part, (.., last)) in ["h", "c"].iter().zip(&parts) {
            self.node("Unsqueeze", &[last, &axis], &[&named(&format!("next_{part}"))], &[]);
        }
        states
    }

    /// One step: from `h`, `c` and `x`, (batch, ..) each, to the next `h` and `c`, and `h` once more as what is kept of the step. The
    /// weights go to this graph.
    fn step(&mut self, params: &'a Params, layer: usize) -> Message<'a> {
        let (spec, layout) = (params.spec(), &params.layout().layers[layer]);
        let (d, inputs, mut body) = (spec.layers[layer].units, spec.inputs(layer), Graph::default());
        let named = |what: &str| format!("{what}_l{layer}");
        let coupled = matches!(spec.layers[layer].unit, Unit::Mogrifier { coupled: true, .. });
        let mut weight = |name: &str, shape: &[usize], values: &'a [f32]| {
            self.floats(name, shape, Cow::Borrowed(values));
        };
        let names = |part: &str| named(&format!("{part}_of_step"));
        let (begin, mut x, mut h) = ([names("h"), names("c"), names("x")], names("x"), names("h"));
        for (r, round) in layout.rounds.iter().enumerate() {
            let (u, y, from, to) = if r % 2 == 0 { (&h, &x, d, inputs) } else { (&x, &h, inputs, d) };
            let rank = params.of(round.down).len() / from;
            let of_round = |what: &str| format!("mogrifier.{what}_l{layer}_r{r}");
            let [down, up, bias] = ["down", "up", "bias"].map(of_round);
            weight(&down, &[rank, from], params.of(round.down));
            weight(&up, &[to, rank], params.of(round.up));
            weight(&bias, &[to], params.of(round.bias));
            let [low, a, s, twice, turned] = ["low", "a", "s", "twice", "turned"].map(of_round);
            body.node("Gemm", &[u, &down], &[&low], &[("transB", 1)]);
            body.node("Gemm", &[&low, &up, &bias], &[&a], &[("transB", 1)]);
            body.node("Sigmoid", &[&a], &[&s], &[]);
            body.node("Add", &[&s, &s], &[&twice], &[]);
            body.node("Mul", &[&twice, y], &[&turned], &[]);
            *(if r % 2 == 0 { &mut x } else { &mut h }) = turned;
        }
        let (w, r, b, weights) = (named("rnn.W"), named("rnn.R"), named("rnn.B"), params.layer(layer));
        weight(&w, &[4 * d, inputs], weights.w_ih);
        weight(&r, &[4 * d, d], weights.w_hh);
        weight(&b, &[4 * d], weights.bias);
        let [of_x, of_h, gates] = ["gates_of_x", "gates_of_h", "gates"].map(named);
        body.node("Gemm", &[&x, &w, &b], &[&of_x], &[("transB", 1)]);
        body.node("Gemm", &[&h, &r], &[&of_h], &[("transB", 1)]);
        body.node("Add", &[&of_x, &of_h], &[&gates], &[]);
        let before = ["i", "f", "g", "o"].map(|gate| named(&format!("{gate}_before")));
        body.node("Split", &[&gates], &before.each_ref().map(String::as_str), &[("axis", 1)]);
        let [i, f, g, o] = ["i", "f", "g", "o"].map(named);
        for ((operator, before), gate) in
            ["Sigmoid", "Sigmoid", "Tanh", "Sigmoid"].iter().zip(&before).zip([&i, &f, &g, &o])
        {
            body.node(operator, &[before], &[gate], &[]);
        }
        let mut input = i;
        if coupled {
            let (one, rest, least) = (named("one"), named("rest"), named("least"));
            self.floats(&one, &[1], Cow::Owned(vec![1.0]));
            body.node("Sub", &[&one, &f], &[&rest], &[]);
            body.node("Min", &[&rest, &input], &[&least], &[]);
            input = least;
        }
        let [kept, added, c, h, bent, output] = ["kept", "added", "c_after", "h_after", "bent", "output"].map(named);
        body.node("Mul", &[&f, &begin[1]], &[&kept], &[]);
        body.node("Mul", &[&input, &g], &[&added], &[]);
        body.node("Add", &[&kept, &added], &[&c], &[]);
        body.node("Tanh", &[&c], &[&bent], &[]);
        body.node("Mul", &[&o, &bent], &[&h], &[]);
        // What is given twice needs two names.
        body.node("Identity", &[&h], &[&output], &[]);
        let of_step = |name: &String, width| value(name, FLOAT, &[Size::Any("batch"), Size::Known(width)]);
        let taken = begin.iter().zip([d, d, inputs]).map(|(name, width)| of_step(name, width)).collect();
        let given = [&h, &c, &output].map(|name| of_step(name, d)).into();
        body.message(&named("step"), taken, given)
    }
}
