//! Clients of all kinds, each a loop until the time is over.

use super::Dice;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the clients saw together.
#[derive(Default)]
pub struct Seen {
    pub asked: AtomicU64,
    pub right: AtomicU64,
    pub wrong: AtomicU64,
    pub refused: AtomicU64,
    pub broken: AtomicU64,
    pub attacks: AtomicU64,
}

/// A server to be asked, until it is enough.
pub struct Scene<'a> {
    pub address: &'a str,
    pub over: &'a AtomicBool,
    pub seen: &'a Seen,
    /// What the answers should be.
    pub expected: &'a str,
}

/// How a client asks.
#[derive(Clone, Copy)]
pub enum Manner {
    /// The next question as soon as there is an answer.
    AtOnce,
    /// A question each time that this has passed.
    Each(Duration),
    /// Few bytes at a time, out and in, as over a bad line.
    Slowly,
}

/// Few bytes at a time, with pauses.
struct BadLine(TcpStream);

const PIECE: usize = 64;
const PAUSE: Duration = Duration::from_millis(5);

impl Read for BadLine {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        std::thread::sleep(PAUSE);
        let most = bytes.len().min(PIECE);
        self.0.read(&mut bytes[..most])
    }
}

/// A question whose answer is always the same.
pub const QUESTION: &str = r#"{"prompt":"ba do fi","max_tokens":32,"seed":5,"logprobs":2,"temperature":0.8}"#;

fn request(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// Status and body of the next answer.
fn answer(reader: &mut impl BufRead) -> Result<(u16, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).context("no answer")?.parse()?;
    let mut length = None;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse()?);
        }
    }
    let mut body = vec![0; length.context("no length")?];
    reader.read_exact(&mut body)?;
    Ok((status, body))
}

fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(70)))?;
    Ok(stream)
}

/// The text and log-probabilities of an answer, which do not depend on when it was asked.
pub fn essence(body: &[u8]) -> Result<String> {
    let json: serde_json::Value = serde_json::from_slice(body)?;
    Ok(json["choices"].to_string())
}

/// Asks the one question once.
pub fn ask(address: &str) -> Result<(u16, Vec<u8>)> {
    let mut stream = connect(address)?;
    stream.write_all(&request("/v1/completions", QUESTION))?;
    answer(&mut BufReader::new(stream))
}

impl Scene<'_> {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    /// Asks and checks what comes, on one connection as long as it lasts; the latencies in milliseconds.
    pub fn good(&self, manner: Manner) -> Vec<f64> {
        let (mut latencies, mut next) = (Vec::new(), Instant::now());
        let slow = matches!(manner, Manner::Slowly);
        while self.goes_on() {
            let served = (|| -> Result<()> {
                let stream = connect(self.address)?;
                let mut writer = stream.try_clone()?;
                let line: Box<dyn Read> = if slow { Box::new(BadLine(stream)) } else { Box::new(stream) };
                let mut reader = BufReader::new(line);
                while self.goes_on() {
                    if let Manner::Each(interval) = manner {
                        std::thread::sleep(next.saturating_duration_since(Instant::now()));
                        // Who is late does not ask twice.
                        next = (next + interval).max(Instant::now());
                    }
                    let begin = Instant::now();
                    self.seen.asked.fetch_add(1, Ordering::Relaxed);
                    let question = request("/v1/completions", QUESTION);
                    let (first, rest) = question.split_at(if slow { PIECE } else { question.len() });
                    writer.write_all(first)?;
                    for piece in rest.chunks(PIECE) {
                        std::thread::sleep(PAUSE);
                        writer.write_all(piece)?;
                    }
                    match answer(&mut reader)? {
                        (200, body) => {
                            latencies.push(begin.elapsed().as_secs_f64() * 1e3);
                            let right = essence(&body)? == self.expected;
                            if right { &self.seen.right } else { &self.seen.wrong }.fetch_add(1, Ordering::Relaxed);
                        }
                        (503, _) => {
                            self.seen.refused.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(Duration::from_millis(50));
                        }
                        (status, _) => bail!("status {status}"),
                    }
                }
                Ok(())
            })();
            if served.is_err() && self.goes_on() {
                self.seen.broken.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        latencies
    }

    /// Does what good clients do not, one thing after the other.
    pub fn bad(&self, seed: u64) {
        let mut dice = Dice(seed);
        while self.goes_on() {
            self.seen.attacks.fetch_add(1, Ordering::Relaxed);
            // Whatever comes of it concerns only this one.
            let _ = self.attack((dice.unit() * 8.0) as usize, &mut dice);
        }
    }

    fn attack(&self, kind: usize, dice: &mut Dice) -> Result<()> {
        let mut stream = connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let pause = |dice: &mut Dice| std::thread::sleep(Duration::from_secs_f64(0.5 * dice.unit()));
        match kind {
            // A byte now and then.
            0 => {
                for byte in request("/v1/completions", QUESTION).chunks(1).take(40) {
                    stream.write_all(byte)?;
                    pause(dice);
                    if !self.goes_on() {
                        break;
                    }
                }
            }
            // Gone before the answer, or before the question is asked.
            1 => stream.write_all(&request("/v1/completions", QUESTION))?,
            2 => stream.write_all(&request("/v1/completions", QUESTION)[..60])?,
            // A long stream that nobody reads.
            3 => {
                let long = r#"{"prompt":"ba","max_tokens":900,"n":16,"logprobs":50,"stream":true,"temperature":2.0}"#;
                stream.write_all(&request("/v1/completions", long))?;
                std::thread::sleep(Duration::from_secs(3));
            }
            // A small question for a huge answer.
            4 => {
                let ids = "1,".repeat(16_000) + "1";
                let huge = format!(r#"{{"prompt":[{ids}],"max_tokens":0,"n":128,"echo":true,"logprobs":100}}"#);
                stream.write_all(&request("/v1/completions", &huge))?;
                stream.read_to_end(&mut Vec::new())?;
            }
            // No HTTP at all, no JSON at all, no end of headers.
            5 => stream.write_all(&[0xff; 4096])?,
            6 => {
                stream.write_all(&request("/v1/completions", &"[".repeat(100_000)))?;
                stream.read_to_end(&mut Vec::new())?;
            }
            _ => {
                for _ in 0..20 {
                    stream.write_all(&[b'x'; 4000])?;
                }
                pause(dice);
            }
        }
        Ok(())
    }
}
