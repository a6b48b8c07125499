//! A model taught by others: what is recorded of the teachers, and what is said where they do not fit or are gone.

mod common;

use common::{Place, bowline, change, finish};
use std::fs;
use std::path::PathBuf;

/// A run of `distilled` that was begun with a teacher and stands at its first checkpoint.
fn taught(place: &Place, teacher: &str) -> PathBuf {
    let run = place.path("taught");
    let small = ["--set", "hidden=8", "--set", "batch=4", "--set", "unroll=8", "--epochs", "1"];
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--model", "distilled", "--teacher"]);
    command.arg(place.path(teacher)).args(small).arg("--data").arg(place.path("corpus")).arg("--out").arg(&run);
    finish(&mut command).success();
    fs::remove_file(run.join("summary.json")).unwrap();
    run
}

#[test]
fn a_teacher_is_recorded_and_missed_when_it_is_gone_or_another() {
    let place = Place::new();
    let teacher = place.trained("teacher");
    let run = taught(&place, "teacher");
    let config = fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(config.contains(&format!("teachers = [\"{}\"]", teacher.display())), "{config}");
    assert!(config.contains("teachers_sha256 = [\""), "{config}");

    fs::rename(&teacher, place.path("elsewhere")).unwrap();
    place.check_refusal(
        &mut place.resume("taught"),
        "DIR/teacher: model: there is no such folder",
        "give the folder of a run (`--out` of `bowline train`) or of a model",
    );
    // It may move, if the settings say where it is.
    change(&run.join("config.toml"), |text| {
        *text = String::from_utf8(text.clone()).unwrap().replace("/teacher\"", "/elsewhere\"").into_bytes();
    });
    finish(&mut place.resume("taught")).success();

    finish(place.train("teacher").args(["--epochs", "1", "--seed", "2"])).success();
    change(&run.join("config.toml"), |text| {
        *text = String::from_utf8(text.clone()).unwrap().replace("/elsewhere\"", "/teacher\"").into_bytes();
    });
    place.check_refusal(
        &mut place.resume("taught"),
        "DIR/teacher: weights: this teacher's weights have changed since the run began",
        "restore the old model, or start a new run",
    );
}

#[test]
fn a_teacher_that_does_not_fit_is_refused() {
    let place = Place::new();
    let refused = |options: &[&str], problem: &str, advice: &str| {
        let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--data"]);
        command.arg(place.path("corpus")).arg("--out").arg(place.path("run")).args(options);
        place.check_refusal(&mut command, problem, advice);
    };
    refused(
        &["--model", "distilled"],
        "setting `augment.teachers`: the target is a teacher's, and there is none",
        "`--teacher MODEL`, once for each, with the folder of a trained model or of its run",
    );
    let fewer = place.path("fewer").display().to_string();
    finish(place.train("fewer").args(["--epochs", "1", "--set", "data.vocab_size=40"])).success();
    refused(
        &["--model", "re", "--teacher", &fewer],
        "setting `augment.target`: there are teachers, and the target is not theirs",
        "`--set augment.target=teacher`, or no `--teacher`",
    );
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--model", "distilled", "--data"]);
    command.arg(place.path("corpus")).arg("--out").arg(place.path("run")).args(["--teacher", &fewer]);
    let said = finish(&mut command);
    assert!(said.error().contains("words, and the text has"), "{said:?}");
    assert!(!place.path("run").exists(), "nothing was begun");
}
