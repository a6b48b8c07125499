//! The forms in which [sherpa-onnx](https://github.com/k2-fsa/sherpa-onnx) takes a language model of its recogniser's tokens.
//!
//! An offline recogniser rescores whole *hypotheses*, without beginning and end:
//!
//! | | | |
//! |---|---|---|
//! | `x` | int64 (N, L) | the tokens of N hypotheses; what comes after a hypothesis' end may be anything |
//! | `x_lens` | int64 (N) | their numbers of tokens |
//! | `nll` | float (N) | `-ln p` of the tokens and the end of the sentence |
//!
//! A streaming one asks after each *token* for the next: `x` (1, 1) and the state `h0`, `c0` (layers, 1, d) give `log_probabilities`
//! (V), `next_h0` and `next_c0`. It reads `num_layers`, `hidden_size` and `sos_id` in the file's metadata.
//!
//! sherpa-onnx takes inputs and outputs by position. `<eos>` is both the beginning and the end.

use std::borrow::Cow;

use super::graph::{Begin, FLOAT, Graph, INT64, Size, stacked, value};
use crate::protobuf::Message;
use bowline::params::Params;
use bowline::spec::{ModelSpec, Unit};

/// Whether the state is `h` and `c` of equal layers.
pub(super) fn can_stream(spec: &ModelSpec) -> bool {
    stacked(spec) && matches!(spec.layers[0].unit, Unit::Lstm { .. } | Unit::Mogrifier { .. })
}

/// What a streaming recogniser must know.
pub(super) fn metadata(spec: &ModelSpec, eos: u32) -> [(&'static str, String); 3] {
    [
        ("num_layers", spec.layers.len().to_string()),
        ("hidden_size", spec.layers[0].units.to_string()),
        ("sos_id", eos.to_string()),
    ]
}

/// Offline: the cost of each hypothesis.
pub(super) fn hypotheses<'a>(params: &'a Params, eos: u32) -> Message<'a> {
    let mut graph = Graph::of(params);
    // Sizes as vectors of one number: N, and L for the range of positions.
    graph.ints("first", &[0]);
    graph.ints("second", &[1]);
    graph.ints("one", &[1]);
    graph.node("Shape", &["x"], &["sizes"], &[]);
    graph.node("Gather", &["sizes", "first"], &["hypotheses"], &[]);
    graph.node("Gather", &["sizes", "second"], &["length"], &[]);
    graph.node("Concat", &["hypotheses", "one"], &["column"], &[("axis", 0)]);
    graph.ints("eos", &[i64::from(eos)]);
    graph.node("Expand", &["eos", "column"], &["eos_column"], &[]);

    // The tokens, and after each hypothesis' end `<eos>`, whatever was there: (N, L).
    graph.node("Squeeze", &["length", "first"], &["last_position"], &[]);
    graph.node("Squeeze", &["first", "first"], &["zero"], &[]);
    graph.node("Squeeze", &["one", "first"], &["step"], &[]);
    graph.node("Range", &["zero", "last_position", "step"], &["positions"], &[]);
    graph.node("Unsqueeze", &["x_lens", "second"], &["lengths"], &[]);
    graph.node("Less", &["positions", "lengths"], &["is_token"], &[]);
    graph.node("Where", &["is_token", "x", "eos"], &["tokens"], &[]);

    // What is read, (L + 1, N), and what is to come after each: `<eos> a b` and `a b <eos>`.
    graph.node("Concat", &["eos_column", "tokens"], &["read_rows"], &[("axis", 1)]);
    graph.node("Transpose", &["read_rows"], &["read"], &[]);
    graph.node("Concat", &["tokens", "eos_column"], &["next_rows"], &[("axis", 1)]);
    graph.node("Transpose", &["next_rows"], &["next"], &[]);
    graph.node("Gather", &["encoder.weight", "read"], &["vectors"], &[]);
    let states = graph.layers(params, "vectors", Begin::Zeros);
    graph.classifier(params, &states);
    graph.node("LogSoftmax", &["logits"], &["log_probability_rows"], &[("axis", 1)]);
    graph.ints("each", &[-1, 1]);
    graph.node("Reshape", &["next", "each"], &["next_column"], &[]);
    graph.node("GatherElements", &["log_probability_rows", "next_column"], &["of_next"], &[("axis", 1)]);
    graph.node("Shape", &["next"], &["time_and_batch"], &[]);
    graph.node("Reshape", &["of_next", "time_and_batch"], &["log_probabilities"], &[]);

    // nll = -sum over t <= length of ln p(next_t | read_0..t).
    graph.node("Add", &["last_position", "step"], &["positions_end"], &[]);
    graph.node("Range", &["zero", "positions_end", "step"], &["times"], &[]);
    graph.node("Unsqueeze", &["times", "second"], &["time_column"], &[]);
    graph.node("Greater", &["time_column", "x_lens"], &["is_padding"], &[]);
    graph.floats("nothing", &[1], Cow::Owned(vec![0.0]));
    graph.node("Where", &["is_padding", "nothing", "log_probabilities"], &["of_sentence"], &[]);
    graph.node("ReduceSum", &["of_sentence", "first"], &["log_probability"], &[("keepdims", 0)]);
    graph.node("Neg", &["log_probability"], &["nll"], &[]);

    let n = Size::Any("hypotheses");
    let inputs = vec![value("x", INT64, &[n, Size::Any("tokens")]), value("x_lens", INT64, &[n])];
    graph.message("bowline_hypotheses", inputs, vec![value("nll", FLOAT, &[n])])
}

/// Streaming: the token after each.
pub(super) fn token(params: &Params) -> Message<'_> {
    let a = params.spec();
    let mut graph = Graph::of(params);
    // (time, batch, d), both of size 1.
    graph.node("Gather", &["encoder.weight", "x"], &["vectors"], &[]);
    for part in ["h", "c"] {
        graph.node("Identity", &[&format!("{part}0")], &[part], &[]);
    }
    let states = graph.layers(params, "vectors", Begin::Given);
    graph.classifier(params, &states);
    graph.node("LogSoftmax", &["logits"], &["log_probability_rows"], &[("axis", 1)]);
    graph.ints("flat", &[-1]);
    graph.node("Reshape", &["log_probability_rows", "flat"], &["log_probabilities"], &[]);

    let one = Size::Known(1);
    let state = [Size::Known(a.layers.len()), one, Size::Known(a.layers[0].units)];
    let mut inputs = vec![value("x", INT64, &[one, one])];
    let mut outputs = vec![value("log_probabilities", FLOAT, &[Size::Known(a.vocab)])];
    for part in ["h", "c"] {
        let next = format!("next_{part}0");
        graph.stack(a.layers.len(), part, &next);
        inputs.push(value(&format!("{part}0"), FLOAT, &state));
        outputs.push(value(&next, FLOAT, &state));
    }
    graph.message("bowline_token", inputs, outputs)
}

/// What they compute is checked with onnxruntime and sherpa-onnx, in `crates/python/tests/test_speech.py`.
#[cfg(test)]
mod tests {
    use super::super::{Form, export};
    use crate::protobuf::independent_reader::Fields;
    use bowline::model_folder::{Contents, ModelCard, ModelFolder};
    use bowline::params::Params;
    use bowline::spec::{InputSpec, LayerSpec, ModelSpec, OutputSpec, Unit};
    use std::collections::BTreeMap;

    const WORDS: &str = "<blk>\n<eos>\ncat\n<unk>\nsat\n";

    /// Exports a model of zeros; gives the file.
    fn exported(spec: &ModelSpec, form: Form) -> bowline::Result<Fields> {
        let dir = tempfile::tempdir().unwrap();
        let (params, card) = (Params::zeros(spec), ModelCard::default());
        let contents = Contents { model: "any", params: &params, vocabulary: WORDS, metadata: vec![], card: &card };
        ModelFolder::save(dir.path().join("model"), &contents).unwrap();
        let out = dir.path().join("lm.onnx");
        export(&dir.path().join("model"), form, &out)?;
        Ok(Fields::parse(&std::fs::read(out).unwrap()))
    }

    fn names(file: &Fields, field: u64) -> Vec<String> {
        file.message(7).messages(field).iter().map(|value| value.text(1)).collect()
    }

    #[test]
    fn inputs_and_outputs_stand_where_sherpa_looks() {
        let spec = ModelSpec::paper(5, 3, 2, true);
        let file = exported(&spec, Form::Hypotheses).unwrap();
        assert_eq!((names(&file, 11), names(&file, 12)), (vec!["x".into(), "x_lens".into()], vec!["nll".into()]));
        let file = exported(&spec, Form::Token).unwrap();
        assert_eq!(names(&file, 11), ["x", "h0", "c0"]);
        assert_eq!(names(&file, 12), ["log_probabilities", "next_h0", "next_c0"]);
        let metadata: BTreeMap<_, _> = file.messages(14).iter().map(|pair| (pair.text(1), pair.text(2))).collect();
        for (key, value) in [("num_layers", "2"), ("hidden_size", "3"), ("sos_id", "1")] {
            assert_eq!(metadata[key], value);
        }
    }

    #[test]
    fn what_sherpa_cannot_stream_is_refused() {
        let output = OutputSpec { bias: true, ..OutputSpec::default() };
        for (unit, widths) in [(Unit::Gru, [3, 3]), (Unit::Lstm { coupled: false }, [3, 4])] {
            let layers = widths.map(|units| LayerSpec::new(unit, units)).to_vec();
            let input = InputSpec::words(3);
            let spec = ModelSpec { vocab: 5, input, layers, output: output.clone() };
            assert!(exported(&spec, Form::Hypotheses).is_ok());
            let message = exported(&spec, Form::Token).err().unwrap().to_string();
            assert!(message.contains("sherpa-onnx streams with the states of equal LSTM layers alone"), "{message}");
            assert!(message.contains("\n  try: leave out --streaming"), "{message}");
        }
    }
}
