//! Training by a plan, with an eye on the clock.

use super::plan::{Planned, READING, SPARE};
use super::replan::{replan, replan_by};
use crate::bench;
use crate::config::{Config, Precision};
use crate::error::{Error, Result};
use crate::event::{EpochEnd, Event, Progress};
use crate::run::{self, Outcome, RunConfig, RunFolder, Session, Watch};
use std::path::Path;
use std::time::Instant;

/// Steps that a measurement of the speed takes.
const STEPS: usize = 12;
/// After so many epochs at a constant rate that did not improve the validation perplexity, the rate falls.
const PATIENCE: u32 = 4;
/// The plan is made anew if the training would otherwise end so much too early or too late.
const TOLERANCE: f64 = 0.04;

/// Words a second that are trained with these settings here.
pub fn measure(config: &Config, vocab: usize, session: Session) -> f64 {
    bench::measure(config, vocab, session.threads, session.isa, STEPS, &mut |_| {}).tokens_per_second
}

/// The fastest precision of this CPU.
pub fn precision(session: Session) -> Precision {
    let available = bowline_kernels::Precision::Bf16.available(session.isa);
    if available { Precision::Bf16 } else { Precision::F32 }
}

/// Trains by a plan. While the rate is constant, the number of epochs follows what the clock says.
pub fn train(dir: &Path, planned: &Planned, session: Session, watch: &mut dyn Watch) -> Result<Outcome> {
    let mut clock = Clock::new(&planned.config, planned.training, 0, watch);
    let mut outcome = run::start(dir, &planned.config, session, &mut clock)?;
    while let Some(epochs) = clock.wanted.take() {
        replan(dir, epochs)?;
        clock.config = Config::read(&RunFolder::new(dir).config())?;
        clock.inside.planned(epochs);
        outcome = run::resume(dir, session, &mut clock)?;
        if let Outcome::Finished(summary) = &mut outcome {
            // A run whose plan changed is one run: its time counts from the beginning.
            summary.timing.seconds = clock.begin.elapsed().as_secs_f64();
            summary.save(&RunFolder::new(dir).summary())?;
        }
    }
    Ok(outcome)
}

/// Resumes a run so that it ends after `seconds` more: it gets as many more epochs as fit, and the rate falls to 0 with the last
/// one.
pub fn resume(dir: &Path, seconds: f64, session: Session, watch: &mut dyn Watch) -> Result<Outcome> {
    let folder = RunFolder::new(dir);
    folder.require()?;
    let RunConfig::Network(config) = RunConfig::read(&folder.config())? else {
        let advice = "`bowline resume` without a budget; a network is trained by `bowline train --budget`";
        return Err(Error::run(dir, "it is an n-gram model, which has no epochs to plan", advice));
    };
    let corpus = run::open_corpus(&config.data)?;
    let speed = measure(&config, corpus.vocabulary.len(), session).max(1e-9);
    let [train, valid, test] = corpus.tokens().map(|tokens| tokens as f64);
    let training = (1.0 - SPARE) * seconds - config.finish.seconds - (valid + test) / speed;
    let more = (training.max(0.0) * speed / (train + valid / READING)) as u32;
    replan_by(dir, |done| (done.ceil() as u32).saturating_add(more).max(1))?;
    run::resume(dir, session, watch)
}

/// Watches the clock for somebody else who watches the run.
struct Clock<'a> {
    inside: &'a mut dyn Watch,
    config: Config,
    begin: Instant,
    /// Seconds there are for the training, and epochs that were done before.
    training: f64,
    done: u32,
    /// The best validation perplexity so far, and epochs since then.
    best: f64,
    stale: u32,
    /// The number of epochs the run should have instead, and why.
    wanted: Option<u32>,
    reason: &'static str,
}

impl<'a> Clock<'a> {
    fn new(config: &Config, training: f64, done: u32, inside: &'a mut dyn Watch) -> Clock<'a> {
        Clock {
            inside,
            config: config.clone(),
            begin: Instant::now(),
            training,
            done,
            best: f64::INFINITY,
            stale: 0,
            wanted: None,
            reason: "",
        }
    }

    /// The number of epochs that the run should have, if it is another one than planned: as many as fit; or, of a text that
    /// is learnt by heart already, a few more with a falling rate.
    fn look(&mut self, EpochEnd { epoch, valid, .. }: EpochEnd) -> Option<u32> {
        self.stale = if valid < self.best { 0 } else { self.stale + 1 };
        self.best = self.best.min(valid);
        if !self.config.rate_is_constant(f64::from(epoch)) {
            return None;
        }
        let few = epoch + (epoch / 2).max(2);
        if self.stale >= PATIENCE && few < self.config.epochs {
            self.reason = "validation has stopped improving";
            return Some(few);
        }
        self.reason = "to end in time";
        let spent = self.begin.elapsed().as_secs_f64();
        let each = spent / f64::from(epoch.saturating_sub(self.done).max(1));
        let left = f64::from(self.config.epochs.saturating_sub(epoch));
        let late = (spent + left * each) / self.training - 1.0;
        let fits = (epoch + ((self.training - spent).max(0.0) / each).round() as u32).max(epoch + 1);
        let fits = fits.min(super::rules::MOST_EPOCHS as u32);
        (late.abs() > TOLERANCE && fits != self.config.epochs).then_some(fits)
    }
}

impl Watch for Clock<'_> {
    fn begin(&mut self, run: &Path) -> Result<()> {
        self.inside.begin(run)
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Epoch(end) => {
                self.inside.event(event);
                self.wanted = self.look(*end);
                if let Some(epochs) = self.wanted {
                    let old = self.config.epochs;
                    self.inside.notice(&format!("plan: {epochs} epochs instead of {old}: {}", self.reason));
                }
            }
            // Of the stop in between nobody needs to hear.
            Event::Stop { .. } if self.wanted.is_some() => {}
            Event::Resume { .. } => {}
            _ => self.inside.event(event),
        }
    }

    fn progress(&mut self, progress: &Progress) {
        self.inside.progress(progress);
    }

    fn planned(&mut self, epochs: u32) {
        self.inside.planned(epochs);
    }

    fn phase(&mut self, what: &str, share: f64) {
        self.inside.phase(what, share);
    }

    fn notice(&mut self, text: &str) {
        self.inside.notice(text);
    }

    fn stop(&self) -> bool {
        self.wanted.is_some() || self.inside.stop()
    }
}
