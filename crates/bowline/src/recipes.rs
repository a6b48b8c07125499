//! Recipes: a published system, or one of ours, as a file of settings. `recipes/*.toml` are part of the program; others are read
//! from where they are.
//!
//! A recipe says what it is (`title`, `about`, `source`, `published`) and changes the settings it needs (`[settings]`, by the
//! names that `--set` takes). What it does not mention is as in the paper's small network without dropout.

use crate::config::{Config, LONGEST_CONFIG, ModelKind, Size, nearest, preset};
use crate::error::{Error, Result};
use crate::model::KeepProb;
use crate::storage::files;
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::Table;

/// The recipes that come with the program, in the order of the list.
const KNOWN: [(&str, &str); 24] = [
    ("vd-lstm", include_str!("../recipes/vd-lstm.toml")),
    ("al", include_str!("../recipes/al.toml")),
    ("re", include_str!("../recipes/re.toml")),
    ("real", include_str!("../recipes/real.toml")),
    ("distilled", include_str!("../recipes/distilled.toml")),
    ("rnn-mikolov", include_str!("../recipes/rnn-mikolov.toml")),
    ("rnn-lda", include_str!("../recipes/rnn-lda.toml")),
    ("deep-rnn", include_str!("../recipes/deep-rnn.toml")),
    ("spn", include_str!("../recipes/spn.toml")),
    ("zaremba-medium", include_str!("../recipes/zaremba-medium.toml")),
    ("zaremba-large", include_str!("../recipes/zaremba-large.toml")),
    ("char-cnn", include_str!("../recipes/char-cnn.toml")),
    ("gal-large", include_str!("../recipes/gal-large.toml")),
    ("pointer-sentinel", include_str!("../recipes/pointer-sentinel.toml")),
    ("rhn", include_str!("../recipes/rhn.toml")),
    ("rhn-re", include_str!("../recipes/rhn-re.toml")),
    ("awd-lstm", include_str!("../recipes/awd-lstm.toml")),
    ("mos", include_str!("../recipes/mos.toml")),
    ("mogrifier", include_str!("../recipes/mogrifier.toml")),
    ("melis-10m", include_str!("../recipes/melis-10m.toml")),
    ("narrow", include_str!("../recipes/narrow.toml")),
    ("gru", include_str!("../recipes/gru.toml")),
    ("rnn", include_str!("../recipes/rnn.toml")),
    ("highway", include_str!("../recipes/highway.toml")),
];

/// A recipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// What `--model` takes.
    pub name: String,
    /// What it says of itself.
    pub about: About,
    /// The file as it is.
    pub text: String,
}

/// What a recipe says of itself.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Its name in prose.
    pub title: String,
    /// What it is, and how it differs from what was published.
    pub about: String,
    /// Where it comes from.
    pub source: String,
    /// Whether it comes in the paper's sizes.
    #[serde(default)]
    pub sizes: bool,
    /// Perplexities that were published.
    pub published: Vec<Published>,
    /// The settings.
    #[serde(skip_serializing)]
    settings: Table,
}

/// Published perplexities.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The corpus.
    pub data: String,
    /// The network's size, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// On the validation split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<f64>,
    /// On the test split.
    pub test: f64,
}

impl Recipe {
    /// The recipes that come with the program.
    pub fn all() -> Result<Vec<Recipe>> {
        KNOWN.iter().map(|(name, text)| Recipe::parse(Path::new(&format!("recipes/{name}.toml")), name, text)).collect()
    }

    /// The recipe of a name, or of a file that ends in `.toml`.
    pub fn find(name: &str) -> Result<Recipe> {
        if let Some((name, text)) = KNOWN.iter().find(|(known, _)| *known == name) {
            return Recipe::parse(Path::new(&format!("recipes/{name}.toml")), name, text);
        }
        if name == "kn" {
            return Err(Error::config("model", "`kn` is not a network", "a recipe of `bowline recipes`"));
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "toml") {
            let text = files::read_text(path, LONGEST_CONFIG)?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if KNOWN.iter().any(|(known, _)| *known == stem) {
                let problem = format!("`{stem}` is the name of a recipe that comes with the program");
                return Err(Error::run(path, problem, "give the file another name"));
            }
            return Recipe::parse(path, &stem, &text);
        }
        let names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).chain(["kn"]).collect();
        let advice = format!("`{}`, the closest of: {}; or a FILE.toml", nearest(name, &names), names.join(", "));
        Err(Error::config("model", format!("there is no recipe `{name}`"), advice))
    }

    fn parse(path: &Path, name: &str, text: &str) -> Result<Recipe> {
        let about: About = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            Error::run(path, format!("line {line}: {}", e.message()), "a recipe like those of `bowline recipes NAME`")
        })?;
        let recipe = Recipe { name: name.to_owned(), about, text: text.to_owned() };
        // A recipe with a setting that there is not, or an impossible one, is found here and not when it is used.
        recipe.config(None, "ptb")?;
        Ok(recipe)
    }

    /// The settings for a corpus, in one of the paper's sizes where the recipe comes in them.
    pub fn config(&self, size: Option<Size>, data: &str) -> Result<Config> {
        if size.is_some() && !self.about.sizes {
            let problem = format!("`{}` comes in one size", self.name);
            let advice = "leave it out, and change the network with `--set hidden=...` or `--set network.widths=[...]`";
            return Err(Error::config("size", problem, advice));
        }
        let mut config = preset(size.unwrap_or(Size::Small), ModelKind::named(&self.name), data);
        if !self.about.sizes {
            config.keep = KeepProb::ALL;
        }
        config.overlaid(&self.about.settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_has_the_size_that_was_published() {
        let recipes = Recipe::all().unwrap();
        assert_eq!(recipes.len(), KNOWN.len());
        let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes")).unwrap().count();
        assert_eq!(files, KNOWN.len(), "a file that is not in the list");
        let millions = |name: &str| {
            let recipe = recipes.iter().find(|recipe| recipe.name == name).unwrap();
            let parameters = recipe.config(None, "ptb").unwrap().spec(10_000).parameters();
            (parameters as f64 / 1e5).round() / 10.0
        };
        for (name, expected) in [
            ("zaremba-medium", 19.8),
            ("zaremba-large", 66.0),
            ("char-cnn", 19.4),
            ("gal-large", 66.0),
            ("pointer-sentinel", 20.2),
            ("rhn", 32.1),
            ("rhn-re", 23.4),
            ("awd-lstm", 24.2),
            ("mos", 21.5),
            ("mogrifier", 24.0),
            ("melis-10m", 10.0),
            ("rnn-mikolov", 6.1),
            ("deep-rnn", 6.2),
            ("spn", 5.1),
            ("rnn-lda", 6.6),
            ("narrow", 3.6),
            ("distilled", 2.6),
        ] {
            assert_eq!(millions(name), expected, "{name}");
        }
    }

    #[test]
    fn the_paper_s_names_are_its_presets() {
        for (size, model) in Size::ALL.into_iter().flat_map(|size| ModelKind::ALL.map(|model| (size, model))) {
            for data in ["ptb", "wikitext-2", "demo"] {
                let recipe = Recipe::find(model.name()).unwrap();
                assert_eq!(recipe.config(Some(size), data).unwrap(), preset(size, model, data));
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_recipe_is_said() {
        let message = Recipe::find("narow").unwrap_err().to_string();
        assert!(
            message.starts_with("setting `model`: there is no recipe `narow`\n  try: `narrow`, the closest"),
            "{message}"
        );
        let place = tempfile::tempdir().unwrap();
        let wrong = |settings: &str| {
            let path = place.path().join("mine.toml");
            let head = "title = 'x'\nabout = 'x'\nsource = 'x'\npublished = []\n";
            std::fs::write(&path, format!("{head}[settings]\n{settings}")).unwrap();
            Recipe::find(path.to_str().unwrap()).map(|recipe| recipe.name).map_err(|e| e.to_string())
        };
        assert_eq!(wrong("hidden = 20\nlearning_rate = 2"), Ok("mine".to_owned()));
        let error = wrong("networkk.unit = 'rnn'").unwrap_err();
        assert!(
            error.starts_with("setting `networkk.unit`: there is no such setting\n  try: `network.unit`"),
            "{error}"
        );
        assert!(wrong("hidden = 0").unwrap_err().contains("0 is impossible"));
        assert!(wrong("hidden = [").unwrap_err().contains("line 6"));
    }
}
