//! What is nobody's fault: a loss that is no number, a full disk, another process, a reader that has gone.

#![cfg(unix)]

mod common;

use bowline::storage::tensor_file::{ContentHash, TensorFile};
use common::{Place, bowline, finish, result, snapshot};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LOWER: &str = "a lower `--set learning_rate=...`, or a smaller `--set clip=...`";
const RAISE: &str = "raise the file size limit (`ulimit -f`) or use another disk, and run it again";

/// A training that goes on until it is dropped, which kills it.
struct Background(Child);

impl Background {
    /// Returns when the file is there.
    fn start(command: &mut Command, file: &Path) -> Background {
        let mut running = Background(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        while !file.exists() {
            assert!(running.0.try_wait().unwrap().is_none(), "it is over, and there is no {}", file.display());
            std::thread::sleep(Duration::from_micros(200));
        }
        running
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have come to its end by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_training_that_diverges() {
    let place = Place::new();
    let ended = finish(place.train("run").args(["--epochs", "2", "--set", "learning_rate=1e30"]));
    place.check_error(&ended, "the loss is not finite at step 1 (epoch 1); the weights were not changed", LOWER);
    let ended = finish(&mut place.resume("run"));
    place.check_error(&ended, "the loss is not finite at step 1 (epoch 1); the weights were not changed", LOWER);
    // Loading a checkpoint checks that every value is finite.
    let file = TensorFile::read(place.path("run/checkpoints/last.safetensors"), ContentHash::Required).unwrap();
    for name in file.names() {
        let mut values = vec![0.0; file.shape(name).unwrap().iter().product()];
        file.copy_to(name, &mut values).unwrap();
    }
    place.check_refusal(
        bowline(["next"]).arg(place.path("run")),
        "DIR/run: model: this run has no model yet: `best/model.safetensors` comes with the first validation",
        "continue the run with `bowline resume DIR/run`",
    );
}

#[test]
fn a_perplexity_beyond_all_numbers_does_not_end_a_run() {
    let place = Place::new();
    let settings = ["--epochs", "2", "--set", "learning_rate=1000", "--set", "augment.gradient=stop"];
    let summary = finish(place.train("run").args(settings).arg("--json")).json();
    assert!(summary["valid"].is_null() && summary["curve"][0]["train"].is_null(), "{summary}");
    let ended = finish(&mut place.resume("run")).success();
    assert!(ended.stdout.contains(": valid perplexity inf, test perplexity "), "{}", ended.stdout);
    let again: serde_json::Value = serde_json::from_slice(&fs::read(place.path("run/summary.json")).unwrap()).unwrap();
    assert_eq!(again["curve"], summary["curve"]);
}

/// Runs a command under a limit on the size of files, in blocks of 512 bytes: writing more fails as on a full disk.
fn limited(blocks: u64, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""));
    limited.arg(command.get_program()).args(command.get_args()).env("RUST_BACKTRACE", "0");
    limited
}

#[test]
fn a_full_disk() {
    let place = Place::new();
    // With a checkpoint after every step, the first thing that does not fit is a checkpoint.
    let settings = ["--epochs", "1", "--set", "unroll=24", "--set", "checkpoint.every_seconds=0"];
    finish(place.train("undisturbed").args(settings)).success();
    let expected = result(&place.path("undisturbed"));

    // Full from the beginning: the first checkpoint does not fit.
    let ended = finish(&mut limited(60, place.train("full").args(settings)));
    place.check_error(
        &ended,
        "DIR/full/checkpoints/last.safetensors: cannot write: File too large (os error 27); \
         what was there before is unchanged",
        RAISE,
    );
    assert_eq!(fs::read_dir(place.path("full/checkpoints")).unwrap().count(), 0, "nothing half done is left");
    finish(&mut place.resume("full")).success();
    assert_eq!(result(&place.path("full")), expected);

    // Full when the run is under way: the last checkpoints stay.
    drop(Background::start(place.train("later").args(settings), &place.path("later/checkpoints/previous.safetensors")));
    let before = snapshot(&place.path("later/checkpoints"));
    let ended = finish(&mut limited(60, &place.resume("later")));
    place.check_error(
        &ended,
        "DIR/later/checkpoints/last.safetensors: cannot write: File too large (os error 27); \
         what was there before is unchanged",
        RAISE,
    );
    let after: Vec<_> = snapshot(&place.path("later/checkpoints"));
    assert_eq!(
        after,
        before.into_iter().filter(|(path, _)| !path.ends_with(".last.safetensors.partial")).collect::<Vec<_>>()
    );
    finish(&mut place.resume("later")).success();
    assert_eq!(result(&place.path("later")), expected);

    // Full before there is a run: the same command works when there is room.
    let ended = finish(&mut limited(0, place.train("never").args(settings)));
    place.check_error(
        &ended,
        "DIR/never/config.toml: cannot write: File too large (os error 27); \
         what was there before is unchanged",
        RAISE,
    );
    finish(place.train("never").args(settings)).success();
    assert_eq!(result(&place.path("never")), expected);
}

#[test]
fn another_process_at_work_on_the_run() {
    let place = Place::new();
    let _running = Background::start(place.train("run").args(["--epochs", "1000"]), &place.path("run/events.jsonl"));
    place.check_refusal(
        &mut place.resume("run"),
        "DIR/run: another process is working on this run",
        "wait for it, or stop it (Ctrl-C saves it)",
    );
}

#[cfg(target_os = "linux")]
#[test]
fn nobody_reads() {
    let place = Place::new();
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    // A training goes on without anybody to tell.
    let status = place.train("run").args(["--epochs", "1"]).stdout(closed()).stderr(closed()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(place.path("run/summary.json").exists());
    for args in [&["next", "-k", "300"][..], &["next", "--json"], &["eval", "--data"]] {
        let mut command = bowline(args);
        if args[0] == "eval" {
            command.arg(place.path("corpus"));
        }
        let ended = finish_with_stdout(command.arg(place.path("run")), closed());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{args:?}");

        // Where the output is kept, it must be whole.
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = finish_with_stdout(&mut command, full);
        assert_eq!(ended.error(), "standard output: cannot write: No space left on device (os error 28)", "{args:?}");
    }
}

#[cfg(target_os = "linux")]
fn finish_with_stdout(command: &mut Command, stdout: impl Into<Stdio>) -> common::Ended {
    let child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    common::Ended::of(child.wait_with_output().unwrap())
}
