//! Where each tensor lies in the flat vector of weights, found by its name.

use bowline::architecture::Architecture;
use std::ops::Range;

/// The places of all tensors.
pub struct Layout {
    /// Number of words, `V`.
    pub vocab: usize,
    /// Size of a vector, `d`.
    pub hidden: usize,
    /// (V, d): row `i` is column `i` of the paper's `L`.
    pub embedding: Range<usize>,
    /// The LSTM layers from below.
    pub layers: Vec<LayerLayout>,
    /// The classifier's `W`, (V, d): the embedding itself when tied.
    pub classifier: Range<usize>,
    /// The classifier's `b`, (V); none when tied.
    pub bias: Option<Range<usize>>,
}

/// The places of one LSTM layer's tensors; the rows are the gates i, f, g, o, each of size d.
pub struct LayerLayout {
    /// (4d, d).
    pub w_ih: Range<usize>,
    /// (4d, d).
    pub w_hh: Range<usize>,
    /// (4d).
    pub bias: Range<usize>,
}

impl Layout {
    /// The places of the tensors of a model.
    pub fn new(architecture: Architecture) -> Layout {
        let place = |name: &str| find(architecture, name).unwrap_or_else(|| panic!("no tensor is named {name}"));
        let layer = |l: usize| LayerLayout {
            w_ih: place(&format!("rnn.weight_ih_l{l}")),
            w_hh: place(&format!("rnn.weight_hh_l{l}")),
            bias: place(&format!("rnn.bias_l{l}")),
        };
        Layout {
            vocab: architecture.vocab,
            hidden: architecture.hidden,
            embedding: place("encoder.weight"),
            layers: (0..architecture.layers).map(layer).collect(),
            classifier: place(if architecture.tied { "encoder.weight" } else { "decoder.weight" }),
            bias: find(architecture, "decoder.bias"),
        }
    }

    /// The place of a word's vector.
    pub fn word_range(&self, word: u32) -> Range<usize> {
        assert!((word as usize) < self.vocab, "word {word} is outside the vocabulary of {}", self.vocab);
        let start = self.embedding.start + word as usize * self.hidden;
        start..start + self.hidden
    }

    /// A word's vector.
    pub fn word_vector<'a>(&self, params: &'a [f64], word: u32) -> &'a [f64] {
        &params[self.word_range(word)]
    }
}

fn find(architecture: Architecture, name: &str) -> Option<Range<usize>> {
    architecture.tensors().iter().find(|t| t.name == name).map(|t| t.range())
}
