//! How a model predicts, on the command line: the flags that `eval`, `score`, `next`, `generate` and `serve` share, and the
//! predictor they mean.

use crate::terminal::{Bar, note};
use bowline::Error;
use bowline::corpus::SplitName;
use bowline::model::KeepProb;
use bowline::ngram::recency::RecencySettings;
use bowline::predictor::{
    CacheSettings, DynamicForm, DynamicSettings, GradientScale, Member, Mix, Mixture, MonteCarloSettings,
    NeuralSettings, Predictor, Recency, Stored, check_weights, em,
};
use bowline_kernels::{Isa, Team};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// Remember what followed similar states (neural cache)
    #[arg(long)]
    pub cache: bool,
    /// Positions the cache remembers
    #[arg(long, value_name = "N")]
    pub cache_window: Option<usize>,
    /// How sharply the cache prefers similar states
    #[arg(long, value_name = "X")]
    pub cache_theta: Option<f64>,
    /// The cache's share
    #[arg(long, value_name = "X")]
    pub cache_lambda: Option<f64>,
    /// Go on learning from the text (dynamic evaluation)
    #[arg(long)]
    pub dynamic: bool,
    /// The rule of dynamic evaluation
    #[arg(long, value_enum, value_name = "FORM")]
    pub dynamic_form: Option<FormName>,
    /// Words between two of its steps
    #[arg(long, value_name = "N")]
    pub dynamic_segment: Option<usize>,
    /// How far a step goes
    #[arg(long, value_name = "X")]
    pub dynamic_rate: Option<f64>,
    /// How strongly weights return to their trained values
    #[arg(long, value_name = "X")]
    pub dynamic_decay: Option<f64>,
    /// What is added to the scale of the gradients, relative to its mean
    #[arg(long, value_name = "X")]
    pub dynamic_epsilon: Option<f64>,
    /// Average N networks with units dropped (Monte-Carlo dropout); 0 for none
    #[arg(long, value_name = "N")]
    pub mc: Option<usize>,
    /// Probability of keeping a unit [default: as in training]
    #[arg(long, value_name = "P")]
    pub mc_keep: Option<f32>,
    /// Seed of the dropped units
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub mc_seed: u64,
    /// Divide the logits by T; `tuned` is what --tune found
    #[arg(long, value_name = "T|tuned")]
    pub temperature: Option<String>,
    /// Put a recency cache on top, for example --recency=window=2000,weight=0.1
    #[arg(long, value_name = "SETTINGS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub recency: Option<String>,
    /// How several models are joined
    #[arg(long, value_enum, default_value = "linear")]
    pub mix: MixName,
    /// Their weights, with commas between [default: fitted on the validation part]
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

    pub fn mix_name(&self) -> &'static str {
        match self.mix {
            MixName::Linear => "linear",
            MixName::Log => "log",
        }
    }

    /// The start of a search, or the settings: what is given, else what was found, else the usual.
    pub fn dynamic_settings(&self, stored: Option<&Stored>) -> DynamicSettings {
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

    pub fn monte_carlo(&self, member: &Member, samples: usize) -> bowline::Result<MonteCarloSettings> {
        let keep = self.mc_keep.map(KeepProb).or_else(|| member.trained_keep()).ok_or_else(|| {
            let problem = "the model's folder does not say with which probability units were kept in training";
            Error::config("mc-keep", problem, "--mc-keep with that probability; the paper's small models have 0.7")
        })?;
        Ok(MonteCarloSettings { samples, keep, seed: self.mc_seed })
    }

    /// The settings of one member.
    pub fn settings(&self, member: &Member, stored: Option<&Stored>) -> bowline::Result<NeuralSettings> {
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
            Some(samples) if member.params().is_some() => Some(self.monte_carlo(member, samples)?),
            _ => None,
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
        member: &Member,
        stored: Option<&Stored>,
    ) -> bowline::Result<Option<RecencySettings>> {
        let from = stored.and_then(|s| s.recency).or(member.recency).unwrap_or_default();
        self.recency.as_deref().map(|text| from.with(text)).transpose()
    }
}

/// Models and how they predict.
pub struct Setup {
    pub members: Vec<Member>,
    pub stored: Vec<Option<Stored>>,
    pub settings: Vec<NeuralSettings>,
    pub recency: Option<RecencySettings>,
    pub mix: Mix,
    pub mix_name: &'static str,
    /// `None` until they are known.
    pub weights: Option<Vec<f64>>,
    pub team: Arc<Team>,
    pub isa: Isa,
}

impl Setup {
    /// Reads the models and what was found for them.
    pub fn new(members: Vec<Member>, options: &PredictorOptions, threads: usize) -> anyhow::Result<Setup> {
        let stored = members.iter().map(|m| Stored::load(&m.folder)).collect::<bowline::Result<Vec<_>>>()?;
        let mut setup = Setup {
            settings: Vec::new(),
            recency: None,
            mix: options.mix(),
            mix_name: options.mix_name(),
            weights: options.weights.clone(),
            team: Arc::new(Team::new(threads)),
            isa: Isa::detect(),
            members,
            stored,
        };
        setup.choose(options)?;
        if let Some(weights) = &setup.weights {
            check_weights(weights, setup.members.len(), setup.mix)?;
        }
        Ok(setup)
    }

    /// Takes the settings anew, after a search has stored others.
    pub fn choose(&mut self, options: &PredictorOptions) -> anyhow::Result<()> {
        let pairs = self.members.iter().zip(&self.stored);
        self.settings = pairs.map(|(m, s)| options.settings(m, s.as_ref())).collect::<bowline::Result<_>>()?;
        self.recency = options.recency_settings(&self.members[0], self.stored[0].as_ref())?;
        if self.weights.is_none() {
            self.weights = match self.members.len() {
                1 => Some(vec![1.0]),
                _ => self.stored[0].as_ref().and_then(|s| s.weights(&self.labels(), self.mix_name)),
            };
        }
        Ok(())
    }

    /// The members' marks, each with how it predicts.
    pub fn labels(&self) -> Vec<String> {
        let label = |(m, s): (&Member, &NeuralSettings)| match m.params() {
            Some(_) => format!("{} {}", m.mark(), s.title()),
            None => m.mark(),
        };
        self.members.iter().zip(&self.settings).map(label).collect()
    }

    /// Makes sure that networks that learn by the RMS rule have the scale of their gradients: the one beside the model, or
    /// one computed from the training part of `data`.
    pub fn need_scales(&mut self, data: Option<&str>) -> anyhow::Result<()> {
        for (member, settings) in self.members.iter_mut().zip(&self.settings) {
            let rms = settings.dynamic.is_some_and(|d| d.form == DynamicForm::Rms && d.rate > 0.0);
            if rms {
                need_scale(member, data, &self.team, self.isa)?;
            }
        }
        Ok(())
    }

    /// A MODEL and what is mixed in, ready to predict, for commands that have no corpus at hand: what must be known
    /// beforehand has to lie beside the models.
    pub fn known(
        model: &Path,
        others: &[PathBuf],
        options: &PredictorOptions,
        threads: usize,
    ) -> anyhow::Result<Setup> {
        let paths: Vec<PathBuf> = std::iter::once(model).chain(others.iter().map(|p| &**p)).map(Into::into).collect();
        let mut setup = Setup::new(Member::load_all(&paths)?, options, threads)?;
        setup.need_scales(None)?;
        setup.need_known_weights()?;
        Ok(setup)
    }

    /// The predictor that all this means; the weights must be known.
    pub fn predictor(&self) -> anyhow::Result<Box<dyn Predictor>> {
        self.predictor_of(&self.team)
    }

    /// The same with another team at work on it.
    pub fn predictor_of(&self, team: &Arc<Team>) -> anyhow::Result<Box<dyn Predictor>> {
        let mut all = Vec::new();
        for (member, settings) in self.members.iter().zip(&self.settings) {
            all.push(member.predictor(team, self.isa, settings)?);
        }
        let weights = self.weights.clone().unwrap_or_else(|| vec![1.0 / all.len() as f64; all.len()]);
        let joined: Box<dyn Predictor> = match (all.len(), all.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                all.extend(last);
                Box::new(Mixture::new(all, weights, self.mix)?)
            }
        };
        Ok(match self.recency {
            Some(settings) => Box::new(Recency::new(joined, settings, self.members[0].vocabulary.eos())?),
            None => joined,
        })
    }

    /// The probabilities that each member alone gives to the words of a text.
    pub fn member_probabilities(&self, ids: &[u32], what: &str) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut all = Vec::new();
        for (member, settings) in self.members.iter().zip(&self.settings) {
            let progress = Bar::new();
            let title = format!("{what}: {}", member.title());
            progress.show(&title, 0.0);
            let mut predictor = member.predictor(&self.team, self.isa, settings)?;
            all.push(predictor.target_probabilities(ids, &|| false).unwrap_or_default());
            progress.clear();
        }
        Ok(all)
    }

    /// Finds the weights of the mixture on the validation text, if they are not known.
    pub fn need_weights(&mut self, valid: impl FnOnce() -> bowline::Result<Vec<u32>>) -> anyhow::Result<()> {
        if self.weights.is_some() {
            return Ok(());
        }
        let valid = valid()?;
        let weights = match self.mix {
            Mix::Linear => {
                let all = self.member_probabilities(&valid, "fitting the weights on valid")?;
                em(&all.iter().map(|p| &p[..]).collect::<Vec<_>>()).weights
            }
            Mix::Log => {
                // The derivatives need all distributions: a few thousand words are enough for a few weights.
                let mut all = Vec::new();
                for (member, settings) in self.members.iter().zip(&self.settings) {
                    all.push(member.predictor(&self.team, self.isa, settings)?);
                }
                let even = vec![1.0 / all.len() as f64; all.len()];
                let mut mixture = Mixture::new(all, even, Mix::Log)?;
                let progress = Bar::new();
                progress.show("fitting the weights on the beginning of valid", 0.0);
                let _ = mixture.fit_log(&valid[..valid.len().min(2_000)], &|| false);
                progress.clear();
                mixture.weights().to_vec()
            }
        };
        let labels = self.labels();
        let stored = self.stored[0].get_or_insert_default();
        stored.model = self.members[0].mark();
        stored.set_weights(&labels, self.mix_name, &weights);
        self.weights = Some(weights);
        Ok(())
    }

    /// For commands that have no validation text to fit the weights on.
    fn need_known_weights(&self) -> anyhow::Result<()> {
        if self.weights.is_some() {
            return Ok(());
        }
        let advice =
            "--weights, or `bowline eval MODEL MODEL.. --data DIR --tune` with the same flags, which keeps them";
        Err(Error::config("weights", "the weights of this mixture are not known yet", advice).into())
    }

    /// What to call it: the kind of a single model as it was trained, or else how they predict.
    pub fn name(&self) -> String {
        match (&self.members[..], self.settings.first()) {
            ([only], Some(settings)) if settings.title() == "static" => only.kind.clone(),
            _ => self.title(),
        }
    }

    /// How it predicts, with all settings, for programs.
    pub fn details(&self) -> Value {
        let weights = self.weights.as_deref().unwrap_or_default();
        let member = |((m, s), weight): ((&Member, &NeuralSettings), &f64)| match m.params() {
            Some(_) => json!({"model": m.title(), "weight": weight, "settings": s}),
            None => json!({"model": m.title(), "weight": weight}),
        };
        let members: Vec<Value> = self.members.iter().zip(&self.settings).zip(weights).map(member).collect();
        json!({"members": members, "mix": self.mix_name, "recency": self.recency})
    }

    /// How it predicts, in a few words.
    pub fn title(&self) -> String {
        let member = |(m, s): (&Member, &NeuralSettings)| match (m.params(), s.title().as_str()) {
            (None, _) | (Some(_), "static") => m.title(),
            (Some(_), way) => format!("{} ({way})", m.title()),
        };
        let all: Vec<String> = self.members.iter().zip(&self.settings).map(member).collect();
        let recency = if self.recency.is_some() { " with a recency cache" } else { "" };
        format!("{}{recency}", all.join(if self.mix == Mix::Log { " * " } else { " + " }))
    }
}

/// Gives a network the scale of its gradients, computing and storing it if it is not there.
pub fn need_scale(member: &mut Member, data: Option<&str>, team: &Arc<Team>, isa: Isa) -> anyhow::Result<()> {
    let Some(params) = member.params().cloned() else { return Ok(()) };
    if member.scale().is_some() {
        return Ok(());
    }
    let mark = member.mark();
    let Some(data) = data else {
        let stored = GradientScale::load_any(&member.folder, &params, &mark).ok_or_else(|| {
            Error::config(
                "dynamic",
                "the scale of the gradients on the training text is not beside the model yet",
                "`bowline eval MODEL --data DIR --dynamic` once, which leaves it there, or `--dynamic-form sgd`",
            )
        })?;
        member.set_scale(Arc::new(stored));
        return Ok(());
    };
    let purpose = "the rms form of dynamic evaluation";
    let train = super::split::read_part(data, SplitName::Train, purpose, &member.vocabulary, member.tokenize)?;
    let scale = match GradientScale::load(&member.folder, &params, &mark, &train.sha256) {
        Some(scale) => scale,
        None => {
            let progress = Bar::new();
            let show = &mut |share| {
                progress.show("gradients on the training text", share);
                true
            };
            let scale = GradientScale::compute(&params, &train.ids, Arc::clone(team), isa, show);
            progress.clear();
            let Some(scale) = scale else { return Ok(()) };
            if let Err(error) = scale.save(&member.folder, &mark, &train.sha256) {
                note(format_args!("the scale of the gradients could not be kept for the next time: {error}"));
            }
            scale
        }
    };
    member.set_scale(Arc::new(scale));
    Ok(())
}
