//! A training for the time there is: more time never gives a worse model, and a plan can change on the way.

use bowline::budget::{Facts, Plan, Planned, replan, train};
use bowline::config::{Config, DataConfig};
use bowline::event::{Event, Progress};
use bowline::predictor::{Reads, Shipped};
use bowline::run::{Outcome, Session, Summary, Watch, resume, start};
use bowline::{Ensemble, LoadedModel};
use bowline_kernels::{Isa, Team};
use std::path::Path;
use std::sync::Arc;

const SESSION: Session = Session { threads: 1, isa: Isa::PORTABLE };

/// A plan for a piece of the built-in corpus on a machine that does so many operations a second.
fn plan(seconds: f64, operations: f64) -> Planned {
    let data =
        DataConfig { source: "demo".to_owned(), train_words: 12_000, valid_words: 3_000, ..DataConfig::default() };
    let vocab = bowline::run::open_corpus(&data).unwrap().vocabulary.len();
    let chosen = ["finish.seconds=0", "validation_streams=20"].map(str::to_owned).to_vec();
    let facts = Facts { data, words: [12_000, 3_000, 20_000], vocab, seconds, seed: 1, chosen };
    let mut speed = |config: &Config, vocab| operations / (6.0 * config.spec(vocab).products() as f64);
    match Plan::new(&facts, &mut speed).unwrap() {
        Plan::Network(planned) => *planned,
        Plan::Ngrams { why } => panic!("{why}"),
    }
}

fn finished(outcome: Outcome) -> Summary {
    match outcome {
        Outcome::Finished(summary) => *summary,
        Outcome::Stopped(position) => panic!("{position:?}"),
    }
}

#[test]
fn more_time_never_gives_a_worse_model() {
    let dir = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for (i, seconds) in [4.0, 12.0, 36.0].into_iter().enumerate() {
        let planned = plan(seconds, 20e9);
        let run = dir.path().join(i.to_string());
        let session = Session { isa: Isa::detect(), ..SESSION };
        let summary = finished(start(&run, &planned.config, session, &mut ()).unwrap());
        let with = summary.predictor.unwrap();
        assert!(with.full[0] < 1.0001 * with.plain[0].min(with.ngrams[0]), "{with:?}");
        found.push((planned.config.epochs, planned.config.hidden, with.plain, with.full));
    }
    for pair in found.windows(2) {
        assert!(pair[0].0 < pair[1].0, "{found:?}");
        assert!(pair[0].2[0] > pair[1].2[0] && pair[0].3[0] > pair[1].3[0], "{found:?}");
    }
}

/// Asks to stop after some epochs.
struct StopAfter {
    epochs: u32,
    seen: u32,
}

impl Watch for StopAfter {
    fn event(&mut self, event: &Event) {
        self.seen += u32::from(matches!(event, Event::Epoch(_)));
    }
    fn progress(&mut self, _: &Progress) {}
    fn notice(&mut self, _: &str) {}
    fn stop(&self) -> bool {
        self.seen >= self.epochs
    }
}

fn stopped_after(dir: &Path, config: &Config, epochs: u32) {
    let outcome = start(dir, config, SESSION, &mut StopAfter { epochs, seen: 0 }).unwrap();
    assert!(matches!(outcome, Outcome::Stopped(_)));
}

#[test]
fn a_plan_that_changes_while_the_rate_is_constant_gives_the_bits_of_its_settings() {
    let dir = tempfile::tempdir().unwrap();
    let (run, again) = (dir.path().join("run"), dir.path().join("again"));
    let config = plan(6.0, 20e9).config.with(&["epochs=8".to_owned(), "hidden=32".to_owned()]).unwrap();
    stopped_after(&run, &config, 2);
    replan(&run, 4).unwrap();
    let changed = finished(resume(&run, SESSION, &mut ()).unwrap());
    assert_eq!(changed.epochs, 4);
    let settings = Config::read(&run.join("config.toml")).unwrap();
    assert_eq!((settings.epochs, settings.schedule.constant), (4, 0.5));
    let same = finished(start(&again, &settings, SESSION, &mut ()).unwrap());
    assert_eq!(same.weights_sha256, changed.weights_sha256);
}

#[test]
fn a_kill_between_the_two_files_of_a_new_plan_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let config = plan(6.0, 20e9).config.with(&["epochs=4".to_owned(), "hidden=16".to_owned()]).unwrap();
    let run = dir.path().join("run");
    stopped_after(&run, &config, 1);
    let (config_file, next) = (run.join("config.toml"), run.join("config.next.toml"));
    let old = std::fs::read(&config_file).unwrap();
    // Killed after the announcement: the old settings count.
    std::fs::write(&next, String::from_utf8_lossy(&old).replace("epochs = 4", "epochs = 3")).unwrap();
    replan(&run, 2).unwrap();
    assert!(!next.exists());
    let new = std::fs::read(&config_file).unwrap();
    assert_eq!(Config::read(&config_file).unwrap().epochs, 2);
    // Killed after the checkpoint: the new ones do.
    std::fs::write(&next, &new).unwrap();
    std::fs::write(&config_file, &old).unwrap();
    assert_eq!(finished(resume(&run, SESSION, &mut ()).unwrap()).epochs, 2);
    assert_eq!(std::fs::read(&config_file).unwrap(), new);
}

#[test]
fn the_clock_shortens_a_run_on_a_machine_that_is_slower_than_it_seemed() {
    let dir = tempfile::tempdir().unwrap();
    let mut planned = plan(6.0, 20e9);
    planned.config = planned.config.with(&["epochs=40".to_owned(), "hidden=32".to_owned()]).unwrap();
    // As if forty epochs took half a millisecond.
    planned.training = 0.0005;
    let summary = finished(train(&dir.path().join("run"), &planned, SESSION, &mut ()).unwrap());
    assert_eq!(summary.epochs, 2);
}

#[test]
fn a_model_predicts_in_the_way_that_is_stored_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let config = plan(6.0, 20e9).config.with(&["epochs=2".to_owned(), "hidden=32".to_owned()]).unwrap();
    let run = dir.path().join("run");
    let with = finished(start(&run, &config, SESSION, &mut ()).unwrap()).predictor.unwrap();
    let shipped = Shipped::load(&run.join("best")).unwrap().unwrap();
    assert_eq!(shipped.perplexity, with);
    let corpus = bowline::run::open_corpus(&config.data).unwrap();
    let team = Arc::new(Team::new(1));
    let perplexity = |ensemble: Ensemble| {
        let nll = ensemble.nll(&team, Isa::PORTABLE, &corpus.test.ids, 1).unwrap();
        (nll.iter().sum::<f64>() / nll.len() as f64).exp()
    };
    let model = || LoadedModel::load(&run).unwrap();
    let [full, phrase] =
        [Reads::Text, Reads::Phrase].map(|reads| perplexity(shipped.ensemble(model(), reads).unwrap()));
    let plain = perplexity(Ensemble::from(model()));
    assert!((full / with.full[1] - 1.0).abs() < 1e-6, "{full} {with:?}");
    assert!((plain / with.plain[1] - 1.0).abs() < 1e-6, "{plain} {with:?}");
    assert!(full < 1.0001 * phrase && phrase < plain, "{full} {phrase} {plain}");

    // It belongs to its weights.
    let mut other = shipped.clone();
    other.model = "another".to_owned();
    let message = other.ensemble(model(), Reads::Text).err().unwrap().to_string();
    assert!(message.contains("it belongs to other weights") && message.contains("--plain"), "{message}");
    for (text, problem) in [("{", "EOF"), ("{\"version\":1}", "missing field")] {
        std::fs::write(run.join("best/predictor.json"), text).unwrap();
        let message = Shipped::load(&run.join("best")).unwrap_err().to_string();
        assert!(message.contains(problem) && message.contains("predictor.json"), "{message}");
    }
}
