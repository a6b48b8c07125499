//! What follows an epoch, and what follows the last one: validate, keep the best, sum up.

use super::{Trainer, Watch, hashes, seconds_since_1970};
use crate::config::{Selection, Training};
use crate::error::Result;
use crate::eval::{Evaluation, Evaluator, Score};
use crate::event::{EpochEnd, Event};
use crate::model_folder::{Contents, ModelFolder};
use crate::optim::{self, OptimizerKind, ScheduleKind};
use crate::paper;
use crate::predictor::Shipped;
use crate::run::checkpoint::{Best, CurvePoint};
use crate::run::summary::{Summary, Timing};
use crate::run::{agree, describe, finish, ranks};
use std::time::Instant;

impl Trainer<'_> {
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
    pub(super) fn end_of_epoch(&mut self, watch: &mut dyn Watch) -> Result<bool> {
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
    pub(super) fn finish(&mut self, watch: &mut dyn Watch) -> Result<Option<Summary>> {
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

    fn evaluator(&self, streams: usize) -> Evaluator {
        Evaluator::new(self.params.spec(), self.compute.clone(), streams)
    }
}
