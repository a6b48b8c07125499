//! Shards and ranks: the weights depend on the number of shards alone, not on who computes them, and one shard is a run as it
//! always was. The ranks are threads here; `cargo xtask mpi` does the same with processes.

use bowline::config::Config;
use bowline::event::{Event, Progress};
use bowline::recipes::Recipe;
use bowline::run::ranks::{Ranks, Thread};
use bowline::run::{self, Outcome, Session, Summary, Watch};
use bowline_kernels::Isa;
use std::cell::Cell;
use std::path::{Path, PathBuf};

fn text() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v0.1/text")
}

fn config(recipe: &str, settings: &[&str]) -> Config {
    let small = [
        "hidden=8",
        "epochs=1",
        "batch=12",
        "unroll=5",
        "layers=2",
        "checkpoint.every_seconds=1e9",
        "validation_streams=2",
    ];
    let recipe = Recipe::find(recipe).unwrap().config(None, text().to_str().unwrap()).unwrap();
    recipe.with(&small.iter().chain(settings).map(|s| (*s).to_owned()).collect::<Vec<_>>()).unwrap()
}

/// Asks to stop after so many steps, if this is the rank that does.
#[derive(Default)]
struct Steps {
    done: Cell<usize>,
    limit: Option<usize>,
    seen: usize,
}

impl Watch for Steps {
    fn event(&mut self, _: &Event) {
        self.seen += 1;
    }
    fn progress(&mut self, _: &Progress) {
        self.done.set(self.done.get() + 1);
    }
    fn notice(&mut self, text: &str) {
        panic!("{text}");
    }
    fn stop(&self) -> bool {
        self.limit.is_some_and(|limit| self.done.get() >= limit)
    }
}

fn session(threads: usize) -> Session {
    Session { threads, isa: Isa::detect() }
}

/// What each rank of a group returns.
fn among<T: Send>(size: usize, work: impl Fn(&dyn Ranks) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let ranks: Vec<_> = Thread::group(size).into_iter().map(|rank| scope.spawn(move || work(&rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn summary(outcome: Outcome) -> Summary {
    match outcome {
        Outcome::Finished(summary) => *summary,
        Outcome::Stopped(position) => panic!("stopped at step {}", position.step),
    }
}

/// A run with a number of ranks, each with so many threads; all must return the same summary.
fn train(config: &Config, size: usize, threads: usize) -> Summary {
    let dir = tempfile::tempdir().unwrap();
    let mut all = among(size, |ranks| {
        let mut watch = Steps::default();
        let outcome = run::start_among(&dir.path().join("run"), config, session(threads), ranks, &mut watch).unwrap();
        assert_eq!(watch.seen > 0, ranks.leads(), "the lead's log has the events");
        summary(outcome)
    });
    assert!(all.iter().all(|other| *other == all[0]));
    all.swap_remove(0)
}

/// What must not depend on the ranks.
fn bits(summary: &Summary) -> (String, Vec<u64>) {
    let numbers =
        summary.curve.iter().flat_map(|point| [point.train, point.valid]).chain([summary.valid, summary.test]);
    (summary.weights_sha256.clone(), numbers.map(f64::to_bits).collect())
}

#[test]
fn the_weights_depend_on_the_shards_and_not_on_the_ranks() {
    let cases: [(&str, &[&str]); 9] = [
        ("real", &[]),
        ("real", &["augment.form=gram", "weight_decay=0.001", "average=0.3"]),
        ("vd-lstm", &["streams.reset=0.2", "streams.offset=true", "streams.random_length=true"]),
        (
            "awd-lstm",
            &["network.embedding=8", "network.widths=[]", "optimizer.trigger=1", "epochs=4", "learning_rate=3"],
        ),
        ("narrow", &["network.projection=0", "masks.word=0.9", "masks.each_step=[\"input\", \"output\"]"]),
        ("gal-large", &["masks.per_gate=[\"input\", \"state\", \"between\"]"]),
        ("pointer-sentinel", &["network.pointer=7"]),
        ("mos", &["network.embedding=6", "network.projection=6", "network.widths=[]", "network.softmaxes=3"]),
        ("char-cnn", &["network.characters.maps=[3, 4]", "network.characters.width=3"]),
    ];
    for (recipe, settings) in cases {
        let shards = |n: usize| config(recipe, &[settings, &[&format!("shards={n}")]].concat());
        let four = bits(&train(&shards(4), 1, 1));
        for (size, threads) in [(1, 2), (2, 1), (4, 1)] {
            assert_eq!(bits(&train(&shards(4), size, threads)), four, "{recipe}, {size} ranks of {threads} threads");
        }
        let three = bits(&train(&shards(3), 1, 1));
        assert_eq!(bits(&train(&shards(3), 3, 1)), three, "{recipe}, 3 ranks");
        assert_ne!(three.0, four.0, "{recipe}: sums in another order have other last bits");
    }
}

/// The gradient of the batch is the sum of the shards', so the losses are alike as far as rounding goes.
#[test]
fn shards_change_the_last_bits_alone() {
    for recipe in ["real", "awd-lstm"] {
        let of = |shards: usize| {
            let awd: &[&str] = if recipe == "awd-lstm" { &["network.embedding=8", "network.widths=[]"] } else { &[] };
            train(&config(recipe, &[awd, &["epochs=1", &format!("shards={shards}")]].concat()), 1, 2)
        };
        let (one, six) = (of(1), of(6));
        assert!(
            (one.curve[0].train / six.curve[0].train - 1.0).abs() < 1e-4,
            "{} {}",
            one.curve[0].train,
            six.curve[0].train
        );
        assert!((one.test / six.test - 1.0).abs() < 1e-4, "{} {}", one.test, six.test);
    }
}

#[test]
fn any_rank_can_stop_all_and_any_number_of_them_goes_on() {
    let config =
        config("narrow", &["network.projection=0", "shards=6", "streams.reset=0.2", "average=0.3", "epochs=4"]);
    let whole = bits(&train(&config, 1, 1));
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    // The size of each sitting, and which of its ranks asks to stop.
    let sittings = [(2, 1), (3, 0), (1, 0), (6, 4), (3, 2), (2, 0), (3, 1)];
    for (n, (size, who)) in sittings.into_iter().enumerate() {
        let stopped = among(size, |ranks| {
            let limit = (ranks.rank() == who).then_some(3 + n % 2);
            let mut watch = Steps { limit, ..Steps::default() };
            let outcome = match n {
                0 => run::start_among(&run, &config, session(1), ranks, &mut watch),
                _ => run::resume_among(&run, session(1 + n % 2), ranks, &mut watch),
            };
            match outcome.unwrap() {
                Outcome::Stopped(position) => position.step,
                Outcome::Finished(_) => panic!("sitting {n} went to the end"),
            }
        });
        assert!(stopped.iter().all(|step| *step == stopped[0]), "{stopped:?}");
    }
    let mut ends =
        among(2, |ranks| summary(run::resume_among(&run, session(1), ranks, &mut Steps::default()).unwrap()));
    assert_eq!(bits(&ends.swap_remove(0)), whole);
    // There is nothing left to do; all ranks hear of it.
    let over = among(3, |ranks| summary(run::resume_among(&run, session(1), ranks, &mut Steps::default()).unwrap()));
    assert!(over.iter().all(|summary| bits(summary) == whole));
}

#[test]
fn what_one_rank_cannot_do_all_say() {
    let dir = tempfile::tempdir().unwrap();
    let fail = |size: usize, of: &(dyn Fn(usize) -> Config + Sync)| -> Vec<String> {
        let run = dir.path().join("run");
        among(size, |ranks| {
            let started = run::start_among(&run, &of(ranks.rank()), session(1), ranks, &mut Steps::default());
            started.unwrap_err().to_string()
        })
    };
    let two = || config("real", &["shards=2"]);
    let other_seed = fail(2, &|rank| Config { seed: 1 + rank as u64, ..two() });
    assert!(
        other_seed.iter().all(|e| e.contains("rank 1 has other settings than rank 0: `seed` is 2, not 1")),
        "{other_seed:?}"
    );
    let copy = dir.path().join("text");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(text()).unwrap().flatten() {
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let at = |path: &Path| {
        let mut config = two();
        config.data.source = path.display().to_string();
        config
    };
    let valid = std::fs::read_dir(&copy)
        .unwrap()
        .flatten()
        .find(|f| f.file_name().to_string_lossy().contains("valid"))
        .unwrap();
    let mut words = std::fs::read_to_string(valid.path()).unwrap();
    words.truncate(words.len() / 2);
    std::fs::write(valid.path(), words).unwrap();
    let other_text = fail(2, &|rank| if rank == 1 { at(&copy) } else { two() });
    assert!(
        other_text.iter().all(|e| e.starts_with("rank 1 has another validation text than rank 0")),
        "{other_text:?}"
    );
    let missing = dir.path().join("missing");
    let no_text =
        fail(3, &|rank| if rank == 2 { Config { shards: 3, ..at(&missing) } } else { config("real", &["shards=3"]) });
    assert!(no_text.iter().all(|e| e.starts_with("rank 2: ") && e.contains("missing")), "{no_text:?}");
    let undivided = fail(3, &|_| two());
    assert!(undivided.iter().all(|e| e.contains("2 shards cannot be divided among 3 ranks")), "{undivided:?}");
    assert!(!dir.path().join("run").exists(), "nothing was begun");
    // The lead's own trouble, after all had agreed.
    std::fs::create_dir(dir.path().join("run")).unwrap();
    std::fs::write(dir.path().join("run/notes"), "mine").unwrap();
    let occupied = fail(2, &|_| two());
    assert!(occupied.iter().all(|e| e.contains("the folder is not empty")), "{occupied:?}");
    let nothing = among(2, |ranks| {
        run::resume_among(&dir.path().join("no"), session(1), ranks, &mut ()).unwrap_err().to_string()
    });
    assert!(nothing.iter().all(|e| e.contains("there is no such folder")), "{nothing:?}");
}

#[test]
fn a_batch_that_cannot_be_divided_is_refused_with_what_can() {
    let with = |settings: &[&str]| {
        let all: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
        config("real", &[]).with(&all).unwrap_err().to_string()
    };
    assert_eq!(
        with(&["shards=5"]),
        "setting `shards`: 12 streams (setting `batch`) cannot be divided into 5 equal shards\n  \
         try: one of 1, 2, 3, 4, 6, 12, or another `batch`"
    );
    assert!(with(&["shards=0"]).contains("into 0 equal shards"));
}
