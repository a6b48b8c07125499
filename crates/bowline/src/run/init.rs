//! A run that begins with the weights of a trained model (`start.model`), on a text that may have other words.
//!
//! The model's words keep their ids, and those that the text adds come after them (`data.extend`). A new word is predicted as the
//! average word is: its row of the classifier, and its bias, are the mean over the model's words. It is read as `<unk>` was, which it
//! was so far; in a tied model the one row is the mean. To each the random start of the row is added, so that no two are alike.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::layout::Tensor;
use crate::loaded_model::LoadedModel;
use crate::params::Params;
use crate::spec::ModelSpec;
use crate::vocabulary::Vocabulary;
use std::path::Path;

/// The settings with the hash of the model in them, for a new run whose text has these words; others as they are.
pub(super) fn recorded(config: &Config, vocabulary: &Vocabulary) -> Result<Config> {
    let mut config = config.clone();
    if let Some(model) = load(&config)? {
        check(&model, &config.spec(vocabulary.len()), vocabulary)?;
        config.start.model_sha256 = model.mark();
    }
    Ok(config)
}

/// Whether a run with such a network and these words can begin with the model.
fn check(model: &LoadedModel, spec: &ModelSpec, vocabulary: &Vocabulary) -> Result<()> {
    let old = model.require_network("weights to begin with")?.spec();
    if (ModelSpec { vocab: spec.vocab, ..old.clone() }) != *spec {
        let problem = format!("it is made of {old:?}, and the run of {spec:?}");
        return Err(Error::model(&model.folder, "network", problem, "no settings of the network beside `--init`"));
    }
    if old.input.characters.is_some() {
        let problem = "it reads characters, and its symbols are those of the words of its own text";
        return Err(Error::model(&model.folder, "network", problem, "a model whose words have vectors of their own"));
    }
    let at = |id: usize| (id < vocabulary.len()).then(|| vocabulary.word(id as u32));
    if let Some((id, word)) = model.vocabulary.words().enumerate().find(|(id, word)| at(*id) != Some(*word)) {
        let problem = format!("its word {id} is `{word}`, that of the run {}", at(id).unwrap_or("none"));
        let advice = "`--init`, which keeps the model's words and adds those of the text";
        return Err(Error::model(&model.folder, "vocabulary", problem, advice));
    }
    Ok(())
}

/// The model that a run begins with, if it does with any.
fn load(config: &Config) -> Result<Option<LoadedModel>> {
    if config.start.model.is_empty() {
        return Ok(None);
    }
    let path = Path::new(&config.start.model);
    let model = LoadedModel::load(path)?;
    model.require_network("weights to begin with")?;
    if !["", &model.mark()].contains(&config.start.model_sha256.as_str()) {
        let problem = "the weights have changed since the run that begins with them was made";
        return Err(Error::model(path, "weights", problem, "restore the old model, or start a new run"));
    }
    Ok(Some(model))
}

/// Puts the model's weights in the place of random ones, `params`, for the words of `vocabulary`.
pub(super) fn begin(config: &Config, vocabulary: &Vocabulary, params: &mut Params) -> Result<()> {
    let Some(model) = load(config)? else { return Ok(()) };
    check(&model, params.spec(), vocabulary)?;
    let old = model.require_network("weights to begin with")?;
    let tied = old.spec().output.tied;
    for (tensor, from) in params.tensors().to_vec().iter().zip(old.tensors()) {
        let (values, known) = (&mut params.data_mut()[tensor.range()], old.get(from));
        let fresh = values[known.len()..].to_vec();
        values[..known.len()].copy_from_slice(known);
        let like = match (tensor.name.as_str(), model.vocabulary.unk()) {
            ("encoder.weight", Some(unk)) if !tied => row(tensor, known, unk as usize).to_vec(),
            _ => mean(tensor, known),
        };
        for (new, fresh) in values[known.len()..].chunks_exact_mut(like.len()).zip(fresh.chunks_exact(like.len())) {
            new.iter_mut().zip(&like).zip(fresh).for_each(|((new, like), fresh)| *new = like + fresh);
        }
    }
    Ok(())
}

/// Values of a row: the tensor's last size, or 1.
fn width(tensor: &Tensor) -> usize {
    if tensor.shape.len() > 1 { tensor.shape[1..].iter().product() } else { 1 }
}

fn row<'a>(tensor: &Tensor, values: &'a [f32], row: usize) -> &'a [f32] {
    &values[row * width(tensor)..][..width(tensor)]
}

fn mean(tensor: &Tensor, values: &[f32]) -> Vec<f32> {
    let (width, rows) = (width(tensor), values.len() / width(tensor));
    let column = |k: usize| values[k..].iter().step_by(width).map(|&x| f64::from(x)).sum::<f64>();
    (0..width).map(|k| (column(k) / rows as f64) as f32).collect()
}
