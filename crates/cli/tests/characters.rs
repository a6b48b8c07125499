//! A network that reads words by their characters, as people use it: how else it predicts, what it is exported as, and what is
//! refused.

mod common;

use common::{Place, bowline, finish};

fn train(place: &Place, out: &str, settings: &[&str]) -> std::process::Command {
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--model", "char-cnn", "--epochs", "1"]);
    command.args(["--set", "hidden=8", "--set", "network.characters.maps=[4,5,6]"]);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path(out));
    command
}

#[test]
fn characters_go_with_every_way_of_predicting_but_one() {
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
    assert!(refused.error().contains("a model that reads characters cannot learn from the text"), "{refused:?}");
    // Word vectors are those that the characters give, here and in a file for other programs.
    let near = finish(bowline(["neighbours", "--json"]).arg(&run).arg("dobaba")).json();
    assert_eq!(near["neighbours"].as_array().unwrap().len(), 10);
    finish(bowline(["export", "--to", "onnx", "--out"]).arg(place.path("model.onnx")).arg(&run)).success();
}

#[test]
fn characters_that_cannot_be_are_refused() {
    let place = Place::new();
    for (setting, problem) in [
        ("network.characters.symbols=5", "a table of 5 symbols cannot be made"),
        ("network.characters.length=2", "words of 2 symbols have no room"),
        ("network.embedding=7", "the characters give word vectors of 15 values, not of 7"),
        ("network.tied=true", "a classifier cannot reuse word vectors that come from characters"),
        ("unit_vectors=true", "word vectors that come from characters cannot be scaled to length 1"),
    ] {
        let refused = finish(&mut train(&place, "run", &[setting]));
        assert!(refused.error().contains(problem), "{setting}: {refused:?}");
    }
    let mut command = bowline(["train", "--model", "al", "--set", "network.characters.maps=[4]"]);
    let refused = finish(command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path("al")));
    assert!(refused.error().contains("the augmented loss compares word vectors"), "{refused:?}");
}
