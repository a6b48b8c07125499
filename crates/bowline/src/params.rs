//! All weights of a model in one flat buffer with named views; gradients have the same type.

use crate::characters::{self, Spelling};
use crate::classes::{self, WordClasses};
use crate::error::Result;
use crate::layout::{Layout, Tensor, TensorId};
use crate::spec::ModelSpec;
use crate::storage::tensor_file::{TensorFile, TensorFileWriter};
use crate::topics::{self, Topics};
use bowline_kernels::Buffer;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A value for every trainable weight: the weights themselves, their gradient, or what an optimiser remembers of them.
#[derive(Clone, Debug)]
pub struct Params {
    spec: Arc<ModelSpec>,
    layout: Arc<Layout>,
    data: Buffer,
    /// What belongs to the model and is not trained.
    topics: Option<Arc<Topics>>,
    spelling: Option<Arc<Spelling>>,
    classes: Option<Arc<WordClasses>>,
}

/// The weights of a layer with `G` gates for each unit.
pub struct LayerParams<'a> {
    /// Input to gates, (G d, d_x).
    pub w_ih: &'a [f32],
    /// State to gates, (G d, d).
    pub w_hh: &'a [f32],
    /// Bias of the gates, (G d).
    pub bias: &'a [f32],
}

impl Params {
    /// All zeros.
    pub fn zeros(spec: &ModelSpec) -> Params {
        let (layout, vocab) = (spec.layout(), spec.vocab);
        let topics = spec.input.topics.map(|topics| Arc::new(Topics::none(topics, vocab)));
        let spelling = spec.input.characters.as_ref().map(|characters| Arc::new(Spelling::none(characters, vocab)));
        let classes = spec.output.classes.map(|classes| Arc::new(WordClasses::even(classes, vocab)));
        let (data, layout) = (Buffer::zeros(layout.len()), Arc::new(layout));
        Params { spec: Arc::new(spec.clone()), data, layout, topics, spelling, classes }
    }

    /// All zeros, for the same model.
    pub fn zeros_like(&self) -> Params {
        Params { data: Buffer::zeros(self.data.len()), ..self.clone() }
    }

    /// What the model is made of.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// Where the tensors are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The tensors, in the order of the flat buffer.
    pub fn tensors(&self) -> &[Tensor] {
        self.layout.tensors()
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

    /// The values of a tensor.
    pub fn of(&self, id: TensorId) -> &[f32] {
        &self.data[self.layout.range(id)]
    }

    /// The values of a tensor, for writing.
    pub fn of_mut(&mut self, id: TensorId) -> &mut [f32] {
        &mut self.data[self.layout.range(id)]
    }

    /// The values of the tensor of a name.
    pub fn named(&self, name: &str) -> Option<&[f32]> {
        self.tensors().iter().find(|tensor| tensor.name == name).map(|tensor| self.get(tensor))
    }

    /// Where a tensor is in the flat buffer.
    pub fn range(&self, id: TensorId) -> Range<usize> {
        self.layout.range(id)
    }

    /// The word vectors, (V, d): the rows are the columns of the paper's `L`. Where words are read by their characters, the
    /// vectors of those; [`crate::model::word_vectors`] are the words' own in any case.
    pub fn embedding(&self) -> &[f32] {
        self.of(self.layout.embedding)
    }

    /// The word vectors, for writing.
    pub fn embedding_mut(&mut self) -> &mut [f32] {
        self.of_mut(self.layout.embedding)
    }

    /// The topics of the words, where the model has them.
    pub fn topics(&self) -> Option<&Topics> {
        self.topics.as_deref()
    }

    /// Gives the model its topics.
    pub fn set_topics(&mut self, topics: Topics) {
        self.topics = Some(Arc::new(topics));
    }

    /// How the words are spelled, where the model reads their characters.
    pub fn spelling(&self) -> Option<&Spelling> {
        self.spelling.as_deref()
    }

    /// Gives the model its spelling.
    pub fn set_spelling(&mut self, spelling: Spelling) {
        self.spelling = Some(Arc::new(spelling));
    }

    /// The classes of the words, where the model has them.
    pub fn classes(&self) -> Option<&WordClasses> {
        self.classes.as_deref()
    }

    /// Gives the model its classes.
    pub fn set_classes(&mut self, classes: WordClasses) {
        self.classes = Some(Arc::new(classes));
    }

    /// The names and shapes of what belongs to a model besides its weights.
    pub(crate) fn besides(spec: &ModelSpec) -> Vec<(&'static str, Vec<usize>)> {
        let topics = spec.input.topics.map(|topics| (topics::TENSOR, vec![spec.vocab, topics.count]));
        let shapes = spec.input.characters.iter().flat_map(|c| [vec![c.symbols], vec![spec.vocab, c.length]]);
        let classes = spec.output.classes.map(|classes| (classes::TENSOR, vec![classes]));
        topics.into_iter().chain(characters::TENSORS.into_iter().zip(shapes)).chain(classes).collect()
    }

    /// Adds those to a file.
    pub(crate) fn save_besides<'a>(&'a self, file: &mut TensorFileWriter<'a>) {
        if let Some(topics) = self.topics() {
            file.tensor(topics::TENSOR, &[self.spec.vocab, self.spec.features()], topics.table());
        }
        if let Some(spelling) = self.spelling() {
            spelling.save(file);
        }
        if let Some(classes) = self.classes() {
            classes.save(file);
        }
    }

    /// Takes them from a file, at `path`, that is known to have them.
    pub(crate) fn read_besides(&mut self, path: &Path, file: &TensorFile) -> Result<()> {
        let spec = Arc::clone(&self.spec);
        if let Some(topics) = spec.input.topics {
            self.set_topics(Topics::read(file, topics, spec.vocab)?);
        }
        if let Some(characters) = &spec.input.characters {
            self.set_spelling(Spelling::read(path, file, characters, spec.vocab)?);
        }
        if let Some(classes) = spec.output.classes {
            self.set_classes(WordClasses::read(path, file, classes, spec.vocab)?);
        }
        Ok(())
    }

    /// The weights of a layer with one level.
    pub fn layer(&self, l: usize) -> LayerParams<'_> {
        let level = self.layout.layers[l].levels[0];
        LayerParams {
            w_ih: level.w_ih.map_or(&[], |id| self.of(id)),
            w_hh: self.of(level.w_hh),
            bias: self.of(level.bias),
        }
    }

    /// The classifier's matrix `W`, (V, d): the embedding itself when tied.
    pub fn classifier(&self) -> &[f32] {
        self.of(self.layout.classifier)
    }

    /// The classifier's matrix, for writing.
    pub fn classifier_mut(&mut self) -> &mut [f32] {
        self.of_mut(self.layout.classifier)
    }

    /// The classifier's bias `b`, (V), where there is one.
    pub fn classifier_bias(&self) -> Option<&[f32]> {
        self.layout.classifier_bias.map(|id| self.of(id))
    }

    /// The classifier's bias, for writing.
    pub fn classifier_bias_mut(&mut self) -> Option<&mut [f32]> {
        self.layout.classifier_bias.map(|id| &mut self.data[self.layout.range(id)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_the_named_tensors() {
        for tied in [true, false] {
            let mut p = Params::zeros(&ModelSpec::paper(5, 3, 2, tied));
            for (i, x) in p.data_mut().iter_mut().enumerate() {
                *x = i as f32;
            }
            let named = |name: &str| p.named(name).unwrap();
            assert_eq!(p.embedding(), named("encoder.weight"));
            for (l, layer) in p.layout().layers.iter().enumerate() {
                let ids = layer.levels[0];
                assert_eq!(ids.w_ih.map(|id| p.of(id)), Some(named(&format!("rnn.weight_ih_l{l}"))));
                assert_eq!(p.of(ids.w_hh), named(&format!("rnn.weight_hh_l{l}")));
                assert_eq!(p.of(ids.bias), named(&format!("rnn.bias_l{l}")));
            }
            assert_eq!(p.classifier(), named(if tied { "encoder.weight" } else { "decoder.weight" }));
            assert_eq!(p.classifier_bias(), (!tied).then(|| named("decoder.bias")));
            let together: usize = p.tensors().iter().map(Tensor::len).sum();
            assert_eq!(together, p.data().len());
        }
    }
}
