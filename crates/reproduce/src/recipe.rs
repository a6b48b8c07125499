//! How a cell of Table 1 is trained where the paper leaves a choice.
//!
//! The paper gives neither the batch size nor a weight decay, nor how long the first training and the second one of its
//! footnote are. For the small models on PTB this is the recipe of their runs in `docs/results`: what was tried, and what
//! came out, is in `docs/reproduction.md`. The augmented loss begins with the second training, so that +AL and VD-LSTM have
//! the same first one, +REAL and +RE as well, and what differs at the end is what the augmented loss brings. All other cells
//! have the presets.

use bowline::config::{Config, Size, Training};

/// The settings of a cell, from the preset's. `epochs`, if given, is the length of each training.
pub fn recipe(preset: Config, epochs: Option<u32>) -> Config {
    let mut config = preset;
    if (config.data.source.as_str(), config.size) == ("ptb", Size::Small) {
        small_on_ptb(&mut config);
    }
    if let Some(epochs) = epochs {
        config.epochs = epochs;
        if config.second_training_epochs > 0 {
            config.second_training_epochs = epochs;
        }
    }
    config
}

fn small_on_ptb(config: &mut Config) {
    (config.batch, config.weight_decay, config.average) = (10, 7e-5, 0.1);
    config.epochs = if config.tied() { 34 } else { 26 };
    config.second_training_epochs = 28;
    if config.model.augmented() {
        config.augment.begin = Training::Second;
    }
}
