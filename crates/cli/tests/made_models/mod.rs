//! Models whose probabilities are known without computing: all weights are zero, so that every state is zero and the
//! next word depends on the classifier's bias alone.

// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use bowline::model_folder::{Contents, ModelCard, ModelFolder};
use bowline::params::Params;
use bowline::spec::ModelSpec;
use std::path::{Path, PathBuf};

/// Writes a model in which each word has the given probability, whatever came before.
pub fn fixed(dir: &Path, words: &[(&str, f64)]) -> PathBuf {
    let mut params = Params::zeros(&ModelSpec::paper(words.len(), 4, 1, false));
    let bias = params.classifier_bias_mut();
    for (bias, (_, p)) in bias.unwrap().iter_mut().zip(words) {
        *bias = p.ln() as f32;
    }
    save(dir, "vd-lstm", &params, words.iter().map(|(word, _)| *word))
}

/// Writes a model of eight words that are equally likely, in exact arithmetic: `e^0 = 1`, and `log 8` is all there is.
pub fn uniform(dir: &Path) -> PathBuf {
    let params = Params::zeros(&ModelSpec::paper(8, 4, 2, true));
    save(dir, "re", &params, ["<eos>", "<unk>", "the", "cat", "sat", "on", "a", "mat"])
}

/// `<eos>` 1/2, `the` 1/4, `cat` 1/8, `<unk>` 1/8.
pub fn biased(dir: &Path) -> PathBuf {
    fixed(dir, &[("<eos>", 0.5), ("the", 0.25), ("cat", 0.125), ("<unk>", 0.125)])
}

pub fn save<'a>(dir: &Path, model: &str, params: &Params, words: impl IntoIterator<Item = &'a str>) -> PathBuf {
    let vocabulary: String = words.into_iter().map(|word| format!("{word}\n")).collect();
    let card = ModelCard { title: "Made by hand".to_owned(), ..ModelCard::default() };
    let contents = Contents { model, params, vocabulary: &vocabulary, metadata: Vec::new(), card: &card };
    ModelFolder::save(dir, &contents).unwrap();
    dir.to_owned()
}
