//! One test per way in which a model folder can be wrong, with the whole message.

use super::*;
use crate::spec::ModelSpec;
use std::fs;

const VOCABULARY_TEXT: &str = "<eos>\n<unk>\nthe\ncaf\u{e9}\n";
const ADVICE: &str = "\n  try: the model folder is damaged or incomplete: copy all of its files again";
const RESTORE: &str = "\n  try: restore the `config.json` that was saved with this model";
const OTHER: &str = "\n  try: use a file of the same model, or the sizes that belong to this file";

fn card() -> ModelCard {
    ModelCard {
        title: "VD-LSTM+REAL, small, on PTB".into(),
        data_name: "ptb".into(),
        data_sha256: "ab".repeat(32),
        recipe: vec![("learning_rate".into(), "1".into()), ("augment.gradient".into(), "flow".into())],
        seed: 7,
        epoch: 12,
        valid: Some(81.254),
        test: None,
        example: "the caf\u{e9}".into(),
        origin: None,
    }
}

/// Weights that are all different, with a negative zero in each tensor.
fn params(tied: bool, first: f32) -> Params {
    let mut params = Params::zeros(&ModelSpec::paper(4, 3, 2, tied));
    for (i, x) in params.data_mut().iter_mut().enumerate() {
        *x = (first + i as f32) / 7.0;
    }
    for start in params.tensors().iter().map(|tensor| tensor.offset).collect::<Vec<_>>() {
        params.data_mut()[start + 1] = -0.0;
    }
    params
}

fn save(dir: &Path, params: &Params) -> Result<String> {
    let model = if params.spec().output.tied { "real" } else { "vd-lstm" };
    let metadata = vec![("epoch".to_owned(), "12".to_owned()), ("valid".to_owned(), "81.254".to_owned())];
    ModelFolder::save(dir, &Contents { model, params, vocabulary: VOCABULARY_TEXT, metadata, card: &card() })
}

fn bits(params: &Params) -> Vec<u32> {
    params.data().iter().map(|x| x.to_bits()).collect()
}

fn message(error: &Error, dir: &Path) -> String {
    error.to_string().replace(dir.to_str().unwrap(), "DIR")
}

/// Saves a tied model, lets one file be changed, and gives what loading then says.
#[track_caller]
fn after(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &params(true, 1.0)).unwrap();
    let path = dir.path().join(name);
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    message(&ModelFolder::load(dir.path()).unwrap_err(), dir.path())
}

#[track_caller]
fn after_replacing(name: &str, from: &str, to: &str) -> String {
    after(name, |bytes| {
        let text = String::from_utf8(std::mem::take(bytes)).unwrap();
        assert!(text.contains(from), "{text}");
        *bytes = text.replace(from, to).into_bytes();
    })
}

/// Saves the weights by hand, with other tensors than they should be.
fn after_writing(change: impl FnOnce(&mut TensorFileWriter<'_>)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let params = params(true, 1.0);
    save(dir.path(), &params).unwrap();
    let mut file = TensorFileWriter::new();
    file.metadata(VOCABULARY_HASH_KEY, sha256(VOCABULARY_TEXT.as_bytes()));
    change(&mut file);
    file.save(dir.path().join(WEIGHTS)).unwrap();
    message(&ModelFolder::load(dir.path()).unwrap_err(), dir.path())
}

/// The tensors of the sample model with zeros for values.
fn zeros<'a>(file: &mut TensorFileWriter<'a>, leave_out: &[&str]) {
    const ZEROS: [f32; 100] = [0.0; 100];
    for tensor in params(true, 1.0).tensors() {
        let (first, second) = stored_names(tensor);
        for name in [Some(first), second].into_iter().flatten().filter(|name| !leave_out.contains(&name.as_str())) {
            let shape = tensor.shape.clone();
            file.tensor(name, &shape, &ZEROS[..tensor.len()]);
        }
    }
}

#[test]
fn what_is_saved_is_loaded_bit_for_bit() {
    for tied in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("run/best");
        let saved = params(tied, 1.0);
        let hash = save(&dir, &saved).unwrap();
        let loaded = ModelFolder::load(&dir).unwrap();
        assert_eq!(loaded.params.spec(), saved.spec());
        assert_eq!(bits(&loaded.params), bits(&saved));
        assert_eq!(loaded.model, if tied { "real" } else { "vd-lstm" });
        assert_eq!(loaded.vocabulary, VOCABULARY_TEXT);
        let pairs: Vec<_> = loaded.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("bowline.sha256", hash.as_str()),
                ("bowline.vocabulary_sha256", &sha256(VOCABULARY_TEXT.as_bytes())),
                ("epoch", "12"),
                ("format", "pt"),
                ("valid", "81.254")
            ]
        );
        let mut files: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, [CARD, CONFIG, WEIGHTS, VOCABULARY]);
    }
}

#[test]
fn the_names_are_pytorch_s() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &params(false, 1.0)).unwrap();
    let file = TensorFile::read(dir.path().join(WEIGHTS), ContentHash::Required).unwrap();
    let names: Vec<_> = file.names().map(|name| format!("{name} {:?}", file.shape(name).unwrap())).collect();
    assert_eq!(
        names,
        [
            "encoder.weight [4, 3]",
            "rnn.weight_ih_l0 [12, 3]",
            "rnn.weight_hh_l0 [12, 3]",
            "rnn.bias_ih_l0 [12]",
            "rnn.bias_hh_l0 [12]",
            "rnn.weight_ih_l1 [12, 3]",
            "rnn.weight_hh_l1 [12, 3]",
            "rnn.bias_ih_l1 [12]",
            "rnn.bias_hh_l1 [12]",
            "decoder.weight [4, 3]",
            "decoder.bias [4]",
        ]
    );
    let mut second = [1.0; 12];
    file.copy_to("rnn.bias_hh_l1", &mut second).unwrap();
    assert_eq!(second, [0.0; 12]);
}

/// A folder with the weights that `from_pytorch.py` made: no hash, another order, and both biases in use.
fn from_pytorch(weights: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let spec = ModelSpec::paper(3, 2, 1, false);
    let config = Config { model: "vd-lstm".into(), spec };
    fs::write(dir.path().join(CONFIG), config.to_json()).unwrap();
    fs::write(dir.path().join(VOCABULARY), "a\nb\nc\n").unwrap();
    fs::write(dir.path().join(WEIGHTS), weights).unwrap();
    dir
}

#[test]
fn a_weight_that_is_not_a_number() {
    let mut weights = include_bytes!("from_pytorch.safetensors").to_vec();
    let at = weights.len() - 4;
    weights[at..].copy_from_slice(&f32::NAN.to_le_bytes());
    let dir = from_pytorch(&weights);
    assert_eq!(
        message(&ModelFolder::load_with(dir.path(), ContentHash::IfPresent).unwrap_err(), dir.path()),
        "DIR/model.safetensors: tensor `rnn.weight_ih_l0`: the value at [7, 1] is NaN\n  \
         try: use a model from before its weights stopped being numbers"
    );
}

#[test]
fn a_model_that_pytorch_saved_is_read_when_the_caller_says_so() {
    let dir = from_pytorch(include_bytes!("from_pytorch.safetensors"));
    assert_eq!(
        message(&ModelFolder::load(dir.path()).unwrap_err(), dir.path()),
        "DIR/model.safetensors: metadata `bowline.sha256`: the content hash is missing, so the contents cannot be \
         checked\n  try: use the file as Bowline wrote it; other tools drop the hash when they save a file"
    );
    let params = ModelFolder::load_with(dir.path(), ContentHash::IfPresent).unwrap().params;
    assert_eq!(params.embedding(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    assert_eq!(params.layer(0).w_ih[..3], [100.0, 100.25, 100.5]);
    assert_eq!(params.layer(0).w_hh[..3], [200.0, 200.25, 200.5]);
    assert_eq!(params.layer(0).bias, [700.0, 700.5, 701.0, 701.5, 702.0, 702.5, 703.0, 703.5]);
    assert_eq!(params.classifier()[..3], [500.0, 500.25, 500.5]);
    assert_eq!(params.classifier_bias().unwrap(), [600.0, 600.25, 600.5]);
}

/// A kill between two files leaves some old and some new: all sixteen mixtures load, with the weights that are there.
#[test]
fn every_mixture_of_old_and_new_files_loads() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let weights = [params(true, 1.0), params(true, 50.0)];
    save(old.path(), &weights[0]).unwrap();
    save(new.path(), &weights[1]).unwrap();
    for mixture in 0..16 {
        let dir = tempfile::tempdir().unwrap();
        let from = |i: usize| if mixture >> i & 1 == 0 { old.path() } else { new.path() };
        for (i, name) in [WEIGHTS, CONFIG, VOCABULARY, CARD].iter().enumerate() {
            fs::copy(from(i).join(name), dir.path().join(name)).unwrap();
        }
        let loaded = ModelFolder::load(dir.path()).unwrap();
        assert_eq!(bits(&loaded.params), bits(&weights[mixture & 1]), "{mixture}");
    }
}

#[test]
fn saving_again_changes_the_weights_and_leaves_the_rest_alone() {
    let dir = tempfile::tempdir().unwrap();
    let first = save(dir.path(), &params(true, 1.0)).unwrap();
    let times = || [CONFIG, VOCABULARY].map(|name| fs::metadata(dir.path().join(name)).unwrap().modified().unwrap());
    let before = times();
    let second = save(dir.path(), &params(true, 2.0)).unwrap();
    assert_ne!(first, second);
    assert_eq!(times(), before);
    assert_eq!(bits(&ModelFolder::load(dir.path()).unwrap().params), bits(&params(true, 2.0)));
}

#[test]
fn a_missing_file() {
    for name in [CONFIG, VOCABULARY, WEIGHTS] {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &params(true, 1.0)).unwrap();
        fs::remove_file(dir.path().join(name)).unwrap();
        let error = ModelFolder::load(dir.path()).unwrap_err();
        assert_eq!(message(&error, dir.path()), format!("DIR: {name}: this file is missing{ADVICE}"));
    }
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &params(true, 1.0)).unwrap();
    fs::remove_file(dir.path().join(CARD)).unwrap();
    ModelFolder::load(dir.path()).unwrap();
}

#[test]
fn vocabularies_that_are_wrong() {
    assert_eq!(after(VOCABULARY, |bytes| bytes[12] = 0xff), format!("DIR/vocab.txt:3: this line is not UTF-8{ADVICE}"));
    assert_eq!(
        after(VOCABULARY, |bytes| bytes.truncate(bytes.len() - 2)),
        format!("DIR/vocab.txt:4: this line is not UTF-8{ADVICE}")
    );
    assert_eq!(
        after(VOCABULARY, |bytes| bytes.truncate(bytes.len() - 1)),
        format!(
            "DIR/vocab.txt:4: the last line does not end in a newline, as if the end of the file were missing{ADVICE}"
        )
    );
    assert_eq!(
        after_replacing(VOCABULARY, "the\n", ""),
        format!("DIR/vocab.txt: there are 3 words (one per line), but 4 word vectors{ADVICE}")
    );
    assert_eq!(
        after_replacing(VOCABULARY, "the\n", "the\nan\n"),
        format!("DIR/vocab.txt: there are 5 words (one per line), but 4 word vectors{ADVICE}")
    );
    assert_eq!(
        after(VOCABULARY, |bytes| bytes.clear()),
        format!("DIR/vocab.txt: there are 0 words (one per line), but 4 word vectors{ADVICE}")
    );
    let other = VOCABULARY_TEXT.replace("the", "she");
    assert_eq!(
        after_replacing(VOCABULARY, "the", "she"),
        format!(
            "DIR/vocab.txt: content hash: the words have the SHA-256 {}, the weights belong to {}{ADVICE}",
            sha256(other.as_bytes()),
            sha256(VOCABULARY_TEXT.as_bytes())
        )
    );
}

#[test]
fn versions_that_are_unknown() {
    assert_eq!(
        after_replacing(CONFIG, "\"version\": 1", "\"version\": 3, \"heads\": 8"),
        "DIR/config.json: `version`: this model has version 3 of the format, this program reads up to 2\n  \
         try: upgrade Bowline, or use a model that was saved by this version of it"
    );
    assert_eq!(
        after_replacing(CONFIG, "\"version\": 1", "\"version\": 0"),
        format!("DIR/config.json: `version`: 0 is not between 1 and 18446744073709551615{RESTORE}")
    );
    assert_eq!(
        after_replacing(CONFIG, "\"bowline\"", "\"gpt\""),
        format!("DIR/config.json: `format`: it is not `bowline`, so this is not a Bowline model{RESTORE}")
    );
}

#[test]
fn configurations_that_are_no_object() {
    let start = "DIR/config.json: contents: it is damaged: ";
    let whole = |text: &[u8]| {
        let message = after(CONFIG, |bytes| *bytes = text.to_vec());
        message.strip_prefix(start).unwrap().strip_suffix(RESTORE).unwrap().to_owned()
    };
    assert_eq!(whole(b""), "EOF while parsing a value at line 1 column 0");
    assert_eq!(whole(b"[]"), "invalid type: sequence, expected an object, {...} at line 1 column 0");
    assert_eq!(whole(b"{\"a\":1,\"a\":2}"), "the key `a` is there twice at line 1 column 10");
    assert_eq!(whole(b"{\"\xff\":1}"), "invalid unicode code point at line 1 column 3");
    assert_eq!(
        after(CONFIG, |bytes| bytes.resize(70_000, b' ')),
        format!("DIR/config.json: length: the file has more than 65536 bytes{ADVICE}")
    );
}

#[test]
fn keys_that_are_missing_unknown_or_of_another_kind() {
    for key in ["version", "model", "vocab_size", "hidden_size", "num_layers", "tie_word_embeddings", "format"] {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &params(true, 1.0)).unwrap();
        let path = dir.path().join(CONFIG);
        let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config.as_object_mut().unwrap().remove(key).unwrap();
        fs::write(&path, config.to_string()).unwrap();
        assert_eq!(
            message(&ModelFolder::load(dir.path()).unwrap_err(), dir.path()),
            format!("DIR/config.json: `{key}`: it is missing{RESTORE}")
        );
    }
    let cases = [
        ("\"num_layers\"", "\"nlayers\"", "`nlayers`: there is no such key"),
        ("\"ifgo\"", "\"iofc\"", "`gate_order`: `iofc` is not the order this program reads, `ifgo`"),
        ("\"real\"", "\"lstm\"", "`model`: `lstm` is none of `vd-lstm`, `al`, `re`, `real`"),
        ("\"real\"", "\"al\"", "`tie_word_embeddings`: it is true, but it is false in every `al` model"),
        ("\"real\"", "null", "`model`: `null` is not a string"),
        (": true", ": 1", "`tie_word_embeddings`: `1` is not true or false"),
        ("size\": 4", "size\": 4.0", "`vocab_size`: `4.0` is not a whole number"),
        ("size\": 4", "size\": -4", "`vocab_size`: `-4` is not a whole number"),
        ("size\": 4", "size\": 0", "`vocab_size`: 0 is not between 1 and 16777216"),
        ("size\": 3", "size\": 65537", "`hidden_size`: 65537 is not between 1 and 65536"),
        ("layers\": 2", "layers\": 65", "`num_layers`: 65 is not between 1 and 64"),
    ];
    for (from, to, expected) in cases {
        assert_eq!(after_replacing(CONFIG, from, to), format!("DIR/config.json: {expected}{RESTORE}"));
    }
}

#[test]
fn sizes_that_do_not_agree_with_the_weights() {
    assert_eq!(
        after_replacing(CONFIG, "hidden_size\": 3", "hidden_size\": 65536"),
        format!("DIR/model.safetensors: tensor `encoder.weight`: its shape is [4, 3], it should be [4, 65536]{OTHER}")
    );
    assert_eq!(
        after_replacing(CONFIG, "layers\": 2", "layers\": 3"),
        format!("DIR/model.safetensors: tensor `rnn.weight_ih_l2`: it is missing{OTHER}")
    );
    assert_eq!(
        after_replacing(CONFIG, "layers\": 2", "layers\": 1"),
        format!("DIR/model.safetensors: tensor `rnn.weight_ih_l1`: there should be no such tensor{OTHER}")
    );
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &params(true, 1.0)).unwrap();
    let config = fs::read_to_string(dir.path().join(CONFIG)).unwrap();
    fs::write(dir.path().join(CONFIG), config.replace(": true", ": false").replace("real", "al")).unwrap();
    assert_eq!(
        message(&ModelFolder::load(dir.path()).unwrap_err(), dir.path()),
        format!("DIR/model.safetensors: tensor `decoder.weight`: it is missing{OTHER}")
    );
}

#[test]
fn weights_that_are_wrong() {
    assert_eq!(
        after_writing(|file| zeros(file, &["rnn.bias_hh_l1"])),
        format!("DIR/model.safetensors: tensor `rnn.bias_hh_l1`: it is missing{OTHER}")
    );
    assert_eq!(
        after_writing(|file| {
            zeros(file, &[]);
            file.tensor("decoder.weight", &[1], &[0.0]);
        }),
        format!("DIR/model.safetensors: tensor `decoder.weight`: there should be no such tensor{OTHER}")
    );
    assert_eq!(
        after_writing(|file| {
            zeros(file, &["rnn.bias_ih_l0"]);
            file.tensor("rnn.bias_ih_l0", &[1, 12], &[0.0; 12]);
        }),
        format!("DIR/model.safetensors: tensor `rnn.bias_ih_l0`: its shape is [1, 12], it should be [12]{OTHER}")
    );
    assert_eq!(
        after_writing(|file| {
            *file = TensorFileWriter::new();
            zeros(file, &[]);
        }),
        "DIR/model.safetensors: metadata `bowline.vocabulary_sha256`: it is missing\n  \
         try: the file is damaged, incomplete or of another kind: copy it again, or use another one"
    );
    let flipped = after(WEIGHTS, |bytes| {
        let middle = bytes.len() - 200;
        bytes[middle] ^= 0x10;
    });
    let start = "DIR/model.safetensors: content hash: the contents have ";
    assert!(flipped.starts_with(start) && flipped.contains(", the file says "), "{flipped}");
    assert_eq!(
        after(WEIGHTS, |bytes| bytes.truncate(100)),
        "DIR/model.safetensors: header length: 952 bytes do not fit into a file of 100 bytes\n  \
         try: the file is damaged, incomplete or of another kind: copy it again, or use another one"
    );
}

#[test]
fn biases_whose_sum_is_not_finite() {
    const LARGE: [f32; 12] = [0.0, 0.0, f32::MAX, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(
        after_writing(|file| {
            zeros(file, &["rnn.bias_ih_l0", "rnn.bias_hh_l0"]);
            file.tensor("rnn.bias_ih_l0", &[12], &LARGE).tensor("rnn.bias_hh_l0", &[12], &LARGE);
        }),
        "DIR/model.safetensors: tensor `rnn.bias_hh_l0`: the value at [2] added to that of `rnn.bias_ih_l0` is inf\n  \
         try: use a model from before its weights stopped being numbers"
    );
}

#[test]
fn what_could_not_be_loaded_is_not_saved() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &params(true, 1.0)).unwrap();
    let before = fs::read(dir.path().join(WEIGHTS)).unwrap();
    let good = params(true, 1.0);
    let mut broken = good.clone();
    broken.data_mut()[7] = f32::NAN;
    let tried = |model, params, vocabulary| {
        let contents = Contents { model, params, vocabulary, metadata: Vec::new(), card: &card() };
        message(&ModelFolder::save(dir.path(), &contents).unwrap_err(), dir.path())
    };
    assert_eq!(
        tried("real", &broken, VOCABULARY_TEXT),
        "DIR/model.safetensors: tensor `encoder.weight`: the value at [2, 1] is NaN; nothing was written\n  \
         try: go back to weights from before they stopped being numbers, and lower the learning rate"
    );
    assert_eq!(
        tried("vd-lstm", &good, VOCABULARY_TEXT),
        format!(
            "DIR/config.json: `tie_word_embeddings`: it is true, but it is false in every `vd-lstm` model{RESTORE}"
        )
    );
    assert_eq!(
        tried("real", &good, "a\nb\n"),
        format!("DIR/vocab.txt: there are 2 words (one per line), but 4 word vectors{ADVICE}")
    );
    assert_eq!(fs::read(dir.path().join(WEIGHTS)).unwrap(), before);
    assert_eq!(fs::read_to_string(dir.path().join(VOCABULARY)).unwrap(), VOCABULARY_TEXT);
    ModelFolder::load(dir.path()).unwrap();
}

#[test]
fn a_model_argument_is_a_model_or_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let wrong = |path: &Path| message(&resolve(path).unwrap_err(), dir.path());
    let give = "\n  try: give the folder of a run (`--out` of `bowline train`) or of a model";
    assert_eq!(wrong(&run), format!("DIR/run: model: there is no such folder{give}"));
    fs::create_dir(&run).unwrap();
    assert_eq!(
        wrong(&run),
        format!("DIR/run: model: neither `model.safetensors` nor `best/model.safetensors` is in this folder{give}")
    );
    fs::write(run.join("config.toml"), "").unwrap();
    // A kill may come before the first model is whole.
    fs::create_dir(run.join(BEST)).unwrap();
    fs::write(run.join(BEST).join(CONFIG), "").unwrap();
    assert_eq!(
        wrong(&run),
        "DIR/run: model: this run has no model yet: `best/model.safetensors` comes with the first validation\n  \
         try: continue the run with `bowline resume DIR/run`"
    );
    assert_eq!(
        wrong(&run.join("config.toml")),
        format!("DIR/run/config.toml: model: this is a file, not a folder{give}")
    );
    save(&run.join(BEST), &params(true, 1.0)).unwrap();
    assert_eq!(resolve(&run).unwrap(), run.join(BEST));
    assert_eq!(resolve(run.join(BEST)).unwrap(), run.join(BEST));
}

#[test]
fn the_configuration_is_this_one() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &params(true, 1.0)).unwrap();
    assert_eq!(
        fs::read_to_string(dir.path().join(CONFIG)).unwrap(),
        r#"{
  "format": "bowline",
  "version": 1,
  "model": "real",
  "vocab_size": 4,
  "hidden_size": 3,
  "num_layers": 2,
  "tie_word_embeddings": true,
  "gate_order": "ifgo"
}
"#
    );
}

#[test]
fn the_card_is_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let hash = save(dir.path(), &params(true, 1.0)).unwrap();
    let text = fs::read_to_string(dir.path().join(CARD)).unwrap();
    let text = text.replace(&hash, "HASH").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    assert_eq!(text, include_str!("card_example.md"));
}

/// Random changes of every file: always an answer, never a panic, and never other weights than those saved.
#[test]
fn random_changes_never_panic_and_never_give_other_weights() {
    let dir = tempfile::tempdir().unwrap();
    let saved = params(true, 1.0);
    save(dir.path(), &saved).unwrap();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for name in [CONFIG, VOCABULARY, WEIGHTS] {
        let path = dir.path().join(name);
        let good = fs::read(&path).unwrap();
        for _ in 0..1000 {
            let mut bytes = good.clone();
            for _ in 0..1 + random(3) {
                let at = random(bytes.len());
                match random(4) {
                    0 => bytes[at] ^= 1 << random(8),
                    1 => bytes[at] = b"0123456789{}[]\",:eE.- \n"[random(23)],
                    2 => bytes.insert(at, random(256) as u8),
                    _ => drop(bytes.remove(at)),
                }
            }
            fs::write(&path, &bytes).unwrap();
            if let Ok(loaded) = ModelFolder::load(dir.path()) {
                assert_eq!((bits(&loaded.params), loaded.vocabulary.as_str()), (bits(&saved), VOCABULARY_TEXT));
            }
        }
        fs::write(&path, &good).unwrap();
    }
}
