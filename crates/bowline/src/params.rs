//! All weights of a model in one flat buffer with named views; gradients have the same type.

use crate::architecture::{Architecture, Tensor};
use bowline_kernels::Buffer;
use std::ops::Range;

/// A value for every trainable weight: the weights themselves, or their gradient.
#[derive(Clone, Debug)]
pub struct Params {
    architecture: Architecture,
    tensors: Vec<Tensor>,
    data: Buffer,
}

/// The weights of one LSTM layer, or their gradient.
pub struct LayerParams<'a> {
    /// Input to gates, (4d, d).
    pub w_ih: &'a [f32],
    /// State to gates, (4d, d).
    pub w_hh: &'a [f32],
    /// Bias of the gates, (4d).
    pub bias: &'a [f32],
}

/// [`LayerParams`] for writing.
pub struct LayerParamsMut<'a> {
    /// Input to gates, (4d, d).
    pub w_ih: &'a mut [f32],
    /// State to gates, (4d, d).
    pub w_hh: &'a mut [f32],
    /// Bias of the gates, (4d).
    pub bias: &'a mut [f32],
}

impl Params {
    /// All zeros.
    pub fn zeros(architecture: Architecture) -> Params {
        let tensors = architecture.tensors();
        Params { architecture, data: Buffer::zeros(architecture.parameters()), tensors }
    }

    /// What the model is made of.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The tensors, in the order of the flat buffer.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The flat buffer.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// The flat buffer, for writing.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// The values of a tensor of [`Params::tensors`].
    pub fn get(&self, tensor: &Tensor) -> &[f32] {
        &self.data[tensor.range()]
    }

    /// The word vectors, (V, d): the rows are the columns of the paper's `L`.
    pub fn embedding(&self) -> &[f32] {
        let a = self.architecture;
        &self.data[..a.vocab * a.hidden]
    }

    /// The word vectors, for writing.
    pub fn embedding_mut(&mut self) -> &mut [f32] {
        let a = self.architecture;
        &mut self.data[..a.vocab * a.hidden]
    }

    /// One LSTM layer.
    pub fn layer(&self, layer: usize) -> LayerParams<'_> {
        let (d, at) = (self.architecture.hidden, self.layer_offset(layer));
        let (w_ih, rest) = self.data[at..].split_at(4 * d * d);
        let (w_hh, rest) = rest.split_at(4 * d * d);
        LayerParams { w_ih, w_hh, bias: &rest[..4 * d] }
    }

    /// Where one LSTM layer's `w_ih`, `w_hh` and `bias` are in the flat buffer.
    pub fn layer_ranges(&self, layer: usize) -> [Range<usize>; 3] {
        let (matrix, at) = (4 * self.architecture.hidden.pow(2), self.layer_offset(layer));
        let end = self.layer_offset(layer + 1);
        [at..at + matrix, at + matrix..at + 2 * matrix, at + 2 * matrix..end]
    }

    /// One LSTM layer, for writing.
    pub fn layer_mut(&mut self, layer: usize) -> LayerParamsMut<'_> {
        let (d, at) = (self.architecture.hidden, self.layer_offset(layer));
        let (w_ih, rest) = self.data[at..].split_at_mut(4 * d * d);
        let (w_hh, rest) = rest.split_at_mut(4 * d * d);
        LayerParamsMut { w_ih, w_hh, bias: &mut rest[..4 * d] }
    }

    /// The classifier's matrix `W`, (V, d): the embedding itself when tied.
    pub fn classifier(&self) -> &[f32] {
        let a = self.architecture;
        if a.tied {
            return self.embedding();
        }
        let at = self.layer_offset(a.layers);
        &self.data[at..at + a.vocab * a.hidden]
    }

    /// The classifier's bias `b`, (V), where there is one.
    pub fn classifier_bias(&self) -> Option<&[f32]> {
        let a = self.architecture;
        (!a.tied).then(|| &self.data[self.layer_offset(a.layers) + a.vocab * a.hidden..])
    }

    /// The classifier for writing: its matrix and, when untied, its bias.
    pub fn classifier_mut(&mut self) -> (&mut [f32], Option<&mut [f32]>) {
        let a = self.architecture;
        if a.tied {
            return (self.embedding_mut(), None);
        }
        let at = self.layer_offset(a.layers);
        let (w, b) = self.data[at..].split_at_mut(a.vocab * a.hidden);
        (w, Some(b))
    }

    fn layer_offset(&self, layer: usize) -> usize {
        let d = self.architecture.hidden;
        self.architecture.vocab * d + layer * (8 * d * d + 4 * d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_the_named_tensors() {
        for tied in [true, false] {
            let mut p = Params::zeros(Architecture { vocab: 5, hidden: 3, layers: 2, tied });
            for (i, x) in p.data_mut().iter_mut().enumerate() {
                *x = i as f32;
            }
            let named = |name: &str| p.get(p.tensors().iter().find(|t| t.name == name).unwrap());
            assert_eq!(p.embedding(), named("encoder.weight"));
            for l in 0..2 {
                assert_eq!(p.layer(l).w_ih, named(&format!("rnn.weight_ih_l{l}")));
                assert_eq!(p.layer(l).w_hh, named(&format!("rnn.weight_hh_l{l}")));
                assert_eq!(p.layer(l).bias, named(&format!("rnn.bias_l{l}")));
                let parts = [p.layer(l).w_ih, p.layer(l).w_hh, p.layer(l).bias];
                assert_eq!(p.layer_ranges(l).map(|range| &p.data()[range]), parts);
            }
            assert_eq!(p.classifier(), named(if tied { "encoder.weight" } else { "decoder.weight" }));
            assert_eq!(p.classifier_bias(), (!tied).then(|| named("decoder.bias")));
        }
    }
}
