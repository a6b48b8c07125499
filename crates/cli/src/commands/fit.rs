//! Settings that fit the user's text ([`bowline::run::fit`]): from the options, and as messages.

use crate::options::TrainOptions;
use crate::terminal::grouped;
use bowline::config::{Config, DataConfig};
use bowline::corpus::Survey;
use bowline::run::fit::{self, Choice};

/// The vocabulary: as asked for, or without words that were seen once if nobody has chosen one. Returns what is in the text
/// if it is one of the user's own.
pub fn data(options: &TrainOptions, data: &mut DataConfig, notes: &mut Vec<String>) -> anyhow::Result<Option<Survey>> {
    data.vocab_size = options.vocab_size.unwrap_or(0);
    data.min_count = options.min_count.unwrap_or(0);
    data.tokenize |= options.tokenize;
    if let Some(path) = &options.vocab {
        data.vocabulary = std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string();
    }
    let chosen = options.vocab_size.is_some() || options.min_count.is_some() || options.vocab.is_some();
    let mut choices = Vec::new();
    let survey = fit::data(data, chosen, &mut choices)?;
    notes.extend(choices.iter().map(words));
    Ok(survey)
}

/// The same, and a text that does not look tokenised is tokenised.
pub fn data_for_anybody(options: &TrainOptions, data: &mut DataConfig, notes: &mut Vec<String>) -> anyhow::Result<()> {
    data.tokenize = options.tokenize;
    let mut choices = Vec::new();
    fit::tokenise(data, &mut choices)?;
    notes.extend(choices.iter().map(words));
    self::data(options, data, notes).map(drop)
}

/// Streams and patience, unless they are given.
pub fn network(options: &TrainOptions, config: &mut Config, survey: &Survey, notes: &mut Vec<String>) {
    let set = |key: &str| options.settings.iter().any(|s| s.split('=').next().is_some_and(|k| k.trim() == key));
    let given = |key: &str| set(key) || (key == "patience" && options.patience.is_some());
    let mut choices = Vec::new();
    fit::network(config, given, survey, &mut choices);
    notes.extend(choices.iter().map(words));
}

fn words(choice: &Choice) -> String {
    match choice {
        Choice::Untokenised(example, more) => format!(
            "the text does not look tokenised: `{}` and {} more words have punctuation attached\n  \
             try: --tokenize, which splits it off and lower-cases the words",
            super::printable(example),
            grouped(*more)
        ),
        Choice::Tokenised => {
            "the text is not tokenised: words are lower-cased and split from their punctuation".to_owned()
        }
        Choice::RareWords(rare, all) => {
            format!(
                "words seen once in training become <unk>: {} of {}; --min-count 1 keeps them",
                grouped(*rare),
                grouped(*all)
            )
        }
        Choice::FewStreams(streams, words) => {
            format!("{streams} streams (--set batch): the text has {} words", grouped(*words))
        }
    }
}
