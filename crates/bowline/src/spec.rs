//! What a model is made of: how words come in, the layers above each other, how the next word is predicted.

use crate::characters::CharactersSpec;
use crate::layout::Layout;
use crate::topics::TopicsSpec;
use bowline_kernels::recurrent;
use serde::{Deserialize, Serialize};

/// Far above any model this program can train, and small enough that no product of them overflows.
pub(crate) const MOST_WORDS: usize = 1 << 24;
const MOST_UNITS: usize = 1 << 16;
const MOST_LAYERS: usize = 64;
/// The most powers of a word's polynomial.
pub(crate) const MOST_POWERS: usize = bowline_kernels::polynomial::MOST_POWERS;
const MOST_SOFTMAXES: usize = 1024;

/// A model, but for the values of its weights. The tensors, the state and the masks follow from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Number of words, `|V|`.
    pub vocab: usize,
    /// How words come in.
    pub input: InputSpec,
    /// The layers, from below.
    pub layers: Vec<LayerSpec>,
    /// How the next word is predicted.
    pub output: OutputSpec,
}

/// Words come in as vectors: the rows of the embedding, or what their characters give.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSpec {
    /// Size of a word vector, `d_x`.
    pub width: usize,
    /// Topics of the last words, as features beside the word vectors and beside what the classifier sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<TopicsSpec>,
    /// How a word vector comes from the word's characters, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characters: Option<CharactersSpec>,
    /// How many of the last words are read side by side, where it is not the last one alone: a network without memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
}

impl InputSpec {
    /// Word vectors of a size.
    pub fn words(width: usize) -> InputSpec {
        InputSpec { width, ..InputSpec::default() }
    }

    /// Word vectors from characters.
    pub fn characters(spec: CharactersSpec) -> InputSpec {
        InputSpec { width: spec.outputs(), characters: Some(spec), ..InputSpec::default() }
    }
}

/// One recurrent layer. It reads what is below it, so its inputs need no mention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// What it computes.
    pub unit: Unit,
    /// Its units, `d_h`.
    pub units: usize,
    /// Whether its inputs are added to its gates as they are, without a matrix: those of every level where inputs enter, one
    /// after the other. So a word has a vector for each of the levels (Mikolov's U, Pascanu's U_1 and U_2).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub direct: bool,
}

/// What a recurrent layer computes; the equations are in `bowline_kernels::recurrent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Unit {
    /// Long short-term memory (Hochreiter and Schmidhuber 1997), without peepholes.
    Lstm {
        /// Whether the input gate lets in no more than the forget gate makes room for: `min(1 - f, i)`.
        coupled: bool,
    },
    /// The gated recurrent unit (Cho et al. 2014), with PyTorch's equations.
    Gru,
    /// The simple recurrent unit (Elman 1990).
    Rnn {
        /// Of what it is a function.
        activation: Activation,
    },
    /// Long short-term memory whose input and state gate each other before every step (Melis et al. 2020).
    Mogrifier {
        /// As of [`Unit::Lstm`].
        coupled: bool,
        /// How often one gates the other.
        rounds: usize,
        /// The rank of the matrices between them.
        rank: usize,
    },
    /// A recurrent highway network (Zilly et al. 2017).
    Highway {
        /// Its levels: matrices that the state goes through in a step.
        depth: usize,
    },
    /// A deep transition with a shortcut, the lower half of DOT(S)-RNN (Pascanu et al. 2014).
    Deep {
        /// Of what its two levels are functions.
        activation: Activation,
    },
}

/// A function of one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// The number itself.
    Linear,
    /// `tanh x`.
    #[default]
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `max(x, 0)`.
    Relu,
}

/// A layer without recurrence under the classifier, `f(P h + b)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectionSpec {
    /// Width of what it gives.
    pub width: usize,
    /// `f`.
    pub activation: Activation,
    /// Whether there is a `b`.
    pub bias: bool,
}

/// A pointer to the last words beside the classifier (Merity et al. 2017).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointerSpec {
    /// Words that it can point to.
    pub window: usize,
}

/// Several softmaxes in the place of one (Yang et al. 2018): the projection gives each a vector of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixtureSpec {
    /// How many, `K`.
    pub softmaxes: usize,
}

/// The classifier `softmax(W h + b)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// What `h` goes through first.
    pub projection: Option<ProjectionSpec>,
    /// Whether `W` is the embedding (section 4 of the paper).
    pub tied: bool,
    /// Whether there is a `b`.
    pub bias: bool,
    /// What else predicts words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<PointerSpec>,
    /// Whether it is a mixture of softmaxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixture: Option<MixtureSpec>,
    /// The powers of each word's polynomial, where `W h` goes through one and not through `exp`: a sum-product network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_product: Option<usize>,
    /// Classes of the words, where a word is predicted by its class first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Whether `h` is the sum of all layers' outputs, and not the last one's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sum_layers: bool,
}

impl ModelSpec {
    /// The paper's network: `layers` LSTM layers of `hidden` units under a classifier that is the embedding and has no bias,
    /// or has a matrix and a bias of its own.
    pub fn paper(vocab: usize, hidden: usize, layers: usize, tied: bool) -> ModelSpec {
        ModelSpec {
            vocab,
            input: InputSpec::words(hidden),
            layers: vec![LayerSpec::new(Unit::Lstm { coupled: false }, hidden); layers],
            output: OutputSpec { tied, bias: !tied, ..OutputSpec::default() },
        }
    }

    /// What layer `l` reads: the width of the layer below, or of a word vector with its features; for the number of layers, what
    /// they give.
    pub fn inputs(&self, l: usize) -> usize {
        if l == 0 { self.vectors() + self.features() } else { self.layers[l - 1].units }
    }

    /// Width of the vectors of all words that are read side by side.
    pub fn vectors(&self) -> usize {
        self.input.width * self.input.context.unwrap_or(1)
    }

    /// How many of the last words the state remembers, where they are read again.
    pub(crate) fn remembered(&self) -> Option<usize> {
        self.input.topics.map(|topics| topics.window).or(self.input.context)
    }

    /// Features beside the word vectors, and beside what the classifier sees.
    pub fn features(&self) -> usize {
        self.input.topics.map_or(0, |topics| topics.count)
    }

    /// How many softmaxes are mixed: 1 where there is no mixture.
    pub fn softmaxes(&self) -> usize {
        self.output.mixture.map_or(1, |mixture| mixture.softmaxes.max(1))
    }

    /// Width of what the projection gives, to all softmaxes together, or the last layer if there is none.
    pub fn projected(&self) -> usize {
        let one = self.output.projection.as_ref().map_or(self.inputs(self.layers.len()), |projection| projection.width);
        one * self.softmaxes()
    }

    /// Width of what the classifier sees, and of its rows.
    pub fn width(&self) -> usize {
        self.projected() / self.softmaxes() + self.features()
    }

    /// Width of what the network knows after a word ([`crate::model::Network::hidden`]): what the classifier sees, or, where
    /// several softmaxes see different things, the last layer.
    pub fn hidden(&self) -> usize {
        if self.output.mixture.is_some() { self.inputs(self.layers.len()) } else { self.width() }
    }

    /// Whether words outside the vocabulary can be read, by their characters. Topics and a pointer know words by their ids only.
    pub fn reads_any_word(&self) -> bool {
        self.input.characters.is_some() && self.features() == 0 && self.output.pointer.is_none()
    }

    /// Width of a word's *outlook*, all that the distribution of the next word is computed from: what the classifier sees, and
    /// what the pointer points to or what share each softmax has.
    pub fn outlook(&self) -> usize {
        let shares = self.output.mixture.map_or(0, |mixture| mixture.softmaxes);
        self.projected() + self.features() + self.output.pointer.map_or(0, |pointer| 1 + 2 * pointer.window) + shares
    }

    /// The widest of all vectors between the parts.
    pub fn widest(&self) -> usize {
        (0..=self.layers.len()).map(|l| self.inputs(l)).chain([self.width(), self.projected()]).max().unwrap_or(0)
    }

    /// Why the model cannot learn from the text that it reads (dynamic evaluation), where it cannot.
    pub fn cannot_adapt(&self) -> Option<&'static str> {
        let rounds = self.layers.iter().any(|layer| layer.unit.rounds() > 0);
        let reasons = [
            (
                self.output.pointer.is_some(),
                "a model with a pointer cannot learn from the text that it reads: its words depend on each other through the \
                 pointer",
            ),
            (
                self.input.characters.is_some(),
                "a model that reads characters cannot learn from the text that it reads: all its word vectors would move with \
                 every word",
            ),
            (
                self.output.mixture.is_some(),
                "a mixture of softmaxes cannot learn from the text that it reads: dynamic evaluation is for one softmax",
            ),
            (
                self.input.context.is_some() || self.output.sum_product.is_some(),
                "a model that reads words side by side, or a sum-product network, cannot learn from the text that it reads",
            ),
            (
                self.output.classes.is_some(),
                "a model with classes of words cannot learn from the text that it reads: dynamic evaluation is for one softmax",
            ),
            (
                rounds || self.output.sum_layers,
                "a model with rounds of gating or summed layers cannot learn from the text that it reads: dynamic evaluation \
                 is for layers one above the other",
            ),
        ];
        reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, reason)| reason)
    }

    /// Where the tensors are.
    pub fn layout(&self) -> Layout {
        Layout::of(self)
    }

    /// Number of trainable values.
    pub fn parameters(&self) -> usize {
        self.layout().len()
    }

    /// Weights that a word is multiplied with: all matrices, but that word vectors are looked up; the classifier's for every
    /// softmax, and a convolution's at each of its places, as if no word occurred twice. Of classes, a mean one's.
    pub fn products(&self) -> usize {
        let layout = self.layout();
        let matrices: usize = layout.tensors().iter().filter(|t| t.shape.len() > 1).map(|t| t.len()).sum();
        let places = |spec: &CharactersSpec| -> usize {
            let length = spec.length;
            spec.convolutions().map(|(width, maps)| length.saturating_sub(width) * width * spec.width * maps).sum()
        };
        let again = self.input.characters.as_ref().map_or(0, places)
            + (self.softmaxes() - 1) * layout.range(layout.classifier).len();
        let spared = self.output.classes.map_or(0, |classes| (self.vocab - self.vocab / classes.max(1)) * self.width());
        matrices + again - spared - if self.output.tied { 0 } else { layout.range(layout.embedding).len() }
    }

    /// Whether there can be such a model; if not, why.
    pub fn check(&self) -> Result<(), String> {
        let within = |what: &str, n: usize, most: usize| match n {
            0 => Err(format!("{what} is 0")),
            n if n > most => Err(format!("{what} is {n}, and {most} is the most")),
            _ => Ok(()),
        };
        within("the number of words", self.vocab, MOST_WORDS)?;
        within("the width of the word vectors", self.input.width, MOST_UNITS)?;
        if self.input.context.is_none() || !self.layers.is_empty() {
            within("the number of layers", self.layers.len(), MOST_LAYERS)?;
        }
        if let Some(context) = self.input.context {
            within("the number of words read side by side", context, MOST_UNITS)?;
            if self.features() > 0 || self.input.characters.is_some() || self.output.pointer.is_some() {
                return Err("words are read side by side without topics, characters or a pointer".to_owned());
            }
        }
        if let Some(powers) = self.output.sum_product {
            within("the number of powers of a sum-product network", powers, MOST_POWERS)?;
            // Only so are the sums that the polynomials see never below 0.
            if !self.layers.is_empty() || self.output.projection.is_some() || self.features() > 0 {
                return Err(
                    "a sum-product network sees the word vectors as they are, without layers above them".to_owned()
                );
            }
            if self.output.tied || self.output.bias || self.output.pointer.is_some() || self.output.mixture.is_some() {
                return Err("a sum-product network has polynomials, and no tied classifier, bias, pointer or mixture"
                    .to_owned());
            }
        }
        if let Some(classes) = self.output.classes {
            within("the number of classes", classes, self.vocab)?;
            let OutputSpec { tied, bias, pointer, mixture, sum_product, .. } = &self.output;
            if *tied || *bias || pointer.is_some() || mixture.is_some() || sum_product.is_some() {
                return Err(
                    "classes have softmaxes of their own: without a tied classifier, a bias, a pointer, a mixture or \
                            polynomials"
                        .to_owned(),
                );
            }
        }
        if let Some(topics) = self.input.topics {
            within("the number of topics", topics.count, MOST_UNITS)?;
            within("the number of words that topics look back on", topics.window, MOST_UNITS)?;
        }
        if let Some(characters) = &self.input.characters {
            characters.check(MOST_UNITS)?;
            let (made, words) = (characters.outputs(), self.input.width);
            if made != words {
                return Err(format!("the characters give word vectors of {made} values, not of {words}"));
            }
            if self.output.tied {
                return Err("a classifier cannot reuse word vectors that come from characters".to_owned());
            }
        }
        if let Some(pointer) = self.output.pointer {
            within("the number of words that a pointer looks back on", pointer.window, MOST_UNITS)?;
        }
        if let Some(mixture) = self.output.mixture {
            within("the number of softmaxes", mixture.softmaxes, MOST_SOFTMAXES)?;
            if self.output.projection.is_none() {
                return Err("a mixture of softmaxes needs a projection, which gives each of them its vector".to_owned());
            }
            if self.output.pointer.is_some() || self.input.topics.is_some() {
                return Err("a mixture of softmaxes cannot be beside a pointer or topics".to_owned());
            }
        }
        for (l, layer) in self.layers.iter().enumerate() {
            within(&format!("the number of units of layer {l}"), layer.units, MOST_UNITS)?;
            match layer.unit {
                Unit::Rnn { activation: Activation::Linear } | Unit::Deep { activation: Activation::Linear } => {
                    return Err(format!("layer {l} is linear, and needs tanh, sigmoid or relu"));
                }
                Unit::Highway { depth } => within(&format!("the depth of layer {l}"), depth, MOST_LAYERS)?,
                Unit::Mogrifier { rounds, rank, .. } => {
                    within(&format!("the number of rounds of layer {l}"), rounds, MOST_LAYERS)?;
                    let most = self.inputs(l).min(layer.units);
                    within(&format!("the rank of the rounds of layer {l}"), rank, most)?;
                }
                _ => {}
            }
            if layer.direct && !matches!(layer.unit, Unit::Rnn { .. } | Unit::Deep { .. }) {
                return Err(format!("layer {l} is direct, which only simple recurrent and deep layers can be"));
            }
            let (found, needed) = (self.inputs(l), layer.direct_inputs());
            if layer.direct && found != needed {
                return Err(format!(
                    "layer {l} adds its inputs to its gates, so it needs {needed} of them, not {found}"
                ));
            }
        }
        if self.output.sum_layers && self.layers.iter().any(|layer| layer.units != self.layers[0].units) {
            let widths: Vec<usize> = self.layers.iter().map(|layer| layer.units).collect();
            return Err(format!("layers that are summed need one width, and they have {widths:?}"));
        }
        within("the width of what the classifier sees", self.width(), MOST_UNITS)?;
        if self.output.tied && self.width() != self.input.width {
            let (seen, words) = (self.width(), self.input.width);
            return Err(format!("the classifier is tied to word vectors of {words} values, and sees {seen}"));
        }
        Ok(())
    }

    /// The `hidden`, `layers` and `tied` of a network that [`ModelSpec::paper`] can make.
    pub fn as_paper(&self) -> Option<(usize, usize, bool)> {
        let (hidden, layers, tied) = (self.input.width, self.layers.len(), self.output.tied);
        (*self == ModelSpec::paper(self.vocab, hidden, layers, tied)).then_some((hidden, layers, tied))
    }
}

impl Unit {
    /// Its name in prose.
    pub fn title(self) -> &'static str {
        match self {
            Unit::Lstm { coupled: false } => "LSTM",
            Unit::Lstm { coupled: true } => "coupled LSTM",
            Unit::Mogrifier { .. } => "Mogrifier LSTM",
            Unit::Gru => "GRU",
            Unit::Rnn { .. } => "simple recurrent",
            Unit::Highway { .. } => "recurrent highway",
            Unit::Deep { .. } => "deep transition",
        }
    }

    /// What the kernels call it.
    pub(crate) fn kernel(self) -> recurrent::Unit {
        match self {
            Unit::Lstm { coupled: false } | Unit::Mogrifier { coupled: false, .. } => recurrent::Unit::Lstm,
            Unit::Lstm { coupled: true } | Unit::Mogrifier { coupled: true, .. } => recurrent::Unit::CoupledLstm,
            Unit::Gru => recurrent::Unit::Gru,
            Unit::Rnn { activation } | Unit::Deep { activation } => match activation {
                Activation::Linear | Activation::Tanh => recurrent::Unit::RnnTanh,
                Activation::Sigmoid => recurrent::Unit::RnnSigmoid,
                Activation::Relu => recurrent::Unit::RnnRelu,
            },
            Unit::Highway { .. } => recurrent::Unit::Highway,
        }
    }

    /// The levels of a step, how they are called where there are several, and at how many of them the inputs enter.
    pub(crate) fn levels(self) -> Levels {
        match self {
            Unit::Highway { depth } => Levels { levels: depth, module: "highway", entered: 1, shortcut: false },
            Unit::Deep { .. } => Levels { levels: 2, module: "deep", entered: 2, shortcut: true },
            _ => Levels { levels: 1, module: "rnn", entered: 1, shortcut: false },
        }
    }

    /// How often its input and its state gate each other.
    pub(crate) fn rounds(self) -> usize {
        if let Unit::Mogrifier { rounds, .. } = self { rounds } else { 0 }
    }

    /// Whether the products with the state have a bias of their own.
    pub(crate) fn has_product_bias(self) -> bool {
        self.kernel().splits()
    }
}

/// How a step is made of levels ([`bowline_kernels::recurrent`]).
pub(crate) struct Levels {
    pub levels: usize,
    pub module: &'static str,
    pub entered: usize,
    pub shortcut: bool,
}

impl LayerSpec {
    /// A layer whose inputs go through a matrix.
    pub fn new(unit: Unit, units: usize) -> LayerSpec {
        LayerSpec { unit, units, direct: false }
    }

    /// The width of the inputs of a [direct](LayerSpec::direct) layer.
    pub(crate) fn direct_inputs(&self) -> usize {
        self.unit.levels().entered * self.unit.kernel().gates() * self.units
    }

    /// What it carries from one window to the next: names of values, of which it has one for each unit.
    pub fn state(&self) -> &'static [&'static str] {
        match self.unit {
            Unit::Lstm { .. } | Unit::Mogrifier { .. } => &["h", "c"],
            _ => &["h"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_sizes_have_the_paper_s_parameter_counts() {
        let millions = |hidden, tied| {
            let sum = ModelSpec::paper(10_000, hidden, 2, tied).parameters();
            (sum as f64 / 1e4).round() / 100.0
        };
        assert_eq!((millions(200, false), millions(200, true)), (4.65, 2.64));
        assert_eq!((millions(650, false), millions(650, true)), (19.78, 13.27));
        assert_eq!((millions(1500, false), millions(1500, true)), (66.02, 51.01));
    }
}
