//! The settings that the experiments need: they do what they say, and a killed run still ends in the same bits.

#![cfg(unix)]

mod common;

use bowline::loaded_model::LoadedModel;
use common::{Place, bowline, events, finish, result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn train(out: &Path, settings: &[&str]) -> Command {
    let mut command = bowline(["train", "--data", "demo", "--model", "al", "--epochs", "3", "--threads", "1", "--out"]);
    command.arg(out);
    let small = ["hidden=16", "batch=4", "unroll=10", "data.train_words=4000", "data.valid_words=500"];
    for setting in small.iter().chain(settings) {
        command.args(["--set", setting]);
    }
    command
}

/// Trains undisturbed, and again with a kill after the first epoch; both must have come to the same.
fn trained_twice(place: &Place, settings: &[&str]) {
    let (whole, killed) = (place.path("whole"), place.path("killed"));
    finish(&mut train(&whole, settings)).success();
    let mut child = train(&killed, settings).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    while !killed.join("best/model.safetensors").exists() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    finish(&mut place.resume("killed")).success();
    assert_eq!(result(&killed), result(&whole));
}

#[test]
fn the_theory_experiment_keeps_word_vectors_at_length_1_and_the_last_weights() {
    let place = Place::new();
    let settings = ["augment.loss=mixture", "augment.beta=0.5", "augment.tau=10", "keep=1", "unit_vectors=true"];
    trained_twice(&place, &[&settings[..], &["select=last", "learning_rate=0.05", "classifier_init=0.001"]].concat());
    let model = LoadedModel::load(place.path("whole")).unwrap();
    for vector in model.params().unwrap().embedding().chunks(16) {
        let length: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
    assert_eq!(result(&place.path("whole")).metrics["best_epoch"], 3);
    // The loss in the log is the mixture: the parts are there to make it from.
    let epoch = events(&place.path("whole")).into_iter().rfind(|event| event["event"] == "epoch").unwrap();
    let (kl, train) = (epoch["kl"].as_f64().unwrap(), epoch["train"].as_f64().unwrap());
    let expected = 0.5 * train.ln() + 0.5 * 100.0 * model.vocabulary.len() as f64 * kl;
    assert!((epoch["loss"].as_f64().unwrap() / expected - 1.0).abs() < 1e-5, "{epoch}");
}

#[test]
fn training_towards_the_truth_brings_the_model_nearer_to_it() {
    let place = Place::new();
    let truth = ["augment.target=truth", "augment.tau=1", "augment.gamma=1"];
    trained_twice(&place, &truth);
    let estimate = place.path("estimate");
    finish(&mut train(&estimate, &[])).success();
    let valid = |run: &Path| result(run).metrics["valid"].as_f64().unwrap();
    assert!(
        valid(&place.path("whole")) < 0.9 * valid(&estimate),
        "{} {}",
        valid(&place.path("whole")),
        valid(&estimate)
    );
    // How far the word vectors' estimate is from the truth is measured where it is used, and only there.
    let measured = |run: &Path| events(run).iter().any(|event| event["target_kl"].is_number());
    assert!(measured(&estimate) && !measured(&place.path("whole")));
}

#[test]
fn the_truth_is_refused_where_it_is_not_known() {
    let place = Place::new();
    let refused = finish(place.train("run").args(["--model", "al", "--set", "augment.target=truth"]));
    assert!(refused.error().contains("setting `augment.target`: the true distribution of"), "{}", refused.error());
    assert!(!place.path("run").exists());
    let refused = finish(&mut train(&place.path("run"), &["augment.target=truth", "data.train_start=5"]));
    assert!(refused.error().contains("setting `data.train_start`"), "{}", refused.error());
}
