//! `bowline export`: a model as a file for other tools.

use super::{print_json, shell};
use crate::screen::stdout;
use crate::terminal::grouped;
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
    /// The kind of file
    #[arg(long, value_enum)]
    pub to: Format,
    /// What one call of the model reads
    #[arg(long, value_enum, default_value = "sequence")]
    pub form: FormName,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// ONNX, opset 13: for onnxruntime and others
    Onnx,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormName {
    /// One word of each stream: ids (batch)
    Step,
    /// Some words of each stream: ids (time, batch)
    Sequence,
}

pub fn run(options: &ExportOptions) -> anyhow::Result<ExitCode> {
    let form = match options.form {
        FormName::Step => Form::Step,
        FormName::Sequence => Form::Sequence,
    };
    let Format::Onnx = options.to;
    let bytes = onnx::export(&options.model, form, &options.out)?;
    if options.json {
        print_json(&json!({"file": options.out.display().to_string(), "form": form.name(), "bytes": bytes}))?;
    } else {
        let size = grouped(bytes as usize);
        writeln!(stdout(), "{}: ONNX, {} form, {size} bytes", shell(&options.out), form.name())?;
    }
    Ok(ExitCode::SUCCESS)
}
