//! Another number of epochs for a run that is under way.
//!
//! The rate is constant for a part of the steps and then falls to 0 along a cosine. As long as it is constant, the steps so
//! far do not depend on how many will follow: then the new settings give the same bits from the start. Later the rate goes on
//! from where it is, and falls to 0 in the time that is left.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::optim::ScheduleKind;
use crate::run;
use std::path::Path;

/// The share of the steps with a constant rate, unless more are done already.
const CONSTANT: f64 = 0.4;

/// Gives a run `epochs` epochs in all.
pub fn replan(dir: &Path, epochs: u32) -> Result<()> {
    replan_by(dir, |_| epochs)
}

/// The same, where the number of epochs follows from how many are done.
pub(super) fn replan_by(dir: &Path, epochs: impl FnOnce(f64) -> u32) -> Result<()> {
    run::rewrite(dir, |config, done| {
        if config.schedule.kind != ScheduleKind::Cosine {
            let advice = "a run of `bowline train --budget`; for another one, `bowline branch --set epochs=N`";
            return Err(Error::run(dir, "its learning rate does not follow a budget", advice));
        }
        Ok(with_epochs(config.clone(), epochs(done), done))
    })
}

/// The settings with another number of epochs, of which `done` are done.
fn with_epochs(mut config: Config, epochs: u32, done: f64) -> Config {
    let (old, new) = (f64::from(config.epochs), f64::from(epochs));
    let constant = config.schedule.constant;
    let falls = done > constant * old;
    if falls {
        // These settings alone would not give the same weights any more.
        let before = if config.origin.is_empty() { String::new() } else { format!("{}; ", config.origin) };
        config.origin = format!("{before}replanned after {done:.2} of {old} epochs");
    }
    config.schedule.constant = if falls {
        // The same part of the cosine is done before and after: (d/E - c) / (1 - c).
        let part = ((done / old - constant) / (1.0 - constant)).min(0.99);
        ((done / new - part) / (1.0 - part)).clamp(0.0, 0.99)
    } else {
        CONSTANT.max(done / new).min(0.99)
    };
    config.epochs = epochs;
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::Place;
    use crate::recipes::Recipe;

    fn rate(config: &Config, epochs: f64) -> f64 {
        let done = epochs / f64::from(config.epochs);
        config.schedule().at(Place { epoch: 1 + epochs as u32, step: u64::MAX, done, drops: 0 })
    }

    #[test]
    fn the_rate_goes_on_from_where_it_is() {
        let config =
            Recipe::find("narrow").unwrap().config(None, "ptb").unwrap().with(&["epochs=10".to_owned()]).unwrap();
        for done in [1.0, 3.0, 4.0, 6.0, 9.0] {
            for epochs in [10, 11, 14, 40] {
                let new = with_epochs(config.clone(), epochs, done);
                new.validate().unwrap();
                // What comes begins with the rate of now; with a higher one if it is to last much longer.
                let (before, after) = (rate(&config, done), rate(&new, done));
                let longer = new.schedule.constant == 0.0 && after > before;
                assert!(longer || (before - after).abs() < 1e-9, "{done} of {epochs}: {before} {after}");
                assert_eq!(new.origin.is_empty(), config.rate_is_constant(done));
                if config.rate_is_constant(done) {
                    assert_eq!(rate(&new, 0.5 * done), rate(&config, 0.5 * done));
                }
                assert!(rate(&new, f64::from(epochs)) < 1e-12);
            }
        }
        // One that must end sooner falls at once.
        let sooner = with_epochs(config.clone(), 4, 3.0);
        assert!(rate(&sooner, 3.0) == config.learning_rate && rate(&sooner, 3.5) < 0.6 * config.learning_rate);
    }
}
