//! How a model predicts, on the command line: the flags that `eval`, `score`, `next`, `generate`, `rescore` and `serve`
//! share, and the ensemble they mean.

mod setup;

use bowline::Error;
use bowline::loaded_model::LoadedModel;
use bowline::model::{Dropout, KeepProb};
use bowline::predictor::recency_cache::RecencySettings;
use bowline::predictor::{
    CacheSettings, DynamicForm, DynamicSettings, Mix, MonteCarloSettings, NeuralSettings, TunedSettings,
};
use clap::{Args, ValueEnum};

pub use setup::{Setup, need_scale};

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum MixName {
    /// Add the probabilities
    #[default]
    Linear,
    /// Multiply their powers and normalise
    Log,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormName {
    /// Scaled by the gradients on the training text
    Rms,
    /// Plain gradient descent
    Sgd,
}

/// Settings that are not given are those that `eval --tune` found for the model, or else usual ones.
#[derive(Args, Default)]
#[command(next_help_heading = "How to predict")]
pub struct PredictorOptions {
    /// Use the model as trained, without the n-grams, cache and dynamic evaluation stored by `train --budget`
    #[arg(long)]
    pub plain: bool,
    /// Use a neural cache
    #[arg(long)]
    pub cache: bool,
    /// Words the cache remembers
    #[arg(long, value_name = "N")]
    pub cache_window: Option<usize>,
    /// How sharply the cache prefers similar states
    #[arg(long, value_name = "X")]
    pub cache_theta: Option<f64>,
    /// Weight of the cache
    #[arg(long, value_name = "X")]
    pub cache_lambda: Option<f64>,
    /// Use dynamic evaluation: keep learning from the text
    #[arg(long)]
    pub dynamic: bool,
    /// Update rule of dynamic evaluation
    #[arg(long, value_enum, value_name = "FORM")]
    pub dynamic_form: Option<FormName>,
    /// Words between two updates
    #[arg(long, value_name = "N")]
    pub dynamic_segment: Option<usize>,
    /// Learning rate of the updates
    #[arg(long, value_name = "X")]
    pub dynamic_rate: Option<f64>,
    /// How strongly the weights return to their trained values
    #[arg(long, value_name = "X")]
    pub dynamic_decay: Option<f64>,
    /// Constant added to the scale of the gradients, relative to its mean
    #[arg(long, value_name = "X")]
    pub dynamic_epsilon: Option<f64>,
    /// Average N samples of Monte-Carlo dropout; 0 for none
    #[arg(long, value_name = "N")]
    pub mc: Option<usize>,
    /// Probability of keeping a unit [default: what --tune found, else as in training]
    #[arg(long, value_name = "P")]
    pub mc_keep: Option<f32>,
    /// Seed of the dropped units
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub mc_seed: u64,
    /// Divide the logits by T; `tuned` is what --tune found
    #[arg(long, value_name = "T|tuned")]
    pub temperature: Option<String>,
    /// Add a recency cache, for example --recency=window=2000,weight=0.1
    #[arg(long, value_name = "SETTINGS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub recency: Option<String>,
    /// How to mix several models
    #[arg(long, value_enum, default_value = "linear")]
    pub mix: MixName,
    /// Mixture weights, comma-separated [default: fitted on the validation part]
    #[arg(long, value_name = "W,W..", value_delimiter = ',')]
    pub weights: Option<Vec<f64>>,
}

impl PredictorOptions {
    pub fn wants_cache(&self) -> bool {
        self.cache || self.cache_window.is_some() || self.cache_theta.is_some() || self.cache_lambda.is_some()
    }

    pub fn wants_dynamic(&self) -> bool {
        self.dynamic
            || self.dynamic_form.is_some()
            || self.dynamic_segment.is_some()
            || self.dynamic_rate.is_some()
            || self.dynamic_decay.is_some()
            || self.dynamic_epsilon.is_some()
    }

    /// Whether anything but the model as trained is asked for.
    pub fn any(&self) -> bool {
        let more = self.mc.is_some() || self.temperature.is_some() || self.recency.is_some();
        self.wants_cache() || self.wants_dynamic() || more || self.weights.is_some()
    }

    pub fn mix(&self) -> Mix {
        match self.mix {
            MixName::Linear => Mix::Linear,
            MixName::Log => Mix::Log,
        }
    }

    /// The start of a search, or the settings: what is given, else what was found, else the usual.
    pub fn dynamic_settings(&self, stored: Option<&TunedSettings>) -> DynamicSettings {
        let found = stored.and_then(|s| s.dynamic);
        let form = match self.dynamic_form {
            Some(FormName::Rms) => DynamicForm::Rms,
            Some(FormName::Sgd) => DynamicForm::Sgd,
            None => found.map_or(DynamicForm::Rms, |d| d.form),
        };
        let from = found.filter(|d| d.form == form).unwrap_or(DynamicSettings::of(form));
        DynamicSettings {
            form,
            segment: self.dynamic_segment.unwrap_or(from.segment),
            rate: self.dynamic_rate.unwrap_or(from.rate),
            decay: self.dynamic_decay.unwrap_or(from.decay),
            epsilon: self.dynamic_epsilon.unwrap_or(from.epsilon),
        }
    }

    /// The settings of Monte-Carlo dropout: what is given, else what was found, else as in training.
    pub fn monte_carlo(
        &self,
        model: &LoadedModel,
        stored: Option<&TunedSettings>,
        samples: usize,
    ) -> bowline::Result<MonteCarloSettings> {
        let found = stored.and_then(|s| match s.mc_masks {
            Some(masks) => Some((KeepProb::ALL, masks)),
            None => s.mc_keep.map(|keep| (KeepProb(keep), Dropout::default())),
        });
        let known = self.mc_keep.map(|keep| (KeepProb(keep), Dropout::default())).or(found);
        let (keep, masks) = known.or_else(|| model.trained_dropout()).ok_or_else(|| {
            let problem = "the model's folder does not say with which probability units were kept in training";
            Error::config("mc-keep", problem, "--mc-keep with that probability; the paper's small models have 0.7")
        })?;
        Ok(MonteCarloSettings { samples, keep, seed: self.mc_seed, masks })
    }

    /// How one model predicts.
    pub fn settings(&self, model: &LoadedModel, stored: Option<&TunedSettings>) -> bowline::Result<NeuralSettings> {
        let dynamic = self.wants_dynamic().then(|| self.dynamic_settings(stored));
        let cache = self.wants_cache().then(|| {
            let alone = stored.and_then(|s| s.cache);
            let with = stored.and_then(|s| s.cache_with_dynamic).filter(|_| dynamic.is_some());
            let from = with.or(alone).unwrap_or_default();
            CacheSettings {
                window: self.cache_window.unwrap_or(from.window),
                theta: self.cache_theta.unwrap_or(from.theta),
                lambda: self.cache_lambda.unwrap_or(from.lambda),
            }
        });
        let monte_carlo = match self.mc {
            Some(0) => None,
            Some(samples) if model.params().is_some() => Some(self.monte_carlo(model, stored, samples)?),
            // An n-gram model has nothing to drop: beside a network it is left out, alone it is refused.
            Some(samples) => {
                let (keep, masks) = (KeepProb::ALL, Dropout::default());
                Some(MonteCarloSettings { samples, keep, seed: self.mc_seed, masks })
            }
            None => None,
        };
        let temperature = match self.temperature.as_deref() {
            None => 1.0,
            Some("tuned") => stored.and_then(|s| s.temperature).unwrap_or(1.0),
            Some(text) => text.parse().map_err(|_| {
                Error::config("temperature", format!("`{text}` is not a number"), "a number such as 1.1, or `tuned`")
            })?,
        };
        let settings = NeuralSettings { temperature, cache, dynamic, monte_carlo };
        settings.validate()?;
        Ok(settings)
    }

    /// The recency cache: what is given, else what was found, or stored with an n-gram model, else the usual.
    pub fn recency_settings(
        &self,
        model: &LoadedModel,
        stored: Option<&TunedSettings>,
    ) -> bowline::Result<Option<RecencySettings>> {
        let from = stored.and_then(|s| s.recency).or(model.recency()).unwrap_or_default();
        self.recency.as_deref().map(|text| from.with(text)).transpose()
    }
}
