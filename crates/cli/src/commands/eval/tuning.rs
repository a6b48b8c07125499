//! `bowline eval --tune`: the settings of what is asked for, found on the validation part and kept beside the model.

use super::EvalOptions;
use crate::commands::predictor::{Setup, need_scale};
use crate::commands::split::Source;
use crate::terminal::{Bar, note};
use bowline::Error;
use bowline::corpus::Split;
use bowline::ngram::recency;
use bowline::predictor::{DynamicForm, Stored, Tuner, perplexity};
use std::time::Duration;

/// Finds the settings, stores them and gives the perplexity with them on the validation part.
pub fn run(options: &EvalOptions, setup: &mut Setup, source: &Source, valid: &Split) -> anyhow::Result<f64> {
    let asked = &options.predictor;
    if !asked.any() && options.models.len() == 1 {
        let advice = "say what to tune: --cache, --dynamic, --mc N, --temperature tuned, --recency, several models, or use --all";
        return Err(Error::config("tune", "there is nothing to tune about one model as it was trained", advice).into());
    }
    for i in 0..setup.members.len() {
        let mark = setup.members[i].mark();
        // What was found for other weights or on another text does not count any more.
        let kept = setup.stored[i].take().filter(|s| s.model == mark && s.valid_sha256 == valid.sha256);
        let mut stored = kept.unwrap_or_default();
        (stored.model, stored.valid_sha256) = (mark, valid.sha256.clone());
        if setup.members[i].params().is_some() {
            tune_network(options, setup, i, &mut stored, (source, valid))?;
        }
        setup.stored[i] = Some(stored);
    }
    let mut asked_again = Setup { weights: options.predictor.weights.clone(), ..take(setup) };
    asked_again.choose(asked)?;
    if options.models.len() > 1 && options.predictor.weights.is_none() {
        asked_again.weights = None;
    }
    *setup = asked_again;
    setup.need_scales(Some(source))?;
    setup.need_weights(|| Ok(valid.ids.clone()))?;
    // One pass of the whole on the validation part: the figure that the settings were chosen by.
    let without = Setup { recency: None, ..take(setup) };
    let mut p = without.predictor()?.target_probabilities(&valid.ids, &|| false).unwrap_or_default();
    *setup = without;
    if asked.recency.is_some() {
        let nll: Vec<f64> = p.iter().map(|p| -p.ln()).collect();
        let eos = setup.members[0].vocabulary.eos();
        let found = recency::tune(eos, &valid.ids, &nll)?;
        if let Some(stored) = &mut setup.stored[0] {
            stored.recency = Some(found.settings);
        }
        setup.recency = Some(found.settings);
        p = recency::nll(found.settings, eos, &valid.ids, &nll)?.iter().map(|x| (-x).exp()).collect();
    }
    for (member, stored) in setup.members.iter().zip(&setup.stored) {
        if let Some(stored) = stored
            && let Err(error) = stored.save(&member.folder)
        {
            note(format_args!("the settings could not be kept for the next time: {error}"));
        }
    }
    Ok(perplexity(&p))
}

/// Moves a setup out of its place for a moment.
fn take(setup: &mut Setup) -> Setup {
    Setup {
        members: std::mem::take(&mut setup.members),
        stored: std::mem::take(&mut setup.stored),
        settings: std::mem::take(&mut setup.settings),
        recency: setup.recency,
        mix: setup.mix,
        mix_name: setup.mix_name,
        weights: setup.weights.take(),
        team: setup.team.clone(),
        isa: setup.isa,
    }
}

fn tune_network(
    options: &EvalOptions,
    setup: &mut Setup,
    i: usize,
    stored: &mut Stored,
    (text, valid): (&Source, &Split),
) -> anyhow::Result<()> {
    let asked = &options.predictor;
    let start = asked.dynamic_settings(Some(stored));
    if asked.wants_dynamic() && start.form == DynamicForm::Rms {
        need_scale(&mut setup.members[i], Some(text), &setup.team, setup.isa)?;
    }
    let Some(source) = setup.members[i].source(&setup.team, setup.isa) else { return Ok(()) };
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
        let start = asked.monte_carlo(&setup.members[i], None, samples)?;
        stored.mc_keep = tuner.monte_carlo(start)?.map(|found| found.keep.0);
    }
    progress.clear();
    Ok(())
}
