//! `bowline tensorboard`: the curves of runs that were trained without `--tensorboard`, or side by side.

use super::{print_json, shell};
use crate::screen::stdout;
use bowline::Error;
use bowline_interop::tensorboard;
use clap::Args;
use serde_json::json;
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub struct TensorBoardOptions {
    /// The folders of the runs
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Output folder, with a subfolder for each run
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &TensorBoardOptions) -> anyhow::Result<ExitCode> {
    let (mut taken, mut files) = (HashSet::new(), Vec::new());
    for run in &options.runs {
        let name = name(run)?;
        if !taken.insert(name.clone()) {
            let problem = format!("another of the runs is called `{}` too", name.display());
            return Err(Error::run(run, problem, "one call for each, with another --out").into());
        }
        files.push(tensorboard::convert(run, &options.out.join(name))?);
    }
    if options.json {
        print_json(&json!({"dir": options.out, "files": files}))?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(stdout(), "next: tensorboard --logdir {}", shell(&options.out))?;
    Ok(ExitCode::SUCCESS)
}

/// The last part of a run's path, also of `.` and `..`.
fn name(run: &Path) -> Result<PathBuf, Error> {
    let path = run.canonicalize().map_err(Error::io(run, "find"))?;
    Ok(PathBuf::from(path.file_name().unwrap_or("run".as_ref())))
}
