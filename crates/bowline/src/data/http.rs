//! One download from one address into one file, going on where an earlier one stopped.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::http::StatusCode;
use ureq::http::header::{CONTENT_RANGE, HeaderMap, RANGE};

use crate::Error;
use crate::storage::files::{self, Output};

/// Why a download did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The mirror cannot be reached at all: there is no point in asking it for another file.
    Unreachable(String),
    /// The mirror does not have the file, has another one, or broke off.
    Mirror(String),
    /// This machine is at fault (a full disk, say): another mirror would not help.
    Local(Error),
}

/// What is known beforehand about the size.
#[derive(Clone, Copy)]
pub(super) enum Size {
    /// It must be this.
    Exactly(u64),
    /// It must not be above this.
    AtMost(u64),
}

impl Size {
    fn limit(self) -> u64 {
        match self {
            Size::Exactly(bytes) | Size::AtMost(bytes) => bytes,
        }
    }
}

/// What makes the requests. Nothing may take longer than `patience` without a byte coming in.
pub(super) fn agent(patience: Duration, use_proxy: bool) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("bowline/", env!("CARGO_PKG_VERSION")))
        // A compressed answer would have another length and could not be continued.
        .accept_encoding("identity")
        .timeout_resolve(Some(patience))
        .timeout_connect(Some(patience))
        .timeout_send_request(Some(patience))
        .timeout_recv_response(Some(patience))
        .timeout_per_read(Some(patience));
    if !use_proxy {
        config = config.proxy(None);
    }
    config.build().new_agent()
}

/// Downloads `url` to the end of `part`, which may hold the beginning of it already. Calls `progress` with the bytes
/// that are there and the bytes there will be. If the connection breaks, `part` keeps what came.
///
/// Returns whether the file was continued: if it then turns out to be wrong, its old beginning may be at fault.
pub(super) fn download(
    agent: &Agent,
    url: &str,
    part: &Path,
    size: Size,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<bool, Failure> {
    let have = match fs::metadata(part) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(Failure::Local(Error::io(part, "look at")(error))),
    };
    match size {
        Size::Exactly(bytes) if have == bytes => return Ok(true),
        _ if have > 0 && have < size.limit() => {}
        _ => return request(agent, url, part, 0, size, progress).map(|_| false),
    }
    match request(agent, url, part, have, size, progress)? {
        Reply::Complete { continued } => Ok(continued),
        Reply::NotThatRange => request(agent, url, part, 0, size, progress).map(|_| false),
    }
}

enum Reply {
    Complete { continued: bool },
    NotThatRange,
}

fn request(
    agent: &Agent,
    url: &str,
    part: &Path,
    have: u64,
    size: Size,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Reply, Failure> {
    let mut request = agent.get(url);
    if have > 0 {
        request = request.header(RANGE, format!("bytes={have}-"));
    }
    let mut response = request.call().map_err(|error| Failure::Unreachable(reason(error)))?;
    let start = match response.status() {
        StatusCode::OK => 0,
        StatusCode::PARTIAL_CONTENT if have > 0 && range_start(response.headers()) == Some(have) => have,
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => return Ok(Reply::NotThatRange),
        status => return Err(Failure::Mirror(format!("the server answered {status}"))),
    };
    let total = response.body().content_length().map(|length| start.saturating_add(length));
    match (total, size) {
        (Some(total), Size::Exactly(bytes)) if total != bytes => {
            return Err(Failure::Mirror(format!("another file: {total} bytes instead of {bytes}")));
        }
        (Some(total), Size::AtMost(bytes)) if total > bytes => {
            return Err(Failure::Mirror(format!("too large: {total} bytes, and {bytes} are allowed")));
        }
        _ => {}
    }

    let local = |error| Failure::Local(Error::io(part, "write")(error));
    let mut file = open(part, start).map_err(local)?;
    let mut body = response.body_mut().as_reader();
    let mut buffer = vec![0; 1 << 16];
    let mut done = start;
    progress(done, total);
    loop {
        let count = match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let why = reason(error.into());
                return Err(Failure::Mirror(format!("the connection broke after {done} bytes: {why}")));
            }
        };
        done += count as u64;
        if done > size.limit() {
            drop(file);
            files::remove_file(part).map_err(local)?;
            return Err(Failure::Mirror(format!("another file: more than {} bytes", size.limit())));
        }
        file.write_all(&buffer[..count]).map_err(local)?;
        progress(done, total);
    }
    let missing = match size {
        Size::Exactly(bytes) => done < bytes,
        Size::AtMost(_) => total.is_some_and(|total| done < total),
    };
    if missing {
        return Err(Failure::Mirror(format!("the file ended early, after {done} bytes")));
    }
    Ok(Reply::Complete { continued: start > 0 })
}

/// The file to be continued at `start`, which is its length or 0.
fn open(part: &Path, start: u64) -> io::Result<Output> {
    if start > 0 { Output::append(part) } else { Output::create(part) }
}

/// The first byte of a `Content-Range: bytes 100-199/200`.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    value.strip_prefix("bytes ")?.split_once('-')?.0.trim().parse().ok()
}

/// An error of the network in a few words, the same on every system for the usual ones.
fn reason(error: ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        ureq::Error::HostNotFound => "the host is not known; is there a network?".to_owned(),
        ureq::Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                "closed by the other side".to_owned()
            }
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer in time".to_owned(),
            _ => error.to_string(),
        },
        error => error.to_string(),
    }
}
