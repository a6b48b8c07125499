//! How much a running server can take: many clients ask for the log-probabilities of the sentences of a text, each on a
//! connection of its own, and the time until each answer is measured.
//!
//! `cargo run --release -p bowline-serve --example load -- 127.0.0.1:8080 TEXT [CLIENTS] [SENTENCES] [TOP]`
//!
//! SENTENCES is how many go into one request, TOP how many of the likeliest words are asked for beside each word.

use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What one client saw.
#[derive(Default)]
struct Seen {
    latencies: Vec<Duration>,
    tokens: usize,
    logprob: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, text, ..] = &arguments[..] else {
        return Err("give an address and a text; see the head of load.rs".into());
    };
    let number = |at: usize, usual: usize| arguments.get(at).map_or(Ok(usual), |text| text.parse());
    let (clients, sentences, top) = (number(2, 64)?, number(3, 1)?, number(4, 0)?);
    let lines = std::fs::read_to_string(text)?;
    let lines: Vec<String> = lines.lines().map(|line| format!("{line}\n")).collect();
    let requests: Vec<Vec<u8>> = lines.chunks(sentences.max(1)).map(|lines| request(address, lines, top)).collect();
    let next = AtomicUsize::new(0);
    let begin = Instant::now();
    let seen: Result<Vec<Seen>, String> = std::thread::scope(|scope| {
        let client = || scope.spawn(|| client(address, &requests, &next).map_err(|error| error.to_string()));
        let clients: Vec<_> = (0..clients).map(|_| client()).collect();
        clients.into_iter().map(|client| client.join().map_err(|_| "a client panicked".to_owned())?).collect()
    });
    let seen = seen?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut latencies: Vec<Duration> = seen.iter().flat_map(|seen| &seen.latencies).copied().collect();
    latencies.sort();
    let percentile = |p: usize| latencies[(latencies.len() - 1) * p / 100].as_secs_f64() * 1e3;
    let tokens: usize = seen.iter().map(|seen| seen.tokens).sum();
    let logprob: f64 = seen.iter().map(|seen| seen.logprob).sum();
    let answer = json!({
        "clients": clients, "requests": latencies.len(), "tokens": tokens, "logprob": logprob, "seconds": seconds,
        "tokens_per_second": tokens as f64 / seconds, "p50_ms": percentile(50), "p99_ms": percentile(99),
    });
    writeln!(std::io::stdout(), "{answer}")?;
    Ok(())
}

fn request(address: &str, lines: &[String], top: usize) -> Vec<u8> {
    let body = json!({"prompt": lines, "echo": true, "logprobs": top, "max_tokens": 0}).to_string();
    let length = body.len();
    let head = format!("POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
    (head + &body).into_bytes()
}

/// Takes requests until there are no more.
fn client(address: &str, requests: &[Vec<u8>], next: &AtomicUsize) -> Result<Seen, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let (mut seen, mut bodies) = (Seen::default(), Vec::new());
    while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
        let begin = Instant::now();
        stream.write_all(request)?;
        bodies.push(answer(&mut answers)?);
        seen.latencies.push(begin.elapsed());
    }
    // What was answered is looked at afterwards: the server should have the processor to itself.
    for body in bodies {
        let answer: Value = serde_json::from_slice(&body)?;
        for choice in answer["choices"].as_array().ok_or("no choices")? {
            let logprobs = choice["logprobs"]["token_logprobs"].as_array().ok_or("no log-probabilities")?;
            seen.tokens += logprobs.len();
            seen.logprob += logprobs.iter().filter_map(Value::as_f64).sum::<f64>();
        }
    }
    Ok(seen)
}

fn answer(stream: &mut impl BufRead) -> Result<Vec<u8>, Box<dyn Error>> {
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200 ") {
        return Err(format!("the server answered {line}").into());
    }
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}
