//! Why this word? What a model with parts that can be looked at says of the text it has read.

use crate::batch::Window;
use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::loaded_model::LoadedModel;
use crate::model::{Network, Outlook, State, Use};
use crate::params::Params;
use crate::vocabulary::Vocabulary;
use serde::Serialize;

/// Topics that are shown, and words of each.
const TOPICS: usize = 5;
const WORDS: usize = 8;

/// Words of the text that are shown as pointed to.
const POINTED: usize = 8;

/// Words of the text that a network is given to read: more would change little of what it points to.
const READ: usize = 1000;

/// What can be said of a place in a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// What the text is about, most of all first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<TopicShare>,
    /// Where the model points, if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<Pointed>,
}

/// How the probability of the next word is shared out between the pointer and the softmax.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pointed {
    /// The share of the softmax.
    pub softmax: f64,
    /// Words of the text that the pointer points to, most of all first.
    pub words: Vec<PointedWord>,
}

/// A word of the text that the pointer points to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointedWord {
    /// The word.
    pub word: String,
    /// How many words ago it was read: 1 is the last one.
    pub back: usize,
    /// What the pointer adds to its probability for this place of it.
    pub share: f64,
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

/// Whether there is anything in a model to explain.
pub fn can_explain(model: &LoadedModel) -> bool {
    model.params().is_some_and(|params| params.topics().is_some() || params.spec().output.pointer.is_some())
}

/// Explains what a model knows after some words; those of the network alone, not of caches and mixtures around it.
pub fn explain(model: &LoadedModel, ids: &[u32]) -> Result<Explanation> {
    let topics = model.params().map_or_else(Vec::new, |params| topics(params, &model.vocabulary, ids));
    let pointer = pointer(model, ids)?;
    if topics.is_empty() && pointer.is_none() {
        let problem = format!("a {} model has nothing to look into: neither topics nor a pointer", model.title());
        return Err(Error::model(
            &model.folder,
            "explain",
            problem,
            "a model of `bowline train --model rnn-lda` or `--model pointer-sentinel`",
        ));
    }
    Ok(Explanation { topics, pointer })
}

fn pointer(model: &LoadedModel, ids: &[u32]) -> Result<Option<Pointed>> {
    let Some(params) = model.params().filter(|params| params.spec().output.pointer.is_some()) else { return Ok(None) };
    let spec = params.spec();
    let mut network = Network::new(spec, Compute::with_threads(1), Use::Evaluate, 1, 1);
    network.pack(params, Use::Evaluate);
    let mut state = State::zeros(spec, 1);
    for &word in &ids[ids.len().saturating_sub(READ)..] {
        let window = Window { steps: 1, batch: 1, inputs: vec![word], targets: Vec::new() };
        network.read(params, &window, &mut state, None);
    }
    let row = network.outlook_of(params, &state);
    let seen = Outlook::of(&row, spec.width());
    let pointed: Vec<(u32, f32)> = seen.pointed().collect();
    let word = |(i, &(id, share)): (usize, &(u32, f32))| PointedWord {
        word: model.vocabulary.word(id).to_owned(),
        back: pointed.len() - i,
        share: f64::from(share),
    };
    let mut words: Vec<PointedWord> = pointed.iter().enumerate().map(word).collect();
    words.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.back.cmp(&b.back)));
    words.truncate(POINTED);
    Ok(Some(Pointed { softmax: f64::from(seen.gate), words }))
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
