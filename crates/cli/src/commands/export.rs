//! `bowline export`: a model as a file for other tools.

use super::{print_json, shell};
use crate::screen::stdout;
use crate::terminal::{grouped, note};
use anyhow::bail;
use bowline_interop::huggingface::{self, Exported};
use bowline_interop::onnx::{self, Form};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct ExportOptions {
    /// A model's folder, or a run's
    pub model: PathBuf,
    /// Output format
    #[arg(long, value_enum)]
    pub to: Format,
    /// For onnx: what one call of the model reads [default: sequence]
    #[arg(long, value_enum)]
    pub form: Option<FormName>,
    /// For sherpa-onnx: for recognisers that stream; without it, for offline ones
    #[arg(long)]
    pub streaming: bool,
    /// The file to write; for huggingface, a folder that must be new or empty
    #[arg(long, value_name = "FILE|DIR")]
    pub out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// ONNX, opset 13: for onnxruntime and others
    Onnx,
    /// ONNX as sherpa-onnx's speech recognisers take it, for rescoring and shallow fusion
    #[value(name = "sherpa-onnx")]
    SherpaOnnx,
    /// A folder that Hugging Face's transformers load with trust_remote_code=True
    #[value(name = "huggingface")]
    HuggingFace,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormName {
    /// One word of each stream: ids (batch)
    Step,
    /// Some words of each stream: ids (time, batch)
    Sequence,
}

pub fn run(options: &ExportOptions) -> anyhow::Result<ExitCode> {
    if options.form.is_some() && options.to != Format::Onnx {
        bail!("`--form`: only ONNX has forms\n  try: leave it out");
    }
    if options.streaming && options.to != Format::SherpaOnnx {
        bail!("`--streaming`: only sherpa-onnx has recognisers that stream\n  try: leave it out");
    }
    let form = match (options.to, options.form, options.streaming) {
        (Format::HuggingFace, ..) => return to_huggingface(options),
        (Format::SherpaOnnx, _, false) => Form::Hypotheses,
        (Format::SherpaOnnx, _, true) => Form::Token,
        (Format::Onnx, Some(FormName::Step), _) => Form::Step,
        (Format::Onnx, Some(FormName::Sequence) | None, _) => Form::Sequence,
    };
    let bytes = onnx::export(&options.model, form, &options.out)?;
    let (file, name) = (shell(&options.out), form.name());
    if options.json {
        print_json(&json!({"file": options.out.display().to_string(), "form": name, "bytes": bytes}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let for_whom = match form {
        Form::Hypotheses => "ONNX for sherpa-onnx, offline".to_owned(),
        Form::Token => "ONNX for sherpa-onnx, streaming".to_owned(),
        Form::Step | Form::Sequence => format!("ONNX, {name} form"),
    };
    writeln!(stdout(), "{file}: {for_whom}, {} bytes", grouped(bytes as usize))?;
    Ok(ExitCode::SUCCESS)
}

fn to_huggingface(options: &ExportOptions) -> anyhow::Result<ExitCode> {
    let Exported { bytes, notes } = huggingface::export(&options.model, &options.out)?;
    for text in &notes {
        note(format_args!("{text}"));
    }
    let folder = options.out.display().to_string();
    if options.json {
        print_json(&json!({"folder": folder, "bytes": bytes}))?;
    } else {
        writeln!(stdout(), "{}: for transformers, {} bytes of weights", shell(&options.out), grouped(bytes as usize))?;
        writeln!(stdout(), "next: AutoModelForCausalLM.from_pretrained({folder:?}, trust_remote_code=True)")?;
    }
    Ok(ExitCode::SUCCESS)
}
