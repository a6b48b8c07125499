//! The access log: a line for each request, in a file that may be moved away, and never in the way.

mod common;

use bowline_serve::{Limits, LogTarget, ServerOptions};
use common::{Response, Running, post};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufReader, Write};
use std::path::Path;
use std::time::{Duration, Instant};

fn logging_to(path: &Path) -> Running {
    Running::with(ServerOptions { access_log: Some(LogTarget::File(path.to_path_buf())), ..ServerOptions::default() })
}

/// The lines of a log, when there are so many.
fn lines(path: &Path, count: usize) -> Vec<Value> {
    let begin = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') && text.lines().count() >= count {
            return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{count} lines are expected, there is:\n{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_answer_has_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.jsonl");
    fs::write(&path, "{\"path\":\"before\"}\n").unwrap();
    let server = logging_to(&path);
    let mut expected = Vec::new();
    for path in ["/healthz", "/nothing%0a%22here?text=a+secret"] {
        let answer = server.get(path);
        let path = path.split('?').next().unwrap();
        expected.push(json!({"method": "GET", "path": path, "status": answer.status, "bytes": answer.body.len()}));
    }
    let mut stream = server.connect();
    for body in [json!({"prompt": "the cat", "max_tokens": 3}), json!({"prompt": "the cat", "stream": true}), json!(3)]
    {
        stream.write_all(&post("/v1/completions", body.to_string().as_bytes())).unwrap();
        let Response { status, body, .. } = Response::read(&mut BufReader::new(&stream)).unwrap();
        expected.push(json!({"method": "POST", "path": "/v1/completions", "status": status, "bytes": body.len()}));
    }
    server.stop();
    server.join();
    let mut found = lines(&path, 6);
    assert_eq!(found.remove(0)["path"], "before");
    for line in &mut found {
        let line = line.as_object_mut().unwrap();
        assert_eq!(line.remove("client").unwrap(), "127.0.0.1");
        assert!(line.remove("ms").unwrap().as_f64().unwrap() >= 0.0);
        assert_eq!(line.remove("time").unwrap().as_str().unwrap().len(), "2026-11-18T00:05:09.120Z".len());
    }
    assert_eq!(found, expected);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("secret") && !text.contains("the cat"), "{text}");
}

#[test]
fn a_request_without_an_answer_has_its_line_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.jsonl");
    let limits = Limits { connections: 1, ..Limits::default() };
    let access_log = Some(LogTarget::File(path.clone()));
    let server = Running::with(ServerOptions { access_log, limits, ..ServerOptions::default() });
    let mut slow = server.connect();
    slow.write_all(b"POST /api/next HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    // There is one place, and this one takes it.
    assert_eq!(server.get("/healthz").status, 200);
    let mut found: Vec<_> = lines(&path, 2).iter().map(|l| (l["path"].clone(), l["status"].clone())).collect();
    found.sort_by_key(|(path, _)| path.to_string());
    assert_eq!(found, [(json!("/api/next"), json!(499)), (json!("/healthz"), json!(200))]);
}

#[cfg(unix)]
#[test]
fn a_file_that_was_moved_away_is_followed_by_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("access.jsonl"), dir.path().join("access.jsonl.1"));
    let server = logging_to(&path);
    server.get("/healthz");
    lines(&path, 1);
    fs::rename(&path, &old).unwrap();
    server.get("/v1/models");
    assert_eq!(lines(&path, 1)[0]["path"], "/v1/models");
    assert_eq!(lines(&old, 1).len(), 1);
}

#[test]
fn a_log_that_cannot_be_written_is_an_error_before_anything_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nowhere/access.jsonl");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ServerOptions { access_log: Some(LogTarget::File(path.clone())), ..ServerOptions::default() };
    let error = bowline_serve::Server::new([common::model("one", 1)], listener, options).err().unwrap();
    assert!(error.to_string().starts_with(&format!("{}: cannot write: ", path.display())), "{error}");
}

/// A pipe that nobody reads takes 64 KiB, and then the log's thread waits. The requests do not.
#[cfg(unix)]
#[test]
fn requests_do_not_wait_for_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = std::thread::spawn({
        let path = path.clone();
        move || fs::File::open(path).unwrap()
    });
    let server = logging_to(&path);
    let reader = reader.join().unwrap();
    let mut stream = server.connect();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    // More than the pipe and the queue hold.
    for _ in 0..6000 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(Response::read(&mut answers).unwrap().status, 200);
    }
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    let lost = metrics.lines().find_map(|line| line.strip_prefix("bowline_access_log_lost_total ")).unwrap();
    assert!(lost.parse::<u64>().unwrap() > 500, "{metrics}");
    drop(reader);
}
