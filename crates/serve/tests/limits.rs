//! No client can take the server from the others.

mod common;

use bowline_serve::{Limits, ServerOptions};
use common::{Response, Running, post};
use serde_json::json;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// Returns when the first model has this many jobs.
#[track_caller]
fn wait_for_queue(server: &Running, jobs: usize) {
    let line = format!("bowline_queue_length{{model=\"one\"}} {jobs}\n");
    let begin = Instant::now();
    while !String::from_utf8(server.get("/metrics").body).unwrap().contains(&line) {
        assert!(begin.elapsed() < Duration::from_secs(20), "there never were {jobs} jobs");
    }
}

#[test]
fn a_long_body_is_refused_whether_it_says_so_or_not() {
    let server = Running::limited(Limits { body_bytes: 1000, ..Limits::default() });
    let answer = server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n");
    assert_eq!((answer.status, answer.json()["error"]["code"].as_u64()), (413, Some(413)));
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    let chunked =
        format!("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
    assert_eq!(server.raw(chunked.as_bytes()).status, 413);
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert_eq!(server.raw(head.as_bytes()).status, 431);
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_request_that_does_not_arrive_is_given_up() {
    let server = Running::limited(Limits { read_time: Duration::from_millis(300), ..Limits::default() });
    // A body that never comes.
    let answer = server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{");
    assert_eq!(answer.status, 408);
    // A head that never ends, and a connection on which nothing is said: closed.
    for beginning in [&b"GET / HTTP/1.1\r\nHost: loc"[..], b""] {
        let mut stream = server.connect();
        stream.write_all(beginning).unwrap();
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(ended.is_ok() || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    }
}

#[test]
fn silent_and_slow_connections_keep_nobody_out() {
    let limits = Limits { connections: 40, read_time: Duration::from_secs(60), ..Limits::default() };
    let server = Running::limited(limits);
    let mut slow: Vec<_> = (0..60).map(|_| server.connect()).collect();
    let idle: Vec<_> = (0..120).map(|_| server.connect()).collect();
    let head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n";
    for round in 0..5 {
        // Those that were closed to make room cannot write any more.
        slow.iter_mut().for_each(|stream| {
            let _ = stream.write_all(&head[round * 4..round * 4 + 4]);
        });
        for _ in 0..10 {
            server.complete(json!({"prompt": "the cat", "max_tokens": 1}));
        }
    }
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    let open: usize = metrics.lines().find_map(|l| l.strip_prefix("bowline_connections ")?.parse().ok()).unwrap();
    assert!(open <= 40, "{open} connections");
    drop(idle);
}

#[test]
fn a_full_queue_says_so() {
    let limits = Limits { queue: 1, tokens: 1 << 20, body_bytes: 8 << 20, ..Limits::default() };
    let server = Running::limited(limits);
    let long = json!({"prompt": vec!["the cat sat on the mat ".repeat(100); 50], "echo": true, "logprobs": 1, "max_tokens": 0});
    let answers: Vec<Response> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| server.post("/v1/completions", long.to_string()));
        let asking: Vec<_> = (0..24).map(|_| ask()).collect();
        asking.into_iter().map(|answer| answer.join().unwrap()).collect()
    });
    let refused: Vec<&Response> = answers.iter().filter(|answer| answer.status != 200).collect();
    assert!(refused.len() < answers.len(), "nobody was served");
    assert!(!refused.is_empty(), "nobody was refused");
    for answer in refused {
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
        assert_eq!(answer.json()["error"]["type"], "overloaded_error");
    }
    server.complete(json!({"prompt": "the"}));
    // An answer is sent a moment before its job is gone.
    wait_for_queue(&server, 0);
}

#[test]
fn an_answer_that_takes_too_long_is_given_up() {
    let limits =
        Limits { request_time: Duration::from_millis(1), tokens: 1 << 20, answer: 1 << 20, ..Limits::default() };
    let server = Running::limited(limits);
    let body =
        json!({"prompt": "the", "max_tokens": 1 << 19, "stop": "zebra", "n": 1, "temperature": 100.0, "top_k": 1});
    let answer = server.post("/v1/completions", body.to_string());
    // At top_k 1 the model may come to an end of the sentence in time; it is the same each time.
    assert!(matches!(answer.status, 200 | 503), "{answer:?}");
    let many = json!({"prompt": vec!["the cat ".repeat(500); 200], "echo": true, "logprobs": 1, "max_tokens": 0});
    assert_eq!(server.post("/v1/completions", many.to_string()).status, 503);
}

#[test]
fn several_requests_on_one_connection() {
    let server = Running::new();
    let mut stream = server.connect();
    let request = post("/v1/completions", br#"{"prompt": "the cat", "max_tokens": 1, "seed": 1}"#);
    // Sent all at once, answered one after the other.
    stream.write_all(&[&request[..], &request, &request].concat()).unwrap();
    let mut answers = BufReader::new(stream);
    let texts: Vec<_> = (0..3).map(|_| Response::read(&mut answers).unwrap().json()["choices"].clone()).collect();
    assert!(texts[0] == texts[1] && texts[1] == texts[2]);
}

#[test]
fn a_stop_lets_what_runs_come_to_its_end() {
    let server = Running::limited(Limits { tokens: 1 << 20, body_bytes: 8 << 20, ..Limits::default() });
    let body = json!({"prompt": vec!["the cat sat on the mat ".repeat(100); 100], "echo": true, "logprobs": 1, "max_tokens": 0});
    let mut busy = server.connect();
    busy.write_all(&post("/v1/completions", body.to_string().as_bytes())).unwrap();
    let idle = server.connect();
    // The job must have arrived before the end is asked for.
    wait_for_queue(&server, 1);
    server.stop();
    let answer = Response::read(&mut BufReader::new(busy)).expect("the running request is answered");
    assert_eq!(answer.status, 200);
    let address = server.address;
    server.join();
    assert!(std::net::TcpStream::connect(address).is_err());
    drop(idle);
}

#[test]
fn without_the_key_only_the_page_is_served() {
    let server = Running::with(ServerOptions { api_key: Some("sesame".into()), ..ServerOptions::default() });
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.get("/page/main.js").header("content-type"), Some("text/javascript; charset=utf-8"));
    let answer = server.get("/v1/models");
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")));
    let with_key = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sesame\r\n\r\n";
    assert_eq!(server.raw(with_key).status, 200);
    let foreign = b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer sesame\r\n\r\n";
    assert_eq!(server.raw(foreign).status, 403);
    let page = server.get("/");
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let html = String::from_utf8(page.body).unwrap();
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("style="), "{html}");
}
