//! Optimisers, and what they remember of each weight.

use super::{Rule, Touched};
use crate::compute::Compute;
use crate::params::Params;
use bowline_kernels::elementwise;
use bowline_kernels::optimizer::{Adam, Moved, adam};
use serde::{Deserialize, Serialize};

/// How the gradient moves the weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerKind {
    /// Gradient descent.
    #[default]
    Sgd,
    /// Adam (Kingma and Ba 2015).
    Adam,
    /// Gradient descent; once the validation perplexity stops falling, the model is the mean of the weights from then on
    /// (NT-ASGD, Merity et al. 2018).
    Asgd,
}

/// The settings of an optimiser besides the learning rate, the clipping and the weight decay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Which one.
    pub kind: OptimizerKind,
    /// For `adam`: how much of the mean gradient stays in a step. 0 is RMSProp with corrected means.
    pub beta1: f64,
    /// For `adam`: how much of the mean squared gradient stays in a step.
    pub beta2: f64,
    /// For `adam`.
    pub epsilon: f64,
    /// For `adam`: the weights decay by `learning_rate * weight_decay` besides the step (Loshchilov and Hutter 2019), instead
    /// of adding `weight_decay` times the weights to the gradient.
    pub decoupled: bool,
    /// For `asgd`: epochs that the validation perplexity is compared over.
    pub trigger: usize,
}

impl Default for OptimizerConfig {
    fn default() -> OptimizerConfig {
        OptimizerConfig {
            kind: OptimizerKind::Sgd,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            decoupled: false,
            trigger: 5,
        }
    }
}

/// One value for each weight that an optimiser remembers.
#[derive(Clone, Debug)]
pub struct Slot {
    /// What it is, before the tensors' names in a checkpoint.
    pub name: &'static str,
    /// The values.
    pub values: Params,
}

/// An optimiser at work.
#[derive(Clone, Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    slots: Vec<Slot>,
}

impl Optimizer {
    /// One that remembers nothing yet.
    pub fn new(config: &OptimizerConfig, params: &Params) -> Optimizer {
        let slot = |&name: &&'static str| Slot { name, values: params.zeros_like() };
        Optimizer { slots: slot_names(config).iter().map(slot).collect(), config: config.clone() }
    }

    /// What it remembers, for a checkpoint.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The same, to be restored.
    pub fn slots_mut(&mut self) -> &mut [Slot] {
        &mut self.slots
    }

    /// [`Optimizer::step`] with a gradient of which these rows were touched: it moves them alone where that is enough.
    pub fn step_touched(
        &mut self,
        compute: &Compute,
        params: &mut Params,
        (gradient, touched): (&Params, Option<&Touched>),
        norm: f64,
        (rule, t): (Rule, u64),
    ) {
        let descent = self.config.kind != OptimizerKind::Adam;
        match touched.filter(|touched| descent && touched.suffices(&rule, params)) {
            Some(touched) => touched.step(compute, params, gradient, norm, rule),
            None => self.step(compute, params, gradient, norm, (rule, t)),
        }
    }

    /// Step `t` of it, counted from 1. `norm` is that of the gradient, which the caller has found finite.
    pub fn step(
        &mut self,
        compute: &Compute,
        params: &mut Params,
        gradient: &Params,
        norm: f64,
        (rule, t): (Rule, u64),
    ) {
        if self.config.kind != OptimizerKind::Adam {
            return super::step(compute, params, gradient, norm, rule);
        }
        let config = &self.config;
        let scale = if norm > rule.clip { rule.clip / norm } else { 1.0 };
        let t = i32::try_from(t).unwrap_or(i32::MAX);
        let (pull, shrink) = match config.decoupled {
            true => (0.0, rule.learning_rate * rule.weight_decay),
            false => (rule.weight_decay, 0.0),
        };
        let step = Adam {
            rate: rule.learning_rate as f32,
            beta1: config.beta1 as f32,
            beta2: config.beta2 as f32,
            epsilon: config.epsilon as f32,
            scale: scale as f32,
            pull: pull as f32,
            shrink: shrink as f32,
            corrections: ((1.0 - config.beta1.powi(t)) as f32, (1.0 - config.beta2.powi(t)) as f32),
        };
        let spared = if rule.spare_vectors { params.embedding().len() } else { 0 };
        let n = params.data().len();
        let unpulled = Adam { pull: 0.0, shrink: 0.0, ..step };
        for (part, step) in [(0..spared, unpulled), (spared..n, step)] {
            let (mean, square) = match &mut self.slots[..] {
                [square] => (&mut [][..], square),
                [mean, square] => (&mut mean.values.data_mut()[part.clone()], square),
                _ => return,
            };
            let moved = Moved {
                weights: &mut params.data_mut()[part.clone()],
                gradient: &gradient.data()[part.clone()],
                mean,
                square: &mut square.values.data_mut()[part],
            };
            adam(&compute.team, compute.isa, step, moved);
        }
    }
}

/// The names of what an optimiser remembers of each weight.
pub fn slot_names(config: &OptimizerConfig) -> &'static [&'static str] {
    match config.kind {
        OptimizerKind::Adam if config.beta1 > 0.0 => &["adam.m", "adam.v"],
        OptimizerKind::Adam => &["adam.v"],
        OptimizerKind::Sgd | OptimizerKind::Asgd => &[],
    }
}

/// Whether averaging begins after an epoch, given the validation perplexities of all so far: when the last one is worse than the
/// best of those more than `trigger` epochs back.
pub fn begins_to_average(valid: &[f64], trigger: usize) -> bool {
    let Some((last, before)) = valid.split_last() else { return false };
    valid.len() > trigger && before[..valid.len() - trigger].iter().any(|earlier| last > earlier)
}

/// Moves the mean of the weights on by those after step `n` of the averaging, counted from 1: `mean <- mean + (theta - mean) / n`.
pub fn average_all(compute: &Compute, mean: &mut Params, params: &Params, n: u64) {
    let c = 1.0 / n.max(1) as f64;
    elementwise::add_scaled(&compute.team, compute.isa, mean.data_mut(), c as f32, params.data(), -1.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ModelSpec;

    /// What PyTorch's Adam gives for these numbers: `torch.optim.Adam([x], lr=0.1, betas=(b1, 0.99), weight_decay=0.1)` with
    /// gradients 0.3, -0.2 and 0.5 for x = 1, clipped to a norm of 0.4, in float64.
    #[test]
    fn three_steps_of_adam_are_pytorch_s() {
        for (beta1, expected) in [(0.9, TORCH_ADAM), (0.0, TORCH_RMS)] {
            let spec = ModelSpec::paper(2, 1, 1, true);
            let mut params = Params::zeros(&spec);
            params.data_mut().fill(1.0);
            let config =
                OptimizerConfig { kind: OptimizerKind::Adam, beta1, beta2: 0.99, ..OptimizerConfig::default() };
            let mut optimizer = Optimizer::new(&config, &params);
            let rule = Rule { learning_rate: 0.1, clip: 0.4, weight_decay: 0.1, spare_vectors: true };
            for (t, g) in [0.3f32, -0.2, 0.5].into_iter().enumerate() {
                let mut gradient = params.zeros_like();
                gradient.data_mut().fill(g);
                // The norm that is given is that of one weight.
                optimizer.step(
                    &Compute::with_threads(1),
                    &mut params,
                    &gradient,
                    f64::from(g.abs()),
                    (rule, t as u64 + 1),
                );
                let last = params.data()[params.data().len() - 1];
                assert!((f64::from(last) - expected[t]).abs() < 1e-6, "beta1 {beta1}, step {t}: {last}");
            }
            assert_ne!(params.data()[0], params.data()[2], "the word vectors do not decay");
        }
    }

    const TORCH_ADAM: [f64; 3] = [0.9, 0.855_047_824, 0.784_005_266];
    const TORCH_RMS: [f64; 3] = [0.9, 0.937_580_023, 0.805_103_476];

    #[test]
    fn averaging_begins_when_an_epoch_is_worse_than_one_long_before() {
        assert!(!begins_to_average(&[5.0, 4.0, 3.0, 2.9], 2));
        assert!(begins_to_average(&[5.0, 3.0, 3.1, 3.2], 2));
        assert!(!begins_to_average(&[5.0, 4.0, 3.1, 3.2], 2));
        assert!(!begins_to_average(&[1.0, 2.0], 2));
        assert!(!begins_to_average(&[], 0));
    }

    #[test]
    fn the_mean_of_all_steps_is_their_mean() {
        let mut params = Params::zeros(&ModelSpec::paper(2, 1, 1, true));
        let mut mean = params.clone();
        for n in 1..=4u64 {
            params.data_mut().fill(n as f32);
            average_all(&Compute::with_threads(1), &mut mean, &params, n);
        }
        assert!(mean.data().iter().all(|&x| x == 2.5));
    }
}
