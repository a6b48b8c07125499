//! A network with a pointer, as people use it: what it points to, how else it predicts, and what is refused.

#![cfg(unix)]

mod common;
mod serving;

use common::{Place, bowline, finish};
use serde_json::json;
use serving::Serving;

fn train(place: &Place, out: &str, settings: &[&str]) -> std::process::Command {
    let mut command =
        bowline(["train", "--threads", "1", "--min-count", "1", "--model", "pointer-sentinel", "--epochs", "1"]);
    command.args(["--set", "hidden=8", "--set", "network.pointer=10"]).args(settings);
    command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path(out));
    command
}

#[test]
fn the_pointer_is_shown_and_predicts_in_every_way_but_one() {
    let place = Place::new();
    finish(&mut train(&place, "run", &[])).success();
    let run = place.path("run");
    let mut command = bowline(["next", "--json", "--explain", "--threads", "1"]);
    let answer = finish(command.arg(&run).arg("dobaba bababa dobaba")).json();
    let pointer = &answer["explanation"]["pointer"];
    let words = pointer["words"].as_array().unwrap();
    let shares: Vec<f64> = words.iter().map(|word| word["share"].as_f64().unwrap()).collect();
    let whole = pointer["softmax"].as_f64().unwrap() + shares.iter().sum::<f64>();
    // <eos> and three words, none left out.
    assert!(shares.len() == 4 && (whole - 1.0).abs() < 1e-5 && shares.is_sorted_by(|a, b| a >= b), "{pointer}");
    let mut back: Vec<u64> = words.iter().map(|word| word["back"].as_u64().unwrap()).collect();
    back.sort_unstable();
    assert_eq!(back, [1, 2, 3, 4]);
    // The server says the same, where it is asked.
    let server = Serving::new(&[&run], &[] as &[&str]);
    let served = server.post("/api/next", &json!({"text": "dobaba bababa dobaba", "explain": true})).1;
    assert_eq!(served["explanation"], answer["explanation"]);
    assert!(server.post("/api/next", &json!({"text": "dobaba"})).1.get("explanation").is_none());
    let said = finish(bowline(["next", "--explain"]).arg(&run).arg("dobaba")).success().stdout;
    assert!(said.contains("%  the softmax\n") && said.contains(", the last word\n"), "{said}");

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
    assert!(refused.error().contains("a model with a pointer cannot learn from the text that it reads"), "{refused:?}");
    let mut export = bowline(["export", "--to", "onnx", "--out"]);
    let refused = finish(export.arg(place.path("model.onnx")).arg(&run));
    assert!(refused.error().contains("ONNX has no operator for a pointer to the last words"), "{refused:?}");
}

#[test]
fn a_pointer_that_cannot_be_is_refused() {
    let place = Place::new();
    let refused = finish(&mut train(&place, "far", &["--set", "network.pointer=70000"]));
    assert!(refused.error().contains("the number of words that a pointer looks back on is 70000"), "{refused:?}");
    let mut command = bowline(["train", "--model", "real", "--set", "network.pointer=10"]);
    let refused = finish(command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path("real")));
    assert!(refused.error().contains("not for one beside a pointer"), "{refused:?}");
}
