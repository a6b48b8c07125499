//! A run may be stopped at any instant and in any way, and still ends in the same bits.

#![cfg(unix)]

mod common;

use bowline::storage::tensor_file::{ContentHash, TensorFile};
use common::{Dice, Ended, Place, change, copy, events, finish, result, snapshot};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A corpus, a way to train on it, and what comes out when nobody disturbs.
struct Trial {
    place: Place,
    settings: Vec<String>,
    expected: common::Result,
    /// How long that took, from the moment there was a run to resume.
    seconds: f64,
}

impl Trial {
    fn new(settings: &[&str]) -> Trial {
        let place = Place::new();
        let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
        let mut command = place.train("undisturbed");
        let child = start(command.args(&settings), &place.path("undisturbed"));
        let begin = Instant::now();
        end(child).success();
        let seconds = begin.elapsed().as_secs_f64();
        let expected = result(&place.path("undisturbed"));
        Trial { place, settings, expected, seconds }
    }

    fn train(&self, run: &str) -> Command {
        let mut command = self.place.train(run);
        command.args(&self.settings);
        command
    }

    fn path(&self, run: &str) -> PathBuf {
        self.place.path(run)
    }

    /// Starts a run and kills it after a part of the usual time; less, if it was faster than that.
    fn killed(&self, run: &str, mut part: f64) {
        for _ in 0..ATTEMPTS {
            let path = self.path(run);
            let mut child = start(&mut self.train(run), &path);
            std::thread::sleep(Duration::from_secs_f64(part * self.seconds));
            if kill(&mut child) {
                return;
            }
            fs::remove_dir_all(path).unwrap();
            part *= 0.7;
        }
        panic!("{run} was always over before it could be killed");
    }

    #[track_caller]
    fn check(&self, run: &str) {
        let found = result(&self.path(run));
        assert_eq!(found.weights, self.expected.weights, "{run}");
        assert_eq!(found.metrics, self.expected.metrics, "{run}");
        assert_eq!(found.events, self.expected.events, "{run}");
    }

    /// Kills at `instants` times spread over the whole run, resumes with another number of threads (some are killed again while
    /// they do), and compares. Returns how many resumed in the middle of an epoch.
    fn kill_and_resume(&self, instants: usize, seed: u64) -> usize {
        let mut dice = Dice(seed);
        let steps_per_epoch = self.expected.events[0]["steps_per_epoch"].as_u64().unwrap();
        let mut in_the_middle = 0;
        for i in 0..instants {
            let run = format!("killed-{i}");
            // The first one comes as early as can be.
            self.killed(&run, if i == 0 { 0.0 } else { (i as f64 + dice.unit()) / instants as f64 });
            let resume = |more: usize| self.place.resume_with(1 + (i + more) % 3, &run);
            for _ in 0..if i % 3 == 0 { 1 + dice.below(2) } else { 0 } {
                let mut child = quiet(resume(1)).spawn().unwrap();
                std::thread::sleep(Duration::from_secs_f64(dice.unit() * self.seconds / 2.0));
                kill(&mut child);
            }
            finish(&mut resume(0)).success();
            self.check(&run);
            let resumed = events(&self.path(&run)).into_iter().filter(|event| event["event"] == "resume");
            let middle = |step: u64| !step.is_multiple_of(steps_per_epoch);
            in_the_middle += usize::from(resumed.map(|event| event["step"].as_u64().unwrap()).any(middle));
            fs::remove_dir_all(self.path(&run)).unwrap();
        }
        in_the_middle
    }
}

/// Starts a training and waits until there is a run.
fn start(command: &mut Command, run: &Path) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&mut child, || run.join("config.toml").exists());
    child
}

/// Waits until something is so, or the process has ended.
fn wait_for(child: &mut Child, so: impl Fn() -> bool) {
    while !so() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn end(child: Child) -> Ended {
    Ended::of(child.wait_with_output().unwrap())
}

/// With nobody listening.
fn quiet(mut command: Command) -> Command {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// SIGKILL; false if the process had ended by itself.
fn kill(child: &mut Child) -> bool {
    let alive = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap().code().is_none() && alive
}

/// What Ctrl-C does.
fn interrupt(child: &Child) {
    let status = Command::new("sh").arg("-c").arg(format!("kill -INT {}", child.id())).status().unwrap();
    assert!(status.success());
}

/// How often something is tried that depends on the machine's pace.
const ATTEMPTS: usize = 20;
const EPOCHS: [&str; 2] = ["--epochs", "6"];
const OFTEN: [&str; 2] = ["--set", "checkpoint.every_seconds=0.005"];

#[test]
fn a_run_killed_at_20_instants_ends_in_the_same_bits() {
    let trial = Trial::new(&[EPOCHS, OFTEN].concat());
    let in_the_middle = trial.kill_and_resume(20, 1);
    // How many depends on the pace of the machine; none would mean that this test tests nothing.
    assert!(in_the_middle >= 1, "none of 20 was resumed within an epoch");
}

/// Twice each; `BOWLINE_KILLS` is another number.
#[test]
fn every_unit_and_optimiser_killed_anywhere_ends_in_the_same_bits() {
    let kills = std::env::var("BOWLINE_KILLS").ok().map_or(2, |n| n.parse().unwrap());
    let base = [
        "layers=2",
        "network.embedding=0",
        "network.projection=0",
        "masks.state=0.8",
        "masks.weights=0.9",
        "masks.word=0.9",
        "checkpoint.every_seconds=0.005",
    ];
    let cases: [(&str, &[&str]); 13] = [
        ("lstm, Adam with beta1 = 0", &["optimizer.beta1=0"]),
        ("coupled lstm", &["network.coupled=true"]),
        ("gru", &["network.unit=gru"]),
        ("rnn", &["network.unit=rnn"]),
        ("highway", &["network.unit=highway", "network.depth=3"]),
        ("deep", &["network.unit=deep"]),
        ("direct", &["network.unit=deep", "network.direct=true", "network.tied=false"]),
        ("masks by gate", &["masks.per_gate=[\"input\", \"state\", \"between\"]"]),
        ("unequal widths and projection", &["network.widths=[20, 9]", "network.projection=12"]),
        ("Adam with decoupled decay", &["optimizer.beta1=0.9", "optimizer.decoupled=true", "weight_decay=0.01"]),
        ("SGD", &["optimizer.kind=sgd", "learning_rate=0.5", "schedule.kind=plateau"]),
        ("averaged SGD", &["optimizer.kind=asgd", "learning_rate=2", "optimizer.trigger=1", "activity.tar=0.5"]),
        ("one cycle", &["schedule.kind=one-cycle", "streams.random_length=true", "streams.offset=true"]),
    ];
    for (i, (name, settings)) in cases.into_iter().enumerate() {
        let sets = base.iter().chain(settings).flat_map(|setting| ["--set", setting]);
        let trial = Trial::new(&["--model", "narrow", "--epochs", "3"].into_iter().chain(sets).collect::<Vec<_>>());
        let in_the_middle = trial.kill_and_resume(kills, 10 + i as u64);
        println!("{name}: {kills} kills, {in_the_middle} resumed within an epoch");
    }
}

#[test]
fn a_second_training_killed_anywhere_ends_in_the_same_bits() {
    let trial = Trial::new(&["--epochs", "2", "--second-training", "--set", "decay_after=1", OFTEN[0], OFTEN[1]]);
    assert_eq!(trial.expected.metrics["epochs"], 4);
    // The schedule begins anew: 1, 0.9, 1, 0.9.
    let rates: Vec<_> = (0..4).map(|i| trial.expected.metrics["curve"][i]["learning_rate"].as_f64().unwrap()).collect();
    assert_eq!(rates, [1.0, 0.9, 1.0, 0.9]);
    trial.kill_and_resume(6, 2);
}

#[test]
fn a_mean_of_the_weights_survives_a_kill_too_and_is_the_model() {
    let averaged = Trial::new(&[&EPOCHS[..], &OFTEN, &["--set", "average=0.2"]].concat());
    averaged.kill_and_resume(6, 4);
    // The training itself is the same; what is measured and kept is another model.
    let plain = Trial::new(&[EPOCHS, OFTEN].concat());
    for key in ["valid", "test"] {
        assert_ne!(averaged.expected.metrics[key], plain.expected.metrics[key]);
    }
    let training = |trial: &Trial| {
        let curve = trial.expected.metrics["curve"].as_array().unwrap().clone();
        curve.iter().map(|epoch| epoch["train"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(training(&averaged), training(&plain));
    assert_ne!(averaged.expected.weights, plain.expected.weights);
}

#[test]
fn with_a_checkpoint_after_every_step_no_step_is_done_twice() {
    // A window of 24 steps makes 37 steps an epoch: each costs a checkpoint.
    let each = ["--set", "checkpoint.every_seconds=0", "--set", "unroll=24", "--epochs", "1"];
    let trial = Trial::new(&each);
    trial.kill_and_resume(4, 3);

    // The previous checkpoint is one step older than the last one, all the way; or of the same step, at the end of the epoch.
    trial.killed("one", 0.5);
    let path = trial.path("one");
    let step = |name: &str| {
        let file = TensorFile::read(path.join("checkpoints").join(name), ContentHash::Required).unwrap();
        let position: String = file.value("bowline.position").unwrap();
        serde_json::from_str::<serde_json::Value>(&position).unwrap()["step"].as_u64().unwrap()
    };
    // Killed between the two renames, there is no last one.
    if path.join("checkpoints/last.safetensors").exists() {
        let (previous, last) = (step("previous.safetensors"), step("last.safetensors"));
        assert!((previous..=previous + 1).contains(&last), "{previous}, then {last}");
    }

    // How often it is saved changes nothing.
    let mut rarely = each;
    rarely[1] = "checkpoint.every_seconds=1000";
    assert_eq!(Trial::new(&rarely).expected.weights, trial.expected.weights);
}

#[test]
fn every_number_of_threads_gives_the_same_bits() {
    let trial = Trial::new(&["--epochs", "2"]);
    for threads in [2, 3] {
        let run = format!("{threads}-threads");
        finish(trial.place.train_with(threads, &run).args(&trial.settings)).success();
        trial.check(&run);
        let machine = events(&trial.path(&run))[0]["machine"].as_str().unwrap().to_owned();
        assert!(machine.starts_with(&format!("{threads} threads, ")), "{machine}");
    }
    // Started by one, resumed by two, finished by three.
    trial.killed("mixed", 0.3);
    let mut child = quiet(trial.place.resume_with(2, "mixed")).spawn().unwrap();
    std::thread::sleep(Duration::from_secs_f64(trial.seconds / 3.0));
    kill(&mut child);
    finish(&mut trial.place.resume_with(3, "mixed")).success();
    trial.check("mixed");
}

#[test]
fn a_branch_of_a_killed_run_ends_as_the_run_would_have() {
    let trial = Trial::new(&[EPOCHS, OFTEN].concat());
    for attempt in 0..ATTEMPTS {
        let (killed, branch) = (format!("killed-{attempt}"), format!("branch-{attempt}"));
        trial.killed(&killed, 0.5);
        let before = snapshot(&trial.path(&killed));
        let mut command = common::bowline(["branch", "--threads", "1"]);
        let ended = finish(command.arg(trial.path(&killed)).arg("--out").arg(trial.path(&branch)));
        assert_eq!(snapshot(&trial.path(&killed)), before);
        if ended.code == Some(0) {
            return trial.check(&branch);
        }
        // Killed between saving the best model and the checkpoint.
        assert!(ended.stderr.contains("it is newer than the run's checkpoint"), "{ended:?}");
    }
    panic!("it was always killed at the one instant that is no good");
}

#[test]
fn a_run_killed_after_an_epoch_can_be_over_with_it() {
    let trial = Trial::new(&EPOCHS);
    for attempt in 0..ATTEMPTS {
        let killed = format!("killed-{attempt}");
        trial.killed(&killed, 0.6);
        // The last checkpoint is that of an epoch's end. As many epochs as it has done, and no fewer, are accepted.
        for epochs in 1..6 {
            let (out, epochs) = (format!("over-{attempt}-{epochs}"), epochs.to_string());
            let mut command = common::bowline(["branch", "--threads", "1", "--set", &format!("epochs={epochs}")]);
            if finish(command.arg(trial.path(&killed)).arg("--out").arg(trial.path(&out))).code != Some(0) {
                continue;
            }
            let asked = format!("asked-{attempt}");
            finish(trial.place.train(&asked).args(["--epochs", &epochs])).success();
            let outcome = |run: &str| {
                let mut result = result(&trial.path(run));
                assert!(result.events[0].as_object_mut().unwrap().remove("epochs").is_some());
                result
            };
            assert_eq!(outcome(&out), outcome(&asked));
            assert!(!fs::read_to_string(trial.path(&out).join("config.toml")).unwrap().contains("origin"));
            let resume = events(&trial.path(&out)).into_iter().find(|event| event["event"] == "resume").unwrap();
            assert_eq!(resume["step"], outcome(&out).metrics["steps"], "not a step was left to do");
            return;
        }
    }
    panic!("it was always killed in its first epoch, or at the one instant that is no good");
}

/// Interrupts a run once it is under way, `times` times; again in another folder if it was over before.
fn interrupted(trial: &Trial, run: &str, times: usize) -> (Ended, Duration) {
    for _ in 0..ATTEMPTS {
        let path = trial.path(run);
        let mut child = start(&mut trial.train(run), &path);
        wait_for(&mut child, || fs::read_to_string(path.join("events.jsonl")).is_ok_and(|t| t.contains("progress")));
        let begin = Instant::now();
        for _ in 0..times {
            interrupt(&child);
        }
        let ended = end(child);
        if ended.code != Some(0) {
            return (ended, begin.elapsed());
        }
        fs::remove_dir_all(path).unwrap();
    }
    panic!("{run} was always over before it could be interrupted");
}

#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    // No checkpoint but the first one and those of the epochs: what is saved in between is Ctrl-C's.
    let trial = Trial::new(&EPOCHS);
    let (ended, took) = interrupted(&trial, "stopped", 1);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let stderr = trial.place.plain(&ended.stderr);
    let last: Vec<_> = stderr.lines().rev().take(2).collect();
    assert_eq!(last[0], "resume with: bowline resume DIR/stopped");
    assert!(last[1].starts_with("saved at step "), "{stderr}");
    assert!(stderr.contains("\nsaving; press Ctrl-C again to quit without saving\n"), "{stderr}");

    // It goes on with the step that was named.
    let saved: u64 = last[1].split(['p', ',']).nth(1).unwrap().trim().parse().unwrap();
    finish(&mut trial.place.resume("stopped")).success();
    trial.check("stopped");
    let resume = events(&trial.path("stopped")).into_iter().find(|event| event["event"] == "resume").unwrap();
    assert_eq!(resume["step"], saved);
    assert!(saved > 0);
}

#[test]
fn ctrl_c_is_heard_during_an_evaluation() {
    let place = Place::new();
    // Long enough to be in the middle of it: some 300,000 words, one stream.
    fs::write(place.path("corpus/valid.txt"), common::text(2, 40_000, 300)).unwrap();
    let train = |run: &str| {
        let mut command = place.train(run);
        command.args(["--epochs", "1", "--set", "validation_streams=1"]);
        command
    };
    finish(&mut train("undisturbed")).success();
    let path = place.path("stopped");
    let stop = |child: Child| {
        std::thread::sleep(Duration::from_millis(100));
        let begin = Instant::now();
        interrupt(&child);
        let ended = end(child);
        assert_eq!(ended.code, Some(130), "{ended:?}");
        assert!(begin.elapsed() < Duration::from_secs(2));
    };
    // The first time in the validation, which begins soon after the last line of the epoch's steps.
    let mut child = start(&mut train("stopped"), &path);
    let steps =
        |e: &serde_json::Value| e["epoch_step"].as_u64().unwrap_or(0) + 6 >= e["epoch_steps"].as_u64().unwrap_or(99);
    wait_for(&mut child, || {
        fs::read_to_string(path.join("events.jsonl")).is_ok_and(|text| {
            text.lines().last().and_then(|line| serde_json::from_str(line).ok()).is_some_and(|event| steps(&event))
        })
    });
    stop(child);
    assert!(!path.join("best").exists());
    // The second time in the final evaluation.
    let mut child = start(&mut place.resume("stopped"), &path);
    wait_for(&mut child, || path.join("best/README.md").exists());
    stop(child);
    assert!(!path.join("summary.json").exists());
    finish(&mut place.resume("stopped")).success();
    assert_eq!(result(&path), result(&place.path("undisturbed")));
}

#[test]
fn a_second_ctrl_c_quits_and_nothing_is_lost() {
    let trial = Trial::new(&EPOCHS);
    let (ended, took) = interrupted(&trial, "quit", 2);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(ended.code, Some(130), "{ended:?}");
    finish(&mut trial.place.resume("quit")).success();
    trial.check("quit");
}

#[test]
fn a_finished_run_can_be_looked_at_again() {
    let trial = Trial::new(&["--epochs", "1"]);
    for _ in 0..2 {
        let ended = finish(&mut trial.place.resume("undisturbed")).success();
        assert!(ended.stdout.contains("the model is in "), "{ended:?}");
        trial.check("undisturbed");
    }
}

/// A way to damage a file: what it is, how it is done, and what the message must say of it.
type Damage = (&'static str, fn(&mut Vec<u8>), &'static str);

const DAMAGES: [Damage; 6] = [
    ("flipped in the length", |b| b[3] ^= 0x10, "header length: "),
    ("flipped in the hash", |b| b[100] ^= 0x01, "content hash: the contents have SHA256, the file says "),
    ("flipped in the middle", |b| *middle(b) ^= 0x04, "content hash: the contents have SHA256, the file says SHA256"),
    ("flipped at the end", |b| *b.last_mut().unwrap() ^= 0x80, "content hash: the contents have SHA256"),
    ("cut in half", |b| b.truncate(b.len() / 2), " of the data, which have only "),
    ("empty", |b| b.clear(), "header length: a tensor file begins with 8 bytes of it, this file has 0"),
];

fn middle(bytes: &mut [u8]) -> &mut u8 {
    let half = bytes.len() / 2;
    &mut bytes[half]
}

/// A run that was killed when it had both checkpoints, in the middle.
fn with_both_checkpoints(trial: &Trial, run: &str) {
    let path = trial.path(run);
    for _ in 0..ATTEMPTS {
        let mut child = start(&mut trial.train(run), &path);
        let exists = |name: &str| path.join("checkpoints").join(name).exists();
        wait_for(&mut child, || exists("previous.safetensors"));
        std::thread::sleep(Duration::from_secs_f64(trial.seconds / 4.0));
        if kill(&mut child) && exists("last.safetensors") && exists("previous.safetensors") {
            return;
        }
        fs::remove_dir_all(&path).unwrap();
    }
    panic!("{run} never had both checkpoints when it was killed");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before() {
    let trial = Trial::new(&[EPOCHS, OFTEN].concat());
    with_both_checkpoints(&trial, "killed");
    for (what, damage, problem) in DAMAGES {
        copy(&trial.path("killed"), &trial.path(what));
        let last = trial.path(what).join("checkpoints/last.safetensors");
        change(&last, damage);
        let damaged = fs::read(&last).unwrap();

        let ended = finish(&mut trial.place.resume(what)).success();
        let stderr = trial.place.plain(&ended.stderr);
        let (first, second) = stderr.split_once('\n').unwrap();
        assert_eq!(first, "using the previous checkpoint, because the last one cannot be read:");
        assert!(second.starts_with(&format!("DIR/{what}/checkpoints/last.safetensors: ")), "{stderr}");
        assert!(second.lines().next().unwrap().contains(problem), "{stderr}");
        trial.check(what);
        // It is still there to be looked at.
        assert_eq!(fs::read(last.with_file_name("last.safetensors.damaged")).unwrap(), damaged);
    }

    // A kill between the two renames leaves only the previous one.
    let run = "only the previous one";
    copy(&trial.path("killed"), &trial.path(run));
    fs::remove_file(trial.path(run).join("checkpoints/last.safetensors")).unwrap();
    finish(&mut trial.place.resume(run)).success();
    trial.check(run);
}

#[test]
fn two_damaged_checkpoints_are_an_error_and_stay_where_they_are() {
    let trial = Trial::new(&[EPOCHS, OFTEN].concat());
    with_both_checkpoints(&trial, "killed");
    let path = trial.path("killed");
    change(&path.join("checkpoints/last.safetensors"), |bytes| *middle(bytes) ^= 1);
    change(&path.join("checkpoints/previous.safetensors"), |bytes| bytes.truncate(5));
    let before = snapshot(&path);
    const DAMAGED: &str = "the file is damaged, incomplete or of another kind: copy it again, or use another one";
    trial.place.check_refusal(
        &mut trial.place.resume("killed"),
        &format!(
            "DIR/killed/checkpoints/last.safetensors: neither this file nor the previous one can be used:\n  \
             DIR/killed/checkpoints/last.safetensors: content hash: the contents have SHA256, the file says SHA256\n      \
             try: {DAMAGED}\n  \
             DIR/killed/checkpoints/previous.safetensors: header length: \
             a tensor file begins with 8 bytes of it, this file has 5\n      try: {DAMAGED}"
        ),
        "restore one of them from a copy, or start again in another folder",
    );
    assert_eq!(snapshot(&path), before);
}
