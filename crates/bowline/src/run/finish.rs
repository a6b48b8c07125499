//! After the training: the model's own way of predicting.
//!
//! A Kneser-Ney model of the same text is estimated and mixed in; a cache and dynamic evaluation are tuned on the
//! validation split, within the time that the settings give (`finish.seconds`). What does not fit into it is left out. All
//! of it is kept in the model's folder ([`Shipped`]).

use super::kneser_ney::{DEFAULT_ORDER, Estimate, NgramConfig, estimate};
use super::train::Watch;
use crate::compute::Compute;
use crate::config::Config;
use crate::corpus::Corpus;
use crate::error::Result;
use crate::loaded_model::LoadedModel;
use crate::predictor::{
    CacheGrid, DynamicSettings, GradientScale, NGRAMS, Neural, NeuralSettings, Perplexities, Shipped, Source, Streams,
    Tuner, Way, em, perplexity,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Words that tell how fast dynamic evaluation is here.
const SAMPLE: usize = 2_000;
/// There must be time to try its settings on so many words; the search takes what time there is.
const SHORTEST_SEARCH: usize = 8_000;
/// Where that search begins: what was found for a narrow network on the Penn Treebank.
const START: DynamicSettings = DynamicSettings { decay: 8e-3, epsilon: 12.0, ..DynamicSettings::RMS };
/// Words of the coarse search for a cache, with some to spare for a second one.
const COARSE: usize = 20_000;

/// A way of predicting, what it makes of the validation split, and with which share of n-grams it does best.
struct Candidate {
    way: Way,
    perplexity: f64,
}

impl Candidate {
    fn new(settings: NeuralSettings, network: &[f64], ngrams: &[f64]) -> Candidate {
        let fit = em(&[network, ngrams]);
        Candidate { way: Way { settings, ngrams: fit.weights[1] }, perplexity: fit.perplexity }
    }
}

/// Fits it and writes it to the model's folder; none if asked to stop before. The network alone has the perplexities `plain`.
pub(super) fn fit(
    (best, plain): (&Path, [f64; 2]),
    config: &Config,
    corpus: &Corpus,
    compute: &Compute,
    watch: &mut dyn Watch,
) -> Result<Option<Perplexities>> {
    let end = Instant::now() + Duration::from_secs_f64(config.finish.seconds.min(1e7));
    let model = LoadedModel::load(best)?;
    watch.phase("Kneser-Ney model", 0.0);
    let of_ngrams = NgramConfig::new(DEFAULT_ORDER, config.data.clone());
    let Some(ngrams) = estimate(&best.join(NGRAMS), &of_ngrams, corpus, &|| watch.stop())? else { return Ok(None) };
    ngrams.save(&of_ngrams, corpus)?;
    let [valid_ngrams, test_ngrams] = [0, 1].map(|i| ngrams.nll[i].iter().map(|x| (-x).exp()).collect::<Vec<f64>>());

    let Some(mut source) = model.source(&compute.team, compute.isa) else { return Ok(None) };
    let (valid, test) = (&corpus.valid.ids, &corpus.test.ids);
    let mut show = |what: &str, share: f64| {
        watch.phase(what, share);
        !watch.stop()
    };
    let mut tuner = Tuner { source: &source, valid, time: Duration::ZERO, watch: &mut show };
    let Some((alone, _, cache)) = tuner.one_pass(None)? else { return Ok(None) };
    let phrase = Candidate::new(NeuralSettings::default(), &alone.probabilities, &valid_ngrams);
    let cached = NeuralSettings { cache: Some(cache.settings), ..NeuralSettings::default() };
    let mut text = Candidate::new(cached, &cache.probabilities, &valid_ngrams);

    let Some(scale) = scale(&model, corpus, compute, &mut show)? else { return Ok(None) };
    source.scale = Some(scale);
    match learning(&source, corpus, end, &mut show)? {
        Tried::Stopped => return Ok(None),
        Tried::Without => {}
        Tried::Found(settings, probabilities) => {
            let found = Candidate::new(settings, &probabilities, &valid_ngrams);
            if found.perplexity < text.perplexity {
                text = found;
            }
        }
    }

    let Some(network) = read(&source, &text.way.settings, test, "test", &mut show)? else { return Ok(None) };
    let share = text.way.ngrams;
    let mixed: Vec<f64> = network.iter().zip(&test_ngrams).map(|(p, q)| (1.0 - share) * p + share * q).collect();
    let Estimate { scores, .. } = ngrams;
    let found = Perplexities {
        plain,
        ngrams: scores.map(|score| score.perplexity),
        full: [text.perplexity, perplexity(&mixed)],
    };
    Shipped::new(model.mark(), text.way, phrase.way, found).save(best)?;
    Ok(Some(found))
}

/// The probabilities of the words of a text; none if asked to stop before.
fn read(
    source: &Source,
    settings: &NeuralSettings,
    ids: &[u32],
    what: &str,
    show: &mut dyn FnMut(&str, f64) -> bool,
) -> Result<Option<Vec<f64>>> {
    let none = CacheGrid { thetas: Vec::new(), windows: Vec::new() };
    let grid =
        settings.cache.map_or(none, |cache| CacheGrid { thetas: vec![cache.theta], windows: vec![cache.window] });
    let total = ids.len().max(1) as f64;
    let pass = Neural::new(source, settings)?.streams(ids, &[1.0], &grid, &mut |at| show(what, at as f64 / total));
    Ok(pass.map(|Streams { network, cache }| match (settings.cache, cache.first()) {
        (Some(settings), Some(cache)) => Streams::mixed(&network[0], cache, settings.lambda),
        _ => network.into_iter().next().unwrap_or_default(),
    }))
}

/// The scale of the gradients on the training text, kept beside the model.
fn scale(
    model: &LoadedModel,
    corpus: &Corpus,
    compute: &Compute,
    show: &mut dyn FnMut(&str, f64) -> bool,
) -> Result<Option<Arc<GradientScale>>> {
    let Some(params) = model.params() else { return Ok(None) };
    let (team, isa) = (Arc::clone(&compute.team), compute.isa);
    let mut show = |share| show("gradients on the training text", share);
    let Some(scale) = GradientScale::compute(params, &corpus.train.ids, team, isa, &mut show)? else { return Ok(None) };
    scale.save(&model.folder, &model.mark(), &corpus.train.sha256)?;
    Ok(Some(Arc::new(scale)))
}

/// What came of a search.
enum Tried {
    Found(NeuralSettings, Vec<f64>),
    /// There is no time, or the model cannot learn so.
    Without,
    Stopped,
}

/// Dynamic evaluation with a cache, if there is time to tune it and to read both splits with it.
fn learning(source: &Source, corpus: &Corpus, end: Instant, show: &mut dyn FnMut(&str, f64) -> bool) -> Result<Tried> {
    let valid = &corpus.valid.ids;
    let start = START;
    if source.params.spec().cannot_adapt().is_some() {
        return Ok(Tried::Without);
    }
    let (sample, begin) = (&valid[..valid.len().min(SAMPLE)], Instant::now());
    let settings = NeuralSettings { dynamic: Some(start), ..NeuralSettings::default() };
    let stopped = || Ok(Tried::Stopped);
    if read(source, &settings, sample, "dynamic evaluation", show)?.is_none() {
        return stopped();
    }
    let a_word = begin.elapsed().as_secs_f64() / sample.len().max(1) as f64;
    let passes = a_word * (valid.len().min(COARSE) + valid.len() + corpus.test.ids.len()) as f64;
    let left = end.saturating_duration_since(Instant::now()).as_secs_f64() - passes;
    if left < a_word * valid.len().min(SHORTEST_SEARCH) as f64 {
        return Ok(Tried::Without);
    }
    let mut tuner = Tuner { source, valid, time: Duration::from_secs_f64(left), watch: show };
    let Some(dynamic) = tuner.dynamic(start)? else { return stopped() };
    let Some((_, _, cache)) = tuner.one_pass(Some(dynamic))? else { return stopped() };
    let settings = NeuralSettings { dynamic: Some(dynamic), cache: Some(cache.settings), ..NeuralSettings::default() };
    Ok(Tried::Found(settings, cache.probabilities))
}
