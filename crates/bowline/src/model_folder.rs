//! A trained model as a folder.
//!
//! A *model folder* holds `config.json` (what the model is made of), `vocab.txt` (one word per line, in the order of
//! the word vectors), `model.safetensors` (the weights, see [`crate::storage::tensor_file`]) and `README.md`, a *card*
//! for people. The weights have PyTorch's names and gate order, so that `nn.Embedding`, `nn.LSTM` and `nn.Linear` load
//! them as they are; PyTorch's second bias of each layer is zero. A tied classifier is stored once, as the embedding.
//!
//! Each file is replaced in one step, and within a run `config.json` and `vocab.txt` never change; so a kill between
//! two files leaves a folder that still loads. The weights carry the hash of their contents and of the vocabulary, so
//! that a word list can never be taken for another one.

mod card;
pub mod config;
mod ngram_files;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use card::ModelCard;
pub use ngram_files::{NgramFolder, is_ngram};

use crate::error::{Error, Result};
use crate::layout::Tensor;
use crate::params::Params;
use crate::storage::tensor_file::{ContentHash, TensorFile, TensorFileWriter, sha256};
use crate::storage::{atomic, files};
use config::Config;

/// The weights.
pub const WEIGHTS: &str = "model.safetensors";
/// The sizes and ties.
pub const CONFIG: &str = "config.json";
/// The words.
pub const VOCABULARY: &str = "vocab.txt";
/// The card.
pub const CARD: &str = "README.md";
/// The model folder inside the folder of a run.
pub const BEST: &str = "best";

/// The metadata key of the SHA-256 of `vocab.txt`.
pub const VOCABULARY_HASH_KEY: &str = "bowline.vocabulary_sha256";

const INCOMPLETE: &str = "the model folder is damaged or incomplete: copy all of its files again";

/// What [`ModelFolder::save`] writes.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// The model's name as `--model` takes it: `vd-lstm`, `al`, `re` or `real`.
    pub model: &'a str,
    /// The weights.
    pub params: &'a Params,
    /// The text of `vocab.txt`: as many lines as there are word vectors, each with its newline.
    pub vocabulary: &'a str,
    /// More to be kept with the weights, such as the epoch and the validation perplexity.
    pub metadata: Vec<(String, String)>,
    /// What the card says.
    pub card: &'a ModelCard,
}

/// A model that was read from its folder, all of it checked.
#[derive(Debug)]
pub struct ModelFolder {
    /// The model's name as `--model` takes it.
    pub model: String,
    /// The weights.
    pub params: Params,
    /// The text of `vocab.txt`, with as many lines as there are word vectors.
    pub vocabulary: String,
    /// What is kept with the weights.
    pub metadata: BTreeMap<String, String>,
}

impl ModelFolder {
    /// Writes a model folder, or brings an existing one up to date, and gives the content hash of the weights. Files
    /// whose contents would not change are left alone.
    pub fn save(dir: impl AsRef<Path>, contents: &Contents<'_>) -> Result<String> {
        let dir = dir.as_ref();
        let config = Config { model: contents.model.to_owned(), spec: contents.params.spec().clone() };
        config.check(&dir.join(CONFIG))?;
        check_vocabulary(&dir.join(VOCABULARY), contents.vocabulary.as_bytes(), config.spec.vocab)?;
        if !dir.is_dir() {
            files::create_dir_all(dir).map_err(Error::io(dir, "create the folder"))?;
            files::sync_folder(dir).map_err(Error::io(dir, "create the folder"))?;
        }
        // The weights come after what they need: where they are, the model is whole.
        write_if_other(&dir.join(VOCABULARY), contents.vocabulary)?;
        write_if_other(&dir.join(CONFIG), &config.to_json())?;
        let hash = save_weights(&dir.join(WEIGHTS), contents)?;
        write_if_other(&dir.join(CARD), &contents.card.to_markdown(&config, &hash))?;
        Ok(hash)
    }

    /// Reads a model folder that Bowline wrote.
    pub fn load(dir: impl AsRef<Path>) -> Result<ModelFolder> {
        ModelFolder::load_with(dir, ContentHash::Required)
    }

    /// Reads a model folder whose weights another tool may have written: then they carry no hash.
    pub fn load_with(dir: impl AsRef<Path>, hash: ContentHash) -> Result<ModelFolder> {
        let dir = dir.as_ref();
        for name in [CONFIG, VOCABULARY, WEIGHTS] {
            if !dir.join(name).try_exists().map_err(Error::io(dir, "look into"))? {
                return Err(Error::model(dir, name, "this file is missing", INCOMPLETE));
            }
        }
        let config = Config::parse(&dir.join(CONFIG), &read_at_most(&dir.join(CONFIG), 1 << 16)?)?;
        let words = dir.join(VOCABULARY);
        let vocabulary = check_vocabulary(&words, &read_at_most(&words, 1 << 30)?, config.spec.vocab)?;

        let file = TensorFile::read(dir.join(WEIGHTS), hash)?;
        if hash == ContentHash::Required || file.metadata().contains_key(VOCABULARY_HASH_KEY) {
            let expected: String = file.value(VOCABULARY_HASH_KEY)?;
            let found = sha256(vocabulary.as_bytes());
            if found != expected {
                let problem = format!("the words have the SHA-256 {found}, the weights belong to {expected}");
                return Err(Error::model(words, "content hash", problem, INCOMPLETE));
            }
        }
        let params = read_weights(dir, &file, &config)?;
        Ok(ModelFolder { model: config.model, params, vocabulary, metadata: file.metadata().clone() })
    }
}

/// The model folder that a MODEL argument means: the folder itself, or `best/` in the folder of a run.
pub fn resolve(path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = path.as_ref();
    let wrong = |problem: String, advice: String| Err(Error::model(path, "model", problem, advice));
    let give_a_folder = || "give the folder of a run (`--out` of `bowline train`) or of a model".to_owned();
    if path.join(WEIGHTS).is_file() || path.join(CONFIG).is_file() {
        return Ok(path.to_owned());
    }
    let best = path.join(BEST);
    if best.join(WEIGHTS).is_file() {
        return Ok(best);
    }
    if !path.try_exists().map_err(Error::io(path, "look into"))? {
        return wrong("there is no such folder".to_owned(), give_a_folder());
    }
    if path.is_file() {
        return wrong("this is a file, not a folder".to_owned(), give_a_folder());
    }
    if ["config.toml", "events.jsonl", "checkpoints"].iter().any(|name| path.join(name).exists()) {
        return wrong(
            format!("this run has no model yet: `{BEST}/{WEIGHTS}` comes with the first validation"),
            format!("continue the run with `bowline resume {}`", path.display()),
        );
    }
    wrong(format!("neither `{WEIGHTS}` nor `{BEST}/{WEIGHTS}` is in this folder"), give_a_folder())
}

/// Leaves a file alone that is already as it should be.
fn write_if_other(path: &Path, text: &str) -> Result<()> {
    if files::read(path, text.len() as u64).is_ok_and(|bytes| bytes == text.as_bytes()) {
        return Ok(());
    }
    atomic::write(path, |out| out.write_all(text.as_bytes()))
}

/// Reads a small file, and no endless one.
fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let file = files::open(path).map_err(Error::io(path, "read"))?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(Error::io(path, "read"))?;
    if bytes.len() as u64 > limit {
        return Err(Error::model(path, "length", format!("the file has more than {limit} bytes"), INCOMPLETE));
    }
    Ok(bytes)
}

/// Checks that there is one line of UTF-8 for each word vector.
fn check_vocabulary(path: &Path, bytes: &[u8], words: usize) -> Result<String> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + newlines(&bytes[..error.valid_up_to()]);
        Error::corpus_line(path, line, "this line is not UTF-8", INCOMPLETE)
    })?;
    let lines = newlines(bytes);
    if bytes.last().is_some_and(|&last| last != b'\n') {
        let problem = "the last line does not end in a newline, as if the end of the file were missing";
        return Err(Error::corpus_line(path, lines + 1, problem, INCOMPLETE));
    }
    if lines != words {
        let problem = format!("there are {lines} words (one per line), but {words} word vectors");
        return Err(Error::corpus(path, problem, INCOMPLETE));
    }
    Ok(text.to_owned())
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// PyTorch's names of a tensor of [`crate::layout`]: one, except for an LSTM layer's bias, which is the sum of two.
pub fn stored_names(tensor: &Tensor) -> (String, Option<String>) {
    match tensor.name.strip_prefix("rnn.bias_l") {
        Some(layer) => (format!("rnn.bias_ih_l{layer}"), Some(format!("rnn.bias_hh_l{layer}"))),
        None => (tensor.name.clone(), None),
    }
}

fn save_weights(path: &Path, contents: &Contents<'_>) -> Result<String> {
    let params = contents.params;
    let zeros = vec![0.0; params.tensors().iter().filter(|t| t.shape.len() == 1).map(Tensor::len).max().unwrap_or(0)];
    let mut file = TensorFileWriter::new();
    for (key, value) in &contents.metadata {
        file.metadata(key, value);
    }
    // Other tools read from this that the tensors are laid out as PyTorch has them.
    file.metadata("format", "pt").metadata(VOCABULARY_HASH_KEY, sha256(contents.vocabulary.as_bytes()));
    for tensor in params.tensors() {
        let (name, second) = stored_names(tensor);
        file.tensor(name, &tensor.shape, params.get(tensor));
        if let Some(second) = second {
            file.tensor(second, &tensor.shape, &zeros[..tensor.len()]);
        }
    }
    params.save_besides(&mut file);
    file.save(path)
}

/// Only once the file is known to have every tensor in its shape are the weights given memory.
fn read_weights(dir: &Path, file: &TensorFile, config: &Config) -> Result<Params> {
    let layout = config.spec.layout();
    let tensors = layout.tensors();
    let names: Vec<_> = tensors.iter().map(stored_names).collect();
    let besides = Params::besides(&config.spec);
    let weights = names.iter().zip(tensors).flat_map(|((first, second), tensor)| {
        let shape = tensor.shape.as_slice();
        std::iter::once((first.as_str(), shape)).chain(second.as_deref().map(|second| (second, shape)))
    });
    file.expect_exactly(weights.chain(besides.iter().map(|(name, shape)| (*name, &shape[..]))))?;

    let mut params = Params::zeros(&config.spec);
    params.read_besides(&dir.join(WEIGHTS), file)?;
    for ((first, second), tensor) in names.iter().zip(tensors) {
        let values = &mut params.data_mut()[tensor.range()];
        file.copy_to(first, values)?;
        let Some(second) = second else { continue };
        add_bias(&dir.join(WEIGHTS), file, (first, second), values)?;
    }
    Ok(params)
}

/// Adds the second of PyTorch's two biases to the first, which `values` holds. A sum that is not finite is an error.
pub fn add_bias(path: &Path, file: &TensorFile, names: (&str, &str), values: &mut [f32]) -> Result<()> {
    let (first, second) = names;
    let mut addends = vec![0.0; values.len()];
    file.copy_to(second, &mut addends)?;
    for (index, (value, addend)) in values.iter_mut().zip(addends).enumerate() {
        // Adding zero would turn -0.0 into 0.0: not the same bits.
        if addend != 0.0 {
            *value += addend;
        }
        if !value.is_finite() {
            let problem = format!("the value at [{index}] added to that of `{first}` is {value}");
            let advice = "use a model from before its weights stopped being numbers";
            return Err(Error::model(path, format!("tensor `{second}`"), problem, advice));
        }
    }
    Ok(())
}
