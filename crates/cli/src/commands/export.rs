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
    match options.to {
        Format::Onnx => to_onnx(options),
        Format::HuggingFace => to_huggingface(options),
    }
}

fn to_onnx(options: &ExportOptions) -> anyhow::Result<ExitCode> {
    let form = match options.form {
        Some(FormName::Step) => Form::Step,
        Some(FormName::Sequence) | None => Form::Sequence,
    };
    let bytes = onnx::export(&options.model, form, &options.out)?;
    if options.json {
        print_json(&json!({"file": options.out.display().to_string(), "form": form.name(), "bytes": bytes}))?;
    } else {
        let size = grouped(bytes as usize);
        writeln!(stdout(), "{}: ONNX, {} form, {size} bytes", shell(&options.out), form.name())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn to_huggingface(options: &ExportOptions) -> anyhow::Result<ExitCode> {
    if options.form.is_some() {
        bail!("`--form`: only ONNX has forms\n  try: leave it out");
    }
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
