//! Input read ahead by a separate thread: the caller takes the lines that have arrived and waits only for the first.

use bowline::score::Lines;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What is read ahead at most: lines, and bytes of them.
const MOST_LINES: usize = 2_000;
const MOST_BYTES: usize = 4 << 20;

/// What comes from the input.
pub enum Item {
    /// A line of the `source`-th file.
    Line { source: usize, number: usize, text: String },
    /// The `source`-th file is over.
    End { source: usize },
    /// It cannot be read any further.
    Failed(bowline::Error),
}

#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    bytes: usize,
    over: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, guard: MutexGuard<'a, Waiting>, until: impl Fn(&Waiting) -> bool) -> MutexGuard<'a, Waiting> {
        self.changed.wait_while(guard, |waiting| !until(waiting)).unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, item: Item) {
        let mut waiting =
            self.wait(self.lock(), |waiting| waiting.items.len() < MOST_LINES && waiting.bytes < MOST_BYTES);
        waiting.bytes += size(&item);
        waiting.items.push_back(item);
        self.changed.notify_all();
    }
}

fn size(item: &Item) -> usize {
    if let Item::Line { text, .. } = item { text.len() } else { 0 }
}

/// Files being read ahead.
pub struct ReadAhead {
    queue: Arc<Queue>,
}

impl ReadAhead {
    /// Starts to read files one after the other; `-` is standard input. That they are there is checked before.
    pub fn start(files: &[PathBuf]) -> bowline::Result<ReadAhead> {
        let inputs: Vec<Lines<BufReader<Box<dyn Read + Send>>>> =
            files.iter().map(|path| open(path)).collect::<bowline::Result<_>>()?;
        let queue = Arc::new(Queue::default());
        let ahead = ReadAhead { queue: Arc::clone(&queue) };
        std::thread::spawn(move || {
            read_all(inputs, &queue);
            queue.lock().over = true;
            queue.changed.notify_all();
        });
        Ok(ahead)
    }

    /// What has come, at most `most` items: at least one, unless the input is over.
    pub fn take(&self, most: usize) -> Vec<Item> {
        let mut waiting = self.queue.wait(self.queue.lock(), |waiting| waiting.over || !waiting.items.is_empty());
        let count = most.min(waiting.items.len());
        let items: Vec<Item> = waiting.items.drain(..count).collect();
        waiting.bytes -= items.iter().map(size).sum::<usize>();
        self.queue.changed.notify_all();
        items
    }
}

/// A file for reading line by line.
pub fn open(path: &Path) -> bowline::Result<Lines<BufReader<Box<dyn Read + Send>>>> {
    if path == Path::new("-") {
        return Ok(Lines::new(Path::new("standard input"), BufReader::new(Box::new(stdin()))));
    }
    let file = File::open(path).map_err(bowline::Error::io(path, "read"))?;
    Ok(Lines::new(path, BufReader::with_capacity(1 << 16, Box::new(file))))
}

fn read_all(inputs: Vec<Lines<BufReader<Box<dyn Read + Send>>>>, queue: &Queue) {
    for (source, mut lines) in inputs.into_iter().enumerate() {
        loop {
            match lines.next_line() {
                Ok(Some((number, text))) => queue.push(Item::Line { source, number, text }),
                Ok(None) => break,
                Err(error) => return queue.push(Item::Failed(error)),
            }
        }
        queue.push(Item::End { source });
    }
}
