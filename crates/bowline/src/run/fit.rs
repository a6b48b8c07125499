//! Settings that fit a text of one's own: chosen from a look at the text, and said.
//!
//! The public corpora and the built-in one have settings of their own. Of any other text too little is known beforehand:
//! without words that became `<unk>` in training the model cannot predict `<unk>`, and twenty streams of a short text
//! leave few steps an epoch.

use crate::config::{Config, DataConfig};
use crate::corpus::Survey;
use crate::data;
use crate::error::Result;
use std::path::Path;

/// Steps that an epoch should have at least, if fewer streams can make it so.
const STEPS: usize = 200;
/// Streams that are worth it: with fewer, the machine is idle for most of a step.
const FEWEST_STREAMS: usize = 4;
/// Epochs without a better validation perplexity after which a run on an unknown text ends.
const PATIENCE: u32 = 5;

/// What was chosen or seen, for whoever talks to a person to put into words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Words have punctuation attached: one of them, and how many more.
    Untokenised(String, usize),
    /// The text was not tokenised, and is.
    Tokenised,
    /// Words seen once become `<unk>`: so many, of so many.
    RareWords(usize, usize),
    /// Fewer streams than usual: so many, because the text has so many words.
    FewStreams(usize, usize),
}

/// A known name, or a path made absolute so that a resumed run finds it from anywhere.
pub fn source(data: &str) -> String {
    if data == "demo" || data::by_name(data).is_some() {
        return data.to_owned();
    }
    std::path::absolute(Path::new(data)).map_or_else(|_| data.to_owned(), |path| path.display().to_string())
}

/// Tokenises a text of the user's own that does not look tokenised: nobody who leaves the choice to us should have to know.
pub fn tokenise(data: &mut DataConfig, choices: &mut Vec<Choice>) -> Result<()> {
    let own = !is_known(&data.source);
    if own && !data.tokenize && Survey::of(Path::new(&data.source), false, 0)?.looks_untokenised() {
        data.tokenize = true;
        choices.push(Choice::Tokenised);
    }
    Ok(())
}

/// Whether a corpus has settings of its own.
fn is_known(source: &str) -> bool {
    source == "demo" || data::by_name(source).or_else(|| data::recognise(Path::new(source))).is_some()
}

/// Looks at a text of the user's own, and leaves out words that were seen once unless a vocabulary was `chosen`. Nothing
/// for a corpus that has settings of its own.
pub fn data(data: &mut DataConfig, chosen: bool, choices: &mut Vec<Choice>) -> Result<Option<Survey>> {
    if is_known(&data.source) {
        return Ok(None);
    }
    let survey = Survey::of(Path::new(&data.source), data.tokenize, 0)?;
    if let (true, Some(example)) = (survey.looks_untokenised(), &survey.attached_example) {
        choices.push(Choice::Untokenised(example.clone(), survey.attached - 1));
    }
    if !chosen && !survey.has_unk && survey.singletons > 0 {
        data.min_count = 2;
        choices.push(Choice::RareWords(survey.singletons, survey.types));
    }
    Ok(Some(survey))
}

/// Streams and patience for such a text, unless they are `given` by their names.
pub fn network(config: &mut Config, given: impl Fn(&str) -> bool, survey: &Survey, choices: &mut Vec<Choice>) {
    if !given("patience") {
        config.patience = PATIENCE;
    }
    let fitting = survey.train_tokens() / (STEPS * config.unroll.max(1));
    if !given("batch") && fitting < config.batch {
        config.batch = fitting.max(FEWEST_STREAMS).min(config.batch);
        choices.push(Choice::FewStreams(config.batch, survey.train_tokens()));
    }
}
