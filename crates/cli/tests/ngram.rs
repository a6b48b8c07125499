//! N-gram models from the command line: train, eval, next, arpa, and what is refused.

mod common;

use common::{Ended, Place, bowline, change, finish, replace};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn train(place: &Place, out: &str) -> Command {
    let mut command = bowline(["train", "--model", "kn", "--data"]);
    command.arg(place.path("corpus")).arg("--out").arg(place.path(out));
    command
}

fn eval(place: &Place, model: &Path) -> Command {
    let mut command = bowline(["eval"]);
    command.arg(model).arg("--data").arg(place.path("corpus"));
    command
}

fn perplexity(ended: Ended) -> f64 {
    ended.json()["perplexity"].as_f64().unwrap()
}

#[test]
fn a_model_is_trained_evaluated_asked_and_passed_on() {
    let place = Place::new();
    let run = place.path("kn");
    let summary = finish(train(&place, "kn").args(["--order", "3", "--json"])).json();
    assert_eq!((&summary["model"], &summary["size"]), (&"kn".into(), &"3-gram".into()));
    for name in ["config.toml", "events.jsonl", "summary.json", "best/model.safetensors", "best/config.json"] {
        assert!(run.join(name).is_file(), "{name}");
    }

    // The same keys as a network's, and the figures of the summary.
    let network = place.trained("network");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let answer = finish(eval(&place, &run).arg("--json")).json();
    assert_eq!(keys(&answer), keys(&finish(eval(&place, &network).arg("--json")).json()));
    assert_eq!(answer["perplexity"], summary["test"]);
    assert_eq!(answer["tokens"], summary["tokens"][1]);
    let valid = finish(eval(&place, &run).args(["--split", "valid", "--json"])).json();
    assert_eq!(valid["perplexity"], summary["valid"]);
    let text = finish(&mut eval(&place, &run)).success().stdout;
    assert_eq!(text.matches("perplexity").count(), 4, "{text}");

    // With a cache that counts for nothing, the same; with the tuned one, its settings are said.
    let without = finish(eval(&place, &run).args(["--recency=weight=0", "--json"]));
    assert_eq!(perplexity(without), summary["test"].as_f64().unwrap());
    let cached = finish(eval(&place, &run).args(["--recency", "--json"])).json();
    assert!(cached["recency"]["window"].as_u64().unwrap() > 0);

    let next = finish(bowline(["next"]).arg(&run).args(["baba", "-k", "400", "--json"])).json();
    let sum: f64 = next["next"].as_array().unwrap().iter().map(|c| c["probability"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");

    // To an ARPA file and back, compressed: nothing changes but the kind.
    for name in ["m.arpa", "m.arpa.gz"] {
        finish(bowline(["arpa", "write"]).arg(&run).arg(place.path(name))).success();
        let back = place.path(&format!("{name}.model"));
        finish(bowline(["arpa", "read"]).arg(place.path(name)).arg("--out").arg(&back)).success();
        let again = finish(eval(&place, &back).arg("--json")).json();
        assert_eq!((&again["perplexity"], &again["model"]), (&answer["perplexity"], &"ngram".into()));
    }
    // A run that is over says so again.
    let resumed = finish(bowline(["resume", "--json"]).arg(&run)).json();
    assert_eq!(resumed, summary);
}

/// A mixture of n-gram models becomes one ARPA file, which says of a text nearly what the mixture says.
#[test]
fn a_mixture_of_ngram_models_is_written_as_one_arpa_file() {
    let place = Place::new();
    finish(train(&place, "one").args(["--order", "1"])).success();
    finish(train(&place, "three").args(["--order", "3", "--prune", "0,0,1"])).success();
    let (single, three, file) = (place.path("one"), place.path("three"), place.path("mixed.arpa"));
    let write = || {
        let mut command = bowline(["arpa", "write"]);
        command.arg(&single).arg(&file).arg("--with").arg(&three);
        command
    };
    place.check_refusal(
        &mut write(),
        "setting `weights`: the weights of this mixture are not known yet",
        "--weights, or `bowline eval MODEL MODEL.. --data DIR --tune` with the same flags, which keeps them",
    );
    let said = finish(write().args(["--weights", "0.4,0.6", "--json"])).json();
    assert_eq!(said["weights"], serde_json::json!([0.4, 0.6]));
    let back = place.path("mixed");
    finish(bowline(["arpa", "read"]).arg(&file).arg("--out").arg(&back)).success();
    let one = perplexity(finish(eval(&place, &back).arg("--json")));
    let both = perplexity(finish(eval(&place, &single).arg(&three).args(["--weights", "0.4,0.6", "--json"])));
    let alone = [&single, &three].map(|model| perplexity(finish(eval(&place, model).arg("--json"))));
    assert!((one / both - 1.0).abs() < 0.02, "{one} {both}");
    assert!(one < alone[0].max(alone[1]), "{one} {alone:?}");

    // The weights that `eval --tune` has kept do as well.
    finish(eval(&place, &single).arg(&three).args(["--tune", "--json"])).success();
    let fitted = finish(write().arg("--json")).json();
    assert!((fitted["weights"][0].as_f64().unwrap() + fitted["weights"][1].as_f64().unwrap() - 1.0).abs() < 1e-9);

    let network = place.trained("network");
    place.check_refusal(
        bowline(["arpa", "write"]).arg(&single).arg(&file).args(["--weights", "0.5,0.5", "--with"]).arg(&network),
        "DIR/network/best: model: a real network has no n-grams",
        "a model of `bowline train --model kn`",
    );
}

#[test]
fn what_a_network_alone_has_is_refused_and_the_other_way_round() {
    let place = Place::new();
    for options in [
        &["--epochs", "3"][..],
        &["--size", "small"],
        &["--seed", "1"],
        &["--patience", "2"],
        &["--second-training"],
        &["--set", "keep=0.5"],
    ] {
        place.check_refusal(
            train(&place, "kn").args(options),
            &format!("`{}`: an n-gram model (`--model kn`) has no such setting", options[0]),
            "leave it out; what it has is `--order`",
        );
    }
    for order in ["0", "10"] {
        place.check_refusal(
            train(&place, "kn").args(["--order", order]),
            &format!("setting `order`: {order} is impossible"),
            "a value from 1 to 9; 5 is the usual one",
        );
    }
    assert!(!place.path("kn").exists());
    place.check_refusal(
        place.train("network").args(["--order", "3"]),
        "`--order`: a network has no n-grams",
        "`--model kn`, or leave it out",
    );
    place.check_refusal(
        &mut bowline(["bench", "--model", "kn"]),
        "setting `model`: `kn` is not a network",
        "a recipe of `bowline recipes`",
    );
    let network = place.trained("network");
    place.check_refusal(
        bowline(["arpa", "write"]).arg(&network).arg(place.path("m.arpa")),
        "DIR/network/best: model: a real network has no n-grams",
        "a model of `bowline train --model kn`",
    );
    finish(&mut train(&place, "kn")).success();
    place.check_refusal(
        eval(&place, &place.path("kn")).args(["--streams", "2"]),
        "setting `streams`: only a network as it was trained can read a text in several streams",
        "--streams 1, or leave it out",
    );
    place.check_refusal(
        eval(&place, &place.path("kn")).arg("--recency=window=0"),
        "setting `recency.window`: 0 is impossible",
        "a value from 1 to 10000000 words",
    );
    place.check_refusal(
        &mut train(&place, "kn"),
        "DIR/kn: this folder already has a run",
        "`bowline resume DIR/kn` to continue it, or another --out",
    );
}

#[test]
fn a_text_too_small_for_discounts_is_said_to_be() {
    let place = Place::new();
    for split in ["train", "valid", "test"] {
        fs::write(place.path("corpus").join(format!("{split}.txt")), "a b\nb a\n").unwrap();
    }
    let ended = finish(train(&place, "kn").args(["--order", "2"])).success();
    assert!(
        ended.stderr.contains("too small to estimate the discounts of n-grams of length 1, 2;"),
        "{}",
        ended.stderr
    );
    let next = finish(bowline(["next"]).arg(place.path("kn")).args(["a", "--json"])).json();
    assert_eq!(next["next"].as_array().unwrap().len(), 3);
}

#[test]
fn damaged_models_and_arpa_files_are_refused() {
    let place = Place::new();
    finish(&mut train(&place, "kn")).success();
    let (model, arpa) = (place.path("kn/best"), place.path("m.arpa"));
    finish(bowline(["arpa", "write"]).arg(&model).arg(&arpa)).success();
    let incomplete = "the model folder is damaged or incomplete: copy all of its files again";
    let next = || {
        let mut command = bowline(["next"]);
        command.arg(place.path("kn"));
        command
    };
    let spoiled = |name: &str, how: &dyn Fn(&Path), problem: &str, advice: &str| {
        let path = model.join(name);
        let before = fs::read(&path).unwrap();
        how(&path);
        place.check_refusal(&mut next(), problem, advice);
        fs::write(&path, before).unwrap();
    };
    let restore = "restore the `config.json` that was saved with this model";
    spoiled(
        "config.json",
        &|path| replace(path, "\"order\": 5", "\"order\": 12"),
        "DIR/kn/best/config.json: `order`: 12 is not between 1 and 9",
        restore,
    );
    spoiled(
        "config.json",
        &|path| replace(path, "\"order\": 5", "\"hidden_size\": 5"),
        "DIR/kn/best/config.json: `hidden_size`: there is no such key",
        restore,
    );
    spoiled(
        "vocab.txt",
        &|path| fs::remove_file(path).unwrap(),
        "DIR/kn/best: vocab.txt: this file is missing",
        incomplete,
    );
    spoiled(
        "vocab.txt",
        &|path| change(path, |bytes| bytes[0] ^= 1),
        "DIR/kn/best/vocab.txt: content hash: the words have the SHA-256 SHA256, the n-grams belong to SHA256",
        incomplete,
    );
    let weights = model.join("model.safetensors");
    change(&weights, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let message = finish(&mut next()).error().to_owned();
    assert!(message.contains("model.safetensors: content hash: the contents have"), "{message}");

    change(&arpa, |bytes| bytes.truncate(bytes.len() / 2));
    let mut read = bowline(["arpa", "read"]);
    read.arg(&arpa).arg("--out").arg(place.path("new"));
    let message = finish(&mut read).error().to_owned();
    assert!(message.contains("m.arpa:") && message.contains("\n  try: "), "{message}");
    assert!(!place.path("new").exists());
    place.check_refusal(
        bowline(["arpa", "read"]).arg(&arpa).arg("--out").arg(&model),
        "DIR/kn/best: the folder is not empty",
        "an --out that does not exist yet, or an empty folder",
    );
}
