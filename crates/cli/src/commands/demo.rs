//! `bowline demo`.

use crate::options::DemoOptions;
use std::process::ExitCode;

pub fn run(_: &DemoOptions) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
