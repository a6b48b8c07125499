//! Mogrifier layers, and layers that are summed, as people use them: how else they predict, and what is refused.

#![cfg(unix)]

mod common;

use common::{Place, bowline, finish};

fn train(place: &Place, out: &str, settings: &[&str]) -> std::process::Command {
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--model", "mogrifier", "--epochs", "1"]);
    command.args(["--set", "hidden=8", "--set", "network.rank=3", "--set", "batch=4", "--set", "unroll=10"]);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path(out));
    command
}

#[test]
fn a_mogrifier_predicts_in_every_way_but_one() {
    let place = Place::new();
    finish(&mut train(&place, "run", &[])).success();
    let run = place.path("run");
    let eval = |flags: &[&str]| {
        let mut command = bowline(["eval", "--json", "--threads", "1"]);
        finish(command.arg(&run).arg("--data").arg(place.path("corpus")).args(flags)).json()["perplexity"].as_f64()
    };
    let alone = eval(&[]).unwrap();
    for flags in [&["--cache-window", "50", "--cache-lambda", "0.1"][..], &["--mc", "3"]] {
        let other = eval(flags).unwrap();
        assert!(other.is_finite() && other != alone, "{flags:?}: {other}");
    }
    let mut dynamic = bowline(["eval", "--dynamic-form", "sgd", "--dynamic-rate", "0.1"]);
    let refused = finish(dynamic.arg(&run).arg("--data").arg(place.path("corpus")));
    assert!(refused.error().contains("a model with rounds of gating or summed layers cannot learn"), "{refused:?}");
    let mut export = bowline(["export", "--to", "onnx", "--out"]);
    let refused = finish(export.arg(place.path("model.onnx")).arg(&run));
    assert!(refused.error().contains("ONNX has no operator for a sum of layers"), "{refused:?}");
    let mut export = bowline(["export", "--to", "huggingface", "--out"]);
    let refused = finish(export.arg(place.path("folder")).arg(&run));
    assert!(refused.error().contains("only networks of equal LSTM layers"), "{refused:?}");
}

#[test]
fn a_mogrifier_that_cannot_be_is_refused() {
    let place = Place::new();
    for (setting, problem) in [
        ("network.rounds=0", "the number of rounds of layer 0 is 0"),
        ("network.rounds=65", "the number of rounds of layer 0 is 65, and 64 is the most"),
        ("network.rank=0", "the rank of the rounds of layer 0 is 0"),
        ("network.rank=9", "the rank of the rounds of layer 0 is 9, and 8 is the most"),
        ("network.widths=[8,9]", "layers that are summed need one width, and they have [8, 9]"),
        ("masks.per_gate=[\"state\"]", "the input and the state of a Mogrifier gate each other"),
        ("activity.ar=1", "the activity that costs is the last layer's"),
        ("network.unit=\"mogrify\"", "mogrify"),
    ] {
        let refused = finish(&mut train(&place, "run", &[setting]));
        assert!(refused.error().contains(problem), "{setting}: {refused:?}");
        assert!(!place.path("run").exists());
    }
}
