//! `bowline demo`: the paper's four models on the built-in corpus, beside the truth.
//!
//! The corpus comes from a grammar, so the best possible perplexity is known, and so is how far each model's predictions
//! are from the truth.

mod page;

use super::{print_json, shell};
use crate::interrupt::Interrupt;
use crate::options::DemoOptions;
use crate::screen::stdout;
use crate::terminal::{Terminal, duration, note};
use anyhow::Context;
use bowline::config::{Config, ModelKind, Size, preset};
use bowline::corpus::{Phrase, Split};
use bowline::loaded_model::{Candidate, LoadedModel};
use bowline::run::{self, Outcome, RunFolder, Session, Summary};
use bowline::storage::atomic;
use bowline::vocabulary::Vocabulary;
use bowline_demo::{Truth, Yardstick};
use bowline_kernels::{Isa, Team};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Beginnings of sentences of the grammar, each calling for a group of words.
const PHRASES: [&str; 3] = ["the old baker", "the boy ate", "my sister plays the"];

/// What the demo found; `--json` prints it.
#[derive(Serialize)]
struct Report {
    models: Vec<ModelReport>,
    floor: Floor,
    phrases: Vec<PhraseReport>,
    out: String,
    page: String,
    seconds: f64,
}

#[derive(Serialize)]
struct ModelReport {
    name: &'static str,
    valid: f64,
    test: f64,
    /// Mean KL(truth || model) per word of the test split, in nats.
    kl_from_truth: f64,
    parameters: usize,
    epochs: u32,
    run: String,
}

/// The least perplexity that is possible, from the grammar.
#[derive(Serialize)]
struct Floor {
    /// `exp` of the mean exact entropy of the next word.
    valid: f64,
    test: f64,
    /// The true model's perplexity on the very words of the split.
    valid_of_the_text: f64,
    test_of_the_text: f64,
}

#[derive(Serialize)]
struct PhraseReport {
    phrase: &'static str,
    models: Vec<PhraseModel>,
    truth: Vec<Candidate>,
}

#[derive(Serialize)]
struct PhraseModel {
    name: &'static str,
    next: Vec<Candidate>,
}

pub fn run(options: &DemoOptions) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    if options.fresh {
        forget(&options.out)?;
    }
    let interrupt = Interrupt::listen();
    let session = Session { threads: options.threads.get(), isa: Isa::detect() };
    let mut summaries = Vec::new();
    for model in ModelKind::ALL {
        let mut watch = Terminal::new(interrupt.clone(), model.title());
        match train(&options.out.join(model.name()), &config(options, model)?, session, &mut watch)? {
            Outcome::Finished(summary) => summaries.push((model, *summary)),
            Outcome::Stopped(_) => {
                note(format_args!("resume with: bowline demo --out {}", shell(&options.out)));
                return Ok(ExitCode::from(130));
            }
        }
    }
    note(format_args!("comparing the models with the grammar"));
    let report = report(options, session, &summaries, begin)?;
    page::of(&report, &options.out)?.write(&options.out)?;
    let text = render(&report);
    let file = options.out.join("report.txt");
    atomic::write(&file, |out| out.write_all(text.as_bytes()))?;
    if options.json {
        print_json(&report)?;
    } else {
        write!(stdout(), "{text}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Little text and Adam: this is where the augmented loss and the reused embedding show, within a minute. The same for all
/// four models.
const SETTINGS: [&str; 12] = [
    "data.train_words=10000",
    "epochs=16",
    "batch=8",
    "init=0.02",
    "optimizer.kind=adam",
    "optimizer.beta1=0",
    "learning_rate=0.005",
    "schedule.kind=cosine",
    "schedule.warm_up=50",
    "schedule.constant=0.4",
    "clip=10",
    "augment.gamma=0.65",
];

fn config(options: &DemoOptions, model: ModelKind) -> anyhow::Result<Config> {
    let mut config = preset(Size::Small, model, "demo").with(&SETTINGS.map(str::to_owned))?;
    config.seed = options.seed;
    config.epochs = options.epochs.unwrap_or(config.epochs);
    Ok(config)
}

/// Starts a run, or continues the one that an earlier demo left, if it has the same settings.
fn train(dir: &Path, config: &Config, session: Session, watch: &mut Terminal) -> anyhow::Result<Outcome> {
    let folder = RunFolder::new(dir);
    if !folder.config().exists() {
        return Ok(run::start(dir, config, session, watch)?);
    }
    anyhow::ensure!(
        Config::read(&folder.config())? == *config,
        "{}: this folder has a run with other settings\n  try: --fresh to throw it away, or another --out",
        dir.display()
    );
    if folder.summary().exists() {
        return Ok(Outcome::Finished(Box::new(Summary::read(&folder.summary())?)));
    }
    Ok(run::resume(dir, session, watch)?)
}

/// Removes the runs of an earlier demo, and nothing else.
fn forget(out: &Path) -> anyhow::Result<()> {
    for model in ModelKind::ALL {
        let dir = out.join(model.name());
        if RunFolder::new(&dir).config().exists() {
            std::fs::remove_dir_all(&dir).map_err(bowline::Error::io(&dir, "remove"))?;
        }
    }
    Ok(())
}

fn report(
    options: &DemoOptions,
    session: Session,
    summaries: &[(ModelKind, Summary)],
    begin: Instant,
) -> anyhow::Result<Report> {
    let truth = Truth::new();
    let splits = truth.splits(bowline_demo::DEFAULT_SEED);
    let team = Arc::new(Team::new(session.threads));
    let (mut models, mut floor, mut loaded) = (Vec::new(), None, Vec::new());
    for (kind, summary) in summaries {
        let dir = options.out.join(kind.name());
        let model = LoadedModel::load(&dir)?;
        let words = |text: &str| Split::from_text("demo", text, &model.vocabulary, model.tokenize);
        let (valid, test) = (words(&splits.valid)?, words(&splits.test)?);
        if floor.is_none() {
            let (valid, test) = (
                measure(&truth, &model.vocabulary, &valid.ids, None)?,
                measure(&truth, &model.vocabulary, &test.ids, None)?,
            );
            floor = Some(Floor {
                valid: valid.entropy.exp(),
                test: test.entropy.exp(),
                valid_of_the_text: valid.surprise.exp(),
                test_of_the_text: test.surprise.exp(),
            });
        }
        let gap = measure(&truth, &model.vocabulary, &test.ids, Some((&model, &team, session.isa)))?;
        models.push(ModelReport {
            name: kind.name(),
            valid: summary.valid,
            test: summary.test,
            kl_from_truth: gap.divergence,
            parameters: summary.parameters,
            epochs: summary.epochs,
            run: dir.display().to_string(),
        });
        loaded.push((*kind, model));
    }
    let phrases = PHRASES
        .iter()
        .map(|&phrase| {
            let compared = loaded.iter().filter(|(kind, _)| matches!(kind, ModelKind::VdLstm | ModelKind::Real));
            let models = compared
                .map(|(kind, model)| {
                    let words = Phrase::new(phrase, &model.vocabulary, model.tokenize)?;
                    let next = model.next_words(&team, session.isa, &words, 10)?;
                    Ok(PhraseModel { name: kind.name(), next })
                })
                .collect::<anyhow::Result<Vec<_>>>()?;
            Ok(PhraseReport { phrase, models, truth: true_next(&truth, phrase, 10) })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let floor = floor.context("no model was trained")?;
    Ok(Report {
        models,
        floor,
        phrases,
        out: options.out.display().to_string(),
        page: options.out.join("report.html").display().to_string(),
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Means over the predictions of a text, in nats.
struct Gap {
    entropy: f64,
    surprise: f64,
    divergence: f64,
}

/// Lays the truth beside a text and, if there is one, beside a model that reads it.
fn measure(
    truth: &Truth,
    vocabulary: &Vocabulary,
    ids: &[u32],
    model: Option<(&LoadedModel, &Arc<Team>, Isa)>,
) -> anyhow::Result<Gap> {
    let mut yardstick = Yardstick::new(truth, |word| vocabulary.id(word), vocabulary.unk())?;
    let mut gap = Gap { entropy: 0.0, surprise: 0.0, divergence: 0.0 };
    let mut failed = None;
    yardstick.read(ids[0])?;
    let mut position = |at: usize, y: Option<&[f32]>| {
        gap.entropy += yardstick.entropy();
        gap.surprise -= yardstick.probability(ids[at]).ln();
        if let Some(y) = y {
            gap.divergence += yardstick.divergence(|id| f64::from(y[id as usize]).ln());
        }
        if let Err(error) = yardstick.read(ids[at]) {
            failed.get_or_insert(error);
        }
    };
    match model {
        Some((model, team, isa)) => model.distributions(team, isa, ids, &mut |at, y| position(at, Some(y)))?,
        None => (1..ids.len()).for_each(|at| position(at, None)),
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    let n = (ids.len() - 1) as f64;
    Ok(Gap { entropy: gap.entropy / n, surprise: gap.surprise / n, divergence: gap.divergence / n })
}

/// What the grammar itself says after a phrase.
fn true_next(truth: &Truth, phrase: &str, k: usize) -> Vec<Candidate> {
    let state = phrase
        .split_whitespace()
        .try_fold(truth.start(), |state, word| truth.word_index(word).and_then(|word| truth.advance(&state, word)));
    let mut next = state.map_or_else(Vec::new, |state| truth.distribution(&state));
    next.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    next.truncate(k);
    next.into_iter().map(|(word, probability)| Candidate { word: truth.words()[word].clone(), probability }).collect()
}

fn render(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "\nPerplexity on the built-in corpus (lower is better)\n");
    let _ = writeln!(out, "  {:<16}{:>12}{:>10}{:>10}{:>18}", "model", "parameters", "valid", "test", "KL from truth");
    for model in &report.models {
        let title = ModelKind::ALL.iter().find(|k| k.name() == model.name).map_or(model.name, |k| k.title());
        let _ = writeln!(
            out,
            "  {title:<16}{:>12}{:>10.2}{:>10.2}{:>18.3}",
            crate::terminal::grouped(model.parameters),
            model.valid,
            model.test,
            model.kl_from_truth
        );
    }
    let _ = writeln!(
        out,
        "  {:<16}{:>12}{:>10.2}{:>10.2}{:>18.3}",
        "exact floor", "", report.floor.valid, report.floor.test, 0.0
    );
    for phrase in &report.phrases {
        let _ = writeln!(out, "\nAfter \"{}\" ...\n", phrase.phrase);
        let column = |next: &[Candidate], i: usize| {
            next.get(i).map_or(String::new(), |c| format!("{:<16}{:.3}", c.word, c.probability))
        };
        let title = |name: &str| ModelKind::ALL.iter().find(|k| k.name() == name).map_or("", |k| k.title());
        let titles: Vec<&str> = phrase.models.iter().map(|m| title(m.name)).collect();
        let _ = writeln!(
            out,
            "  {:<26}{:<26}the grammar itself",
            titles.first().unwrap_or(&""),
            titles.get(1).unwrap_or(&"")
        );
        for i in 0..10 {
            let models: Vec<String> = phrase.models.iter().map(|m| column(&m.next, i)).collect();
            let empty = String::new();
            let line = format!(
                "  {:<26}{:<26}{}",
                models.first().unwrap_or(&empty),
                models.get(1).unwrap_or(&empty),
                column(&phrase.truth, i)
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    let _ = writeln!(out, "\nThis took {}. The runs and this report are in {}", duration(report.seconds), report.out);
    let _ = writeln!(out, "the report as a page: {}", shell(Path::new(&report.page)));
    let _ = writeln!(out, "next: bowline next {}/real \"the old\"", shell(Path::new(&report.out)));
    out
}
