//! A model as a folder that Hugging Face's transformers load with `trust_remote_code=True`.
//!
//! ```text
//! config.json              what the model is, and which class of modeling_bowline.py it is
//! modeling_bowline.py      the model in PyTorch
//! model.safetensors        the weights, with PyTorch's names
//! tokenizer.json           words and their ids: a stock WordLevel tokenizer that splits at white space
//! tokenizer_config.json    the special words
//! generation_config.json   where a text ends
//! ```
//!
//! `<eos>` is a special token, so that `<eos>the` is two tokens: programs put it before a text without a space.

#[cfg(test)]
mod tests;

use bowline::error::{Error, Result};
use bowline::loaded_model::LoadedModel;
use bowline::model_folder::WEIGHTS;
use bowline::storage::{atomic, files, new_folder};
use bowline::vocabulary::{EOS, UNK, Vocabulary};
use serde_json::{Map, Value, json};
use std::path::Path;

const MODELING: &str = include_str!("modeling_bowline.py");

/// A recurrent network has no longest text; transformers' tools want a number.
const LONGEST_TEXT: u64 = 1 << 20;

/// What was written.
pub struct Exported {
    /// Bytes of the weights.
    pub bytes: u64,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// Writes the model in `folder` (or in the folder of a run) to the new folder `out`.
pub fn export(folder: &Path, out: &Path) -> Result<Exported> {
    let model = LoadedModel::load(folder)?;
    let params = model.require_network("layers that PyTorch could run")?;
    let Some((hidden, layers, tied)) = params.spec().as_paper() else {
        let problem =
            "only networks of equal LSTM layers, as wide as the word vectors, can be written for transformers";
        return Err(Error::model(folder, "network", problem, "a model of `bowline train --model real`, for example"));
    };
    let vocabulary = &model.vocabulary;
    let eos = vocabulary.eos();
    let config = json!({
        "architectures": ["BowlineForCausalLM"],
        "auto_map": {
            "AutoConfig": "modeling_bowline.BowlineConfig",
            "AutoModelForCausalLM": "modeling_bowline.BowlineForCausalLM",
        },
        "model_type": "bowline",
        "vocab_size": vocabulary.len(),
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "max_position_embeddings": LONGEST_TEXT,
        "tie_word_embeddings": tied,
        "bos_token_id": eos,
        "eos_token_id": eos,
        "pad_token_id": eos,
        "torch_dtype": "float32",
        "use_cache": false,
    });
    let generation = json!({
        "bos_token_id": eos, "eos_token_id": eos, "pad_token_id": eos, "use_cache": false, "max_new_tokens": 50,
    });
    let tokenizer_config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": EOS,
        "eos_token": EOS,
        "pad_token": EOS,
        "unk_token": UNK,
        "model_max_length": LONGEST_TEXT,
        "clean_up_tokenization_spaces": false,
    });
    let weights = model.folder.join(WEIGHTS);
    let bytes = files::read(&weights, u64::MAX)?;
    new_folder::create(out, |partial| {
        let write = |name: &str, text: &[u8]| atomic::write(partial.join(name), |out| out.write_all(text));
        write(WEIGHTS, &bytes)?;
        write("modeling_bowline.py", MODELING.as_bytes())?;
        for (name, value) in [
            ("config.json", config),
            ("generation_config.json", generation),
            ("tokenizer_config.json", tokenizer_config),
            ("tokenizer.json", tokenizer(vocabulary, model.tokenize)),
        ] {
            write(name, format!("{value:#}\n").as_bytes())?;
        }
        Ok(())
    })?;
    let mut notes = Vec::new();
    if model.tokenize {
        notes.push(
            "the tokenizer of the folder lower-cases and splits at white space, and does not split off punctuation: \
             give it texts that are tokenised already"
                .to_owned(),
        );
    }
    Ok(Exported { bytes: bytes.len() as u64, notes })
}

/// `tokenizer.json` of the crate `tokenizers`.
fn tokenizer(vocabulary: &Vocabulary, lower: bool) -> Value {
    let ids: Map<String, Value> =
        vocabulary.words().enumerate().map(|(id, word)| (word.to_owned(), json!(id))).collect();
    let special = |word: &str, id: u32| {
        json!({
            "id": id, "content": word, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        })
    };
    let mut added = vec![special(EOS, vocabulary.eos())];
    added.extend(vocabulary.unk().map(|id| special(UNK, id)));
    added.sort_by_key(|token| token["id"].as_u64());
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": if lower { json!({"type": "Lowercase"}) } else { Value::Null },
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": UNK},
    })
}
