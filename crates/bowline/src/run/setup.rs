//! What a run starts with, and how much memory it will take.

use crate::config::{Config, Precision};
use crate::model::AugmentedForm;
use crate::params::Params;
use crate::rng::{Purpose, Stream, unit};

/// Weights uniform within plus or minus `init`, biases 0.
pub(super) fn initial(config: &Config, vocab: usize) -> Params {
    let mut params = Params::zeros(config.architecture(vocab));
    let tensors = params.tensors().to_vec();
    for (i, tensor) in tensors.iter().enumerate().filter(|(_, t)| t.shape.len() > 1) {
        let stream = Stream::new(config.seed, Purpose::Weights, i as u64);
        stream.fill(&mut params.data_mut()[tensor.range()], |r| (2.0 * unit(r) - 1.0) * config.init);
    }
    params
}

/// Bytes of weights, gradient, packed weights and buffers, about.
pub(super) fn memory(config: &Config, vocab: usize) -> usize {
    let architecture = config.architecture(vocab);
    let (d, rows) = (config.hidden, config.batch * config.unroll);
    let classifier = vocab * d;
    let augmented = match config.augmented_loss(0).filter(|a| a.form == AugmentedForm::Exact) {
        None => 0,
        Some(a) => rows.min(vocab) * vocab * (1 + usize::from(a.flow)) + usize::from(a.flow) * rows * vocab,
    };
    // A pair of bf16 takes the place of one f32.
    let packed =
        (2 * classifier + config.layers * (3 * 4 * d * d)) / if config.precision == Precision::F32 { 1 } else { 2 };
    let activations = rows * (3 * d + config.layers * 7 * d) + rows * vocab;
    4 * (2 * architecture.parameters() + packed + activations + augmented)
}
