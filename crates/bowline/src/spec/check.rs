//! Which models there can be, and which can learn from the text they read.

use super::{Activation, ModelSpec, OutputSpec, Unit};

/// Far above any model this program can train, and small enough that no product of them overflows.
const MOST_WORDS: usize = 1 << 24;
const MOST_UNITS: usize = 1 << 16;
const MOST_LAYERS: usize = 64;
/// The most powers of a word's polynomial.
const MOST_POWERS: usize = bowline_kernels::polynomial::MOST_POWERS;
const MOST_SOFTMAXES: usize = 1024;

impl ModelSpec {
    /// Whether there can be such a model; if not, why.
    pub fn check(&self) -> Result<(), String> {
        let within = |what: &str, n: usize, most: usize| match n {
            0 => Err(format!("{what} is 0")),
            n if n > most => Err(format!("{what} is {n}, and {most} is the most")),
            _ => Ok(()),
        };
        within("the number of words", self.vocab, MOST_WORDS)?;
        within("the width of the word vectors", self.input.width, MOST_UNITS)?;
        if self.input.context.is_none() || !self.layers.is_empty() {
            within("the number of layers", self.layers.len(), MOST_LAYERS)?;
        }
        if let Some(context) = self.input.context {
            within("the number of words read side by side", context, MOST_UNITS)?;
            if self.features() > 0 || self.input.characters.is_some() || self.output.pointer.is_some() {
                return Err("words are read side by side without topics, characters or a pointer".to_owned());
            }
        }
        if let Some(powers) = self.output.sum_product {
            within("the number of powers of a sum-product network", powers, MOST_POWERS)?;
            // Only so are the sums that the polynomials see never below 0.
            if !self.layers.is_empty() || self.output.projection.is_some() || self.features() > 0 {
                return Err(
                    "a sum-product network sees the word vectors as they are, without layers above them".to_owned()
                );
            }
            if self.output.tied || self.output.bias || self.output.pointer.is_some() || self.output.mixture.is_some() {
                return Err("a sum-product network has polynomials, and no tied classifier, bias, pointer or mixture"
                    .to_owned());
            }
        }
        if let Some(classes) = self.output.classes {
            within("the number of classes", classes, self.vocab)?;
            let OutputSpec { tied, bias, pointer, mixture, sum_product, .. } = &self.output;
            if *tied || *bias || pointer.is_some() || mixture.is_some() || sum_product.is_some() {
                return Err(
                    "classes have softmaxes of their own: without a tied classifier, a bias, a pointer, a mixture or \
                            polynomials"
                        .to_owned(),
                );
            }
        }
        if let Some(topics) = self.input.topics {
            within("the number of topics", topics.count, MOST_UNITS)?;
            within("the number of words that topics look back on", topics.window, MOST_UNITS)?;
        }
        if let Some(characters) = &self.input.characters {
            characters.check(MOST_UNITS)?;
            let (made, words) = (characters.outputs(), self.input.width);
            if made != words {
                return Err(format!("the characters give word vectors of {made} values, not of {words}"));
            }
            if self.output.tied {
                return Err("a classifier cannot reuse word vectors that come from characters".to_owned());
            }
        }
        if let Some(pointer) = self.output.pointer {
            within("the number of words that a pointer looks back on", pointer.window, MOST_UNITS)?;
        }
        if let Some(mixture) = self.output.mixture {
            within("the number of softmaxes", mixture.softmaxes, MOST_SOFTMAXES)?;
            if self.output.projection.is_none() {
                return Err("a mixture of softmaxes needs a projection, which gives each of them its vector".to_owned());
            }
            if self.output.pointer.is_some() || self.input.topics.is_some() {
                return Err("a mixture of softmaxes cannot be beside a pointer or topics".to_owned());
            }
        }
        for (l, layer) in self.layers.iter().enumerate() {
            within(&format!("the number of units of layer {l}"), layer.units, MOST_UNITS)?;
            match layer.unit {
                Unit::Rnn { activation: Activation::Linear } | Unit::Deep { activation: Activation::Linear } => {
                    return Err(format!("layer {l} is linear, and needs tanh, sigmoid or relu"));
                }
                Unit::Highway { depth } => within(&format!("the depth of layer {l}"), depth, MOST_LAYERS)?,
                Unit::Mogrifier { rounds, rank, .. } => {
                    within(&format!("the number of rounds of layer {l}"), rounds, MOST_LAYERS)?;
                    let most = self.inputs(l).min(layer.units);
                    within(&format!("the rank of the rounds of layer {l}"), rank, most)?;
                }
                _ => {}
            }
            if layer.direct && !matches!(layer.unit, Unit::Rnn { .. } | Unit::Deep { .. }) {
                return Err(format!("layer {l} is direct, which only simple recurrent and deep layers can be"));
            }
            let (found, needed) = (self.inputs(l), layer.direct_inputs());
            if layer.direct && found != needed {
                return Err(format!(
                    "layer {l} adds its inputs to its gates, so it needs {needed} of them, not {found}"
                ));
            }
        }
        if self.output.sum_layers && self.layers.iter().any(|layer| layer.units != self.layers[0].units) {
            let widths: Vec<usize> = self.layers.iter().map(|layer| layer.units).collect();
            return Err(format!("layers that are summed need one width, and they have {widths:?}"));
        }
        within("the width of what the classifier sees", self.width(), MOST_UNITS)?;
        if self.output.tied && self.width() != self.input.width {
            let (seen, words) = (self.width(), self.input.width);
            return Err(format!("the classifier is tied to word vectors of {words} values, and sees {seen}"));
        }
        Ok(())
    }

    /// Why the model cannot learn from the text that it reads (dynamic evaluation), where it cannot.
    pub fn cannot_adapt(&self) -> Option<&'static str> {
        let reasons = [
            (
                self.output.pointer.is_some(),
                "a model with a pointer cannot learn from the text that it reads: its words depend on each other through the \
                 pointer",
            ),
            (
                self.input.characters.is_some(),
                "a model that reads characters cannot learn from the text that it reads: all its word vectors would move with \
                 every word",
            ),
            (
                self.output.mixture.is_some(),
                "a mixture of softmaxes cannot learn from the text that it reads: dynamic evaluation is for one softmax",
            ),
            (
                self.input.context.is_some() || self.output.sum_product.is_some(),
                "a model that reads words side by side, or a sum-product network, cannot learn from the text that it reads",
            ),
            (
                self.output.classes.is_some(),
                "a model with classes of words cannot learn from the text that it reads: dynamic evaluation is for one softmax",
            ),
            (
                self.output.sum_layers,
                "a model with summed layers cannot learn from the text that it reads: dynamic evaluation is for layers one \
                 above the other",
            ),
        ];
        reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, reason)| reason)
    }
}
