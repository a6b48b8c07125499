//! `bowline eval --tune`: tune settings on the validation part and store them with the model.

use super::EvalOptions;
use crate::commands::predictor::{Setup, need_scale};
use crate::commands::split::Source;
use crate::terminal::{Bar, note};
use bowline::Error;
use bowline::corpus::Split;
use bowline::loaded_model::LoadedModel;
use bowline::predictor::recency_cache;
use bowline::predictor::{DynamicForm, TunedSettings, Tuner, check_logprobs, perplexity};
use std::sync::Arc;
use std::time::Duration;

/// Finds the settings, stores them and gives the perplexity with them on the validation part.
pub fn run(options: &EvalOptions, setup: &mut Setup, source: &Source, valid: &Split) -> anyhow::Result<f64> {
    let asked = &options.predictor;
    if !asked.any() && options.models.len() == 1 {
        let advice = "choose what to tune: --cache, --dynamic, --mc N, --temperature tuned, --recency, several models, or use --all";
        return Err(Error::config("tune", "a single model as trained has nothing to tune", advice).into());
    }
    let models: Vec<_> = setup.ensemble.members().map(|(model, _)| Arc::clone(model)).collect();
    for (i, model) in models.iter().enumerate() {
        let mark = model.mark();
        // What was found for other weights or on another text does not count any more.
        let kept = setup.stored[i].take().filter(|s| s.model == mark && s.valid_sha256 == valid.sha256);
        let mut stored = kept.unwrap_or_default();
        (stored.model, stored.valid_sha256) = (mark, valid.sha256.clone());
        tune(options, setup, model, &mut stored, (source, valid))?;
        setup.stored[i] = Some(stored);
    }
    setup.ensemble.set_weights(asked.weights.clone())?;
    setup.choose(asked)?;
    if options.models.len() > 1 && asked.weights.is_none() {
        setup.ensemble.weights = None;
    }
    setup.need_scales(Some(source))?;
    setup.need_weights(|| Ok(valid.ids.clone()))?;
    // One pass of the whole on the validation part: the figure that the settings were chosen by.
    setup.ensemble.recency = None;
    let mut p = setup.predictor()?.target_probabilities(&valid.ids, &|| false).unwrap_or_default();
    check_logprobs(&options.models[0], p.iter().map(|p| p.ln()))?;
    if asked.recency.is_some() {
        let nll: Vec<f64> = p.iter().map(|p| -p.ln()).collect();
        let eos = setup.model().vocabulary.eos();
        let found = recency_cache::tune(eos, &valid.ids, &nll)?;
        if let Some(stored) = &mut setup.stored[0] {
            stored.recency = Some(found.settings);
        }
        setup.ensemble.recency = Some(found.settings);
        p = recency_cache::nll(found.settings, eos, &valid.ids, &nll)?.iter().map(|x| (-x).exp()).collect();
    }
    for (model, stored) in models.iter().zip(&setup.stored) {
        if let Some(stored) = stored
            && let Err(error) = stored.save(&model.folder)
        {
            note(format_args!("the settings could not be saved: {error}"));
        }
    }
    Ok(perplexity(&p))
}

/// Finds the settings of what can be tuned about one model: of a network, the ways in which it can predict.
fn tune(
    options: &EvalOptions,
    setup: &Setup,
    model: &LoadedModel,
    stored: &mut TunedSettings,
    (text, valid): (&Source, &Split),
) -> anyhow::Result<()> {
    let asked = &options.predictor;
    let start = asked.dynamic_settings(Some(stored));
    if asked.wants_dynamic() && start.form == DynamicForm::Rms {
        need_scale(model, Some(text), &setup.team, setup.isa)?;
    }
    let Some(source) = model.source(&setup.team, setup.isa) else { return Ok(()) };
    let progress = Bar::new();
    let mut show = |what: &str, share: f64| {
        progress.show(what, share);
        true
    };
    let time = Duration::from_secs(options.tune_seconds);
    let mut tuner = Tuner { source: &source, valid: &valid.ids, time, watch: &mut show };
    if asked.wants_dynamic() {
        stored.dynamic = tuner.dynamic(start)?;
        if asked.wants_cache()
            && let Some((_, _, cache)) = tuner.one_pass(stored.dynamic)?
        {
            stored.cache_with_dynamic = Some(cache.settings);
        }
    } else if (asked.wants_cache() || asked.temperature.is_some())
        && let Some((_, temperature, cache)) = tuner.one_pass(None)?
    {
        stored.temperature = Some(temperature.settings);
        stored.cache = Some(cache.settings);
    }
    if let Some(samples) = asked.mc.filter(|&samples| samples > 0)
        && asked.mc_keep.is_none()
    {
        // From the share that was dropped in training, whatever was found before.
        let start = asked.monte_carlo(model, None, samples)?;
        if let Some(found) = tuner.monte_carlo(start)? {
            stored.set_monte_carlo(found);
        }
    }
    progress.clear();
    Ok(())
}
