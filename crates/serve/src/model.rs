//! What is served: a network as it was trained, or a model with another way of predicting.

use bowline::params::Params;
use bowline::predict::LanguageModel;
use bowline::predictor::{Member, Predictor};
use bowline::vocabulary::Vocabulary;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// A model, or several joined, that predicts in a way of its own: with a cache, learning on the way, and so on.
pub struct Way {
    /// The first model; its name and its words are those of the whole.
    pub model: Member,
    /// How it predicts, in a few words.
    pub title: String,
    /// How it predicts, with all settings, for programs.
    pub details: Value,
    /// As many predictors as there are threads that compute. They must be alike: any of them may answer.
    pub predictors: Vec<Box<dyn Predictor>>,
}

/// What [`Server::new`](crate::Server::new) takes.
pub enum Offer {
    /// A network as it was trained. Requests share passes through it.
    Trained(Box<LanguageModel>),
    /// Anything else. Requests are answered one by one, and each begins with nothing read.
    Way(Box<Way>),
}

impl From<LanguageModel> for Offer {
    fn from(model: LanguageModel) -> Offer {
        Offer::Trained(Box::new(model))
    }
}

/// What a request handler knows of a model.
pub enum Model {
    /// A network as it was trained.
    Trained(Arc<LanguageModel>),
    /// A model with another way of predicting: how, in words and in full.
    Way {
        /// The first model.
        member: Box<Member>,
        /// How it predicts, in a few words.
        title: String,
        /// How it predicts, with all settings.
        details: Value,
    },
}

impl Model {
    /// Where it is from.
    pub fn folder(&self) -> &Path {
        match self {
            Model::Trained(model) => &model.folder,
            Model::Way { member, .. } => &member.folder,
        }
    }

    /// `re`, `kn` and so on.
    pub fn kind(&self) -> &str {
        match self {
            Model::Trained(model) => &model.kind,
            Model::Way { member, .. } => &member.kind,
        }
    }

    /// The words.
    pub fn vocabulary(&self) -> &Vocabulary {
        match self {
            Model::Trained(model) => &model.vocabulary,
            Model::Way { member, .. } => &member.vocabulary,
        }
    }

    /// Whether its training text was lower-cased and split from its punctuation.
    pub fn tokenize(&self) -> bool {
        match self {
            Model::Trained(model) => model.tokenize,
            Model::Way { member, .. } => member.tokenize,
        }
    }

    /// The weights of a network.
    pub fn params(&self) -> Option<&Params> {
        match self {
            Model::Trained(model) => Some(&model.params),
            Model::Way { member, .. } => member.params().map(|params| &**params),
        }
    }

    /// How it predicts, if not as it was trained: in a few words, and in full.
    pub fn way(&self) -> Option<(&str, &Value)> {
        match self {
            Model::Trained(_) => None,
            Model::Way { title, details, .. } => Some((title, details)),
        }
    }
}
