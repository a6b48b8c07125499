//! The training loop: draw masks, forward, loss, backward, clip, step, event.

use super::agree::{self, Card, Opening};
use super::checkpoint::{self, Best, CurvePoint, Made, Position, Restored};
use super::clock::Clock;
use super::folder::RunFolder;
use super::log::Log;
use super::ranks::{self, Alone, Ranks};
use super::shards::{Shards, Wish};
use super::summary::{Summary, Timing};
use super::teacher::{self, Teachers};
use super::true_targets::TrueTargets;
use super::{RunConfig, check_length, describe, finish, init, kneser_ney, open_corpus, require_memory, rewrite, setup};
use crate::batch::{Ahead, Streams, Window};
use crate::characters::Spelling;
use crate::classes::WordClasses;
use crate::compute::Compute;
use crate::config::{Config, Selection, TargetSource, Training};
use crate::corpus::{Corpus, Ids};
use crate::error::{Error, Result};
use crate::eval::{Evaluation, Evaluator, Score};
use crate::event::{EpochEnd, Event, Progress};
use crate::model::{Masks, Network, Pass, Sampler, State, Use};
use crate::model_folder::{Contents, ModelFolder};
use crate::optim::{self, Optimizer, OptimizerKind, Place, ScheduleKind};
use crate::paper;
use crate::params::Params;
use crate::predictor::Shipped;
use crate::rng::{Purpose, Stream, unit};
use crate::storage::atomic;
use crate::topics::lda;
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

/// Starts a new run in an empty folder.
pub fn start(dir: &Path, config: &Config, session: Session, watch: &mut dyn Watch) -> Result<Outcome> {
    start_among(dir, config, session, &Alone, watch)
}

/// [`start`] with several processes, each of which calls this. The folder is that of rank 0, which alone touches it.
pub fn start_among(
    dir: &Path,
    config: &Config,
    session: Session,
    ranks: &dyn Ranks,
    watch: &mut dyn Watch,
) -> Result<Outcome> {
    let folder = RunFolder::new(dir);
    let prepare = || {
        config.validate()?;
        if ranks.leads() && folder.config().exists() {
            folder.create()?; // the error that names `resume`, before a long read of the corpus
        }
        open(config, session, ranks)
    };
    let card = |corpus: &Corpus| Card::new(config, session.isa, hashes(corpus));
    let mut corpus = agree::together(ranks, prepare(), card)?;
    if !ranks.leads() {
        let Opening::Checkpoint(bytes) = heard(ranks)? else { return Err(ended()) };
        let (file, config) = checkpoint::from_bytes(&folder, bytes)?;
        let restored = checkpoint::received(&folder, &file, &config, &corpus)?;
        drop(file);
        return Trainer::new(folder, &config, &corpus, session, ranks, Some(restored))?.run(watch);
    }
    let mut begin = || {
        let config = init::recorded(&teacher::recorded(config, &corpus.vocabulary)?, &corpus.vocabulary)?;
        folder.create()?;
        let lock = folder.lock()?;
        watch.begin(folder.dir())?;
        let text = config.to_toml()?;
        atomic::write(folder.config(), |out| out.write_all(text.as_bytes()))?;
        corpus.keep_ids(&folder.ids())?;
        Ok((config, lock))
    };
    let (config, _lock) = told(ranks, begin())?;
    let mut trainer = told(ranks, Trainer::new(folder, &config, &corpus, session, ranks, None))?;
    told(ranks, trainer.announce(watch))?;
    told(ranks, trainer.opening())?.tell(ranks)?;
    trainer.run(watch)
}

/// The text of a run, if this process can train on it.
fn open(config: &Config, session: Session, ranks: &dyn Ranks) -> Result<Corpus> {
    config.check_cpu(session.isa)?;
    if !config.shards.is_multiple_of(ranks.size()) {
        let (shards, size) = (config.shards, ranks.size());
        let problem = format!("{shards} {} cannot be divided among {size} ranks", plural(shards, "shard"));
        let advice = format!("a number of ranks that divides {shards}; a new run can have `--set shards={size}`");
        return Err(Error::config("shards", problem, advice));
    }
    let mut corpus = open_corpus(&config.data)?;
    check_length(config, &corpus)?;
    let (classes, words) = (config.network.classes, corpus.vocabulary.len());
    if classes > words {
        let problem = format!("{classes} classes cannot be made of the text's {words} different words");
        return Err(Error::config("network.classes", problem, format!("a number from 1 to {words}, or 0 for none")));
    }
    require_memory(config, corpus.vocabulary.len())?;
    if !ranks.leads() {
        // The file of a large text's ids is in the folder of rank 0.
        corpus.hold_ids()?;
    }
    Ok(corpus)
}

/// What rank 0 has come to; if that is an error, the others hear of it, and all have it.
fn told<T>(ranks: &dyn Ranks, mine: Result<T>) -> Result<T> {
    match mine {
        Err(error) if ranks.size() > 1 => {
            let why = error.to_string();
            Opening::Failed(why.clone()).tell(ranks)?;
            Err(Opening::failure(&why))
        }
        mine => mine,
    }
}

/// What the others hear.
fn heard(ranks: &dyn Ranks) -> Result<Opening> {
    match Opening::hear(ranks)? {
        Opening::Failed(why) => Err(Opening::failure(&why)),
        opening => Ok(opening),
    }
}

fn ended() -> Error {
    Error::ranks("rank 0 has nothing left to do, and another rank has", "the same command on every rank")
}

/// Goes on with a run from its last checkpoint.
pub fn resume(dir: &Path, session: Session, watch: &mut dyn Watch) -> Result<Outcome> {
    resume_among(dir, session, &Alone, watch)
}

/// [`resume`] with several processes, each of which calls this: as many as like, whatever their number was before. The folder
/// is that of rank 0, which alone touches it.
pub fn resume_among(dir: &Path, session: Session, ranks: &dyn Ranks, watch: &mut dyn Watch) -> Result<Outcome> {
    let folder = RunFolder::new(dir);
    if !ranks.leads() {
        let (file, config) = match heard(ranks)? {
            Opening::Checkpoint(bytes) => checkpoint::from_bytes(&folder, bytes)?,
            other => return finished(other),
        };
        let corpus = agree::together(ranks, open(&config, session, ranks), |corpus| {
            Card::new(&config, session.isa, hashes(corpus))
        })?;
        let restored = checkpoint::received(&folder, &file, &config, &corpus)?;
        drop(file);
        return Trainer::new(folder, &config, &corpus, session, ranks, Some(restored))?.run(watch);
    }
    let begin = || {
        folder.require()?;
        let lock = folder.lock()?;
        rewrite::mend(&folder)?;
        if ranks.size() > 1 && RunConfig::read(&folder.config())?.network().is_none() {
            let advice = format!("`bowline resume {}` alone", dir.display());
            return Err(Error::run(dir, "an n-gram model is estimated by one process", advice));
        }
        Ok(lock)
    };
    let _lock = told(ranks, begin())?;
    if let Some(outcome) = kneser_ney::resume(&folder, session, watch)? {
        return Ok(outcome);
    }
    let config = told(ranks, Config::read(&folder.config()))?;
    let mut corpus = told(ranks, open(&config, session, ranks))?;
    let restored = match told(ranks, restore(&folder, &config, &corpus, watch))? {
        Ok(restored) => restored,
        Err(summary) => {
            Opening::Over(serde_json::to_vec(&*summary).unwrap_or_default()).tell(ranks)?;
            return Ok(Outcome::Finished(summary));
        }
    };
    told(ranks, corpus.keep_ids(&folder.ids()))?;
    let mut trainer = told(ranks, Trainer::new(folder, &config, &corpus, session, ranks, restored))?;
    told(ranks, trainer.opening())?.tell(ranks)?;
    agree::together(ranks, Ok(()), |()| Card::new(&config, session.isa, hashes(&corpus)))?;
    trainer.announce(watch)?;
    trainer.run(watch)
}

/// The outcome of a run of which rank 0 says that it is over.
fn finished(opening: Opening) -> Result<Outcome> {
    let Opening::Over(summary) = opening else { return Err(ended()) };
    let summary = serde_json::from_slice(&summary).map_err(|_| ended())?;
    Ok(Outcome::Finished(Box::new(summary)))
}

/// The checkpoint to go on from, if there is one; or the summary of a run that has nothing left to do.
fn restore(
    folder: &RunFolder,
    config: &Config,
    corpus: &Corpus,
    watch: &mut dyn Watch,
) -> Result<std::result::Result<Option<Restored>, Box<Summary>>> {
    let spec = config.spec(corpus.vocabulary.len());
    let restored = checkpoint::restore(folder, &spec, config, corpus)?;
    if let Some(Restored { passed_over: Some(error), .. }) = &restored {
        // Damaged, it must not become the previous one in place of the good one that is used.
        atomic::set_aside(folder.last_checkpoint())?;
        watch.notice(&format!("using the previous checkpoint, because the last one cannot be read:\n{error}"));
    }
    match &restored {
        None => folder.require_nothing_to_lose()?,
        // What follows a training takes long; what has been found is not sought again.
        Some(Restored { position, .. }) if position.ended.is_some() && config.finish.predictor => {
            if let Ok(summary) = Summary::read(&folder.summary())
                && summary.predictor.is_some()
                && summary.steps == position.step
            {
                return Ok(Err(Box::new(summary)));
            }
        }
        Some(_) => {}
    }
    Ok(Ok(restored))
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

    /// Says what is going to happen. A new run saves its first checkpoint at once.
    fn announce(&mut self, watch: &mut dyn Watch) -> Result<()> {
        if self.resumed {
            let (step, epoch) = (self.position.step, self.position.epoch);
            let (epochs, over) = (self.config.total_epochs(), self.position.ended.is_some());
            return self.emit(Event::Resume { time: seconds_since_1970(), step, epoch, epochs, over }, watch);
        }
        let corpus = self.corpus;
        let streams = setup::streams(self.config, &corpus.train.ids, self.position.epoch);
        self.emit(
            Event::Start {
                time: seconds_since_1970(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                model: self.config.model.name().to_owned(),
                data: self.config.data.source.clone(),
                data_sha256: corpus.train.sha256.clone(),
                vocab: corpus.vocabulary.len(),
                words: corpus.tokens(),
                unseen: [corpus.valid.unseen, corpus.test.unseen],
                parameters: self.params.spec().parameters(),
                epochs: self.config.total_epochs(),
                steps_per_epoch: streams.windows(),
                memory: setup::memory(self.config, corpus.vocabulary.len()) as usize,
                machine: self.machine(),
            },
            watch,
        )?;
        if self.sampler.is_some() {
            let (some, all) = (self.config.loss.sampled, corpus.vocabulary.len());
            watch.notice(&format!(
                "training perplexities are estimated from about {some} of {all} words (loss.sampled), a little too low; \
                 those of the validation and the test are exact"
            ));
        }
        self.write()
    }

    /// All that another rank needs to take part.
    fn opening(&self) -> Result<Opening> {
        if self.ranks.size() == 1 {
            return Ok(Opening::Checkpoint(Vec::new()));
        }
        checkpoint::to_bytes(&self.folder, self.config, &self.made()).map(Opening::Checkpoint)
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

    /// What the validation perplexity of an epoch means for the learning rate and for averaging.
    fn heed(&mut self, better: bool) {
        let (schedule, optimizer) = (&self.config.schedule, &self.config.optimizer);
        let this_training = self.position.curve.iter().filter(|point| point.epoch >= self.position.first_epoch);
        let valid: Vec<f64> = this_training.map(|point| point.valid).collect();
        let waited = if schedule.improved(&valid, better) { 0 } else { self.position.waited + 1 };
        self.position.waited = waited;
        if schedule.kind == ScheduleKind::Plateau && self.position.waited >= schedule.patience {
            (self.position.drops, self.position.waited) = (self.position.drops + 1, 0);
        }
        let valid: Vec<f64> = self.position.curve.iter().map(|point| point.valid).collect();
        let averages = self.position.averages_since.is_some();
        if optimizer.kind == OptimizerKind::Asgd && !averages && optim::begins_to_average(&valid, optimizer.trigger) {
            self.position.averages_since = Some(self.position.step);
            self.average = Some(self.params.clone());
        }
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

    /// The validation split's score, of which each rank computes some streams; none if one of them was asked to stop.
    fn validate(&self, stop: &dyn Fn() -> bool) -> Result<Option<Score>> {
        let (ids, streams) = (&self.corpus.valid.ids, self.config.validation_streams);
        let some = ranks::parts(streams, self.ranks.size()).swap_remove(self.ranks.rank());
        let found = self.evaluator(streams).nll_of_streams(self.model(), ids, some, stop);
        let Some(nll) = agree::on_numbers(self.ranks, found)? else { return Ok(None) };
        let vocabulary = &self.corpus.vocabulary;
        Ok(Some(Evaluation::of(ids, &nll, vocabulary.unk(), vocabulary.eos(), streams).all))
    }

    /// Validates, keeps the model if it is the best so far, and decides what comes next; false if asked to stop before:
    /// then the position is still that of the epoch's last step, and going on from it validates anew.
    fn end_of_epoch(&mut self, watch: &mut dyn Watch) -> Result<bool> {
        let begin = Instant::now();
        let corpus = self.corpus;
        let Some(valid) = self.validate(&|| watch.stop())? else { return Ok(false) };
        self.clock.validation = begin.elapsed().as_secs_f64();
        self.require_finite(&[("the loss on the validation split", valid.nll)])?;
        let (epoch, valid, learning_rate) = (self.position.epoch, valid.perplexity, self.learning_rate());
        let (loss, train, kl) = self.means();
        let better = self.position.best.is_none_or(|best| valid < best.valid);
        let best = better || self.config.select == Selection::Last;
        self.position.curve.push(CurvePoint { epoch, train, valid, learning_rate });
        self.position.stale = if best { 0 } else { self.position.stale + 1 };
        self.heed(better);
        if best {
            self.position.best = Some(Best { epoch, valid });
            if self.ranks.leads() {
                self.save_best(None)?;
            }
        }
        let (step, seconds) = (self.position.step, self.clock.epoch.elapsed().as_secs_f64());
        let augments = self.config.augments(self.position.training());
        let target_kl = self.yardstick.as_ref().filter(|_| augments && self.ranks.leads()).map(|truth| {
            let tau = self.config.augment.tau;
            truth.divergence(&self.compute, self.model(), &corpus.valid.ids, tau)
        });
        let end = EpochEnd { epoch, step, loss, train, kl, target_kl, valid, best, learning_rate, seconds };
        self.emit(Event::Epoch(end), watch)?;

        self.position.epoch += 1;
        (self.position.window, self.position.words) = (0, 0);
        (self.position.ce, self.position.kl) = (0.0, 0.0);
        self.state.reset();
        let out_of_patience = self.config.patience > 0 && self.position.stale >= self.config.patience;
        let training = self.position.training();
        let over = epoch - self.position.first_epoch + 1 >= self.config.epochs_of(training);
        if over || out_of_patience {
            if training == Training::First && self.config.second_training_epochs > 0 {
                (self.position.first_epoch, self.position.stale) = (epoch + 1, 0);
                (self.position.drops, self.position.waited) = (0, 0);
                self.emit(Event::SecondTraining { epoch: epoch + 1 }, watch)?;
            } else {
                self.position.ended = Some(if over { "done" } else { "patience" }.to_owned());
            }
        }
        Ok(true)
    }

    /// Evaluates the best model with one stream and writes the summary; none if asked to stop before.
    fn finish(&mut self, watch: &mut dyn Watch) -> Result<Option<Summary>> {
        let folder = ModelFolder::load(self.folder.best())?;
        let (corpus, vocabulary) = (self.corpus, &self.corpus.vocabulary);
        let mut evaluator = self.evaluator(1);
        let (unk, eos) = (vocabulary.unk(), vocabulary.eos());
        let mut evaluate = |ids: &[u32]| {
            evaluator.evaluate_until(&folder.params, ids, unk, eos, &|| watch.stop()).map(|evaluation| evaluation.all)
        };
        let (Some(valid), Some(test)) = (evaluate(&corpus.valid.ids), evaluate(&corpus.test.ids)) else {
            return Ok(None);
        };
        (self.params, self.average) = (folder.params, None);
        let weights_sha256 = self.save_best(Some((valid.perplexity, test.perplexity)))?;
        let mut predictor = None;
        if self.config.finish.predictor {
            let (best, plain) = (self.folder.best(), [valid.perplexity, test.perplexity]);
            predictor = finish::fit((&best, plain), self.config, corpus, &self.compute, watch)?;
            if predictor.is_none() {
                return Ok(None);
            }
        }
        let best_epoch = self.position.best.map_or(0, |best| best.epoch);
        let ended = self.position.ended.clone().unwrap_or_default();
        let summary = Summary {
            model: self.config.model.name().to_owned(),
            size: self.config.size.name().to_owned(),
            data: self.config.data.source.clone(),
            data_sha256: hashes(corpus),
            seed: self.config.seed,
            parameters: self.params.spec().parameters(),
            epochs: self.position.epoch - 1,
            steps: self.position.step,
            ended: ended.clone(),
            best_epoch,
            valid: valid.perplexity,
            test: test.perplexity,
            tokens: [valid.tokens, test.tokens],
            weights_sha256,
            paper: paper::compare(self.config, valid.perplexity, test.perplexity),
            predictor,
            curve: self.position.curve.clone(),
            timing: Timing {
                seconds: self.clock.start.elapsed().as_secs_f64(),
                words_per_second: self.clock.words / self.clock.busy.max(1e-9),
                machine: self.machine(),
            },
        };
        let (valid, test) = (valid.perplexity, test.perplexity);
        self.emit(Event::End { time: seconds_since_1970(), reason: ended, best_epoch, valid, test }, watch)?;
        self.sync_log()?;
        // Last: where the summary is, the run is over.
        summary.save(&self.folder.summary())?;
        Ok(Some(summary))
    }

    fn evaluator(&self, streams: usize) -> Evaluator {
        Evaluator::new(self.params.spec(), self.compute.clone(), streams)
    }

    /// The weights that are the model: the last step's, or their running mean.
    fn model(&self) -> &Params {
        self.average.as_ref().unwrap_or(&self.params)
    }

    /// Writes the model as it is to `best/`; returns their content hash. The weights file does not change when the final
    /// figures come in: they are in the card alone.
    fn save_best(&self, result: Option<(f64, f64)>) -> Result<String> {
        let best = self.position.best.unwrap_or(Best { epoch: 0, valid: f64::NAN });
        let config = self.config;
        let vocabulary = self.corpus.vocabulary.to_text();
        Shipped::remove(&self.folder.best())?;
        ModelFolder::save(
            self.folder.best(),
            &Contents {
                model: config.model.name(),
                params: self.model(),
                vocabulary: &vocabulary,
                metadata: vec![
                    ("epoch".to_owned(), best.epoch.to_string()),
                    ("validation_perplexity".to_owned(), best.valid.to_string()),
                    ("tokenize".to_owned(), config.data.tokenize.to_string()),
                ],
                card: &describe::of(config, self.corpus, best, result),
            },
        )
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
