//! The training loop: draw masks, forward, loss, backward, clip, step, event.

use super::checkpoint::{self, Best, CurvePoint, Position, Restored};
use super::clock::Clock;
use super::folder::RunFolder;
use super::log::Log;
use super::summary::{Summary, Timing};
use super::true_targets::TrueTargets;
use super::{check_length, describe, kneser_ney, memory, open_corpus, setup};
use crate::batch::{Streams, Window};
use crate::config::{Config, Selection, TargetSource, Training};
use crate::corpus::{Corpus, Split};
use crate::error::{Error, Result};
use crate::eval::Evaluator;
use crate::event::{EpochEnd, Event, Progress};
use crate::model::{Masks, Network, State, Use};
use crate::model_folder::{Contents, ModelFolder};
use crate::optim;
use crate::paper;
use crate::params::Params;
use crate::storage::atomic;
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
    Stopped(Position),
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
    config.validate()?;
    config.check_cpu(session.isa)?;
    let folder = RunFolder::new(dir);
    if folder.config().exists() {
        folder.create()?; // the error that names `resume`, before a long read of the corpus
    }
    let corpus = open_corpus(&config.data)?;
    check_length(config, &corpus)?;
    memory::require(setup::memory(config, corpus.vocabulary.len()), memory::available())?;
    folder.create()?;
    let _lock = folder.lock()?;
    watch.begin(folder.dir())?;
    let text = config.to_toml()?;
    atomic::write(folder.config(), |out| out.write_all(text.as_bytes()))?;
    Trainer::new(folder, config, &corpus, session, None)?.run(watch)
}

/// Goes on with a run from its last checkpoint.
pub fn resume(dir: &Path, session: Session, watch: &mut dyn Watch) -> Result<Outcome> {
    let folder = RunFolder::new(dir);
    folder.require()?;
    let _lock = folder.lock()?;
    if let Some(outcome) = kneser_ney::resume(&folder, session, watch)? {
        return Ok(outcome);
    }
    let config = Config::read(&folder.config())?;
    config.check_cpu(session.isa)?;
    let corpus = open_corpus(&config.data)?;
    check_length(&config, &corpus)?;
    memory::require(setup::memory(&config, corpus.vocabulary.len()), memory::available())?;
    let architecture = config.architecture(corpus.vocabulary.len());
    let restored = checkpoint::restore(&folder, architecture, &config, &corpus)?;
    if let Some(Restored { passed_over: Some(error), .. }) = &restored {
        // Damaged, it must not become the previous one in place of the good one that is used.
        atomic::set_aside(folder.last_checkpoint())?;
        watch.notice(&format!("going on from the checkpoint before the last one, because of this:\n{error}"));
    }
    if restored.is_none() {
        folder.require_nothing_to_lose()?;
    }
    Trainer::new(folder, &config, &corpus, session, restored)?.run(watch)
}

/// A run at work.
struct Trainer<'a> {
    folder: RunFolder,
    config: &'a Config,
    corpus: &'a Corpus,
    session: Session,
    team: Arc<Team>,
    network: Network,
    params: Params,
    /// The running mean of the weights, where that is the model.
    average: Option<Params>,
    gradient: Params,
    state: State,
    /// The state before the step under way, for a stop in the middle of it.
    state_before: State,
    masks: Masks,
    position: Position,
    resumed: bool,
    log: Log,
    clock: Clock,
    /// What the words of the training text were drawn from, where that is `y~`.
    true_targets: Option<TrueTargets>,
    /// The same of the validation text, to measure an estimated `y~` by.
    yardstick: Option<TrueTargets>,
}

impl<'a> Trainer<'a> {
    fn new(
        folder: RunFolder,
        config: &'a Config,
        corpus: &'a Corpus,
        session: Session,
        restored: Option<Restored>,
    ) -> Result<Trainer<'a>> {
        let architecture = config.architecture(corpus.vocabulary.len());
        let team = Arc::new(Team::new(session.threads));
        let network =
            Network::new(architecture, Arc::clone(&team), session.isa, Use::Train, config.unroll, config.batch)
                .with_precision(config.precision.into());
        let resumed = restored.is_some();
        let (params, average, state, position) = match restored {
            Some(restored) => (restored.params, restored.average, restored.state, restored.position),
            None => {
                let position =
                    Position { epoch: 1, first_epoch: 1, data_sha256: hashes(corpus), ..Position::default() };
                let mut params = setup::initial(config, corpus.vocabulary.len());
                setup::constrain(config, &team, session.isa, &mut params);
                let average = (config.average > 0.0).then(|| params.clone());
                (params, average, State::zeros(architecture, config.batch), position)
            }
        };
        let log = Log::open(&folder.events(), position.log)?;
        let augmented = config.model.augmented() && config.data.source == "demo";
        let truth = augmented.then(Truth::new);
        let targets_of = |source: TargetSource, split: &Split| {
            let truth = truth.as_ref().filter(|_| config.augment.target == source);
            truth.map(|truth| TrueTargets::new(truth, &corpus.vocabulary, split)).transpose()
        };
        Ok(Trainer {
            true_targets: targets_of(TargetSource::Truth, &corpus.train)?,
            yardstick: targets_of(TargetSource::Embedding, &corpus.valid)?,
            gradient: Params::zeros(architecture),
            state_before: state.clone(),
            masks: Masks::new(architecture.layers, config.batch, architecture.hidden),
            clock: Clock::new(),
            folder,
            config,
            corpus,
            session,
            team,
            network,
            params,
            average,
            state,
            position,
            resumed,
            log,
        })
    }

    fn run(mut self, watch: &mut dyn Watch) -> Result<Outcome> {
        let corpus = self.corpus;
        let streams = Streams::new(&corpus.train.ids, self.config.batch, self.config.unroll);
        self.announce(&streams, watch)?;
        while self.position.ended.is_none() {
            let stopped = !self.epoch(&streams, watch)? || !self.end_of_epoch(watch)?;
            self.save()?;
            if stopped {
                return Ok(Outcome::Stopped(self.position));
            }
        }
        // What is evaluated here is in `best/` already, and the checkpoint says that the training is over.
        Ok(match self.finish(watch)? {
            Some(summary) => Outcome::Finished(Box::new(summary)),
            None => Outcome::Stopped(self.position),
        })
    }

    /// Says what is going to happen. A new run saves its first checkpoint at once.
    fn announce(&mut self, streams: &Streams<'_>, watch: &mut dyn Watch) -> Result<()> {
        if self.resumed {
            let (step, epoch) = (self.position.step, self.position.epoch);
            return self.emit(Event::Resume { time: seconds_since_1970(), step, epoch }, watch);
        }
        let corpus = self.corpus;
        self.emit(
            Event::Start {
                time: seconds_since_1970(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                model: self.config.model.name().to_owned(),
                data: self.config.data.source.clone(),
                data_sha256: corpus.train.sha256.clone(),
                vocab: corpus.vocabulary.len(),
                words: [corpus.train.ids.len(), corpus.valid.ids.len(), corpus.test.ids.len()],
                unseen: [corpus.valid.unseen, corpus.test.unseen],
                parameters: self.params.architecture().parameters(),
                epochs: self.config.total_epochs(),
                steps_per_epoch: streams.windows(),
                memory: setup::memory(self.config, corpus.vocabulary.len()) as usize,
                machine: self.machine(),
            },
            watch,
        )?;
        self.save()
    }

    /// Trains to the end of the epoch; false if asked to stop before.
    fn epoch(&mut self, streams: &Streams<'_>, watch: &mut dyn Watch) -> Result<bool> {
        let windows = streams.windows();
        let log_every = windows.div_ceil(LOGGED_PER_EPOCH);
        let mut window = Window::default();
        self.clock.epoch = Instant::now();
        while self.position.window < windows {
            streams.read(self.position.window, &mut window);
            let begin = Instant::now();
            self.give_true_targets(streams, &window);
            let Some(norm) = self.step(&window, watch)? else {
                return Ok(false);
            };
            self.clock.tick(begin.elapsed().as_secs_f64(), window.inputs.len() as f64);
            let progress = self.progress(norm, windows);
            watch.progress(&progress);
            if self.position.window.is_multiple_of(log_every) && self.position.window < windows {
                self.emit(Event::Progress(progress), watch)?;
            }
            if self.clock.checkpoint.elapsed().as_secs_f64() >= self.config.checkpoint.every_seconds {
                self.save()?;
            }
        }
        Ok(true)
    }

    /// Where `y~` is the truth, lays it beside the words of the window.
    fn give_true_targets(&mut self, streams: &Streams<'_>, window: &Window) {
        let augments = self.config.augments(self.position.training());
        let Some(targets) = self.true_targets.as_ref().filter(|_| augments) else { return };
        let vocab = self.params.architecture().vocab;
        let rows = self.network.given_targets(window.targets.len());
        for (row, y) in rows.chunks_exact_mut(vocab).enumerate() {
            targets.fill(streams.target_position(self.position.window, row), self.config.augment.tau, y);
        }
    }

    /// One training step. Returns the gradient's norm, or nothing if asked to stop in the middle: then all is as before.
    fn step(&mut self, window: &Window, watch: &dyn Watch) -> Result<Option<f64>> {
        self.state_before.copy_from(&self.state);
        let masks = (self.config.keep.0 < 1.0).then_some(&mut self.masks).map(|masks| {
            masks.draw(self.config.seed, self.position.step, self.config.keep);
            &*masks
        });
        self.network.pack(&self.params, Use::Train);
        let (training, vocab) = (self.position.training(), self.params.architecture().vocab);
        let augment = self.config.augmented_loss(training, self.position.step, vocab);
        let stop = || watch.stop();
        let Some(loss) =
            self.network.train_until(&self.params, window, &mut self.state, masks, augment, &mut self.gradient, &stop)
        else {
            self.state.copy_from(&self.state_before);
            return Ok(None);
        };
        let norm = optim::global_norm(&self.team, self.session.isa, &self.gradient);
        self.require_finite(&[("the loss", loss.ce + loss.kl), ("the gradient", norm)])?;
        let rule = self.config.rule(self.learning_rate());
        optim::step(&self.team, self.session.isa, &mut self.params, &self.gradient, norm, rule);
        setup::constrain(self.config, &self.team, self.session.isa, &mut self.params);
        self.position.step += 1;
        if let Some(average) = &mut self.average {
            let (step, share) = (self.position.step, self.config.average);
            optim::average(&self.team, self.session.isa, average, &self.params, step, share);
        }
        self.position.window += 1;
        self.position.ce += loss.ce;
        self.position.kl += loss.kl;
        self.position.words += window.inputs.len() as u64;
        Ok(Some(norm))
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

    fn learning_rate(&self) -> f64 {
        self.config.schedule().at(self.position.epoch - self.position.first_epoch + 1)
    }

    /// Mean loss, perplexity and KL of the epoch so far.
    fn means(&self) -> (f64, f64, f64) {
        let words = self.position.words.max(1) as f64;
        let (ce, kl) = (self.position.ce / words, self.position.kl / words);
        let augment = self.config.augmented_loss(self.position.training(), 0, self.params.architecture().vocab);
        let (cross, alpha) = augment.map_or((1.0, 0.0), |a| (f64::from(a.cross), f64::from(a.gamma * a.tau)));
        (cross * ce + alpha * kl, ce.exp(), kl)
    }

    fn progress(&self, gradient_norm: f64, epoch_steps: usize) -> Progress {
        let (loss, perplexity, kl) = self.means();
        let position = &self.position;
        let epochs_after = f64::from(self.config.total_epochs().saturating_sub(position.epoch));
        let steps_left = (epoch_steps - position.window) as f64 + epochs_after * epoch_steps as f64;
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
            eta_seconds: words_left / self.clock.speed.max(1e-9) + (epochs_after + 1.0) * self.clock.validation,
        }
    }

    /// Validates, keeps the model if it is the best so far, and decides what comes next; false if asked to stop before:
    /// then the position is still that of the epoch's last step, and going on from it validates anew.
    fn end_of_epoch(&mut self, watch: &mut dyn Watch) -> Result<bool> {
        let begin = Instant::now();
        let corpus = self.corpus;
        let Some(valid) = self.evaluator(self.config.validation_streams).evaluate_until(
            self.model(),
            &corpus.valid.ids,
            corpus.vocabulary.unk(),
            corpus.vocabulary.eos(),
            &|| watch.stop(),
        ) else {
            return Ok(false);
        };
        self.clock.validation = begin.elapsed().as_secs_f64();
        self.require_finite(&[("the loss on the validation split", valid.all.nll)])?;
        let (epoch, valid, learning_rate) = (self.position.epoch, valid.all.perplexity, self.learning_rate());
        let (loss, train, kl) = self.means();
        let better = self.position.best.is_none_or(|best| valid < best.valid);
        let best = better || self.config.select == Selection::Last;
        self.position.curve.push(CurvePoint { epoch, train, valid, learning_rate });
        self.position.stale = if best { 0 } else { self.position.stale + 1 };
        if best {
            self.position.best = Some(Best { epoch, valid });
            self.save_best(None)?;
        }
        let (step, seconds) = (self.position.step, self.clock.epoch.elapsed().as_secs_f64());
        let augments = self.config.augments(self.position.training());
        let target_kl = self.yardstick.as_ref().filter(|_| augments).map(|truth| {
            let (isa, tau) = (self.session.isa, self.config.augment.tau);
            truth.divergence(&self.team, isa, self.model(), &corpus.valid.ids, tau)
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
        let best_epoch = self.position.best.map_or(0, |best| best.epoch);
        let ended = self.position.ended.clone().unwrap_or_default();
        let summary = Summary {
            model: self.config.model.name().to_owned(),
            size: self.config.size.name().to_owned(),
            data: self.config.data.source.clone(),
            data_sha256: hashes(corpus),
            seed: self.config.seed,
            parameters: self.params.architecture().parameters(),
            epochs: self.position.epoch - 1,
            steps: self.position.step,
            ended: ended.clone(),
            best_epoch,
            valid: valid.perplexity,
            test: test.perplexity,
            tokens: [valid.tokens, test.tokens],
            weights_sha256,
            paper: paper::compare(self.config, valid.perplexity, test.perplexity),
            curve: self.position.curve.clone(),
            timing: Timing {
                seconds: self.clock.start.elapsed().as_secs_f64(),
                words_per_second: self.clock.words / self.clock.busy.max(1e-9),
                machine: self.machine(),
            },
        };
        summary.save(&self.folder.summary())?;
        let (valid, test) = (valid.perplexity, test.perplexity);
        self.emit(Event::End { time: seconds_since_1970(), reason: ended, best_epoch, valid, test }, watch)?;
        self.log.sync()?;
        Ok(Some(summary))
    }

    fn evaluator(&self, streams: usize) -> Evaluator {
        Evaluator::new(self.params.architecture(), Arc::clone(&self.team), self.session.isa, streams)
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

    /// Writes a checkpoint of the present position.
    fn save(&mut self) -> Result<()> {
        self.position.log = self.log.sync()?;
        checkpoint::save(&self.folder, self.config, &self.params, self.average.as_ref(), &self.state, &self.position)?;
        self.clock.checkpoint = Instant::now();
        Ok(())
    }

    fn emit(&mut self, event: Event, watch: &mut dyn Watch) -> Result<()> {
        self.log.write(&event)?;
        watch.event(&event);
        Ok(())
    }

    fn machine(&self) -> String {
        let threads = self.team.threads();
        let plural = if threads == 1 { "thread" } else { "threads" };
        format!("{threads} {plural}, {}, {}", self.session.isa.name(), model_name())
    }
}

/// SHA-256 of the three splits.
pub(super) fn hashes(corpus: &Corpus) -> [String; 3] {
    [&corpus.train, &corpus.valid, &corpus.test].map(|split| split.sha256.clone())
}

pub(super) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
