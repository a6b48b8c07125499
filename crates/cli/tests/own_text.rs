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

/// Sentences with punctuation, in which many words stand once.
fn prose(lines: usize) -> String {
    (0..lines).map(|i| format!("So, the cat saw thing{i}; \"and then\" it slept! The dog, too, saw it.\n")).collect()
}

fn start(place: &Place, out: &str, options: &[&str]) -> (String, String) {
    let mut command = bowline(["train", "--threads", "1", "--epochs", "1", "--set", "hidden=8", "--set", "unroll=8"]);
    command.arg("--data").arg(place.path("my.txt")).arg("--out").arg(place.path(out)).args(options);
    let said = finish(&mut command).success().stderr;
    (said, fs::read_to_string(place.path(out).join("config.toml")).unwrap())
}

#[test]
fn words_seen_once_train_unk_and_the_text_is_looked_at() {
    let place = Place::new();
    fs::write(place.path("my.txt"), prose(100)).unwrap();
    let (said, config) = start(&place, "default", &[]);
    assert!(said.contains("does not look tokenised: `So,` and"), "{said}");
    assert!(said.contains("words seen once in training become <unk>: 80 of"), "{said}");
    assert!(said.contains("streams (--set batch): the text has"), "{said}");
    assert!(config.contains("min_count = 2\n") && config.contains("patience = 5\n"), "{config}");
    assert!(config.contains("batch = 4\n"), "{config}");
    let words = fs::read_to_string(place.path("default/best/vocab.txt")).unwrap();
    assert!(words.contains("<unk>") && !words.contains("thing"), "{words}");
    // `<unk>` has been trained: it is predicted where the unknown words stand.
    let kn = train(&place, "kn", "kn");
    let next = finish(bowline(["next", "--json"]).arg(&kn).arg("So, the cat saw")).json();
    assert_eq!(next["next"][0]["word"], "<unk>", "{next}");

    // What is asked for counts.
    let (said, config) =
        start(&place, "all", &["--min-count", "1", "--tokenize", "--set", "batch=2", "--patience", "0"]);
    assert!(!said.contains("tokenised") && !said.contains("words seen once") && !said.contains("streams"), "{said}");
    assert!(config.contains("batch = 2\n") && config.contains("patience = 0\n"), "{config}");
    assert!(fs::read_to_string(place.path("all/best/vocab.txt")).unwrap().contains("thing7\n"));
    fs::write(place.path("words.txt"), "the\ncat\nsaw\n").unwrap();
    let list = place.path("words.txt");
    start(&place, "fixed", &["--vocab", list.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(place.path("fixed/best/vocab.txt")).unwrap(), "the\ncat\nsaw\n<eos>\n<unk>\n");

    // A text that has `<unk>` of its own has a vocabulary already.
    fs::write(place.path("my.txt"), prose(100).replace("thing9;", "<unk>")).unwrap();
    let (said, config) = start(&place, "given", &[]);
    assert!(!said.contains("words seen once") && config.contains("min_count = 0\n"), "{said}{config}");
}

#[test]
fn a_text_is_split_and_counted() {
    let place = Place::new();
    fs::write(place.path("my.txt"), prose(100)).unwrap();
    let dir = place.path("parts");
    let mut split = bowline(["data", "split", "--json"]);
    let answer = finish(split.arg(place.path("my.txt")).arg("--out").arg(&dir)).json();
    assert_eq!(answer["lines"], serde_json::json!({"train": 80, "valid": 10, "test": 10}));
    let all: String =
        ["train", "valid", "test"].map(|n| fs::read_to_string(dir.join(format!("{n}.txt"))).unwrap()).concat();
    assert_eq!(all, prose(100), "nothing is lost");
    place.check_refusal(
        bowline(["data", "split"]).arg(place.path("my.txt")).arg("--out").arg(&dir),
        "DIR/parts/train.txt: the file already exists",
        "another --out",
    );
    // The folder and the file it came from count the same.
    let stats = |path: &Path| finish(bowline(["data", "stats", "--json", "-k", "2"]).arg(path)).json();
    let (of_file, of_folder) = (stats(&place.path("my.txt")), stats(&dir));
    assert_eq!(of_file, of_folder);
    assert_eq!((&of_file["singletons"], &of_file["parts"][1]["unseen"]), (&80.into(), &10.into()));
    assert_eq!(of_file["frequent"][0], serde_json::json!(["saw", 160]));
    let said = finish(bowline(["data", "stats"]).arg(&dir)).success().stdout;
    assert!(said.contains("not tokenised") && said.contains("most frequent: saw 160"), "{said}");
    let tokenized = place.path("tokens");
    finish(bowline(["data", "split", "--tokenize"]).arg(place.path("my.txt")).arg("--out").arg(&tokenized)).success();
    let first = fs::read_to_string(tokenized.join("train.txt")).unwrap();
    assert!(
        first.starts_with("so , the cat saw thing0 ; \" and then \" it slept ! the dog , too , saw it .\n"),
        "{first}"
    );
}
