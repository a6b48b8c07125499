//! Small models of every unit and shape.

use bowline::spec::{Activation, InputSpec, LayerSpec, ModelSpec, OutputSpec, ProjectionSpec, Unit};

/// Every unit, in layers of unequal width: with word vectors of another size and a projection under a tied classifier with a
/// bias, and without a projection under an untied one.
pub fn all(vocab: usize) -> Vec<ModelSpec> {
    let units = [
        Unit::Lstm { coupled: false },
        Unit::Lstm { coupled: true },
        Unit::Gru,
        Unit::Rnn { activation: Activation::Tanh },
        Unit::Rnn { activation: Activation::Sigmoid },
        Unit::Rnn { activation: Activation::Relu },
        Unit::Highway { depth: 1 },
        Unit::Highway { depth: 3 },
        Unit::Deep { activation: Activation::Sigmoid },
    ];
    let activations = [Activation::Linear, Activation::Sigmoid, Activation::Tanh];
    let mut all = Vec::new();
    for (i, unit) in units.into_iter().enumerate() {
        let layers: Vec<LayerSpec> = [6, 5].into_iter().map(|units| LayerSpec::new(unit, units)).collect();
        let projection = ProjectionSpec { width: 3, activation: activations[i % 3], bias: i % 2 == 1 };
        let output = OutputSpec { projection: Some(projection), tied: true, bias: true, ..OutputSpec::default() };
        all.push(ModelSpec { vocab, input: InputSpec::words(3), layers: layers.clone(), output });
        let output = OutputSpec { bias: i % 2 == 0, ..OutputSpec::default() };
        all.push(ModelSpec { vocab, input: InputSpec::words(4), layers: layers.clone(), output: output.clone() });
        if matches!(unit, Unit::Rnn { .. } | Unit::Deep { .. }) {
            // A vector of a word for each level, without a matrix.
            let width = if matches!(unit, Unit::Deep { .. }) { 12 } else { 6 };
            let layers = vec![LayerSpec { direct: true, ..layers[0].clone() }, layers[1].clone()];
            all.push(ModelSpec { vocab, input: InputSpec::words(width), layers, output });
        }
    }
    all
}
