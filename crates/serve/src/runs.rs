//! The curves of the runs in a folder, read while they train.
//!
//! A *run* is a folder with an `events.jsonl`, to which a training appends. The reader keeps what it has read and
//! where, so that a look costs what is new. A run that is resumed cuts its log back to a checkpoint and goes on from
//! there; the reader sees that the end it remembers is gone and reads that log again from its beginning.

use bowline::config::Config;
use bowline::event::Event;
use bowline::run::Summary;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// At most this many runs are shown, the latest.
const MOST_RUNS: usize = 100;
/// At most this many bytes of a log are read at a time; the next look reads on.
const MOST_BYTES: u64 = 16 << 20;
/// A line longer than this is no event.
const LONGEST_LINE: usize = 1 << 16;
/// So many of the last bytes read are remembered, to see whether they are still there.
const MEMORY: usize = 256;
/// At most so many points within epochs are kept for the curve.
const MOST_POINTS: usize = 600;

/// The runs of a folder.
#[derive(Debug)]
pub struct Runs {
    folder: PathBuf,
    logs: BTreeMap<String, Log>,
    /// Counts the looks that found something new.
    version: u64,
}

/// One run, as the page draws it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// Its folder's name.
    pub name: String,
    /// `vd-lstm`, `al`, `re` or `real`.
    pub model: String,
    /// The corpus.
    pub data: String,
    /// Words in its vocabulary: perplexities over different ones cannot be compared.
    pub vocabulary: usize,
    /// Epochs it will have.
    pub epochs: u32,
    /// Steps in an epoch.
    pub steps_per_epoch: usize,
    /// `running`, `done`, `stopped` by whoever started it, or `quiet` if nothing has been heard for longer than should be.
    pub state: &'static str,
    /// Seconds since the last word from it.
    pub quiet_seconds: u64,
    /// Words per second, lately.
    pub words_per_second: f64,
    /// Seconds to its end, as it said last.
    pub eta_seconds: f64,
    /// Where it is: epochs done, with a fraction.
    pub position: f64,
    /// The finished epochs: `[epoch, train, valid]`, perplexities.
    pub curve: Vec<[f64; 3]>,
    /// Within epochs: `[epoch with its fraction, training perplexity so far in the epoch]`.
    pub points: Vec<[f64; 2]>,
    /// The final perplexities, of the validation and test split.
    pub result: Option<[f64; 2]>,
    /// The same with the n-grams, cache and dynamic evaluation that are stored with the model.
    pub full: Option<[f64; 2]>,
}

#[derive(Debug, Default)]
struct Log {
    /// Bytes read.
    read: u64,
    /// The last of them.
    tail: Vec<u8>,
    /// What was read of a line that is not whole yet.
    rest: Vec<u8>,
    run: Run,
    /// Words of a training step, and seconds between two events, as far as they can be told.
    words_per_step: f64,
    interval: f64,
    last_step: u64,
    /// Whether its last word was that it was asked to stop.
    stopped: bool,
    /// Whether it may have another number of epochs than its log says, or a summary that has not been read.
    stale: bool,
    /// Of every so many points one is kept.
    stride: u64,
    seen_points: u64,
}

impl Runs {
    /// The runs in `folder`, which is read at the first look.
    pub fn new(folder: PathBuf) -> Runs {
        Runs { folder, logs: BTreeMap::new(), version: 0 }
    }

    /// Reads what is new. Returns a number that is another one whenever something is.
    pub fn look(&mut self) -> std::io::Result<u64> {
        let mut found: Vec<(SystemTime, String, PathBuf)> = Vec::new();
        let mut consider = |name: String, folder: &Path| {
            let path = folder.join("events.jsonl");
            if let Ok(metadata) = fs::metadata(&path)
                && metadata.is_file()
            {
                found.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), name, path));
            }
        };
        let own = self.folder.canonicalize().ok().and_then(|f| Some(f.file_name()?.to_string_lossy().into_owned()));
        consider(own.unwrap_or_else(|| "run".to_owned()), &self.folder);
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            consider(entry.file_name().to_string_lossy().into_owned(), &entry.path());
        }
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        found.truncate(MOST_RUNS);
        let before = self.logs.len();
        self.logs.retain(|name, _| found.iter().any(|(_, other, _)| other == name));
        let mut news = before != self.logs.len();
        for (modified, name, path) in found {
            let log = self.logs.entry(name.clone()).or_insert_with(|| Log::new(&name));
            // A log that cannot be read now may be readable at the next look; it must not hide the others.
            news |= log.read_on(&path).unwrap_or(false);
            let quiet = modified.elapsed().unwrap_or(Duration::ZERO).as_secs_f64();
            news |= log.set_state(quiet);
            log.look_beside(&path);
        }
        self.version += u64::from(news);
        Ok(self.version)
    }

    /// The runs by name.
    pub fn all(&self) -> Vec<&Run> {
        self.logs.values().map(|log| &log.run).filter(|run| !run.model.is_empty()).collect()
    }
}

impl Log {
    fn new(name: &str) -> Log {
        Log { run: Run { name: name.to_owned(), state: "quiet", ..Run::default() }, stride: 1, ..Log::default() }
    }

    /// Reads what has been appended; whether there was something.
    fn read_on(&mut self, path: &Path) -> std::io::Result<bool> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut news = false;
        if length < self.read || !self.remembers(&mut file)? {
            *self = Log::new(&self.run.name);
            news = true;
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.read))?;
        file.take((length - self.read).min(MOST_BYTES)).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(news);
        }
        self.read += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(MEMORY)..]);
        self.tail.drain(..self.tail.len().saturating_sub(MEMORY));
        self.rest.append(&mut bytes);
        let whole = self.rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        for line in lines.split(|&byte| byte == b'\n') {
            // A line that is no event is one of a newer version.
            if let Ok(event) = serde_json::from_slice::<Event>(line) {
                self.take(&event);
            }
        }
        if self.rest.len() > LONGEST_LINE {
            self.rest.clear();
        }
        Ok(true)
    }

    /// Whether the last bytes that were read are still where they were.
    fn remembers(&self, file: &mut File) -> std::io::Result<bool> {
        let mut now = vec![0; self.tail.len()];
        file.seek(SeekFrom::Start(self.read - self.tail.len() as u64))?;
        file.read_exact(&mut now)?;
        Ok(now == self.tail)
    }

    fn take(&mut self, event: &Event) {
        let run = &mut self.run;
        match event {
            Event::Start { model, data, epochs, steps_per_epoch, words, vocab, .. } => {
                run.vocabulary = *vocab;
                run.model.clone_from(model);
                run.data.clone_from(data);
                run.epochs = *epochs;
                run.steps_per_epoch = *steps_per_epoch;
                self.words_per_step = words[0] as f64 / (*steps_per_epoch).max(1) as f64;
            }
            Event::Progress(p) => {
                run.position = f64::from(p.epoch) - 1.0 + p.epoch_step as f64 / p.epoch_steps.max(1) as f64;
                run.words_per_second = p.words_per_second;
                run.eta_seconds = p.eta_seconds;
                let words = p.step.saturating_sub(self.last_step) as f64 * self.words_per_step;
                self.interval = words / p.words_per_second.max(1.0);
                self.last_step = p.step;
                self.seen_points += 1;
                if self.seen_points.is_multiple_of(self.stride) {
                    run.points.push([run.position, p.perplexity]);
                }
                if run.points.len() > MOST_POINTS {
                    // Half of them are enough, and half of those to come.
                    let mut number = 0;
                    run.points.retain(|_| {
                        number += 1;
                        number % 2 == 0
                    });
                    self.stride *= 2;
                }
            }
            Event::Epoch(e) => {
                run.position = f64::from(e.epoch);
                run.curve.push([f64::from(e.epoch), e.train, e.valid]);
                self.last_step = e.step;
            }
            Event::End { valid, test, .. } => {
                run.result = Some([*valid, *test]);
                run.eta_seconds = 0.0;
                self.stale = true;
            }
            Event::Stop { .. } => self.stopped = true,
            Event::Resume { .. } => (self.stopped, self.stale) = (false, true),
            Event::SecondTraining { .. } => {}
        }
    }

    /// Reads what the log does not tell: how many epochs a run has now that a new plan was made, and its result in full.
    fn look_beside(&mut self, log: &Path) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        if let Ok(config) = Config::read(&log.with_file_name("config.toml")) {
            self.run.epochs = config.total_epochs();
        }
        if self.run.result.is_some() {
            let summary = Summary::read(&log.with_file_name("summary.json"));
            self.run.full = summary.ok().and_then(|summary| summary.predictor).map(|with| with.full);
            // The summary follows the last event; a look in between comes again.
            self.stale = !log.with_file_name("summary.json").exists();
        }
    }

    /// Whether the state has changed.
    fn set_state(&mut self, quiet: f64) -> bool {
        let state = match self.run.result {
            Some(_) => "done",
            None if self.stopped => "stopped",
            None if quiet < 60.0 + 4.0 * self.interval => "running",
            None => "quiet",
        };
        self.run.quiet_seconds = quiet as u64;
        std::mem::replace(&mut self.run.state, state) != state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline::config::{ModelKind, Size, preset};
    use std::fs::OpenOptions;
    use std::io::Write;

    const START: &str = r#"{"event":"start","time":1,"version":"0","model":"re","data":"demo","data_sha256":"","vocab":9,"words":[800,9,9],"unseen":[0,0],"parameters":1,"epochs":4,"steps_per_epoch":10,"memory":1,"machine":""}"#;

    fn progress(epoch: u32, step: u64) -> String {
        format!(
            r#"{{"event":"progress","epoch":{epoch},"step":{step},"epoch_step":{},"epoch_steps":10,"loss":1.0,"perplexity":{step}.5,"kl":0.0,"learning_rate":1.0,"gradient_norm":1.0,"words_per_second":100.0,"eta_seconds":3.0}}"#,
            step - 10 * u64::from(epoch - 1)
        )
    }

    fn epoch(epoch: u32) -> String {
        format!(
            r#"{{"event":"epoch","epoch":{epoch},"step":{},"loss":1.0,"train":9.0,"kl":0.0,"valid":{epoch}.25,"best":true,"learning_rate":1.0,"seconds":1.0}}"#,
            10 * epoch
        )
    }

    fn append(path: &Path, text: &str) {
        OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_growing_log_is_read_on_and_a_cut_one_anew() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("a");
        fs::create_dir(&run).unwrap();
        let log = run.join("events.jsonl");
        let mut runs = Runs::new(dir.path().to_path_buf());
        let empty = runs.look().unwrap();
        assert!(runs.all().is_empty());

        append(&log, &format!("{START}\n{}\n{}", progress(1, 5), &epoch(1)[..20]));
        let first = runs.look().unwrap();
        assert_ne!(first, empty);
        assert_eq!(runs.all()[0].points, [[0.5, 5.5]]);
        assert!(runs.all()[0].curve.is_empty());
        assert_eq!((runs.all()[0].name.as_str(), runs.all()[0].state), ("a", "running"));
        assert_eq!(runs.look().unwrap(), first, "nothing is new");

        append(&log, &format!("{}\nnot an event\n{}\n", &epoch(1)[20..], progress(2, 14)));
        assert_ne!(runs.look().unwrap(), first);
        assert_eq!(runs.all()[0].curve, [[1.0, 9.0, 1.25]]);
        assert_eq!(runs.all()[0].position, 1.4);

        // Resumed: cut back to the first point, and already longer than before.
        fs::write(&log, format!("{START}\n{}\n", progress(1, 5))).unwrap();
        append(&log, &format!("{}\n{}\n{}\n{}\n", progress(1, 6), progress(1, 7), progress(1, 8), progress(1, 9)));
        runs.look().unwrap();
        assert_eq!(runs.all()[0].points.len(), 5);
        assert!(runs.all()[0].curve.is_empty());

        append(&log, "{\"event\":\"stop\",\"time\":2,\"step\":9,\"epoch\":1}\n");
        runs.look().unwrap();
        assert_eq!(runs.all()[0].state, "stopped");

        // A new plan has another number of epochs.
        let config = preset(Size::Small, ModelKind::Re, "demo").with(&["epochs=7".to_owned()]).unwrap();
        fs::write(run.join("config.toml"), config.to_toml().unwrap()).unwrap();
        append(&log, "{\"event\":\"resume\",\"time\":2,\"step\":9,\"epoch\":1}\n");
        runs.look().unwrap();
        assert_eq!((runs.all()[0].state, runs.all()[0].epochs), ("running", 7));

        append(&log, r#"{"event":"end","time":2,"reason":"done","best_epoch":1,"valid":3.5,"test":4.5}"#);
        append(&log, "\n");
        runs.look().unwrap();
        assert_eq!((runs.all()[0].state, runs.all()[0].result), ("done", Some([3.5, 4.5])));

        fs::remove_dir_all(&run).unwrap();
        runs.look().unwrap();
        assert!(runs.all().is_empty());
    }

    #[test]
    fn many_points_are_thinned_out() {
        let dir = tempfile::tempdir().unwrap();
        append(&dir.path().join("events.jsonl"), &format!("{START}\n"));
        let lines: String = (1..=5000).map(|step| progress(1, step) + "\n").collect();
        append(&dir.path().join("events.jsonl"), &lines);
        let mut runs = Runs::new(dir.path().to_path_buf());
        runs.look().unwrap();
        let points = &runs.all()[0].points;
        assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&points.len()), "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a[0] < b[0]));
        assert!(points.last().unwrap()[0] > 495.0);
    }
}
