//! The curves of a run for TensorBoard: one more reader of the run's events.
//!
//! TensorBoard reads *event files*: a row of *records*, each a protobuf message in a frame of lengths and checksums (see
//! `record`). What stands in the messages follows from `events.jsonl` alone, times included: TensorBoard wants one for
//! every point, and `Times` works them out from what the log says about times and speeds. So a file can be made at any
//! time, for a run that is over too, and is always the same.
//!
//! A run with curves for TensorBoard has a folder `tensorboard/` beside its `events.jsonl`; that the folder is there is
//! how `resume` knows. When a run is resumed, its log is cut back to the checkpoint. Then the old event file is emptied and
//! a new one is made from the log, so no step is there twice. A TensorBoard that is looking on meanwhile goes on too: the
//! new file's name comes after the old one's, its first event says that all begins anew, and the old file stays, empty,
//! because TensorBoard stumbles when the file that it is reading goes away.

mod record;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::protobuf::Message;
use bowline::error::{Error, Result};
use bowline::event::{Event, Progress};
use bowline::run::{LONGEST_LOG, RunFolder, Watch};
use bowline::storage::files::{self, Output};

/// TensorBoard reads the files that have this in their name.
const EVENT_FILE: &str = "events.out.tfevents.";

/// The end of the names of those that are ours to remove.
const OURS: &str = ".bowline";

/// What an event file begins with: the version of the format.
const VERSION: &str = "brain.Event:2";

/// The status of a session (`SessionLog`) that begins: what was read of its step (here 0) and later steps is void.
const SESSION_START: i64 = 1;

/// Somebody who watches a run and writes its curves for TensorBoard, beside another who watches it too.
pub struct TensorBoard<'a> {
    other: &'a mut dyn Watch,
    folder: RunFolder,
    /// Whether to begin with it; a run that has it already goes on with it.
    wanted: bool,
    curves: Option<EventFile>,
}

impl<'a> TensorBoard<'a> {
    /// Watches the run in `run` beside `other`. The curves are written if `wanted`, or if the run has them already.
    pub fn beside(other: &'a mut dyn Watch, run: &Path, wanted: bool) -> TensorBoard<'a> {
        TensorBoard { other, folder: RunFolder::new(run), wanted, curves: None }
    }

    fn follow(&mut self, event: &Event) -> Result<()> {
        if let Event::Start { .. } | Event::Resume { .. } = event {
            let folder = self.folder.tensorboard();
            self.curves = None;
            if self.wanted || folder.is_dir() {
                // The log has this event already.
                self.curves = Some(EventFile::of_log(&self.folder.events(), &folder)?);
            }
            return Ok(());
        }
        match &mut self.curves {
            Some(curves) => curves.add(event).and_then(|()| curves.flush()),
            None => Ok(()),
        }
    }
}

impl Watch for TensorBoard<'_> {
    fn begin(&mut self, run: &Path) -> Result<()> {
        if self.wanted {
            let folder = RunFolder::new(run).tensorboard();
            files::create_dir_all(&folder).map_err(Error::io(&folder, "create the folder"))?;
        }
        self.other.begin(run)
    }

    fn event(&mut self, event: &Event) {
        self.other.event(event);
        // The curves can be made from the log at any time: no reason for a training to end.
        if let Err(error) = self.follow(event) {
            self.curves = None;
            self.other.notice(&format!("the run continues without TensorBoard curves:\n{error}"));
        }
    }

    fn progress(&mut self, progress: &Progress) {
        self.other.progress(progress);
    }

    fn planned(&mut self, epochs: u32) {
        self.other.planned(epochs);
    }

    fn phase(&mut self, what: &str, share: f64) {
        self.other.phase(what, share);
    }

    fn notice(&mut self, text: &str) {
        self.other.notice(text);
    }

    fn stop(&self) -> bool {
        self.other.stop()
    }
}

/// Writes the curves of the run in `run`, as far as it has got, into `folder`, in place of those of an earlier call.
/// Returns the file.
pub fn convert(run: &Path, folder: &Path) -> Result<PathBuf> {
    let run = RunFolder::new(run);
    run.require()?;
    let mut file = EventFile::of_log(&run.events(), folder)?;
    file.flush()?;
    Ok(file.path)
}

/// An event file that is being written.
struct EventFile {
    path: PathBuf,
    out: BufWriter<Output>,
    times: Times,
}

impl EventFile {
    /// Makes the file of a whole log, in place of those of earlier calls.
    fn of_log(log: &Path, folder: &Path) -> Result<EventFile> {
        let events = read_log(log)?;
        files::create_dir_all(folder).map_err(Error::io(folder, "create the folder"))?;
        let number = 1 + empty_ours(folder)?;
        let start = events.iter().find_map(|event| match event {
            Event::Start { time, .. } => Some(*time),
            _ => None,
        });
        let path = folder.join(format!("{EVENT_FILE}{:010}.{number:06}{OURS}", start.unwrap_or(0)));
        let out = BufWriter::new(Output::create(&path).map_err(Error::io(&path, "create"))?);
        let mut file = EventFile { path, out, times: Times::default() };
        let began = || Message::new().double(1, start.unwrap_or(0) as f64);
        file.write(began().text(3, VERSION))?;
        file.write(began().message(7, Message::new().int(1, SESSION_START)))?;
        for event in &events {
            file.add(event)?;
        }
        file.flush()?;
        Ok(file)
    }

    /// Adds the points of an event.
    fn add(&mut self, event: &Event) -> Result<()> {
        let time = self.times.at(event);
        let (step, points) = points(event, self.times.step);
        if points.is_empty() {
            return Ok(());
        }
        let mut summary = Message::new();
        for (tag, value) in points {
            summary = summary.message(1, Message::new().text(1, tag).float(2, value as f32));
        }
        self.write(Message::new().double(1, time).int(2, step as i64).message(5, summary))
    }

    fn write(&mut self, event: Message<'_>) -> Result<()> {
        record::write(&mut self.out, &event).map_err(Error::io(&self.path, "write to"))
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(Error::io(&self.path, "write to"))
    }
}

/// The step and the points that an event adds to the curves; `last` is the step before it. A logged progress is never
/// that of an epoch's last step, so the two share a curve and have no step in common.
fn points(event: &Event, last: u64) -> (u64, Vec<(&'static str, f64)>) {
    match event {
        Event::Progress(p) => (
            p.step,
            vec![
                ("perplexity/train", p.perplexity),
                ("loss/train", p.loss),
                ("kl/train", p.kl),
                ("learning_rate", p.learning_rate),
                ("gradient_norm", p.gradient_norm),
                ("words_per_second", p.words_per_second),
            ],
        ),
        Event::Epoch(e) => (
            e.step,
            vec![
                ("perplexity/train", e.train),
                ("perplexity/valid", e.valid),
                ("loss/train", e.loss),
                ("kl/train", e.kl),
                ("learning_rate", e.learning_rate),
            ],
        ),
        Event::End { test, .. } => (last, vec![("perplexity/test", *test)]),
        Event::Start { .. } | Event::Resume { .. } | Event::Stop { .. } | Event::SecondTraining { .. } => {
            (last, Vec::new())
        }
    }
}

/// When things happened, in seconds since 1970: the log has the time of a start, a resume and an end, and in between the
/// speed and how long epochs took.
#[derive(Default)]
struct Times {
    now: f64,
    epoch_began: f64,
    words_per_step: f64,
    step: u64,
}

impl Times {
    /// The time of the next event.
    fn at(&mut self, event: &Event) -> f64 {
        match event {
            Event::Start { time, words, steps_per_epoch, .. } => {
                self.words_per_step = words[0] as f64 / (*steps_per_epoch).max(1) as f64;
                self.now = *time as f64;
                self.epoch_began = self.now;
            }
            Event::Resume { time, step, .. } => {
                self.now = self.now.max(*time as f64);
                self.epoch_began = self.now;
                self.step = *step;
            }
            Event::Progress(p) => {
                let words = p.step.saturating_sub(self.step) as f64 * self.words_per_step;
                if p.words_per_second > 0.0 {
                    self.now += words / p.words_per_second;
                }
                self.step = p.step;
            }
            Event::Epoch(e) => {
                self.now = self.now.max(self.epoch_began + e.seconds);
                self.epoch_began = self.now;
                self.step = e.step;
            }
            Event::Stop { time, .. } | Event::End { time, .. } => self.now = self.now.max(*time as f64),
            Event::SecondTraining { .. } => {}
        }
        self.now
    }
}

/// The events of a log. A last line without an end is one that is being written.
fn read_log(path: &Path) -> Result<Vec<Event>> {
    let bytes = files::read(path, LONGEST_LOG)?;
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    let lines = bytes[..whole].split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(index, line)| {
            serde_json::from_slice(line).map_err(|error| {
                let problem = format!("line {} is no event: {error}", index + 1);
                Error::run(path, problem, "use the file as Bowline wrote it, with a program of the same version")
            })
        })
        .collect()
}

/// Empties the event file of an earlier call, and removes those that were emptied before; returns the highest number
/// among them.
fn empty_ours(folder: &Path) -> Result<u32> {
    let mut highest = 0;
    for entry in fs::read_dir(folder).map_err(Error::io(folder, "look into"))? {
        let path = entry.map_err(Error::io(folder, "look into"))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(middle) = name.strip_prefix(EVENT_FILE).and_then(|name| name.strip_suffix(OURS)) else { continue };
        highest = highest.max(middle.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(0));
        if fs::metadata(&path).map_err(Error::io(&path, "read the size of"))?.len() == 0 {
            files::remove_file(&path).map_err(Error::io(&path, "remove"))?;
        } else {
            Output::create(&path).map_err(Error::io(&path, "empty"))?;
        }
    }
    Ok(highest)
}
