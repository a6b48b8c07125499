//! The settings of a predictor, and which of them are possible.

use crate::error::{Error, Result};
use crate::model::{Dropout, KeepProb};
use serde::{Deserialize, Serialize};

/// A neural cache (Grave, Joulin and Usunier, "Improving neural language models with a continuous cache", 2017).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSettings {
    /// Positions that are remembered.
    pub window: usize,
    /// How sharply the cache prefers similar states.
    pub theta: f64,
    /// Its share of the mixture.
    pub lambda: f64,
}

impl Default for CacheSettings {
    fn default() -> CacheSettings {
        CacheSettings { window: 2000, theta: 0.3, lambda: 0.1 }
    }
}

/// The two forms of dynamic evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DynamicForm {
    /// Plain gradient descent with decay.
    Sgd,
    /// Scaled by the root mean square of the gradients on the training text.
    Rms,
}

/// Dynamic evaluation; see [`crate::model::adapt`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicSettings {
    /// Which rule.
    pub form: DynamicForm,
    /// Words between two steps.
    pub segment: usize,
    /// `eta`.
    pub rate: f64,
    /// `lambda`: how strongly the weights return to their trained values.
    pub decay: f64,
    /// What is added to the root mean square, as a multiple of its mean over all weights.
    pub epsilon: f64,
}

impl Default for DynamicSettings {
    fn default() -> DynamicSettings {
        DynamicSettings::RMS
    }
}

impl DynamicSettings {
    /// Usual settings of the RMS form.
    pub const RMS: DynamicSettings =
        DynamicSettings { form: DynamicForm::Rms, segment: 20, rate: 1e-3, decay: 2e-3, epsilon: 3.0 };

    /// The defaults of a form.
    pub fn of(form: DynamicForm) -> DynamicSettings {
        let rms = DynamicSettings::default();
        match form {
            DynamicForm::Rms => rms,
            DynamicForm::Sgd => DynamicSettings { form, rate: 0.1, decay: 5e-4, ..rms },
        }
    }
}

/// Monte-Carlo dropout (Gal and Ghahramani, "A theoretically grounded application of dropout in recurrent neural networks",
/// 2016).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonteCarloSettings {
    /// Networks drawn.
    pub samples: usize,
    /// Probability that a unit is kept.
    pub keep: KeepProb,
    /// The masks follow from it.
    pub seed: u64,
    /// The probability by site, where it is not `keep` everywhere.
    #[serde(default, skip_serializing_if = "Dropout::is_off")]
    pub masks: Dropout,
}

/// How a network predicts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeuralSettings {
    /// The logits are divided by it; 1 leaves them alone.
    pub temperature: f64,
    /// With a cache on top.
    pub cache: Option<CacheSettings>,
    /// Learning on the way.
    pub dynamic: Option<DynamicSettings>,
    /// As an average of networks with units dropped.
    pub monte_carlo: Option<MonteCarloSettings>,
}

impl Default for NeuralSettings {
    fn default() -> NeuralSettings {
        NeuralSettings { temperature: 1.0, cache: None, dynamic: None, monte_carlo: None }
    }
}

fn check(key: &str, possible: bool, found: &dyn std::fmt::Display, range: &str) -> Result<()> {
    if possible {
        return Ok(());
    }
    Err(Error::config(key, format!("{found} is impossible"), format!("a value {range}")))
}

impl CacheSettings {
    /// Checks every value.
    pub fn validate(&self) -> Result<()> {
        let window = self.window;
        check("cache-window", (1..=1_000_000).contains(&window), &window, "from 1 to 1000000; 2000 is usual")?;
        let theta = self.theta;
        check(
            "cache-theta",
            theta.is_finite() && (0.0..=100.0).contains(&theta),
            &theta,
            "from 0 to 100; 0.3 is usual",
        )?;
        check("cache-lambda", (0.0..=1.0).contains(&self.lambda), &self.lambda, "from 0 to 1; 0.1 is usual")
    }
}

impl DynamicSettings {
    /// Checks every value.
    pub fn validate(&self) -> Result<()> {
        let f = |x: f64| x.is_finite() && x >= 0.0;
        check("dynamic-segment", (1..=10_000).contains(&self.segment), &self.segment, "from 1 to 10000; 20 is usual")?;
        check("dynamic-rate", f(self.rate), &self.rate, "of at least 0")?;
        check("dynamic-decay", (0.0..=1.0).contains(&self.decay), &self.decay, "from 0 to 1")?;
        check("dynamic-epsilon", f(self.epsilon) && self.epsilon > 0.0, &self.epsilon, "above 0; 3 is usual")
    }
}

impl MonteCarloSettings {
    /// Checks every value.
    pub fn validate(&self) -> Result<()> {
        check("mc", (1..=10_000).contains(&self.samples), &self.samples, "from 1 to 10000 samples")?;
        let keep = self.keep.0;
        check("mc-keep", keep > 0.0 && keep <= 1.0, &keep, "above 0, up to 1 (1 drops nothing)")?;
        for (site, keep) in self.masks.sites() {
            let possible = keep.0 > 0.0 && keep.0 <= 1.0;
            check(&format!("mc masks.{site}"), possible, &keep.0, "above 0, up to 1 (1 drops nothing)")?;
        }
        if self.masks.weights.0 < 1.0 {
            let problem = "the model was trained with weight drop, and all samples share the recurrent matrices";
            return Err(Error::config("mc", problem, "--mc-keep with a probability of keeping a unit"));
        }
        Ok(())
    }
}

impl NeuralSettings {
    /// Checks every value, and that they go together.
    pub fn validate(&self) -> Result<()> {
        let t = self.temperature;
        check("temperature", t.is_finite() && (0.01..=100.0).contains(&t), &t, "from 0.01 to 100; 1 changes nothing")?;
        self.cache.map_or(Ok(()), |cache| cache.validate())?;
        self.dynamic.map_or(Ok(()), |dynamic| dynamic.validate())?;
        self.monte_carlo.map_or(Ok(()), |mc| mc.validate())?;
        if self.monte_carlo.is_some() && (self.cache.is_some() || self.dynamic.is_some()) {
            let other = if self.cache.is_some() { "a cache" } else { "dynamic evaluation" };
            return Err(Error::config(
                "mc",
                format!("Monte-Carlo dropout cannot be combined with {other}: there is no single state to follow"),
                "one of the two; models can still be mixed",
            ));
        }
        Ok(())
    }

    /// What it is, in a few words: `dynamic + cache`.
    pub fn title(&self) -> String {
        let mut parts = Vec::new();
        if self.dynamic.is_some() {
            parts.push("dynamic".to_owned());
        }
        if self.cache.is_some() {
            parts.push("cache".to_owned());
        }
        if let Some(mc) = self.monte_carlo {
            parts.push(format!("MC {}", mc.samples));
        }
        if self.temperature != 1.0 {
            parts.push("temperature".to_owned());
        }
        if parts.is_empty() { "static".to_owned() } else { parts.join(" + ") }
    }

    /// The settings in a few words: `window 2000, theta 0.3, lambda 0.1`.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if let Some(d) = self.dynamic {
            let form = if d.form == DynamicForm::Rms { "rms" } else { "sgd" };
            parts.push(format!("{form}, segment {}, rate {}, decay {}", d.segment, short(d.rate), short(d.decay)));
            if d.form == DynamicForm::Rms {
                parts.push(format!("epsilon {}", short(d.epsilon)));
            }
        }
        if let Some(c) = self.cache {
            parts.push(format!("window {}, theta {}, lambda {}", c.window, short(c.theta), short(c.lambda)));
        }
        if let Some(mc) = self.monte_carlo {
            let sites = mc.masks.sites().into_iter().filter(|(_, keep)| keep.0 < 1.0);
            let mut kept: Vec<String> = sites.map(|(site, keep)| format!("{site} {}", short(keep.0.into()))).collect();
            if kept.is_empty() {
                kept.push(mc.keep.0.to_string());
            }
            parts.push(format!("{} samples, keep {}, seed {}", mc.samples, kept.join(" "), mc.seed));
        }
        if self.temperature != 1.0 {
            parts.push(format!("temperature {}", short(self.temperature)));
        }
        parts.join(", ")
    }
}

/// A setting with four digits.
pub fn short(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let digits = (3 - x.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(change: impl FnOnce(&mut NeuralSettings)) -> String {
        let mut settings = NeuralSettings {
            cache: Some(CacheSettings::default()),
            dynamic: Some(DynamicSettings::default()),
            ..NeuralSettings::default()
        };
        settings.validate().unwrap();
        change(&mut settings);
        settings.validate().unwrap_err().to_string()
    }

    #[test]
    fn impossible_settings_are_refused_with_the_possible_ones() {
        let cache = |c: CacheSettings| move |s: &mut NeuralSettings| s.cache = Some(c);
        let usual = CacheSettings::default();
        assert_eq!(
            message(cache(CacheSettings { lambda: 1.5, ..usual })),
            "setting `cache-lambda`: 1.5 is impossible\n  try: a value from 0 to 1; 0.1 is usual"
        );
        assert_eq!(
            message(cache(CacheSettings { window: 0, ..usual })),
            "setting `cache-window`: 0 is impossible\n  try: a value from 1 to 1000000; 2000 is usual"
        );
        assert!(message(cache(CacheSettings { theta: f64::NAN, ..usual })).starts_with("setting `cache-theta`: NaN"));
        let rate = DynamicSettings { rate: -1.0, ..DynamicSettings::default() };
        assert!(message(|s| s.dynamic = Some(rate)).starts_with("setting `dynamic-rate`: -1 is impossible"));
        assert!(message(|s| s.temperature = 0.0).starts_with("setting `temperature`: 0 is impossible"));
        let mc = MonteCarloSettings { samples: 5, keep: KeepProb(0.7), seed: 1, masks: Dropout::default() };
        assert!(message(|s| s.monte_carlo = Some(mc)).contains("cannot be combined with a cache"));
    }

    #[test]
    fn settings_are_shown_with_four_digits() {
        assert_eq!([0.1, 2e-4, 1234.56, 0.0, 0.123_456].map(short), ["0.1", "0.0002", "1235", "0", "0.1235"]);
    }
}
