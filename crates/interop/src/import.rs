//! A model folder out of the weights of a PyTorch word model.
//!
//! What is read is a safetensors file of an `nn.Embedding`, an `nn.LSTM` and an `nn.Linear`, with the names of PyTorch's
//! own word language model: `encoder.weight`, `rnn.weight_ih_l0`, `rnn.weight_hh_l0`, `rnn.bias_ih_l0`,
//! `rnn.bias_hh_l0` and so on for every layer, `decoder.weight`, `decoder.bias`. Other names are given as [`Names`].
//!
//! - The two biases of a layer are added; one that is missing is zero.
//! - The classifier is *tied* if one of `encoder.weight` and `decoder.weight` is missing (PyTorch stores shared tensors
//!   once) or if both have the same bits.
//! - A tied model of Bowline has no bias in its classifier. A tied matrix with a bias becomes an untied model whose
//!   classifier is a copy of the embedding: it predicts the same.
//! - Numbers of half the precision become `f32`, exactly.
//!
//! What Bowline's models cannot be is an error: other units than LSTMs, two directions, projections, word vectors of
//! another size than the states, tensors without a place.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use bowline::error::{Error, Result};
use bowline::layout::Tensor;
use bowline::model_folder::config::MOST_LAYERS;
use bowline::model_folder::{Contents, ModelCard, ModelFolder, VOCABULARY_HASH_KEY, add_bias, stored_names};
use bowline::params::Params;
use bowline::spec::ModelSpec;
use bowline::storage::tensor_file::{TensorFile, sha256};
use bowline::storage::{new_folder, printable};
use bowline::vocabulary::{EOS, UNK, Vocabulary};

const ENCODER: &str = "encoder.weight";
const DECODER: &str = "decoder.weight";
const DECODER_BIAS: &str = "decoder.bias";

const OTHER_NAMES: &str = "say what the names in the file are with --prefix and --map, for example --map rnn=lstm";
const OTHER_MODEL: &str = "Bowline's models are an nn.Embedding, an nn.LSTM of the same size, and an nn.Linear";

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
            let known = ["encoder", "rnn", "decoder"].contains(&ours.split('.').next().unwrap_or_default());
            if !known {
                return Err(wrong(format!("`{}` begins with none of `encoder`, `rnn`, `decoder`", printable(ours))));
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
    /// The safetensors file.
    pub weights: &'a Path,
    /// One word per line, in the order of the word vectors.
    pub vocabulary: &'a Path,
    /// How the tensors are called in it.
    pub names: Names,
    /// `vd-lstm`, `al`, `re` or `real`; without it `re` for a tied model and `vd-lstm` for another.
    pub model: Option<&'a str>,
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

/// Makes the model folder `out`, which must not hold anything yet.
pub fn import(request: &Request<'_>, out: &Path) -> Result<Imported> {
    if out.is_file() || fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        let advice = "an --out that does not exist yet, or an empty folder";
        return Err(Error::run(out, "there is something here already", advice));
    }
    let file = TensorFile::read_foreign(request.weights)?;
    let source = Source { path: request.weights, names: &request.names, file: &file };
    let (vocab, hidden) = source.embedding_sizes()?;
    let layers = source.layers(hidden)?;
    let words = vocabulary(request, &source, (vocab, hidden))?;
    let (tied, mut notes) = source.classifier(vocab, hidden, request.model)?;
    let spec = ModelSpec::paper(vocab, hidden, layers, tied);
    source.expect_no_more(layers)?;

    let mut params = Params::zeros(&spec);
    for tensor in spec.layout().tensors() {
        source.read(tensor, &mut params.data_mut()[tensor.range()])?;
    }
    let model = request.model.unwrap_or(if tied { "re" } else { "vd-lstm" });
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
    let words = Vocabulary::read(path)?;
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

    /// Counts the layers and checks that each is an LSTM of size d on d.
    fn layers(&self, d: usize) -> Result<usize> {
        self.required("rnn.weight_ih_l0")?;
        let mut layers = 0;
        while self.shape(&format!("rnn.weight_ih_l{layers}")).is_some() {
            if layers == MOST_LAYERS as usize {
                let problem = format!("the file has more than {MOST_LAYERS} layers, the most that a model can have");
                return Err(self.wrong(&format!("rnn.weight_ih_l{layers}"), problem, OTHER_MODEL));
            }
            self.check_layer(layers, d)?;
            layers += 1;
        }
        Ok(layers)
    }

    fn check_layer(&self, layer: usize, d: usize) -> Result<()> {
        let named = |what: &str| format!("rnn.{what}_l{layer}");
        for (tensor, what) in [
            (format!("rnn.weight_ih_l{layer}_reverse"), "it is of an LSTM that reads in both directions"),
            (named("weight_hr"), "it is of an LSTM with a projection (`proj_size`)"),
        ] {
            if self.shape(&tensor).is_some() {
                return Err(self.wrong(&tensor, format!("{what}, which Bowline's models have not"), OTHER_MODEL));
            }
        }
        let hh = named("weight_hh");
        let &[rows, h] = self.required(&hh)? else {
            let problem = format!("its shape is {:?}, it should be {:?}", self.required(&hh)?, [4 * d, d]);
            return Err(self.wrong(&hh, problem, OTHER_MODEL));
        };
        let unit = [(3, "GRU: three gates"), (1, "plain RNN: no gates")];
        if let Some((_, unit)) = unit.iter().find(|(gates, _)| rows == gates * h) {
            let problem = format!("its shape is {:?}, that of a {unit}; an LSTM has four, {:?}", [rows, h], [4 * h, h]);
            return Err(self.wrong(&hh, problem, OTHER_MODEL));
        }
        if h != d && rows == 4 * h {
            let (name, sizes) = (printable(&self.embedding_name()), self.embedding_sizes()?);
            let problem = format!(
                "its shape is {:?}, so a state has {h} values, but a word vector has {d} (`{name}` is {:?}); in \
                 Bowline's models the two have one size",
                [rows, h],
                [sizes.0, sizes.1]
            );
            let advice = "train it with word vectors and states of one size (--emsize and --nhid of PyTorch's example)";
            return Err(self.wrong(&hh, problem, advice));
        }
        self.check(&hh, &[4 * d, d], "four gates for each of the state's values")?;
        let on = if layer == 0 { "an LSTM on the word vectors" } else { "an LSTM on the layer below" };
        self.check(&named("weight_ih"), &[4 * d, d], on)?;
        for bias in ["bias_ih", "bias_hh"] {
            self.check(&named(bias), &[4 * d], "four gates for each of the state's values")?;
        }
        Ok(())
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
        let mut known: BTreeSet<String> = [ENCODER, DECODER, DECODER_BIAS].map(|ours| self.theirs(ours)).into();
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
