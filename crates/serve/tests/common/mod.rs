//! A server with small models on a port of its own, and a client that says exactly what it is told to.

// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use bowline::loaded_model::LoadedModel;
use bowline::params::Params;
use bowline::predictor::Ensemble;
use bowline::rng::{Purpose, Stream, unit};
use bowline::spec::ModelSpec;
use bowline::vocabulary::Vocabulary;
use bowline_serve::{Limits, Server, ServerOptions, StopHandle};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// The words of the models.
pub const WORDS: &str = "the <unk> <eos> cat dog sat on mat ran fast . slow a hat";

/// A model whose weights are chance.
pub fn model(name: &str, seed: u64) -> LoadedModel {
    let text = WORDS.replace(' ', "\n") + "\n";
    let vocabulary = Vocabulary::from_text(Path::new("vocab.txt"), text.as_bytes()).unwrap();
    let mut params = Params::zeros(&ModelSpec::paper(vocabulary.len(), 12, 2, seed.is_multiple_of(2)));
    Stream::new(seed, Purpose::Weights, 0).fill(params.data_mut(), |r| 2.0 * unit(r) - 1.0);
    LoadedModel::network(name, "re", params, vocabulary)
}

/// A server at work, until it is dropped.
pub struct Running {
    pub address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn new() -> Running {
        Running::with(ServerOptions::default())
    }

    pub fn limited(limits: Limits) -> Running {
        Running::with(ServerOptions { limits, ..ServerOptions::default() })
    }

    pub fn with(options: ServerOptions) -> Running {
        Running::serving([model("one", 1), model("two", 2)], ServerOptions { threads: 1, ..options })
    }

    pub fn serving(models: impl IntoIterator<Item = impl Into<Ensemble>>, options: ServerOptions) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server::new(models, listener, options).unwrap();
        let (address, stop) = (server.address().unwrap(), server.stop_handle());
        let thread = std::thread::spawn(move || server.run().unwrap());
        Running { address, stop, thread: Some(thread) }
    }

    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Waits for its end, after [`Running::stop`].
    pub fn join(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes and reads one answer.
    pub fn raw(&self, bytes: &[u8]) -> Response {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        Response::read(&mut BufReader::new(stream)).expect("an answer")
    }

    pub fn get(&self, path: &str) -> Response {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
    }

    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Response {
        self.raw(&post(path, body.as_ref()))
    }

    /// The JSON answer to a completions request that must succeed.
    #[track_caller]
    pub fn complete(&self, body: Value) -> Value {
        let answer = self.post("/v1/completions", body.to_string());
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.json()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

/// The bytes of a POST request on a connection that goes on.
pub fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// What a server says.
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {}", self.status, self.headers, String::from_utf8_lossy(&self.body))
    }
}

impl Response {
    /// The next answer on a connection; `None` where the connection ends instead.
    pub fn read(stream: &mut impl BufRead) -> Option<Response> {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let mut answer = Response { status, headers, body: Vec::new() };
        if let Some(length) = answer.header("content-length") {
            answer.body.resize(length.parse().unwrap(), 0);
            stream.read_exact(&mut answer.body).ok()?;
        } else if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                line.clear();
                stream.read_line(&mut line).ok()?;
                let length = usize::from_str_radix(line.trim_end(), 16).ok()?;
                let mut chunk = vec![0; length + 2];
                stream.read_exact(&mut chunk).ok()?;
                answer.body.extend_from_slice(&chunk[..length]);
                if length == 0 {
                    break;
                }
            }
        }
        Some(answer)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
