//! The access log: a line of JSON for each request that was answered.
//!
//! ```text
//! {"time":"2026-11-18T00:05:09.120Z","client":"127.0.0.1","method":"POST","path":"/v1/completions","status":200,"bytes":412,"ms":3.1}
//! ```
//!
//! The thread of the connections must not wait for a disk, so it only puts *entries* into a queue of [`QUEUE`]; a thread of the log
//! writes them. What finds the queue full, or cannot be written, is counted as lost, and requests go on.
//!
//! Texts are in bodies and after the question mark of a path; neither is logged. JSON escapes control characters, and what a client
//! made longer than [`LONGEST`] is cut.

use bowline::storage::files::Output;
use bowline::wording::calendar;
use serde_json::json;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Entries that wait to be written.
const QUEUE: usize = 4096;
/// Characters of a path or a method.
const LONGEST: usize = 512;

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Output,
    /// The end of a file.
    File(PathBuf),
}

/// A request and its answer.
#[derive(Debug)]
pub struct Entry {
    /// When the request had come.
    pub began: SystemTime,
    pub client: IpAddr,
    pub method: String,
    /// Without the query.
    pub path: String,
    pub status: u16,
    /// Bytes of the answer's body that the connection took.
    pub bytes: u64,
    /// From the request to the last byte of the answer.
    pub time: Duration,
}

/// The end of the queue that the connections see.
#[derive(Debug)]
pub struct AccessLog {
    queue: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

impl AccessLog {
    /// Opens the log and starts its thread, which ends when the log is dropped.
    pub fn start(target: LogTarget) -> bowline::Result<(AccessLog, JoinHandle<()>)> {
        let file = Target::open(target)?;
        let (queue, entries) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let thread = std::thread::Builder::new()
            .name("access log".to_owned())
            .spawn(move || write_all(file, &entries, &counter))
            .map_err(bowline::Error::io("the access log", "start a thread"))?;
        Ok((AccessLog { queue, lost }, thread))
    }

    /// Hands an entry over, without waiting.
    pub fn add(&self, mut entry: Entry) {
        entry.cut();
        if self.queue.try_send(entry).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Entries that are in no file.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Entry {
    /// Shortens what a client could make long: it waits in memory.
    fn cut(&mut self) {
        for text in [&mut self.method, &mut self.path] {
            if let Some((end, _)) = text.char_indices().nth(LONGEST) {
                text.truncate(end);
                text.shrink_to_fit();
            }
        }
    }

    /// The line, with its end.
    fn line(&self) -> String {
        let since = self.began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let [year, month, day, hour, minute, second] = calendar(since.as_secs());
        let (date, milliseconds) = (format!("{year:04}-{month:02}-{day:02}"), since.subsec_millis());
        let time = format!("{date}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z");
        let ms = (self.time.as_secs_f64() * 1e4).round() / 10.0;
        // One by one, so that the fields stand in this order.
        let fields = [
            ("time", json!(time)),
            ("client", json!(self.client)),
            ("method", json!(self.method)),
            ("path", json!(self.path)),
            ("status", json!(self.status)),
            ("bytes", json!(self.bytes)),
            ("ms", json!(ms)),
        ];
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}\n", fields.join(","))
    }
}

/// Writes entries as they come, until nobody can add any more.
fn write_all(mut target: Target, entries: &Receiver<Entry>, lost: &AtomicU64) {
    while let Ok(first) = entries.recv() {
        // Those that are there already go in the same call.
        let batch: Vec<Entry> = std::iter::once(first).chain(entries.try_iter().take(QUEUE)).collect();
        let text: String = batch.iter().map(Entry::line).collect();
        if target.write(text.as_bytes()).is_err() {
            lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }
}

/// What is written to.
enum Target {
    Output,
    File(PathBuf, Output),
}

impl Target {
    fn open(target: LogTarget) -> bowline::Result<Target> {
        match target {
            LogTarget::Output => Ok(Target::Output),
            LogTarget::File(path) => {
                let file = Output::extend(&path).map_err(bowline::Error::io(&path, "write"))?;
                Ok(Target::File(path, file))
            }
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Target::Output => {
                let mut out = io::stdout().lock();
                out.write_all(text)?;
                out.flush()
            }
            Target::File(path, file) => {
                // Whoever rotates logs moves the file away: what comes now belongs into a new one.
                if !is_at(file, path) {
                    *file = Output::extend(path)?;
                }
                file.write_all(text)
            }
        }
    }
}

/// Whether a file is still the one that has this name.
#[cfg(unix)]
fn is_at(file: &Output, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.file().metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Elsewhere an open file cannot be moved.
#[cfg(not(unix))]
fn is_at(_: &Output, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_whatever_a_client_sends() {
        let mut entry = Entry {
            began: UNIX_EPOCH + Duration::from_millis(1_794_783_067_045),
            client: "::1".parse().unwrap(),
            method: "GET".to_owned(),
            path: format!("/\n\u{1b}[2J\"{}", "x".repeat(2000)),
            status: 404,
            bytes: 17,
            time: Duration::from_micros(12_345),
        };
        entry.cut();
        let line = entry.line();
        let path = format!("/\\n\\u001b[2J\\\"{}", "x".repeat(LONGEST - 7));
        assert_eq!(
            line,
            format!(
                "{{\"time\":\"2026-11-15T22:51:07.045Z\",\"client\":\"::1\",\"method\":\"GET\",\"path\":\"{path}\",\
                 \"status\":404,\"bytes\":17,\"ms\":12.3}}\n"
            )
        );
    }
}
