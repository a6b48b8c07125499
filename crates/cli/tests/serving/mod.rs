//! `bowline serve` as a process, and the plainest of HTTP clients.

// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A server at work, until it is dropped.
pub struct Serving {
    pub child: Child,
    /// `127.0.0.1:PORT`
    pub address: String,
}

impl Serving {
    /// Starts one at a free port and waits until it listens.
    pub fn new<S: AsRef<OsStr>>(models: &[&Path], options: impl IntoIterator<Item = S>) -> Serving {
        let mut command = super::common::bowline(["serve", "--port", "0", "--threads", "1"]);
        command.args(models).args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_suffix('/').and_then(|line| Some(line.split_once("http://")?.1.to_owned()));
        let Some(address) = address else {
            let _ = child.kill();
            let mut said = String::new();
            let _ = child.stderr.as_mut().unwrap().read_to_string(&mut said);
            panic!("the server did not start: {line} {said}");
        };
        Serving { child, address }
    }

    /// The JSON answer to a POST request, and its status.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        http(&self.address, "POST", path, Some(body))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request on a connection of its own: the status, and the JSON in the answer.
pub fn http(address: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let body = body.map_or(String::new(), Value::to_string);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n");
    stream.write_all(format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}").as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line).unwrap();
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap()
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    let json = serde_json::from_slice(&bytes);
    (status, json.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes))))
}
