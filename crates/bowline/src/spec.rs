//! What a model is made of: how words come in, the layers above each other, how the next word is predicted.

mod check;
mod unit;

use crate::characters::CharactersSpec;
use crate::layout::Layout;
use crate::topics::TopicsSpec;
use serde::{Deserialize, Serialize};

pub(crate) use unit::Levels;
pub use unit::{Activation, LayerSpec, Unit};

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

    /// The `hidden`, `layers` and `tied` of a network that [`ModelSpec::paper`] can make.
    pub fn as_paper(&self) -> Option<(usize, usize, bool)> {
        let (hidden, layers, tied) = (self.input.width, self.layers.len(), self.output.tied);
        (*self == ModelSpec::paper(self.vocab, hidden, layers, tied)).then_some((hidden, layers, tied))
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
