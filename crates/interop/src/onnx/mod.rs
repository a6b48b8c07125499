//! A trained model as an ONNX file, for onnxruntime and all that reads ONNX; and models from such files (`import`).
//!
//! A model is a function of word ids and a *state*, and can be written in two *forms*:
//!
//! | form | `ids` | `log_probabilities` |
//! |---|---|---|
//! | [`Form::Step`] | (batch): one word of each stream | (batch, V): of the word after it |
//! | [`Form::Sequence`] | (time, batch): some words of each stream | (time, batch, V): of the word after each |
//!
//! Both take the state as `h` and, of LSTMs, `c`, (layers, batch, d) each, and give back the state after the words as `next_h` and
//! `next_c`. Where the layers are not all alike, the state is `h_l0`, `c_l0`, `h_l1` and so on, (1, batch, d) each. A stream begins
//! with zeros, and a sentence with the word `<eos>`. Batch and time may be any size.
//!
//! The weights are those of the model folder. A tied classifier is stored once, as the embedding. Rows of a layer's matrices are in
//! ONNX's order of gates: i, o, f, c, and of a GRU z, r, h. The file says what it is in its metadata: the kind of model, the
//! hash of the vocabulary, the ids of `<eos>` and `<unk>`.
//!
//! [`Form::Hypotheses`] and [`Form::Token`] are what sherpa-onnx rescores with (`sherpa`).

mod graph;
pub(crate) mod import;
mod rounds;
mod sherpa;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::protobuf::Message;
use bowline::error::{Error, Result};
use bowline::loaded_model::LoadedModel;
use bowline::model_folder;
use bowline::params::Params;
use bowline::spec::{LayerSpec, Unit};
use bowline::storage::atomic;
use bowline::storage::tensor_file::{HASH_KEY, sha256};

/// What one call of the model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One word of each stream.
    Step,
    /// A sequence of words of each stream.
    Sequence,
    /// Whole sentences, for sherpa-onnx's offline recognisers.
    Hypotheses,
    /// One token of one stream, for sherpa-onnx's streaming recognisers.
    Token,
}

impl Form {
    /// `step`, `sequence`, `hypotheses` or `token`.
    pub fn name(self) -> &'static str {
        match self {
            Form::Step => "step",
            Form::Sequence => "sequence",
            Form::Hypotheses => "hypotheses",
            Form::Token => "token",
        }
    }
}

/// The version of ONNX's set of operators: 13 came with ONNX 1.8 in 2020, and every runtime since has it.
const OPERATORS: i64 = 13;

/// The version of the file format that came with it.
const FORMAT: i64 = 7;

/// No protobuf message may be longer.
const LONGEST: u64 = i32::MAX as u64;

/// Writes the model in `folder` (or in the folder of a run) to `out`; returns the number of bytes.
pub fn export(folder: &Path, form: Form, out: &Path) -> Result<u64> {
    let model = LoadedModel::load(folder)?;
    let params = model.require_network("layers that ONNX could run")?;
    graph::check(params.spec()).map_err(|what| {
        let problem = format!("ONNX has no operator for {what}; it has some for `lstm`, `mogrifier`, `gru` and `rnn`");
        Error::model(folder, "network", problem, "use the model with Bowline itself, for example `bowline serve`")
    })?;
    if form == Form::Token && !sherpa::can_stream(params.spec()) {
        let problem = "sherpa-onnx streams with the states of equal LSTM layers alone, and these are others";
        return Err(Error::model(folder, "network", problem, "leave out --streaming; offline recognisers take it"));
    }
    check_length(out, estimate(params))?;
    let message = message(&model, params, form);
    check_length(out, message.len())?;
    atomic::write(out, |out| message.write(out))?;
    Ok(message.len())
}

/// The least that the file can have: its weights. PyTorch's second bias is in the file as ONNX's.
fn estimate(params: &Params) -> u64 {
    let a = params.spec();
    let second = |layer: &LayerSpec| if matches!(layer.unit, Unit::Lstm { .. }) { 4 * layer.units } else { 0 };
    4 * (a.parameters() + a.layers.iter().map(second).sum::<usize>()) as u64
}

fn check_length(out: &Path, bytes: u64) -> Result<()> {
    if bytes <= LONGEST {
        return Ok(());
    }
    Err(Error::model(
        out,
        "length",
        format!("the file would have {bytes} bytes, but a protobuf message can have {LONGEST} at most"),
        "load `model.safetensors` instead, which has no such limit (docs/interop/pytorch.py)",
    ))
}

/// The whole file: a `ModelProto`.
fn message<'a>(model: &LoadedModel, params: &'a Params, form: Form) -> Message<'a> {
    let vocabulary = &model.vocabulary;
    let pair = |key: &str, value: &str| Message::new().text(1, key).text(2, value);
    let kept = |key: &str| model.metadata.get(key).cloned();
    let metadata = [
        ("model", Some(model.kind.clone())),
        ("form", Some(form.name().to_owned())),
        ("vocabulary", Some(model_folder::VOCABULARY.to_owned())),
        ("vocabulary_sha256", Some(sha256(vocabulary.to_text().as_bytes()))),
        ("weights_sha256", kept(HASH_KEY)),
        ("eos", Some(vocabulary.eos().to_string())),
        ("unk", vocabulary.unk().map(|id| id.to_string())),
        ("tokenize", kept("tokenize")),
    ];
    let graph = match form {
        Form::Step | Form::Sequence => graph::graph(params, form),
        Form::Hypotheses => sherpa::hypotheses(params, vocabulary.eos()),
        Form::Token => sherpa::token(params),
    };
    let mut message = Message::new()
        .int(1, FORMAT)
        .text(2, "bowline")
        .text(3, env!("CARGO_PKG_VERSION"))
        .message(7, graph)
        .message(8, Message::new().text(1, "").int(2, OPERATORS));
    for (key, value) in metadata {
        if let Some(value) = value {
            message = message.message(14, pair(&format!("bowline.{key}"), &value));
        }
    }
    if form == Form::Token {
        for (key, value) in sherpa::metadata(params.spec(), vocabulary.eos()) {
            message = message.message(14, pair(key, &value));
        }
    }
    message
}
