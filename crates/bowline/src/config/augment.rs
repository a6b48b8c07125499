//! `augment.*`: the augmented loss of a run.

use super::{Config, Training};
use crate::model::{AugmentedForm, AugmentedLoss};
use serde::{Deserialize, Serialize};

/// Whether the gradient of the augmented loss flows through `y~` into the embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetGradient {
    /// `y~` is differentiated like everything else.
    Flow,
    /// `y~` counts as a constant.
    Stop,
}

/// How the augmented loss is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// As the paper has it.
    #[default]
    Exact,
    /// To second order at high temperature, for tied models: an approximation that costs almost nothing.
    Gram,
}

/// What becomes of the cross-entropy `J` and the augmented loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossRule {
    /// `J + gamma tau J_aug`: what the models are trained with.
    #[default]
    Sum,
    /// `beta tau^2 |V| J_aug + (1 - beta) J`: the theory experiment of section 5.2.
    Mixture,
}

/// Where `y~` comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetSource {
    /// From the similarity of the word vectors, as the paper proposes.
    #[default]
    Embedding,
    /// The true distribution at the temperature `tau` (section 3's ideal case): known of the built-in corpus alone.
    Truth,
    /// The mean of what trained models say at the temperature `tau`.
    Teacher,
}

/// The augmented loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugmentConfig {
    /// Temperature.
    pub tau: f32,
    /// Weight: `alpha = gamma * tau`.
    pub gamma: f32,
    /// Through `y~` or not.
    pub gradient: TargetGradient,
    /// Exact, or the cheap approximation.
    #[serde(default)]
    pub form: Form,
    /// A sum, or the theory experiment's mixture.
    #[serde(default)]
    pub loss: LossRule,
    /// The part of the augmented loss in the mixture.
    #[serde(default)]
    pub beta: f32,
    /// The embedding's estimate, or the truth.
    #[serde(default)]
    pub target: TargetSource,
    /// The models it comes from, where it is theirs: folders of models or of runs.
    #[serde(default)]
    pub teachers: Vec<String>,
    /// What tells the weights of each from others; filled in when the run begins.
    #[serde(default)]
    pub teachers_sha256: Vec<String>,
    /// The training with which it begins: the first, as the paper has it, or the second, after a first one that is that of
    /// the model without it.
    #[serde(default)]
    pub begin: Training,
}

/// The second-order form looks at one word of the vocabulary in so many, others each step.
const GRAM_SHARES: usize = 8;

impl Config {
    /// Whether the loss of this training is augmented.
    pub fn augments(&self, training: Training) -> bool {
        self.augmented() && training >= self.augment.begin
    }

    /// The augmented loss of a training step with `vocab` words, for a training that has it.
    pub fn augmented_loss(&self, training: Training, step: u64, vocab: usize) -> Option<AugmentedLoss> {
        let augment = &self.augment;
        // In the mixture the weight of J_aug is alpha = beta tau^2 |V|, and gamma = alpha / tau.
        let (gamma, cross) = match augment.loss {
            LossRule::Sum => (augment.gamma, 1.0),
            LossRule::Mixture => (augment.beta * augment.tau * vocab as f32, 1.0 - augment.beta),
        };
        let given = augment.target != TargetSource::Embedding;
        self.augments(training).then_some(AugmentedLoss {
            tau: augment.tau,
            gamma,
            cross,
            flow: augment.gradient == TargetGradient::Flow && !given,
            form: match augment.form {
                Form::Exact if given => AugmentedForm::Given,
                Form::Exact => AugmentedForm::Exact,
                Form::Gram => AugmentedForm::Gram { shares: GRAM_SHARES, turn: step },
            },
        })
    }

    /// Whether the loss is augmented, in one training at least.
    pub fn augmented(&self) -> bool {
        self.model.augmented() || self.augment.target == TargetSource::Teacher
    }
}
