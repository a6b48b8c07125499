//! Settings that fit a text of one's own: what `bowline train` chooses from a look at the text, and says.
//!
//! The public corpora and the built-in one have settings of their own. Of any other text too little is known beforehand:
//! without words that became `<unk>` in training the model cannot predict `<unk>`, and twenty streams of a short text
//! leave few steps an epoch.

use crate::options::TrainOptions;
use crate::terminal::grouped;
use bowline::config::{Config, DataConfig};
use bowline::corpus::Survey;
use bowline::data;
use std::path::Path;

/// Steps that an epoch should have at least, if fewer streams can make it so.
const STEPS: usize = 200;
/// Streams that are worth it: with fewer, the machine is idle for most of a step.
const FEWEST_STREAMS: usize = 4;
/// Epochs without a better validation perplexity after which a run on an unknown text ends.
const PATIENCE: u32 = 5;

/// The vocabulary: as asked for, or without words that were seen once if nobody has chosen one. Returns what is in the text
/// if it is one of the user's own.
pub fn data(options: &TrainOptions, data: &mut DataConfig, notes: &mut Vec<String>) -> anyhow::Result<Option<Survey>> {
    data.vocab_size = options.vocab_size.unwrap_or(0);
    data.min_count = options.min_count.unwrap_or(0);
    data.tokenize |= options.tokenize;
    if let Some(path) = &options.vocab {
        data.vocabulary = std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string();
    }
    let known = data::by_name(&data.source).or_else(|| data::recognise(Path::new(&data.source)));
    if data.source == "demo" || known.is_some() {
        return Ok(None);
    }
    let survey = Survey::of(Path::new(&data.source), data.tokenize, 0)?;
    if let (true, Some(example)) = (survey.looks_untokenised(), &survey.attached_example) {
        notes.push(format!(
            "the text does not look tokenised: `{}` and {} more words have punctuation attached\n  \
             try: --tokenize, which splits it off and lower-cases the words",
            super::printable(example),
            grouped(survey.attached - 1)
        ));
    }
    let chosen = options.vocab_size.is_some() || options.min_count.is_some() || options.vocab.is_some();
    if !chosen && !survey.has_unk && survey.singletons > 0 {
        data.min_count = 2;
        notes.push(format!(
            "words seen once in training become <unk>: {} of {}; --min-count 1 keeps them",
            grouped(survey.singletons),
            grouped(survey.types)
        ));
    }
    Ok(Some(survey))
}

/// The same, and a text that does not look tokenised is tokenised: nobody who leaves the choice to us should have to know.
pub fn data_for_anybody(options: &TrainOptions, data: &mut DataConfig, notes: &mut Vec<String>) -> anyhow::Result<()> {
    let known = data::by_name(&data.source).or_else(|| data::recognise(Path::new(&data.source)));
    let own = data.source != "demo" && known.is_none();
    if own && !options.tokenize && Survey::of(Path::new(&data.source), false, 0)?.looks_untokenised() {
        data.tokenize = true;
        notes.push("the text is not tokenised: words are lower-cased and split from their punctuation".to_owned());
    }
    self::data(options, data, notes).map(drop)
}

/// Streams and patience, unless they are given.
pub fn network(options: &TrainOptions, config: &mut Config, survey: &Survey, notes: &mut Vec<String>) {
    let given = |key: &str| options.settings.iter().any(|s| s.split('=').next().is_some_and(|k| k.trim() == key));
    if !given("patience") && options.patience.is_none() {
        config.patience = PATIENCE;
    }
    let fitting = survey.train_tokens() / (STEPS * config.unroll.max(1));
    if !given("batch") && fitting < config.batch {
        config.batch = fitting.max(FEWEST_STREAMS).min(config.batch);
        notes.push(format!(
            "{} streams (--set batch): the text has {} words",
            config.batch,
            grouped(survey.train_tokens())
        ));
    }
}
