//! A text of one's own: one file, split by the run, evaluated as the run split it.

mod common;

use common::{Place, bowline, copy, finish, replace, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of 600 lines, and a quick command to train on it.
fn one_file(place: &Place) -> PathBuf {
    let file = place.path("my.txt");
    fs::write(&file, text(1, 600, 300)).unwrap();
    file
}

fn train(place: &Place, model: &str, out: &str) -> PathBuf {
    let mut command = bowline(["train", "--threads", "1", "--model", model, "--data"]);
    command.arg(place.path("my.txt")).arg("--out").arg(place.path(out));
    if model != "kn" {
        command.args(["--epochs", "1", "--set", "hidden=16", "--set", "batch=4", "--set", "unroll=8"]);
    }
    finish(&mut command).success();
    place.path(out)
}

fn eval(model: &Path) -> Command {
    let mut command = bowline(["eval", "--threads", "1"]);
    command.arg(model);
    command
}

#[test]
fn eval_on_the_training_file_uses_the_runs_own_split() {
    let place = Place::new();
    let file = one_file(&place);
    for model in ["re", "kn"] {
        let run = train(&place, model, model);
        let summary: serde_json::Value = serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
        // The file by name, a copy of it elsewhere, and no text at all: always the test part.
        let elsewhere = place.path("copy.txt");
        fs::copy(&file, &elsewhere).unwrap();
        for data in [Some(&file), Some(&elsewhere), None] {
            for folder in [run.clone(), run.join("best")] {
                let mut command = eval(&folder);
                data.map(|data| command.arg("--data").arg(data));
                let answer = finish(command.arg("--json")).json();
                assert_eq!((&answer["perplexity"], &answer["split"]), (&summary["test"], &"test".into()), "{data:?}");
            }
        }
        let valid = finish(eval(&run).args(["--split", "valid", "--json"])).json();
        assert_eq!(valid["perplexity"], summary["valid"]);
        let said = finish(&mut eval(&run)).success().stdout;
        assert!(said.contains("(test: lines 541 to 600)"), "{said}");
    }
    // The model card's own command, in the folder that it stands in.
    let card = fs::read_to_string(place.path("re/best/README.md")).unwrap();
    let line = card.lines().find(|line| line.starts_with("bowline eval")).unwrap();
    let words = line.split('#').next().unwrap().split_whitespace().skip(1);
    finish(bowline(words).current_dir(place.path("re/best"))).success();
}

#[test]
fn another_text_is_taken_whole_and_says_so() {
    let place = Place::new();
    one_file(&place);
    let run = train(&place, "re", "run");
    let other = place.path("other.txt");
    fs::write(&other, text(9, 40, 300)).unwrap();
    let said = finish(eval(&run).arg("--data").arg(&other)).success().stdout;
    assert!(said.contains("(whole file)") && !said.contains("test"), "{said}");
    place.check_refusal(
        eval(&run).arg("--data").arg(&other).args(["--split", "valid"]),
        "`--split`: DIR/other.txt is one text, which has no parts",
        "leave --split out, or give a folder made by `bowline data split`",
    );
    // The same from standard input.
    let whole = finish(eval(&run).arg("--data").arg(&other).arg("--json")).json();
    let mut command = eval(&run);
    command.args(["--data", "-", "--json"]).stdin(fs::File::open(&other).unwrap());
    let input = finish(&mut command).json();
    assert_eq!((&input["perplexity"], &input["split"]), (&whole["perplexity"], &"whole".into()));
}

#[test]
fn a_text_that_has_changed_since_the_training_is_refused() {
    let place = Place::new();
    let file = one_file(&place);
    let run = train(&place, "re", "run");
    let first = fs::read_to_string(&file).unwrap().lines().next().unwrap().to_owned();
    replace(&file, &first, "baba");
    for command in [&mut eval(&run), eval(&run).arg("--data").arg(&file)] {
        place.check_refusal(
            command,
            "DIR/my.txt: the text has changed since DIR/run was trained on it",
            "--data with a text that the model has not seen",
        );
    }
    // A model apart from its run has no text of its own.
    copy(&run.join("best"), &place.path("model"));
    place.check_refusal(
        &mut eval(&place.path("model")),
        "DIR/model: the model does not lie in the folder of its run, so its text is not known",
        "--data with a text, or with the corpus it was trained on",
    );
}

#[test]
fn tuning_and_mixtures_use_the_runs_own_split() {
    let place = Place::new();
    let file = one_file(&place);
    let (network, kn) = (train(&place, "re", "re"), train(&place, "kn", "kn"));
    let tuned = finish(eval(&network).args(["--tune", "--cache", "--json"])).json();
    assert!(tuned["predictor"]["valid"].as_f64().unwrap() > 1.0, "{tuned}");
    let mixed = finish(eval(&network).arg(&kn).arg("--data").arg(&file).arg("--json")).json();
    let alone = |run: &Path| finish(eval(run).arg("--json")).json()["perplexity"].as_f64().unwrap();
    let mixed = mixed["perplexity"].as_f64().unwrap();
    assert!(mixed < alone(&network).max(alone(&kn)), "{mixed}");
    finish(eval(&network).args(["--dynamic", "--json"])).json();
    place.check_refusal(
        eval(&network).arg("--data").arg(place.path("corpus/test.txt")).args(["--tune", "--cache"]),
        "DIR/corpus/test.txt: a report on what was tuned needs the test part of a corpus, and this is one text",
        "leave --data out to use the text of the run, or give a folder made by `bowline data split`",
    );
}
