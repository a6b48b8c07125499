//! `bowline data`: download, verify, split and inspect corpora.

use super::print_json;
use crate::options::{CorpusOptions, DataAction, DataOptions, SplitOptions, StatsOptions};
use crate::screen::stdout;
use crate::terminal::{Bar, grouped, note};
use anyhow::bail;
use bowline::corpus::{self, Survey};
use bowline::data::{self, Environment, FetchOptions, FileStatus, Mirror, Progress, PublicCorpus};
use bowline_demo as demo;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(options: &DataOptions) -> anyhow::Result<ExitCode> {
    match &options.action {
        DataAction::Get(options) => get(options),
        DataAction::Verify(options) => verify(options),
        DataAction::Split(options) => split(options),
        DataAction::Stats(options) => stats(options),
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
    let bar = Bar::new();
    data::fetch(corpus, &dir, &fetch, &mut |progress| match progress {
        Progress::Received { bytes, total, .. } => {
            let of = total.map_or(String::new(), |total| format!(" of {}", grouped(total as usize)));
            let share = total.map_or(0.0, |total| bytes as f64 / total.max(1) as f64);
            bar.show(&format!("{}{of} bytes", grouped(bytes as usize)), share);
        }
        // If no mirror has the file, the error says of each why.
        Progress::Failed { .. } => {}
        Progress::Present { file } => note(format_args!("{file}: already here and verified")),
        Progress::Trying { url } => note(format_args!("asking {url}")),
        Progress::Arrived { file } => note(format_args!("{file}: downloaded and verified")),
    })?;
    bar.clear();
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

fn split(options: &SplitOptions) -> anyhow::Result<ExitCode> {
    let lines = corpus::split_file(&options.file, &options.out, options.tokenize)?;
    if options.json {
        print_json(&json!({"dir": options.out, "lines": {"train": lines[0], "valid": lines[1], "test": lines[2]}}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let [train, valid, test] = lines.map(grouped);
    let dir = super::shell(&options.out);
    let mut out = stdout();
    writeln!(out, "{dir}: {train} lines in train.txt, {valid} in valid.txt, {test} in test.txt")?;
    writeln!(out, "next: bowline train --data {dir} --out RUN")?;
    Ok(ExitCode::SUCCESS)
}

fn stats(options: &StatsOptions) -> anyhow::Result<ExitCode> {
    let survey = match (options.data.as_str(), data::by_name(&options.data)) {
        ("demo", _) => {
            let splits = demo::splits(demo::DEFAULT_SEED);
            Survey::of_strings([&splits.train, &splits.valid, &splits.test], options.tokenize, options.k)?
        }
        (_, Some(known)) => Survey::of(&data::locate(known, &Environment::current())?, options.tokenize, options.k)?,
        (path, None) => Survey::of(Path::new(path), options.tokenize, options.k)?,
    };
    if options.json {
        print_json(&survey)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    let share = |part: usize, of: usize| format!("{:.1}%", 100.0 * part as f64 / of.max(1) as f64);
    writeln!(out, "{:<6} {:>9} {:>11}  {:>7}  {:>18}", "", "lines", "tokens", "unseen", "unseen or once")?;
    for part in &survey.parts {
        writeln!(
            out,
            "{:<6} {:>9} {:>11}  {:>7}  {:>18}",
            part.name,
            grouped(part.lines),
            grouped(part.tokens),
            if part.name == "train" { String::new() } else { share(part.unseen, part.tokens) },
            share(part.rare, part.tokens)
        )?;
    }
    writeln!(
        out,
        "{} different words in training, {} of them once ({})",
        grouped(survey.types),
        grouped(survey.singletons),
        share(survey.singletons, survey.types)
    )?;
    if let (true, Some(example)) = (survey.looks_untokenised(), &survey.attached_example) {
        let word = super::printable(example);
        writeln!(out, "not tokenised: `{word}` and others have punctuation attached; --tokenize splits it off")?;
    }
    let frequent: Vec<String> = survey
        .frequent
        .iter()
        .map(|(word, count)| format!("{} {}", super::printable(word), grouped(*count as usize)))
        .collect();
    let line = format!("most frequent: {}", frequent.join(", "));
    writeln!(out, "{}", crate::terminal::width::wrap(&line, crate::terminal::width::of_stdout()))?;
    Ok(ExitCode::SUCCESS)
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
                FileStatus::Ok => writeln!(out, "{}: verified", check.name)?,
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
