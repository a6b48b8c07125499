//! What a run starts with, how its text is read, and how much memory it will take.

use super::checkpoint::Position;
use crate::batch::Streams;
use crate::characters::PAD;
use crate::compute::Compute;
use crate::config::{Config, Precision, Training, UnitName};
use crate::corpus::{Corpus, Ids};
use crate::layout::{Layout, SumProductTensors, TensorId};
use crate::model::{AugmentedForm, AugmentedLoss, Sampler, logits_at_a_time};
use crate::optim::slot_names;
use crate::params::Params;
use crate::rng::{Purpose, Stream, normal, normals, unit};
use crate::vocabulary::Vocabulary;
use bowline_kernels::elementwise;

/// Weights that are one job when all are kept from being negative.
const CLAMPED: usize = 1 << 16;

/// Weights uniform within plus or minus `init` (the classifier's own matrix within `classifier_init`), biases 0; or as
/// `start.*` says.
pub(super) fn initial(config: &Config, vocab: usize) -> Params {
    let mut params = Params::zeros(&config.spec(vocab));
    let start = &config.start;
    let tensors = params.tensors().to_vec();
    for (i, tensor) in tensors.iter().enumerate().filter(|(_, t)| t.shape.len() > 1 || start.biases) {
        let stream = Stream::new(config.seed, Purpose::Weights, i as u64);
        let own = tensor.name == "decoder.weight" && config.classifier_init > 0.0;
        let within = if own { config.classifier_init } else { config.init };
        let values = &mut params.data_mut()[tensor.range()];
        match tensor.shape[..] {
            // Its variance is 1 / fan_in.
            [_, fan_in] if start.fan_in => normal(&stream, values, (fan_in as f32).sqrt().recip()),
            _ => stream.fill(values, |r| (2.0 * unit(r) - 1.0) * within),
        }
    }
    // The product of the two factors of a round has the variance 1 / fan_in: each has the root of what that takes.
    for round in params.layout().layers.iter().flat_map(|layer| layer.rounds.clone()).collect::<Vec<_>>() {
        let deviation = (params.of(round.down).len() as f32).powf(-0.25);
        for factor in [round.down, round.up].into_iter().filter(|_| start.fan_in) {
            let stream = Stream::new(config.seed, Purpose::Weights, factor.index() as u64);
            normal(&stream, params.of_mut(factor), deviation);
        }
    }
    if let Some(characters) = params.layout().characters.clone() {
        let c = config.network.characters.width;
        params.of_mut(characters.vectors)[PAD * c..][..c].fill(0.0);
        for bias in characters.highways.iter().filter_map(|[transform, _]| transform.bias) {
            params.of_mut(bias).iter_mut().for_each(|b| *b += start.transform_bias);
        }
    }
    begin_polynomials(config, &mut params);
    for (bias, gate, value) in gate_biases(config, params.layout()) {
        let bias = params.of_mut(bias);
        let units = bias.len() / gate.1;
        bias[gate.0 * units..][..units].fill(value);
    }
    params
}

/// A sum-product network starts with no weight below 0: word vectors uniform up to `init`, rows of `A` that sum to 1, and the
/// beginning of the exponential function as each polynomial.
fn begin_polynomials(config: &Config, params: &mut Params) {
    let Some(SumProductTensors { weight, bias }) = params.layout().sum_product else { return };
    let (powers, width) = (config.network.sum_product, params.spec().width());
    // What was drawn is uniform within plus or minus `init`, or `classifier_init` for the rows of `A`, which are scaled.
    params.embedding_mut().iter_mut().for_each(|x| *x = 0.5 * (*x + config.init));
    let within = if config.classifier_init > 0.0 { config.classifier_init } else { config.init };
    for row in params.classifier_mut().chunks_exact_mut(width) {
        row.iter_mut().for_each(|x| *x += within);
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|x| *x /= sum.max(f32::MIN_POSITIVE));
    }
    for row in params.of_mut(weight).chunks_exact_mut(powers) {
        let mut factorial = 1.0;
        for (k, a) in row.iter_mut().enumerate() {
            factorial *= (k + 1) as f32;
            *a = 1.0 / factorial;
        }
    }
    params.of_mut(bias).fill(1.0);
}

/// The biases of gates that start at a value of their own: the tensor, which of how many gates, the value.
fn gate_biases(config: &Config, layout: &Layout) -> Vec<(TensorId, (usize, usize), f32)> {
    let (gate, value) = match config.network.unit {
        UnitName::Lstm | UnitName::Mogrifier => ((1, 4), config.start.forget_bias),
        UnitName::Highway => ((1, 2), config.start.transform_bias),
        _ => return Vec::new(),
    };
    let levels = layout.layers.iter().flat_map(|layer| &layer.levels);
    levels.filter(|_| value != 0.0).map(|level| (level.bias, gate, value)).collect()
}

/// Scales every word vector to length 1, where the settings want it so, and leaves no weight of a sum-product network below 0.
pub(super) fn constrain(config: &Config, compute: &Compute, params: &mut Params) {
    if params.spec().output.sum_product.is_some() {
        compute.team.for_each(params.data_mut().chunks_mut(CLAMPED), |x| x.iter_mut().for_each(|x| *x = x.max(0.0)));
    }
    if config.unit_vectors {
        let d = params.spec().input.width;
        elementwise::normalize_rows(&compute.team, compute.isa, params.embedding_mut(), d);
    }
}

/// Epochs that are done, the one under way by its share.
pub(super) fn epochs_done(config: &Config, corpus: &Corpus, position: &Position) -> f64 {
    let windows = streams(config, &corpus.train.ids, position.epoch).windows().max(1);
    f64::from(position.epoch - 1) + position.window as f64 / windows as f64
}

/// The training text as it is read in an epoch: a function of the settings and of the epoch's number alone.
pub(super) fn streams<'a>(config: &Config, ids: &'a Ids, epoch: u32) -> Streams<'a, Ids> {
    let mut streams = Streams::of(ids, config.batch, config.unroll);
    if config.streams.offset {
        let [high, low, ..] = Stream::new(config.seed, Purpose::Offset, u64::from(epoch)).block(0);
        let draw = (u64::from(high) << 32) | u64::from(low);
        streams = streams.from_word(((u128::from(draw) * ids.len() as u128) >> 64) as usize);
    }
    if config.streams.random_length {
        let (random, mut window) = (Stream::new(config.seed, Purpose::Length, u64::from(epoch)), 0);
        streams = streams.in_windows(|| {
            let [half, ..] = random.block(2 * window);
            let mut deviation = [0.0; 4];
            normals(random.block(2 * window + 1), &mut deviation);
            window += 1;
            let mean = if unit(half) < 0.05 { config.unroll as f32 / 2.0 } else { config.unroll as f32 };
            (mean + 5.0 * deviation[0]).max(5.0) as usize
        });
    }
    streams
}

/// What draws the words of each window's loss, where it is not over all.
pub(super) fn sampler(config: &Config, vocabulary: &Vocabulary) -> Option<Sampler> {
    let ones = vec![1; vocabulary.len()];
    let counts = vocabulary.counts().unwrap_or(&ones);
    (config.loss.sampled > 0).then(|| Sampler::new(config.seed, counts, config.loss.sampled))
}

/// Bytes of weights, their mean, gradient, packed weights and buffers, about. Settings that are possible one by one can
/// together ask for more than 64 bits can count: then it is the most they can.
pub(super) fn memory(config: &Config, vocab: usize) -> u64 {
    let spec = config.spec(vocab);
    let augmented_loss = config.augmented_loss(Training::Second, 0, vocab);
    let (vocab, width) = (vocab as u128, spec.width() as u128);
    let rows = (config.batch / config.shards.max(1)) as u128 * config.unroll as u128;
    // Words that the loss is computed over; with a sample the matrix is packed whole for the evaluations alone.
    let (learned, packed_whole) = match config.loss.sampled as u128 {
        0 => (vocab, 0),
        sampled => (vocab.min(sampled + rows), vocab * width),
    };
    let classifier = vocab * width;
    let augmented = match augmented_loss {
        None | Some(AugmentedLoss { form: AugmentedForm::Gram { .. }, .. }) => 0,
        Some(AugmentedLoss { form: AugmentedForm::Given, .. }) => rows * vocab,
        Some(a) => rows.min(vocab) * vocab * if a.flow { 3 } else { 1 },
    };
    let in_layers = (spec.products() as u128).saturating_sub(classifier * spec.softmaxes() as u128);
    // A pair of bf16 takes the place of one f32.
    let packed = packed_whole
        + (2 * learned * width + in_layers * 3 / 2) / if config.precision == Precision::F32 { 1 } else { 2 };
    let in_rounds = |l: usize| spec.layers[l].unit.rounds() as u128 * (spec.inputs(l) + spec.layers[l].units) as u128;
    let in_window: u128 = (0..spec.layers.len()).map(|l| 7 * spec.layers[l].units as u128 + in_rounds(l)).sum();
    let in_window =
        in_window + spec.input.characters.as_ref().map_or(0, |c| ((4 + 7 * c.highways) * c.outputs()) as u128);
    // Of a mixture of softmaxes, the logits of some words are kept at a time.
    let logits = spec.output.mixture.map_or(rows, |mixture| logits_at_a_time(mixture.softmaxes) as u128) * learned;
    let activations = rows * (3 * spec.widest() as u128 + in_window) + logits;
    let copies = 2
        + u128::from(config.shards > 1)
        + u128::from(config.average > 0.0)
        + slot_names(&config.optimizer).len() as u128;
    u64::try_from(4 * (copies * spec.parameters() as u128 + packed + activations + augmented)).unwrap_or(u64::MAX)
}
