//! Whatever a client sends, it gets an answer that says what is wrong, and the server goes on.

mod common;

use bowline::rng::{Purpose, Stream};
use bowline_serve::Limits;
use common::{Response, Running, post};
use serde_json::json;
use std::io::{BufReader, Write};

/// The server still does what it should.
#[track_caller]
fn is_well(server: &Running) {
    assert_eq!(server.get("/healthz").body, b"ok\n");
    server.complete(json!({"prompt": "the cat", "max_tokens": 2}));
}

#[test]
fn malformed_requests_are_refused_with_the_field_at_fault() {
    let server = Running::limited(Limits { tokens: 1000, ..Limits::default() });
    let deep = "[".repeat(100_000);
    let long = format!(r#"{{"prompt": "{}"}}"#, "the ".repeat(2000));
    for (body, status, field) in [
        ("", 400, None),
        ("{", 400, None),
        ("[]", 400, None),
        ("null", 400, None),
        ("\"the cat\"", 400, None),
        (deep.as_str(), 400, None),
        ("{\"prompt\": \"\\ud800\"}", 400, None),
        (r#"{"prompt": "a", "prompt": 3}"#, 400, Some("prompt")),
        (r#"{"prompt": 3}"#, 400, Some("prompt")),
        (r#"{"prompt": {}}"#, 400, Some("prompt")),
        (r#"{"prompt": []}"#, 400, Some("prompt")),
        (r#"{"prompt": [1, "a"]}"#, 400, Some("prompt")),
        (r#"{"prompt": ["a", 1]}"#, 400, Some("prompt")),
        (r#"{"prompt": [[1], [2.5]]}"#, 400, Some("prompt")),
        (r#"{"prompt": [[[1]]]}"#, 400, Some("prompt")),
        (r#"{"prompt": [-1]}"#, 400, Some("prompt")),
        (r#"{"prompt": [14]}"#, 400, Some("prompt")),
        (r#"{"prompt": [4294967296]}"#, 400, Some("prompt")),
        (r#"{"prompt": [1e300]}"#, 400, Some("prompt")),
        (long.as_str(), 400, None),
        (r#"{"max_tokens": -1}"#, 400, Some("max_tokens")),
        (r#"{"max_tokens": 1.5}"#, 400, Some("max_tokens")),
        (r#"{"max_tokens": 18446744073709551615}"#, 400, Some("max_tokens")),
        (r#"{"max_tokens": true}"#, 400, Some("max_tokens")),
        (r#"{"max_tokens": 900, "n": 2}"#, 400, None),
        (r#"{"max_tokens": 0, "prompt": "a", "n": 0}"#, 400, Some("n")),
        (r#"{"n": 100000000}"#, 400, Some("n")),
        (r#"{"n": 2, "best_of": 3}"#, 400, Some("best_of")),
        (r#"{"temperature": -0.1}"#, 400, Some("temperature")),
        (r#"{"temperature": "hot"}"#, 400, Some("temperature")),
        (r#"{"temperature": 1e999}"#, 400, None),
        (r#"{"temperature": [1]}"#, 400, Some("temperature")),
        (r#"{"top_p": 1.1}"#, 400, Some("top_p")),
        (r#"{"top_k": -1}"#, 400, Some("top_k")),
        (r#"{"logprobs": -1}"#, 400, Some("logprobs")),
        (r#"{"logprobs": 1000000}"#, 400, Some("logprobs")),
        (r#"{"logprobs": true}"#, 400, Some("logprobs")),
        (r#"{"echo": 1}"#, 400, Some("echo")),
        (r#"{"stream": "yes"}"#, 400, Some("stream")),
        (r#"{"seed": 0.5}"#, 400, Some("seed")),
        (r#"{"seed": 99999999999999999999999}"#, 400, Some("seed")),
        (r#"{"stop": 3}"#, 400, Some("stop")),
        (r#"{"stop": [""]}"#, 400, Some("stop")),
        (r#"{"stop": ["a", null]}"#, 400, Some("stop")),
        (r#"{"suffix": "end"}"#, 400, Some("suffix")),
        (r#"{"logit_bias": {"3": 100}}"#, 400, Some("logit_bias")),
        (r#"{"presence_penalty": 1}"#, 400, Some("presence_penalty")),
        (r#"{"model": 3}"#, 400, Some("model")),
        (r#"{"model": "three"}"#, 404, None),
    ] {
        let answer = server.post("/v1/completions", body);
        let shown = &body[..body.len().min(60)];
        assert_eq!(answer.status, status, "{shown}: {answer:?}");
        let error = &answer.json()["error"];
        assert_eq!(error["param"].as_str(), field, "{shown}: {error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{shown}: {error}");
        assert_eq!(error["code"], status);
    }
    for (path, body, status) in [
        ("/api/next", r#"{"text": 3}"#, 400),
        ("/api/next", r#"{"k": 0}"#, 400),
        ("/api/next", r#"{"phrase": "the"}"#, 400),
        ("/api/score", r#"{"txt": "the"}"#, 400),
        ("/api/generate", r#"{"max_tokens": 3}"#, 400),
        ("/api/next", r#"{"k": 1001}"#, 400),
        ("/api/score", r#"{"text": ["a"]}"#, 400),
        ("/api/score", r#"{"top": 100}"#, 400),
        ("/api/neighbours", "{}", 400),
        ("/api/neighbours", r#"{"word": "  "}"#, 400),
        ("/api/neighbours", r#"{"word": "zebra"}"#, 404),
        ("/api/generate", r#"{"words": 0}"#, 400),
        ("/api/generate", r#"{"words": 1001}"#, 400),
        ("/tokenize", "{}", 400),
        ("/detokenize", r#"{"tokens": [1, 99]}"#, 400),
        ("/detokenize", r#"{"tokens": "the"}"#, 400),
        ("/v1/models", "{}", 405),
        ("/v1/chat/completions", "{}", 404),
        ("/page/../Cargo.toml", "", 404),
    ] {
        let answer = server.post(path, body);
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        assert!(answer.json()["error"]["message"].is_string());
    }
    for path in
        ["/api/next?k=%FF", "/api/runs", "/page/x", "/page/%2e%2e%2fCargo.toml", "/v1/completions", "//", "/%00"]
    {
        let status = server.get(path).status;
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    is_well(&server);
}

#[test]
fn odd_requests_that_make_sense_are_answered() {
    let server = Running::new();
    for body in [
        json!({}),
        json!({"prompt": ""}),
        json!({"prompt": "", "echo": true, "logprobs": 5, "max_tokens": 0}),
        json!({"prompt": [[]], "max_tokens": 1}),
        json!({"prompt": "\u{0}\u{202e} \u{3000} \r\n\t", "echo": true, "logprobs": 1}),
        json!({"prompt": "the", "max_tokens": 2.0, "temperature": 0, "top_p": 0, "user": "me", "logit_bias": {}, "suffix": null}),
        json!({"prompt": "the", "temperature": 1e-300, "top_k": 3}),
        json!({"prompt": "the", "temperature": 100, "seed": -5, "unk": true, "logprobs": 100}),
        json!({"prompt": vec!["the"; 50], "max_tokens": 3, "n": 2}),
    ] {
        server.complete(body);
    }
}

#[test]
fn what_is_not_http_does_no_harm() {
    let server = Running::new();
    let noise = Stream::new(5, Purpose::Words, 0);
    for number in 0..300u32 {
        let bytes: Vec<u8> = (0..64).flat_map(|i| noise.block(number * 64 + i)).flat_map(u32::to_le_bytes).collect();
        let length = bytes[0] as usize * 4;
        let mut stream = server.connect();
        let request = match number % 4 {
            0 => bytes[..length].to_vec(),
            1 => [b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", &bytes[..length], b"\r\n\r\n"].concat(),
            2 => post("/v1/completions", &bytes[..length]),
            // A body of JSON with one byte changed.
            _ => {
                let mut body =
                    br#"{"prompt": ["the cat", "a"], "max_tokens": 3, "logprobs": 2, "echo": true}"#.to_vec();
                let place = bytes[1] as usize % body.len();
                body[place] = bytes[2];
                post("/v1/completions", &body)
            }
        };
        let _ = stream.write_all(&request);
        // A whole request is always answered. What is none may be, or the connection ends.
        let whole = number % 4 >= 2;
        if !whole {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        match Response::read(&mut BufReader::new(stream)) {
            // Noise may be the value of a header, and a changed byte may leave a good request.
            Some(answer) if answer.status == 200 => assert!(number % 2 == 1, "{number}: {answer:?}"),
            Some(answer) => assert!((400..500).contains(&answer.status), "{number}: {answer:?}"),
            None => assert!(!whole, "{number} was not answered"),
        }
    }
    is_well(&server);
}
