//! Models and how they predict together: all that stands between folders and a predictor.
//!
//! An *ensemble* is one model or several, each with its way of predicting, joined by weights, with a recency cache on top
//! or without. It is a description: from it come as many predictors ([`Ensemble::predictor`]) and readers
//! ([`Ensemble::reader`]) as are needed, and its names for people and programs.

use super::{Mix, Mixture, NeuralSettings, Predictor, Recency, check_weights};
use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::eval::Evaluator;
use crate::loaded_model::LoadedModel;
use crate::predictor::recency_cache::RecencySettings;
use crate::score::Reader;
use bowline_kernels::{Isa, Team};
use serde_json::{Value, json};
use std::sync::Arc;

/// Models and how they predict.
#[derive(Clone)]
pub struct Ensemble {
    models: Vec<Arc<LoadedModel>>,
    /// How each predicts.
    settings: Vec<NeuralSettings>,
    /// A recency cache on top of all.
    pub recency: Option<RecencySettings>,
    /// How several are joined.
    pub mix: Mix,
    /// What each counts; `None` until it is known. A single model needs none.
    pub weights: Option<Vec<f64>>,
}

/// A model as it was trained.
impl From<LoadedModel> for Ensemble {
    fn from(model: LoadedModel) -> Ensemble {
        Ensemble::from(Arc::new(model))
    }
}

impl From<Arc<LoadedModel>> for Ensemble {
    fn from(model: Arc<LoadedModel>) -> Ensemble {
        let (models, settings) = (vec![model], vec![NeuralSettings::default()]);
        Ensemble { models, settings, recency: None, mix: Mix::Linear, weights: None }
    }
}

impl Ensemble {
    /// Models of the same words as they were trained, to be joined. The first one's name and words are those of the whole.
    pub fn new(models: Vec<LoadedModel>, mix: Mix) -> Result<Ensemble> {
        if models.is_empty() {
            return Err(Error::config("model", "there is no model", "the folder of a model or of a run"));
        }
        let settings = vec![NeuralSettings::default(); models.len()];
        let models = models.into_iter().map(Arc::new).collect();
        Ok(Ensemble { models, settings, recency: None, mix, weights: None })
    }

    /// The first model.
    pub fn model(&self) -> &Arc<LoadedModel> {
        &self.models[0]
    }

    /// The models with how each predicts.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&Arc<LoadedModel>, &NeuralSettings)> {
        self.models.iter().zip(&self.settings)
    }

    /// Says how each model predicts. Only networks can do so in more than one way; if there is none among the models,
    /// asking for another way is an error.
    pub fn set_ways(&mut self, settings: Vec<NeuralSettings>) -> Result<()> {
        settings.iter().try_for_each(NeuralSettings::validate)?;
        let networks = self.models.iter().any(|model| model.params().is_some());
        if let Some(way) = settings.iter().find(|way| **way != NeuralSettings::default()).filter(|_| !networks) {
            let (key, lacks) = match way {
                NeuralSettings { cache: Some(_), .. } => ("cache", "states that a neural cache could compare"),
                NeuralSettings { dynamic: Some(_), .. } => ("dynamic", "weights that could learn from the text"),
                NeuralSettings { monte_carlo: Some(_), .. } => ("mc", "units that could be dropped"),
                _ => ("temperature", "logits that could be divided"),
            };
            let advice = "--recency, a cache for every kind of model, or mix in a network";
            return Err(Error::config(key, format!("an n-gram model has no {lacks}"), advice));
        }
        debug_assert_eq!(settings.len(), self.models.len());
        let usable = |(model, way): (&Arc<LoadedModel>, NeuralSettings)| match model.params() {
            Some(_) => way,
            None => NeuralSettings::default(),
        };
        self.settings = self.models.iter().zip(settings).map(usable).collect();
        Ok(())
    }

    /// Takes weights that somebody chose.
    pub fn set_weights(&mut self, weights: Option<Vec<f64>>) -> Result<()> {
        if let Some(weights) = &weights {
            check_weights(weights, self.models.len(), self.mix)?;
        }
        self.weights = weights;
        Ok(())
    }

    /// Whether it is one model as it was trained.
    pub fn is_plain(&self) -> bool {
        self.models.len() == 1 && self.settings[0] == NeuralSettings::default() && self.recency.is_none()
    }

    /// Whether it is one network as it was trained: then texts can be read side by side, and in several streams.
    fn plain_network(&self) -> Option<&Arc<LoadedModel>> {
        Some(self.model()).filter(|model| self.is_plain() && model.params().is_some())
    }

    /// A predictor for each model alone.
    pub fn predictors(&self, team: &Arc<Team>, isa: Isa) -> Result<Vec<Box<dyn Predictor>>> {
        self.members().map(|(model, settings)| model.predictor(team, isa, settings)).collect()
    }

    /// All as one predictor.
    pub fn predictor(&self, team: &Arc<Team>, isa: Isa) -> Result<Box<dyn Predictor>> {
        let mut all = self.predictors(team, isa)?;
        let joined: Box<dyn Predictor> = match (all.len(), all.pop()) {
            (1, Some(only)) => only,
            (members, last) => {
                all.extend(last);
                let weights = self.weights.clone().unwrap_or_else(|| vec![1.0 / members as f64; members]);
                Box::new(Mixture::new(all, weights, self.mix)?)
            }
        };
        Ok(match self.recency {
            Some(settings) => Box::new(Recency::new(joined, settings, self.model().vocabulary.eos())?),
            None => joined,
        })
    }

    /// A reader of many passages, with at most `batch` of them side by side where that is possible; `None` for as many as
    /// are usual.
    pub fn reader(&self, team: &Arc<Team>, isa: Isa, batch: Option<usize>) -> Result<Reader> {
        let model = Arc::clone(self.model());
        match self.plain_network().and_then(|network| network.params()) {
            Some(params) => {
                Ok(Reader::side_by_side(Arc::clone(&model), Arc::clone(params), Arc::clone(team), isa, batch))
            }
            None => Ok(Reader::one_by_one(model, self.predictor(team, isa)?)),
        }
    }

    /// `-log p` of every word of `ids` after the first. In `streams` pieces, each without a past; only a network as
    /// trained can read more than one.
    pub fn nll(&self, team: &Arc<Team>, isa: Isa, ids: &[u32], streams: usize) -> Result<Vec<f64>> {
        if let Some(params) = self.plain_network().and_then(|network| network.params()) {
            return Ok(Evaluator::new(params.spec(), Compute::new(Arc::clone(team), isa), streams).nll(params, ids));
        }
        if streams != 1 {
            let problem = "only a network as it was trained can read a text in several streams";
            return Err(Error::config("streams", problem, "--streams 1, or leave it out"));
        }
        let probabilities = self.predictor(team, isa)?.target_probabilities(ids, &|| false).unwrap_or_default();
        Ok(probabilities.iter().map(|p| -p.ln()).collect())
    }

    /// The models' marks, each with how it predicts: what weights belong to.
    pub fn labels(&self) -> Vec<String> {
        let label = |(model, settings): (&Arc<LoadedModel>, &NeuralSettings)| match model.params() {
            Some(_) => format!("{} {}", model.mark(), settings.title()),
            None => model.mark(),
        };
        self.members().map(label).collect()
    }

    /// What to call it: the kind of a single model as it was trained, or else how they predict.
    pub fn name(&self) -> String {
        match self.models.len() == 1 && self.settings[0].title() == "static" {
            true => self.model().kind.clone(),
            false => self.title(),
        }
    }

    /// How it predicts, in a few words.
    pub fn title(&self) -> String {
        let member = |(model, settings): (&Arc<LoadedModel>, &NeuralSettings)| match settings.title().as_str() {
            "static" => model.title(),
            way => format!("{} ({way})", model.title()),
        };
        let all: Vec<String> = self.members().map(member).collect();
        let recency = if self.recency.is_some() { " with a recency cache" } else { "" };
        format!("{}{recency}", all.join(if self.mix == Mix::Log { " * " } else { " + " }))
    }

    /// How it predicts, with all settings, for programs.
    pub fn details(&self) -> Value {
        let weights = self.shares();
        let member = |((model, settings), weight): ((&Arc<LoadedModel>, &NeuralSettings), f64)| match model.params() {
            Some(_) => json!({"model": model.title(), "weight": weight, "settings": settings}),
            None => json!({"model": model.title(), "weight": weight}),
        };
        let members: Vec<Value> = self.members().zip(weights).map(member).collect();
        json!({"members": members, "mix": self.mix.name(), "recency": self.recency})
    }

    /// The weights; 1 for a single model.
    pub fn shares(&self) -> Vec<f64> {
        self.weights.clone().unwrap_or_else(|| vec![1.0; if self.models.len() == 1 { 1 } else { 0 }])
    }

    /// What is known of a sentence when the next one begins, in a few words.
    pub fn state(&self) -> &'static str {
        match (self.models.iter().any(|model| model.carries_state()), self.recency) {
            (true, _) => "carried",
            (false, None) => "new for each sentence",
            (false, Some(_)) => "new for each sentence, cache carried",
        }
    }
}
