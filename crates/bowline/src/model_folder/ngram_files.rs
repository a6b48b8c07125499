//! The folder of an n-gram model: the same files as that of a network, with other contents.
//!
//! `config.json` names the kind (`kn`: estimated here by modified Kneser-Ney; `ngram`: read from an ARPA file), the order
//! and the number of words. `model.safetensors` holds the n-grams ([`crate::ngram`], module `tensors`), and among its
//! metadata the settings of the recency cache that were tuned with the model, where there are any.

use super::config::{Keys, RESTORE};
use super::{CARD, CONFIG, INCOMPLETE, ModelCard, VOCABULARY, VOCABULARY_HASH_KEY, WEIGHTS};
use super::{check_vocabulary, read_at_most, write_if_other};
use crate::corpus::sha256_of_file;
use crate::error::{Error, Result};
use crate::ngram::{MAX_ORDER, NgramModel, arpa, tensors};
use crate::predictor::recency_cache::RecencySettings;
use crate::storage::tensor_file::{ContentHash, TensorFile, TensorFileWriter, sha256};
use crate::storage::{files, new_folder};
use crate::vocabulary::Vocabulary;
use crate::wording::grouped;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The kinds of n-gram models, and what the card says about each.
const KINDS: [(&str, &str); 2] = [
    ("kn", "an n-gram model, estimated by interpolated modified Kneser-Ney smoothing"),
    ("ngram", "an n-gram model, read from an ARPA file"),
];

const RECENCY_KEY: &str = "recency";
const TOKENIZE_KEY: &str = "tokenize";
const KEYS: [&str; 5] = ["format", "version", "model", "vocab_size", "order"];

/// An n-gram model with its words.
#[derive(Clone, Debug)]
pub struct NgramFolder {
    /// The folder it came from.
    pub folder: PathBuf,
    /// `kn` or `ngram`.
    pub kind: String,
    /// The model.
    pub model: NgramModel,
    /// The words.
    pub vocabulary: Vocabulary,
    /// Whether its training text was lower-cased and split from its punctuation.
    pub tokenize: bool,
    /// The recency cache that was tuned with it.
    pub recency: Option<RecencySettings>,
}

impl NgramFolder {
    /// Writes the model to its folder, or brings an existing one up to date, and gives the content hash.
    pub fn save(&self, card: &ModelCard) -> Result<String> {
        let (dir, model) = (self.folder.as_path(), &self.model);
        let description = KINDS.iter().find(|(name, _)| *name == self.kind).map_or("an n-gram model", |(_, text)| text);
        if model.vocab() as u64 > super::config::MOST_WORDS {
            let problem = format!("{} words are more than a model folder can hold", model.vocab());
            let advice = format!("a vocabulary of at most {} words", super::config::MOST_WORDS);
            return Err(Error::model(dir, "vocabulary", problem, advice));
        }
        if !dir.is_dir() {
            files::create_dir_all(dir).map_err(Error::io(dir, "create the folder"))?;
            files::sync_folder(dir).map_err(Error::io(dir, "create the folder"))?;
        }
        let words = self.vocabulary.to_text();
        let config = json!({
            "format": "bowline",
            "version": 1,
            "model": self.kind,
            "vocab_size": model.vocab(),
            "order": model.order(),
        });
        write_if_other(&dir.join(VOCABULARY), &words)?;
        write_if_other(&dir.join(CONFIG), &format!("{config:#}\n"))?;

        let all = tensors::tensors(model);
        let mut file = TensorFileWriter::new();
        file.metadata(VOCABULARY_HASH_KEY, sha256(words.as_bytes())).metadata(TOKENIZE_KEY, self.tokenize);
        if let Some(recency) = self.recency {
            file.metadata(RECENCY_KEY, recency);
        }
        for (name, values) in &all {
            file.tensor(name, &[values.len()], values);
        }
        let hash = file.save(dir.join(WEIGHTS))?;
        let summary = format!(
            "{description}. Its n-grams have up to {} words, its vocabulary {}; it has {} n-grams",
            model.order(),
            grouped(model.vocab()),
            grouped(model.ngrams().iter().sum()),
        );
        write_if_other(&dir.join(CARD), &card.to_ngram_markdown(&summary, &hash))?;
        Ok(hash)
    }

    /// Makes a model folder of an ARPA file.
    pub fn import_arpa(file: &Path, dir: &Path, tokenize: bool) -> Result<NgramFolder> {
        if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
            let advice = "an --out that does not exist yet, or an empty folder";
            return Err(Error::run(dir, "the folder is not empty", advice));
        }
        let (model, vocabulary) = arpa::read(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known = |id: &u32| Some(*id) != vocabulary.unk() && *id != vocabulary.eos();
        let card = ModelCard {
            title: format!("{}-gram model of {name}", model.order()),
            data_name: name,
            data_sha256: sha256_of_file(file).map_err(Error::io(file, "read"))?,
            recipe: vec![("order".to_owned(), model.order().to_string())],
            example: (0..vocabulary.len() as u32).find(known).map_or("", |id| vocabulary.word(id)).to_owned(),
            ..ModelCard::default()
        };
        let kind = "ngram".to_owned();
        let mut folder = NgramFolder { folder: dir.to_owned(), kind, model, vocabulary, tokenize, recency: None };
        new_folder::create(dir, |partial| {
            folder.folder = partial.to_owned();
            folder.save(&card)
        })?;
        Ok(NgramFolder { folder: dir.to_owned(), ..folder })
    }

    /// Reads the folder of an n-gram model, all of it checked.
    pub fn load(dir: &Path) -> Result<NgramFolder> {
        for name in [CONFIG, VOCABULARY, WEIGHTS] {
            if !dir.join(name).try_exists().map_err(Error::io(dir, "look into"))? {
                return Err(Error::model(dir, name, "this file is missing", INCOMPLETE));
            }
        }
        let (kind, vocab, order) = parse_config(&dir.join(CONFIG))?;
        let words = dir.join(VOCABULARY);
        let text = check_vocabulary(&words, &read_at_most(&words, 1 << 30)?, vocab)?;
        let path = dir.join(WEIGHTS);
        let file = TensorFile::read(&path, ContentHash::Required)?;
        let (found, expected): (String, String) = (sha256(text.as_bytes()), file.value(VOCABULARY_HASH_KEY)?);
        if found != expected {
            let problem = format!("the words have the SHA-256 {found}, the n-grams belong to {expected}");
            return Err(Error::model(words, "content hash", problem, INCOMPLETE));
        }
        let vocabulary = Vocabulary::from_text(&words, text.as_bytes())?;
        let model = tensors::load(&path, &file, order, vocab, vocabulary.eos())?;
        let recency = file.metadata().get(RECENCY_KEY);
        let recency = recency.map(|text| RecencySettings::default().with(text)).transpose()?;
        let tokenize = file.metadata().get(TOKENIZE_KEY).is_some_and(|value| value == "true");
        Ok(NgramFolder { folder: dir.to_owned(), kind, model, vocabulary, tokenize, recency })
    }
}

/// Whether a model folder is that of an n-gram model. A folder that cannot be read is not: its loader will say why.
pub fn is_ngram(dir: &Path) -> bool {
    let config = read_at_most(&dir.join(CONFIG), 1 << 16).unwrap_or_default();
    let config: Value = serde_json::from_slice(&config).unwrap_or_default();
    config["model"].as_str().is_some_and(is_ngram_kind)
}

/// Whether the `model` of a `config.json` is an n-gram model.
pub(super) fn is_ngram_kind(model: &str) -> bool {
    KINDS.iter().any(|(name, _)| *name == model)
}

/// The kind, the number of words and the order in a `config.json`.
fn parse_config(path: &Path) -> Result<(String, usize, usize)> {
    let file = Keys::parse(path, &read_at_most(path, 1 << 16)?)?;
    file.only(&KEYS)?;
    let kind = file.text("model")?;
    if !is_ngram_kind(kind) {
        return Err(Error::model(path, "`model`", "it is not an n-gram model", RESTORE));
    }
    let vocab = file.number("vocab_size", 1, super::config::MOST_WORDS)? as usize;
    let order = file.number("order", 1, MAX_ORDER as u64)? as usize;
    Ok((kind.to_owned(), vocab, order))
}
