//! The layers and what a unit of them computes.

use bowline_kernels::recurrent;
use serde::{Deserialize, Serialize};

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
