//! The settings of the network and of how its weights start.

use super::Config;
use crate::characters::CharactersSpec;
use crate::spec::{
    Activation, InputSpec, LayerSpec, MixtureSpec, ModelSpec, OutputSpec, PointerSpec, ProjectionSpec, Unit,
};
use crate::topics::TopicsSpec;
use serde::{Deserialize, Serialize};

/// The units by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitName {
    /// [`Unit::Lstm`].
    #[default]
    Lstm,
    /// [`Unit::Gru`].
    Gru,
    /// [`Unit::Rnn`].
    Rnn,
    /// [`Unit::Mogrifier`].
    Mogrifier,
    /// [`Unit::Highway`].
    Highway,
    /// [`Unit::Deep`].
    Deep,
}

/// What the network is made of, besides `hidden` and `layers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// What the layers compute.
    pub unit: UnitName,
    /// For `rnn` and `deep`: `tanh`, `sigmoid` or `relu`.
    pub activation: Activation,
    /// For `lstm` and `mogrifier`: the coupled input gate `min(1 - f, i)`.
    pub coupled: bool,
    /// For `highway`: levels of a step.
    pub depth: usize,
    /// For `mogrifier`: how often input and state gate each other before a step.
    #[serde(default = "rounds")]
    pub rounds: usize,
    /// For `mogrifier`: the rank of the matrices between them.
    #[serde(default = "rank")]
    pub rank: usize,
    /// For `rnn` and `deep`: word vectors are added to the first layer's gates without a matrix, a vector for each level.
    #[serde(default)]
    pub direct: bool,
    /// Units of each layer from below, where they are not `layers` times `hidden`.
    pub widths: Vec<usize>,
    /// Size of a word vector; 0 for that of the classifier if it is tied, and otherwise for what a direct layer needs or
    /// `hidden`.
    pub embedding: usize,
    /// Width of the projection under the classifier; 0 for none.
    pub projection: usize,
    /// Of what the projection is a function.
    pub projection_activation: Activation,
    /// Whether the projection has a bias.
    pub projection_bias: bool,
    /// Whether the classifier reuses the embedding. Of the paper's four models the name says it.
    pub tied: bool,
    /// Whether the classifier has a bias, likewise.
    pub bias: bool,
    /// Whether the topics of the last words are features of the network (`topics.*`).
    #[serde(default)]
    pub topics: bool,
    /// Words that a pointer beside the classifier looks back on; 0 for no pointer.
    #[serde(default)]
    pub pointer: usize,
    /// How many of the last words are read side by side; 0 for the last one alone. Then there may be no layers.
    #[serde(default)]
    pub context: usize,
    /// Powers of the polynomial of each word in a sum-product network; 0 for a softmax.
    #[serde(default)]
    pub sum_product: usize,
    /// Classes of the words, each of which is predicted by its class first; 0 for none.
    #[serde(default)]
    pub classes: usize,
    /// How word vectors come from characters; without maps, words have vectors of their own.
    #[serde(default)]
    pub characters: CharactersSpec,
    /// Softmaxes that are mixed, each with a projection of its own.
    #[serde(default = "one")]
    pub softmaxes: usize,
    /// Whether the classifier sees the sum of all layers, and not the last one.
    #[serde(default)]
    pub sum_layers: bool,
}

fn one() -> usize {
    1
}

fn rounds() -> usize {
    5
}

fn rank() -> usize {
    40
}

impl Default for NetworkConfig {
    fn default() -> NetworkConfig {
        NetworkConfig {
            unit: UnitName::Lstm,
            activation: Activation::Tanh,
            coupled: false,
            depth: 1,
            rounds: rounds(),
            rank: rank(),
            direct: false,
            widths: Vec::new(),
            embedding: 0,
            projection: 0,
            projection_activation: Activation::Linear,
            projection_bias: false,
            tied: false,
            bias: false,
            topics: false,
            pointer: 0,
            context: 0,
            sum_product: 0,
            classes: 0,
            characters: CharactersSpec::default(),
            softmaxes: 1,
            sum_layers: false,
        }
    }
}

/// How the weights start, besides `init` and `classifier_init`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartConfig {
    /// Normal with the variance 1 / fan_in, instead of uniform within `init`. The fan-in of a word vector is its size.
    pub fan_in: bool,
    /// Biases too, instead of 0. Not those of the gates below.
    pub biases: bool,
    /// The bias of an LSTM's forget gates.
    pub forget_bias: f32,
    /// The bias of a highway's transform gates; that of a highway over characters is added to what it starts at otherwise.
    pub transform_bias: f32,
    /// The folder of a model, or of its run, whose weights are taken instead; empty for none.
    #[serde(default)]
    pub model: String,
    /// What tells those weights from others; filled in when the run begins.
    #[serde(default)]
    pub model_sha256: String,
}

impl Config {
    /// Takes the settings of the network from a model. What these settings cannot say is an error, in words.
    pub fn take_network(&mut self, spec: &ModelSpec) -> Result<(), String> {
        let Some(first) = spec.layers.first() else { return Err("a model without layers".to_owned()) };
        let network = &mut self.network;
        (network.unit, network.activation, network.coupled, network.depth) = match first.unit {
            Unit::Lstm { coupled } => (UnitName::Lstm, network.activation, coupled, 1),
            Unit::Mogrifier { coupled, rounds, rank } => {
                (network.rounds, network.rank) = (rounds, rank);
                (UnitName::Mogrifier, network.activation, coupled, 1)
            }
            Unit::Gru => (UnitName::Gru, network.activation, false, 1),
            Unit::Rnn { activation } => (UnitName::Rnn, activation, false, 1),
            Unit::Highway { depth } => (UnitName::Highway, network.activation, false, depth),
            Unit::Deep { activation } => (UnitName::Deep, activation, false, 1),
        };
        (self.hidden, self.layers) = (first.units, spec.layers.len());
        network.direct = first.direct;
        let equal = spec.layers.iter().all(|layer| layer.units == first.units);
        network.widths = if equal { Vec::new() } else { spec.layers.iter().map(|layer| layer.units).collect() };
        network.embedding = spec.input.width;
        network.projection = spec.output.projection.as_ref().map_or(0, |projection| projection.width);
        if let Some(projection) = &spec.output.projection {
            (network.projection_activation, network.projection_bias) = (projection.activation, projection.bias);
        }
        network.pointer = spec.output.pointer.map_or(0, |pointer| pointer.window);
        network.softmaxes = spec.softmaxes();
        network.sum_layers = spec.output.sum_layers;
        network.topics = spec.input.topics.is_some();
        (network.context, network.sum_product) =
            (spec.input.context.unwrap_or(0), spec.output.sum_product.unwrap_or(0));
        network.classes = spec.output.classes.unwrap_or(0);
        network.characters = spec.input.characters.clone().unwrap_or_default();
        if self.model.paper_tied().is_none() {
            (self.network.tied, self.network.bias) = (spec.output.tied, spec.output.bias);
        }
        if spec.input.topics.is_some() {
            return Err("a network with topics, which belong to the words of their own text".to_owned());
        }
        if spec.input.characters.is_some() {
            return Err("a network that reads characters, which are those of the words of its own text".to_owned());
        }
        if spec.output.classes.is_some() {
            return Err("a network with classes, which belong to the words of their own text".to_owned());
        }
        if self.spec(spec.vocab) != *spec {
            return Err(format!("a network that `{}` cannot be", self.model.name()));
        }
        Ok(())
    }

    /// Whether the classifier reuses the embedding.
    pub fn tied(&self) -> bool {
        self.model.paper_tied().unwrap_or(self.network.tied)
    }

    /// What the model will be made of, given the number of words.
    pub fn spec(&self, vocab: usize) -> ModelSpec {
        let network = &self.network;
        let unit = match network.unit {
            UnitName::Lstm => Unit::Lstm { coupled: network.coupled },
            UnitName::Mogrifier => {
                Unit::Mogrifier { coupled: network.coupled, rounds: network.rounds, rank: network.rank }
            }
            UnitName::Gru => Unit::Gru,
            UnitName::Rnn => Unit::Rnn { activation: network.activation },
            UnitName::Highway => Unit::Highway { depth: network.depth },
            UnitName::Deep => Unit::Deep { activation: network.activation },
        };
        let equal = vec![self.hidden; self.layers];
        let widths = if network.widths.is_empty() { &equal } else { &network.widths };
        let tied = self.tied();
        let projection = (network.projection > 0).then_some(ProjectionSpec {
            width: network.projection,
            activation: network.projection_activation,
            bias: network.projection_bias,
        });
        let seen = projection.as_ref().map_or(widths.last().copied().unwrap_or(0), |projection| projection.width);
        let layer = |(l, &units): (usize, &usize)| LayerSpec { direct: network.direct && l == 0, unit, units };
        let layers: Vec<LayerSpec> = widths.iter().enumerate().map(layer).collect();
        let characters = Some(&network.characters).filter(|characters| !characters.maps.is_empty()).cloned();
        let width = match network.embedding {
            0 if characters.is_some() => network.characters.outputs(),
            0 if network.direct && !tied => layers.first().map_or(0, LayerSpec::direct_inputs),
            0 if tied => seen,
            0 => self.hidden,
            width => width,
        };
        let topics = network.topics.then_some(TopicsSpec { count: self.topics.count, window: self.topics.window });
        let bias = self.model.paper_tied().map_or(network.bias, |tied| !tied);
        let sum_product = (network.sum_product > 0).then_some(network.sum_product);
        let classes = (network.classes > 0).then_some(network.classes);
        let context = (network.context > 0).then_some(network.context);
        let pointer = (network.pointer > 0).then_some(PointerSpec { window: network.pointer });
        let mixture = (network.softmaxes != 1).then_some(MixtureSpec { softmaxes: network.softmaxes });
        let sum_layers = network.sum_layers;
        let output = OutputSpec { projection, tied, bias, pointer, mixture, sum_product, classes, sum_layers };
        ModelSpec { vocab, input: InputSpec { width, topics, characters, context }, layers, output }
    }
}
