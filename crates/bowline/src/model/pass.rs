//! What a window is read with: the masks of each part of the network, and what its activity costs.

use super::classifier::AugmentedLoss;
use super::dropout::{Masks, Site, there};
use super::sample::Sample;
use crate::spec::ModelSpec;

/// The masks of a layer in a window; none when evaluating.
#[derive(Clone, Copy, Default)]
pub struct LayerMasks<'a> {
    /// On the inputs, where each gate has its own: (G, B, d_x), or (G, T, B, d_x) if they are others in every step. (One mask for
    /// all gates is on what the layer below gives.)
    pub input: Option<&'a [f32]>,
    /// On the state as the next step consumes it: (B, d), or (T, B, d) if it is another one in every step.
    pub state: Option<&'a [f32]>,
    /// Whether that is a mask for each gate, (G, B, d) or (G, T, B, d).
    pub per_gate: bool,
    /// On the state as the layer above sees it, likewise; where it is not `apart`, this is the mask of the state.
    pub output: Option<&'a [f32]>,
    /// Whether the two are different.
    pub apart: bool,
    /// On the recurrent matrix of each level, (G d, d); or empty.
    pub weights: &'a [Vec<f32>],
    /// Whether [`Layer::unmasked`] is needed.
    pub raw: bool,
    /// What the output's size and its change from step to step cost.
    pub activity: Activity,
}

/// Activation regularisation (Merity et al. 2017): `T (ar mean(y^2) + tar mean((h_t - h_{t-1})^2))` is added to the loss, where
/// `y` is the last layer's output with its mask and `h` without. (The factor `T` makes a sum over the steps of it, as the loss is
/// one.)
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// Of the size.
    pub ar: f32,
    /// Of the change.
    pub tar: f32,
}

impl Activity {
    /// The share of one of so many equal shards of a batch.
    pub(super) fn divided(self, shards: usize) -> Activity {
        Activity { ar: self.ar / shards as f32, tar: self.tar / shards as f32 }
    }

    pub(super) fn is_off(&self) -> bool {
        self.ar == 0.0 && self.tar == 0.0
    }
}

/// What a window is read with, besides the weights and the words: the dropout masks and the augmented loss, where there are
/// any.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// The masks of the window.
    pub masks: Option<&'a Masks>,
    /// The augmented loss.
    pub augment: Option<AugmentedLoss>,
    /// What the last layer's activity costs.
    pub activity: Activity,
    /// The words that the loss is computed over, where it is not the whole vocabulary. No augmented loss, pointer, mixture or
    /// shards then.
    pub sample: Option<&'a Sample>,
    /// The window is one of so many equal shards of a batch, whose loss is the sum of theirs.
    pub shards: usize,
}

impl Default for Pass<'_> {
    fn default() -> Self {
        Pass { masks: None, augment: None, activity: Activity::default(), sample: None, shards: 1 }
    }
}

impl<'a> Pass<'a> {
    /// The masks of layer `l`: in the paper's scheme one for both places where its state is consumed. Where the classifier sees the
    /// sum of all layers, the last one's output has no mask of its own.
    pub(super) fn of_layer(&self, l: usize, spec: &ModelSpec) -> LayerMasks<'a> {
        let (top, sum) = (l + 1 == spec.layers.len(), spec.output.sum_layers);
        let masks = self.of_one(l, spec.layers.len());
        let output = masks.output.filter(|_| !(top && sum));
        LayerMasks { output, apart: masks.apart || sum, raw: sum, ..masks }
    }

    /// The mask of the sum of all layers: that of the last one's output.
    pub(super) fn of_sum(&self) -> Option<&'a [f32]> {
        self.masks.and_then(|masks| masks.outputs.last().or(masks.states.last())).and_then(|mask| there(mask))
    }

    fn of_one(&self, l: usize, layers: usize) -> LayerMasks<'a> {
        let activity = if l + 1 == layers { self.activity.divided(self.shards) } else { Activity::default() };
        let Some(masks) = self.masks else {
            return LayerMasks { activity, apart: activity != Activity::default(), ..LayerMasks::default() };
        };
        let (state, weights) = (there(&masks.states[l]), masks.weights.get(l).map_or(&[][..], |weights| weights));
        let paper = LayerMasks { state, output: state, weights, activity, ..LayerMasks::default() };
        let Some(output) = masks.outputs.get(l) else { return paper };
        // A mask for each gate of the layer that consumes a vector is that layer's affair.
        let by_gate = |site: Site| masks.per_gate.contains(site);
        let (site, below) = if l == 0 { (Site::Input, &masks.input) } else { (Site::Between, &masks.outputs[l - 1]) };
        LayerMasks {
            input: there(below).filter(|_| by_gate(site)),
            per_gate: state.is_some() && by_gate(Site::State),
            output: there(output).filter(|_| l + 1 == layers || !by_gate(Site::Between)),
            apart: true,
            ..paper
        }
    }

    /// The mask of the projection, as that of an output.
    pub(super) fn of_projection(&self) -> LayerMasks<'a> {
        LayerMasks { output: self.masks.and_then(|m| there(&m.projection)), ..LayerMasks::default() }
    }
}
