//! A model folder out of the weights of a PyTorch word model.
//!
//! What is read is an ONNX file, whose graph says what is what, or a safetensors file of an `nn.Embedding`, an `nn.LSTM`, `nn.GRU` or `nn.RNN` and an `nn.Linear`, with the names
//! of PyTorch's own word language model: `encoder.weight`, `rnn.weight_ih_l0`, `rnn.weight_hh_l0`, `rnn.bias_ih_l0`,
//! `rnn.bias_hh_l0` and so on for every layer, `decoder.weight`, `decoder.bias`. A second `nn.Linear` before the last one is
//! `projection.weight`, `projection.bias`. Other names are given as [`Names`]; those of speech toolkits are known (`toolkit`).
//!
//! - The unit follows from the rows of a layer's matrices: four gates are an LSTM's, three a GRU's, one an RNN's. Layers may be
//!   of any widths.
//! - The two biases of an LSTM's or RNN's layer are added; one that is missing is zero.
//! - The classifier is *tied* if one of `encoder.weight` and `decoder.weight` is missing (PyTorch stores shared tensors
//!   once) or if both have the same bits.
//! - The paper's tied models have no bias in their classifier. A tied matrix with a bias, on LSTM layers as wide as the word
//!   vectors, becomes an untied model whose classifier is a copy of the embedding: it predicts the same.
//! - Numbers of half the precision become `f32`, exactly.
//!
//! What Bowline's models cannot be is an error: two directions, projections inside a layer, tensors without a place.

#[cfg(test)]
mod tests;
mod toolkit;

use self::toolkit::Toolkit;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use bowline::error::{Error, Result};
use bowline::layout::Tensor;
use bowline::model_folder::config::MOST_LAYERS;
use bowline::model_folder::{Contents, ModelCard, ModelFolder, VOCABULARY_HASH_KEY, add_bias, stored_names};
use bowline::params::Params;
use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};
use bowline::storage::tensor_file::{TensorFile, sha256};
use bowline::storage::{new_folder, printable};
use bowline::vocabulary::{EOS, UNK, Vocabulary};

const ENCODER: &str = "encoder.weight";
const DECODER: &str = "decoder.weight";
const DECODER_BIAS: &str = "decoder.bias";
const PROJECTION: &str = "projection.weight";
const PROJECTION_BIAS: &str = "projection.bias";

const OTHER_NAMES: &str = "say what the names in the file are with --prefix and --map, for example --map rnn=lstm";
const OTHER_MODEL: &str = "Bowline's models are an nn.Embedding, an nn.LSTM, nn.GRU or nn.RNN, and an nn.Linear";

/// The metadata of Bowline's own files that belong to the weights and go with them.
const KEPT: [&str; 2] = ["epoch", "validation_perplexity"];

/// How the tensors are called in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    prefix: String,
    map: HashMap<String, String>,
}

impl Names {
    /// `prefix` stands before every name. A pair `ours=theirs` renames a module (`encoder`, `rnn`, `decoder`) or a tensor.
    pub fn new(prefix: &str, pairs: &[String]) -> Result<Names> {
        let mut map = HashMap::new();
        for pair in pairs {
            let wrong =
                |problem: String| Error::config("map", problem, "`--map rnn=lstm` or `--map encoder.weight=embed`");
            let Some((ours, theirs)) =
                pair.split_once('=').filter(|(ours, theirs)| !ours.is_empty() && !theirs.is_empty())
            else {
                return Err(wrong(format!("`{}` is not a name, `=` and a name", printable(pair))));
            };
            let modules = ["encoder", "rnn", "projection", "decoder"];
            if !modules.contains(&ours.split('.').next().unwrap_or_default()) {
                let modules = modules.map(|module| format!("`{module}`")).join(", ");
                return Err(wrong(format!("`{}` begins with none of {modules}", printable(ours))));
            }
            if map.insert(ours.to_owned(), theirs.to_owned()).is_some() {
                return Err(wrong(format!("`{}` is there twice", printable(ours))));
            }
        }
        Ok(Names { prefix: prefix.to_owned(), map })
    }

    /// The name in the file of one of our tensors.
    fn theirs(&self, ours: &str) -> String {
        let (module, rest) = ours.split_once('.').unwrap_or((ours, ""));
        let name = match (self.map.get(ours), self.map.get(module)) {
            (Some(theirs), _) => theirs.clone(),
            (None, Some(theirs)) => format!("{theirs}.{rest}"),
            (None, None) => ours.to_owned(),
        };
        format!("{}{name}", self.prefix)
    }
}

/// What to import.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The safetensors or ONNX file.
    pub weights: &'a Path,
    /// One word per line, in the order of the word vectors.
    pub vocabulary: &'a Path,
    /// How the tensors are called in a safetensors file.
    pub names: Names,
    /// `vd-lstm`, `al`, `re` or `real`; without it `re` for a tied model and `vd-lstm` for another, if it is like the paper's, and
    /// the name of the unit if not.
    pub model: Option<&'a str>,
    /// What an `nn.RNN` computes, which its weights do not say: `nonlinearity`. An ONNX file says it.
    pub activation: Activation,
    /// What the projection is a function of, likewise.
    pub projection_activation: Activation,
    /// Whether text for this model is to be lower-cased and split from its punctuation.
    pub tokenize: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The kind of model.
    pub model: String,
    /// Its sizes.
    pub spec: ModelSpec,
    /// The content hash of the weights.
    pub weights_sha256: String,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// Weights under PyTorch's names, and what is computed of them.
pub(crate) struct Weights {
    pub(crate) file: TensorFile,
    pub(crate) functions: Functions,
}

/// What the weights do not say.
pub(crate) struct Functions {
    /// Of each layer, if it is an RNN; the last is that of all further ones.
    pub(crate) layers: Vec<Activation>,
    pub(crate) projection: Activation,
}

impl Weights {
    fn read(request: &Request<'_>) -> Result<Weights> {
        if request.weights.extension().is_none_or(|end| end != "onnx") {
            let functions = Functions { layers: vec![request.activation], projection: request.projection_activation };
            return Ok(Weights { file: TensorFile::read_foreign(request.weights)?, functions });
        }
        if request.names != Names::default() {
            let problem = "the names in an ONNX file mean nothing; it is read by its graph";
            return Err(Error::config("map", problem, "no --prefix and no --map"));
        }
        crate::onnx::import::read(request.weights)
    }
}

/// Makes the model folder `out`, which must not hold anything yet.
pub fn import(request: &Request<'_>, out: &Path) -> Result<Imported> {
    if out.is_file() || fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        let advice = "an --out that does not exist yet, or an empty folder";
        return Err(Error::run(out, "something is already here", advice));
    }
    let Weights { file, functions } = Weights::read(request)?;
    let toolkit = (request.names == Names::default()).then(|| Toolkit::of(&file)).flatten();
    let names = toolkit.map_or_else(|| request.names.clone(), Toolkit::names);
    let source = Source { path: request.weights, names: &names, file: &file };
    let (vocab, width) = source.embedding_sizes()?;
    let layers = source.layers(width, &functions.layers)?;
    let words = vocabulary(request, &source, (vocab, width))?;
    if let Some(toolkit) = toolkit {
        toolkit.check(&source, &words, request.vocabulary)?;
    }
    let projection = source.projection(layers.last().map_or(width, |layer| layer.units), functions.projection)?;
    let output = OutputSpec { projection, tied: false, bias: true, ..OutputSpec::default() };
    let mut spec = ModelSpec { vocab, input: InputSpec::words(width), layers, output };
    let like_the_paper_s = spec.as_paper().is_some();
    let mut notes: Vec<String> = toolkit.map(Toolkit::note).into_iter().collect();
    if like_the_paper_s {
        let (tied, of_it) = source.classifier(vocab, width, request.model)?;
        notes.extend(of_it);
        spec = ModelSpec::paper(vocab, width, spec.layers.len(), tied);
    } else {
        if let Some(model) = request.model {
            let problem =
                format!("a `{model}` model has LSTM layers as wide as its word vectors, and these are others");
            return Err(source.wrong("rnn.weight_hh_l0", problem, "no --model"));
        }
        (spec.output.tied, spec.output.bias) = source.output(vocab, spec.width())?;
        spec.check().map_err(|problem| source.wrong(DECODER, problem, OTHER_MODEL))?;
    }
    source.expect_no_more(spec.layers.len())?;

    let mut params = Params::zeros(&spec);
    for tensor in spec.layout().tensors() {
        source.read(tensor, &mut params.data_mut()[tensor.range()])?;
    }
    let model = request.model.unwrap_or(match spec.layers[0].unit {
        Unit::Gru => "gru",
        Unit::Rnn { .. } => "rnn",
        _ if !like_the_paper_s => "lstm",
        _ if spec.output.tied => "re",
        _ => "vd-lstm",
    });
    let kept = |key: &str| file.metadata().get(key).cloned();
    let mut metadata: Vec<_> = KEPT.iter().filter_map(|key| Some(((*key).to_owned(), kept(key)?))).collect();
    let tokenize = request.tokenize || kept("tokenize").is_some_and(|value| value == "true");
    metadata.push(("tokenize".to_owned(), tokenize.to_string()));
    let name = request.weights.file_name().unwrap_or_default().to_string_lossy();
    let example: Vec<_> = words.words().filter(|word| ![EOS, UNK].contains(word)).take(3).collect();
    let card = ModelCard {
        title: format!("A model imported from {name}"),
        data_name: "DIR".to_owned(),
        example: example.join(" "),
        origin: Some(name.into_owned()),
        ..ModelCard::default()
    };
    let contents = Contents { model, params: &params, vocabulary: &words.to_text(), metadata, card: &card };
    let weights_sha256 = new_folder::create(out, |partial| ModelFolder::save(partial, &contents))?;
    if words.unk().is_none() {
        notes.push(format!("the vocabulary has no `{UNK}`: text with other words cannot be read by this model"));
    }
    Ok(Imported { model: model.to_owned(), spec, weights_sha256, notes })
}

/// The words, as many as there are word vectors.
fn vocabulary(request: &Request<'_>, source: &Source<'_>, (vocab, hidden): (usize, usize)) -> Result<Vocabulary> {
    let path = request.vocabulary;
    let words = Vocabulary::read_foreign(path)?;
    let advice = "give the list of words that belongs to these weights";
    if words.len() != vocab {
        let name = printable(&source.embedding_name());
        let problem = format!("there are {} words (one per line), but `{name}` is {:?}", words.len(), [vocab, hidden]);
        return Err(Error::corpus(path, problem, advice));
    }
    if let Some(expected) = source.file.metadata().get(VOCABULARY_HASH_KEY) {
        let found = sha256(words.to_text().as_bytes());
        if found != *expected {
            let problem = format!("the words have the SHA-256 {found}, the weights belong to {}", printable(expected));
            return Err(Error::corpus(path, problem, advice));
        }
    }
    Ok(words)
}

/// The file, by our names.
struct Source<'a> {
    path: &'a Path,
    names: &'a Names,
    file: &'a TensorFile,
}

impl Source<'_> {
    fn theirs(&self, ours: &str) -> String {
        self.names.theirs(ours)
    }

    fn shape(&self, ours: &str) -> Option<&[usize]> {
        self.file.shape(&self.theirs(ours))
    }

    fn wrong(&self, ours: &str, problem: impl Into<String>, advice: &str) -> Error {
        Error::model(self.path, format!("tensor `{}`", printable(&self.theirs(ours))), problem, advice)
    }

    /// The shape of a tensor that must be there.
    fn required(&self, ours: &str) -> Result<&[usize]> {
        self.shape(ours).ok_or_else(|| {
            let mut names: Vec<_> = self.file.names().take(12).map(printable).collect();
            if self.file.names().count() > names.len() {
                names.push("...".to_owned());
            }
            self.wrong(ours, format!("it is missing; the file has {}", names.join(", ")), OTHER_NAMES)
        })
    }

    /// Checks a tensor that may be missing.
    fn check(&self, ours: &str, shape: &[usize], why: &str) -> Result<()> {
        match self.shape(ours) {
            Some(found) if found != shape => {
                Err(self.wrong(ours, format!("its shape is {found:?}, it should be {shape:?}: {why}"), OTHER_MODEL))
            }
            _ => Ok(()),
        }
    }

    /// The name in the file of the word vectors: when tied, one of the two names may be missing.
    fn embedding_name(&self) -> String {
        let ours = if self.shape(ENCODER).is_none() && self.shape(DECODER).is_some() { DECODER } else { ENCODER };
        self.theirs(ours)
    }

    /// V and d.
    fn embedding_sizes(&self) -> Result<(usize, usize)> {
        let ours = if self.embedding_name() == self.theirs(ENCODER) { ENCODER } else { DECODER };
        match *self.required(ours)? {
            [vocab, hidden] => Ok((vocab, hidden)),
            ref shape => {
                Err(self.wrong(ours, format!("its shape is {shape:?}, it should be [words, size]"), OTHER_MODEL))
            }
        }
    }

    /// The layers on word vectors of this size.
    fn layers(&self, width: usize, activations: &[Activation]) -> Result<Vec<LayerSpec>> {
        self.required("rnn.weight_ih_l0")?;
        let mut layers: Vec<LayerSpec> = Vec::new();
        while self.shape(&format!("rnn.weight_ih_l{}", layers.len())).is_some() {
            if layers.len() == MOST_LAYERS as usize {
                let problem = format!("the file has more than {MOST_LAYERS} layers, the most that a model can have");
                return Err(self.wrong(&format!("rnn.weight_ih_l{}", layers.len()), problem, OTHER_MODEL));
            }
            let inputs = layers.last().map_or(width, |layer| layer.units);
            let activation = activations.get(layers.len()).or(activations.last()).copied().unwrap_or(Activation::Tanh);
            layers.push(self.layer(layers.len(), inputs, activation)?);
        }
        Ok(layers)
    }

    fn layer(&self, layer: usize, inputs: usize, activation: Activation) -> Result<LayerSpec> {
        let named = |what: &str| format!("rnn.{what}_l{layer}");
        for (tensor, what) in [
            (format!("rnn.weight_ih_l{layer}_reverse"), "it belongs to a bidirectional layer"),
            (named("weight_hr"), "it belongs to an LSTM with a projection (`proj_size`)"),
        ] {
            if self.shape(&tensor).is_some() {
                return Err(self.wrong(&tensor, format!("{what}, which Bowline does not support"), OTHER_MODEL));
            }
        }
        let hh = named("weight_hh");
        let shape = self.required(&hh)?;
        let [rows, d] = *shape else {
            let problem = format!("its shape is {shape:?}, it should be [gates x states, states]");
            return Err(self.wrong(&hh, problem, OTHER_MODEL));
        };
        let (unit, gates) = match rows.checked_div(d) {
            Some(4) if rows == 4 * d => (Unit::Lstm { coupled: false }, "four gates for each of the state's values"),
            Some(3) if rows == 3 * d => (Unit::Gru, "three gates for each of the state's values"),
            Some(1) if rows == d => (Unit::Rnn { activation }, "one for each of the state's values"),
            _ => {
                let problem =
                    format!("its shape is {shape:?}, and an LSTM has 4 rows for each column, a GRU 3, an RNN 1");
                return Err(self.wrong(&hh, problem, OTHER_MODEL));
            }
        };
        let on = if layer == 0 { "a layer on the word vectors" } else { "a layer on the one below" };
        self.check(&named("weight_ih"), &[rows, inputs], on)?;
        for bias in ["bias_ih", "bias_hh"] {
            self.check(&named(bias), &[rows], gates)?;
        }
        Ok(LayerSpec::new(unit, d))
    }

    /// The projection of states of this size.
    fn projection(&self, inputs: usize, activation: Activation) -> Result<Option<ProjectionSpec>> {
        let Some(shape) = self.shape(PROJECTION) else { return Ok(None) };
        let width = shape.first().copied().unwrap_or(0);
        self.check(PROJECTION, &[width, inputs], "a linear function of the last layer's states")?;
        self.check(PROJECTION_BIAS, &[width], "a value for each row of the projection")?;
        Ok(Some(ProjectionSpec { width, activation, bias: self.shape(PROJECTION_BIAS).is_some() }))
    }

    /// Whether a classifier that sees `width` values is tied, and whether it has a bias.
    fn output(&self, vocab: usize, width: usize) -> Result<(bool, bool)> {
        self.check(DECODER, &[vocab, width], "a row for each word, of the size of what the classifier sees")?;
        self.check(DECODER_BIAS, &[vocab], "a value for each word")?;
        let both = self.shape(ENCODER).is_some() && self.shape(DECODER).is_some();
        let same = || {
            Ok::<_, Error>(self.shape(ENCODER) == self.shape(DECODER) && self.values(ENCODER)? == self.values(DECODER)?)
        };
        Ok((!both || same()?, self.shape(DECODER_BIAS).is_some()))
    }

    /// Finds out whether the classifier is to be stored as tied, and whether it can be stored as is asked; also what a
    /// person should know of it.
    fn classifier(&self, vocab: usize, d: usize, model: Option<&str>) -> Result<(bool, Vec<String>)> {
        let why = "a row for each word, of the size of a state";
        self.check(DECODER, &[vocab, d], why)?;
        self.check(DECODER_BIAS, &[vocab], "a value for each word")?;
        let both = self.shape(ENCODER).is_some() && self.shape(DECODER).is_some();
        let same = !both || self.values(ENCODER)? == self.values(DECODER)?;
        let bias = self.shape(DECODER_BIAS).is_some() && self.values(DECODER_BIAS)?.iter().any(|bits| bits << 1 != 0);
        if let Some(model) = model.filter(|model| ["re", "real"].contains(model)) {
            let other = "--model vd-lstm, which keeps a classifier of its own";
            if !same {
                let embedding = printable(&self.theirs(ENCODER));
                let problem = format!(
                    "its values are not those of `{embedding}` (both {:?}), but a `{model}` model has one matrix for both",
                    [vocab, d]
                );
                return Err(self.wrong(DECODER, problem, other));
            }
            if bias {
                let problem = format!("it is {:?} and not zero, but a `{model}` model has no such bias", [vocab]);
                return Err(self.wrong(DECODER_BIAS, problem, other));
            }
        }
        let tied = same && !bias && model.is_none_or(|model| ["re", "real"].contains(&model));
        let mut notes = Vec::new();
        if same && bias && model.is_none() {
            notes.push(format!(
                "`{}` is not zero, and a tied model of Bowline has no such bias: the classifier is stored as a copy of \
                 the embedding, with its bias, which predicts the same",
                printable(&self.theirs(DECODER_BIAS))
            ));
        }
        Ok((tied, notes))
    }

    /// The bits of a tensor's values.
    fn values(&self, ours: &str) -> Result<Vec<u32>> {
        let mut values = vec![0.0; self.required(ours)?.iter().product()];
        self.file.copy_to(&self.theirs(ours), &mut values)?;
        Ok(values.into_iter().map(f32::to_bits).collect())
    }

    /// Checks that no tensor of the file would be left out.
    fn expect_no_more(&self, layers: usize) -> Result<()> {
        let mut known: BTreeSet<String> =
            [ENCODER, PROJECTION, PROJECTION_BIAS, DECODER, DECODER_BIAS].map(|ours| self.theirs(ours)).into();
        for layer in 0..layers {
            for what in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"] {
                known.insert(self.theirs(&format!("rnn.{what}_l{layer}")));
            }
        }
        match self.file.names().find(|name| !known.contains(*name)) {
            None => Ok(()),
            Some(name) => {
                let shape = self.file.shape(name).unwrap_or_default();
                let problem = format!("its shape is {shape:?}, and there is no place for it in Bowline's models");
                let advice = format!("{OTHER_NAMES}; or save the file without it, if the model does without it");
                Err(Error::model(self.path, format!("tensor `{}`", printable(name)), problem, advice))
            }
        }
    }

    /// Reads the values of one of our tensors; their shapes have been checked.
    fn read(&self, tensor: &Tensor, values: &mut [f32]) -> Result<()> {
        let (first, second) = stored_names(tensor);
        let there = |ours: &str| self.shape(ours).is_some();
        if [ENCODER, DECODER].contains(&first.as_str()) && !there(&first) {
            return self.file.copy_to(&self.embedding_name(), values);
        }
        if there(&first) {
            self.file.copy_to(&self.theirs(&first), values)?;
        }
        match second.filter(|second| there(second)) {
            Some(second) => add_bias(self.path, self.file, (&self.theirs(&first), &self.theirs(&second)), values),
            None => Ok(()),
        }
    }
}
