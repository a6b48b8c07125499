//! The models that can be members of a mixture: what a MODEL argument may name.

use super::{GradientScale, Neural, NeuralSettings, Ngram, Predictor, Source, fingerprint};
use crate::any_model::AnyModel;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::KeepProb;
use crate::model_folder::NgramFolder;
use crate::ngram::NgramModel;
use crate::ngram::recency::RecencySettings;
use crate::params::Params;
use crate::predict::LanguageModel;
use crate::vocabulary::Vocabulary;
use bowline_kernels::{Isa, Team};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What predicts.
enum Kind {
    Network { params: Arc<Params>, scale: Option<Arc<GradientScale>> },
    Ngram(Arc<NgramModel>),
}

/// A model with its words, whatever its kind.
pub struct Member {
    /// The folder it came from.
    pub folder: PathBuf,
    /// `vd-lstm`, `al`, `re`, `real`, `kn` or `ngram`.
    pub kind: String,
    /// The words.
    pub vocabulary: Vocabulary,
    /// Whether its training text was lower-cased and split from its punctuation.
    pub tokenize: bool,
    /// The recency cache that was tuned with an n-gram model.
    pub recency: Option<RecencySettings>,
    model: Kind,
}

impl Member {
    /// Loads a model folder, or the best model of a run's folder.
    pub fn load(path: &Path) -> Result<Member> {
        AnyModel::load(path).map(Member::from)
    }

    /// Loads several, which must have the same words.
    pub fn load_all(paths: &[PathBuf]) -> Result<Vec<Member>> {
        let members: Vec<Member> = paths.iter().map(|path| Member::load(path)).collect::<Result<_>>()?;
        for (member, path) in members.iter().zip(paths).skip(1) {
            members[0].check_same_words(member, &paths[0], path)?;
        }
        Ok(members)
    }

    fn check_same_words(&self, other: &Member, own: &Path, theirs: &Path) -> Result<()> {
        let advice = "models that were trained on the same text with the same settings of the vocabulary";
        let problem = if self.tokenize != other.tokenize {
            format!("only one of it and {} was trained on tokenized text", own.display())
        } else if self.vocabulary == other.vocabulary {
            return Ok(());
        } else if self.vocabulary.len() != other.vocabulary.len() {
            let (n, m) = (other.vocabulary.len(), self.vocabulary.len());
            format!("it has {n} words and {} has {m}: they cannot be mixed", own.display())
        } else if other.vocabulary.words().all(|word| self.vocabulary.id(word).is_some()) {
            format!("it has the words of {} in another order: they cannot be mixed", own.display())
        } else {
            format!("it has other words than {}: they cannot be mixed", own.display())
        };
        Err(Error::model(theirs, "vocabulary", problem, advice))
    }

    /// The weights of a network.
    pub fn params(&self) -> Option<&Arc<Params>> {
        match &self.model {
            Kind::Network { params, .. } => Some(params),
            Kind::Ngram(_) => None,
        }
    }

    /// The n-gram model, if it is one.
    pub fn ngram(&self) -> Option<&Arc<NgramModel>> {
        match &self.model {
            Kind::Network { .. } => None,
            Kind::Ngram(model) => Some(model),
        }
    }

    /// What tells this model from others: the hash of a network's weights, the sizes of an n-gram model.
    pub fn mark(&self) -> String {
        match &self.model {
            Kind::Network { params, .. } => fingerprint(params),
            Kind::Ngram(model) => format!("{} {:?}", self.kind, model.ngrams()),
        }
    }

    /// A short name: the kind, and for an n-gram model its order.
    pub fn title(&self) -> String {
        match &self.model {
            Kind::Network { .. } => self.kind.clone(),
            Kind::Ngram(model) if self.kind == "kn" => format!("KN-{}", model.order()),
            Kind::Ngram(model) => format!("{}-gram", model.order()),
        }
    }

    /// The probability of keeping a unit that the model was trained with, if its run's folder is still around it.
    pub fn trained_keep(&self) -> Option<KeepProb> {
        let run = self.folder.parent()?;
        Config::read(&run.join("config.toml")).ok().map(|config| config.keep)
    }

    /// The scale of the gradients, where it has been given.
    pub fn scale(&self) -> Option<&Arc<GradientScale>> {
        match &self.model {
            Kind::Network { scale, .. } => scale.as_ref(),
            Kind::Ngram(_) => None,
        }
    }

    /// Gives a network the scale of its gradients, for the RMS form of dynamic evaluation.
    pub fn set_scale(&mut self, new: Arc<GradientScale>) {
        if let Kind::Network { scale, .. } = &mut self.model {
            *scale = Some(new);
        }
    }

    /// What a network predictor is made of.
    pub fn source(&self, team: &Arc<Team>, isa: Isa) -> Option<Source> {
        let Kind::Network { params, scale } = &self.model else { return None };
        Some(Source { params: Arc::clone(params), team: Arc::clone(team), isa, scale: scale.clone() })
    }

    /// The model as a predictor; the settings are for networks.
    pub fn predictor(&self, team: &Arc<Team>, isa: Isa, settings: &NeuralSettings) -> Result<Box<dyn Predictor>> {
        match &self.model {
            Kind::Ngram(model) => Ok(Box::new(Ngram::new(Arc::clone(model)))),
            Kind::Network { params, scale } => {
                let (params, scale) = (Arc::clone(params), scale.clone());
                let source = Source { params, team: Arc::clone(team), isa, scale };
                Ok(Box::new(Neural::new(&source, settings)?))
            }
        }
    }
}

impl From<AnyModel> for Member {
    fn from(model: AnyModel) -> Member {
        match model {
            AnyModel::Neural(model) => {
                let LanguageModel { folder, kind, params, vocabulary, tokenize } = *model;
                let model = Kind::Network { params: Arc::new(params), scale: None };
                Member { folder, kind, vocabulary, tokenize, recency: None, model }
            }
            AnyModel::Ngram(model) => {
                let NgramFolder { folder, kind, model, vocabulary, tokenize, recency } = *model;
                Member { folder, kind, vocabulary, tokenize, recency, model: Kind::Ngram(Arc::new(model)) }
            }
        }
    }
}
