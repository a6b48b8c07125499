//! `config.json`: what a model is made of.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::ngram_files::is_ngram_kind;
use crate::error::{Error, Result};
use crate::spec::ModelSpec;
use crate::storage::printable;
use crate::storage::strict_json::Pairs;

/// The version of the format. A change that older programs would misread needs a higher one.
///
/// Version 1 has the paper's networks; version 2 spells out any other. A network that version 1 can say is written so, for
/// older programs.
pub(super) const VERSION: u64 = 2;

/// The models by name, and whether the classifier is tied to the embedding.
const MODELS: [(&str, bool); 4] = [("vd-lstm", false), ("al", false), ("re", true), ("real", true)];

/// The order of the gates in the rows of the LSTM's matrices, PyTorch's.
const GATE_ORDER: &str = "ifgo";

const KEYS: [&str; 8] =
    ["format", "version", "model", "vocab_size", "hidden_size", "num_layers", "tie_word_embeddings", "gate_order"];

const KEYS_2: [&str; 4] = ["format", "version", "model", "network"];

/// Far above any model this program can train, and small enough that no product of them overflows.
pub(super) const MOST_WORDS: u64 = 1 << 24;
const MOST_HIDDEN: u64 = 1 << 16;
/// The most layers of a model.
pub const MOST_LAYERS: u64 = 64;

pub(super) const RESTORE: &str = "restore the `config.json` that was saved with this model";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) model: String,
    pub(super) spec: ModelSpec,
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
        #[derive(Serialize)]
        struct File2<'a> {
            format: &'a str,
            version: u64,
            model: &'a str,
            network: &'a ModelSpec,
        }
        let text = match self.spec.as_paper().filter(|_| self.is_of_the_paper()) {
            Some((hidden_size, num_layers, tie_word_embeddings)) => serde_json::to_string_pretty(&File {
                format: "bowline",
                version: 1,
                model: &self.model,
                vocab_size: self.spec.vocab,
                hidden_size,
                num_layers,
                tie_word_embeddings,
                gate_order: GATE_ORDER,
            }),
            None => serde_json::to_string_pretty(&File2 {
                format: "bowline",
                version: 2,
                model: &self.model,
                network: &self.spec,
            }),
        };
        // Strings, numbers and truth values: there is nothing that could fail.
        text.map(|text| text + "\n").unwrap_or_default()
    }

    /// Whether its name is one of the paper's four.
    pub(super) fn is_of_the_paper(&self) -> bool {
        MODELS.iter().any(|(name, _)| *name == self.model)
    }

    /// Checks the bytes of the file, with the version first: another version may have other keys.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Config> {
        let file = Keys::parse(path, bytes)?;
        if file.text("model").is_ok_and(is_ngram_kind) {
            let advice = "the folder of a network: a model of `bowline train` without `--model kn`";
            return Err(Error::model(path, "`model`", "this is an n-gram model, and a network is needed here", advice));
        }
        if file.number("version", 1, VERSION)? == 2 {
            file.only(&KEYS_2)?;
            let network = file.value("network")?.clone();
            let spec = serde_json::from_value(network)
                .map_err(|e| file.wrong("network", &format!("it is damaged: {}", printable(&e.to_string()))))?;
            let config = Config { model: file.text("model")?.to_owned(), spec };
            config.check(path)?;
            return Ok(config);
        }
        file.only(&KEYS)?;
        let size = |key, most| file.number(key, 1, most).map(|size| size as usize);
        let spec = ModelSpec::paper(
            size("vocab_size", MOST_WORDS)?,
            size("hidden_size", MOST_HIDDEN)?,
            size("num_layers", MOST_LAYERS)?,
            file.truth("tie_word_embeddings")?,
        );
        let gate_order = file.text("gate_order")?;
        if gate_order != GATE_ORDER {
            let problem = format!("`{}` is not the order this program reads, `{GATE_ORDER}`", printable(gate_order));
            return Err(file.wrong("gate_order", &problem));
        }
        let config = Config { model: file.text("model")?.to_owned(), spec };
        if !config.is_of_the_paper() {
            let names = MODELS.map(|(name, _)| format!("`{name}`")).join(", ");
            return Err(file.wrong("model", &format!("`{}` is none of {names}", printable(&config.model))));
        }
        config.check(path)?;
        Ok(config)
    }

    /// Checks that the model exists, has sizes, and is tied or not as its name says. A file that passes here can be
    /// read back.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        let wrong = |key: &str, problem: String| Err(Error::model(path, format!("`{key}`"), problem, RESTORE));
        let Some((hidden, layers, tied)) = self.spec.as_paper().filter(|_| self.is_of_the_paper()) else {
            if self.model.is_empty() {
                return wrong("model", "it is empty".to_owned());
            }
            return self.spec.check().or_else(|problem| wrong("network", problem));
        };
        let sizes = [
            ("vocab_size", self.spec.vocab, MOST_WORDS),
            ("hidden_size", hidden, MOST_HIDDEN),
            ("num_layers", layers, MOST_LAYERS),
        ];
        for (key, size, most) in sizes {
            if !(1..=most).contains(&(size as u64)) {
                return wrong(key, not_between(size as u64, 1, most));
            }
        }
        match MODELS.iter().find(|(name, must)| *name == self.model && *must != tied) {
            Some((name, must)) => {
                wrong("tie_word_embeddings", format!("it is {tied}, but it is {must} in every `{name}` model"))
            }
            None => Ok(()),
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
            let problem = format!("it is damaged: {}", printable(&error.to_string()));
            Error::model(path, "contents", problem, RESTORE)
        })?;
        let file = Keys { path, pairs };
        if file.text("format")? != "bowline" {
            return Err(file.wrong("format", "it is not `bowline`, so this is not a Bowline model"));
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
