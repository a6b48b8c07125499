//! A model of any kind: what a MODEL argument may mean.

use crate::corpus::Phrase;
use crate::error::Result;
use crate::model_folder::{self, NgramFolder};
use crate::predict::{Candidate, LanguageModel, likeliest};
use crate::vocabulary::Vocabulary;
use bowline_kernels::{Isa, Team};
use std::path::Path;
use std::sync::Arc;

/// A model with its words.
pub enum AnyModel {
    /// A network.
    Neural(Box<LanguageModel>),
    /// An n-gram model.
    Ngram(Box<NgramFolder>),
}

impl AnyModel {
    /// Loads a model folder, or the best model of a run's folder.
    pub fn load(path: &Path) -> Result<AnyModel> {
        let folder = model_folder::resolve(path)?;
        if model_folder::is_ngram(&folder) {
            return Ok(AnyModel::Ngram(Box::new(NgramFolder::load(&folder)?)));
        }
        Ok(AnyModel::Neural(Box::new(LanguageModel::load(path)?)))
    }

    /// The model's name as `--model` takes it, or `ngram` for one that was read from an ARPA file.
    pub fn kind(&self) -> &str {
        match self {
            AnyModel::Neural(model) => &model.kind,
            AnyModel::Ngram(model) => &model.kind,
        }
    }

    /// The words.
    pub fn vocabulary(&self) -> &Vocabulary {
        match self {
            AnyModel::Neural(model) => &model.vocabulary,
            AnyModel::Ngram(model) => &model.vocabulary,
        }
    }

    /// Whether its training text was lower-cased and split from its punctuation.
    pub fn tokenize(&self) -> bool {
        match self {
            AnyModel::Neural(model) => model.tokenize,
            AnyModel::Ngram(model) => model.tokenize,
        }
    }

    /// The distribution of the word after `ids`, (V). The words stand at the beginning of a sentence.
    pub fn distribution(&self, team: &Arc<Team>, isa: Isa, ids: &[u32]) -> Vec<f32> {
        match self {
            AnyModel::Neural(model) => model.distribution(team, isa, ids),
            AnyModel::Ngram(model) => {
                let context: Vec<u32> = std::iter::once(model.model.eos()).chain(ids.iter().copied()).collect();
                let mut out = vec![0.0; model.model.vocab()];
                model.model.distribution(&context, &mut out);
                out
            }
        }
    }

    /// The `k` most likely next words, likeliest first (of equals, the more frequent in training).
    pub fn next_words(&self, team: &Arc<Team>, isa: Isa, phrase: &Phrase, k: usize) -> Vec<Candidate> {
        likeliest(self.vocabulary(), &self.distribution(team, isa, &phrase.ids), k)
    }
}
