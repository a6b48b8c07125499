//! `bowline data`: gets and checks the public corpora.

use super::print_json;
use crate::options::{CorpusOptions, DataAction, DataOptions};
use crate::screen::stdout;
use crate::terminal::{grouped, note};
use anyhow::bail;
use bowline::data::{self, Environment, FetchOptions, FileStatus, Mirror, Progress, PublicCorpus};
use serde_json::json;
use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub fn run(options: &DataOptions) -> anyhow::Result<ExitCode> {
    match &options.action {
        DataAction::Get(options) => get(options),
        DataAction::Verify(options) => verify(options),
    }
}

fn corpus(options: &CorpusOptions) -> anyhow::Result<(&'static PublicCorpus, PathBuf)> {
    let Some(corpus) = data::by_name(&options.corpus) else {
        let known = data::CATALOG.iter().map(|c| c.name).collect::<Vec<_>>().join(", ");
        bail!(
            "`{}`: there is no such corpus\n  try: one of {known}, or `--data DIR` with files of your own",
            options.corpus
        );
    };
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => Environment::current().corpus_folder(corpus)?,
    };
    Ok((corpus, dir))
}

fn get(options: &CorpusOptions) -> anyhow::Result<ExitCode> {
    let (corpus, dir) = corpus(options)?;
    // Addresses of the user's come first; a proxy must not stand between us and an address on this machine.
    let own: Vec<Mirror> = options.mirror.iter().map(|url| corpus.mirror_at(url)).collect();
    let use_proxy = own.is_empty();
    let mirrors = (!own.is_empty()).then(|| own.into_iter().chain(corpus.mirrors.iter().cloned()).collect());
    let fetch = FetchOptions { mirrors, use_proxy, ..FetchOptions::default() };
    let bar = stderr().is_terminal();
    let mut drawn = Instant::now();
    data::fetch(corpus, &dir, &fetch, &mut |progress| {
        if let Progress::Received { bytes, total, .. } = progress {
            if bar && drawn.elapsed() > Duration::from_millis(150) {
                drawn = Instant::now();
                let total = total.map_or(String::new(), |total| format!(" of {}", grouped(total as usize)));
                let _ = write!(stderr(), "\r\x1b[2K{}{total} bytes", grouped(bytes as usize));
            }
        } else {
            note(format_args!("{}{}", if bar { "\r\x1b[2K" } else { "" }, describe(progress)));
        }
    })?;
    if options.json {
        print_json(&json!({"corpus": corpus.name, "dir": dir, "ok": true}))?;
    } else {
        let mut out = stdout();
        writeln!(out, "{} is in {}", corpus.name, dir.display())?;
        match options.dir {
            None => writeln!(out, "next: bowline train --data {} --out RUN", corpus.name)?,
            Some(_) => writeln!(out, "next: bowline train --data {} --out RUN", super::shell(&dir))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(progress: Progress<'_>) -> String {
    match progress {
        Progress::Present { file } => format!("{file}: here already, and as it should be"),
        Progress::Trying { url } => format!("asking {url}"),
        Progress::Received { url, bytes, .. } => format!("{} bytes from {url}", grouped(bytes as usize)),
        Progress::Failed { url, reason } => format!("{url} failed: {reason}"),
        Progress::Arrived { file } => format!("{file}: arrived, and as it should be"),
    }
}

fn verify(options: &CorpusOptions) -> anyhow::Result<ExitCode> {
    let (corpus, dir) = corpus(options)?;
    let checks = data::verify(corpus, &dir)?;
    let ok = checks.iter().all(|check| check.status == FileStatus::Ok);
    if options.json {
        let files: Vec<_> = checks
            .iter()
            .map(|check| match &check.status {
                FileStatus::Ok => json!({"file": check.name, "status": "ok"}),
                FileStatus::Missing => json!({"file": check.name, "status": "missing"}),
                FileStatus::Differs { expected, found } => {
                    json!({"file": check.name, "status": "differs", "expected": expected, "found": found})
                }
            })
            .collect();
        print_json(&json!({"corpus": corpus.name, "dir": dir, "ok": ok, "files": files}))?;
    } else {
        let mut out = stdout();
        for check in &checks {
            match &check.status {
                FileStatus::Ok => writeln!(out, "{}: as it should be", check.name)?,
                FileStatus::Missing => writeln!(out, "{}: missing", check.name)?,
                FileStatus::Differs { expected, found } => {
                    writeln!(
                        out,
                        "{}: differs\n  expected SHA-256 {expected}\n  found    SHA-256 {found}",
                        check.name
                    )?;
                }
            }
        }
        if !ok {
            note(format_args!("get it with: bowline data get {}", corpus.name));
        }
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
