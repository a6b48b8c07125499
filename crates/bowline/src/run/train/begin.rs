//! How a run begins: anew or from its last checkpoint, alone or with others.

use super::{Outcome, Session, Trainer, Watch, hashes, plural, seconds_since_1970};
use crate::config::Config;
use crate::corpus::Corpus;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::run::agree::{self, Card, Opening};
use crate::run::checkpoint::{self, Restored};
use crate::run::folder::RunFolder;
use crate::run::ranks::{Alone, Ranks};
use crate::run::summary::Summary;
use crate::run::{RunConfig, check_length, init, kneser_ney, open_corpus, require_memory, rewrite, setup, teacher};
use crate::storage::atomic;
use std::path::Path;

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
pub(super) fn told<T>(ranks: &dyn Ranks, mine: Result<T>) -> Result<T> {
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
pub(super) fn heard(ranks: &dyn Ranks) -> Result<Opening> {
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
pub(super) fn finished(opening: Opening) -> Result<Outcome> {
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

impl Trainer<'_> {
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
}
