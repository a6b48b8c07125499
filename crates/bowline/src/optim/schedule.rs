//! The learning rate in the course of a training.

use serde::{Deserialize, Serialize};

/// How the rate changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// The paper's: constant up to epoch `decay_after`, then multiplied by `decay` in each epoch.
    #[default]
    Decay,
    /// Multiplied by `factor` after each of the epochs `at`.
    Steps,
    /// Multiplied by `factor` whenever the validation perplexity has not improved for `patience` epochs: not below the best so
    /// far or, where there is a `gain`, not by as much against the epoch before.
    Plateau,
    /// Constant for the share `constant` of the steps, then along half a cosine to 0.
    Cosine,
    /// Up along half a cosine from a 25th of the rate for the share `constant` of the steps, then down along another to a
    /// ten-thousandth (Smith 2018, as fast.ai has it).
    OneCycle,
}

/// The settings of the schedule besides `learning_rate`, `decay` and `decay_after`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleConfig {
    /// How the rate changes.
    pub kind: ScheduleKind,
    /// Steps in which the rate rises to its first value, in equal parts; with any kind.
    pub warm_up: u64,
    /// For `cosine` and `one-cycle`: a share of all steps.
    pub constant: f64,
    /// For `steps`: the last epochs at their rate.
    pub at: Vec<u32>,
    /// For `steps` and `plateau`.
    pub factor: f64,
    /// For `plateau`: epochs without a better validation perplexity.
    pub patience: u32,
    /// For `plateau`: by how much the validation perplexity must fall from one epoch to the next; 0 if any below the best will do.
    #[serde(default)]
    pub gain: f64,
}

impl Default for ScheduleConfig {
    fn default() -> ScheduleConfig {
        ScheduleConfig {
            kind: ScheduleKind::Decay,
            warm_up: 0,
            constant: 0.0,
            at: Vec::new(),
            factor: 0.1,
            patience: 1,
            gain: 0.0,
        }
    }
}

/// Where a training is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Steps done.
    pub step: u64,
    /// The part of the training that is done, from 0 to 1.
    pub done: f64,
    /// How often the validation perplexity has made the rate fall.
    pub drops: u32,
}

impl Place {
    /// The beginning of an epoch, for schedules that go by epochs.
    pub fn epoch(epoch: u32) -> Place {
        Place { epoch, step: u64::MAX, done: 0.0, drops: 0 }
    }
}

/// The learning rate as a function of the place.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The first epochs' rate.
    pub learning_rate: f64,
    /// The factor of [`ScheduleKind::Decay`].
    pub decay: f64,
    /// The last epoch (counted from 1) at the full rate.
    pub decay_after: u32,
    /// The rest.
    pub config: ScheduleConfig,
}

impl ScheduleConfig {
    /// Whether the last of the validation perplexities of this training's epochs is an improvement, given whether it is the best
    /// so far.
    pub fn improved(&self, valid: &[f64], best: bool) -> bool {
        match valid {
            _ if self.gain == 0.0 => best,
            // As the authors of the character networks have it, from the third epoch on.
            [_, .., before, last] => before - last >= self.gain,
            _ => true,
        }
    }
}

impl Schedule {
    /// The rate at a place.
    pub fn at(&self, place: Place) -> f64 {
        let ScheduleConfig { kind, warm_up, constant, factor, .. } = self.config;
        let full = self.learning_rate;
        let rate = match kind {
            ScheduleKind::Decay => full * self.decay.powi(place.epoch.saturating_sub(self.decay_after) as i32),
            ScheduleKind::Steps => {
                let passed = self.config.at.iter().filter(|&&last| place.epoch > last).count();
                full * factor.powi(passed as i32)
            }
            ScheduleKind::Plateau => full * factor.powi(place.drops as i32),
            ScheduleKind::Cosine => full * fall(place.done, constant),
            ScheduleKind::OneCycle if place.done < constant => {
                let low = full / 25.0;
                low + (full - low) * (1.0 - fall(place.done / constant, 0.0))
            }
            ScheduleKind::OneCycle => {
                let low = full / 1e4;
                low + (full - low) * fall(place.done, constant)
            }
        };
        if place.step < warm_up { rate * (place.step + 1) as f64 / warm_up as f64 } else { rate }
    }
}

/// 1 up to `from`, then half a cosine to 0 at 1.
fn fall(done: f64, from: f64) -> f64 {
    let part = ((done - from) / (1.0 - from).max(f64::EPSILON)).clamp(0.0, 1.0);
    0.5 * (1.0 + (std::f64::consts::PI * part).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: ScheduleKind) -> Schedule {
        let config = ScheduleConfig { kind, constant: 0.4, at: vec![2, 4], factor: 0.5, ..ScheduleConfig::default() };
        Schedule { learning_rate: 1.0, decay: 0.9, decay_after: 5, config }
    }

    #[test]
    fn the_small_model_s_rate_falls_from_the_sixth_epoch_on() {
        let schedule = schedule(ScheduleKind::Decay);
        assert_eq!([1, 5, 6, 7].map(|e| schedule.at(Place::epoch(e))), [1.0, 1.0, 0.9, 0.81]);
    }

    #[test]
    fn steps_fall_after_their_epochs_and_a_plateau_when_it_is_told_to() {
        let steps = schedule(ScheduleKind::Steps);
        assert_eq!([1, 2, 3, 4, 5].map(|e| steps.at(Place::epoch(e))), [1.0, 1.0, 0.5, 0.5, 0.25]);
        let plateau = schedule(ScheduleKind::Plateau);
        assert_eq!([0, 1, 3].map(|drops| plateau.at(Place { drops, ..Place::epoch(9) })), [1.0, 0.5, 0.125]);
    }

    #[test]
    fn a_gain_is_counted_from_the_epoch_before() {
        let plain = schedule(ScheduleKind::Plateau).config;
        assert!(plain.improved(&[5.0, 4.9], true) && !plain.improved(&[5.0, 4.9], false));
        let by_one = ScheduleConfig { gain: 1.0, ..plain };
        let valid = [9.0, 8.5, 8.0, 6.5, 6.9];
        assert_eq!([1, 2, 3, 4, 5].map(|n| by_one.improved(&valid[..n], true)), [true, true, false, true, false]);
    }

    #[test]
    fn a_cosine_is_constant_then_falls_to_zero_and_one_cycle_rises_first() {
        let at = |kind, done| schedule(kind).at(Place { done, ..Place::epoch(1) });
        let cosine = [0.0, 0.4, 0.7, 1.0].map(|done| at(ScheduleKind::Cosine, done));
        assert_eq!(cosine[..2], [1.0, 1.0]);
        assert!((cosine[2] - 0.5).abs() < 1e-12 && cosine[3].abs() < 1e-12);
        let cycle = [0.0, 0.2, 0.4, 0.7, 1.0].map(|done| at(ScheduleKind::OneCycle, done));
        for (found, expected) in cycle.iter().zip([0.04, 0.52, 1.0, 0.50005, 0.0001]) {
            assert!((found - expected).abs() < 1e-9, "{cycle:?}");
        }
    }

    #[test]
    fn a_warm_up_is_in_equal_parts() {
        let mut schedule = schedule(ScheduleKind::Cosine);
        schedule.config.warm_up = 4;
        let rates = [0, 1, 3, 4].map(|step| schedule.at(Place { epoch: 1, step, done: 0.0, drops: 0 }));
        assert_eq!(rates, [0.25, 0.5, 1.0, 1.0]);
    }
}
