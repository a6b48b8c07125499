//! Language models of speech toolkits, known by the names of their tensors.
//!
//! | | word vectors | layers | classifier | sentences |
//! |---|---|---|---|---|
//! | icefall's `RnnLmModel` | `input_embedding` | `rnn` | `output_linear` | begin and end with `<sos/eos>` |
//! | ESPnet's `SequentialRNNLM` | `lm.encoder` | `lm.rnn` | `lm.decoder`, with a bias | the same, and it is the last token |
//!
//! Names that are given stand for themselves: then nothing is looked for here.

use std::path::Path;

use super::{DECODER, DECODER_BIAS, ENCODER, Names, Source};
use bowline::error::{Error, Result};
use bowline::storage::tensor_file::TensorFile;
use bowline::vocabulary::{EOS, Vocabulary};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toolkit {
    Icefall,
    Espnet,
}

impl Toolkit {
    /// Whose file it is, if one of these. Of a tied matrix either name may be missing.
    pub(super) fn of(file: &TensorFile) -> Option<Toolkit> {
        [Toolkit::Icefall, Toolkit::Espnet].into_iter().find(|toolkit| {
            let names = toolkit.names();
            let has = |ours: &str| file.shape(&names.theirs(ours)).is_some();
            (has(ENCODER) || has(DECODER)) && has("rnn.weight_ih_l0")
        })
    }

    pub(super) fn names(self) -> Names {
        let pair = |(ours, theirs): (&str, &str)| (ours.to_owned(), theirs.to_owned());
        let modules = [("encoder", "input_embedding"), ("decoder", "output_linear")];
        match self {
            Toolkit::Icefall => Names { prefix: String::new(), map: modules.map(pair).into() },
            Toolkit::Espnet => Names { prefix: "lm.".to_owned(), ..Names::default() },
        }
    }

    /// What a person should know.
    pub(super) fn note(self) -> String {
        let whose = match self {
            Toolkit::Icefall => "icefall's RnnLmModel",
            Toolkit::Espnet => "ESPnet's SequentialRNNLM",
        };
        format!("the names in the file are those of {whose}")
    }

    /// Checks what is true of all such models, of the weights and of the words in the file `path`.
    pub(super) fn check(self, source: &Source<'_>, words: &Vocabulary, path: &Path) -> Result<()> {
        if self == Toolkit::Icefall {
            return Ok(());
        }
        if source.shape(DECODER_BIAS).is_none() {
            let problem = "it is missing, and a SequentialRNNLM of ESPnet always has it";
            return Err(source.wrong(DECODER_BIAS, problem, "--prefix lm. if it is another model of such names"));
        }
        let (eos, last) = (words.eos() as usize, words.len() - 1);
        if eos != last {
            let problem = format!("`{EOS}` (or `<sos/eos>`) has the id {eos}, but ESPnet's is the last one, {last}");
            let advice = "the `token_list` of the model's config.yaml, one token per line";
            return Err(Error::corpus_line(path, eos + 1, problem, advice));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Imported, Request, import};
    use super::*;
    use bowline::loaded_model::LoadedModel;
    use bowline::spec::Activation;
    use bowline_kernels::{Isa, Team};
    use serde_json::Value;
    use std::path::PathBuf;
    use std::sync::Arc;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/import/fixtures").join(name)
    }

    fn imported(weights: &Path, vocabulary: &Path, names: Names, out: &Path) -> Result<Imported> {
        let request = Request {
            weights,
            vocabulary,
            names,
            model: None,
            activation: Activation::Tanh,
            projection_activation: Activation::Linear,
            tokenize: false,
        };
        import(&request, out)
    }

    #[test]
    fn models_of_toolkits_predict_as_they_did() {
        let expected: Value = serde_json::from_slice(&std::fs::read(fixture("expected.json")).unwrap()).unwrap();
        let team = Arc::new(Team::new(1));
        let mut seen = 0;
        for (name, expected) in expected.as_object().unwrap() {
            let dir = tempfile::tempdir().unwrap();
            let espnet = name.starts_with("espnet");
            let list = fixture(if espnet { "token_list.txt" } else { "tokens.txt" });
            let out = dir.path().join("out");
            let weights = fixture(&format!("{name}.safetensors"));
            let imported = imported(&weights, &list, Names::default(), &out).unwrap();
            let whose = if espnet { "ESPnet's SequentialRNNLM" } else { "icefall's RnnLmModel" };
            assert!(imported.notes[0].ends_with(whose), "{:?}", imported.notes);
            let model = LoadedModel::load(&out).unwrap();
            assert_eq!(model.vocabulary.eos(), if espnet { 6 } else { 1 });
            let words: Vec<u32> = serde_json::from_value(expected["words"].clone()).unwrap();
            for t in 0..=words.len() {
                let ours = model.distribution(&team, Isa::detect(), &words[..t]).unwrap();
                for (v, p) in ours.iter().enumerate() {
                    let theirs = expected["log_probabilities"][t][v].as_f64().unwrap();
                    let ours = f64::from(*p).ln();
                    assert!((ours - theirs).abs() < 1e-5, "{name}: word {v} after {t}: {ours} {theirs}");
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 5 * 7 * 7);
    }

    #[test]
    fn the_words_must_be_those_of_the_toolkit() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let (weights, list) = (fixture("espnet.safetensors"), fixture("tokens.txt"));
        let message = imported(&weights, &list, Names::default(), &out).unwrap_err().to_string();
        let problem = "tokens.txt:2: `<eos>` (or `<sos/eos>`) has the id 1, but ESPnet's is the last one, 6\n";
        assert!(message.contains(problem) && !out.exists(), "{message}");

        let list = dir.path().join("list");
        for (text, problem) in [
            ("<blank>\n<unk>\nA\nB\nC\nB\n<sos/eos>\n", "list:6: the word `B` is there twice, first on line 4\n"),
            ("<blank> 0\n<unk> 1\nA 3\n", "list:3: the id of `A` is 3, but the next one is 2\n"),
            ("<blank>\n<sos/eos>\n", "list: there are 2 words (one per line), but `lm.encoder.weight` is [7, 6]\n"),
            ("<blank>\nA\n", "list: the word `<eos>` is missing, and so are `<sos/eos>` and `</s>`\n"),
        ] {
            std::fs::write(&list, text).unwrap();
            let message = imported(&weights, &list, Names::default(), &out).unwrap_err().to_string();
            assert!(message.contains(problem) && !out.exists(), "{message}");
        }
    }

    #[test]
    fn names_that_are_given_stand_for_themselves() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new("lm.", &[]).unwrap();
        let (weights, list) = (fixture("espnet.safetensors"), fixture("tokens.txt"));
        let imported = imported(&weights, &list, names, &dir.path().join("out")).unwrap();
        assert_eq!(imported.notes, Vec::<String>::new());
    }
}
