//! From the flags to an ensemble.

use super::PredictorOptions;
use crate::commands::split::Source;
use crate::terminal::{Bar, note};
use bowline::Error;
use bowline::corpus::SplitName;
use bowline::loaded_model::LoadedModel;
use bowline::predictor::{
    DynamicForm, Ensemble, GradientScale, Mix, Mixture, Predictor, Reads, Shipped, TunedSettings, check_logprobs, em,
};
use bowline::score::Reader;
use bowline_kernels::{Isa, Team};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Models, how they predict, what was found for them, and what computes.
pub struct Setup {
    pub ensemble: Ensemble,
    pub stored: Vec<Option<TunedSettings>>,
    pub team: Arc<Team>,
    pub isa: Isa,
}

impl Setup {
    /// Reads the models and what was found for them.
    pub fn new(models: &[PathBuf], options: &PredictorOptions, threads: usize) -> anyhow::Result<Setup> {
        Setup::of(LoadedModel::load_all(models)?, options, threads)
    }

    /// The same; a single model of which nothing else is asked reads in the way that is stored with it, if there is one.
    pub fn reading(
        models: &[PathBuf],
        options: &PredictorOptions,
        threads: usize,
        reads: Reads,
    ) -> anyhow::Result<Setup> {
        let mut models = LoadedModel::load_all(models)?;
        let asks = options.plain || options.any() || models.len() > 1;
        let shipped = if asks { None } else { Shipped::load(&models[0].folder)? };
        match (shipped, models.pop()) {
            (Some(shipped), Some(model)) => {
                let ensemble = shipped.ensemble(model, reads)?;
                let stored = ensemble.members().map(|_| None).collect();
                Ok(Setup { ensemble, stored, team: Arc::new(Team::new(threads)), isa: Isa::detect() })
            }
            (_, last) => {
                models.extend(last);
                Setup::of(models, options, threads)
            }
        }
    }

    fn of(models: Vec<LoadedModel>, options: &PredictorOptions, threads: usize) -> anyhow::Result<Setup> {
        let stored = models.iter().map(|m| TunedSettings::load(&m.folder)).collect::<bowline::Result<Vec<_>>>()?;
        let mut ensemble = Ensemble::new(models, options.mix())?;
        ensemble.set_weights(options.weights.clone())?;
        let mut setup = Setup { ensemble, stored, team: Arc::new(Team::new(threads)), isa: Isa::detect() };
        setup.choose(options)?;
        Ok(setup)
    }

    /// A MODEL and what is mixed in, ready to predict, for commands that have no corpus at hand: what must be known
    /// beforehand has to lie beside the models. With `reads`, a single MODEL does so in the way that is stored with it.
    pub fn known(
        model: &Path,
        others: &[PathBuf],
        options: &PredictorOptions,
        threads: usize,
        reads: Option<Reads>,
    ) -> anyhow::Result<Setup> {
        let paths: Vec<PathBuf> = std::iter::once(model).chain(others.iter().map(|p| &**p)).map(Into::into).collect();
        let mut setup = match reads {
            Some(reads) => Setup::reading(&paths, options, threads, reads)?,
            None => Setup::new(&paths, options, threads)?,
        };
        setup.need_scales(None)?;
        setup.need_known_weights()?;
        Ok(setup)
    }

    /// The first model, whose words are those of all.
    pub fn model(&self) -> &Arc<LoadedModel> {
        self.ensemble.model()
    }

    /// Takes the settings anew, after a search has stored others.
    pub fn choose(&mut self, options: &PredictorOptions) -> anyhow::Result<()> {
        let pairs = self.ensemble.members().zip(&self.stored);
        let ways = pairs.map(|((m, _), s)| options.settings(m, s.as_ref())).collect::<bowline::Result<_>>()?;
        self.ensemble.set_ways(ways)?;
        self.ensemble.recency = options.recency_settings(self.model(), self.stored[0].as_ref())?;
        if self.ensemble.weights.is_none() {
            let (labels, mix) = (self.ensemble.labels(), self.ensemble.mix.name());
            self.ensemble.weights = match labels.len() {
                1 => Some(vec![1.0]),
                _ => self.stored[0].as_ref().and_then(|s| s.weights(&labels, mix)),
            };
        }
        Ok(())
    }

    /// All as one predictor; the weights must be known.
    pub fn predictor(&self) -> bowline::Result<Box<dyn Predictor>> {
        self.ensemble.predictor(&self.team, self.isa)
    }

    /// A reader of many passages, up to `batch` of them side by side.
    pub fn reader(&self, batch: Option<usize>) -> bowline::Result<Reader> {
        self.ensemble.reader(&self.team, self.isa, batch)
    }

    /// Makes sure that networks that learn by the RMS rule have the scale of their gradients: the one beside the model, or
    /// one computed from the training part of `data`.
    pub fn need_scales(&mut self, data: Option<&Source>) -> anyhow::Result<()> {
        for (model, settings) in self.ensemble.members() {
            let rms = settings.dynamic.is_some_and(|d| d.form == DynamicForm::Rms && d.rate > 0.0);
            if rms {
                need_scale(model, data, &self.team, self.isa)?;
            }
        }
        Ok(())
    }

    /// The probabilities that each model alone gives to the words of a text.
    pub fn member_probabilities(&self, ids: &[u32], what: &str) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut all = Vec::new();
        for (model, settings) in self.ensemble.members() {
            let progress = Bar::new();
            let title = format!("{what}: {}", model.title());
            progress.show(&title, 0.0);
            let mut predictor = model.predictor(&self.team, self.isa, settings)?;
            let p = predictor.target_probabilities(ids, &|| false).unwrap_or_default();
            check_logprobs(&model.folder, p.iter().map(|p| p.ln()))?;
            all.push(p);
            progress.clear();
        }
        Ok(all)
    }

    /// Finds the weights of the mixture on the validation text, if they are not known.
    pub fn need_weights(&mut self, valid: impl FnOnce() -> bowline::Result<Vec<u32>>) -> anyhow::Result<()> {
        if self.ensemble.weights.is_some() {
            return Ok(());
        }
        let valid = valid()?;
        let weights = match self.ensemble.mix {
            Mix::Linear => {
                let all = self.member_probabilities(&valid, "fitting the weights on valid")?;
                em(&all.iter().map(|p| &p[..]).collect::<Vec<_>>()).weights
            }
            Mix::Log => {
                // The derivatives need all distributions: a few thousand words are enough for a few weights.
                let all = self.ensemble.predictors(&self.team, self.isa)?;
                let even = vec![1.0 / all.len() as f64; all.len()];
                let mut mixture = Mixture::new(all, even, Mix::Log)?;
                let progress = Bar::new();
                progress.show("fitting the weights on the beginning of valid", 0.0);
                let _ = mixture.fit_log(&valid[..valid.len().min(2_000)], &|| false);
                progress.clear();
                mixture.weights().to_vec()
            }
        };
        let (mark, labels) = (self.model().mark(), self.ensemble.labels());
        let stored = self.stored[0].get_or_insert_default();
        stored.model = mark;
        stored.set_weights(&labels, self.ensemble.mix.name(), &weights);
        self.ensemble.weights = Some(weights);
        Ok(())
    }

    /// For commands that have no validation text to fit the weights on.
    fn need_known_weights(&self) -> anyhow::Result<()> {
        if self.ensemble.weights.is_some() {
            return Ok(());
        }
        let advice =
            "--weights, or `bowline eval MODEL MODEL.. --data DIR --tune` with the same flags, which keeps them";
        Err(Error::config("weights", "the weights of this mixture are not known yet", advice).into())
    }
}

/// Gives a network the scale of its gradients, computing and storing it if it is not there.
pub fn need_scale(model: &LoadedModel, data: Option<&Source>, team: &Arc<Team>, isa: Isa) -> anyhow::Result<()> {
    let Some(params) = model.params() else { return Ok(()) };
    if model.scale().is_some() {
        return Ok(());
    }
    let mark = model.mark();
    let Some(data) = data else {
        let stored = GradientScale::load_any(&model.folder, params, &mark).ok_or_else(|| {
            Error::config(
                "dynamic",
                "the scale of the gradients on the training text is not beside the model yet",
                "`bowline eval MODEL --data DIR --dynamic` once, which leaves it there, or `--dynamic-form sgd`",
            )
        })?;
        model.set_scale(Arc::new(stored));
        return Ok(());
    };
    let purpose = "the rms form of dynamic evaluation";
    let train = data.read_part(SplitName::Train, purpose, &model.vocabulary, model.tokenize)?;
    let scale = match GradientScale::load(&model.folder, params, &mark, &train.sha256) {
        Some(scale) => scale,
        None => {
            let progress = Bar::new();
            let show = &mut |share| {
                progress.show("gradients on the training text", share);
                true
            };
            let scale = GradientScale::compute(params, &train.ids.into(), Arc::clone(team), isa, show);
            progress.clear();
            let Some(scale) = scale? else { return Ok(()) };
            if let Err(error) = scale.save(&model.folder, &mark, &train.sha256) {
                note(format_args!("the scale of the gradients could not be saved: {error}"));
            }
            scale
        }
    };
    model.set_scale(Arc::new(scale));
    Ok(())
}
