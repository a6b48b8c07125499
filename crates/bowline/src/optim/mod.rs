//! How the weights are moved: gradient descent as in appendix A here, other optimisers and the learning rate beside it.

mod optimizer;
mod schedule;
mod touched;

pub use optimizer::{Optimizer, OptimizerConfig, OptimizerKind, Slot, average_all, begins_to_average, slot_names};
pub use schedule::{Place, Schedule, ScheduleConfig, ScheduleKind};
pub use touched::Touched;
pub(crate) use touched::each_row;

use crate::compute::Compute;
use crate::params::Params;
use bowline_kernels::elementwise;

/// What a step of gradient descent is decided by, besides the gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// How far a step goes.
    pub learning_rate: f64,
    /// Largest global norm of a gradient.
    pub clip: f64,
    /// How much of the weights is added to the clipped gradient: the slope of `weight_decay / 2 * |theta|^2`.
    pub weight_decay: f64,
    /// The word vectors do not decay, nor do the classifier's that are the same.
    pub spare_vectors: bool,
}

/// `theta <- theta - learning_rate * (g * min(1, clip / |g|) + weight_decay * theta)`; `norm` is `|g|`, which the caller has
/// found finite.
pub fn step(compute: &Compute, params: &mut Params, gradient: &Params, norm: f64, rule: Rule) {
    let scale = if norm > rule.clip { rule.clip / norm } else { 1.0 };
    let (factor, pull) = (-(rule.learning_rate * scale) as f32, (rule.weight_decay / scale) as f32);
    let spared = if rule.spare_vectors { params.embedding().len() } else { 0 };
    let (vectors, rest) = params.data_mut().split_at_mut(spared);
    let (vectors_gradient, rest_gradient) = gradient.data().split_at(spared);
    elementwise::add_scaled(&compute.team, compute.isa, vectors, factor, vectors_gradient, 0.0);
    elementwise::add_scaled(&compute.team, compute.isa, rest, factor, rest_gradient, pull);
}

/// Moves the running mean of the weights on by the weights after step `step` (counted from 1):
/// `mean <- mean + c (theta - mean)` with `c = 1 / (1 + share (step - 1))`.
///
/// The weight of a step in the mean falls with its age like `(step / steps)^(1 / share - 1)` (Shamir and Zhang 2013 call it
/// polynomial-decay averaging), so it is about the mean over the last `share` of all steps, however many there will be, and
/// what the first steps did is forgotten.
pub fn average(compute: &Compute, mean: &mut Params, params: &Params, step: u64, share: f64) {
    let c = 1.0 / (1.0 + share * (step.max(1) - 1) as f64);
    elementwise::add_scaled(&compute.team, compute.isa, mean.data_mut(), c as f32, params.data(), -1.0);
}

/// The Euclidean norm of all gradients together.
pub fn global_norm(compute: &Compute, gradient: &Params) -> f64 {
    elementwise::squared_norm(&compute.team, compute.isa, gradient.data()).sqrt()
}

/// The same of a gradient of which these rows were touched, where that is known.
pub fn norm_touched(compute: &Compute, gradient: &Params, touched: Option<&Touched>) -> f64 {
    touched.map_or_else(|| global_norm(compute, gradient), |touched| touched.norm(compute, gradient))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ModelSpec;

    #[test]
    fn a_step_clips_the_gradient_and_not_the_decay_of_the_weights() {
        let spec = ModelSpec::paper(3, 1, 1, true);
        let (mut params, mut gradient) = (Params::zeros(&spec), Params::zeros(&spec));
        params.data_mut().fill(8.0);
        gradient.data_mut()[..2].copy_from_slice(&[6.0, -8.0]);
        let compute = Compute::with_threads(1);
        let norm = global_norm(&compute, &gradient);
        assert_eq!(norm, 10.0);
        let after = |rule| {
            let mut moved = params.clone();
            step(&compute, &mut moved, &gradient, norm, rule);
            moved.data()[..4].to_vec()
        };
        let plain = Rule { learning_rate: 0.5, clip: 20.0, weight_decay: 0.0, spare_vectors: false };
        assert_eq!(after(plain), [5.0, 12.0, 8.0, 8.0]);
        assert_eq!(after(Rule { clip: 5.0, ..plain }), [6.5, 10.0, 8.0, 8.0]);
        // Half of a quarter of 8 more is taken away, from the weights without a gradient too.
        let decay = Rule { clip: 5.0, weight_decay: 0.25, ..plain };
        assert_eq!(after(decay), [5.5, 9.0, 7.0, 7.0]);
        // The first three are the word vectors.
        assert_eq!(after(Rule { spare_vectors: true, ..decay }), [6.5, 10.0, 8.0, 7.0]);
    }

    #[test]
    fn the_mean_is_over_about_the_share_of_the_steps_and_forgets_the_beginning() {
        let spec = ModelSpec::paper(2, 1, 1, true);
        let (compute, steps) = (Compute::with_threads(1), 400);
        for share in [0.5, 0.25, 0.1] {
            // The weights after step s are s, so the mean tells the mean step.
            let mean_step = |start: f32| {
                let (mut mean, mut params) = (Params::zeros(&spec), Params::zeros(&spec));
                mean.data_mut().fill(start);
                for step in 1..=steps {
                    params.data_mut().fill(step as f32);
                    average(&compute, &mut mean, &params, step, share);
                }
                assert!(mean.data().iter().all(|&x| x == mean.data()[0]));
                f64::from(mean.data()[0])
            };
            // A weight of s^(1/share - 1) has the mean age steps * share / (1 + share).
            let age = steps as f64 - mean_step(0.0);
            let want = steps as f64 * share / (1.0 + share);
            assert!((age - want).abs() < 0.01 * want + 1.0, "{share}: {age}, {want}");
            assert_eq!(mean_step(0.0), mean_step(1e6));
        }
    }
}
