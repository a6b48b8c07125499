//! Well-formed examples of every format, small, so that a mutation hits something.

use bowline::config::{ModelKind, Size, preset};
use bowline::corpus::{Corpus, CorpusOptions, IdsIn};
use bowline::loaded_model::LoadedModel;
use bowline::model_folder::{Contents, ModelCard, ModelFolder};
use bowline::params::Params;
use bowline::predictor::{CacheSettings, NeuralSettings, Perplexities, Shipped, Way};
use bowline::recipes::Recipe;
use bowline::rng::{Purpose, Stream, unit};
use bowline::run::Position;
use bowline::spec::ModelSpec;
use bowline::storage::tensor_file::TensorFileWriter;
use bowline::vocabulary::Vocabulary;
use bowline_interop::onnx;
use std::io::Write;
use std::path::Path;

const VOCABULARY: &str = "<eos>\n<unk>\na\n";

fn bytes<const N: usize>(texts: [&str; N]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn params(vocab: usize, hidden: usize) -> Params {
    let mut params = Params::zeros(&ModelSpec::paper(vocab, hidden, 1, true));
    Stream::new(1, Purpose::Weights, 0).fill(params.data_mut(), |r| unit(r) - 0.5);
    params
}

/// Writes a small model.
pub fn model(dir: &Path) {
    let card = ModelCard { title: "A seed".to_owned(), ..ModelCard::default() };
    let params = params(3, 2);
    let contents = Contents { model: "re", params: &params, vocabulary: VOCABULARY, metadata: Vec::new(), card: &card };
    ModelFolder::save(dir, &contents).expect("a small model can be written");
}

/// A small model to be served.
pub fn served_model() -> LoadedModel {
    let text = "<eos>\n<unk>\nthe\ncat\nsat\non\n";
    let vocabulary = Vocabulary::from_text(Path::new("vocab.txt"), text.as_bytes()).expect("these are words");
    let params = params(vocabulary.len(), 4);
    LoadedModel::network("seed", "re", params, vocabulary)
}

/// A file of `names` with and without a hash.
fn tensors(tensors: &[(&str, &[usize])], metadata: &[(&str, &str)]) -> Vec<Vec<u8>> {
    let values = [0.25; 64];
    let mut file = TensorFileWriter::new();
    for (key, value) in metadata {
        file.metadata(*key, value);
    }
    for (name, shape) in tensors {
        file.tensor(*name, shape, &values[..shape.iter().product()]);
    }
    let hashed = file.to_bytes("seed").expect("the values are finite");
    // Another tool's file has no hash: a mutation of it gets further.
    let length = u64::from_le_bytes(hashed[..8].try_into().expect("there are eight bytes")) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&hashed[8..8 + length]).expect("it is JSON");
    if let Some(metadata) = header["__metadata__"].as_object_mut() {
        metadata.retain(|key, _| !key.contains("sha256"));
    }
    let text = header.to_string();
    let plain = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &hashed[8 + length..]].concat();
    vec![plain, hashed]
}

/// See [`crate::targets::tensor_file`].
pub fn tensor_file() -> Vec<Vec<u8>> {
    let mut all = tensors(&[("a", &[2, 3]), ("b", &[4]), ("c.weight", &[1, 2, 3])], &[("format", "pt")]);
    all.push([&8u64.to_le_bytes()[..], b"{}      "].concat());
    all
}

/// See [`crate::targets::config`].
pub fn config() -> Vec<Vec<u8>> {
    let text = |model| preset(Size::ALL[0], model, "demo").to_toml().expect("settings can be written").into_bytes();
    ModelKind::ALL.iter().map(|&model| text(model)).collect()
}

/// See [`crate::targets::setting`].
pub fn setting() -> Vec<Vec<u8>> {
    bytes([
        "hidden=24\nbatch=4",
        "learning_rate=0.5",
        "augment.tau=2.0\nmodel=real",
        "data.source=demo",
        "keep = 1",
        "90s",
        "1.5h",
    ])
}

/// See [`crate::targets::recipe`].
pub fn recipe() -> Vec<Vec<u8>> {
    let texts = ["vd-lstm", "real", "rhn", "narrow"].map(|name| Recipe::find(name).expect("it is there").text);
    texts.into_iter().map(String::into_bytes).collect()
}

/// See [`crate::targets::predictor`].
pub fn predictor() -> Vec<Vec<u8>> {
    let cache = Some(CacheSettings { window: 500, theta: 0.5, lambda: 0.1 });
    let text = Way { settings: NeuralSettings { cache, ..NeuralSettings::default() }, ngrams: 0.25 };
    let phrase = Way { settings: NeuralSettings::default(), ngrams: 0.0 };
    let perplexity = Perplexities { plain: [90.5, 88.0], ngrams: [150.0, 140.5], full: [80.25, 79.0] };
    let shipped = Shipped::new(served_model().mark(), text, phrase, perplexity);
    vec![serde_json::to_vec_pretty(&shipped).expect("it can be written")]
}

/// See [`crate::targets::model_config`].
pub fn model_config() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a folder can be made");
    model(dir.path());
    let text = std::fs::read(dir.path().join("config.json")).expect("it was written");
    vec![text, br#"{"format":"bowline","version":1,"model":"kn","vocab_size":3,"order":2}"#.to_vec()]
}

/// See [`crate::targets::tuned`].
pub fn tuned() -> Vec<Vec<u8>> {
    bytes([
        r#"{"version":1,"model":"abc","temperature":1.1,"cache":{"window":500,"theta":0.5,"lambda":0.1}}"#,
        r#"{"version":1,"model":"x","dynamic":{"form":"sgd","segment":5,"rate":0.1,"decay":0.01,"epsilon":0.001}}"#,
        r#"{"version":1,"model":"x","mc_keep":0.8,"recency":{"lambda":0.1,"decay":0.99},"mixtures":[]}"#,
    ])
}

/// See [`crate::targets::vocabulary`].
pub fn vocabulary() -> Vec<Vec<u8>> {
    bytes([VOCABULARY, "the\n<unk>\n<eos>\ncat\ncaf\u{e9}\n", "<eos>\n", "<blk> 0\n<sos/eos> 1\nA 2\n"])
}

/// See [`crate::targets::checkpoint`].
pub fn checkpoint() -> Vec<Vec<u8>> {
    let position = Position { epoch: 2, first_epoch: 1, step: 7, ..Position::default() };
    let text = serde_json::to_string(&position).expect("a position can be written");
    let config = String::from_utf8(config().swap_remove(0)).expect("settings are text");
    let metadata = [("bowline.position", text.as_str()), ("bowline.config", config.as_str())];
    let mut all = tensors(&[("encoder.weight", &[3, 2]), ("state.h_l0", &[4, 2])], &metadata);
    all.push(text.into_bytes());
    all
}

/// See [`crate::targets::events`].
pub fn events() -> Vec<Vec<u8>> {
    bytes([
        concat!(
            r#"{"event":"start","time":1,"version":"0.1.0","model":"re","data":"demo","data_sha256":"00","vocab":9,"#,
            r#""words":[9,8,7],"unseen":[0,0],"parameters":5,"epochs":2,"steps_per_epoch":3,"memory":9,"machine":"x"}"#,
            "\n",
            r#"{"event":"progress","epoch":1,"step":1,"epoch_step":1,"epoch_steps":3,"loss":5.5,"perplexity":200.5,"#,
            r#""kl":0.0,"learning_rate":1.0,"gradient_norm":2.5,"words_per_second":9.5,"eta_seconds":3.5}"#,
            "\n",
            r#"{"event":"epoch","epoch":1,"step":3,"loss":5.0,"train":150.5,"kl":0.0,"valid":140.5,"best":true,"#,
            r#""learning_rate":1.0,"seconds":2.5}"#,
            "\n"
        ),
        "{\"event\":\"resume\",\"time\":3,\"step\":3,\"epoch\":2}\n{\"event\":\"second_training\",\"epoch\":2}\n",
        "{\"event\":\"end\",\"time\":2,\"reason\":\"done\",\"best_epoch\":1,\"valid\":3.5,\"test\":null}\n",
    ])
}

/// See [`crate::targets::arpa`].
pub fn arpa() -> Vec<Vec<u8>> {
    let text = "\\data\\\nngram 1=4\nngram 2=3\n\n\\1-grams:\n-0.9\t<s>\t-0.3\n-0.6\t</s>\n-0.5\ta\t-0.2\n-1.1\t<unk>\n\n\
                \\2-grams:\n-0.3\t<s> a\n-0.4\ta a\n-0.2\ta </s>\n\n\\end\\\n";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).expect("memory can be written");
    vec![text.into(), text.replace('\t', " ").into(), packed.finish().expect("memory can be written")]
}

/// See [`crate::targets::ngram`].
pub fn ngram() -> Vec<Vec<u8>> {
    let model = [0.4, 0.1, 0.3, 0.2, 0.5, 0.5, 0.5, 1.0, 2.0, 0.0, 1.0, 0.0, 2.0, 3.0, 0.0, 0.6, 0.3, 0.7];
    let one = [0.25, 0.25, 0.25, 0.25, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    [&model[..], &one[..]].iter().map(|values| values.iter().flat_map(|x: &f32| x.to_le_bytes()).collect()).collect()
}

/// See [`crate::targets::nbest`].
pub fn nbest() -> Vec<Vec<u8>> {
    bytes(["utt-a-1 the cat\nutt-a-2 cat\nutt-b-1\n", "utt-a-1 12.5\nutt-a-2 -3e2\n", "utt_1-1 The Cat, sat!\r\n"])
}

/// See [`crate::targets::corpus`].
pub fn corpus() -> Vec<Vec<u8>> {
    let text =
        "the cat sat on the mat .\na dog ran <unk> fast\n\nDon't \u{201c}quote\u{201d} me, e.g. $3.50 -- O'Neil's!\n";
    vec![text.into(), text.repeat(12).into(), "x\u{a0}y\u{2028}z\u{feff}\n".into()]
}

/// A corpus in a folder, whose training text stays in its file.
pub fn corpus_in_a_file(dir: &Path) -> Corpus {
    std::fs::create_dir_all(dir).expect("a folder can be made");
    for name in ["train.txt", "valid.txt", "test.txt"] {
        let path = dir.join(name);
        if !path.is_file() {
            std::fs::write(path, "a b\nb c a\n").expect("a text can be written");
        }
    }
    let options = CorpusOptions { ids: IdsIn::File, ..CorpusOptions::default() };
    Corpus::from_dir(dir, options).expect("it is a corpus")
}

/// See [`crate::targets::ids`].
pub fn ids() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let path = dir.path().join("train.ids");
    corpus_in_a_file(dir.path()).keep_ids(&path).expect("the ids can be written");
    vec![std::fs::read(&path).expect("they can be read")]
}

/// See [`crate::targets::import`].
pub fn import() -> Vec<Vec<u8>> {
    let layer: [(&str, &[usize]); 4] = [
        ("rnn.weight_ih_l0", &[8, 2]),
        ("rnn.weight_hh_l0", &[8, 2]),
        ("rnn.bias_ih_l0", &[8]),
        ("rnn.bias_hh_l0", &[8]),
    ];
    let mut all = tensors(&[&[("encoder.weight", &[3usize, 2][..])], &layer[..]].concat(), &[]);
    let untied: [(&str, &[usize]); 3] =
        [("encoder.weight", &[3, 2]), ("decoder.weight", &[3, 2]), ("decoder.bias", &[3])];
    all.extend(tensors(&[&untied[..], &layer[..]].concat(), &[("epoch", "3")]));
    all
}

/// See [`crate::targets::onnx`].
pub fn onnx() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a folder can be made");
    model(dir.path());
    let export = |form| {
        let out = dir.path().join("model.onnx");
        onnx::export(dir.path(), form, &out).expect("a small model can be exported");
        std::fs::read(out).expect("it was written")
    };
    vec![export(onnx::Form::Step), export(onnx::Form::Sequence)]
}

/// See [`crate::targets::http`].
pub fn http() -> Vec<Vec<u8>> {
    bytes([
        "\0{\"prompt\":\"the cat\",\"max_tokens\":3,\"n\":2,\"echo\":true,\"logprobs\":2,\"seed\":1}",
        "\0{\"prompt\":[[1,2],[3]],\"max_tokens\":2,\"stop\":[\"a\",\"b c\"],\"temperature\":0.5,\"top_p\":0.9,\"top_k\":3}",
        "\0{\"prompt\":[\"the\",\"cat\"],\"max_tokens\":1,\"model\":\"seed\",\"best_of\":1,\"suffix\":null}",
        "\u{1}{\"text\":\"the cat\",\"k\":5}",
        "\u{2}{\"text\":\"the cat\\nsat\",\"top\":2,\"carry\":true}",
        "\u{3}{\"word\":\"cat\",\"k\":2}",
        "\u{4}{\"text\":\"the\",\"words\":4,\"temperature\":1.5,\"seed\":7,\"unk\":true}",
        "\u{5}{\"prompt\":\"The cat sat.\"}",
        "\u{6}{\"tokens\":[1,2,3]}",
    ])
}
