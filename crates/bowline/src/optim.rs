//! Gradient descent as in appendix A: clipping by the global norm, a learning rate that decays per epoch.

use crate::params::Params;
use bowline_kernels::{Isa, Team, elementwise};
use serde::{Deserialize, Serialize};

/// `theta <- theta - learning_rate * g * min(1, clip / |g|)`; `norm` is `|g|`, which the caller has found finite.
pub fn step(team: &Team, isa: Isa, params: &mut Params, gradient: &Params, norm: f64, learning_rate: f64, clip: f64) {
    let scale = if norm > clip { clip / norm } else { 1.0 };
    elementwise::add_scaled(team, isa, params.data_mut(), -(learning_rate * scale) as f32, gradient.data());
}

/// The Euclidean norm of all gradients together.
pub fn global_norm(team: &Team, isa: Isa, gradient: &Params) -> f64 {
    elementwise::squared_norm(team, isa, gradient.data()).sqrt()
}

/// The learning rate by epoch: constant at first, then multiplied by a factor each epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The rate of the first epochs.
    pub learning_rate: f64,
    /// The factor.
    pub decay: f64,
    /// The last epoch (counted from 1) at the full rate.
    pub decay_after: u32,
}

impl Schedule {
    /// The rate of an epoch, counted from 1.
    pub fn at(&self, epoch: u32) -> f64 {
        self.learning_rate * self.decay.powi(epoch.saturating_sub(self.decay_after) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_model_s_rate_falls_from_the_sixth_epoch_on() {
        let schedule = Schedule { learning_rate: 1.0, decay: 0.9, decay_after: 5 };
        assert_eq!([1, 5, 6, 7].map(|e| schedule.at(e)), [1.0, 1.0, 0.9, 0.81]);
    }
}
