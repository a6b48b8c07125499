//! What a new user meets in the first hour: lists of settings and runs, errors that say what to do, text as people write it.

mod common;
mod made_models;

use common::{Place, bowline, finish, text};
use std::fs;
use std::path::Path;

#[test]
fn settings_are_listed_in_groups() {
    let said = finish(&mut bowline(["settings"])).success().stdout;
    for line in ["network:", "training:", "data:", "augmented loss:", "checkpoints:"] {
        assert!(said.contains(line), "{said}");
    }
    assert!(said.contains("probability that dropout keeps a unit"), "{said}");
    let medium = finish(&mut bowline(["settings", "--size", "medium", "--json"])).json();
    let hidden = medium.as_array().unwrap().iter().find(|s| s["key"] == "hidden").unwrap();
    assert_eq!((&hidden["value"], &hidden["group"]), (&"650".into(), &"network".into()));
}

#[test]
fn runs_are_listed() {
    let place = Place::new();
    let runs = place.path("runs");
    fs::create_dir(&runs).unwrap();
    let said = finish(bowline(["runs"]).arg(&runs)).success().stdout;
    assert!(said.starts_with("no runs in "), "{said}");
    place.trained("runs/first");
    let said = finish(bowline(["runs"]).arg(&runs)).success().stdout;
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["run", "state", "model", "epoch", "valid", "test", "words/s", "left"]);
    assert_eq!(rows[1][..4], ["first", "done", "real", "1/1"]);
    let answer = finish(bowline(["runs", "--json"]).arg(&runs)).json();
    assert_eq!((&answer["runs"][0]["name"], &answer["runs"][0]["state"]), (&"first".into(), &"done".into()));
    let said = finish(bowline(["runs", "nowhere"]).current_dir(place.path("")));
    assert!(said.error().starts_with("nowhere: cannot read the folder: "), "{said:?}");
}

#[test]
fn a_finished_run_says_that_it_is_over_and_an_n_gram_model_has_no_rate() {
    let place = Place::new();
    place.trained("run");
    let said = finish(&mut place.resume("run")).success();
    assert!(said.stderr.contains("this run is finished") && !said.stderr.contains("epoch 2"), "{said:?}");
    let mut kn = bowline(["train", "--model", "kn", "--data"]);
    let said = finish(kn.arg(place.path("corpus")).arg("--out").arg(place.path("kn"))).success();
    assert!(said.stderr.contains("valid ppl") && !said.stderr.contains("lr "), "{said:?}");
    assert!(!said.stdout.contains("(epoch"), "{said:?}");
}

#[test]
fn a_resumed_run_knows_how_many_epochs_it_has() {
    let place = Place::new();
    let run = place.path("run");
    finish(place.train("run").args(["--epochs", "2"])).success();
    // As if it had been stopped after the first epoch: the line of the terminal names both.
    let mut branch = bowline(["branch", "--threads", "1", "--set", "epochs=3", "--out"]);
    let said = finish(branch.arg(place.path("longer")).arg(&run)).success();
    assert!(said.stderr.contains("resuming in epoch 3/3 after"), "{said:?}");
}

#[test]
fn options_are_refused_with_the_right_tip() {
    let place = Place::new();
    let run = place.trained("run");
    let said = finish(bowline(["generate", "--temperature", "-1"]).arg(&run));
    assert!(said.stderr.contains("a number of at least 0 is needed") && !said.stderr.contains("tip"), "{said:?}");
    let said = finish(&mut bowline(["bench", "--model", "kn"]));
    assert!(said.error().contains("`kn` is not a network"), "{said:?}");
    let said = finish(place.train("other").args(["--model", "re", "--set", "keep=abc"]));
    assert!(said.error().contains("`keep=0.7`"), "{said:?}");
    let mut compare = bowline(["compare"]);
    let said = finish(compare.arg(&run).arg(&run).arg(&run));
    assert!(said.error().contains("is a folder, and two models are compared at a time"), "{said:?}");
}

#[test]
fn words_are_found_in_lower_case() {
    let place = Place::new();
    let run = place.trained("run");
    let answer = finish(bowline(["neighbours", "--json", "-k", "3"]).arg(&run).arg("BAbaba")).json();
    assert_eq!(answer["word"], "bababa");
}

#[test]
fn files_that_are_no_safetensors_are_called_what_they_are() {
    let place = Place::new();
    let import = |name: &str, bytes: &[u8]| {
        let file = place.path(name);
        fs::write(&file, bytes).unwrap();
        fs::write(place.path("vocab.txt"), "a\n<eos>\n").unwrap();
        let mut command = bowline(["import"]);
        command.arg(&file).arg("--vocab").arg(place.path("vocab.txt")).arg("--out").arg(place.path("model"));
        finish(&mut command).error().to_owned()
    };
    let said = import("model.onnx", b"\x08\x07\x12\x07bowline");
    assert!(said.contains("model.onnx: ONNX graph: this is no ONNX model: it has no graph"), "{said}");
    let said = import("model.pt", b"PK\x03\x04........");
    assert!(said.contains("this is a file of torch.save") && said.contains("save_file"), "{said}");
}

#[test]
fn a_tokenizing_model_writes_text_as_people_do() {
    let place = Place::new();
    let lines: String = (0..40).map(|_| "Well, I don't know.\n").collect();
    fs::write(place.path("my.txt"), lines).unwrap();
    let mut train = bowline(["train", "--threads", "1", "--model", "kn", "--tokenize", "--data"]);
    finish(train.arg(place.path("my.txt")).arg("--out").arg(place.path("kn"))).success();
    let write = |options: &[&str]| {
        let mut generate = bowline(["generate", "--temperature", "0"]);
        finish(generate.arg(place.path("kn")).args(options)).success().stdout
    };
    assert_eq!(write(&[]), "Well, I don't know.\n");
    assert_eq!(write(&["--raw"]), "well , i do n't know .\n");
    assert_eq!(write(&["--prompt", "Well, I"]), "Well, I don't know.\n");
}

#[test]
fn unknown_words_do_not_win_a_rescoring() {
    let place = Place::new();
    // `the` 1/4, `<unk>` and `cat` 1/8: without a penalty `wary` is as good as `cat`, and comes first.
    let model = made_models::biased(&place.path("model"));
    let list = place.path("list.txt");
    fs::write(&list, "utt-1 the wary\nutt-2 the cat\n").unwrap();
    let best = |options: &[&str]| {
        let mut command = bowline(["rescore", "--threads", "1"]);
        finish(command.arg(&model).arg(&list).args(options)).success().stdout
    };
    assert_eq!(best(&[]), "utt the cat\n");
    assert_eq!(best(&["--unk-penalty", "0"]), "utt the wary\n");
    let score = |options: &[&str]| {
        let mut command = bowline(["score", "--threads", "1", "--format", "kaldi"]);
        let said = finish(command.arg(&model).arg(&list).args(options)).success().stdout;
        said.lines().map(|line| line.split(' ').filter_map(|x| x.parse::<f64>().ok()).sum()).collect::<Vec<f64>>()
    };
    let mut as_json = bowline(["score", "--threads", "1", "--json"]);
    let lines = finish(as_json.arg(&model).arg(&list)).success().stdout;
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{lines}");
    let (plain, penalised) = (score(&[]), score(&["--unk-penalty", "2"]));
    assert!(
        (penalised[0] - plain[0] - 2.0).abs() < 1e-4 && (penalised[1] - plain[1]).abs() < 1e-9,
        "{plain:?} {penalised:?}"
    );
    fs::write(&list, "utt-1 the cat\nthe cat sat\n").unwrap();
    place.check_refusal(
        bowline(["rescore"]).arg(&model).arg(&list),
        "DIR/list.txt:2: `the` is not a key such as `utt-1`",
        "each line of an n-best list is `utterance-number word word ...`",
    );
}

#[test]
fn rare_n_grams_are_pruned() {
    let place = Place::new();
    fs::write(place.path("corpus/train.txt"), text(1, 2000, 60)).unwrap();
    let train = |out: &str, options: &[&str]| {
        let mut command = bowline(["train", "--model", "kn", "--order", "3", "--json", "--data"]);
        finish(command.arg(place.path("corpus")).arg("--out").arg(place.path(out)).args(options)).json()
    };
    let (all, none, few) = (train("all", &[]), train("none", &["--prune", "0"]), train("few", &["--prune", "0,0,1"]));
    assert_eq!(all["test"], none["test"]);
    let count = |summary: &serde_json::Value| summary["parameters"].as_u64().unwrap();
    assert!(count(&few) < count(&all) / 2, "{} of {}", count(&few), count(&all));
    let (full, pruned) = (all["test"].as_f64().unwrap(), few["test"].as_f64().unwrap());
    assert!((pruned / full - 1.0).abs() < 0.2, "{full} {pruned}");
    let next = finish(bowline(["next", "-k", "400", "--json"]).arg(place.path("few")).arg("bababa dobaba")).json();
    let sum: f64 = next["next"].as_array().unwrap().iter().map(|c| c["probability"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    let mut command = bowline(["train", "--model", "kn", "--prune", "1,2", "--data"]);
    place.check_refusal(
        command.arg(place.path("corpus")).arg("--out").arg(place.path("bad")),
        "setting `prune`: 1,2 is impossible",
        "up to 5 thresholds that begin with 0 and do not fall, such as 0,1 or 0,0,1",
    );
}

#[test]
fn the_files_of_ptb_have_its_recipe_wherever_they_lie() {
    let data = std::env::var_os("BOWLINE_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), std::path::PathBuf::from);
    let ptb = data.join("ptb");
    if !ptb.join("ptb.train.txt").is_file() {
        eprintln!("skipped: {} is not there", ptb.display());
        return;
    }
    let place = Place::new();
    let mut plan = bowline(["reproduce", "table1", "--dry-run", "--models", "al", "--threads", "1", "--data"]);
    let said = finish(plan.arg(&ptb).arg("--out").arg(place.path("out"))).success().stdout;
    assert!(said.starts_with("ptb-small-al"), "{said}");
    for setting in ["batch 10", "epochs 26, then 28", "weight decay 0.00007", "gamma 0.65"] {
        assert!(said.contains(setting), "{said}");
    }
}
