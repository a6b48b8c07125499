//! `config.json`: what a model is made of.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::ngram_files::is_ngram_kind;
use crate::architecture::Architecture;
use crate::error::{Error, Result};
use crate::storage::printable;
use crate::storage::strict_json::Pairs;

/// The version of the format. A change that older programs would misread needs a higher one.
pub(super) const VERSION: u64 = 1;

/// The models by name, and whether the classifier is tied to the embedding.
const MODELS: [(&str, bool); 4] = [("vd-lstm", false), ("al", false), ("re", true), ("real", true)];

/// The order of the gates in the rows of the LSTM's matrices, PyTorch's.
const GATE_ORDER: &str = "ifgo";

const KEYS: [&str; 8] =
    ["format", "version", "model", "vocab_size", "hidden_size", "num_layers", "tie_word_embeddings", "gate_order"];

/// Far above any model this program can train, and small enough that no product of them overflows.
pub(super) const MOST_WORDS: u64 = 1 << 24;
const MOST_HIDDEN: u64 = 1 << 16;
/// The most layers of a model.
pub const MOST_LAYERS: u64 = 64;

pub(super) const RESTORE: &str = "bring back the `config.json` that was saved with this model";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) model: String,
    pub(super) architecture: Architecture,
}

impl Config {
    /// The text of the file. The keys that PyTorch's friends know have their names.
    pub(super) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct File<'a> {
            format: &'a str,
            version: u64,
            model: &'a str,
            vocab_size: usize,
            hidden_size: usize,
            num_layers: usize,
            tie_word_embeddings: bool,
            gate_order: &'a str,
        }
        let Architecture { vocab, hidden, layers, tied } = self.architecture;
        let file = File {
            format: "bowline",
            version: VERSION,
            model: &self.model,
            vocab_size: vocab,
            hidden_size: hidden,
            num_layers: layers,
            tie_word_embeddings: tied,
            gate_order: GATE_ORDER,
        };
        // Strings, numbers and a truth value: there is nothing that could fail.
        serde_json::to_string_pretty(&file).map(|text| text + "\n").unwrap_or_default()
    }

    /// Checks the bytes of the file, with the version first: another version may have other keys.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Config> {
        let file = Keys::parse(path, bytes)?;
        if file.text("model").is_ok_and(is_ngram_kind) {
            let advice = "the folder of a network: a model of `bowline train` without `--model kn`";
            return Err(Error::model(path, "`model`", "this is an n-gram model, and a network is needed here", advice));
        }
        file.only(&KEYS)?;
        let size = |key, most| file.number(key, 1, most).map(|size| size as usize);
        let architecture = Architecture {
            vocab: size("vocab_size", MOST_WORDS)?,
            hidden: size("hidden_size", MOST_HIDDEN)?,
            layers: size("num_layers", MOST_LAYERS)?,
            tied: file.truth("tie_word_embeddings")?,
        };
        let gate_order = file.text("gate_order")?;
        if gate_order != GATE_ORDER {
            let problem = format!("`{}` is not the order this program reads, `{GATE_ORDER}`", printable(gate_order));
            return Err(file.wrong("gate_order", &problem));
        }
        let config = Config { model: file.text("model")?.to_owned(), architecture };
        config.check(path)?;
        Ok(config)
    }

    /// Checks that the model exists, has sizes, and is tied or not as its name says. A file that passes here can be
    /// read back.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        let wrong = |key: &str, problem: String| Err(Error::model(path, format!("`{key}`"), problem, RESTORE));
        let Architecture { vocab, hidden, layers, tied } = self.architecture;
        let sizes = [
            ("vocab_size", vocab, MOST_WORDS),
            ("hidden_size", hidden, MOST_HIDDEN),
            ("num_layers", layers, MOST_LAYERS),
        ];
        for (key, size, most) in sizes {
            if !(1..=most).contains(&(size as u64)) {
                return wrong(key, not_between(size as u64, 1, most));
            }
        }
        match MODELS.iter().find(|(name, _)| *name == self.model) {
            None => {
                let names = MODELS.map(|(name, _)| format!("`{name}`")).join(", ");
                wrong("model", format!("`{}` is none of {names}", printable(&self.model)))
            }
            Some((name, must)) if *must != tied => {
                wrong("tie_word_embeddings", format!("it is {tied}, but it is {must} in every `{name}` model"))
            }
            Some(_) => Ok(()),
        }
    }
}

/// The file's pairs, and how to get a value of the right kind out of them.
pub(super) struct Keys<'a> {
    path: &'a Path,
    pairs: Vec<(String, Value)>,
}

impl Keys<'_> {
    /// The pairs of the bytes of a file, with the format and its version checked.
    pub(super) fn parse<'a>(path: &'a Path, bytes: &[u8]) -> Result<Keys<'a>> {
        let Pairs(pairs) = serde_json::from_slice::<Pairs<Value>>(bytes).map_err(|error| {
            let problem = format!("it is not as it should be: {}", printable(&error.to_string()));
            Error::model(path, "contents", problem, RESTORE)
        })?;
        let file = Keys { path, pairs };
        if file.text("format")? != "bowline" {
            return Err(file.wrong("format", "it is not `bowline`, so this is no model of Bowline's"));
        }
        let version = file.number("version", 1, u64::MAX)?;
        if version > VERSION {
            return Err(Error::model(
                path,
                "`version`",
                format!("this model has version {version} of the format, this program reads up to {VERSION}"),
                "upgrade Bowline, or use a model that was saved by this version of it",
            ));
        }
        Ok(file)
    }

    /// Checks that there are no other keys.
    pub(super) fn only(&self, keys: &[&str]) -> Result<()> {
        match self.pairs.iter().find(|(key, _)| !keys.contains(&key.as_str())) {
            Some((key, _)) => Err(self.wrong(&printable(key), "there is no such key")),
            None => Ok(()),
        }
    }

    fn wrong(&self, key: &str, problem: &str) -> Error {
        Error::model(self.path, format!("`{key}`"), problem, RESTORE)
    }

    fn value(&self, key: &str) -> Result<&Value> {
        let value = self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        value.ok_or_else(|| self.wrong(key, "it is missing"))
    }

    fn kind(&self, key: &str, value: &Value, kind: &str) -> Error {
        self.wrong(key, &format!("`{}` is not {kind}", printable(&value.to_string())))
    }

    pub(super) fn text(&self, key: &str) -> Result<&str> {
        let value = self.value(key)?;
        value.as_str().ok_or_else(|| self.kind(key, value, "a string"))
    }

    fn truth(&self, key: &str) -> Result<bool> {
        let value = self.value(key)?;
        value.as_bool().ok_or_else(|| self.kind(key, value, "true or false"))
    }

    pub(super) fn number(&self, key: &str, least: u64, most: u64) -> Result<u64> {
        let value = self.value(key)?;
        let number = value.as_u64().ok_or_else(|| self.kind(key, value, "a whole number"))?;
        if !(least..=most).contains(&number) {
            return Err(self.wrong(key, &not_between(number, least, most)));
        }
        Ok(number)
    }
}

fn not_between(number: u64, least: u64, most: u64) -> String {
    format!("{number} is not between {least} and {most}")
}
