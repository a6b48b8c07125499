//! What a run starts with, and how much memory it will take.

use crate::config::{Config, Precision, Training};
use crate::model::{AugmentedForm, AugmentedLoss};
use crate::params::Params;
use crate::rng::{Purpose, Stream, unit};
use bowline_kernels::{Isa, Team, elementwise};

/// Weights uniform within plus or minus `init` (the classifier's own matrix within `classifier_init`), biases 0.
pub(super) fn initial(config: &Config, vocab: usize) -> Params {
    let mut params = Params::zeros(config.architecture(vocab));
    let tensors = params.tensors().to_vec();
    for (i, tensor) in tensors.iter().enumerate().filter(|(_, t)| t.shape.len() > 1) {
        let stream = Stream::new(config.seed, Purpose::Weights, i as u64);
        let own = tensor.name == "decoder.weight" && config.classifier_init > 0.0;
        let within = if own { config.classifier_init } else { config.init };
        stream.fill(&mut params.data_mut()[tensor.range()], |r| (2.0 * unit(r) - 1.0) * within);
    }
    params
}

/// Scales every word vector to length 1, where the settings want it so.
pub(super) fn constrain(config: &Config, team: &Team, isa: Isa, params: &mut Params) {
    if config.unit_vectors {
        let d = params.architecture().hidden;
        elementwise::normalize_rows(team, isa, params.embedding_mut(), d);
    }
}

/// Bytes of weights, their mean, gradient, packed weights and buffers, about. Settings that are possible one by one can
/// together ask for more than 64 bits can count: then it is the most they can.
pub(super) fn memory(config: &Config, vocab: usize) -> u64 {
    let architecture = config.architecture(vocab);
    let parameters = architecture.parameters() as u128;
    let augmented_loss = config.augmented_loss(Training::Second, 0, vocab);
    let (d, vocab, layers) = (config.hidden as u128, vocab as u128, config.layers as u128);
    let rows = config.batch as u128 * config.unroll as u128;
    let classifier = vocab * d;
    let augmented = match augmented_loss {
        None | Some(AugmentedLoss { form: AugmentedForm::Gram { .. }, .. }) => 0,
        Some(AugmentedLoss { form: AugmentedForm::Given, .. }) => rows * vocab,
        Some(a) => rows.min(vocab) * vocab * if a.flow { 3 } else { 1 },
    };
    // A pair of bf16 takes the place of one f32.
    let packed = (2 * classifier + layers * (3 * 4 * d * d)) / if config.precision == Precision::F32 { 1 } else { 2 };
    let activations = rows * (3 * d + layers * 7 * d) + rows * vocab;
    let copies = if config.average > 0.0 { 3 } else { 2 };
    u64::try_from(4 * (copies * parameters + packed + activations + augmented)).unwrap_or(u64::MAX)
}
