//! Why this word? What a model with parts that can be looked at says of the text it has read.

use crate::error::{Error, Result};
use crate::loaded_model::LoadedModel;
use crate::params::Params;
use crate::vocabulary::Vocabulary;
use serde::Serialize;

/// Topics that are shown, and words of each.
const TOPICS: usize = 5;
const WORDS: usize = 8;

/// What can be said of a place in a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// What the text is about, most of all first.
    pub topics: Vec<TopicShare>,
}

/// One of the topics of a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopicShare {
    /// Its number.
    pub topic: usize,
    /// The share of the text, as the network sees it.
    pub share: f64,
    /// The words it is best known by.
    pub words: Vec<String>,
}

/// Explains what a model knows after some words; those of the network alone, not of caches and mixtures around it.
pub fn explain(model: &LoadedModel, ids: &[u32]) -> Result<Explanation> {
    let topics = model.params().map_or_else(Vec::new, |params| topics(params, &model.vocabulary, ids));
    if topics.is_empty() {
        let problem = format!("a {} model has nothing to look into: neither topics nor a pointer", model.title());
        return Err(Error::model(&model.folder, "explain", problem, "a model of `bowline train --model rnn-lda`"));
    }
    Ok(Explanation { topics })
}

fn topics(params: &Params, vocabulary: &Vocabulary, ids: &[u32]) -> Vec<TopicShare> {
    let Some(topics) = params.topics() else { return Vec::new() };
    let mut shares = vec![0.0; params.spec().features()];
    topics.features(ids.iter().copied(), &mut shares);
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(a.cmp(&b)));
    let share = |topic: usize| TopicShare {
        topic,
        share: f64::from(shares[topic]),
        words: topics.words_of(topic, WORDS).into_iter().map(|id| vocabulary.word(id).to_owned()).collect(),
    };
    order.into_iter().take(TOPICS).map(share).collect()
}
