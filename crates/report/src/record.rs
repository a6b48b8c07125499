//! A run's folder as a reader of results sees it: finished or still going on.

use bowline::error::{Error, Result};
use bowline::event::{EpochEnd, Event, Progress};
use bowline::loaded_model::LoadedModel;
use bowline::paper::{self, Comparison, Expected};
use bowline::predictor::PredictorTable;
use bowline::run::{RunConfig, RunFolder, Summary};
use std::path::{Path, PathBuf};

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Over; there is a summary.
    Finished,
    /// In the middle of an epoch: the last that was heard of it.
    Within(Progress),
    /// Between two epochs, or at the very beginning.
    Between,
}

/// What the first line of the log says.
#[derive(Clone, Debug, PartialEq)]
pub struct Beginning {
    /// Seconds since 1970.
    pub time: u64,
    /// Version of the program.
    pub version: String,
    /// SHA-256 of the training split.
    pub data_sha256: String,
    /// Words in the vocabulary.
    pub vocab: usize,
    /// Words in the training, validation and test split.
    pub words: [usize; 3],
    /// Words of the validation and test split that the vocabulary lacks.
    pub unseen: [usize; 2],
    /// Trainable values.
    pub parameters: usize,
    /// Threads, instruction set, processor.
    pub machine: String,
}

/// The ways of predicting that `eval --all` measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What was measured.
    pub table: PredictorTable,
    /// Whether that was with other weights than are in the run's folder now.
    pub other_weights: bool,
}

impl Measured {
    fn read(folder: &RunFolder) -> Result<Option<Measured>> {
        let Some(table) = PredictorTable::load(folder.dir())? else { return Ok(None) };
        // Results are kept without their weights, too; then there is nothing to compare with.
        let now = LoadedModel::load(folder.best()).ok().map(|model| model.mark());
        Ok(Some(Measured { other_weights: now.is_some_and(|now| now != table.weights), table }))
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its folder.
    pub dir: PathBuf,
    /// What to call it: the folder's own name, or its path where several have the same.
    pub name: String,
    /// Its settings.
    pub config: RunConfig,
    /// How it began, if the log says so.
    pub beginning: Option<Beginning>,
    /// Seconds since 1970 at its end.
    pub end_time: Option<u64>,
    /// The epochs done so far.
    pub epochs: Vec<EpochEnd>,
    /// The first epoch of the second training, once there is one.
    pub second_training: Option<u32>,
    /// How often it was resumed.
    pub resumed: usize,
    /// How far it is.
    pub state: Stage,
    /// The result.
    pub summary: Option<Summary>,
    /// Its ways of predicting, if they were measured.
    pub predictors: Option<Measured>,
}

impl RunRecord {
    /// Reads a run's folder.
    pub fn read(dir: &Path) -> Result<RunRecord> {
        let folder = RunFolder::new(dir);
        folder.require()?;
        let config = RunConfig::read(&folder.config())?;
        let summary = if folder.summary().exists() { Some(Summary::read(&folder.summary())?) } else { None };
        let name =
            std::path::absolute(dir).ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let mut record = RunRecord {
            dir: dir.to_path_buf(),
            name: name.unwrap_or_else(|| dir.display().to_string()),
            config,
            beginning: None,
            end_time: None,
            epochs: Vec::new(),
            second_training: None,
            resumed: 0,
            state: if summary.is_some() { Stage::Finished } else { Stage::Between },
            summary,
            predictors: Measured::read(&folder)?,
        };
        for event in events(&folder.events())? {
            record.take(event);
        }
        Ok(record)
    }

    fn take(&mut self, event: Event) {
        let finished = self.summary.is_some();
        match event {
            Event::Start { time, version, data_sha256, vocab, words, unseen, parameters, machine, .. } => {
                self.beginning =
                    Some(Beginning { time, version, data_sha256, vocab, words, unseen, parameters, machine });
            }
            Event::Resume { .. } => self.resumed += 1,
            Event::Stop { .. } => {}
            Event::Progress(last) if !finished => self.state = Stage::Within(last),
            Event::Progress(_) => {}
            Event::Epoch(end) => {
                self.epochs.push(end);
                if !finished {
                    self.state = Stage::Between;
                }
            }
            Event::SecondTraining { epoch } => self.second_training = Some(epoch),
            Event::End { time, .. } => self.end_time = Some(time),
        }
    }

    /// The final perplexity on the validation split, or the best so far (which was measured with several streams).
    pub fn valid(&self) -> Option<f64> {
        let so_far = || self.epochs.iter().map(|epoch| epoch.valid).reduce(f64::min);
        self.summary.as_ref().map(|summary| summary.valid).or_else(so_far)
    }

    /// The final perplexity on the test split; none before the end.
    pub fn test(&self) -> Option<f64> {
        self.summary.as_ref().map(|summary| summary.test)
    }

    /// What the paper reports for such a run.
    pub fn expected(&self) -> Option<Expected> {
        let config = self.config.network()?;
        paper::expected(&config.data.source, config.size, config.model)
    }

    /// A finished run beside the paper.
    pub fn comparison(&self) -> Option<Comparison> {
        let summary = self.summary.as_ref()?;
        paper::compare(self.config.network()?, summary.valid, summary.test)
    }

    /// Seconds of the epochs, training and validation, as far as they were watched to their end.
    pub fn seconds(&self) -> f64 {
        self.epochs.iter().map(|epoch| epoch.seconds).sum()
    }

    /// How far it is, in words.
    pub fn progress(&self) -> String {
        let total = self.config.total_epochs();
        match (self.state, &self.summary) {
            (Stage::Finished, Some(summary)) => match summary.ended.as_str() {
                "patience" => format!("finished after {} of {total} epochs, out of patience", summary.epochs),
                _ if summary.epochs == 1 => "finished".to_owned(),
                _ => format!("finished, {} epochs", summary.epochs),
            },
            (Stage::Within(last), _) => {
                let percent = 100 * last.epoch_step / last.epoch_steps.max(1);
                format!("not finished: epoch {} of {total}, {percent}% done", last.epoch)
            }
            _ => format!("not finished: {} of {total} epochs done", self.epochs.len()),
        }
    }
}

/// Reads several runs. Those of the same name are called by their paths.
pub fn read_runs(dirs: &[PathBuf]) -> Result<Vec<RunRecord>> {
    let mut runs = dirs.iter().map(|dir| RunRecord::read(dir)).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    for (run, name) in runs.iter_mut().zip(&names) {
        if names.iter().filter(|other| *other == name).count() > 1 {
            run.name = run.dir.display().to_string();
        }
    }
    Ok(runs)
}

/// A log of more bytes than this is none of ours.
const LONGEST_LOG: u64 = 1 << 30;

/// The lines of a log. The last one may be half written, since a run can be at work on it; it is left out then.
fn events(path: &Path) -> Result<Vec<Event>> {
    let Some(bytes) = bowline::storage::files::read_if_there(path, LONGEST_LOG)? else { return Ok(Vec::new()) };
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let wrong = |line: usize, problem: String| {
        let advice = "restore the file as the run wrote it, or leave this run out";
        Error::run(path, format!("line {line}: {problem}"), advice)
    };
    let mut events = Vec::new();
    for (i, line) in bytes[..whole].split(|&byte| byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let event = serde_json::from_slice(line).map_err(|e| wrong(i + 1, format!("it is not an event: {e}")))?;
        events.push(event);
    }
    Ok(events)
}
