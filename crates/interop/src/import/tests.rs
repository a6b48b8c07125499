//! What is imported predicts as it did, bit for bit where it can be; what cannot be imported gets a whole message.

use super::*;
use bowline::model_folder::{VOCABULARY, WEIGHTS};
use bowline::storage::tensor_file::TensorFileWriter;
use std::path::PathBuf;

const WORDS: &str = "<eos>\n<unk>\nthe\ncat\n";
const V: usize = 4;
const D: usize = 3;

/// A folder to work in.
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

    /// Imports `weights.safetensors` to `out`.
    fn import(&self, change: impl FnOnce(&mut Request<'_>)) -> Result<Imported> {
        let (weights, vocabulary) = (self.path("weights.safetensors"), self.path("words.txt"));
        let mut request = Request {
            weights: &weights,
            vocabulary: &vocabulary,
            names: Names::default(),
            model: None,
            activation: Activation::Tanh,
            projection_activation: Activation::Linear,
            tokenize: false,
        };
        change(&mut request);
        import(&request, &self.path("out"))
    }

    #[track_caller]
    fn refused(&self, change: impl FnOnce(&mut Request<'_>)) -> String {
        let message = self.import(change).unwrap_err().to_string();
        assert!(!self.path("out").exists(), "{message}");
        message.replace(self.0.path().to_str().unwrap(), "DIR")
    }

    fn loaded(&self) -> ModelFolder {
        ModelFolder::load(self.path("out")).unwrap()
    }
}

/// A file as PyTorch would save it, with all that can be changed about it.
struct Weights(Vec<(String, Vec<usize>, Vec<f32>)>);

impl Weights {
    /// An LSTM of one layer with both biases, and a classifier of its own.
    fn new() -> Weights {
        let mut weights = Weights(Vec::new());
        weights.set("encoder.weight", &[V, D]);
        weights.layer(0, 4 * D, D, D);
        weights.set("decoder.weight", &[V, D]);
        weights.set("decoder.bias", &[V]);
        weights
    }

    fn layer(&mut self, layer: usize, rows: usize, inputs: usize, states: usize) {
        self.set(&format!("rnn.weight_ih_l{layer}"), &[rows, inputs]);
        self.set(&format!("rnn.weight_hh_l{layer}"), &[rows, states]);
        self.set(&format!("rnn.bias_ih_l{layer}"), &[rows]);
        self.set(&format!("rnn.bias_hh_l{layer}"), &[rows]);
    }

    /// Adds a tensor, or gives it another shape; the values are all different.
    fn set(&mut self, name: &str, shape: &[usize]) {
        let first = 100.0 * self.0.len() as f32;
        let values = (0..shape.iter().product()).map(|i| first + i as f32 * 0.25).collect();
        self.remove(name);
        self.0.push((name.to_owned(), shape.to_vec(), values));
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|(other, ..)| other != name);
    }

    fn get(&mut self, name: &str) -> &mut Vec<f32> {
        &mut self.0.iter_mut().find(|(other, ..)| other == name).unwrap().2
    }

    /// Makes the classifier's matrix that of the embedding.
    fn tie(&mut self) {
        *self.get(DECODER) = self.get(ENCODER).clone();
    }

    fn rename(&mut self, change: impl Fn(&str) -> String) {
        for (name, ..) in &mut self.0 {
            *name = change(name);
        }
    }

    fn save(&self, place: &Place) {
        let mut file = TensorFileWriter::new();
        for (name, shape, values) in &self.0 {
            file.tensor(name, shape, values);
        }
        let bytes = file.to_bytes("F").unwrap();
        fs::write(place.path("weights.safetensors"), without_hash(bytes)).unwrap();
    }
}

/// The same file as another tool would write it.
fn without_hash(bytes: Vec<u8>) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    header["__metadata__"] = serde_json::json!({"format": "pt"});
    by_hand(&header.to_string(), &bytes[8 + length..])
}

fn by_hand(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn a_model_of_our_own_comes_back_with_the_same_bytes() {
    for tied in [true, false] {
        let place = Place::new();
        let mut params = Params::zeros(&ModelSpec::paper(V, D, 2, tied));
        for (i, x) in params.data_mut().iter_mut().enumerate() {
            *x = if i % 10 == 3 { -0.0 } else { (i as f32 - 40.0) / 7.0 };
        }
        let metadata = [("epoch", "12"), ("validation_perplexity", "81.254"), ("tokenize", "true")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec();
        let model = if tied { "real" } else { "al" };
        let contents = Contents { model, params: &params, vocabulary: WORDS, metadata, card: &ModelCard::default() };
        ModelFolder::save(place.path("ours"), &contents).unwrap();
        fs::copy(place.path("ours").join(WEIGHTS), place.path("weights.safetensors")).unwrap();

        let imported = place.import(|request| request.model = Some(model)).unwrap();
        assert_eq!((&imported.spec, imported.notes.len()), (params.spec(), 0));
        for name in [WEIGHTS, VOCABULARY, "config.json"] {
            let [ours, back] = ["ours", "out"].map(|folder| fs::read(place.path(folder).join(name)).unwrap());
            assert!(ours == back, "{name}, tied: {tied}");
        }
        // Another list of words is noticed by its hash.
        fs::remove_dir_all(place.path("out")).unwrap();
        fs::write(place.path("words.txt"), WORDS.replace("cat", "dog")).unwrap();
        let message = place.refused(|_| ());
        assert!(message.starts_with("DIR/words.txt: the words have the SHA-256 "), "{message}");
    }
}

/// Layers of any width of the units that PyTorch has, with a projection, tied with a bias; and without, not tied.
#[test]
fn every_unit_and_width_comes_back_with_the_same_bytes() {
    let units = [
        ("lstm", Unit::Lstm { coupled: false }),
        ("gru", Unit::Gru),
        ("rnn", Unit::Rnn { activation: Activation::Relu }),
    ];
    for ((model, unit), projected) in units.into_iter().flat_map(|unit| [(unit, false), (unit, true)]) {
        let place = Place::new();
        let projection = ProjectionSpec { width: 3, activation: Activation::Sigmoid, bias: true };
        let output = OutputSpec {
            projection: projected.then_some(projection),
            tied: projected,
            bias: projected,
            ..OutputSpec::default()
        };
        let layers = [5, 2].map(|units| LayerSpec::new(unit, units)).to_vec();
        let spec = ModelSpec { vocab: V, input: InputSpec::words(3), layers, output };
        let mut params = Params::zeros(&spec);
        params.data_mut().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 - 40.0) / 7.0);
        let metadata = vec![("tokenize".to_owned(), "false".to_owned())];
        let contents = Contents { model, params: &params, vocabulary: WORDS, metadata, card: &ModelCard::default() };
        ModelFolder::save(place.path("ours"), &contents).unwrap();
        fs::copy(place.path("ours").join(WEIGHTS), place.path("weights.safetensors")).unwrap();
        let imported = place.import(|request| {
            request.activation = Activation::Relu;
            request.projection_activation = Activation::Sigmoid;
        });
        assert_eq!(imported.unwrap().spec, spec);
        for name in [WEIGHTS, VOCABULARY, "config.json"] {
            let [ours, back] = ["ours", "out"].map(|folder| fs::read(place.path(folder).join(name)).unwrap());
            assert!(ours == back, "{name}, {model}, projected: {projected}");
        }
        fs::remove_dir_all(place.path("out")).unwrap();
        let message = place.refused(|request| request.model = Some("re"));
        assert!(message.contains("a `re` model has LSTM layers as wide as its word vectors"), "{message}");
    }
}

/// The fixture of `model_folder`, saved by PyTorch itself: three words, two units, both biases in use.
#[test]
fn what_pytorch_saved() {
    let place = Place::new();
    fs::write(
        place.path("weights.safetensors"),
        include_bytes!("../../../bowline/src/model_folder/from_pytorch.safetensors"),
    )
    .unwrap();
    fs::write(place.path("words.txt"), "the\n<eos>\ncat").unwrap();
    let imported = place.import(|request| request.tokenize = true).unwrap();
    assert_eq!(imported.model, "vd-lstm");
    assert_eq!(imported.spec, ModelSpec::paper(3, 2, 1, false));
    assert_eq!(imported.notes, ["the vocabulary has no `<unk>`: text with other words cannot be read by this model"]);
    let loaded = place.loaded();
    assert_eq!(loaded.vocabulary, "the\n<eos>\ncat\n");
    assert_eq!(loaded.metadata["tokenize"], "true");
    assert_eq!(loaded.params.embedding(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    let sums: Vec<f32> = (0..8).map(|i| (300.0 + i as f32 * 0.25) + (400.0 + i as f32 * 0.25)).collect();
    assert_eq!(loaded.params.layer(0).bias, sums);
    assert_eq!(loaded.params.classifier_bias().unwrap(), [600.0, 600.25, 600.5]);
    let card = fs::read_to_string(place.path("out/README.md")).unwrap();
    assert!(
        card.starts_with("# A model imported from weights.safetensors\n\nA word-level language model, imported by ")
    );
    assert!(card.contains("The weights come from weights.safetensors; how they were trained is not known."), "{card}");
    assert!(!card.contains("## Recipe"), "{card}");
}

#[test]
fn a_tied_classifier_is_found_in_every_way_it_is_stored() {
    let ways: [fn(&mut Weights); 4] = [
        |w| w.tie(),
        |w| w.remove(DECODER),
        // What safetensors' `save_model` does with PyTorch's example: of shared tensors the first name stays.
        |w| {
            w.tie();
            w.remove(ENCODER);
        },
        |w| {
            w.remove(DECODER);
            w.set(DECODER_BIAS, &[V]);
            w.get(DECODER_BIAS).copy_from_slice(&[0.0, -0.0, 0.0, 0.0]);
        },
    ];
    for (i, way) in ways.into_iter().enumerate() {
        let place = Place::new();
        let mut weights = Weights::new();
        let embedding = weights.get(ENCODER).clone();
        weights.remove(DECODER_BIAS);
        way(&mut weights);
        weights.save(&place);
        let imported = place.import(|_| ()).unwrap();
        assert_eq!((imported.model.as_str(), imported.spec.output.tied), ("re", true), "way {i}");
        assert_eq!(place.loaded().params.embedding(), embedding, "way {i}");

        // The same as a model with a classifier of its own.
        fs::remove_dir_all(place.path("out")).unwrap();
        assert!(!place.import(|request| request.model = Some("al")).unwrap().spec.output.tied);
        let params = place.loaded().params;
        assert_eq!((params.classifier(), params.embedding()), (&embedding[..], &embedding[..]), "way {i}");
        assert_eq!(params.classifier_bias().unwrap(), [0.0; V]);
    }
}

#[test]
fn a_tied_classifier_with_a_bias_becomes_one_of_its_own() {
    let place = Place::new();
    let mut weights = Weights::new();
    weights.remove(DECODER);
    weights.save(&place);
    let imported = place.import(|_| ()).unwrap();
    assert_eq!((imported.model.as_str(), imported.spec.output.tied), ("vd-lstm", false));
    assert_eq!(
        imported.notes,
        [
            "`decoder.bias` is not zero, and a tied model of Bowline has no such bias: the classifier is stored as a copy \
          of the embedding, with its bias, which predicts the same"
        ]
    );
    let params = place.loaded().params;
    assert_eq!(params.classifier(), params.embedding());
    assert_eq!(params.classifier_bias().unwrap(), *weights.get(DECODER_BIAS));

    fs::remove_dir_all(place.path("out")).unwrap();
    assert_eq!(
        place.refused(|request| request.model = Some("real")),
        "DIR/weights.safetensors: tensor `decoder.bias`: it is [4] and not zero, but a `real` model has no such bias\n  \
         try: --model vd-lstm, which keeps a classifier of its own"
    );
    let mut weights = Weights::new();
    weights.remove(DECODER_BIAS);
    weights.save(&place);
    assert_eq!(
        place.refused(|request| request.model = Some("re")),
        "DIR/weights.safetensors: tensor `decoder.weight`: its values are not those of `encoder.weight` (both [4, 3]), \
         but a `re` model has one matrix for both\n  try: --model vd-lstm, which keeps a classifier of its own"
    );
}

#[test]
fn an_lstm_without_biases() {
    let place = Place::new();
    let mut weights = Weights::new();
    for name in ["rnn.bias_ih_l0", "rnn.bias_hh_l0"] {
        weights.remove(name);
    }
    weights.save(&place);
    place.import(|_| ()).unwrap();
    assert_eq!(place.loaded().params.layer(0).bias, [0.0; 4 * D]);
}

#[test]
fn other_names() {
    let place = Place::new();
    let mut weights = Weights::new();
    weights.rename(|name| format!("module.{}", name.replace("rnn.", "lstm.").replace("encoder.weight", "embed")));
    weights.save(&place);
    let pairs = ["rnn=lstm", "encoder.weight=embed"].map(str::to_owned);
    place.import(|request| request.names = Names::new("module.", &pairs).unwrap()).unwrap();
    assert_eq!(place.loaded().params.layer(0).w_hh, *weights.get("module.lstm.weight_hh_l0"));
    fs::remove_dir_all(place.path("out")).unwrap();

    assert_eq!(
        place.refused(|request| request.names = Names::new("module.", &pairs[..1]).unwrap()),
        format!(
            "DIR/weights.safetensors: tensor `module.embed`: its shape is [4, 3], and there is no place for it in \
             Bowline's models\n  try: {OTHER_NAMES}; or save the file without it, if the model does without it"
        )
    );
    let wrong = |pair: &str| Names::new("", &[pair.to_owned()]).unwrap_err().to_string();
    let advice = "\n  try: `--map rnn=lstm` or `--map encoder.weight=embed`";
    assert_eq!(wrong("rnn"), format!("setting `map`: `rnn` is not a name, `=` and a name{advice}"));
    assert_eq!(
        wrong("lstm=rnn"),
        format!("setting `map`: `lstm` begins with none of `encoder`, `rnn`, `projection`, `decoder`{advice}")
    );
    let twice = ["rnn=a", "rnn=b"].map(str::to_owned);
    assert_eq!(Names::new("", &twice).unwrap_err().to_string(), format!("setting `map`: `rnn` is there twice{advice}"));
}

#[test]
fn halves_are_converted() {
    // 1.5 and -2^-24 as F16, 1.5 and -3 as BF16.
    for (dtype, data, expected) in
        [("F16", [0x00, 0x3e, 0x01, 0x80], [1.5, -2f32.powi(-24)]), ("BF16", [0xc0, 0x3f, 0x40, 0xc0], [1.5, -3.0])]
    {
        let place = Place::new();
        fs::write(place.path("words.txt"), "a\n<eos>\n").unwrap();
        let mut tensors = vec![format!(r#""encoder.weight":{{"dtype":"{dtype}","shape":[2,1],"data_offsets":[0,4]}}"#)];
        let mut end = 4;
        for what in ["weight_ih", "weight_hh"] {
            let place = format!(r#""dtype":"F32","shape":[4,1],"data_offsets":[{end},{}]"#, end + 16);
            tensors.push(format!(r#""rnn.{what}_l0":{{{place}}}"#));
            end += 16;
        }
        let bytes = by_hand(&format!("{{{}}}", tensors.join(",")), &[&data[..], &[0; 32]].concat());
        fs::write(place.path("weights.safetensors"), bytes).unwrap();
        place.import(|_| ()).unwrap();
        assert_eq!(place.loaded().params.embedding(), expected, "{dtype}");
    }
}

#[test]
fn what_bowline_s_models_cannot_be() {
    let refused = |change: fn(&mut Weights)| {
        let place = Place::new();
        let mut weights = Weights::new();
        change(&mut weights);
        weights.save(&place);
        place.refused(|_| ())
    };
    let about = |name: &str, problem: &str, advice: &str| {
        format!("DIR/weights.safetensors: tensor `{name}`: {problem}\n  try: {advice}")
    };
    assert_eq!(
        refused(|w| w.layer(0, 20, D, 5)),
        about(
            DECODER,
            "its shape is [4, 3], it should be [4, 5]: a row for each word, of the size of what the classifier sees",
            OTHER_MODEL
        )
    );
    let hh = |problem: &str| about("rnn.weight_hh_l0", problem, OTHER_MODEL);
    let rows = "and an LSTM has 4 rows for each column, a GRU 3, an RNN 1";
    assert_eq!(refused(|w| w.layer(0, 11, D, D)), hh(&format!("its shape is [11, 3], {rows}")));
    assert_eq!(refused(|w| w.layer(0, 6, D, D)), hh(&format!("its shape is [6, 3], {rows}")));
    assert_eq!(
        refused(|w| {
            w.layer(1, 12, 3, 3);
            w.set("rnn.weight_ih_l1", &[12, 6]);
        }),
        about("rnn.weight_ih_l1", "its shape is [12, 6], it should be [12, 3]: a layer on the one below", OTHER_MODEL)
    );
    assert_eq!(
        refused(|w| w.set("rnn.weight_ih_l0_reverse", &[12, 3])),
        about(
            "rnn.weight_ih_l0_reverse",
            "it belongs to a bidirectional layer, which Bowline does not support",
            OTHER_MODEL
        )
    );
    assert_eq!(
        refused(|w| w.set("rnn.weight_hr_l0", &[2, 3])),
        about(
            "rnn.weight_hr_l0",
            "it belongs to an LSTM with a projection (`proj_size`), which Bowline does not support",
            OTHER_MODEL
        )
    );
    assert_eq!(
        refused(|w| w.set("rnn.bias_hh_l0", &[13])),
        about(
            "rnn.bias_hh_l0",
            "its shape is [13], it should be [12]: four gates for each of the state's values",
            OTHER_MODEL
        )
    );
    assert_eq!(
        refused(|w| w.set(DECODER, &[5, 3])),
        about(
            DECODER,
            "its shape is [5, 3], it should be [4, 3]: a row for each word, of the size of a state",
            OTHER_MODEL
        )
    );
    assert_eq!(
        refused(|w| w.set(DECODER_BIAS, &[3])),
        about(DECODER_BIAS, "its shape is [3], it should be [4]: a value for each word", OTHER_MODEL)
    );
    assert_eq!(
        refused(|w| w.set(ENCODER, &[12])),
        about(ENCODER, "its shape is [12], it should be [words, size]", OTHER_MODEL)
    );
    assert_eq!(
        refused(|w| w.0.truncate(1)),
        about("rnn.weight_ih_l0", "it is missing; the file has encoder.weight", OTHER_NAMES)
    );
    assert_eq!(
        refused(|w| w.set("norm.weight", &[3])),
        about(
            "norm.weight",
            "its shape is [3], and there is no place for it in Bowline's models",
            &format!("{OTHER_NAMES}; or save the file without it, if the model does without it")
        )
    );
    assert_eq!(
        refused(|w| {
            w.get("rnn.bias_ih_l0")[2] = f32::MAX;
            w.get("rnn.bias_hh_l0")[2] = f32::MAX;
        }),
        about(
            "rnn.bias_hh_l0",
            "the value at [2] added to that of `rnn.bias_ih_l0` is inf",
            "use a model from before its weights stopped being numbers"
        )
    );
}

#[test]
fn vocabularies_and_folders_that_do_not_fit() {
    let place = Place::new();
    Weights::new().save(&place);
    fs::write(place.path("words.txt"), "<eos>\nthe\n").unwrap();
    assert_eq!(
        place.refused(|_| ()),
        "DIR/words.txt: there are 2 words (one per line), but `encoder.weight` is [4, 3]\n  \
         try: give the list of words that belongs to these weights"
    );
    fs::write(place.path("words.txt"), "a\nb\nc\nd\n").unwrap();
    assert!(place.refused(|_| ()).starts_with("DIR/words.txt: the word `<eos>` is missing"));

    fs::write(place.path("words.txt"), WORDS).unwrap();
    fs::create_dir(place.path("out")).unwrap();
    fs::write(place.path("out/precious"), "x").unwrap();
    let message = place.import(|_| ()).unwrap_err().to_string();
    assert_eq!(
        message.replace(place.0.path().to_str().unwrap(), "DIR"),
        "DIR/out: something is already here\n  try: an --out that does not exist yet, or an empty folder"
    );
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 1);
}
