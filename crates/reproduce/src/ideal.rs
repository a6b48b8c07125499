//! Section 3's ideal case: what is the augmented loss worth when `y~` is the true distribution?
//!
//! Of a real text nobody knows the truth; of the built-in corpus it is known exactly. The baseline (no `y~`), the paper's
//! estimate from the word vectors, and the truth itself as `y~` learn from the same beginnings of the training text, of
//! growing length: the paper expects better targets to matter most where there is least to learn from.

use super::{Cell, Choice, seed_suffix};
use bowline::config::{Config, ModelKind, Size, TargetSource, preset};

/// Words of the training sets.
pub(super) const WORDS: [usize; 5] = [5_000, 10_000, 20_000, 40_000, 80_000];
/// What `y~` is; the names are those of the cells.
pub(super) const TARGETS: [&str; 3] = ["none", "embedding", "truth"];

/// A training set is seen so often that every cell makes about as many steps as ten passes over the whole text do.
const STEPS_AS_OF: usize = 10 * 150_000;
/// And at most so often.
const MOST_EPOCHS: usize = 60;

/// The cells.
pub fn ideal(choice: &Choice) -> Vec<Cell> {
    let mut cells = Vec::new();
    for run in 0..u64::from(choice.runs.max(1)) {
        for words in WORDS {
            cells.extend(TARGETS.map(|target| cell(choice, target, words, choice.seed + run)));
        }
    }
    cells
}

fn cell(choice: &Choice, target: &str, words: usize, seed: u64) -> Cell {
    let model = if target == "none" { ModelKind::VdLstm } else { ModelKind::Al };
    let preset = preset(Size::Small, model, "demo");
    let epochs = choice.epochs.unwrap_or((STEPS_AS_OF / words).min(MOST_EPOCHS) as u32);
    // The learning rate falls over the last two thirds, as in the preset, whatever the number of epochs.
    let decay_after = epochs / 3;
    let decay = (0.02f64.powf(1.0 / f64::from((epochs - decay_after).max(1))) * 1000.0).round() / 1000.0;
    let mut config = Config { seed, epochs, decay, decay_after, ..preset };
    config.data.train_words = words;
    if target == "truth" {
        config.augment.target = TargetSource::Truth;
        config.augment.tau = 1.0;
        config.augment.gamma = 1.0;
    }
    Cell { folder: format!("ideal/{target}-{words}{}", seed_suffix(seed)), config }
}
