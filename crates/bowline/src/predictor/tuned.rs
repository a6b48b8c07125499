//! The settings that were found for a model, kept in its folder as `tuned.json`.

use super::{CacheSettings, DynamicSettings, MonteCarloSettings};
use crate::error::{Error, Result};
use crate::model::{Dropout, KeepProb};
use crate::predictor::recency_cache::RecencySettings;
use crate::storage::{atomic, files};
use serde::{Deserialize, Serialize};
use std::path::Path;

const FILE: &str = "tuned.json";
/// The file has not more bytes than this.
const LONGEST: u64 = 64 << 20;
const VERSION: u32 = 1;
const AGAIN: &str = "remove the file, and find the settings again with `bowline eval MODEL --data DIR --tune`";

/// What was found, on which text, for which weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedSettings {
    /// Version of this file's format.
    pub version: u32,
    /// What the model is, see [`crate::loaded_model::LoadedModel::mark`].
    pub model: String,
    /// SHA-256 of the validation text.
    pub valid_sha256: String,
    /// The temperature.
    pub temperature: Option<f64>,
    /// The cache of the static network.
    pub cache: Option<CacheSettings>,
    /// Dynamic evaluation.
    pub dynamic: Option<DynamicSettings>,
    /// The cache on top of dynamic evaluation.
    pub cache_with_dynamic: Option<CacheSettings>,
    /// The probability with which the samples of Monte-Carlo dropout keep a unit.
    #[serde(default)]
    pub mc_keep: Option<f32>,
    /// The same by site, for a model that was trained so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mc_masks: Option<Dropout>,
    /// The recency cache on top of this model alone.
    pub recency: Option<RecencySettings>,
    /// The weights of mixtures whose first member this model is.
    #[serde(default)]
    pub mixtures: Vec<TunedMixture>,
}

/// The weights of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedMixture {
    /// The marks of the members, each with the way in which it predicts.
    pub members: Vec<String>,
    /// `linear` or `log`.
    pub mix: String,
    /// The weights.
    pub weights: Vec<f64>,
}

impl TunedSettings {
    /// The file in a model's folder; nothing if there is none.
    pub fn load(folder: &Path) -> Result<Option<TunedSettings>> {
        let path = folder.join(FILE);
        let Some(bytes) = files::read_if_there(&path, LONGEST)? else { return Ok(None) };
        let wrong = |problem: String| Error::model(&path, "contents", problem, AGAIN);
        let stored: TunedSettings = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        if stored.version != VERSION {
            return Err(wrong(format!("it has version {}, and this program reads version {VERSION}", stored.version)));
        }
        for settings in [stored.cache, stored.cache_with_dynamic].iter().flatten() {
            settings.validate().map_err(|e| wrong(e.to_string().replace("\n  try: ", "; possible is ")))?;
        }
        if let Some(settings) = stored.dynamic {
            settings.validate().map_err(|e| wrong(e.to_string().replace("\n  try: ", "; possible is ")))?;
        }
        if stored.mc_keep.is_some() || stored.mc_masks.is_some() {
            let (keep, masks) = (stored.mc_keep.map_or(KeepProb::ALL, KeepProb), stored.mc_masks.unwrap_or_default());
            let settings = MonteCarloSettings { samples: 1, keep, seed: 1, masks };
            settings.validate().map_err(|e| wrong(e.to_string().replace("\n  try: ", "; possible is ")))?;
        }
        if let Some(settings) = stored.recency {
            settings.validate().map_err(|e| wrong(e.to_string().replace("\n  try: ", "; possible is ")))?;
        }
        Ok(Some(stored))
    }

    /// Keeps what was found for Monte-Carlo dropout.
    pub fn set_monte_carlo(&mut self, found: MonteCarloSettings) {
        let by_site = !found.masks.is_off();
        self.mc_masks = by_site.then_some(found.masks);
        self.mc_keep = (!by_site).then_some(found.keep.0);
    }

    /// Writes it into a model's folder.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let stored = TunedSettings { version: VERSION, ..self.clone() };
        let text = serde_json::to_string_pretty(&stored)
            .map_err(|e| Error::model(&path, "contents", e.to_string(), "report this: it should not happen"))?;
        atomic::write(&path, |out| writeln!(out, "{text}"))
    }

    /// The weights of a mixture of these members, if they were found.
    pub fn weights(&self, members: &[String], mix: &str) -> Option<Vec<f64>> {
        self.mixtures.iter().find(|m| m.members == members && m.mix == mix).map(|m| m.weights.clone())
    }

    /// Keeps the weights of a mixture, instead of earlier ones.
    pub fn set_weights(&mut self, members: &[String], mix: &str, weights: &[f64]) {
        self.mixtures.retain(|m| m.members != members || m.mix != mix);
        let (members, mix, weights) = (members.to_vec(), mix.to_owned(), weights.to_vec());
        self.mixtures.push(TunedMixture { members, mix, weights });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(TunedSettings::load(folder.path()).unwrap(), None);
        let mut stored =
            TunedSettings { version: VERSION, model: "m".into(), valid_sha256: "v".into(), ..TunedSettings::default() };
        stored.cache = Some(CacheSettings { window: 7, theta: 0.1 + 0.2, lambda: 1.0 / 3.0 });
        stored.set_weights(&["a".into(), "b".into()], "linear", &[0.5, 0.5]);
        stored.set_weights(&["a".into(), "b".into()], "linear", &[0.25, 0.75]);
        stored.save(folder.path()).unwrap();
        let again = TunedSettings::load(folder.path()).unwrap().unwrap();
        assert_eq!(again, stored);
        assert_eq!(again.weights(&["a".into(), "b".into()], "linear"), Some(vec![0.25, 0.75]));
        assert_eq!(again.weights(&["b".into(), "a".into()], "linear"), None);
    }

    #[test]
    fn a_damaged_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (text, part) in [
            ("{", "contents: EOF"),
            ("{\"version\":9,\"model\":\"\",\"valid_sha256\":\"\"}", "it has version 9"),
            ("{\"version\":1,\"model\":\"\",\"valid_sha256\":\"\",\"x\":1}", "unknown field `x`"),
            (
                "{\"version\":1,\"model\":\"\",\"valid_sha256\":\"\",\"cache\":{\"window\":0,\"theta\":1,\"lambda\":0}}",
                "setting `cache-window`: 0 is impossible; possible is",
            ),
        ] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            let error = TunedSettings::load(folder.path()).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("tuned.json"), "{error}");
        }
    }
}
