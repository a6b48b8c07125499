//! Dropout: masks by site, each with its own probability of keeping a unit.
//!
//! In the paper's scheme (appendix A) all sites have one probability, masks are held for a window, and a layer's state has one
//! mask wherever it is consumed. Other systems mask the state's two uses apart, and draw some masks anew at every step.

use crate::batch::Window;
use crate::rng::{Purpose, Stream};
use crate::spec::ModelSpec;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The probability that a unit is **kept**. The paper's "dropout probabilities" are these: 0.7 keeps 70 of 100 units.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeepProb(pub f32);

impl KeepProb {
    /// What keeps all.
    pub const ALL: KeepProb = KeepProb(1.0);

    /// 0 for a dropped unit, `1 / keep` for a kept one.
    fn mask(self) -> impl Fn(u32) -> f32 {
        let scale = 1.0 / self.0;
        // A u32 below keep * 2^32 is kept; 2^32 itself (keep = 1) keeps all.
        let limit = (f64::from(self.0) * 2f64.powi(32)) as u64;
        move |r: u32| if u64::from(r) < limit { scale } else { 0.0 }
    }
}

/// A place where a vector, or a matrix, can be masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Site {
    /// All of a word's vector, one draw for each word and stream of a window.
    Word,
    /// The values of a word's vector.
    Input,
    /// A layer's state where its own next step consumes it.
    State,
    /// A layer's output where the layer above consumes it.
    Between,
    /// The last layer's output, where the projection or the classifier consumes it.
    Output,
    /// The projection, where the classifier consumes it.
    Projection,
    /// The recurrent matrices.
    Weights,
}

impl Site {
    const ALL: [Site; 7] =
        [Site::Word, Site::Input, Site::State, Site::Between, Site::Output, Site::Projection, Site::Weights];
}

/// A set of sites; in files, a list of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Site>", into = "Vec<Site>")]
pub struct Sites(u8);

impl Sites {
    /// Whether a site is one of them.
    pub fn contains(self, site: Site) -> bool {
        self.0 & (1 << site as u8) != 0
    }
}

impl From<Vec<Site>> for Sites {
    fn from(sites: Vec<Site>) -> Sites {
        Sites(sites.iter().fold(0, |all, &site| all | 1 << site as u8))
    }
}

impl From<Sites> for Vec<Site> {
    fn from(sites: Sites) -> Vec<Site> {
        Site::ALL.into_iter().filter(|&site| sites.contains(site)).collect()
    }
}

/// The probability of keeping a unit, by site.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropout {
    /// [`Site::Word`].
    pub word: KeepProb,
    /// [`Site::Input`].
    pub input: KeepProb,
    /// [`Site::State`].
    pub state: KeepProb,
    /// [`Site::Between`].
    pub between: KeepProb,
    /// [`Site::Output`].
    pub output: KeepProb,
    /// [`Site::Projection`].
    pub projection: KeepProb,
    /// [`Site::Weights`].
    pub weights: KeepProb,
    /// The sites whose masks are drawn anew at every step; the others are held for a window.
    pub each_step: Sites,
    /// The sites whose vectors have a mask for each gate of the layer that consumes them (Gal and Ghahramani's untied form); at
    /// the others all gates share one. Of [`Site::Input`], [`Site::State`] and [`Site::Between`].
    #[serde(default)]
    pub per_gate: Sites,
}

impl Default for Dropout {
    fn default() -> Dropout {
        let all = KeepProb::ALL;
        Dropout {
            word: all,
            input: all,
            state: all,
            between: all,
            output: all,
            projection: all,
            weights: all,
            each_step: Sites::default(),
            per_gate: Sites::default(),
        }
    }
}

impl Dropout {
    /// The probabilities by the names of their settings.
    pub fn sites(&self) -> [(&'static str, KeepProb); 7] {
        [
            ("word", self.word),
            ("input", self.input),
            ("state", self.state),
            ("between", self.between),
            ("output", self.output),
            ("projection", self.projection),
            ("weights", self.weights),
        ]
    }

    /// The same with this share of what each site drops: 1 drops as much, 0 nothing.
    pub fn dropping(&self, share: f64) -> Dropout {
        let of = |keep: KeepProb| KeepProb((1.0 - share * (1.0 - f64::from(keep.0))) as f32);
        Dropout {
            word: of(self.word),
            input: of(self.input),
            state: of(self.state),
            between: of(self.between),
            output: of(self.output),
            projection: of(self.projection),
            weights: of(self.weights),
            ..*self
        }
    }

    /// The sites that have a mask by gate and cannot: no gates consume what they mask.
    pub fn without_gates(&self) -> impl Iterator<Item = Site> {
        let gates = [Site::Input, Site::State, Site::Between];
        Vec::from(self.per_gate).into_iter().filter(move |site| !gates.contains(site))
    }

    /// Whether nothing is dropped anywhere.
    pub fn is_off(&self) -> bool {
        self.sites().iter().all(|(_, keep)| keep.0 == 1.0)
    }
}

/// The masks of one window: 0 for a dropped unit, `1 / keep` for a kept one. A mask is (B, d) if it is held, (T, B, d) if it is
/// drawn at every step, as often as there are gates if each has its own, and empty where nothing is dropped.
#[derive(Clone, Debug, Default)]
pub struct Masks {
    /// (T, B): a factor for each word of the window.
    pub words: Vec<f32>,
    /// On the input's word vector.
    pub input: Vec<f32>,
    /// For each layer, on its state where its own next step consumes it. Never on what else the layer carries.
    pub states: Vec<Vec<f32>>,
    /// For each layer, on its state where the layer above (or the projection, or the classifier) consumes it. There are none
    /// in the paper's scheme, where that is the mask of the state.
    pub outputs: Vec<Vec<f32>>,
    /// On the projection.
    pub projection: Vec<f32>,
    /// For each layer and level, (G d, d): on the recurrent matrix.
    pub weights: Vec<Vec<Vec<f32>>>,
    /// The sites where each gate has its own mask.
    pub per_gate: Sites,
}

impl Masks {
    /// The paper's masks for `batch` streams, dropping nothing until they are drawn.
    pub fn new(spec: &ModelSpec, batch: usize) -> Masks {
        let states = spec.layers.iter().map(|layer| vec![1.0; batch * layer.units]).collect();
        Masks { input: vec![1.0; batch * spec.input.width], states, ..Masks::default() }
    }

    /// Draws the paper's masks of a step: a function of `(seed, step)` alone.
    pub fn draw(&mut self, seed: u64, step: u64, keep: KeepProb) {
        Stream::new(seed, Purpose::InputMask, step).fill(&mut self.input, keep.mask());
        for (layer, mask) in self.states.iter_mut().enumerate() {
            Stream::new(seed, Purpose::StateMask(layer as u16), step).fill(mask, keep.mask());
        }
    }

    /// Draws masks by site for a window: a function of `(seed, step)` and of the words alone.
    pub fn draw_by_site(&mut self, dropout: &Dropout, spec: &ModelSpec, window: &Window, (seed, step): (u64, u64)) {
        let (steps, batch) = (window.steps, window.batch);
        let draw =
            |mask: &mut Vec<f32>, (site, gates): (Site, usize), keep: KeepProb, width: usize, purpose: Purpose| {
                let times = if dropout.each_step.contains(site) { steps } else { 1 };
                let one = times * batch * width;
                mask.resize(if keep.0 < 1.0 { gates * one } else { 0 }, 0.0);
                for (gate, mask) in mask.chunks_exact_mut(one).enumerate() {
                    Stream::new(seed, purpose, step).of_gate(gate as u8).fill(mask, keep.mask());
                }
            };
        // A site, and how many masks are needed of what layer `l` consumes there.
        let gates = |site: Site, l: usize| {
            let layer = spec.layers.get(l).filter(|_| dropout.per_gate.contains(site));
            (site, layer.map_or(1, |layer| layer.unit.kernel().gates()))
        };
        self.per_gate = dropout.per_gate;
        self.draw_words(dropout, window, (seed, step));
        draw(&mut self.input, gates(Site::Input, 0), dropout.input, spec.input.width, Purpose::InputMask);
        self.states.resize(spec.layers.len(), Vec::new());
        self.outputs.resize(spec.layers.len(), Vec::new());
        for (l, layer) in spec.layers.iter().enumerate() {
            let top = l + 1 == spec.layers.len();
            let (site, keep) = if top { (Site::Output, dropout.output) } else { (Site::Between, dropout.between) };
            let (l16, d) = (l as u16, layer.units);
            draw(&mut self.states[l], gates(Site::State, l), dropout.state, d, Purpose::StateMask(l16));
            draw(&mut self.outputs[l], gates(site, l + 1), keep, d, Purpose::OutputMask(l16));
        }
        let site = (Site::Projection, 1);
        draw(&mut self.projection, site, dropout.projection, spec.projected(), Purpose::ProjectionMask);
        if dropout.weights.0 < 1.0 {
            self.draw_weights(dropout.weights, spec, (seed, step));
        }
    }

    /// Takes the masks of the streams `rows` of `batch`. Those of matrices are of all streams.
    pub fn take_streams(&mut self, whole: &Masks, spec: &ModelSpec, batch: usize, rows: Range<usize>) {
        let take = |to: &mut Vec<f32>, from: &[f32], width: usize| {
            to.clear();
            for step in from.chunks_exact(batch * width) {
                to.extend_from_slice(&step[rows.start * width..rows.end * width]);
            }
        };
        take(&mut self.words, &whole.words, 1);
        take(&mut self.input, &whole.input, spec.input.width);
        take(&mut self.projection, &whole.projection, spec.projected());
        for (to, from) in [(&mut self.states, &whole.states), (&mut self.outputs, &whole.outputs)] {
            to.resize(from.len(), Vec::new());
            for ((to, from), layer) in to.iter_mut().zip(from).zip(&spec.layers) {
                take(to, from, layer.units);
            }
        }
        self.weights.clone_from(&whole.weights);
        self.per_gate = whole.per_gate;
    }

    fn draw_words(&mut self, dropout: &Dropout, window: &Window, (seed, step): (u64, u64)) {
        self.words.clear();
        if dropout.word.0 < 1.0 {
            let mask = dropout.word.mask();
            self.words.extend(window.inputs.iter().enumerate().map(|(i, &word)| {
                let stream = Stream::new(seed, Purpose::WordMask((i % window.batch) as u16), step);
                mask(stream.block(word / 4)[word as usize % 4])
            }));
        }
    }

    fn draw_weights(&mut self, keep: KeepProb, spec: &ModelSpec, (seed, step): (u64, u64)) {
        let layout = spec.layout();
        self.weights.resize(spec.layers.len(), Vec::new());
        for (l, (masks, layer)) in self.weights.iter_mut().zip(&layout.layers).enumerate() {
            masks.resize(layer.levels.len(), Vec::new());
            for (k, (mask, level)) in masks.iter_mut().zip(&layer.levels).enumerate() {
                mask.resize(layout.range(level.w_hh).len(), 0.0);
                Stream::new(seed, Purpose::WeightMask(l as u8, k as u8), step).fill(mask, keep.mask());
            }
        }
    }
}

/// A mask, unless it is empty.
pub(super) fn there(mask: &[f32]) -> Option<&[f32]> {
    (!mask.is_empty()).then_some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_keeps_the_asked_share_and_scales_it_up() {
        let mut masks = Masks::new(&ModelSpec::paper(10, 500, 2, true), 20);
        for keep in [0.35, 0.7, 1.0] {
            masks.draw(3, 17, KeepProb(keep));
            for mask in std::iter::once(&masks.input).chain(&masks.states) {
                assert!(mask.iter().all(|&m| m == 0.0 || m == 1.0 / keep));
                let kept = mask.iter().filter(|&&m| m > 0.0).count() as f32 / 10_000.0;
                assert!((kept - keep).abs() < 0.02, "kept {kept} of {keep}");
            }
        }
        masks.draw(3, 17, KeepProb(0.5));
        let again = masks.clone();
        masks.draw(3, 18, KeepProb(0.5));
        assert_ne!(masks.input, again.input);
        assert_ne!(again.states[0], again.states[1]);
        masks.draw(3, 17, KeepProb(0.5));
        assert_eq!(masks.states, again.states);
    }

    #[test]
    fn each_site_has_its_own_probability_and_is_held_or_drawn_at_every_step() {
        let spec = ModelSpec::paper(50, 300, 2, true);
        let window = Window { steps: 6, batch: 4, inputs: (0..24).map(|i| i % 5).collect(), targets: vec![0; 24] };
        let dropout = Dropout {
            word: KeepProb(0.5),
            input: KeepProb(0.8),
            state: KeepProb(0.7),
            between: KeepProb(0.6),
            output: KeepProb(0.4),
            projection: KeepProb(0.3),
            weights: KeepProb(0.9),
            each_step: vec![Site::Input, Site::Output].into(),
            per_gate: Sites::default(),
        };
        let mut masks = Masks::default();
        masks.draw_by_site(&dropout, &spec, &window, (1, 7));
        let (held, drawn) = (4 * 300, 6 * 4 * 300);
        for (mask, keep, len) in [
            (&masks.input, 0.8, drawn),
            (&masks.states[0], 0.7, held),
            (&masks.states[1], 0.7, held),
            (&masks.outputs[0], 0.6, held),
            (&masks.outputs[1], 0.4, drawn),
            (&masks.projection, 0.3, held),
            (&masks.weights[1][0], 0.9, 4 * 300 * 300),
        ] {
            assert_eq!(mask.len(), len);
            let kept = mask.iter().filter(|&&m| m > 0.0).count() as f32 / len as f32;
            assert!((kept - keep).abs() < 0.05 && mask.iter().all(|&m| m == 0.0 || m == 1.0 / keep), "{kept} {keep}");
        }
        // A word is dropped wherever it stands in a stream's window, or nowhere.
        for (i, j) in (0..24).flat_map(|i| (0..24).map(move |j| (i, j))) {
            if i % 4 == j % 4 && window.inputs[i] == window.inputs[j] {
                assert_eq!(masks.words[i], masks.words[j]);
            }
        }
        assert!(masks.words.contains(&0.0) && masks.words.contains(&2.0));
        // A mask for each of the four gates that consume it: an LSTM's.
        let per_gate = vec![Site::Input, Site::State, Site::Between].into();
        masks.draw_by_site(&Dropout { per_gate, ..dropout }, &spec, &window, (1, 7));
        let lengths = [&masks.input, &masks.states[1], &masks.outputs[0], &masks.outputs[1]].map(Vec::len);
        assert_eq!(lengths, [4 * drawn, 4 * held, 4 * held, drawn]);
        assert_ne!(masks.states[0][..held], masks.states[0][held..2 * held]);
        masks.draw_by_site(&Dropout::default(), &spec, &window, (1, 7));
        assert!(masks.input.is_empty() && masks.words.is_empty() && masks.outputs.iter().all(Vec::is_empty));
    }
}
