//! `bowline serve` and `bowline generate` with the flags of `score` and `next`: the same numbers, the same errors.

#![cfg(unix)]

mod common;
mod serving;

use common::{Place, bowline, finish};
use serde_json::{Value, json};
use serving::{Serving, http};
use std::fs;
use std::path::{Path, PathBuf};

/// A network with what dynamic evaluation needs beside it, and an n-gram model of the same text.
fn models(place: &Place) -> (PathBuf, PathBuf) {
    let (run, kn) = (place.trained("run"), place.path("kn"));
    let corpus = place.path("corpus");
    finish(bowline(["train", "--model", "kn", "--min-count", "1", "--data"]).arg(&corpus).arg("--out").arg(&kn))
        .success();
    finish(bowline(["eval", "--threads", "1", "--dynamic", "--data"]).arg(&corpus).arg(&run)).success();
    (run, kn)
}

fn same_numbers(place: &Place, model: &Path, flags: &[&str]) {
    let server = Serving::new(&[model], flags);
    let text = fs::read_to_string(place.path("corpus/test.txt")).unwrap();
    let lines: Vec<&str> = text.lines().take(12).collect();
    let file = place.path("lines.txt");
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    for carry in [false, true] {
        let mut score = bowline(["score", "--format", "json", "--threads", "1"]);
        score.arg(model).arg(&file).args(flags).args(carry.then_some("--carry"));
        let scored = finish(&mut score).success().stdout;
        let scored: Vec<Value> = scored
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["logprobs"].as_array().cloned())
            .flatten()
            .collect();
        assert!(scored.len() > 50, "{flags:?}");
        let body = json!({"text": lines.join("\n"), "carry": carry, "top": if carry { 2 } else { 0 }});
        let (status, answer) = server.post("/api/score", &body);
        assert_eq!(status, 200, "{answer}");
        let served: Vec<Value> =
            answer["words"].as_array().unwrap().iter().map(|word| word["logprob"].clone()).collect();
        assert_eq!(served, scored, "{flags:?} {carry}");
        if !carry {
            let prompts: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
            let body = json!({"prompt": prompts, "echo": true, "logprobs": 1, "max_tokens": 0});
            let choices = server.post("/v1/completions", &body).1["choices"].as_array().unwrap().clone();
            let echoed = choices.iter().flat_map(|c| c["logprobs"]["token_logprobs"].as_array().unwrap().clone());
            assert_eq!(echoed.collect::<Vec<_>>(), scored, "{flags:?}");
        }
    }
    let mut next = bowline(["next", "--json", "-k", "20", "--threads", "1"]);
    let next = finish(next.arg(model).arg(lines[0]).args(flags)).json();
    let served = server.post("/api/next", &json!({"text": lines[0], "k": 20})).1;
    for (here, there) in next["next"].as_array().unwrap().iter().zip(served["next"].as_array().unwrap()) {
        assert_eq!(here["word"], there["word"], "{flags:?}");
        let (here, there) = (here["probability"].as_f64().unwrap(), there["probability"].as_f64().unwrap());
        assert!((here / there - 1.0).abs() < 1e-12, "{flags:?}: {here} {there}");
    }

    // A text that goes on is that of `generate`, to the last bit of its probability.
    let mut generate =
        bowline(["generate", "--json", "--seed", "3", "--words", "15", "--temperature", "0.8", "--prompt"]);
    generate.arg(lines[0]).arg(model).args(flags).args(["--threads", "1"]);
    let told = finish(&mut generate).json();
    let body = json!({"text": lines[0], "seed": 3, "words": 15, "temperature": 0.8});
    let served = server.post("/api/generate", &body).1;
    let words: Vec<&str> =
        told["samples"][0]["words"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "<eos>").collect();
    assert_eq!(served["text"].as_str().unwrap().trim(), words.join(" "), "{flags:?}");
    assert_eq!(served["logprob"], told["samples"][0]["logprob"]);
    assert_eq!(finish(&mut generate).json(), told, "the same seed gives the same text");

    let card = http(&server.address, "GET", "/v1/models", None).1["data"][0].clone();
    assert!(card["predictor"]["title"].is_string(), "{card}");
    let members = card["predictor"]["details"]["members"].as_array().unwrap().len();
    assert_eq!(members, 1 + flags.iter().filter(|flag| **flag == "--with").count());
}

#[test]
fn what_is_served_is_what_score_next_and_generate_say() {
    let place = Place::new();
    let (run, kn) = models(&place);
    let kn_path = kn.to_str().unwrap();
    same_numbers(&place, &run, &["--cache", "--dynamic", "--dynamic-segment", "3", "--dynamic-rate", "0.01"]);
    same_numbers(&place, &run, &["--with", kn_path, "--weights", "0.7,0.3", "--cache", "--recency"]);
    same_numbers(&place, &run, &["--with", kn_path, "--weights", "0.7,0.4", "--mix", "log"]);
    same_numbers(&place, &run, &["--mc", "3"]);
    same_numbers(&place, &kn, &[]);
}

#[test]
fn ways_that_change_nothing_draw_the_same_text() {
    let place = Place::new();
    let (run, kn) = models(&place);
    let text = |flags: &[&str]| {
        let mut generate = bowline(["generate", "--words", "30", "--samples", "3", "--through-eos", "--seed", "9"]);
        finish(generate.arg(&run).args(flags)).success().stdout
    };
    let plain = text(&[]);
    assert_eq!(text(&["--cache-lambda", "0"]), plain);
    assert_eq!(text(&["--network-temperature", "1"]), plain);
    let tempered = text(&["--temperature", "2"]);
    assert_ne!(tempered, plain);
    // A network's own temperature is the drawing's, where nothing comes after it.
    assert_eq!(text(&["--network-temperature", "2"]), tempered);
    assert_ne!(text(&["--with", kn.to_str().unwrap(), "--weights", "0.1,0.9"]), plain);
}

#[test]
fn a_server_refuses_what_next_refuses_before_it_listens() {
    let place = Place::new();
    let (run, kn) = (place.trained("run"), place.path("kn"));
    finish(
        bowline(["train", "--model", "kn", "--min-count", "1", "--data"])
            .arg(place.path("corpus"))
            .arg("--out")
            .arg(&kn),
    )
    .success();
    // The port is taken: who complains about the flags has not tried to listen.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for flags in [
        &["--cache-lambda", "1.5"][..],
        &["--cache-window", "0"],
        &["--mc", "3", "--cache"],
        &["--weights", "0.5,0.5"],
        &["--dynamic"],
        &["--temperature", "warm"],
        &["--recency=window=none"],
        &["--with", kn.to_str().unwrap()],
        &["--with", "/nowhere/at/all"],
    ] {
        let next = finish(bowline(["next"]).arg(&run).arg("baba").args(flags));
        let serve = finish(bowline(["serve", "--port", &port]).arg(&run).args(flags));
        assert_eq!((serve.code, serve.error()), (Some(1), next.error()), "{flags:?}");
        assert!(serve.error().contains("\n  try: "), "{flags:?}: {serve:?}");
        let flags: Vec<&str> =
            flags.iter().map(|flag| if *flag == "--temperature" { "--network-temperature" } else { flag }).collect();
        let generate = finish(bowline(["generate"]).arg(&run).args(&flags));
        assert_eq!((generate.code, generate.error()), (Some(1), next.error()), "{flags:?}");
    }
}

#[test]
fn an_n_gram_model_is_served_beside_a_network() {
    let place = Place::new();
    let run = place.trained("run");
    let kn = place.path("kn");
    finish(
        bowline(["train", "--model", "kn", "--min-count", "1", "--data"])
            .arg(place.path("corpus"))
            .arg("--out")
            .arg(&kn),
    )
    .success();
    let server = Serving::new(&[&run, &kn], [] as [&str; 0]);
    let models = http(&server.address, "GET", "/v1/models", None).1["data"].clone();
    assert_eq!((&models[0]["predictor"], &models[1]["predictor"]["title"]), (&Value::Null, &json!("KN-5")));
    assert_eq!((models[0]["hidden"].as_u64(), &models[1]["hidden"]), (Some(24), &Value::Null));
    let (status, answer) = server.post("/api/neighbours", &json!({"word": "bababa", "model": "kn"}));
    assert_eq!(
        (status, &answer["error"]["message"]),
        (400, &json!("`kn` is an n-gram model: its words have no vectors"))
    );
}
