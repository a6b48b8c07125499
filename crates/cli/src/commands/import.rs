//! `bowline import`: a model's folder out of what PyTorch saved.

use super::{print_json, shell};
use crate::options::ModelName;
use crate::screen::stdout;
use crate::terminal::{grouped, note};
use anyhow::bail;
use bowline::config::ModelKind;
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
    let end = path.extension().unwrap_or_default();
    let (what, advice) = if end == "onnx" {
        ("an ONNX model", "the safetensors file that it was made from; ONNX is only written (`bowline export`)")
    } else if start.starts_with(b"PK\x03\x04") || start.starts_with(b"\x80\x02") {
        ("a file of torch.save", "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") in Python")
    } else {
        return Ok(());
    };
    bail!("{}: this is {what}, not a safetensors file\n  try: {advice}", path.display())
}

#[derive(Args)]
pub struct ImportOptions {
    /// The weights of an nn.Embedding, nn.LSTM and nn.Linear, saved as safetensors
    #[arg(value_name = "FILE.safetensors")]
    pub weights: PathBuf,
    /// The words, one per line, in the order of the word vectors
    #[arg(long, value_name = "FILE")]
    pub vocab: PathBuf,
    /// The model's folder, which must not hold anything yet
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// What stands before every name in the file, such as `module.`
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,
    /// A name in the file that is another one: encoder, rnn, decoder, or a tensor such as decoder.weight
    #[arg(long, value_name = "OURS=THEIRS")]
    pub map: Vec<String>,
    /// The kind of model [default: re if the classifier is the embedding, else vd-lstm]
    #[arg(long, value_parser = crate::options::networks())]
    pub model: Option<ModelName>,
    /// Lower-case text for this model and split words from their punctuation
    #[arg(long)]
    pub tokenize: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &ImportOptions) -> anyhow::Result<ExitCode> {
    check_form(&options.weights)?;
    let request = Request {
        weights: &options.weights,
        vocabulary: &options.vocab,
        names: Names::new(&options.prefix, &options.map)?,
        model: options.model.map(ModelKind::try_from).transpose()?.map(ModelKind::name),
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
