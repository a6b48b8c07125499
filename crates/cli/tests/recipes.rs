//! Every recipe, made small: trained, killed and resumed to the same bits, evaluated, scored, asked for the next word and
//! served. A recipe is tested by being in the list.

#![cfg(unix)]

mod common;
mod serving;

use bowline::config::{Config, TargetSource};
use bowline::recipes::Recipe;
use common::{Place, bowline, finish, result};
use serde_json::{Value, json};
use serving::Serving;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// By how much the widths of a network are divided.
const SHRUNK: usize = 50;

/// The settings that make a recipe's network small, whatever it is made of.
fn small(config: &Config) -> Vec<String> {
    let width = |width: usize| if width == 0 { 0 } else { (width / SHRUNK).max(4) };
    let network = &config.network;
    let widths: Vec<usize> = network.widths.iter().map(|&units| width(units)).collect();
    let maps: Vec<usize> = network.characters.maps.iter().map(|&maps| width(maps)).collect();
    let settings = [
        format!("hidden={}", width(config.hidden)),
        format!("network.widths={widths:?}"),
        format!("network.embedding={}", width(network.embedding)),
        format!("network.projection={}", width(network.projection)),
        format!("network.characters.maps={maps:?}"),
        "epochs=2".to_owned(),
        "batch=4".to_owned(),
        "unroll=8".to_owned(),
        "validation_streams=2".to_owned(),
        "checkpoint.every_seconds=0.01".to_owned(),
    ];
    settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]).collect()
}

/// `bowline train` of a recipe.
fn train(place: &Place, recipe: &Recipe, config: &Config, out: &str) -> Command {
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--model", &recipe.name]);
    if config.augment.target == TargetSource::Teacher {
        // Whoever comes before it in the list has been trained.
        command.arg("--teacher").arg(place.path("re")).arg("--teacher").arg(place.path("vd-lstm"));
    }
    command.args(small(config)).arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path(out));
    command
}

/// Kills a run in the middle, when it has saved more than its beginning.
fn kill(command: &mut Command, run: &Path) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let saved = run.join("checkpoints/previous.safetensors");
    while !saved.exists() {
        assert_eq!(child.try_wait().unwrap(), None, "{} was over before it could be killed", run.display());
        std::thread::sleep(Duration::from_micros(200));
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None);
    assert!(!run.join("summary.json").exists());
}

/// The log-probabilities of the lines of a file, word by word.
fn score(model: &Path, text: &Path) -> Vec<Vec<f64>> {
    let scored = finish(bowline(["score", "--format", "json", "--threads", "1"]).arg(model).arg(text)).success();
    let of = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["logprobs"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    scored.stdout.lines().map(of).collect()
}

/// What is true of every model: the probabilities of all words sum to 1, the future changes nothing, and the server says what
/// `score` says.
fn check_predictions(place: &Place, model: &PathBuf, name: &str) {
    let text = fs::read_to_string(place.path("corpus/test.txt")).unwrap();
    let line: Vec<&str> = text.lines().find(|line| line.split(' ').count() > 5).unwrap().split(' ').collect();
    let vocabulary = fs::read_to_string(model.join("best/vocab.txt")).unwrap().lines().count();
    let next = bowline(["next", "--json", "--threads", "1", "-k", &vocabulary.to_string()])
        .arg(model)
        .arg(line[..3].join(" "))
        .output()
        .unwrap();
    let next: Value = serde_json::from_slice(&next.stdout).unwrap();
    let sum: f64 = next["next"].as_array().unwrap().iter().map(|c| c["probability"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-4, "{name}: the probabilities sum to {sum}");

    let (same, other) = (line.join(" "), [&line[..3], &["baba", "baba", "baba"]].concat().join(" "));
    fs::write(place.path("lines"), format!("{same}\n{other}\n")).unwrap();
    let scores = score(model, &place.path("lines"));
    assert_eq!(scores[0][..3], scores[1][..3], "{name}: words see those that come after them");

    let server = Serving::new(&[model], [] as [&str; 0]);
    let body = json!({"prompt": [format!("{same}\n")], "echo": true, "logprobs": 0, "max_tokens": 0});
    let (status, answer) = server.post("/v1/completions", &body);
    assert_eq!(status, 200, "{name}: {answer}");
    let served = answer["choices"][0]["logprobs"]["token_logprobs"].as_array().unwrap();
    let served: Vec<f64> = served.iter().filter_map(Value::as_f64).collect();
    assert_eq!(served, scores[0], "{name}");
}

#[test]
fn every_recipe_trains_resumes_evaluates_scores_and_serves() {
    let place = Place::new();
    for recipe in Recipe::all().unwrap() {
        let (name, config) = (&recipe.name, recipe.config(None, "a text of one's own").unwrap());
        let killed = format!("{name}-killed");
        finish(&mut train(&place, &recipe, &config, name)).success();
        kill(&mut train(&place, &recipe, &config, &killed), &place.path(&killed));
        finish(&mut place.resume(&killed)).success();
        assert_eq!(result(&place.path(&killed)), result(&place.path(name)), "{name}");

        let model = place.path(name);
        let summary: Value = serde_json::from_slice(&fs::read(model.join("summary.json")).unwrap()).unwrap();
        let corpus = place.path("corpus");
        let eval = finish(bowline(["eval", "--json", "--threads", "1", "--data"]).arg(corpus).arg(&model)).json();
        let (found, expected) = (eval["perplexity"].as_f64().unwrap(), summary["test"].as_f64().unwrap());
        assert!((found / expected - 1.0).abs() < 1e-6, "{name}: {found} {expected}");
        assert!(expected < 320.0, "{name}: there are some 300 words, and it has a perplexity of {expected}");
        check_predictions(&place, &model, name);
    }
}
