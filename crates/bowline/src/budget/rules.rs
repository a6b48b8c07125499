//! Which network for how much arithmetic.
//!
//! The network is one LSTM whose input and state gate each other before every step, with narrow word vectors and a projection.
//! The rules are fitted on our own runs on the Penn Treebank and on a text of 46,000 words (`docs/recipes.md`). They go by `c`,
//! the operations there are for each word of the text: a network has about `c^0.2` units, and the rest of the time goes into
//! epochs. What is trained longer needs more dropout, and so does a shorter text.

use crate::config::Config;
use crate::error::Result;

/// The run the rules start from: 930,000 words, 10,000 of them different, and 108 TFLOP; `narrow` in `bowline recipes`.
const WORDS: f64 = 930_000.0;
const VOCAB: f64 = 10_000.0;
const OPERATIONS: f64 = 108e12 / WORDS;
const UNITS: f64 = 512.0;
const EMBEDDING: f64 = 200.0;
const EPOCHS: f64 = 5.0;
/// One pass over a text is too few, if there can be two.
const FEWEST_EPOCHS: f64 = 2.0;
/// Past this, more epochs bring nothing.
pub const MOST_EPOCHS: f64 = 240.0;
/// From so many epochs on, as much is dropped as in `melis-10m`, which is trained for 230.
const FULL_DROPOUT: f64 = 65.0;
/// The smallest network worth having.
const FEWEST_UNITS: usize = 64;
const MOST_UNITS: usize = 1536;
/// How often input and state gate each other before a step, and how many units there are for each of the ranks.
const ROUNDS: f64 = 5.0;
const UNITS_PER_RANK: f64 = 12.5;
/// Steps that an epoch should have, if fewer streams can make it so.
const STEPS: usize = 400;
const STREAMS: [usize; 2] = [8, 32];
const UNROLL: usize = 35;

/// The sizes of a network and of its training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Units of the LSTM.
    pub units: usize,
    /// Size of a word vector, and of the projection.
    pub embedding: usize,
    /// Passes over the text.
    pub epochs: u32,
}

/// Operations of a training step for each word: a multiplication and an addition, forward once and backward twice.
fn operations(units: f64, embedding: f64, vocab: f64) -> f64 {
    let rounds = ROUNDS * rank(units) * (units + embedding);
    6.0 * (4.0 * units * (units + embedding) + rounds + units * embedding + embedding * vocab)
}

/// The rank of the matrices by which input and state gate each other; in the published network it is 84 for 912 units.
fn rank(units: f64) -> f64 {
    (units / (8.0 * UNITS_PER_RANK)).round().max(1.0) * 8.0
}

/// The nearest whole number of `step`s within bounds.
fn rounded(x: f64, step: usize, least: usize, most: usize) -> usize {
    ((x / step as f64).round() as usize * step).clamp(least, most)
}

/// The network for a text of `words` words with `vocab` different ones, when a training may take `budget` operations in all.
/// `None` if there is not time for one pass over the text with the smallest one.
pub fn shape(words: usize, vocab: usize, budget: f64) -> Option<Shape> {
    let (n, v) = (words.max(1) as f64, vocab as f64);
    let c = budget / n;
    let (more, text) = (c / OPERATIONS, (n / WORDS).min(1.0));
    let most_embedding = 320;
    let wanted = UNITS * more.powf(0.2) * text.powf(0.2);
    let units = rounded(wanted, 16, FEWEST_UNITS, MOST_UNITS);
    let embedding = rounded(
        EMBEDDING * (VOCAB / v).powf(0.25) * more.powf(0.06) * text.powf(0.12),
        8,
        64,
        most_embedding.min(units),
    );
    let needed = |units: usize, embedding: usize| operations(units as f64, embedding as f64, v);
    // What is left of the last epoch makes the network a little larger. Where it cannot be passed twice over the text, it is
    // smaller, and its word vectors with it.
    let epochs = (c / needed(units, embedding)).clamp(FEWEST_EPOCHS, MOST_EPOCHS).floor();
    let fits = |epochs: f64| {
        [embedding, embedding / 16 * 8, FEWEST_UNITS].map(|d| d.max(FEWEST_UNITS)).into_iter().find_map(|d| {
            let least = if d > FEWEST_UNITS { d.max(units / 2) } else { FEWEST_UNITS };
            let mut sizes = (least..=units + units / 4).rev().filter(|units| units % 16 == 0);
            sizes.find(|&units| needed(units, d) * epochs <= c).map(|units| (units, d, epochs))
        })
    };
    let (units, embedding, epochs) = fits(epochs).or_else(|| fits(1.0))?;
    Some(Shape { units, embedding, epochs: epochs as u32 })
}

/// Streams side by side.
pub fn streams(words: usize) -> usize {
    (words / (STEPS * UNROLL)).clamp(STREAMS[0], STREAMS[1])
}

/// The settings for a shape: the recipe `narrow` with rounds of gating, changed.
pub fn settings(narrow: Config, shape: Shape, words: usize) -> Result<Config> {
    // How many times as long as the first run, and how much less text, both in doublings.
    let longer = (f64::from(shape.epochs).min(FULL_DROPOUT) / EPOCHS).log2().max(0.0);
    let shorter = (WORDS / words.max(1) as f64).log2().max(0.0);
    let drop = |least: f64, by_length: f64, by_text: f64, most: f64| {
        (least + by_length * longer + by_text * shorter).min(most)
    };
    let batch = streams(words);
    let rate = 0.004 * (batch as f64 / STREAMS[1] as f64).sqrt();
    let decay = (2e-5 * (0.72 * longer + 0.5 * shorter).exp2()).min(5e-4);
    let output = 1.0 - drop(0.2, 0.036, 0.06, 0.55);
    let rank = (rank(shape.units as f64) as usize).min(shape.units).min(shape.embedding);
    let steps = words / (batch * UNROLL).max(1) * shape.epochs as usize;
    narrow.with(&[
        format!("hidden={}", shape.units),
        "network.unit=mogrifier".to_owned(),
        format!("network.rounds={ROUNDS}"),
        format!("network.rank={rank}"),
        format!("network.projection={}", shape.embedding),
        format!("epochs={}", shape.epochs),
        format!("batch={batch}"),
        format!("learning_rate={rate:.5}"),
        format!("weight_decay={decay:.7}"),
        format!("schedule.warm_up={}", (steps / 10).min(200)),
        format!("masks.input={:.3}", 1.0 - drop(0.2, 0.1, 0.08, 0.65)),
        format!("masks.state={:.3}", 1.0 - drop(0.1, 0.03, 0.035, 0.3)),
        format!("masks.output={output:.3}"),
        format!("masks.projection={output:.3}"),
        // A state that begins without context in the middle of a text should be met in training, too.
        "streams.reset=0.01".to_owned(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipes::Recipe;

    const PTB: usize = 929_589;

    #[test]
    fn more_time_gives_larger_networks_and_more_epochs() {
        let shapes: Vec<Shape> =
            [20e12, 108e12, 600e12, 2e15, 13e15].iter().map(|&budget| shape(PTB, 10_000, budget).unwrap()).collect();
        assert_eq!(shapes[1].epochs, 5);
        assert!((480..=560).contains(&shapes[1].units), "{shapes:?}");
        for pair in shapes.windows(2) {
            assert!(pair[0].units <= pair[1].units && pair[0].epochs < pair[1].epochs, "{shapes:?}");
        }
        // Never more than there is time for.
        for (shape, budget) in shapes.iter().zip([20e12, 108e12, 600e12, 2e15, 13e15]) {
            let each = operations(shape.units as f64, shape.embedding as f64, 10_000.0);
            let used = each * PTB as f64 * f64::from(shape.epochs);
            assert!(used <= 1.001 * budget && used > 0.8 * budget, "{shape:?}: {used:e} of {budget:e}");
        }
    }

    #[test]
    fn without_time_for_one_pass_there_is_no_network() {
        assert_eq!(shape(PTB, 10_000, 1e12), None);
        assert_eq!(shape(PTB, 10_000, 0.0), None);
    }

    #[test]
    fn what_is_trained_longer_or_has_less_text_drops_more() {
        let narrow = || Recipe::find("narrow").unwrap().config(None, "ptb").unwrap();
        let of = |epochs, words| settings(narrow(), Shape { units: 256, embedding: 128, epochs }, words).unwrap();
        let (short, long, little) = (of(5, PTB), of(40, PTB), of(40, 40_000));
        let keeps = |config: &Config| config.masks.sites().map(|(_, keep)| keep.0);
        assert_eq!(short.weight_decay, 2e-5);
        assert!(keeps(&short).iter().zip(keeps(&long)).all(|(a, b)| *a >= b));
        assert!(keeps(&long).iter().zip(keeps(&little)).all(|(a, b)| *a >= b));
        assert_eq!((short.batch, little.batch), (32, 8));
        assert!(little.learning_rate < short.learning_rate);
    }
}
