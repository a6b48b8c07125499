//! A small HTTP server on loopback that can misbehave in the ways that real ones do.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How one request is answered.
#[derive(Clone)]
pub struct Reply {
    pub status: &'static str,
    pub body: Vec<u8>,
    /// Whether a `Range` is honoured.
    pub ranges: bool,
    /// Whether the length is announced.
    pub length: bool,
    /// Close the connection after so many bytes of what should be sent.
    pub cut_after: Option<usize>,
    /// Wait so long before the body.
    pub stall: Duration,
    pub location: Option<String>,
    /// Claim that the range starts here.
    pub claimed_start: Option<usize>,
}

impl Reply {
    pub fn ok(body: impl Into<Vec<u8>>) -> Reply {
        Reply {
            status: "200 OK",
            body: body.into(),
            ranges: true,
            length: true,
            cut_after: None,
            stall: Duration::ZERO,
            location: None,
            claimed_start: None,
        }
    }

    pub fn status(status: &'static str) -> Reply {
        Reply { status, ..Reply::ok("<html>not what you want</html>") }
    }

    pub fn cut_after(self, bytes: usize) -> Reply {
        Reply { cut_after: Some(bytes), ..self }
    }
}

/// Serves until it is dropped. The replies of a path are used up in order; the last one stays.
pub struct Server {
    address: SocketAddr,
    replies: Arc<Mutex<HashMap<String, VecDeque<Reply>>>>,
    requests: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let replies: Arc<Mutex<HashMap<String, VecDeque<Reply>>>> = Arc::default();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let shared = (Arc::clone(&replies), Arc::clone(&requests), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let (replies, requests, stop) = shared;
            for connection in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                // A client that goes away in the middle is no fault of the server's.
                let _ = answer(connection.unwrap(), &replies, &requests);
            }
        });
        Server { address, replies, requests, stop, thread: Some(thread) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn on(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        self.replies.lock().unwrap().insert(path.to_owned(), replies.into_iter().collect());
    }

    /// The requests so far, each as its path and, where it has one, its range.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(
    mut connection: TcpStream,
    replies: &Mutex<HashMap<String, VecDeque<Reply>>>,
    requests: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut range = None;
    for line in lines {
        let line = line?.to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("range: ") {
            range = Some(value.to_owned());
        }
    }
    let range_text = range.as_ref().map(|range| format!(" {range}")).unwrap_or_default();
    requests.lock().unwrap().push(format!("{path}{range_text}"));
    let reply = {
        let mut replies = replies.lock().unwrap();
        match replies.get_mut(&path) {
            Some(queue) if queue.len() > 1 => queue.pop_front().unwrap(),
            Some(queue) => queue[0].clone(),
            None => Reply::status("404 Not Found"),
        }
    };

    let start = range.filter(|_| reply.ranges && reply.status == "200 OK").map(|range| {
        let start = range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')).unwrap();
        start.parse::<usize>().unwrap()
    });
    let (mut head, body) = match start {
        Some(start) if start >= reply.body.len() => ("HTTP/1.1 416 Range Not Satisfiable\r\n".to_owned(), &b""[..]),
        Some(start) => {
            let total = reply.body.len();
            let claimed = reply.claimed_start.unwrap_or(start);
            let head =
                format!("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {claimed}-{}/{total}\r\n", total - 1);
            (head, &reply.body[start..])
        }
        None => (format!("HTTP/1.1 {}\r\n", reply.status), &reply.body[..]),
    };
    if reply.length {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    if let Some(location) = &reply.location {
        head.push_str(&format!("Location: {location}\r\n"));
    }
    head.push_str("Connection: close\r\n\r\n");
    connection.write_all(head.as_bytes())?;
    connection.flush()?;
    std::thread::sleep(reply.stall);
    connection.write_all(&body[..reply.cut_after.unwrap_or(body.len()).min(body.len())])?;
    connection.flush()
}
