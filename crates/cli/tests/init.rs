//! `train --init`: a trained model goes on with another text. Its words keep their ids, new ones come after them.

mod common;

use common::{Place, bowline, finish};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A text of some of the corpus' words and four of its own.
fn other_text(place: &Place) {
    let lines: String = (0..60).map(|i| format!("bababa zurich dobaba {} genf\n", ["basel", "baba"][i % 2])).collect();
    fs::write(place.path("other.txt"), lines).unwrap();
}

fn train(place: &Place, data: &str, out: &str, more: &[&str]) -> Command {
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1"]);
    command.args(more).arg("--data").arg(place.path(data)).arg("--out").arg(place.path(out));
    command
}

fn words(run: &Path) -> Vec<String> {
    fs::read_to_string(run.join("best/vocab.txt")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_model_goes_on_with_another_text_and_keeps_its_words() {
    let place = Place::new();
    other_text(&place);
    let small = ["--model", "narrow", "--epochs", "2", "--set", "hidden=8", "--set", "network.embedding=6"];
    finish(train(&place, "corpus", "first", &small).args(["--set", "network.projection=6"])).success();
    let first = place.path("first");
    let init = ["--epochs", "3", "--init", first.to_str().unwrap()];
    finish(&mut train(&place, "other.txt", "second", &init)).success();
    let (before, after) = (words(&first), words(&place.path("second")));
    assert_eq!(after[..before.len()], before);
    let mut new = after[before.len()..].to_vec();
    new.sort();
    assert_eq!(new, ["baba", "basel", "genf", "zurich"]);
    // The settings of the first run, with the network of its model.
    let config = fs::read_to_string(place.path("second/config.toml")).unwrap();
    assert!(config.contains("model = \"narrow\"") && config.contains("extend = true"), "{config}");

    // It knows more from the beginning than a model that begins with nothing.
    let valid = |run: &str| {
        let events = fs::read_to_string(place.path(run).join("events.jsonl")).unwrap();
        let epoch = events.lines().find(|line| line.contains("\"event\":\"epoch\"")).unwrap().to_owned();
        serde_json::from_str::<serde_json::Value>(&epoch).unwrap()["valid"].as_f64().unwrap()
    };
    let vocabulary = place.path("second/best/vocab.txt");
    let mut command = bowline(["train", "--threads", "1"]);
    command.args(small).args(["--set", "network.projection=6", "--vocab"]).arg(vocabulary);
    command.arg("--data").arg(place.path("other.txt")).arg("--out").arg(place.path("nothing"));
    finish(&mut command).success();
    assert!(valid("second") < valid("nothing"), "{} {}", valid("second"), valid("nothing"));

    // A model folder alone will do; then the recipe of its name says how to train.
    let best = first.join("best");
    let copy = place.path("copy");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(best).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    let init = ["--epochs", "1", "--init", copy.to_str().unwrap()];
    finish(&mut train(&place, "other.txt", "third", &init)).success();
    assert_eq!(words(&place.path("third")), after);
}

#[test]
fn what_cannot_be_begun_with_is_refused() {
    let place = Place::new();
    other_text(&place);
    finish(&mut train(&place, "corpus", "kn", &["--model", "kn"])).success();
    let refused = |init: &str, more: &[&str]| {
        let init = place.path(init);
        let all = [&["--init", init.to_str().unwrap()][..], more].concat();
        let ended = finish(&mut train(&place, "other.txt", "out", &all));
        assert!(!place.path("out").exists());
        ended.error().to_owned()
    };
    assert!(refused("kn", &[]).contains("weights to begin with"));
    assert!(refused("nowhere", &[]).contains("nowhere"));
    let run = place.trained("run");
    let run = run.strip_prefix(place.path("")).unwrap().to_str().unwrap();
    let said = refused(run, &["--set", "layers=1"]);
    assert!(said.contains("network: it is made of"), "{said}");
    assert!(refused(run, &["--model", "kn"]).contains("`--init`: an n-gram model"));
}
