//! Models and how they predict: from the flags to a predictor.

use super::PredictorOptions;
use crate::commands::split::Source;
use crate::terminal::{Bar, note};
use bowline::Error;
use bowline::corpus::SplitName;
use bowline::ngram::recency::RecencySettings;
use bowline::predictor::{
    DynamicForm, GradientScale, Member, Mix, Mixture, NeuralSettings, Predictor, Recency, Stored, check_weights, em,
};
use bowline_kernels::{Isa, Team};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    pub fn need_scales(&mut self, data: Option<&Source>) -> anyhow::Result<()> {
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
pub fn need_scale(member: &mut Member, data: Option<&Source>, team: &Arc<Team>, isa: Isa) -> anyhow::Result<()> {
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
    let train = data.read_part(SplitName::Train, purpose, &member.vocabulary, member.tokenize)?;
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
