//! Figure 1: does the augmented loss alone bring the classifier into the span of the word vectors? (Section 5.2.)
//!
//! A random contiguous piece of 20,000 words of PTB's training text, a 2-layer LSTM of 300 units without regularisation,
//! every word vector kept at length 1, and the loss `beta tau^2 |V| J_aug + (1 - beta) J`. Panel (a) goes through beta at
//! tau = 10, panel (b) through tau at beta = 1. The paper leaves open the batch, the learning rate, the start of the
//! weights and the number of epochs; see `docs/reproduction.md` for how these were found.

use super::{Cell, Choice};
use bowline::config::{Config, LossRule, ModelKind, Selection, Size, TargetGradient, preset};
use bowline::model::KeepProb;
use bowline::rng::{Purpose, Stream};

/// The parts of the augmented loss of panel (a).
pub(super) const BETAS: [f32; 6] = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0];
/// Its temperature.
pub(super) const TAU: f32 = 10.0;
/// The temperatures of panel (b).
pub(super) const TAUS: [f32; 6] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0];

/// Words of the piece.
const WORDS: usize = 20_000;
/// Words of PTB's training text.
const PTB_WORDS: usize = 929_589;

/// The cells of both panels; the point they share, beta = 1 at tau = 10, is one cell.
pub fn figure1(choice: &Choice) -> Vec<Cell> {
    let shared = |tau: &&f32| **tau != TAU;
    let points = BETAS.iter().map(|&beta| (beta, TAU)).chain(TAUS.iter().filter(shared).map(|&tau| (1.0, tau)));
    let points: Vec<(f32, f32)> = points.collect();
    // Run after run: after each there is a whole figure.
    (0..choice.runs.max(1))
        .flat_map(|run| points.iter().map(move |&(beta, tau)| cell(choice, beta, tau, run)))
        .collect()
}

fn cell(choice: &Choice, beta: f32, tau: f32, run: u32) -> Cell {
    let seed = choice.seed + u64::from(run);
    let mut config = Config {
        seed,
        hidden: 300,
        init: 0.3,
        // As good as zero: what W has in the end is what the loss has put there.
        classifier_init: 1e-9,
        keep: KeepProb(1.0),
        batch: 5,
        epochs: choice.epochs.unwrap_or(4),
        // So low that the word vectors hardly move while W follows them; at this rate nothing needs clipping.
        learning_rate: 0.0003,
        decay: 1.0,
        decay_after: 4,
        clip: 1e5,
        select: Selection::Last,
        unit_vectors: true,
        ..preset(Size::Small, ModelKind::Al, "ptb")
    };
    config.data.train_start = start(seed);
    config.data.train_words = WORDS;
    config.data.valid_words = 2_000;
    config.augment.loss = LossRule::Mixture;
    config.augment.gradient = TargetGradient::Stop;
    config.augment.beta = beta;
    config.augment.tau = tau;
    Cell { folder: format!("figure1/beta-{beta}-tau-{tau}-run-{}", run + 1), config }
}

/// The first word of a run's piece: random, and the same for all points of the figure.
fn start(seed: u64) -> usize {
    let random = Stream::new(seed, Purpose::Piece, 0).block(0)[0];
    ((u64::from(random) * (PTB_WORDS - WORDS) as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_within_the_text_and_differ() {
        let starts: Vec<usize> = (1..50).map(start).collect();
        assert!(starts.iter().all(|&start| start + WORDS <= PTB_WORDS));
        assert!(starts.windows(2).all(|two| two[0] != two[1]));
        assert!(starts.iter().any(|&s| s > PTB_WORDS / 2) && starts.iter().any(|&s| s < PTB_WORDS / 4));
    }
}
