//! Where each tensor lies in the flat vector of weights, found by its name.

use bowline::spec::ModelSpec;
use std::ops::Range;

/// The places of all tensors.
pub struct Layout {
    tensors: Vec<(String, Range<usize>)>,
    /// Number of words, `V`.
    pub vocab: usize,
    /// Size of a word vector.
    pub words: usize,
    /// Size of what the classifier sees.
    pub seen: usize,
    /// (V, words): row `i` is column `i` of the paper's `L`; nothing where words are read by their characters.
    pub embedding: Range<usize>,
    /// The classifier's `W`, (V, seen): the embedding itself when tied.
    pub classifier: Range<usize>,
    /// The classifier's `b`, (V).
    pub bias: Option<Range<usize>>,
}

impl Layout {
    /// The places of the tensors of a model.
    pub fn new(spec: &ModelSpec) -> Layout {
        let tensors: Vec<_> = spec.layout().tensors().iter().map(|t| (t.name.clone(), t.range())).collect();
        let find = |name: &str| tensors.iter().find(|(n, _)| n == name).map(|(_, range)| range.clone());
        let place = |name: &str| find(name).unwrap_or_else(|| panic!("no tensor is named {name}"));
        Layout {
            vocab: spec.vocab,
            words: spec.input.width,
            seen: spec.width(),
            embedding: find("encoder.weight").unwrap_or(0..0),
            classifier: place(if spec.output.tied { "encoder.weight" } else { "decoder.weight" }),
            bias: find("decoder.bias"),
            tensors,
        }
    }

    /// The place of a tensor that there must be.
    pub fn place(&self, name: &str) -> Range<usize> {
        self.find(name).unwrap_or_else(|| panic!("no tensor is named {name}"))
    }

    /// The place of a tensor.
    pub fn find(&self, name: &str) -> Option<Range<usize>> {
        self.tensors.iter().find(|(n, _)| n == name).map(|(_, range)| range.clone())
    }

    /// The place of a word's vector.
    pub fn word_range(&self, word: u32) -> Range<usize> {
        assert!((word as usize) < self.vocab, "word {word} is outside the vocabulary of {}", self.vocab);
        let start = self.embedding.start + word as usize * self.words;
        start..start + self.words
    }

    /// A word's vector.
    pub fn word_vector<'a>(&self, params: &'a [f64], word: u32) -> &'a [f64] {
        &params[self.word_range(word)]
    }
}
