//! A trained model put to use: what comes next?

use crate::batch::Window;
use crate::compute::Compute;
use crate::corpus::Phrase;
use crate::error::Result;
use crate::model::{Network, State, Use};
use crate::model_folder::{self, ModelFolder};
use crate::params::Params;
use crate::vocabulary::Vocabulary;
use bowline_kernels::{Isa, Team};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model with its words.
pub struct LanguageModel {
    /// The folder it came from.
    pub folder: PathBuf,
    /// `vd-lstm`, `al`, `re` or `real`.
    pub kind: String,
    /// The weights.
    pub params: Params,
    /// The words.
    pub vocabulary: Vocabulary,
    /// Whether its training text was lower-cased and split from its punctuation.
    pub tokenize: bool,
}

/// A word and its probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The word.
    pub word: String,
    /// Its probability, given what came before.
    pub probability: f64,
}

impl LanguageModel {
    /// Loads a model folder, or the best model of a run's folder.
    pub fn load(path: &Path) -> Result<LanguageModel> {
        let folder = model_folder::resolve(path)?;
        let ModelFolder { model, params, vocabulary, metadata } = ModelFolder::load(&folder)?;
        let vocabulary = Vocabulary::from_text(&folder.join(model_folder::VOCABULARY), vocabulary.as_bytes())?;
        let tokenize = metadata.get("tokenize").is_some_and(|value| value == "true");
        Ok(LanguageModel { folder, kind: model, params, vocabulary, tokenize })
    }

    /// The distribution of the word after `ids`, (V). The words stand at the beginning of a sentence: an `<eos>` is read
    /// before them.
    pub fn distribution(&self, team: &Arc<Team>, isa: Isa, ids: &[u32]) -> Vec<f32> {
        let spec = self.params.spec();
        let inputs: Vec<u32> = std::iter::once(self.vocabulary.eos()).chain(ids.iter().copied()).collect();
        let steps = inputs.len();
        let mut network = Network::new(spec, Compute::new(Arc::clone(team), isa), Use::Evaluate, steps, 1);
        network.pack(&self.params, Use::Evaluate);
        let window = Window { steps, batch: 1, targets: vec![0; steps], inputs };
        let mut out = vec![0.0; steps * spec.vocab];
        network.probabilities(&self.params, &window, &mut State::zeros(spec, 1), &mut out);
        out.split_off((steps - 1) * spec.vocab)
    }

    /// The `k` most likely next words, likeliest first (of equals, the more frequent in training).
    pub fn next_words(&self, team: &Arc<Team>, isa: Isa, phrase: &Phrase, k: usize) -> Vec<Candidate> {
        likeliest(&self.vocabulary, &self.distribution(team, isa, &phrase.ids), k)
    }
}

/// The `k` likeliest words of a distribution, likeliest first (of equals, the one with the smaller id).
pub fn likeliest(vocabulary: &Vocabulary, distribution: &[f32], k: usize) -> Vec<Candidate> {
    let mut order: Vec<u32> = (0..distribution.len() as u32).collect();
    order.sort_by(|&a, &b| distribution[b as usize].total_cmp(&distribution[a as usize]).then(a.cmp(&b)));
    let candidate =
        |id: u32| Candidate { word: vocabulary.word(id).to_owned(), probability: f64::from(distribution[id as usize]) };
    order.into_iter().take(k).map(candidate).collect()
}
