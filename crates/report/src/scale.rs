//! Axes: from values to positions, and the values that are written beside them.

use super::text::number;

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally far apart.
    #[default]
    Linear,
    /// Equal ratios are equally far apart; only values above 0 can be shown.
    Log,
}

/// One axis of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// From where to where; without it, as far as the data reach.
    pub range: Option<(f64, f64)>,
    /// Only whole numbers are written beside it: epochs, counts.
    pub whole: bool,
    /// The values to write beside it, where they are known; without them, round ones.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// A linear axis over the range of the data.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), ..Axis::default() }
    }

    /// A logarithmic one.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), scale: Scale::Log, ..Axis::default() }
    }

    /// A linear one for whole numbers.
    pub fn whole(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), whole: true, ..Axis::default() }
    }

    /// The same with a fixed range.
    pub fn from_to(self, from: f64, to: f64) -> Axis {
        Axis { range: Some((from, to)), ..self }
    }

    /// The same with these values written beside it.
    pub fn at(self, ticks: impl Into<Vec<f64>>) -> Axis {
        Axis { ticks: ticks.into(), ..self }
    }

    /// Whether a value has a place on such an axis.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// The axis over given values, `length` pixels long, with room for about `wanted` labels. `rounded` axes are widened
    /// to the next tick on both sides. None if there is nothing to show.
    pub(super) fn fit(
        &self,
        values: impl Iterator<Item = f64>,
        length: f64,
        wanted: usize,
        rounded: bool,
    ) -> Option<Fitted> {
        let data = values.filter(|&value| self.shows(value)).fold(None, |range: Option<(f64, f64)>, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let fixed = self.range.filter(|&(low, high)| self.shows(low) && self.shows(high) && low < high);
        let (mut low, mut high) = fixed.or(data)?;
        if low == high {
            // A single value gets some room on both sides.
            (low, high) = match self.scale {
                Scale::Log => (low / 1.5, high * 1.5),
                Scale::Linear if self.whole => (low - 1.0, high + 1.0),
                Scale::Linear if low == 0.0 => (-1.0, 1.0),
                Scale::Linear => (low - 0.1 * low.abs(), high + 0.1 * high.abs()),
            };
        }
        let (mut ticks, decimals) = if self.ticks.is_empty() {
            ticks(self.scale, low, high, wanted.max(2), self.whole)
        } else {
            (self.ticks.iter().copied().filter(|&tick| self.shows(tick)).collect(), None)
        };
        if rounded && fixed.is_none() && self.ticks.is_empty() {
            (low, high) = widen(self.scale, low, high, &ticks);
            ticks = ticks_within(self.scale, low, high, wanted.max(2), self.whole, ticks);
        }
        let margin = 1e-9 * (high - low);
        ticks.retain(|&tick| (low - margin..=high + margin).contains(&tick));
        let labels = ticks.iter().map(|&tick| label(tick, decimals)).collect();
        Some(Fitted { scale: self.scale, low, high, length, ticks, labels })
    }
}

/// An axis with its range and its ticks.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    scale: Scale,
    /// The least value.
    pub(super) low: f64,
    /// The greatest.
    pub(super) high: f64,
    length: f64,
    /// Values to write.
    pub(super) ticks: Vec<f64>,
    /// How they are written.
    pub(super) labels: Vec<String>,
}

impl Fitted {
    /// Pixels from the beginning of the axis.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        self.length * share
    }

    /// Whether a value is within the range.
    pub(super) fn contains(&self, value: f64) -> bool {
        let margin = 1e-9 * (self.high - self.low);
        (self.low - margin..=self.high + margin).contains(&value)
    }
}

/// Round values between two others, and how many decimals they need (none: as many as each has).
fn ticks(scale: Scale, low: f64, high: f64, wanted: usize, whole: bool) -> (Vec<f64>, Option<usize>) {
    if scale == Scale::Log {
        let ticks = log_ticks(low, high, wanted);
        if ticks.len() >= 3 {
            return (ticks, None);
        }
    }
    linear_ticks(low, high, wanted, whole)
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, wanted: usize, whole: bool) -> (Vec<f64>, Option<usize>) {
    // The least round step that gives no more than about 1.4 times as many as wanted.
    let rough = (high - low) / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    let mantissa = [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| m * power >= rough * 0.7).unwrap_or(10.0);
    let mut step = mantissa * power;
    if whole {
        step = step.max(1.0).round();
    }
    let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let count = (last - first).clamp(0.0, 100.0) as usize;
    // Rounded to the digits that are shown, so that no tick is 0.30000000000000004.
    let round = |value: f64| format!("{value:.decimals$}").parse().unwrap_or(value);
    (
        (0..=count).map(|i| round((first + i as f64) * step)).filter(|&t| t <= high + 1e-9 * step).collect(),
        Some(decimals),
    )
}

/// 1, 2 and 5 in every decade, or only powers of ten where there are many decades.
fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = high.log10() - low.log10();
    let mantissas: &[f64] = if 3.0 * decades <= 1.7 * wanted as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = ((decades / wanted as f64).ceil() as i32).max(1);
    let powers = (first..=last).filter(|power| mantissas.len() > 1 || power.rem_euclid(every) == 0);
    let decimal = |mantissa: f64, power: i32| format!("{mantissa}e{power}").parse().unwrap_or(f64::NAN);
    powers
        .flat_map(|power| mantissas.iter().map(move |&mantissa| decimal(mantissa, power)))
        .filter(|tick| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(tick))
        .collect()
}

/// The range up to the next tick on either side: one more step of the ticks that are there.
fn widen(scale: Scale, low: f64, high: f64, ticks: &[f64]) -> (f64, f64) {
    let &[first, second, ..] = ticks else {
        return (low, high);
    };
    let step = second - first;
    let (down, up) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
    let last = ticks[ticks.len() - 1];
    match scale {
        Scale::Linear => (down, up),
        // On a logarithmic axis a little air is enough.
        Scale::Log => (if low < first { low / 1.04 } else { low }, if high > last { high * 1.04 } else { high }),
    }
}

/// The ticks of a widened range: those there were, and its two ends on a linear axis.
fn ticks_within(scale: Scale, low: f64, high: f64, wanted: usize, whole: bool, old: Vec<f64>) -> Vec<f64> {
    match (scale, old.as_slice()) {
        (Scale::Linear, &[first, second, ..]) => {
            let step = second - first;
            let count = ((high - low) / step).round() as usize;
            let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
            let round = |value: f64| format!("{value:.decimals$}").parse().unwrap_or(value);
            (0..=count.min(100)).map(|i| round(low + i as f64 * step)).collect()
        }
        (Scale::Linear, _) => linear_ticks(low, high, wanted, whole).0,
        (Scale::Log, _) => old,
    }
}

/// A tick as text. Very small and very large ones as a power of ten.
fn label(tick: f64, decimals: Option<usize>) -> String {
    if tick != 0.0 && !(1e-5..1e7).contains(&tick.abs()) {
        return format!("{tick:e}").replace('-', "\u{2212}");
    }
    let own = || {
        let text = format!("{tick}");
        text.split_once('.').map_or(0, |(_, rest)| rest.len().min(6))
    };
    number(tick, decimals.unwrap_or_else(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(axis: &Axis, values: &[f64], rounded: bool) -> Fitted {
        axis.fit(values.iter().copied(), 100.0, 5, rounded).unwrap()
    }

    #[test]
    fn ticks_are_round_and_within_the_range() {
        let axis = Axis::linear("x");
        assert_eq!(fitted(&axis, &[0.0, 1.0], false).labels, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(fitted(&axis, &[83.0, 121.0], true).labels, ["80", "90", "100", "110", "120", "130"]);
        assert_eq!(fitted(&axis, &[-0.3, 0.1], true).ticks, [-0.3, -0.2, -0.1, 0.0, 0.1]);
        assert_eq!(fitted(&axis, &[0.0, 25_000.0], false).labels[1], "5,000");
        let epochs = Axis::whole("epoch");
        assert_eq!(fitted(&epochs, &[1.0, 3.0], false).labels, ["1", "2", "3"]);
        assert_eq!(fitted(&epochs, &[1.0, 110.0], false).labels, ["20", "40", "60", "80", "100"]);
        let set = Axis::log("tau").at([0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(fitted(&set, &[0.5, 20.0], false).labels, ["0.5", "1", "2", "5", "10", "20"]);
    }

    #[test]
    fn a_logarithmic_axis_spreads_ratios() {
        let axis = Axis::log("perplexity");
        let wide = fitted(&axis, &[1.0, 10_000.0], false);
        assert_eq!(wide.labels, ["1", "10", "100", "1,000", "10,000"]);
        assert!((wide.place(100.0) - 50.0).abs() < 1e-9);
        let near = fitted(&axis, &[86.0, 420.0], false);
        assert!(near.ticks.len() >= 3 && near.ticks.iter().all(|&tick| near.contains(tick)), "{near:?}");
        let less_than_a_decade = fitted(&axis, &[140.0, 150.0], true);
        assert!(less_than_a_decade.ticks.len() >= 3, "{less_than_a_decade:?}");
        // What has no logarithm is left out.
        assert_eq!(fitted(&axis, &[0.0, -3.0, f64::NAN, f64::INFINITY, 1.0, 10.0], false).low, 1.0);
    }

    #[test]
    fn a_single_value_and_none_at_all_are_no_trouble() {
        for axis in [Axis::linear("x"), Axis::log("x"), Axis::whole("x")] {
            for value in [0.0, 5.0, 1e-9, 1e12, -4.0] {
                if let Some(fitted) = axis.fit([value].into_iter(), 100.0, 5, true) {
                    let place = fitted.place(value);
                    assert!((0.0..=100.0).contains(&place) && !fitted.ticks.is_empty(), "{value}: {fitted:?}");
                }
            }
            assert!(axis.fit([f64::NAN].into_iter(), 100.0, 5, true).is_none());
        }
    }
}
