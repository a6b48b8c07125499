//! A damaged model is refused with the file and the part of it that is at fault, by every command alike.

mod common;

use bowline::storage::tensor_file::{ContentHash, TensorFile, TensorFileWriter};
use common::{Place, bowline, change, copy, replace};
use std::fs;
use std::path::Path;

const DAMAGED: &str = "the file is damaged, incomplete or of another kind: copy it again, or use another one";
const INCOMPLETE: &str = "the model folder is damaged or incomplete: copy all of its files again";
const OTHER: &str = "use a file of the same model, or the sizes that belong to this file";
const RESTORE: &str = "restore the `config.json` that was saved with this model";
const GIVE_A_FOLDER: &str = "give the folder of a run (`--out` of `bowline train`) or of a model";

/// Writes the weights anew, with some of the tensors changed and the right hash.
fn rewrite(path: &Path, tensor: impl Fn(&str, Vec<usize>, Vec<f32>) -> Option<(Vec<usize>, Vec<f32>)>) {
    let file = TensorFile::read(path, ContentHash::Required).unwrap();
    let tensors: Vec<_> = file
        .names()
        .filter_map(|name| {
            let shape = file.shape(name).unwrap().to_vec();
            let mut values = vec![0.0; shape.iter().product()];
            file.copy_to(name, &mut values).unwrap();
            tensor(name, shape, values).map(|(shape, values)| (name, shape, values))
        })
        .collect();
    let mut writer = TensorFileWriter::new();
    for (key, value) in file.metadata().iter().filter(|(key, _)| *key != "bowline.sha256") {
        writer.metadata(key, value);
    }
    for (name, shape, values) in &tensors {
        writer.tensor(*name, shape, values);
    }
    writer.save(path).unwrap();
}

#[test]
fn models() {
    let place = Place::new();
    let whole = place.trained("run").join("best");
    let check = |damage: &dyn Fn(&Path), problem: &str, advice: &str| {
        let dir = place.path("model");
        let _ = fs::remove_dir_all(&dir);
        copy(&whole, &dir);
        damage(&dir);
        place.check_refusal(bowline(["next"]).arg(&dir), problem, advice);
        place.check_refusal(bowline(["eval", "--data"]).arg(place.path("corpus")).arg(&dir), problem, advice);
    };
    let weights = "model.safetensors";
    check(
        &|dir| change(&dir.join(weights), |bytes| *bytes.last_mut().unwrap() ^= 1),
        "DIR/model/model.safetensors: content hash: the contents have SHA256, the file says SHA256",
        DAMAGED,
    );
    // A header said to be longer reaches into the values of the tensors, which are no text.
    let bytes = fs::read(whole.join(weights)).unwrap();
    let header = usize::from_le_bytes(bytes[..8].try_into().unwrap());
    let text = std::str::from_utf8(&bytes[8..8 + header + 0x1_0000]).unwrap_err().valid_up_to();
    check(
        &|dir| change(&dir.join(weights), |bytes| bytes[2] ^= 1),
        &format!("DIR/model/model.safetensors: header: not UTF-8 from byte {text} on"),
        DAMAGED,
    );
    check(
        &|dir| change(&dir.join(weights), |bytes| bytes.push(0)),
        "DIR/model/model.safetensors: data: 1 bytes more than the tensors have",
        DAMAGED,
    );
    check(
        &|dir| change(&dir.join(weights), |bytes| bytes.truncate(1000)),
        &format!("DIR/model/model.safetensors: header length: {header} bytes do not fit into a file of 1000 bytes"),
        DAMAGED,
    );
    check(
        &|dir| change(&dir.join(weights), |bytes| bytes.clear()),
        "DIR/model/model.safetensors: header length: a tensor file begins with 8 bytes of it, this file has 0",
        DAMAGED,
    );
    check(
        &|dir| {
            rewrite(&dir.join(weights), |name, shape, values| {
                Some((if name == "rnn.weight_hh_l1" { vec![24, 96] } else { shape }, values))
            });
        },
        "DIR/model/model.safetensors: tensor `rnn.weight_hh_l1`: its shape is [24, 96], it should be [96, 24]",
        OTHER,
    );
    check(
        &|dir| {
            rewrite(&dir.join(weights), |name, shape, values| (name != "rnn.bias_ih_l0").then_some((shape, values)));
        },
        "DIR/model/model.safetensors: tensor `rnn.bias_ih_l0`: it is missing",
        OTHER,
    );
    check(
        &|dir| fs::remove_file(dir.join(weights)).unwrap(),
        "DIR/model: model.safetensors: this file is missing",
        INCOMPLETE,
    );
    check(
        &|dir| fs::remove_file(dir.join("vocab.txt")).unwrap(),
        "DIR/model: vocab.txt: this file is missing",
        INCOMPLETE,
    );
    check(
        &|dir| replace(&dir.join("config.json"), "\"version\": 1", "\"version\": 3"),
        "DIR/model/config.json: `version`: this model has version 3 of the format, this program reads up to 2",
        "upgrade Bowline, or use a model that was saved by this version of it",
    );
    check(
        &|dir| replace(&dir.join("config.json"), "\"hidden_size\": 24", "\"hidden_size\": 25"),
        "DIR/model/model.safetensors: tensor `encoder.weight`: its shape is [298, 24], it should be [298, 25]",
        OTHER,
    );
    check(
        &|dir| replace(&dir.join("config.json"), "\"hidden_size\": 24", "\"hidden_size\": 99999999"),
        "DIR/model/config.json: `hidden_size`: 99999999 is not between 1 and 65536",
        RESTORE,
    );
    check(
        &|dir| change(&dir.join("config.json"), |bytes| bytes.truncate(50)),
        "DIR/model/config.json: contents: it is damaged: \
         `model`: EOF while parsing an object at line 4 column 9",
        RESTORE,
    );
    check(
        &|dir| change(&dir.join("vocab.txt"), |bytes| bytes[9] = 0xFF),
        "DIR/model/vocab.txt:2: this line is not UTF-8",
        INCOMPLETE,
    );
    check(
        &|dir| change(&dir.join("vocab.txt"), |bytes| bytes[9] ^= 1),
        "DIR/model/vocab.txt: content hash: the words have the SHA-256 SHA256, the weights belong to SHA256",
        INCOMPLETE,
    );
    check(
        &|dir| change(&dir.join("vocab.txt"), |bytes| bytes.truncate(bytes.len() - 3)),
        "DIR/model/vocab.txt:298: the last line does not end in a newline, as if the end of the file were missing",
        INCOMPLETE,
    );
}

#[test]
fn paths_that_lead_to_no_model() {
    let place = Place::new();
    place.trained("run");
    place.check_refusal(
        bowline(["next"]).arg(place.path("nowhere")),
        "DIR/nowhere: model: there is no such folder",
        GIVE_A_FOLDER,
    );
    place.check_refusal(
        bowline(["next"]).arg(place.path("corpus")),
        "DIR/corpus: model: neither `model.safetensors` nor `best/model.safetensors` is in this folder",
        GIVE_A_FOLDER,
    );
    place.check_refusal(
        bowline(["next"]).arg(place.path("corpus/test.txt")),
        "DIR/corpus/test.txt: model: this is a file, not a folder",
        GIVE_A_FOLDER,
    );
    fs::remove_dir_all(place.path("run/best")).unwrap();
    place.check_refusal(
        bowline(["next"]).arg(place.path("run")),
        "DIR/run: model: this run has no model yet: `best/model.safetensors` comes with the first validation",
        "continue the run with `bowline resume DIR/run`",
    );
}

#[test]
fn words_that_a_model_without_unk_does_not_know() {
    let place = Place::new();
    // With the same text three times there are no unseen words, so there is no use for `<unk>`.
    for split in ["valid", "test"] {
        fs::copy(place.path("corpus/train.txt"), place.path(&format!("corpus/{split}.txt"))).unwrap();
    }
    let run = place.trained("run");
    place.check_refusal(
        bowline(["next"]).arg(&run).arg("bababa zebra bababa yak"),
        "the phrase: the word `zebra` is not among the model's 297 words, and it has no `<unk>`",
        "use the model's words; its vocab.txt lists them",
    );
    fs::write(place.path("text"), "bababa\nbababa zebra\n").unwrap();
    place.check_refusal(
        bowline(["eval", "--data"]).arg(place.path("text")).arg(&run),
        "DIR/text:2: the word `zebra` is not among the model's 297 words, and it has no `<unk>`",
        "use a text of the model's words, or train with `--vocab-size`, which brings `<unk>`",
    );
}
