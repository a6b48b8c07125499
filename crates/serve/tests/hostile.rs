//! Clients that mean harm, or behave as if they did: small requests for huge answers, and answers that nobody takes.

mod common;

use bowline::loaded_model::LoadedModel;
use bowline::model::{Dropout, KeepProb};
use bowline::params::Params;
use bowline::predictor::{Ensemble, Mix, MonteCarloSettings, NeuralSettings};
use bowline::rng::{Purpose, Stream, unit};
use bowline::spec::ModelSpec;
use bowline_serve::{Limits, ServerOptions};
use common::{Response, Running, model, post};
use serde_json::json;
use std::io::{BufReader, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// Megabytes of memory that this process has.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096 / 1_000_000
}

#[test]
fn a_small_request_for_a_huge_answer_is_refused_before_any_work() {
    let server = Running::new();
    let before = resident();
    let whole = json!({"prompt": vec![1; 16_384], "max_tokens": 0, "n": 128, "echo": true, "logprobs": 10});
    let many = json!({"prompt": vec![""; 340_000], "max_tokens": 0, "n": 128});
    for body in [whole, many] {
        let answer = server.post("/v1/completions", body.to_string());
        assert_eq!(answer.status, 400, "{answer:?}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("words and log-probabilities, more than the 262144"), "{message}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 300, "{grown} MB for what was refused");
    server.complete(json!({"prompt": "the", "max_tokens": 1}));
}

#[test]
fn stop_strings_are_kept_once_for_all_continuations() {
    let server = Running::new();
    let before = resident();
    let stops: Vec<String> = (0..16).map(|i| format!("{}{i}", "x".repeat(990))).collect();
    let body = json!({"prompt": vec!["the"; 1000], "max_tokens": 1, "n": 12, "stop": stops});
    assert_eq!(server.post("/v1/completions", body.to_string()).status, 200);
    let grown = resident().saturating_sub(before);
    assert!(grown < 150, "{grown} MB for 12,000 short answers");
}

#[test]
fn all_answers_together_have_a_limit_too() {
    let server = Running::limited(Limits { answers: 40, ..Limits::default() });
    let body = |words: usize| json!({"prompt": "the", "max_tokens": words}).to_string();
    assert_eq!(server.post("/v1/completions", body(16)).status, 200);
    assert_eq!(server.post("/v1/completions", body(60)).status, 503);
    // What was taken is given back.
    for _ in 0..5 {
        assert_eq!(server.post("/v1/completions", body(16)).status, 200);
    }
}

#[test]
fn the_sign_of_life_does_not_wait_for_long_answers() {
    let limits = Limits { tokens: 1 << 20, answer: 1 << 24, answers: 1 << 26, ..Limits::default() };
    let server = Running::limited(limits);
    let body = json!({"prompt": vec![1; 16_384], "max_tokens": 0, "n": 12, "echo": true, "logprobs": 12}).to_string();
    let (bytes, slowest, total) = std::thread::scope(|scope| {
        let begin = Instant::now();
        let long = scope.spawn(|| server.post("/v1/completions", &body));
        let mut slowest = Duration::ZERO;
        while !long.is_finished() {
            let begin = Instant::now();
            assert_eq!(server.get("/healthz").status, 200);
            slowest = slowest.max(begin.elapsed());
        }
        let answer = long.join().unwrap();
        assert_eq!(answer.status, 200);
        (answer.body.len(), slowest, begin.elapsed())
    });
    assert!(bytes > 20_000_000, "{bytes} bytes");
    assert!(slowest < total / 4, "the slowest of /healthz took {slowest:?} of the {total:?} of a long answer");
}

/// A model that takes its time: every word is read by 128 samples of a large network.
fn slow(limits: Limits) -> Running {
    let vocabulary = model("one", 1).vocabulary;
    let mut params = Params::zeros(&ModelSpec::paper(vocabulary.len(), 384, 2, true));
    Stream::new(1, Purpose::Weights, 0).fill(params.data_mut(), |r| 0.1 * unit(r) - 0.05);
    let large = LoadedModel::network("slow", "re", params, vocabulary);
    let mut ensemble = Ensemble::new(vec![large], Mix::Linear).unwrap();
    let monte_carlo =
        Some(MonteCarloSettings { samples: 128, keep: KeepProb(0.5), seed: 1, masks: Dropout::default() });
    ensemble.set_ways(vec![NeuralSettings { monte_carlo, ..NeuralSettings::default() }]).unwrap();
    Running::serving([ensemble], ServerOptions { threads: 1, limits, ..ServerOptions::default() })
}

#[test]
fn a_stop_takes_no_longer_than_it_may_whatever_is_computed() {
    let prompt = vec![3; 16_000];
    for body in [
        json!({"prompt": prompt, "max_tokens": 1}),
        json!({"prompt": prompt, "max_tokens": 0, "echo": true, "logprobs": 1}),
    ] {
        let server = slow(Limits { stop_time: Duration::from_millis(300), ..Limits::default() });
        let mut busy = server.connect();
        busy.write_all(&post("/v1/completions", body.to_string().as_bytes())).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let begin = Instant::now();
        server.stop();
        server.join();
        assert!(begin.elapsed() < Duration::from_secs(4), "{:?} to stop", begin.elapsed());
    }
}

#[test]
fn a_worker_is_free_again_when_its_request_has_timed_out() {
    let limits = Limits { request_time: Duration::from_millis(300), tokens: 100_000, ..Limits::default() };
    let server = slow(limits);
    // Two million readings of a word: many times what is allowed.
    let long = json!({"prompt": vec![3; 16_000], "max_tokens": 1});
    assert_eq!(server.post("/v1/completions", long.to_string()).status, 503);
    let begin = Instant::now();
    let short = json!({"prompt": "the", "max_tokens": 1}).to_string();
    while server.post("/v1/completions", &short).status != 200 {
        assert!(begin.elapsed() < Duration::from_secs(5), "the worker is still at the old request");
    }
}

#[test]
fn clients_that_do_not_take_their_stream_keep_nobody_out() {
    let limits = Limits { connections: 8, tokens: 1 << 17, ..Limits::default() };
    let server = Running::limited(limits);
    // High above what a socket holds by itself.
    let body = json!({"prompt": "the", "max_tokens": 700, "n": 20, "logprobs": 12, "stream": true, "temperature": 2.0});
    let deaf: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(&post("/v1/completions", body.to_string().as_bytes())).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let begin = Instant::now();
    let short = post("/v1/completions", br#"{"prompt": "the", "max_tokens": 1}"#);
    let mut served = 0;
    while served < 10 {
        let mut stream = server.connect();
        // One for whom there is no place finds its connection closed, perhaps before it has said anything.
        let answer = stream.write_all(&short).ok().and_then(|()| Response::read(&mut BufReader::new(stream)));
        served += usize::from(answer.is_some_and(|answer| answer.status == 200));
        assert!(begin.elapsed() < Duration::from_secs(8), "{served} served beside 8 clients that do not listen");
    }
    drop(deaf);
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let limits = Limits { write_time: Duration::from_millis(500), tokens: 1 << 17, ..Limits::default() };
    let server = Running::limited(limits);
    let body = json!({"prompt": vec![1; 10_000], "max_tokens": 0, "n": 2, "echo": true, "logprobs": 10});
    let mut deaf = server.connect();
    for _ in 0..8 {
        // Several answers: one by itself may find room in the sockets.
        deaf.write_all(&post("/v1/completions", body.to_string().as_bytes())).unwrap();
    }
    let begin = Instant::now();
    loop {
        let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
        if metrics.contains("bowline_connections 1\n") {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{metrics}");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(deaf);
}

#[test]
fn one_for_whom_there_is_no_place_gets_a_whole_answer() {
    let server = slow(Limits { connections: 1, ..Limits::default() });
    let mut busy = server.connect();
    let body = json!({"prompt": vec![3; 4000], "max_tokens": 1}).to_string();
    busy.write_all(&post("/v1/completions", body.as_bytes())).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut said = Vec::new();
    server.connect().read_to_end(&mut said).unwrap();
    let said = String::from_utf8(said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    assert_eq!(length.parse::<usize>().unwrap(), body.len());
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["error"]["code"], 503);
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answer() {
    let server = Running::new();
    let mut stream = server.connect();
    stream.write_all(&post("/v1/completions", br#"{"prompt": "the cat", "max_tokens": 3}"#)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answer = Response::read(&mut BufReader::new(stream)).expect("an answer");
    assert_eq!(answer.status, 200);
}

#[test]
fn a_head_above_the_limit_is_refused_however_it_arrives() {
    let server = Running::new();
    for bytes in [33_000, 40_000, 60_000] {
        let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(bytes));
        assert_eq!(server.raw(head.as_bytes()).status, 431, "{bytes}");
    }
    let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(30_000));
    assert_eq!(server.raw(head.as_bytes()).status, 200);
}
