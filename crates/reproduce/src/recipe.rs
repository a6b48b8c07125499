//! How a cell of Table 1 is trained where the paper leaves a choice.
//!
//! The paper gives neither the batch size nor a weight decay, nor how long the first training and the second one of its
//! footnote are. For the small models on PTB this is the recipe of their runs in `docs/results`: what was tried, and what
//! came out, is in `docs/reproduction.md`. The augmented loss begins with the second training there, so that the first one
//! of +AL is VD-LSTM's, and that of +REAL is +RE's. (One setting of each of these two was changed on the way; that is there
//! too.) All other cells have the presets.

use bowline::config::{Config, ModelKind, Size, TargetGradient, Training};

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
    (config.epochs, config.second_training_epochs) = match config.model {
        ModelKind::VdLstm => (26, 0),
        ModelKind::Re => (34, 0),
        ModelKind::Al => (26, 36),
        ModelKind::Real => (34, 36),
        ModelKind::Recipe(_) => (config.epochs, config.second_training_epochs),
    };
    if config.model.augmented() {
        config.augment.begin = Training::Second;
    }
    if config.model == ModelKind::Al {
        config.augment.gamma = 0.8;
        config.augment.gradient = TargetGradient::Stop;
    }
}
