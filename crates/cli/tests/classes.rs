//! A network that predicts the class of a word first, as people use it: it can be resumed, it predicts in every way but one, and
//! what is refused.

#![cfg(unix)]

mod common;

use common::{Place, bowline, finish};

fn train(place: &Place, out: &str, settings: &[&str]) -> std::process::Command {
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--model", "rnn-mikolov"]);
    command.args(["--set", "hidden=8", "--set", "batch=4", "--set", "network.classes=3"]);
    command.args(settings).arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path(out));
    command
}

#[test]
fn classes_belong_to_the_model_and_predict_in_every_way_but_one() {
    let place = Place::new();
    finish(&mut train(&place, "whole", &["--epochs", "2"])).success();
    finish(&mut train(&place, "part", &["--epochs", "1"])).success();
    let run = place.path("whole");
    let eval = |run: &std::path::Path, flags: &[&str]| {
        let mut command = bowline(["eval", "--json", "--threads", "1"]);
        finish(command.arg(run).arg("--data").arg(place.path("corpus")).args(flags)).json()["perplexity"].as_f64()
    };
    let alone = eval(&run, &[]).unwrap();
    assert_ne!(eval(&place.path("part"), &[]).unwrap(), alone);
    let cache = ["--cache-window", "50", "--cache-lambda", "0.1"];
    for flags in [&cache[..], &["--temperature", "1.5"]] {
        let other = eval(&run, flags).unwrap();
        assert!(other.is_finite() && other != alone, "{flags:?}: {other}");
    }
    finish(bowline(["generate", "--threads", "1", "--words", "5"]).arg(&run)).success();
    let mut dynamic = bowline(["eval", "--dynamic-form", "sgd", "--dynamic-rate", "0.1"]);
    let refused = finish(dynamic.arg(&run).arg("--data").arg(place.path("corpus")));
    assert!(refused.error().contains("a model with classes of words cannot learn from the text"), "{refused:?}");
    let mut export = bowline(["export", "--to", "onnx", "--out"]);
    let refused = finish(export.arg(place.path("model.onnx")).arg(&run));
    assert!(refused.error().contains("ONNX has no operator for classes of words"), "{refused:?}");
}

#[test]
fn classes_that_cannot_be_are_refused() {
    let place = Place::new();
    let own = "classes have softmaxes of their own";
    for (setting, problem) in [
        ("network.classes=70000", "70000 classes cannot be made of the text's"),
        ("network.bias=true", own),
        ("network.pointer=10", own),
        ("loss.sampled=5", "a network with classes cannot be learned from a sample of the words"),
    ] {
        let refused = finish(&mut train(&place, "run", &["--set", setting]));
        assert!(refused.error().contains(problem), "{setting}: {refused:?}");
        assert!(!place.path("run").exists());
    }
    let mut command = bowline(["train", "--model", "al", "--set", "network.classes=3"]);
    let refused = finish(command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path("al")));
    assert!(refused.error().contains("classes"), "{refused:?}");
}
