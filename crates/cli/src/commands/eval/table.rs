//! `bowline eval --all`: every way of predicting in one table, each tuned on the validation part.
//!
//! Few passes serve many rows: a pass over a part with the network as trained gives the static, tempered and cached
//! probabilities of its words, another one those of dynamic evaluation with and without a cache; mixtures need no pass of
//! their own. What a row would cost by itself is measured apart, on a few thousand words. The table is kept beside the
//! run, where `bowline report` finds it.

use super::EvalOptions;
use crate::commands::predictor::{Setup, need_scale};
use crate::commands::print_json;
use crate::screen::stdout;
use crate::terminal::{Bar, note};
use bowline::corpus::SplitName;
use bowline::ngram::NgramModel;
use bowline::predictor::{
    CacheGrid, DynamicForm, Neural, NeuralSettings, Ngram, Predictor, PredictorRow, PredictorTable, Source, Streams,
    TunedSettings, Tuner, em, perplexity, short,
};
use bowline::storage::atomic;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Serialize)]
struct TableAnswer<'a> {
    folder: String,
    #[serde(flatten)]
    table: &'a PredictorTable,
}

/// The probabilities of the words of both parts.
struct Both {
    valid: Vec<f64>,
    test: Vec<f64>,
}

/// Words read before the clock starts, words timed, and how often.
const WARM: usize = 2_000;
const TIMED: usize = 2_000;
const ROUNDS: usize = 3;
/// Samples of Monte-Carlo dropout, if nothing else is asked for.
const SAMPLES: usize = 20;

pub fn run(options: &EvalOptions, mut setup: Setup) -> anyhow::Result<ExitCode> {
    let asked = &options.predictor;
    let first = Arc::clone(setup.model());
    first.require_network("ways of predicting to compare")?;
    let (vocabulary, tokenize) = (&first.vocabulary, first.tokenize);
    let text = super::source(options, vocabulary)?;
    let read = |name| text.read_part(name, "the table of --all", vocabulary, tokenize);
    let (train, valid, test) = (read(SplitName::Train)?, read(SplitName::Valid)?, read(SplitName::Test)?);
    for part in [&valid, &test] {
        part.require_tokens(2, "an evaluation")?;
    }
    let start = asked.dynamic_settings(setup.stored[0].as_ref());
    if start.form == DynamicForm::Rms {
        need_scale(&first, Some(&text), &setup.team, setup.isa)?;
    }
    let (team, isa) = (Arc::clone(&setup.team), setup.isa);
    let source = first.source(&team, isa).ok_or_else(|| anyhow::anyhow!("the first MODEL is not a network"))?;
    let progress = Bar::new();
    let mut show = |what: &str, share: f64| {
        progress.show(what, share);
        true
    };

    // What is found on valid.
    let time = Duration::from_secs(options.tune_seconds);
    let mut tuner = Tuner { source: &source, valid: &valid.ids, time, watch: &mut show };
    let stopped = || anyhow::anyhow!("the search was stopped");
    let (plain, temperature, cache) = tuner.one_pass(None)?.ok_or_else(stopped)?;
    let dynamic = tuner.dynamic(start)?.ok_or_else(stopped)?;
    let (learning, _, learning_cache) = tuner.one_pass(Some(dynamic))?.ok_or_else(stopped)?;
    let way = NeuralSettings::default();
    let ways = [
        way,
        NeuralSettings { temperature: temperature.settings, ..way },
        NeuralSettings { cache: Some(cache.settings), ..way },
        NeuralSettings { dynamic: Some(dynamic), ..way },
        NeuralSettings { dynamic: Some(dynamic), cache: Some(learning_cache.settings), ..way },
    ];
    keep(&mut setup, &valid.sha256, &ways);

    // The same on test, once. (The temperature's valid figure is that of the nearest one tried.)
    let test_plain = test_pass(&source, &ways[2], &[1.0, temperature.settings], &test.ids, &mut show)?;
    let test_learning = test_pass(&source, &ways[4], &[1.0], &test.ids, &mut show)?;
    let mut passes = vec![
        Both { valid: plain.probabilities, test: test_plain.network[0].clone() },
        Both { valid: temperature.probabilities, test: test_plain.network[1].clone() },
        Both {
            valid: cache.probabilities,
            test: Streams::mixed(&test_plain.network[0], &test_plain.cache[0], cache.settings.lambda),
        },
        Both { valid: learning.probabilities, test: test_learning.network[0].clone() },
        Both {
            valid: learning_cache.probabilities,
            test: Streams::mixed(&test_learning.network[0], &test_learning.cache[0], learning_cache.settings.lambda),
        },
    ];
    let mut titles: Vec<(String, String)> = ways.iter().map(|w| (w.title(), w.describe())).collect();
    let mut clocks: Vec<Clock> = Vec::new();
    for settings in &ways {
        clocks.push(Clock::new(Box::new(Neural::new(&source, settings)?), TIMED));
    }
    let whole = |predictor: &mut dyn Predictor, what: &str, show: &mut dyn FnMut(&str, f64) -> bool| {
        let mut part = |name: &str, ids: &[u32]| {
            show(&format!("{what} on {name}"), 0.0);
            predictor.reset();
            predictor.target_probabilities(ids, &|| false).unwrap_or_default()
        };
        Both { valid: part("valid", &valid.ids), test: part("test", &test.ids) }
    };
    let samples = asked.mc.unwrap_or(SAMPLES);
    if samples > 0 {
        match asked.monte_carlo(&first, None, samples) {
            Ok(mut mc) => {
                if asked.mc_keep.is_none() {
                    let mut tuner = Tuner { source: &source, valid: &valid.ids, time, watch: &mut show };
                    mc = tuner.monte_carlo(mc)?.ok_or_else(stopped)?;
                    if let Some(stored) = &mut setup.stored[0] {
                        stored.set_monte_carlo(mc);
                        save(stored, &first.folder);
                    }
                }
                let settings = NeuralSettings { monte_carlo: Some(mc), ..way };
                let mut predictor = Neural::new(&source, &settings)?;
                passes.push(whole(&mut predictor, &settings.title(), &mut show));
                titles.push((settings.title(), settings.describe()));
                clocks.push(Clock::new(Box::new(predictor), TIMED / samples.min(20)));
            }
            Err(error) => note(format_args!("Monte-Carlo dropout is left out: {error}")),
        }
    }

    // Other models, and a Kneser-Ney model of our own if none is given.
    let mut networks = vec![0];
    let mut ngrams = Vec::new();
    for (model, _) in setup.ensemble.members().skip(1) {
        let mut predictor = model.predictor(&team, isa, &way)?;
        let title = model.title();
        if model.params().is_some() {
            networks.push(passes.len())
        } else {
            ngrams.push(passes.len())
        }
        passes.push(whole(predictor.as_mut(), &title, &mut show));
        titles.push((format!("{title} alone"), folder_name(&model.folder)));
        clocks.push(Clock::new(predictor, TIMED));
    }
    if ngrams.is_empty() {
        show("a Kneser-Ney model of the training text", 0.0);
        let (model, _) = NgramModel::train(&train.ids, vocabulary.len(), vocabulary.eos(), 5)?;
        let mut predictor = Ngram::new(Arc::new(model));
        ngrams.push(passes.len());
        passes.push(whole(&mut predictor, "KN-5", &mut show));
        titles.push(("KN-5 alone".to_owned(), "estimated from the training text".to_owned()));
        clocks.push(Clock::new(Box::new(predictor), TIMED));
    }
    measure(&mut clocks, &valid.ids, &mut show);
    progress.clear();
    let reference = clocks[0].best;
    let mut rows: Vec<PredictorRow> = Vec::new();
    let mut add = |(technique, settings): (String, String), models: usize, p: &Both, seconds: f64| {
        rows.push(PredictorRow {
            technique,
            settings,
            models,
            valid: perplexity(&p.valid),
            test: perplexity(&p.test),
            microseconds: 1e6 * seconds,
            relative: seconds / reference,
        });
    };
    for ((title, pass), clock) in titles.iter().zip(&passes).zip(&clocks) {
        add(title.clone(), 1, pass, clock.best);
    }
    let name = |i: usize| titles[i].0.trim_end_matches(" alone").to_owned();
    let mut mixtures: Vec<(String, Vec<usize>)> = Vec::new();
    let kn = ngrams[0];
    mixtures.push((format!("static + {}", name(kn)), vec![0, kn]));
    mixtures.push((format!("dynamic + cache + {}", name(kn)), vec![4, kn]));
    if networks.len() > 1 {
        mixtures.push((format!("ensemble of {} networks", networks.len()), networks.clone()));
        let mut everything = vec![4];
        everything.extend(&networks[1..]);
        everything.extend(&ngrams);
        mixtures.push((format!("dynamic + cache + {} more models", everything.len() - 1), everything));
    }
    for (title, members) in mixtures {
        let vectors: Vec<&[f64]> = members.iter().map(|&i| &passes[i].valid[..]).collect();
        let weights = em(&vectors).weights;
        let join = |part: fn(&Both) -> &Vec<f64>| -> Vec<f64> {
            let vectors: Vec<&Vec<f64>> = members.iter().map(|&i| part(&passes[i])).collect();
            (0..vectors[0].len()).map(|t| vectors.iter().zip(&weights).map(|(p, w)| w * p[t]).sum()).collect()
        };
        let joined = Both { valid: join(|p| &p.valid), test: join(|p| &p.test) };
        let shown: Vec<String> = weights.iter().map(|&w| short(w)).collect();
        let seconds = members.iter().map(|&i| clocks[i].best).sum();
        add((title, format!("weights {}", shown.join(", "))), members.len(), &joined, seconds);
    }
    let model = &first;
    let table = PredictorTable {
        model: model.kind.clone(),
        weights: model.mark(),
        data: text.name.clone(),
        data_sha256: [valid.sha256, test.sha256],
        tokens: [valid.ids.len() - 1, test.ids.len() - 1],
        threads: options.threads.get(),
        rows,
        ..PredictorTable::default()
    };
    if let Err(error) = table.save(&PredictorTable::place(&model.folder)) {
        note(format_args!("the table could not be saved for the run's report: {error}"));
    }
    show_table(options, &model.folder, &table)
}

/// Keeps what was found beside the model.
fn keep(setup: &mut Setup, valid_sha256: &str, ways: &[NeuralSettings; 5]) {
    let mark = setup.model().mark();
    let mut stored =
        setup.stored[0].take().filter(|s| s.model == mark && s.valid_sha256 == valid_sha256).unwrap_or_default();
    (stored.model, stored.valid_sha256) = (mark, valid_sha256.to_owned());
    stored.temperature = Some(ways[1].temperature);
    stored.cache = ways[2].cache;
    stored.dynamic = ways[3].dynamic;
    stored.cache_with_dynamic = ways[4].cache;
    save(&stored, &setup.model().folder);
    setup.stored[0] = Some(stored);
}

fn save(stored: &TunedSettings, folder: &Path) {
    if let Err(error) = stored.save(folder) {
        note(format_args!("the settings could not be saved: {error}"));
    }
}

fn test_pass(
    source: &Source,
    settings: &NeuralSettings,
    temperatures: &[f64],
    ids: &[u32],
    show: &mut dyn FnMut(&str, f64) -> bool,
) -> anyhow::Result<Streams> {
    let grid = CacheGrid {
        thetas: settings.cache.iter().map(|c| c.theta).collect(),
        windows: settings.cache.iter().map(|c| c.window).collect(),
    };
    let what = format!("{} on test", settings.title());
    let total = ids.len().max(1) as f64;
    let mut network = Neural::new(source, settings)?;
    let streams = network.streams(ids, temperatures, &grid, &mut |at| show(&what, at as f64 / total));
    streams.ok_or_else(|| anyhow::anyhow!("the evaluation was stopped"))
}

/// A predictor whose cost is measured.
struct Clock {
    predictor: Box<dyn Predictor>,
    words: usize,
    /// Seconds a word, the least that was found.
    best: f64,
}

impl Clock {
    fn new(predictor: Box<dyn Predictor>, words: usize) -> Clock {
        Clock { predictor, words, best: f64::INFINITY }
    }
}

/// Measures all in turn, a few times, so that what else the machine does falls on all alike.
fn measure(clocks: &mut [Clock], ids: &[u32], show: &mut dyn FnMut(&str, f64) -> bool) {
    for round in 0..ROUNDS {
        for (i, clock) in clocks.iter_mut().enumerate() {
            show("measuring the cost", (round as f64 + i as f64 / 10.0) / ROUNDS as f64);
            let warm = WARM.min(ids.len() / 2);
            let end = (warm + clock.words).min(ids.len() - 1);
            clock.predictor.reset();
            // Many rows side by side would take long to warm up, and have no cache to fill.
            clock.predictor.observe(&ids[if clock.words < TIMED { warm - 1 } else { 0 }..warm]);
            let start = Instant::now();
            let _ = clock.predictor.target_probabilities(&ids[warm..=end], &|| false);
            clock.best = clock.best.min(start.elapsed().as_secs_f64() / (end - warm).max(1) as f64);
        }
    }
}

fn folder_name(folder: &Path) -> String {
    let shown = if folder.ends_with("best") { folder.parent().unwrap_or(folder) } else { folder };
    shown.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn show_table(options: &EvalOptions, folder: &Path, table: &PredictorTable) -> anyhow::Result<ExitCode> {
    let answer = TableAnswer { folder: folder.display().to_string(), table };
    let rows = &table.rows;
    if let Some(path) = &options.out {
        let json = path.extension().is_some_and(|e| e == "json");
        let text = if json { serde_json::to_string_pretty(&answer)? + "\n" } else { csv(&folder_name(folder), rows) };
        atomic::write(path, |out| out.write_all(text.as_bytes()))?;
    }
    if options.json {
        print_json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    writeln!(
        out,
        "{} on {}: perplexity, settings found on valid; cost on {} thread(s)",
        table.model, table.data, table.threads
    )?;
    let width = rows.iter().map(|row| row.technique.len()).max().unwrap_or(0);
    writeln!(out, "  {:<width$}  {:>8}  {:>8}  {:>8}  {:>6}  settings", "", "valid", "test", "us/token", "cost")?;
    for row in rows {
        writeln!(
            out,
            "  {:<width$}  {:>8.3}  {:>8.3}  {:>8.1}  {:>5.2}x  {}",
            row.technique, row.valid, row.test, row.microseconds, row.relative, row.settings
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The table as comma-separated values.
fn csv(model: &str, rows: &[PredictorRow]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut text = "model,technique,settings,valid,test,microseconds_per_token,relative_cost\n".to_owned();
    for row in rows {
        text += &format!(
            "{},{},{},{:.4},{:.4},{:.2},{:.3}\n",
            quoted(model),
            quoted(&row.technique),
            quoted(&row.settings),
            row.valid,
            row.test,
            row.microseconds,
            row.relative
        );
    }
    text
}
