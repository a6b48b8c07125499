//! `bowline serve` as people start and stop it.

#![cfg(unix)]

mod common;
mod serving;

use common::{Ended, Place, bowline, finish};
use serde_json::{Value, json};
use serving::{Serving, http};
use std::fs;
use std::io::Read;
use std::process::Command;

#[test]
fn its_log_probabilities_are_those_of_score() {
    let place = Place::new();
    let run = place.trained("run");
    let server = Serving::new(&[&run], [] as [&str; 0]);
    let mut command = bowline(["score", "--format", "json", "--threads", "1"]);
    let scored = finish(command.arg(&run).arg(place.path("corpus/test.txt"))).success();
    let lines = fs::read_to_string(place.path("corpus/test.txt")).unwrap();
    let prompts: Vec<String> = lines.lines().map(|line| format!("{line}\n")).collect();
    let body = json!({"prompt": prompts, "echo": true, "logprobs": 0, "max_tokens": 0, "model": "run"});
    let (status, answer) = server.post("/v1/completions", &body);
    assert_eq!(status, 200, "{answer}");
    let mut compared = 0;
    for (line, choice) in scored.stdout.lines().zip(answer["choices"].as_array().unwrap()) {
        let score: Value = serde_json::from_str(line).unwrap();
        assert_eq!(score["logprobs"], choice["logprobs"]["token_logprobs"]);
        compared += 1;
    }
    assert_eq!(compared, prompts.len());
}

#[test]
fn a_polite_kill_ends_it_in_order() {
    let place = Place::new();
    let run = place.trained("run");
    let mut server = Serving::new(&[&run], [] as [&str; 0]);
    let (status, models) = http(&server.address, "GET", "/v1/models", None);
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("run")));
    let kill = Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let code = server.child.wait().unwrap().code();
    let mut said = String::new();
    server.child.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said, "finishing what is running; press Ctrl-C again to quit at once\n");
}

#[test]
fn what_cannot_be_served_is_said() {
    let place = Place::new();
    let run = place.trained("run");
    let refused = |options: &[&str]| -> Ended { finish(bowline(["serve", "--port", "0"]).arg(&run).args(options)) };
    let check = |options: &[&str], problem: &str, advice: &str| place.check_error(&refused(options), problem, advice);
    check(
        &["--host", "0.0.0.0"],
        "--host 0.0.0.0: other machines could use this server, and there is no key",
        "--api-key-file FILE with a secret in it, or --host 127.0.0.1",
    );
    let key = place.path("key");
    fs::write(&key, "two\nlines\n").unwrap();
    check(
        &["--api-key-file", key.to_str().unwrap()],
        "DIR/key: the key must be one line of plain ASCII characters",
        "`openssl rand -hex 32 > FILE`",
    );
    check(
        &["--runs", "/nowhere/at/all"],
        "/nowhere/at/all: there is no such folder",
        "--runs with the folder that holds your runs",
    );
    check(
        &["--host", "nowhere.invalid"],
        "--host nowhere.invalid: this is not an address of this machine",
        "127.0.0.1, ::1 or 0.0.0.0",
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = refused(&["--port", &port]);
    assert_eq!(ended.code, Some(2), "a port given twice: {ended:?}");
    let ended = finish(bowline(["serve", "--port", &port]).arg(&run));
    assert!(ended.error().starts_with(&format!("127.0.0.1:{port}: cannot listen: ")), "{ended:?}");

    // With the key in a file, without its line end, another address is fine.
    fs::write(&key, "sesame\n").unwrap();
    let server = Serving::new(&[&run], ["--host", "0.0.0.0", "--api-key-file", key.to_str().unwrap()]);
    let address = server.address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(http(&address, "GET", "/v1/models", None).0, 401);
}
