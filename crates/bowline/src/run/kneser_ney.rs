//! A run that estimates a Kneser-Ney model: one pass over the text, done in seconds.
//!
//! Its folder is that of any run, without checkpoints: `config.toml` is there from the start, so a run that was stopped is
//! done again from the beginning by `bowline resume`.

use super::checkpoint::{CurvePoint, Position};
use super::config::RunConfig;
use super::folder::RunFolder;
use super::log::Log;
use super::summary::{Summary, Timing};
use super::train::{Outcome, Session, Watch, hashes, seconds_since_1970};
use super::{describe, open_corpus};
use crate::config::DataConfig;
use crate::config::LONGEST_CONFIG;
use crate::corpus::Corpus;
use crate::error::{Error, Result};
use crate::eval::{Evaluation, Score};
use crate::event::{EpochEnd, Event};
use crate::model_folder::{ModelCard, NgramFolder};
use crate::ngram::{Discounts, MAX_ORDER, NgramModel, check_thresholds};
use crate::predictor::recency_cache::{self, Tuned};
use crate::storage::{atomic, files};
use bowline_kernels::model_name;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// The name that `--model` takes.
pub const KIND: &str = "kn";

/// The order that is used unless another is asked for.
pub const DEFAULT_ORDER: usize = 5;

/// The version of an n-gram run's `config.toml`.
const VERSION: u32 = 1;

/// The settings of a Kneser-Ney run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NgramConfig {
    /// Version of this file's format.
    pub version: u32,
    /// Always `kn`: this tells the file from that of a network.
    pub model: String,
    /// Length of the longest n-grams.
    pub order: usize,
    /// N-grams of each length that stand in the text so often or less are left out; the last holds for all longer ones.
    #[serde(default)]
    pub prune: Vec<u32>,
    /// The corpus.
    pub data: DataConfig,
}

impl NgramConfig {
    /// Settings for a corpus.
    pub fn new(order: usize, data: DataConfig) -> NgramConfig {
        NgramConfig { version: VERSION, model: KIND.to_owned(), order, prune: Vec::new(), data }
    }

    /// Checks every value; the error names the first impossible one.
    pub fn validate(&self) -> Result<()> {
        if self.version != VERSION {
            let advice = format!("a value of {VERSION}, or another version of bowline");
            return Err(Error::config("version", format!("{} is impossible", self.version), advice));
        }
        if !(1..=MAX_ORDER).contains(&self.order) {
            let advice = format!("a value from 1 to {MAX_ORDER}; {DEFAULT_ORDER} is the usual one");
            return Err(Error::config("order", format!("{} is impossible", self.order), advice));
        }
        check_thresholds(&self.prune, self.order)?;
        let words = self.data.vocab_size;
        if words == 1 || words == 2 {
            let advice = "a value of at least 3, or 0 to keep all words";
            return Err(Error::config("data.vocab_size", format!("{words} is impossible"), advice));
        }
        Ok(())
    }

    /// Reads a run's `config.toml`, if it is that of a Kneser-Ney run.
    pub(super) fn read(path: &Path) -> Result<Option<NgramConfig>> {
        #[derive(Deserialize)]
        struct Kind {
            model: String,
        }
        // A file that is not even that is for the reader of the other kind to complain about.
        let Ok(text) = files::read_text(path, LONGEST_CONFIG) else { return Ok(None) };
        if !toml::from_str::<Kind>(&text).is_ok_and(|kind| kind.model == KIND) {
            return Ok(None);
        }
        const PUT_BACK: &str = "restore the file as it was when the run began";
        let config: NgramConfig = toml::from_str(&text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start).min(text.len());
            let line = 1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count();
            Error::run(path, format!("line {line}: {}", e.message()), PUT_BACK)
        })?;
        let problem = |e: Error| e.to_string().replace("\n  try: ", "; possible is ");
        config.validate().map_err(|e| Error::run(path, problem(e), PUT_BACK))?;
        Ok(Some(config))
    }
}

/// Starts a new Kneser-Ney run in an empty folder, and finishes it.
pub fn start_ngram(dir: &Path, config: &NgramConfig, session: Session, watch: &mut dyn Watch) -> Result<Outcome> {
    config.validate()?;
    let folder = RunFolder::new(dir);
    if folder.config().exists() {
        folder.create()?; // the error that names `resume`, before a long read of the corpus
    }
    let begin = Instant::now();
    let corpus = open_corpus(&config.data)?;
    folder.create()?;
    let _lock = folder.lock()?;
    let text = RunConfig::Ngrams(config.clone()).to_toml()?;
    atomic::write(folder.config(), |out| out.write_all(text.as_bytes()))?;
    build(&folder, config, &corpus, session, begin, watch)
}

/// Whether a run is of this kind.
pub(super) fn is_one(folder: &RunFolder) -> bool {
    !matches!(NgramConfig::read(&folder.config()), Ok(None))
}

/// Finishes a Kneser-Ney run that was stopped, or gives the result of one that is over; nothing for another kind of run.
pub(super) fn resume(folder: &RunFolder, session: Session, watch: &mut dyn Watch) -> Result<Option<Outcome>> {
    let Some(config) = NgramConfig::read(&folder.config())? else { return Ok(None) };
    if folder.summary().exists() {
        return Ok(Some(Outcome::Finished(Box::new(Summary::read(&folder.summary())?))));
    }
    let begin = Instant::now();
    let corpus = open_corpus(&config.data)?;
    build(folder, &config, &corpus, session, begin, watch).map(Some)
}

/// What a Kneser-Ney model in its folder says about the corpus.
pub(super) struct Estimate {
    /// The model and its words.
    pub(super) stored: NgramFolder,
    discounts: Vec<Discounts>,
    tuned: Tuned,
    /// `-log p` of the words of the validation and the test split.
    pub(super) nll: [Vec<f64>; 2],
    /// The same as perplexities.
    pub(super) scores: [Score; 2],
    /// Seconds of the counting.
    seconds: f64,
}

/// Estimates the model and tunes its cache on the validation split; none if asked to stop before.
pub(super) fn estimate(
    best: &Path,
    config: &NgramConfig,
    corpus: &Corpus,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Estimate>> {
    let begin = Instant::now();
    let vocabulary = &corpus.vocabulary;
    let (order, prune) = (config.order, &config.prune);
    let (model, discounts) =
        NgramModel::train_pruned(&corpus.train_ids()?, vocabulary.len(), vocabulary.eos(), order, prune)?;
    let seconds = begin.elapsed().as_secs_f64();
    let splits = [&corpus.valid, &corpus.test];
    let nll = splits.map(|split| model.nll(&split.ids));
    let scores = [0, 1].map(|i| score(corpus, &splits[i].ids, &nll[i]));
    if stop() {
        return Ok(None);
    }
    let tuned = recency_cache::tune(vocabulary.eos(), &corpus.valid.ids, &nll[0])?;
    let stored = NgramFolder {
        folder: best.to_owned(),
        kind: KIND.to_owned(),
        tokenize: config.data.tokenize,
        vocabulary: vocabulary.clone(),
        recency: Some(tuned.settings),
        model,
    };
    Ok((!stop()).then_some(Estimate { stored, discounts, tuned, nll, scores, seconds }))
}

impl Estimate {
    /// Writes the model down; gives its content hash.
    pub(super) fn save(&self, config: &NgramConfig, corpus: &Corpus) -> Result<String> {
        let [valid, test] = self.scores;
        self.stored.save(&card_of(config, corpus, &self.stored.model, &self.discounts, self.tuned, valid, test))
    }
}

fn score(corpus: &Corpus, ids: &[u32], nll: &[f64]) -> Score {
    Evaluation::of(ids, nll, corpus.vocabulary.unk(), corpus.vocabulary.eos(), 1).all
}

/// Estimates the model and writes everything down.
fn build(
    folder: &RunFolder,
    config: &NgramConfig,
    corpus: &Corpus,
    session: Session,
    begin: Instant,
    watch: &mut dyn Watch,
) -> Result<Outcome> {
    corpus.valid.require_tokens(2, "an evaluation")?;
    corpus.test.require_tokens(2, "an evaluation")?;
    let time = seconds_since_1970();
    let stopped = Position { epoch: 1, data_sha256: hashes(corpus), ..Position::default() };
    let Some(estimate) = estimate(&folder.best(), config, corpus, &|| watch.stop())? else {
        return Ok(Outcome::Stopped(Box::new(stopped)));
    };
    let (vocabulary, model) = (&corpus.vocabulary, &estimate.stored.model);
    let mut log = Log::open(&folder.events(), 0)?;
    let mut emit = |event: Event, watch: &mut dyn Watch| -> Result<()> {
        log.write(&event)?;
        watch.event(&event);
        log.sync().map(drop)
    };
    let machine = format!("1 thread, {}, {}", session.isa.name(), model_name());
    let words = corpus.tokens();
    emit(
        Event::Start {
            time,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model: KIND.to_owned(),
            data: config.data.source.clone(),
            data_sha256: corpus.train.sha256.clone(),
            vocab: vocabulary.len(),
            words,
            unseen: [corpus.valid.unseen, corpus.test.unseen],
            parameters: model.parameters(),
            epochs: 1,
            steps_per_epoch: 1,
            memory: model.bytes(),
            machine: machine.clone(),
        },
        watch,
    )?;
    if let Some(text) = fallback_notice(&estimate.discounts) {
        watch.notice(&text);
    }
    let ids = corpus.train_ids()?;
    let train = score(corpus, &ids, &model.nll(&ids));
    drop(ids);
    let [valid, test] = estimate.scores;
    let curve = vec![CurvePoint { epoch: 1, train: train.perplexity, valid: valid.perplexity, learning_rate: 0.0 }];
    let weights_sha256 = estimate.save(config, corpus)?;
    let (parameters, seconds) = (model.parameters(), estimate.seconds);
    emit(
        Event::Epoch(EpochEnd {
            epoch: 1,
            step: 1,
            loss: train.perplexity.ln(),
            train: train.perplexity,
            target_kl: None,
            kl: 0.0,
            valid: valid.perplexity,
            best: true,
            learning_rate: 0.0,
            seconds,
        }),
        watch,
    )?;
    let summary = Summary {
        paper: None,
        predictor: None,
        model: KIND.to_owned(),
        size: format!("{}-gram", config.order),
        data: config.data.source.clone(),
        data_sha256: hashes(corpus),
        seed: 0,
        parameters,
        epochs: 1,
        steps: 1,
        ended: "done".to_owned(),
        best_epoch: 1,
        valid: valid.perplexity,
        test: test.perplexity,
        tokens: [valid.tokens, test.tokens],
        weights_sha256,
        curve,
        timing: Timing {
            seconds: begin.elapsed().as_secs_f64(),
            words_per_second: train.tokens as f64 / seconds.max(1e-9),
            machine,
        },
    };
    let (valid, test) = (valid.perplexity, test.perplexity);
    emit(Event::End { time: seconds_since_1970(), reason: "done".to_owned(), best_epoch: 1, valid, test }, watch)?;
    // Last: where the summary is, the run is over.
    summary.save(&folder.summary())?;
    Ok(Outcome::Finished(Box::new(summary)))
}

/// What a person should know about discounts that could not be estimated.
fn fallback_notice(discounts: &[Discounts]) -> Option<String> {
    let lengths: Vec<String> = discounts.iter().filter(|d| d.fallback).map(|d| d.length.to_string()).collect();
    let values = crate::ngram::FALLBACK.map(|d| d.to_string()).join(", ");
    (!lengths.is_empty()).then(|| {
        format!(
            "the text is too small to estimate the discounts of n-grams of length {}; {values} are used for them",
            lengths.join(", ")
        )
    })
}

fn card_of(
    config: &NgramConfig,
    corpus: &Corpus,
    model: &NgramModel,
    discounts: &[Discounts],
    tuned: Tuned,
    valid: Score,
    test: Score,
) -> ModelCard {
    let data = describe::data_title(&config.data);
    let mut recipe = vec![("order".to_owned(), config.order.to_string())];
    if !config.prune.is_empty() {
        let shown: Vec<String> = config.prune.iter().map(u32::to_string).collect();
        recipe.push(("pruned n-grams, by count and length".to_owned(), shown.join(", ")));
    }
    for (d, ngrams) in discounts.iter().zip(model.ngrams()) {
        let [d1, d2, d3] = d.values;
        let fallback = if d.fallback { " (not estimated: too small a text)" } else { "" };
        recipe.push((
            format!("n-grams of length {}", d.length),
            format!("{ngrams}, discounts {d1:.4}, {d2:.4}, {d3:.4}{fallback}"),
        ));
    }
    let cache = format!("{}: validation perplexity {:.2}", tuned.settings, tuned.perplexity);
    recipe.push(("recency cache, tuned on the validation split".to_owned(), cache));
    ModelCard {
        origin: None,
        title: format!("Kneser-Ney, order {}, on {data}", config.order),
        data_name: data,
        data_sha256: corpus.train.sha256.clone(),
        recipe,
        seed: 0,
        epoch: 1,
        valid: Some(valid.perplexity),
        test: Some(test.perplexity),
        example: describe::example(corpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Progress;
    use crate::loaded_model::LoadedModel;
    use bowline_kernels::Isa;

    struct Quiet(Vec<String>);

    impl Watch for Quiet {
        fn event(&mut self, _: &Event) {}
        fn progress(&mut self, _: &Progress) {}
        fn notice(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }
        fn stop(&self) -> bool {
            false
        }
    }

    const SESSION: Session = Session { threads: 1, isa: Isa::PORTABLE };

    fn config(order: usize) -> NgramConfig {
        NgramConfig::new(order, DataConfig { source: "demo".to_owned(), ..DataConfig::default() })
    }

    fn finished(outcome: Outcome) -> Summary {
        match outcome {
            Outcome::Finished(summary) => *summary,
            Outcome::Stopped(position) => panic!("{position:?}"),
        }
    }

    #[test]
    fn a_run_leaves_a_model_that_scores_as_its_summary_says() {
        let dir = tempfile::tempdir().unwrap();
        let splits = bowline_demo::splits(bowline_demo::DEFAULT_SEED);
        for (name, text) in [("train.txt", splits.train), ("valid.txt", splits.valid), ("test.txt", splits.test)] {
            let some: String = text.split_inclusive('\n').take(400).collect();
            std::fs::write(dir.path().join(name), some).unwrap();
        }
        let source = dir.path().display().to_string();
        let config = |order| NgramConfig::new(order, DataConfig { source: source.clone(), ..config(order).data });
        let (run, mut watch) = (dir.path().join("run"), Quiet(Vec::new()));
        let summary = finished(start_ngram(&run, &config(3), SESSION, &mut watch).unwrap());
        assert_eq!((summary.model.as_str(), summary.size.as_str()), ("kn", "3-gram"));
        let corpus = open_corpus(&config(3).data).unwrap();
        let loaded = LoadedModel::load(&run).unwrap();
        let model = loaded.require_ngrams().unwrap();
        let nll = model.nll(&corpus.test.ids);
        let score = Evaluation::of(&corpus.test.ids, &nll, None, model.eos(), 1).all;
        assert_eq!((score.perplexity, score.tokens), (summary.test, summary.tokens[1]));
        assert_eq!(Summary::read(&run.join("summary.json")).unwrap(), summary);
        // With its cache it predicts the validation split no worse than without.
        let nll = model.nll(&corpus.valid.ids);
        let cached = recency_cache::nll(loaded.recency().unwrap(), model.eos(), &corpus.valid.ids, &nll).unwrap();
        assert!(cached.iter().sum::<f64>() < nll.iter().sum::<f64>() + 1e-6);

        // Resuming it says the same; without its summary, and its model, all is done again.
        let again = finished(super::super::resume(&run, SESSION, &mut watch).unwrap());
        assert_eq!(again, summary);
        std::fs::remove_file(run.join("summary.json")).unwrap();
        std::fs::remove_dir_all(run.join("best")).unwrap();
        let again = finished(super::super::resume(&run, SESSION, &mut watch).unwrap());
        assert_eq!(Summary { timing: summary.timing.clone(), ..again }, summary);
        let message = start_ngram(&run, &config(3), SESSION, &mut watch).unwrap_err().to_string();
        assert!(message.contains("this folder already has a run"), "{message}");
    }

    #[test]
    fn a_broken_config_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        let text = toml::to_string(&config(4)).unwrap();
        std::fs::write(&path, &text).unwrap();
        assert_eq!(NgramConfig::read(&path).unwrap(), Some(config(4)));
        for (old, new, problem) in [
            ("order = 4", "order = 40", "setting `order`: 40 is impossible; possible is a value from 1 to 9"),
            ("order = 4", "odor = 4", "line 3: unknown field `odor`"),
            ("version = 1", "version = 7", "setting `version`: 7 is impossible"),
        ] {
            std::fs::write(&path, text.replace(old, new)).unwrap();
            let message = NgramConfig::read(&path).unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
        }
        std::fs::write(&path, text.replace("\"kn\"", "\"real\"")).unwrap();
        assert_eq!(NgramConfig::read(&path).unwrap(), None);
    }
}
