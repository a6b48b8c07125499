//! What the folder holds. That transformers, minicons and lm-eval read it is shown by `docs/interop/huggingface_check.py`.

use super::*;
use bowline::model_folder::{Contents, ModelCard, ModelFolder};
use bowline::params::Params;
use bowline::spec::ModelSpec;
use std::fs;

const WORDS: &str = "the\n<eos>\ncat\n<unk>\nsat\n";

fn saved(spec: &ModelSpec, model: &str, tokenize: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let metadata = vec![("tokenize".to_owned(), tokenize.to_string())];
    let (params, card) = (Params::zeros(spec), ModelCard::default());
    let contents = Contents { model, params: &params, vocabulary: WORDS, metadata, card: &card };
    ModelFolder::save(dir.path().join("model"), &contents).unwrap();
    dir
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_folder_has_all_that_transformers_need() {
    for (tied, model) in [(true, "real"), (false, "vd-lstm")] {
        let dir = saved(&ModelSpec::paper(5, 3, 2, tied), model, false);
        let out = dir.path().join("out");
        let exported = export(&dir.path().join("model"), &out).unwrap();
        assert!(exported.notes.is_empty());
        assert_eq!(fs::read(out.join(WEIGHTS)).unwrap(), fs::read(dir.path().join("model").join(WEIGHTS)).unwrap());
        let config = read(&out.join("config.json"));
        assert_eq!(config["tie_word_embeddings"], tied);
        assert_eq!((&config["vocab_size"], &config["hidden_size"]), (&json!(5), &json!(3)));
        assert_eq!(config["eos_token_id"], 1);
        for class in config["auto_map"].as_object().unwrap().values() {
            let class = class.as_str().unwrap().strip_prefix("modeling_bowline.").unwrap();
            assert!(MODELING.contains(&format!("class {class}(")), "{class}");
        }
        let tokenizer = read(&out.join("tokenizer.json"));
        assert_eq!(tokenizer["model"]["vocab"], json!({"the": 0, "<eos>": 1, "cat": 2, "<unk>": 3, "sat": 4}));
        let added: Vec<_> = tokenizer["added_tokens"].as_array().unwrap().iter().map(|t| &t["content"]).collect();
        assert_eq!(added, ["<eos>", "<unk>"]);
        assert!(export(&dir.path().join("model"), &out).is_err(), "the folder is not empty");
    }
}

#[test]
fn what_cannot_be_written_is_said() {
    let mut spec = ModelSpec::paper(5, 3, 1, true);
    spec.layers[0].unit = bowline::spec::Unit::Gru;
    let dir = saved(&spec, "gru", false);
    let error = export(&dir.path().join("model"), &dir.path().join("out")).err().unwrap().to_string();
    assert!(error.contains("only networks of equal LSTM layers"), "{error}");
    assert!(!dir.path().join("out").exists());
}

#[test]
fn a_tokenizer_that_splits_less_than_ours_is_said() {
    let dir = saved(&ModelSpec::paper(5, 3, 1, true), "real", true);
    let exported = export(&dir.path().join("model"), &dir.path().join("out")).unwrap();
    assert!(exported.notes[0].contains("does not split off punctuation"));
    assert_eq!(read(&dir.path().join("out/tokenizer.json"))["normalizer"]["type"], "Lowercase");
}
