//! `bowline settings`: what `--set` takes.

use super::print_json;
use crate::options::{ModelName, SizeName, networks};
use crate::terminal::width::{self, wrap};
use bowline::config::preset;
use bowline::run::fit::source;
use clap::Args;
use std::io::{Write, stdout};
use std::process::ExitCode;

#[derive(Args)]
pub struct SettingsOptions {
    /// The network size whose defaults to show
    #[arg(long, value_enum, default_value = "small")]
    pub size: SizeName,
    /// The model whose defaults to show
    #[arg(long, value_parser = networks(), default_value = "real")]
    pub model: ModelName,
    /// The corpus whose defaults to show
    #[arg(long, value_name = "DIR|FILE|NAME", default_value = "ptb")]
    pub data: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &SettingsOptions) -> anyhow::Result<ExitCode> {
    let settings = preset(options.size.into(), options.model.try_into()?, &source(&options.data)).settings();
    if options.json {
        print_json(&settings)?;
        return Ok(ExitCode::SUCCESS);
    }
    let widest =
        |text: fn(&bowline::config::Setting) -> &str| settings.iter().map(|s| text(s).len()).max().unwrap_or(0);
    let (keys, values) = (widest(|s| &s.key), widest(|s| &s.value));
    let (mut out, mut group) = (stdout(), "");
    for setting in &settings {
        if setting.group != group {
            writeln!(out, "{}{}:", if group.is_empty() { "" } else { "\n" }, setting.group)?;
            group = setting.group;
        }
        let line = format!("  {:<keys$}  {:<values$}  {}", setting.key, setting.value, setting.meaning);
        writeln!(out, "{}", wrap(&line, width::of_stdout()))?;
    }
    Ok(ExitCode::SUCCESS)
}
