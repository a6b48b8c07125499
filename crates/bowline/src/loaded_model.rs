//! The model in a folder, whatever its kind.
//!
//! A [`LoadedModel`] is what every MODEL argument means: a network or an n-gram model, with its words. It reads and
//! predicts as a [`Predictor`] ([`LoadedModel::predictor`]); several of them, and other ways of predicting, make an
//! [`Ensemble`](crate::predictor::Ensemble). Code that needs one kind asks for it
//! ([`LoadedModel::require_network`], [`LoadedModel::require_ngrams`]), and the error says what the other kind lacks.

use crate::batch::Window;
use crate::compute::Compute;
use crate::config::Config;
use crate::corpus::Phrase;
use crate::error::{Error, Result};
use crate::model::{Dropout, KeepProb, Network, State, Use};
use crate::model_folder::{self, ModelFolder, NgramFolder};
use crate::ngram::NgramModel;
use crate::params::Params;
use crate::predictor::recency_cache::RecencySettings;
use crate::predictor::{GradientScale, Neural, NeuralSettings, Ngram, Predictor, Source, fingerprint};
use crate::vocabulary::Vocabulary;
use bowline_kernels::{Isa, Team};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Words whose distributions are computed together.
const BLOCK: usize = 200;

/// A model with its words.
pub struct LoadedModel {
    /// The folder it came from.
    pub folder: PathBuf,
    /// The name that `--model` takes; `ngram` for one that was read from an ARPA file.
    pub kind: String,
    /// The words.
    pub vocabulary: Vocabulary,
    /// Whether its training text was lower-cased and split from its punctuation.
    pub tokenize: bool,
    /// What is kept with the weights: the content hash, the epoch and so on.
    pub metadata: BTreeMap<String, String>,
    inside: Inside,
}

/// What predicts.
enum Inside {
    Network { params: Arc<Params>, scale: OnceLock<Arc<GradientScale>> },
    Ngrams { model: Arc<NgramModel>, recency: Option<RecencySettings> },
}

/// A word and its probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The word.
    pub word: String,
    /// Its probability, given what came before.
    pub probability: f64,
}

impl LoadedModel {
    /// Loads a model folder, or the best model of a run's folder.
    pub fn load(path: impl AsRef<Path>) -> Result<LoadedModel> {
        let folder = model_folder::resolve(path)?;
        if model_folder::is_ngram(&folder) {
            return NgramFolder::load(&folder).map(LoadedModel::from);
        }
        let ModelFolder { model, params, vocabulary, metadata } = ModelFolder::load(&folder)?;
        let vocabulary = Vocabulary::from_text(&folder.join(model_folder::VOCABULARY), vocabulary.as_bytes())?;
        let tokenize = metadata.get("tokenize").is_some_and(|value| value == "true");
        Ok(LoadedModel { tokenize, metadata, ..LoadedModel::network(folder, model, params, vocabulary) })
    }

    /// Loads several, which must have the same words.
    pub fn load_all(paths: &[PathBuf]) -> Result<Vec<LoadedModel>> {
        let models: Vec<LoadedModel> = paths.iter().map(LoadedModel::load).collect::<Result<_>>()?;
        for (model, path) in models.iter().zip(paths).skip(1) {
            models[0].check_same_words(model, &paths[0], path)?;
        }
        Ok(models)
    }

    /// A network that is not in a folder yet.
    pub fn network(
        folder: impl Into<PathBuf>,
        kind: impl Into<String>,
        params: Params,
        vocabulary: Vocabulary,
    ) -> LoadedModel {
        let inside = Inside::Network { params: Arc::new(params), scale: OnceLock::new() };
        let (folder, kind, metadata) = (folder.into(), kind.into(), BTreeMap::new());
        LoadedModel { folder, kind, vocabulary, tokenize: false, metadata, inside }
    }

    /// An n-gram model that is not in a folder yet.
    pub fn ngrams(
        folder: impl Into<PathBuf>,
        kind: impl Into<String>,
        model: NgramModel,
        vocabulary: Vocabulary,
    ) -> LoadedModel {
        let inside = Inside::Ngrams { model: Arc::new(model), recency: None };
        let (folder, kind, metadata) = (folder.into(), kind.into(), BTreeMap::new());
        LoadedModel { folder, kind, vocabulary, tokenize: false, metadata, inside }
    }

    fn check_same_words(&self, other: &LoadedModel, own: &Path, theirs: &Path) -> Result<()> {
        let advice =
            "models trained on the same text with the same vocabulary settings, or with the same `--vocab FILE`";
        let problem = if self.tokenize != other.tokenize {
            format!("of it and {}, only one was trained on tokenized text", own.display())
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
        match &self.inside {
            Inside::Network { params, .. } => Some(params),
            Inside::Ngrams { .. } => None,
        }
    }

    /// The weights of a network, for what only a network has; `what` says what that is: "word vectors".
    pub fn require_network(&self, what: &str) -> Result<&Arc<Params>> {
        self.params().ok_or_else(|| {
            let advice = "a network: a model of `bowline train` without `--model kn`";
            Error::model(&self.folder, "model", format!("an n-gram model has no {what}"), advice)
        })
    }

    /// The n-grams of an n-gram model, for what only it has.
    pub fn require_ngrams(&self) -> Result<&Arc<NgramModel>> {
        match &self.inside {
            Inside::Ngrams { model, .. } => Ok(model),
            Inside::Network { .. } => {
                let problem = format!("a {} network has no n-grams", self.kind);
                Err(Error::model(&self.folder, "model", problem, "a model of `bowline train --model kn`"))
            }
        }
    }

    /// What tells this model from others: the hash of a network's weights, the sizes of an n-gram model.
    pub fn mark(&self) -> String {
        match &self.inside {
            Inside::Network { params, .. } => fingerprint(params),
            Inside::Ngrams { model, .. } => format!("{} {:?}", self.kind, model.ngrams()),
        }
    }

    /// A short name: the kind, and for an n-gram model its order.
    pub fn title(&self) -> String {
        match &self.inside {
            Inside::Network { .. } => self.kind.clone(),
            Inside::Ngrams { model, .. } if self.kind == "kn" => format!("KN-{}", model.order()),
            Inside::Ngrams { model, .. } => format!("{}-gram", model.order()),
        }
    }

    /// Whether what it knows goes from one sentence to the next. An n-gram model begins anew at each.
    pub fn carries_state(&self) -> bool {
        matches!(self.inside, Inside::Network { .. })
    }

    /// The recency cache that was tuned when an n-gram model was estimated.
    pub fn recency(&self) -> Option<RecencySettings> {
        match self.inside {
            Inside::Network { .. } => None,
            Inside::Ngrams { recency, .. } => recency,
        }
    }

    /// The probability of keeping a unit that the model was trained with, everywhere and by site, if its run's folder is still
    /// around it.
    pub fn trained_dropout(&self) -> Option<(KeepProb, Dropout)> {
        let run = self.folder.parent()?;
        Config::read(&run.join("config.toml")).ok().map(|config| (config.keep, config.masks))
    }

    /// The scale of a network's gradients, where it has been given.
    pub fn scale(&self) -> Option<&Arc<GradientScale>> {
        match &self.inside {
            Inside::Network { scale, .. } => scale.get(),
            Inside::Ngrams { .. } => None,
        }
    }

    /// Gives a network the scale of its gradients, for the RMS form of dynamic evaluation; the first one counts.
    pub fn set_scale(&self, new: Arc<GradientScale>) {
        if let Inside::Network { scale, .. } = &self.inside {
            let _ = scale.set(new);
        }
    }

    /// What the predictors of a network are made of.
    pub fn source(&self, team: &Arc<Team>, isa: Isa) -> Option<Source> {
        let Inside::Network { params, scale } = &self.inside else { return None };
        Some(Source { params: Arc::clone(params), team: Arc::clone(team), isa, scale: scale.get().cloned() })
    }

    /// The model as a predictor. An n-gram model predicts in one way only: the settings are for networks.
    pub fn predictor(&self, team: &Arc<Team>, isa: Isa, settings: &NeuralSettings) -> Result<Box<dyn Predictor>> {
        match &self.inside {
            Inside::Ngrams { model, .. } => Ok(Box::new(Ngram::new(Arc::clone(model)))),
            Inside::Network { params, scale } => {
                let (params, scale) = (Arc::clone(params), scale.get().cloned());
                let source = Source { params, team: Arc::clone(team), isa, scale };
                Ok(Box::new(Neural::new(&source, settings)?))
            }
        }
    }

    /// The distribution of the word after `ids`, (V). The words stand at the beginning of a sentence: an `<eos>` is read
    /// before them.
    pub fn distribution(&self, team: &Arc<Team>, isa: Isa, ids: &[u32]) -> Result<Vec<f32>> {
        let mut predictor = self.predictor(team, isa, &NeuralSettings::default())?;
        predictor.observe(&[&[self.vocabulary.eos()], ids].concat());
        let mut out = vec![0.0; predictor.vocab()];
        predictor.distribution(&mut out);
        Ok(out)
    }

    /// The distribution of every word of `ids` after the first, given all before it, in order: `each(position, y)`, where
    /// `y` predicts `ids[position]`.
    pub fn distributions(
        &self,
        team: &Arc<Team>,
        isa: Isa,
        ids: &[u32],
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<()> {
        let mut predictor = self.predictor(team, isa, &NeuralSettings::default())?;
        let vocab = predictor.vocab();
        let mut out = vec![0.0; BLOCK * vocab];
        let read = &ids[..ids.len().saturating_sub(1)];
        for (block, words) in read.chunks(BLOCK).enumerate() {
            let out = &mut out[..words.len() * vocab];
            predictor.distributions(words, out);
            for (i, y) in out.chunks_exact(vocab).enumerate() {
                each(block * BLOCK + i + 1, y);
            }
        }
        Ok(())
    }

    /// What a network's classifier sees after each word of `ids`, (words, d): what it knows of the text there.
    pub fn hidden(&self, team: &Arc<Team>, isa: Isa, ids: &[u32]) -> Result<Vec<f32>> {
        let params = self.require_network("hidden states")?;
        let spec = params.spec();
        let mut network = Network::new(spec, Compute::new(Arc::clone(team), isa), Use::Evaluate, BLOCK, 1);
        network.pack(params, Use::Evaluate);
        let (mut state, mut window, mut hidden) = (State::zeros(spec, 1), Window::default(), Vec::new());
        for words in ids.chunks(BLOCK) {
            (window.steps, window.batch) = (words.len(), 1);
            window.inputs = words.to_vec();
            network.read(params, &window, &mut state, None);
            hidden.extend_from_slice(network.hidden(words.len(), 1));
        }
        Ok(hidden)
    }

    /// The `k` most likely next words, likeliest first (of equals, the more frequent in training).
    pub fn next_words(&self, team: &Arc<Team>, isa: Isa, phrase: &Phrase, k: usize) -> Result<Vec<Candidate>> {
        Ok(likeliest(&self.vocabulary, &self.distribution(team, isa, &phrase.ids)?, k))
    }
}

impl From<NgramFolder> for LoadedModel {
    fn from(NgramFolder { folder, kind, model, vocabulary, tokenize, recency }: NgramFolder) -> LoadedModel {
        let inside = Inside::Ngrams { model: Arc::new(model), recency };
        LoadedModel { folder, kind, vocabulary, tokenize, metadata: BTreeMap::new(), inside }
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
