//! What a model is made of: sizes and ties, and from them the name, shape and place of every tensor.

use serde::{Deserialize, Serialize};

/// The sizes and ties of a model. Together with the tensors it names it is the whole model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Number of words, `|V|`.
    pub vocab: usize,
    /// Size of a word vector and of each layer's state, `d = d_x = d_h`.
    pub hidden: usize,
    /// Number of LSTM layers, one above the other.
    pub layers: usize,
    /// Whether the classifier reuses the embedding: `W = L^T`, `b = 0` (section 4 of the paper).
    pub tied: bool,
}

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
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }
}

impl Architecture {
    /// Every tensor in the order of the flat buffer: embedding, the layers from below, then the classifier if it is
    /// not the embedding. Gates are in the order i, f, g, o.
    pub fn tensors(&self) -> Vec<Tensor> {
        let (v, d) = (self.vocab, self.hidden);
        let mut specs = vec![("encoder.weight".to_owned(), vec![v, d])];
        for layer in 0..self.layers {
            specs.push((format!("rnn.weight_ih_l{layer}"), vec![4 * d, d]));
            specs.push((format!("rnn.weight_hh_l{layer}"), vec![4 * d, d]));
            specs.push((format!("rnn.bias_l{layer}"), vec![4 * d]));
        }
        if !self.tied {
            specs.push(("decoder.weight".to_owned(), vec![v, d]));
            specs.push(("decoder.bias".to_owned(), vec![v]));
        }
        let mut offset = 0;
        specs
            .into_iter()
            .map(|(name, shape)| {
                let tensor = Tensor { name, shape, offset };
                offset += tensor.len();
                tensor
            })
            .collect()
    }

    /// Number of trainable values.
    pub fn parameters(&self) -> usize {
        let (v, d) = (self.vocab, self.hidden);
        let classifier = if self.tied { 0 } else { v * d + v };
        v * d + self.layers * (8 * d * d + 4 * d) + classifier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_sizes_have_the_paper_s_parameter_counts() {
        let millions = |hidden, tied| {
            let a = Architecture { vocab: 10_000, hidden, layers: 2, tied };
            let sum: usize = a.tensors().iter().map(Tensor::len).sum();
            assert_eq!(sum, a.parameters());
            (sum as f64 / 1e4).round() / 100.0
        };
        assert_eq!((millions(200, false), millions(200, true)), (4.65, 2.64));
        assert_eq!((millions(650, false), millions(650, true)), (19.78, 13.27));
        assert_eq!((millions(1500, false), millions(1500, true)), (66.02, 51.01));
    }
}
