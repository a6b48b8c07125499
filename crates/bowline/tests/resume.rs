//! A run that is stopped again and again ends with the same weights as one that is not: for every unit and every optimiser, with
//! masks by site, streams that begin anywhere and forget, and another number of threads each time.

use bowline::config::Config;
use bowline::event::{Event, Progress};
use bowline::recipes::Recipe;
use bowline::run::{self, Outcome, Position, Session, Summary, Watch};
use bowline_kernels::Isa;
use std::cell::Cell;
use std::path::Path;

/// Stops a run when it has asked so many times whether to.
struct Stopper {
    asked: Cell<usize>,
    limit: usize,
}

impl Watch for Stopper {
    fn event(&mut self, _: &Event) {}
    fn progress(&mut self, _: &Progress) {}
    fn notice(&mut self, text: &str) {
        assert!(text.starts_with("training perplexities are estimated"), "{text}");
    }
    fn stop(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get() > self.limit
    }
}

const KILLS: usize = 20;

fn session(threads: usize) -> Session {
    Session { threads, isa: Isa::detect() }
}

fn stopper(limit: usize) -> Stopper {
    Stopper { asked: Cell::new(0), limit }
}

fn config(text: &Path, settings: &[&str]) -> Config {
    let small = [
        "hidden=8",
        "network.projection=0",
        "epochs=3",
        "batch=4",
        "unroll=5",
        "streams.reset=0.2",
        "masks.weights=0.8",
        "masks.word=0.9",
        "masks.between=0.8",
        "layers=2",
        "checkpoint.every_seconds=1e9",
        "validation_streams=2",
    ];
    let recipe = Recipe::find("narrow").unwrap().config(None, text.to_str().unwrap()).unwrap();
    recipe.with(&small.iter().chain(settings).map(|s| (*s).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn whole(dir: &Path, config: &Config) -> (Summary, usize) {
    let mut never = stopper(usize::MAX);
    match run::start(dir, config, session(1), &mut never).unwrap() {
        Outcome::Finished(summary) => (*summary, never.asked.get()),
        Outcome::Stopped(_) => panic!("nobody asked it to stop"),
    }
}

/// Stops it `KILLS` times, each after another share of the questions; the last place where it stopped comes with the result.
fn in_pieces(dir: &Path, config: &Config, asked: usize) -> (Summary, Position) {
    let (mut kills, mut last) = (0, Position::default());
    let mut outcome = run::start(dir, config, session(2), &mut stopper(asked / (KILLS + 3))).unwrap();
    loop {
        match outcome {
            Outcome::Finished(summary) => {
                assert!(kills >= KILLS, "only {kills} kills");
                return (*summary, last);
            }
            Outcome::Stopped(position) => (kills, last) = (kills + 1, *position),
        }
        // A little more or less each time, so that it stops at every place of a step.
        let limit = if kills < KILLS { asked / (KILLS + 8) + kills % 5 } else { usize::MAX };
        outcome = run::resume(dir, session(1 + kills % 3), &mut stopper(limit)).unwrap();
    }
}

#[test]
fn a_run_that_is_stopped_twenty_times_ends_like_one_that_is_not() {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v0.1/text");
    let adam = "optimizer.beta1=0.9";
    let cases: [(&str, &[&str]); 20] = [
        ("lstm", &[]),
        ("sampled", &["loss.sampled=9"]),
        ("sampled, sgd", &["loss.sampled=9", "optimizer.kind=sgd", "learning_rate=0.5", "weight_decay=0"]),
        ("ids in a file", &["data.ids=file", "streams.offset=true", "streams.random_length=true"]),
        ("coupled lstm", &["network.coupled=true"]),
        ("gru", &["network.unit=gru"]),
        ("rnn", &["network.unit=rnn"]),
        ("relu", &["network.unit=rnn", "network.activation=relu"]),
        ("highway", &["network.unit=highway", "network.depth=3"]),
        ("deep", &["network.unit=deep"]),
        ("direct", &["network.unit=deep", "network.direct=true", "network.embedding=0", "network.tied=false"]),
        ("masks by gate", &["masks.per_gate=[\"input\", \"state\", \"between\"]", "masks.state=0.8"]),
        ("projection and unequal widths", &["network.widths=[9, 7]", "network.projection=5"]),
        (
            "mixture of softmaxes",
            &["network.projection=8", "network.projection_activation=tanh", "network.softmaxes=3"],
        ),
        ("mogrifier", &["network.unit=mogrifier", "network.rank=3", "network.sum_layers=true"]),
        ("adam with momentum", &[adam]),
        ("decoupled decay", &[adam, "optimizer.decoupled=true", "weight_decay=0.01"]),
        ("sgd, plateau", &["optimizer.kind=sgd", "learning_rate=0.5", "schedule.kind=plateau", "average=0.2"]),
        (
            "asgd",
            &[
                "optimizer.kind=asgd",
                "learning_rate=3",
                "optimizer.trigger=1",
                "schedule.kind=steps",
                "schedule.at=[2]",
            ],
        ),
        ("one cycle", &["schedule.kind=one-cycle", "streams.random_length=true", "unroll=8", "activity.ar=0.5"]),
    ];
    for (name, settings) in cases {
        let place = tempfile::tempdir().unwrap();
        let config = config(&text, settings);
        let (at_once, asked) = whole(&place.path().join("whole"), &config);
        let (pieces, last) = in_pieces(&place.path().join("pieces"), &config, asked);
        assert_eq!(pieces.weights_sha256, at_once.weights_sha256, "{name}");
        assert_eq!(pieces.curve, at_once.curve, "{name}");
        // What is to be saved must have come about.
        assert_eq!(last.averages_since.is_some(), name == "asgd", "{name}");
        assert_eq!(last.drops > 0, name.ends_with("plateau"), "{name}");
        assert!(at_once.steps > 50, "{name}: {} steps", at_once.steps);
    }
}

#[test]
fn ids_in_a_file_give_the_same_weights_and_are_made_again_when_they_are_gone() {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v0.1/text");
    let place = tempfile::tempdir().unwrap();
    for settings in [&[][..], &["streams.offset=true", "streams.random_length=true", "data.train_start=30"]] {
        let dir = |name: &str| place.path().join(format!("{name}{}", settings.len()));
        let (memory, _) = whole(&dir("memory"), &config(&text, settings));
        let config = config(&text, &[settings, &["data.ids=file"]].concat());
        let (file, asked) = whole(&dir("file"), &config);
        assert_eq!(file.weights_sha256, memory.weights_sha256);
        assert!(!dir("memory").join("train.ids").exists() && dir("file").join("train.ids").is_file());
        assert!(matches!(
            run::start(&dir("gone"), &config, session(2), &mut stopper(asked / 2)).unwrap(),
            Outcome::Stopped(_)
        ));
        std::fs::remove_file(dir("gone").join("train.ids")).unwrap();
        match run::resume(&dir("gone"), session(1), &mut stopper(usize::MAX)).unwrap() {
            Outcome::Finished(summary) => assert_eq!(summary.weights_sha256, memory.weights_sha256),
            Outcome::Stopped(_) => panic!("nobody asked it to stop"),
        }
    }
}

/// While the rate of a cosine is constant, it does not matter how many epochs follow.
#[test]
fn a_run_can_be_made_longer_or_shorter_while_its_rate_is_constant() {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v0.1/text");
    let place = tempfile::tempdir().unwrap();
    let dir = |name: &str| place.path().join(name);
    let of = |epochs: &str| config(&text, &["schedule.constant=0.5", epochs]);
    let (_, asked) = whole(&dir("eight"), &of("epochs=8"));
    let stopped = run::start(&dir("stopped"), &of("epochs=8"), session(1), &mut stopper(asked / 3)).unwrap();
    assert!(matches!(stopped, Outcome::Stopped(position) if position.epoch == 3));
    for (epochs, same) in [("epochs=12", true), ("epochs=6", true), ("epochs=4", false)] {
        run::branch(&dir("stopped"), &dir(epochs), &[epochs.to_owned()]).unwrap();
        let made = Config::read(&dir(epochs).join("config.toml")).unwrap();
        assert_eq!(made == of(epochs), same, "{epochs}: {}", made.origin);
        let Outcome::Finished(branched) = run::resume(&dir(epochs), session(2), &mut stopper(usize::MAX)).unwrap()
        else {
            panic!("nobody asked it to stop")
        };
        let (at_the_start, _) = whole(&dir(&format!("{epochs} at the start")), &of(epochs));
        assert_eq!(branched.weights_sha256 == at_the_start.weights_sha256, same, "{epochs}");
    }
}
