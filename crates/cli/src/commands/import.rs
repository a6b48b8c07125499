//! `bowline import`: a model folder from PyTorch's weights, or from an ONNX file.

use super::{print_json, shell};
use crate::options::ModelName;
use crate::screen::stdout;
use crate::terminal::{grouped, note};
use anyhow::bail;
use bowline::config::ModelKind;
use bowline::spec::Activation;
use bowline_interop::import::{self, Names, Request};
use clap::Args;
use serde_json::json;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// An error for what people have instead of safetensors, by the first bytes of the file.
fn check_form(path: &Path) -> anyhow::Result<()> {
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map_err(bowline::Error::io(path, "read"))?;
    file.take(8).read_to_end(&mut start).map_err(bowline::Error::io(path, "read"))?;
    let (what, advice) = if start.starts_with(b"PK\x03\x04") || start.starts_with(b"\x80\x02") {
        ("a file of torch.save", "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") in Python")
    } else {
        return Ok(());
    };
    bail!("{}: this is {what}, not a safetensors or ONNX file\n  try: {advice}", path.display())
}

#[derive(Args)]
pub struct ImportOptions {
    /// The weights of an nn.Embedding, an nn.LSTM, nn.GRU or nn.RNN, and an nn.Linear, saved as safetensors; or an ONNX model
    #[arg(value_name = "FILE")]
    pub weights: PathBuf,
    /// The words, one per line, in the order of the word vectors; or a speech recogniser's tokens.txt
    #[arg(long, value_name = "FILE")]
    pub vocab: PathBuf,
    /// The model's folder; it must be new or empty
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Prefix of every name in the file, such as `module.`
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,
    /// Rename a module (encoder, rnn, projection, decoder) or a tensor such as decoder.weight
    #[arg(long, value_name = "OURS=THEIRS")]
    pub map: Vec<String>,
    /// The kind of model [default: re or vd-lstm if it is like the paper's, tied or not, else lstm, gru or rnn]
    #[arg(long, value_parser = crate::options::networks())]
    pub model: Option<ModelName>,
    /// The activation of an nn.RNN
    #[arg(long, value_name = "NAME", default_value = "tanh", value_parser = ["tanh", "sigmoid", "relu"])]
    pub activation: String,
    /// The activation of the projection, an nn.Linear before the last one
    #[arg(long, value_name = "NAME", default_value = "linear", value_parser = ["linear", "tanh", "sigmoid", "relu"])]
    pub projection_activation: String,
    /// Lower-case text for this model and split words from their punctuation
    #[arg(long)]
    pub tokenize: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// One of the names that the options take.
fn activation(name: &str) -> Activation {
    match name {
        "tanh" => Activation::Tanh,
        "sigmoid" => Activation::Sigmoid,
        "relu" => Activation::Relu,
        _ => Activation::Linear,
    }
}

pub fn run(options: &ImportOptions) -> anyhow::Result<ExitCode> {
    check_form(&options.weights)?;
    let request = Request {
        weights: &options.weights,
        vocabulary: &options.vocab,
        names: Names::new(&options.prefix, &options.map)?,
        model: options.model.map(ModelKind::try_from).transpose()?.map(ModelKind::name),
        activation: activation(&options.activation),
        projection_activation: activation(&options.projection_activation),
        tokenize: options.tokenize,
    };
    let imported = import::import(&request, &options.out)?;
    for text in &imported.notes {
        note(format_args!("{text}"));
    }
    let a = &imported.spec;
    if options.json {
        print_json(&json!({
            "model": imported.model,
            "folder": options.out.display().to_string(),
            "vocab": a.vocab,
            "hidden": a.width(),
            "layers": a.layers.len(),
            "tied": a.output.tied,
            "parameters": a.parameters(),
            "weights_sha256": imported.weights_sha256,
            "notes": imported.notes,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    let folder = shell(&options.out);
    let (words, parameters) = (grouped(a.vocab), grouped(a.parameters()));
    let layers = if a.layers.len() == 1 { "1 layer".to_owned() } else { format!("{} layers", a.layers.len()) };
    writeln!(
        out,
        "{folder}: {}, {words} words, {layers} of {} units, {parameters} parameters",
        imported.model,
        a.width()
    )?;
    writeln!(out, "next: bowline next {folder} \"the beginning of a sentence\"")?;
    Ok(ExitCode::SUCCESS)
}
