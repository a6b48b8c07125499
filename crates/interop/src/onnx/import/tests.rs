//! What was exported comes back bit for bit; what PyTorch exported predicts as PyTorch does; what has no place is named.

use super::*;
use crate::import::{Imported, Names, Request, import};
use crate::onnx::{Form, export};
use crate::protobuf::Message;
use bowline::loaded_model::LoadedModel;
use bowline::model_folder::{Contents, ModelCard, ModelFolder};
use bowline::params::Params;
use bowline::spec::{InputSpec, LayerSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use bowline_kernels::{Isa, Team};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

const WORDS: &str = "the\n<eos>\ncat\n<unk>\nsat\n";
const V: usize = 5;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.path("words.txt"), WORDS).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn import(&self, file: &Path, names: Names) -> bowline::Result<Imported> {
        let request = Request {
            weights: file,
            vocabulary: &self.path("words.txt"),
            names,
            model: None,
            activation: Activation::Tanh,
            projection_activation: Activation::Linear,
            tokenize: false,
        };
        import(&request, &self.path("out"))
    }

    fn refused(&self, bytes: &[u8]) -> String {
        let file = self.path("model.onnx");
        fs::write(&file, bytes).unwrap();
        let message = self.import(&file, Names::default()).unwrap_err().to_string();
        assert!(!self.path("out").exists(), "{message}");
        message
    }
}

fn spec(width: usize, layers: Vec<LayerSpec>, projection: Option<ProjectionSpec>, tied: bool, bias: bool) -> ModelSpec {
    let output = OutputSpec { projection, tied, bias, ..OutputSpec::default() };
    ModelSpec { vocab: V, input: InputSpec::words(width), layers, output }
}

#[test]
fn what_was_exported_comes_back_bit_for_bit() {
    let rnn = |activation, units| LayerSpec::new(Unit::Rnn { activation }, units);
    let lstm = |units| LayerSpec::new(Unit::Lstm { coupled: false }, units);
    let projection = |width, activation, bias| Some(ProjectionSpec { width, activation, bias });
    for spec in [
        ModelSpec::paper(V, 3, 2, false),
        ModelSpec::paper(V, 3, 2, true),
        spec(2, vec![lstm(4), lstm(3)], projection(2, Activation::Linear, false), true, true),
        spec(2, vec![LayerSpec::new(Unit::Gru, 3), LayerSpec::new(Unit::Gru, 4)], None, false, true),
        spec(3, vec![rnn(Activation::Sigmoid, 2), rnn(Activation::Relu, 4)], None, false, false),
        spec(2, vec![rnn(Activation::Tanh, 3)], projection(4, Activation::Sigmoid, true), false, true),
    ] {
        let place = Place::new();
        let mut params = Params::zeros(&spec);
        for (i, x) in params.data_mut().iter_mut().enumerate() {
            *x = ((i * 37 % 101) as f32 - 50.0) / 40.0 + i as f32 * 1e-4;
        }
        let metadata = vec![("tokenize".to_owned(), "true".to_owned())];
        let card = ModelCard::default();
        let contents = Contents { model: "lstm", params: &params, vocabulary: WORDS, metadata, card: &card };
        ModelFolder::save(place.path("model"), &contents).unwrap();
        for form in [Form::Step, Form::Sequence] {
            let file = place.path("model.onnx");
            export(&place.path("model"), form, &file).unwrap();
            let imported = place.import(&file, Names::default()).unwrap();
            assert_eq!(imported.spec, spec);
            let loaded = LoadedModel::load(place.path("out")).unwrap();
            let bits = |params: &Params| params.data().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(loaded.params().unwrap()), bits(&params), "{spec:?}");
            assert_eq!(loaded.metadata["tokenize"], "true");
            fs::remove_dir_all(place.path("out")).unwrap();
        }
        // The file knows its words.
        fs::write(place.path("words.txt"), WORDS.replace("cat", "dog")).unwrap();
        let error = place.import(&place.path("model.onnx"), Names::default()).unwrap_err().to_string();
        assert!(error.contains("the weights belong to"), "{error}");
    }
}

/// `fixtures/make.py` made the files and the numbers, with both of PyTorch's exporters.
#[test]
fn what_pytorch_exported_predicts_as_pytorch_does() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/onnx/import/fixtures");
    let mut pytorch: serde_json::Value =
        serde_json::from_slice(&fs::read(fixtures.join("pytorch.json")).unwrap()).unwrap();
    let ids: Vec<u32> = serde_json::from_value(pytorch["ids"].take()).unwrap();
    let results: BTreeMap<String, Vec<Vec<f64>>> = serde_json::from_value(pytorch["log_probabilities"].take()).unwrap();
    let team = Arc::new(Team::new(1));
    let mut files = 0;
    for (name, expected) in &results {
        for exporter in ["script", "dynamo"] {
            let file = fixtures.join(format!("{name}-{exporter}.onnx"));
            let place = Place::new();
            if (name.as_str(), exporter) == ("rnn-relu", "dynamo") {
                // This exporter has no rule for `nn.RNN`: it writes out every step of the example.
                let error = place.import(&file, Names::default()).unwrap_err().to_string();
                assert!(error.contains("the operator MatMul that gives"), "{error}");
                continue;
            }
            place.import(&file, Names::default()).unwrap();
            let model = LoadedModel::load(place.path("out")).unwrap();
            // A sentence begins after `<eos>`, which is the first of the ids.
            for (t, expected) in expected.iter().enumerate() {
                let found = model.distribution(&team, Isa::detect(), &ids[1..=t]).unwrap();
                for (&p, log_p) in found.iter().zip(expected) {
                    assert!((f64::from(p).ln() - log_p).abs() < 1e-5, "{name}-{exporter}, {t}: {} {log_p}", p.ln());
                }
            }
            files += 1;
        }
    }
    assert_eq!(files, 7);
}

/// A graph of operators, `OPERATOR:takes:gives`, with tensors of the sizes of a model of two units.
fn graph(nodes: &[&str], attribute: Option<(&str, Message<'static>)>) -> Vec<u8> {
    let mut graph = Message::new();
    for node in nodes {
        let parts: Vec<&str> = node.split(':').collect();
        let mut message = Message::new().text(4, parts[0]);
        for name in parts[1].split(' ') {
            message = message.text(1, name);
        }
        message = message.text(2, parts[2]);
        if let Some((operator, attribute)) = &attribute
            && *operator == parts[0]
        {
            message = message.message(5, attribute.clone());
        }
        graph = graph.message(1, message);
    }
    let tensors: [(&str, &[usize]); 6] =
        [("E", &[V, 2]), ("W", &[1, 8, 2]), ("R", &[1, 8, 2]), ("B", &[1, 16]), ("D", &[V, 2]), ("s", &[1, 1, 2])];
    for (name, shape) in tensors {
        let mut tensor = Message::new().int(2, 1).text(8, name);
        for &size in shape {
            tensor = tensor.int(1, size as i64);
        }
        graph = graph.message(5, tensor.floats(9, Cow::Owned(vec![0.5; shape.iter().product()])));
    }
    let mut bytes = Vec::new();
    Message::new().message(7, graph).write(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_has_no_place_is_named() {
    const GATHER: &str = "Gather:E ids:x";
    const LSTM: &str = "LSTM:x W R B:y";
    let int = |name: &str, value| Message::new().text(1, name).int(3, value);
    let text = |name: &str, value: &str| Message::new().text(1, name).text(4, value);
    let whole = [GATHER, LSTM, "Gemm:y D:z"];
    let place = Place::new();
    // The graph that the others are made from is a model.
    fs::write(place.path("model.onnx"), graph(&whole, Some(("Gemm", int("transB", 1))))).unwrap();
    place.import(&place.path("model.onnx"), Names::default()).unwrap();
    let names = Names::new("module.", &[]).unwrap();
    let error = Place::new().import(&place.path("model.onnx"), names).unwrap_err().to_string();
    assert!(error.contains("the names in an ONNX file mean nothing"), "{error}");

    for (nodes, attribute, says) in [
        (&[GATHER, LSTM][..], None, "0 matrix products follow the layers, not one or two"),
        (&[LSTM], None, "there is no `Gather` of word vectors"),
        (&[GATHER, "Gemm:x D:z"], None, "the operator Gemm that gives `z` has no place"),
        (&[GATHER], None, "there is no LSTM, GRU or RNN on the path"),
        (&[GATHER, "LSTM:x W Q B:y"], None, "takes a matrix that is computed"),
        (&[GATHER, "LSTM:x W R B  s:y"], None, "begins with a state of its own"),
        (&[GATHER, "LSTM:x W R B    p:y"], None, "has peepholes"),
        (&[GATHER, LSTM, "Transpose:y:z"], None, "exchanges rows and columns"),
        (&[GATHER, LSTM, "Softplus:y:z"], None, "the operator Softplus that gives `z` has no place"),
        (&[GATHER, "GRU:x W R B:y"], None, "has `linear_before_reset` = 0; Bowline's layers have 1"),
        (&[GATHER, LSTM], Some(("LSTM", text("direction", "reverse"))), "does not read forward"),
        (&[GATHER, LSTM], Some(("LSTM", int("layout", 1))), "has `layout` = 1"),
        (&[GATHER, LSTM], Some(("LSTM", int("clip", 1))), "clips its values"),
        (&[GATHER, LSTM, "Gemm:y D:z"], Some(("Gemm", int("transA", 1))), "has `transA` = 1"),
        (&[GATHER, LSTM, "Gemm:y D:z"], None, "tensor `decoder.weight`: its shape is [2, 5]"),
    ] {
        let error = Place::new().refused(&graph(nodes, attribute));
        assert!(error.contains(says) && error.contains("model.onnx: "), "{nodes:?}: {error}");
        assert!(error.contains("\n  try: "), "{error}");
    }
    for (bytes, says) in [(&b"PK\x03\x04"[..], "unknown kind"), (b"", "it has no graph"), (b"\x3a\x00", "no `Gather`")]
    {
        let error = Place::new().refused(bytes);
        assert!(error.contains(says), "{error}");
    }
}
