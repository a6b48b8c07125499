//! Which model: one of the paper's four, or another recipe by its name.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The four models of the paper, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModelKind {
    /// The variational-dropout LSTM: the baseline.
    VdLstm,
    /// With the augmented loss.
    Al,
    /// With the reused embedding.
    Re,
    /// With both.
    Real,
    /// Another recipe.
    Recipe(RecipeName),
}

/// The name of a recipe. There are few, and each is kept once, for as long as the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecipeName(&'static str);

impl RecipeName {
    /// The name.
    pub fn new(name: &str) -> RecipeName {
        static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(name) {
            return RecipeName(known);
        }
        let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
        names.insert(kept);
        RecipeName(kept)
    }
}

impl ModelKind {
    /// The paper's four, in its order.
    pub const ALL: [ModelKind; 4] = [ModelKind::VdLstm, ModelKind::Al, ModelKind::Re, ModelKind::Real];

    /// The model of a name that `--model` takes.
    pub fn named(name: &str) -> ModelKind {
        let paper = ModelKind::ALL.into_iter().find(|kind| kind.name() == name);
        paper.unwrap_or_else(|| ModelKind::Recipe(RecipeName::new(name)))
    }

    /// The name that `--model` takes.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::VdLstm => "vd-lstm",
            ModelKind::Al => "al",
            ModelKind::Re => "re",
            ModelKind::Real => "real",
            ModelKind::Recipe(RecipeName(name)) => name,
        }
    }

    /// The name in the paper's tables, or that of the recipe.
    pub fn title(self) -> &'static str {
        match self {
            ModelKind::VdLstm => "VD-LSTM",
            ModelKind::Al => "VD-LSTM +AL",
            ModelKind::Re => "VD-LSTM +RE",
            ModelKind::Real => "VD-LSTM +REAL",
            ModelKind::Recipe(RecipeName(name)) => name,
        }
    }

    /// Of one of the paper's models, whether the classifier reuses the embedding.
    pub fn paper_tied(self) -> Option<bool> {
        match self {
            ModelKind::VdLstm | ModelKind::Al => Some(false),
            ModelKind::Re | ModelKind::Real => Some(true),
            ModelKind::Recipe(_) => None,
        }
    }

    /// Whether the loss is augmented.
    pub fn augmented(self) -> bool {
        matches!(self, ModelKind::Al | ModelKind::Real)
    }
}

impl Serialize for ModelKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ModelKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ModelKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name.is_empty() {
            return Err(serde::de::Error::custom("a model must have a name"));
        }
        Ok(ModelKind::named(&name))
    }
}
