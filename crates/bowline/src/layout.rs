//! Where the tensors of a model are: each part declares its own and keeps the [`TensorId`] it gets. Nothing else in the
//! program knows an offset.

use crate::characters::CharactersSpec;
use crate::spec::{LayerSpec, Levels, ModelSpec, Unit};
use std::ops::Range;

/// One tensor of a model: its name, its shape, and where it lies in the flat buffer of [`crate::params::Params`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// PyTorch's name for it, except that the two biases of an LSTM layer are one: `rnn.bias_l0`.
    pub name: String,
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// Index of its first element in the flat buffer.
    pub offset: usize,
}

impl Tensor {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no element at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its place in the flat buffer.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// A tensor of a [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorId(usize);

impl TensorId {
    /// Its number in [`Layout::tensors`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// The tensors of a recurrent layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerTensors {
    /// One level, or more for a unit with several recurrent matrices in a step ([`bowline_kernels::recurrent`]).
    pub levels: Vec<LevelTensors>,
    /// A bias of the products with the state alone, (G d), of a layer with one level.
    pub product_bias: Option<TensorId>,
    /// From the state of the step before straight to the last level, (G d, d).
    pub shortcut: Option<TensorId>,
    /// The rounds of a Mogrifier.
    pub rounds: Vec<RoundTensors>,
}

/// The tensors of a round, in which a vector of `from` values gates one of `to`; `k` is the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTensors {
    /// (k, from).
    pub down: TensorId,
    /// (to, k).
    pub up: TensorId,
    /// (to).
    pub bias: TensorId,
}

/// The tensors of a level; `G` gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelTensors {
    /// From the inputs to the gates, (G d, d_x), where they enter at this level through a matrix.
    pub w_ih: Option<TensorId>,
    /// From the state to the gates, (G d, d).
    pub w_hh: TensorId,
    /// Bias of the gates, (G d).
    pub bias: TensorId,
}

/// The tensors of the output projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectionTensors {
    /// (p, d).
    pub weight: TensorId,
    /// (p).
    pub bias: Option<TensorId>,
}

/// The tensors of the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerTensors {
    /// `Q`, (d, d).
    pub query: TensorId,
    /// `b`, (d).
    pub bias: TensorId,
    /// The sentinel, (1, d).
    pub sentinel: TensorId,
}

/// The tensors that make a word vector of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharacterTensors {
    /// The vectors of the symbols, (S, c).
    pub vectors: TensorId,
    /// Each convolution: width, number of maps, the weights (m, 1, k, c), as those of PyTorch's `Conv2d`, and the bias (m).
    pub convolutions: Vec<(usize, usize, TensorId, TensorId)>,
    /// Each layer of the highway: the transform gate, and what it lets in.
    pub highways: Vec<[ProjectionTensors; 2]>,
}

/// The tensors of the polynomials of a sum-product network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumProductTensors {
    /// (V, K).
    pub weight: TensorId,
    /// (V).
    pub bias: TensorId,
}

/// All tensors, in the order of the flat buffer: embedding, the layers from below, projection, classifier, pointer, the shares
/// of the softmaxes, polynomials, classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    /// The word vectors, (V, d_x), or the vectors of characters.
    pub embedding: TensorId,
    /// What makes word vectors of those, where words are read by their characters.
    pub characters: Option<CharacterTensors>,
    /// The layers, from below.
    pub layers: Vec<LayerTensors>,
    /// The projection.
    pub projection: Option<ProjectionTensors>,
    /// The classifier's matrix, (V, d): the embedding when tied.
    pub classifier: TensorId,
    /// The classifier's bias, (V).
    pub classifier_bias: Option<TensorId>,
    /// The pointer.
    pub pointer: Option<PointerTensors>,
    /// The polynomials of a sum-product network.
    pub sum_product: Option<SumProductTensors>,
    /// The classes of the words, (K, d).
    pub classes: Option<TensorId>,
    /// `W_pi`, (K, d): the shares of the softmaxes that are mixed.
    pub prior: Option<TensorId>,
}

impl Layout {
    /// The tensors of a model.
    pub fn of(spec: &ModelSpec) -> Layout {
        let mut all = Declared(Vec::new());
        let characters = spec.input.characters.as_ref().map(|characters| CharacterTensors::of(characters, &mut all));
        let embedding = match &characters {
            Some(characters) => characters.vectors,
            None => all.declare("encoder.weight", &[spec.vocab, spec.input.width]),
        };
        let layers = spec
            .layers
            .iter()
            .enumerate()
            .map(|(l, layer)| LayerTensors::of(layer, l, spec.inputs(l), &mut all))
            .collect();
        let projection = spec.output.projection.as_ref().map(|projection| ProjectionTensors {
            weight: all.declare("projection.weight", &[spec.projected(), spec.inputs(spec.layers.len())]),
            bias: projection.bias.then(|| all.declare("projection.bias", &[spec.projected()])),
        });
        let classifier =
            if spec.output.tied { embedding } else { all.declare("decoder.weight", &[spec.vocab, spec.width()]) };
        let classifier_bias = spec.output.bias.then(|| all.declare("decoder.bias", &[spec.vocab]));
        let d = spec.width();
        let pointer = spec.output.pointer.map(|_| PointerTensors {
            query: all.declare("pointer.query.weight", &[d, d]),
            bias: all.declare("pointer.query.bias", &[d]),
            sentinel: all.declare("pointer.sentinel", &[1, d]),
        });
        let of_prior = [spec.softmaxes(), spec.inputs(spec.layers.len())];
        let prior = spec.output.mixture.map(|_| all.declare("prior.weight", &of_prior));
        let sum_product = spec.output.sum_product.map(|powers| SumProductTensors {
            weight: all.declare("sum_product.weight", &[spec.vocab, powers]),
            bias: all.declare("sum_product.bias", &[spec.vocab]),
        });
        let classes = spec.output.classes.map(|classes| all.declare("classes.weight", &[classes, d]));
        Layout {
            tensors: all.0,
            embedding,
            characters,
            layers,
            projection,
            classifier,
            classifier_bias,
            pointer,
            sum_product,
            classes,
            prior,
        }
    }

    /// The tensors, in the order of the flat buffer.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Where a tensor is in the flat buffer.
    pub fn range(&self, id: TensorId) -> Range<usize> {
        self.tensors[id.0].range()
    }

    /// Length of the flat buffer.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |last| last.range().end)
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The tensors that have been declared so far.
struct Declared(Vec<Tensor>);

impl Declared {
    fn declare(&mut self, name: impl Into<String>, shape: &[usize]) -> TensorId {
        let offset = self.0.last().map_or(0, |last| last.range().end);
        self.0.push(Tensor { name: name.into(), shape: shape.to_vec(), offset });
        TensorId(self.0.len() - 1)
    }
}

impl CharacterTensors {
    fn of(spec: &CharactersSpec, all: &mut Declared) -> CharacterTensors {
        let (c, d) = (spec.width, spec.outputs());
        let vectors = all.declare("characters.weight", &[spec.symbols, c]);
        let convolutions = spec.convolutions().enumerate().map(|(i, (width, maps))| {
            let weight = all.declare(format!("characters.convolutions.{i}.weight"), &[maps, 1, width, c]);
            (width, maps, weight, all.declare(format!("characters.convolutions.{i}.bias"), &[maps]))
        });
        let convolutions = convolutions.collect();
        let highway = |i: usize| {
            ["transform", "candidate"].map(|part| ProjectionTensors {
                weight: all.declare(format!("characters.highways.{i}.{part}.weight"), &[d, d]),
                bias: Some(all.declare(format!("characters.highways.{i}.{part}.bias"), &[d])),
            })
        };
        CharacterTensors { vectors, convolutions, highways: (0..spec.highways).map(highway).collect() }
    }
}

impl LayerTensors {
    /// The gates are in the order of the unit's equations. A layer with one level has PyTorch's names.
    fn of(layer: &LayerSpec, l: usize, inputs: usize, all: &mut Declared) -> LayerTensors {
        let (d, rows) = (layer.units, layer.unit.kernel().gates() * layer.units);
        let Levels { levels, module, entered, shortcut } = layer.unit.levels();
        let own_bias = layer.unit.has_product_bias();
        let name = |what: &str, k: usize| match levels {
            1 => format!("{module}.{what}_l{l}"),
            _ => format!("{module}.{what}_l{l}_d{k}"),
        };
        let level = |k: usize| LevelTensors {
            w_ih: (k < entered && !layer.direct).then(|| all.declare(name("weight_ih", k), &[rows, inputs])),
            w_hh: all.declare(name("weight_hh", k), &[rows, d]),
            bias: all.declare(name(if own_bias { "bias_ih" } else { "bias" }, k), &[rows]),
        };
        let levels = (0..levels).map(level).collect();
        let product_bias = own_bias.then(|| all.declare(name("bias_hh", 0), &[rows]));
        let shortcut = shortcut.then(|| all.declare(format!("{module}.shortcut_l{l}"), &[rows, d]));
        let round = |(r, rank): (usize, usize)| {
            let (from, to) = if r % 2 == 0 { (d, inputs) } else { (inputs, d) };
            RoundTensors {
                down: all.declare(format!("mogrifier.down_l{l}_r{r}"), &[rank, from]),
                up: all.declare(format!("mogrifier.up_l{l}_r{r}"), &[to, rank]),
                bias: all.declare(format!("mogrifier.bias_l{l}_r{r}"), &[to]),
            }
        };
        let (rounds, rank) =
            if let Unit::Mogrifier { rounds, rank, .. } = layer.unit { (rounds, rank) } else { (0, 0) };
        let rounds = (0..rounds).map(|r| (r, rank)).map(round).collect();
        LayerTensors { levels, product_bias, shortcut, rounds }
    }
}
