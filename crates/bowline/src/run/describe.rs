//! The card of a run's best model.

use super::checkpoint::Best;
use crate::config::{
    AugmentConfig, Config, DataConfig, Form, LossRule, Size, TargetGradient, TargetSource, Training, preset,
};
use crate::corpus::{Corpus, Page};
use crate::model_folder::ModelCard;
use crate::wording::percent;
use std::path::Path;

/// The card; `result` are the final perplexities on the validation and test split, once they are known.
pub(super) fn of(config: &Config, corpus: &Corpus, best: Best, result: Option<(f64, f64)>) -> ModelCard {
    ModelCard {
        title: match config.model.paper_tied() {
            Some(_) => format!("{}, {}, on {}", config.model.title(), config.size.name(), data_title(&config.data)),
            None => format!("{} on {}", config.model.title(), data_title(&config.data)),
        },
        data_name: data_title(&config.data),
        data_sha256: corpus.train.sha256.clone(),
        recipe: recipe(config),
        seed: config.seed,
        epoch: best.epoch,
        valid: Some(result.map_or(best.valid, |(valid, _)| valid)),
        test: result.map(|(_, test)| test),
        example: example(corpus),
        origin: None,
    }
}

/// The corpus by name, or by the last part of its path.
pub(super) fn data_title(data: &DataConfig) -> String {
    let source = &data.source;
    Path::new(source).file_name().map_or_else(|| source.clone(), |name| name.to_string_lossy().into_owned())
}

/// The settings for the model's card: of the paper's models in words, of others by name, where they are not the paper's.
fn recipe(config: &Config) -> Vec<(String, String)> {
    if config.model.paper_tied().is_none() {
        let paper = preset(Size::Small, config.model, &config.data.source);
        return config.differences(&paper).into_iter().map(|(key, ours, _)| (key, ours)).collect();
    }
    let mut recipe: Vec<(String, String)> = [
        ("units per layer", config.hidden.to_string()),
        ("layers", config.layers.to_string()),
        ("probability of keeping a unit", config.keep.0.to_string()),
        ("batch", config.batch.to_string()),
        ("steps of back-propagation", config.unroll.to_string()),
        ("learning rate", config.learning_rate.to_string()),
        ("decay", format!("{} per epoch after epoch {}", config.decay, config.decay_after)),
        ("clipping", config.clip.to_string()),
        ("initial weights", format!("uniform within {}", config.init)),
        ("epochs", config.epochs.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .to_vec();
    if config.weight_decay > 0.0 {
        let spared = if config.spare_vectors { ", of all but the word vectors" } else { "" };
        recipe.push(("weight decay".to_owned(), format!("{}{spared}", config.weight_decay)));
    }
    if config.average > 0.0 {
        let share = percent(config.average);
        recipe.push(("weights".to_owned(), format!("the mean over about the last {share}% of the steps")));
    }
    if config.second_training_epochs > 0 {
        recipe.push(("epochs of the second training".to_owned(), config.second_training_epochs.to_string()));
    }
    if config.augmented() {
        recipe.push(("augmented loss".to_owned(), augmented(&config.augment)));
    }
    if !config.origin.is_empty() {
        recipe.push(("began as".to_owned(), config.origin.clone()));
    }
    recipe
}

/// The augmented loss in words.
fn augmented(augment: &AugmentConfig) -> String {
    let form = match augment.form {
        Form::Exact => "exact",
        Form::Gram => "second order",
    };
    let weight = match augment.loss {
        LossRule::Sum => format!("gamma {}", augment.gamma),
        LossRule::Mixture => format!("beta {}", augment.beta),
    };
    let target = match (augment.target, augment.gradient) {
        (TargetSource::Truth, _) => "the target is the truth",
        (TargetSource::Teacher, _) => "the target is what the teachers say",
        (TargetSource::Embedding, TargetGradient::Flow) => "gradient flows through the target",
        (TargetSource::Embedding, TargetGradient::Stop) => "gradient stops at the target",
    };
    let begin = match augment.begin {
        Training::First => "",
        Training::Second => ", in the second training alone",
    };
    format!("{form}, tau {}, {weight}, {target}{begin}", augment.tau)
}

/// Words in which the first sentence is looked for.
const FIRST: usize = 1000;

/// The first words of the training text.
pub(super) fn example(corpus: &Corpus) -> String {
    let (ids, mut page) = (&corpus.train.ids, Page::default());
    let Ok(ids) = ids.read(0..ids.len().min(FIRST), &mut page) else { return String::new() };
    let words: Vec<&str> = ids
        .split(|&id| id == corpus.vocabulary.eos())
        .find(|sentence| !sentence.is_empty())
        .unwrap_or(&ids[..0])
        .iter()
        .take(3)
        .map(|&id| corpus.vocabulary.word(id))
        .collect();
    words.join(" ")
}
