//! The training loop: draw masks, forward, loss, backward, clip, step, event.

mod begin;
mod end;

pub use begin::{resume, resume_among, start, start_among};

use super::agree::Opening;
use super::checkpoint::{self, Made, Position, Restored};
use super::clock::Clock;
use super::folder::RunFolder;
use super::log::Log;
use super::ranks::Ranks;
use super::shards::{Shards, Wish};
use super::summary::Summary;
use super::teacher::Teachers;
use super::true_targets::TrueTargets;
use super::{init, setup};
use crate::batch::{Ahead, Streams, Window};
use crate::characters::Spelling;
use crate::classes::WordClasses;
use crate::compute::Compute;
use crate::config::{Config, TargetSource};
use crate::corpus::{Corpus, Ids};
use crate::error::{Error, Result};
use crate::event::{Event, Progress};
use crate::model::{Masks, Network, Pass, Sampler, State, Use};
use crate::optim::{self, Optimizer, Place};
use crate::params::Params;
use crate::rng::{Purpose, Stream, unit};
use crate::topics::lda;
use begin::{finished, heard, told};
use bowline_demo::Truth;
use bowline_kernels::{Isa, Team, model_name};
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Progress events per epoch in the log.
const LOGGED_PER_EPOCH: usize = 20;

/// Somebody who watches a run.
pub trait Watch {
    /// A new run has its folder, but nothing in it that would make it a run.
    fn begin(&mut self, _run: &Path) -> Result<()> {
        Ok(())
    }
    /// A line has been added to the log.
    fn event(&mut self, event: &Event);
    /// A step has been done.
    fn progress(&mut self, progress: &Progress);
    /// The number of epochs was changed on the way.
    fn planned(&mut self, _epochs: u32) {}
    /// Work after the training: what is being done, and the share of it that is done.
    fn phase(&mut self, _what: &str, _share: f64) {}
    /// Something a person should know that is not part of the log.
    fn notice(&mut self, text: &str);
    /// Whether to save and stop. Asked several times a step.
    fn stop(&self) -> bool;
}

/// How a call of [`start`] or [`resume`] ended.
#[derive(Debug)]
pub enum Outcome {
    /// The run is over.
    Finished(Box<Summary>),
    /// It was asked to stop; everything is saved.
    Stopped(Box<Position>),
}

/// How this process works on a run. The number of threads changes no result; another instruction set rounds differently.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Threads to use.
    pub threads: usize,
    /// Instruction set to use.
    pub isa: Isa,
}

/// A run at work.
struct Trainer<'a> {
    folder: RunFolder,
    config: &'a Config,
    corpus: &'a Corpus,
    compute: Compute,
    ranks: &'a dyn Ranks,
    network: Network,
    shards: Shards<'a>,
    params: Params,
    /// The running mean of the weights, where that is the model.
    average: Option<Params>,
    optimizer: Optimizer,
    gradient: Params,
    state: State,
    /// The state before the step under way, for a stop in the middle of it.
    state_before: State,
    masks: Masks,
    position: Position,
    /// Windows of the epoch under way.
    windows: usize,
    resumed: bool,
    /// Rank 0 has it.
    log: Option<Log>,
    clock: Clock,
    /// What the words of the training text were drawn from, where that is `y~`.
    true_targets: Option<TrueTargets>,
    /// The same of the validation text, to measure an estimated `y~` by.
    yardstick: Option<TrueTargets>,
    /// The models that say what `y~` is, where they do.
    teachers: Option<Teachers>,
    /// Draws the words of each window's loss, where it is not over all.
    sampler: Option<Sampler>,
}

impl<'a> Trainer<'a> {
    fn new(
        folder: RunFolder,
        config: &'a Config,
        corpus: &'a Corpus,
        session: Session,
        ranks: &'a dyn Ranks,
        restored: Option<Restored>,
    ) -> Result<Trainer<'a>> {
        let spec = config.spec(corpus.vocabulary.len());
        let compute = Compute::new(Arc::new(Team::new(session.threads)), session.isa);
        let rounded = compute.clone().at(config.precision.into());
        let longest = setup::streams(config, &corpus.train.ids, 1).longest();
        let network = Network::new(&spec, rounded, Use::Train, longest, config.batch / config.shards);
        let resumed = restored.is_some();
        let (params, average, optimizer, state, position) = match restored {
            Some(r) => (r.params, r.average, r.optimizer, r.state, r.position),
            None => {
                let position =
                    Position { epoch: 1, first_epoch: 1, data_sha256: hashes(corpus), ..Position::default() };
                let mut params = setup::initial(config, corpus.vocabulary.len());
                init::begin(config, &corpus.vocabulary, &mut params)?;
                setup::constrain(config, &compute, &mut params);
                if let Some(characters) = &spec.input.characters {
                    params.set_spelling(Spelling::of(characters, &corpus.vocabulary));
                }
                if let (Some(classes), Some(counts)) = (spec.output.classes, corpus.vocabulary.counts()) {
                    params.set_classes(WordClasses::of(classes, counts));
                }
                if config.network.topics {
                    let (ids, eos, vocab) = (corpus.train_ids()?, corpus.vocabulary.eos(), corpus.vocabulary.len());
                    params.set_topics(lda::fit(&ids, eos, vocab, &config.topics, config.seed));
                }
                let average = (config.average > 0.0).then(|| params.clone());
                let optimizer = Optimizer::new(&config.optimizer, &params);
                (params, average, optimizer, State::zeros(&spec, config.batch), position)
            }
        };
        let log = ranks.leads().then(|| Log::open(&folder.events(), position.log)).transpose()?;
        let augmented = config.augmented() && config.data.source == "demo";
        let truth = augmented.then(Truth::new);
        let train = truth.as_ref().map(|_| corpus.train_ids()).transpose()?.unwrap_or_default();
        let targets_of = |source: TargetSource, ids: &[u32]| {
            let truth = truth.as_ref().filter(|_| config.augment.target == source);
            truth.map(|truth| TrueTargets::new(truth, &corpus.vocabulary, ids)).transpose()
        };
        Ok(Trainer {
            true_targets: targets_of(TargetSource::Truth, &train)?,
            yardstick: targets_of(TargetSource::Embedding, &corpus.valid.ids)?,
            teachers: Teachers::new(config, corpus, &compute)?,
            sampler: setup::sampler(config, &corpus.vocabulary),
            shards: Shards::new(ranks, &spec, (config.batch, config.shards)),
            ranks,
            gradient: params.zeros_like(),
            state_before: state.clone(),
            masks: Masks::new(&spec, config.batch),
            clock: Clock::new(),
            folder,
            config,
            corpus,
            compute,
            network,
            params,
            average,
            optimizer,
            state,
            position,
            windows: 1,
            resumed,
            log,
        })
    }

    fn run(mut self, watch: &mut dyn Watch) -> Result<Outcome> {
        let corpus = self.corpus;
        while self.position.ended.is_none() {
            let streams = setup::streams(self.config, &corpus.train.ids, self.position.epoch);
            let stopped = !self.epoch(&streams, watch)? || !self.end_of_epoch(watch)?;
            self.save()?;
            if stopped {
                return self.stopped(watch);
            }
        }
        // What is evaluated here is in `best/` already, and the checkpoint says that the training is over.
        if !self.ranks.leads() {
            return match heard(self.ranks)? {
                Opening::Checkpoint(_) => self.stopped(watch),
                over => finished(over),
            };
        }
        let summary = told(self.ranks, self.finish(watch))?;
        let bytes = summary.as_ref().map(|summary| serde_json::to_vec(summary).unwrap_or_default());
        bytes.map_or(Opening::Checkpoint(Vec::new()), Opening::Over).tell(self.ranks)?;
        Ok(match summary {
            Some(summary) => Outcome::Finished(Box::new(summary)),
            None => return self.stopped(watch),
        })
    }

    /// Writes that the run was stopped to the log, behind what the checkpoint keeps of it.
    fn stopped(mut self, watch: &mut dyn Watch) -> Result<Outcome> {
        let (step, epoch) = (self.position.step, self.position.epoch);
        self.emit(Event::Stop { time: seconds_since_1970(), step, epoch }, watch)?;
        self.sync_log()?;
        Ok(Outcome::Stopped(Box::new(self.position)))
    }

    /// Trains to the end of the epoch; false if asked to stop before.
    fn epoch(&mut self, streams: &Streams<'_, Ids>, watch: &mut dyn Watch) -> Result<bool> {
        let windows = streams.windows();
        self.windows = windows;
        let log_every = windows.div_ceil(LOGGED_PER_EPOCH);
        let (mut window, mut ahead) = (Window::default(), Ahead::default());
        self.clock.epoch = Instant::now();
        while self.position.window < windows {
            streams.read_ahead(self.position.window, &mut window, &mut ahead)?;
            let begin = Instant::now();
            if !self.give_targets(streams, &window, watch)? {
                return Ok(false);
            }
            let Some((norm, wish)) = self.step(&window, watch)? else {
                return Ok(false);
            };
            self.clock.tick(begin.elapsed().as_secs_f64(), window.inputs.len() as f64);
            let progress = self.progress(norm, windows);
            watch.progress(&progress);
            if self.position.window.is_multiple_of(log_every) && self.position.window < windows {
                self.emit(Event::Progress(progress), watch)?;
            }
            if wish.stop {
                return Ok(false);
            }
            if wish.save {
                self.save()?;
            }
        }
        Ok(true)
    }

    /// Where `y~` is the truth, or the teachers', lays it beside the words of the window; false if asked to stop before.
    fn give_targets(&mut self, streams: &Streams<'_, Ids>, window: &Window, watch: &dyn Watch) -> Result<bool> {
        if !self.config.augments(self.position.training()) {
            return Ok(true);
        }
        let (rows, vocab) = (window.targets.len(), self.params.spec().vocab);
        if let Some(teachers) = &mut self.teachers {
            let place = (self.position.epoch, self.position.window);
            return teachers.fill(streams, place, self.network.given_targets(rows), &|| watch.stop());
        }
        if let Some(targets) = &self.true_targets {
            for (row, y) in self.network.given_targets(rows).chunks_exact_mut(vocab).enumerate() {
                targets.fill(streams.target_position(self.position.window, row), self.config.augment.tau, y);
            }
        }
        Ok(true)
    }

    /// One training step. Returns the gradient's norm and what the ranks wish, or nothing if asked to stop in the middle: then
    /// all is as before. Several ranks do not stop in the middle, but together after the step.
    fn step(&mut self, window: &Window, watch: &dyn Watch) -> Result<Option<(f64, Wish)>> {
        let (config, step) = (self.config, self.position.step);
        self.state_before.copy_from(&self.state);
        self.forget();
        let masks = if config.keep.0 < 1.0 {
            self.masks.draw(config.seed, step, config.keep);
            Some(&self.masks)
        } else if !config.masks.is_off() {
            self.masks.draw_by_site(&config.masks, self.params.spec(), window, (config.seed, step));
            Some(&self.masks)
        } else {
            None
        };
        let augment = config.augmented_loss(self.position.training(), step, self.params.spec().vocab);
        let sample = self.sampler.as_mut().map(|sampler| sampler.draw(&self.compute.team, step, &window.targets));
        let pass = Pass { masks, augment, activity: config.activity(), sample, ..Pass::default() };
        self.network.pack_masked(&self.params, Use::Train, pass);
        let stop = || self.ranks.size() == 1 && watch.stop();
        let (read, gradient) = ((window, &mut self.state), &mut self.gradient);
        if !self.shards.gradient(&mut self.network, &self.params, read, pass, gradient, &stop)? {
            self.state.copy_from(&self.state_before);
            return Ok(None);
        }
        let save = self.clock.checkpoint.elapsed().as_secs_f64() >= config.checkpoint.every_seconds;
        let (loss, wish) = self.shards.agree(Wish { stop: self.ranks.size() > 1 && watch.stop(), save })?;
        let touched = self.network.touched();
        let norm = optim::norm_touched(&self.compute, &self.gradient, touched);
        self.require_finite(&[("the loss", loss.ce + loss.kl), ("the gradient", norm)])?;
        let mut rate = self.learning_rate();
        if config.streams.random_length {
            rate *= window.steps as f64 / config.unroll as f64;
        }
        self.position.optimizer_steps += 1;
        let rule = (config.rule(rate), self.position.optimizer_steps);
        self.optimizer.step_touched(&self.compute, &mut self.params, (&self.gradient, touched), norm, rule);
        setup::constrain(self.config, &self.compute, &mut self.params);
        self.position.step += 1;
        if let Some(average) = &mut self.average {
            let step = self.position.step;
            match self.position.averages_since {
                Some(since) => optim::average_all(&self.compute, average, &self.params, step - since),
                None => optim::average(&self.compute, average, &self.params, step, self.config.average),
            }
        }
        self.position.window += 1;
        self.position.ce += loss.ce;
        self.position.kl += loss.kl;
        self.position.words += window.inputs.len() as u64;
        Ok(Some((norm, wish)))
    }

    /// An error for the first value that is no number.
    fn require_finite(&self, values: &[(&'static str, f64)]) -> Result<()> {
        match values.iter().find(|(_, value)| !value.is_finite()) {
            None => Ok(()),
            Some(&(what, _)) => Err(Error::Diverged {
                what,
                step: self.position.step,
                epoch: self.position.epoch,
                advice: "a lower `--set learning_rate=...`, or a smaller `--set clip=...`".to_owned(),
            }),
        }
    }

    /// Lets some of the streams forget what they have read, where the settings want it so.
    fn forget(&mut self) {
        let probability = self.config.streams.reset;
        if probability == 0.0 {
            return;
        }
        let stream = Stream::new(self.config.seed, Purpose::Reset, self.position.step);
        for row in 0..self.config.batch {
            if f64::from(unit(stream.block(row as u32 / 4)[row % 4])) < probability {
                self.state.reset_row(row);
            }
        }
    }

    fn learning_rate(&self) -> f64 {
        let position = &self.position;
        let epochs_done = position.epoch - position.first_epoch;
        let of_epoch = position.window as f64 / self.windows.max(1) as f64;
        self.config.schedule().at(Place {
            epoch: epochs_done + 1,
            step: u64::from(epochs_done) * self.windows as u64 + position.window as u64,
            done: (f64::from(epochs_done) + of_epoch) / f64::from(self.config.epochs_of(position.training()).max(1)),
            drops: position.drops,
        })
    }

    /// Mean loss, perplexity and KL of the epoch so far.
    fn means(&self) -> (f64, f64, f64) {
        let words = self.position.words.max(1) as f64;
        let (ce, kl) = (self.position.ce / words, self.position.kl / words);
        let augment = self.config.augmented_loss(self.position.training(), 0, self.params.spec().vocab);
        let (cross, alpha) = augment.map_or((1.0, 0.0), |a| (f64::from(a.cross), f64::from(a.gamma * a.tau)));
        (cross * ce + alpha * kl, ce.exp(), kl)
    }

    fn progress(&self, gradient_norm: f64, epoch_steps: usize) -> Progress {
        let (loss, perplexity, kl) = self.means();
        let position = &self.position;
        let epochs_after = f64::from(self.config.total_epochs().saturating_sub(position.epoch));
        let steps_left = (epoch_steps - position.window) as f64 + epochs_after * epoch_steps as f64;
        let after = if self.config.finish.predictor { self.config.finish.seconds } else { 0.0 };
        let words_left = steps_left * (self.config.batch * self.config.unroll) as f64;
        Progress {
            epoch: position.epoch,
            step: position.step,
            epoch_step: position.window,
            epoch_steps,
            loss,
            perplexity,
            kl,
            learning_rate: self.learning_rate(),
            gradient_norm,
            words_per_second: self.clock.speed,
            eta_seconds: words_left / self.clock.speed.max(1e-9) + (epochs_after + 1.0) * self.clock.validation + after,
        }
    }

    /// The weights that are the model: the last step's, or their running mean.
    fn model(&self) -> &Params {
        self.average.as_ref().unwrap_or(&self.params)
    }

    /// Writes a checkpoint of the present position, with the state of all streams: each rank has that of its own.
    fn save(&mut self) -> Result<()> {
        self.shards.collect(&mut self.state)?;
        self.clock.checkpoint = Instant::now();
        if self.ranks.leads() { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.position.log = self.sync_log()?;
        checkpoint::save(&self.folder, self.config, &self.made())?;
        self.clock.checkpoint = Instant::now();
        Ok(())
    }

    fn made(&self) -> Made<'_> {
        let Trainer { params, optimizer, state, position, .. } = self;
        Made { params, average: self.average.as_ref(), optimizer, state, position }
    }

    fn emit(&mut self, event: Event, watch: &mut dyn Watch) -> Result<()> {
        if let Some(log) = &mut self.log {
            log.write(&event)?;
            watch.event(&event);
        }
        Ok(())
    }

    fn sync_log(&mut self) -> Result<u64> {
        self.log.as_mut().map_or(Ok(0), Log::sync)
    }

    fn machine(&self) -> String {
        let (threads, ranks) = (self.compute.team.threads(), self.ranks.size());
        let of_ranks = if ranks > 1 { format!("{ranks} ranks of ") } else { String::new() };
        format!("{of_ranks}{threads} {}, {}, {}", plural(threads, "thread"), self.compute.isa.name(), model_name())
    }
}

/// SHA-256 of the three splits.
pub(super) fn hashes(corpus: &Corpus) -> [String; 3] {
    corpus.sha256()
}

/// `one` or several of them.
fn plural(n: usize, one: &str) -> String {
    if n == 1 { one.to_owned() } else { format!("{one}s") }
}

pub(super) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
