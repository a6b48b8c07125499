//! A network with a mixture of softmaxes, as people use it: how else it predicts, and what is refused.

#![cfg(unix)]

mod common;

use common::{Place, bowline, finish};

fn train(place: &Place, out: &str, settings: &[&str]) -> std::process::Command {
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--model", "mos", "--epochs", "1"]);
    for setting in ["network.widths=[8,6]", "network.embedding=5", "network.projection=5", "network.softmaxes=3"] {
        command.args(["--set", setting]);
    }
    command.args(settings).arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path(out));
    command
}

#[test]
fn a_mixture_predicts_in_every_way_but_one() {
    let place = Place::new();
    finish(&mut train(&place, "run", &[])).success();
    let run = place.path("run");
    let eval = |flags: &[&str]| {
        let mut command = bowline(["eval", "--json", "--threads", "1"]);
        finish(command.arg(&run).arg("--data").arg(place.path("corpus")).args(flags)).json()["perplexity"].as_f64()
    };
    let alone = eval(&[]).unwrap();
    let ways = [
        &["--cache-window", "50", "--cache-lambda", "0.1"][..],
        &["--mc", "3", "--mc-keep", "0.8"],
        &["--temperature", "1.5"],
    ];
    for flags in ways {
        let other = eval(flags).unwrap();
        assert!(other.is_finite() && other != alone, "{flags:?}: {other}");
    }
    finish(bowline(["generate", "--threads", "1", "--words", "5"]).arg(&run)).success();
    let mut dynamic = bowline(["eval", "--dynamic-form", "sgd", "--dynamic-rate", "0.1"]);
    let refused = finish(dynamic.arg(&run).arg("--data").arg(place.path("corpus")));
    assert!(refused.error().contains("a mixture of softmaxes cannot learn from the text that it reads"), "{refused:?}");
    let mut export = bowline(["export", "--to", "onnx", "--out"]);
    let refused = finish(export.arg(place.path("model.onnx")).arg(&run));
    assert!(refused.error().contains("ONNX has no operator for a mixture of softmaxes"), "{refused:?}");
    let mut export = bowline(["export", "--to", "huggingface", "--out"]);
    let refused = finish(export.arg(place.path("folder")).arg(&run));
    assert!(refused.error().contains("only networks of equal LSTM layers"), "{refused:?}");
}

#[test]
fn a_mixture_that_cannot_be_is_refused() {
    let place = Place::new();
    for (setting, problem) in [
        ("network.softmaxes=0", "the number of softmaxes is 0"),
        ("network.softmaxes=70000", "the number of softmaxes is 70000, and 1024 is the most"),
        ("network.projection=0", "a mixture of softmaxes needs a projection"),
        ("network.projection=6", "the classifier is tied to word vectors of 5 values, and sees 6"),
        ("network.pointer=10", "a mixture of softmaxes cannot be beside a pointer or topics"),
    ] {
        let refused = finish(&mut train(&place, "run", &["--set", setting]));
        assert!(refused.error().contains(problem), "{setting}: {refused:?}");
        assert!(!place.path("run").exists());
    }
    let mut command = bowline(["train", "--model", "real", "--set", "network.softmaxes=2"]);
    command.args(["--set", "network.projection=200"]);
    let refused = finish(command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path("real")));
    assert!(refused.error().contains("for one softmax, not for a mixture of them"), "{refused:?}");
}
