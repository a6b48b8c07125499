//! A text and a time: all that somebody has to say.

use super::plan::{Facts, Plan};
use super::train::{measure, train};
use super::{Budget, precision};
use crate::config::{DataConfig, Precision};
use crate::error::Result;
use crate::run::{self, NgramConfig, Outcome, RunFolder, Session, Watch};
use crate::wording::duration;
use std::path::Path;
use std::time::Instant;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The text and its vocabulary.
    pub data: DataConfig,
    /// The time there is.
    pub budget: Budget,
    /// What everything random follows from.
    pub seed: u64,
    /// What operands are rounded to; without it, what is fastest here.
    pub precision: Option<Precision>,
    /// Settings that somebody has chosen, as `key=value`.
    pub settings: Vec<String>,
}

/// Plans a run, says what was chosen, and trains by the plan; an n-gram model where there is not enough time or text.
pub fn start(dir: &Path, request: &Request, session: Session, watch: &mut dyn Watch) -> Result<Outcome> {
    let begin = Instant::now();
    let folder = RunFolder::new(dir);
    folder.require_free()?;
    if dir.is_file() {
        folder.create()?; // the error that says so, before anything is measured
    }
    let ngrams = NgramConfig::new(run::DEFAULT_ORDER, request.data.clone());
    ngrams.validate()?;
    let corpus = run::open_corpus(&request.data)?;
    let words = corpus.tokens();
    let (vocab, seconds) = (corpus.vocabulary.len(), request.budget.seconds(words[0]));
    drop(corpus);
    let rounded = request.precision.unwrap_or_else(|| precision(session));
    let mut chosen = vec![format!("precision={}", bowline_kernels::Precision::from(rounded).name())];
    chosen.extend(request.settings.iter().cloned());
    let facts = Facts {
        data: request.data.clone(),
        words,
        vocab,
        seconds: (seconds - begin.elapsed().as_secs_f64()).max(0.0),
        seed: request.seed,
        chosen,
    };
    let plan = Plan::new(&facts, &mut |config, vocab| {
        watch.phase("measuring this machine", 0.5);
        measure(config, vocab, session)
    })?;
    let asked = match request.budget {
        Budget::Auto => format!("{}, by the size of the text", duration(seconds)),
        Budget::Seconds(_) => duration(seconds),
    };
    match plan {
        Plan::Ngrams { why } => {
            watch.notice(&format!("budget {asked}: {why}; a Kneser-Ney model instead"));
            run::start_ngram(dir, &ngrams, session, watch)
        }
        Plan::Network(planned) => {
            watch.notice(&format!("budget {asked}; {}", planned.describe(vocab)));
            train(dir, &planned, session, watch)
        }
    }
}
