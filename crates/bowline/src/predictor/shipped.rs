//! A network's own way of predicting, kept in its folder as `predictor.json`, with the n-gram model it is mixed with in
//! `ngrams/`.
//!
//! There are two ways. A *text* is read from its beginning to its end, and what was read helps with the rest: a cache and
//! dynamic evaluation. A *phrase* stands alone: the network as trained, and the n-grams.

use super::{Ensemble, GradientScale, Mix, NeuralSettings};
use crate::error::{Error, Result};
use crate::loaded_model::LoadedModel;
use crate::storage::{atomic, files};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// The folder of the n-gram model, in that of the network.
pub const NGRAMS: &str = "ngrams";
/// The file has not more bytes than this.
const LONGEST: u64 = 1 << 20;
const VERSION: u32 = 1;
const AGAIN: &str = "remove the file; the network itself is whole, and `--plain` uses it alone";

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// A text from its beginning to its end.
    Text,
    /// A phrase that stands alone.
    Phrase,
}

/// One way of predicting: how the network does it, and what the n-grams count beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// How the network predicts.
    pub settings: NeuralSettings,
    /// The weight of the n-gram model in the mixture; 0 for none.
    pub ngrams: f64,
}

/// A network's own way of predicting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shipped {
    /// Version of this file's format.
    pub version: u32,
    /// What the network is, see [`LoadedModel::mark`].
    pub model: String,
    /// For texts.
    pub text: Way,
    /// For phrases.
    pub phrase: Way,
    /// What it brings.
    pub perplexity: Perplexities,
}

/// Perplexities on the validation and the test split, one stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Perplexities {
    /// Of the network as trained.
    pub plain: [f64; 2],
    /// Of the n-gram model alone.
    pub ngrams: [f64; 2],
    /// Of the whole, as it reads a text.
    pub full: [f64; 2],
}

impl Shipped {
    /// The file's name.
    pub const FILE: &str = "predictor.json";

    /// A file to be saved.
    pub fn new(model: String, text: Way, phrase: Way, perplexity: Perplexities) -> Shipped {
        Shipped { version: VERSION, model, text, phrase, perplexity }
    }

    /// The file in a model's folder; nothing if there is none.
    pub fn load(folder: &Path) -> Result<Option<Shipped>> {
        let path = folder.join(Shipped::FILE);
        let Some(bytes) = files::read_if_there(&path, LONGEST)? else { return Ok(None) };
        let wrong = |problem: String| Error::model(&path, "contents", problem, AGAIN);
        let shipped: Shipped = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        if shipped.version != VERSION {
            return Err(wrong(format!("it has version {}, and this program reads version {VERSION}", shipped.version)));
        }
        for way in [shipped.text, shipped.phrase] {
            way.settings.validate().map_err(|e| wrong(e.to_string().replace("\n  try: ", "; possible is ")))?;
            if !(0.0..=1.0).contains(&way.ngrams) {
                return Err(wrong(format!("the weight of the n-grams is {}; possible is 0 to 1", way.ngrams)));
            }
        }
        Ok(Some(shipped))
    }

    /// Writes it into a model's folder. It comes last: where it is, what it needs is there.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join(Shipped::FILE);
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::model(&path, "contents", e.to_string(), "report this: it should not happen"))?;
        atomic::write(&path, |out| writeln!(out, "{text}"))
    }

    /// Removes it from a folder whose network is about to become another one.
    pub fn remove(folder: &Path) -> Result<()> {
        let path = folder.join(Shipped::FILE);
        if path.exists() { files::remove_file(&path).map_err(Error::io(&path, "remove")) } else { Ok(()) }
    }

    /// The network and its n-grams, joined as the file says. One that was made for other weights is an error.
    pub fn ensemble(&self, network: LoadedModel, reads: Reads) -> Result<Ensemble> {
        let way = if reads == Reads::Text { self.text } else { self.phrase };
        let folder = network.folder.clone();
        if network.mark() != self.model {
            let problem = "it belongs to other weights than those beside it";
            return Err(Error::model(folder.join(Shipped::FILE), "model", problem, AGAIN));
        }
        if let (Some(params), Some(_)) = (network.params(), way.settings.dynamic) {
            let scale = GradientScale::load_any(&folder, params, &self.model).ok_or_else(|| {
                Error::model(&folder, "gradient-scale.safetensors", "it is missing or of other weights", AGAIN)
            })?;
            network.set_scale(Arc::new(scale));
        }
        let mut models = vec![network];
        if way.ngrams > 0.0 {
            models.push(LoadedModel::load(folder.join(NGRAMS))?);
        }
        let (members, mixed) = (models.len(), way.ngrams > 0.0);
        let mut ensemble = Ensemble::new(models, Mix::Linear)?;
        ensemble.set_ways(vec![way.settings; members])?;
        ensemble.set_weights(mixed.then(|| vec![1.0 - way.ngrams, way.ngrams]))?;
        Ok(ensemble)
    }
}
