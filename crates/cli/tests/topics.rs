//! A network with topics, as people use it: what it says of a phrase, and what is refused.

mod common;

use common::{Place, bowline, finish};

#[test]
fn topics_are_explained_and_a_count_of_none_is_refused() {
    let place = Place::new();
    let train = |out: &str, settings: &[&str]| {
        let mut command =
            bowline(["train", "--threads", "1", "--min-count", "1", "--model", "rnn-lda", "--epochs", "1"]);
        command.args(["--set", "hidden=8", "--set", "topics.sweeps=10"]).args(settings);
        command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path(out));
        command
    };
    finish(&mut train("run", &["--set", "topics.count=7"])).success();
    let explained = |phrase: &str| {
        let mut command = bowline(["next", "--json", "--explain", "--threads", "1"]);
        finish(command.arg(place.path("run")).arg(phrase)).json()["explanation"]["topics"].clone()
    };
    let topics = explained("dobaba bababa");
    let shares: Vec<f64> = topics.as_array().unwrap().iter().map(|topic| topic["share"].as_f64().unwrap()).collect();
    assert_eq!((shares.len(), topics[0]["words"].as_array().unwrap().len()), (5, 8), "{topics}");
    assert!(shares.is_sorted_by(|a, b| a >= b) && shares.iter().sum::<f64>() <= 1.0 + 1e-6, "{shares:?}");
    let words = topics.to_string();
    assert!(!words.contains("<eos>"), "the end of a sentence is about nothing: {words}");
    assert_ne!(explained("gubaba lobaba kababa"), topics);
    let said = finish(bowline(["next", "--explain"]).arg(place.path("run")).arg("baba")).success().stdout;
    assert!(said.contains("\nthe text is about\n") && said.contains("%  topic "), "{said}");

    place.check_refusal(
        &mut train("none", &["--set", "topics.count=0"]),
        "setting `topics.count`: 0 is impossible",
        "a value from 1 to 4096; a network without topics has `network.topics=false`",
    );
    let refused = finish(&mut train("tied", &["--set", "network.tied=true"]));
    assert!(refused.error().contains("the classifier is tied to word vectors of"), "{refused:?}");
    let plain = place.trained("plain");
    let refused = finish(bowline(["next", "--explain"]).arg(plain).arg("baba"));
    assert!(refused.error().contains("has nothing to look into: neither topics nor a pointer"), "{refused:?}");
}

/// The other ways of predicting go with topics too; one that learns almost nothing from the text is the network as it was trained.
#[test]
fn topics_go_with_every_way_of_predicting() {
    let place = Place::new();
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--model", "rnn-lda", "--epochs", "1"]);
    command.args(["--set", "hidden=8", "--set", "topics.sweeps=10", "--set", "topics.count=7"]);
    finish(command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path("run"))).success();
    let eval = |flags: &[&str]| {
        let mut command = bowline(["eval", "--json", "--threads", "1"]);
        let answer = finish(command.arg(place.path("run")).arg("--data").arg(place.path("corpus")).args(flags)).json();
        answer["perplexity"].as_f64().unwrap()
    };
    let alone = eval(&[]);
    let still = eval(&["--dynamic-form", "sgd", "--dynamic-rate", "1e-9", "--dynamic-decay", "0"]);
    assert!((still / alone - 1.0).abs() < 1e-4, "{still} {alone}");
    let learning = eval(&["--dynamic-form", "sgd", "--dynamic-rate", "0.05"]);
    assert!(learning.is_finite() && learning != alone, "{learning} {alone}");
    assert!(eval(&["--cache"]).is_finite());
    // Without a unit dropped, a sample is the network itself.
    let sampled = eval(&["--mc", "2", "--mc-keep", "1"]);
    assert!((sampled / alone - 1.0).abs() < 1e-5, "{sampled} {alone}");
    // The classifier sees more than a word vector has.
    let subspace = finish(bowline(["subspace", "--json"]).arg(place.path("run"))).json();
    assert!(subspace["distance"].as_f64().is_some_and(|d| (0.0..=1.0).contains(&d)), "{subspace}");
    let draw = ["generate", "--words", "8", "--samples", "2", "--seed", "5", "--threads", "1"];
    let text = finish(bowline(draw).arg(place.path("run"))).success().stdout;
    assert_eq!(text.lines().count(), 2, "{text}");
}
