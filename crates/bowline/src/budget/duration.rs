//! How long a run may take: `90s`, `10m`, `1.5h`, `1d`, or `auto`.

use crate::error::{Error, Result};
use crate::wording;
use std::fmt;
use std::str::FromStr;

/// How long a run may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// As long as the text is worth it: a quarter of an hour for a million words, less for less.
    Auto,
    /// So many seconds.
    Seconds(f64),
}

/// The seconds of each unit.
const UNITS: [(char, f64); 4] = [('s', 1.0), ('m', 60.0), ('h', 3600.0), ('d', 86_400.0)];
/// A year of training is a mistake.
const LONGEST: f64 = 366.0 * 86_400.0;

impl Budget {
    /// The seconds for a training text of so many words.
    pub fn seconds(self, words: usize) -> f64 {
        match self {
            Budget::Seconds(seconds) => seconds,
            Budget::Auto => {
                let size = words as f64 / 1e6;
                900.0 * if size < 1.0 { size.powf(0.4) } else { size.sqrt() }
            }
        }
        .min(LONGEST)
    }
}

impl FromStr for Budget {
    type Err = Error;

    fn from_str(text: &str) -> Result<Budget> {
        let wrong =
            |problem: String| Err(Error::config("budget", problem, "`90s`, `10m`, `1h`, `1.5h`, `1d` or `auto`"));
        if text == "auto" {
            return Ok(Budget::Auto);
        }
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
        let Some((number, (_, factor))) = unit.map(|unit| (&text[..text.len() - 1], unit)) else {
            return wrong(format!("`{text}` has no unit"));
        };
        match number.parse::<f64>() {
            Ok(n) if n.is_finite() && n > 0.0 && n * factor <= LONGEST => Ok(Budget::Seconds(n * factor)),
            Ok(_) => wrong(format!("`{text}` is not a possible training time")),
            Err(_) => wrong(format!("`{text}` is not a time")),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Budget::Auto => f.write_str("auto"),
            Budget::Seconds(seconds) => f.write_str(&wording::duration(*seconds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_others_refused() {
        let seconds = |text: &str| text.parse::<Budget>().map(|budget| budget.seconds(1_000_000));
        for (text, expected) in [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("1d", 86_400.0), ("auto", 900.0)] {
            assert_eq!(seconds(text).unwrap(), expected, "{text}");
        }
        for (text, problem) in [
            ("10", "`10` has no unit"),
            ("", "`` has no unit"),
            ("m", "`m` is not a time"),
            ("-5m", "`-5m` is not a possible training time"),
            ("0s", "`0s` is not a possible"),
            ("nanh", "`nanh` is not a possible"),
            ("9999d", "`9999d` is not a possible"),
            ("1h30m", "`1h30m` is not a time"),
        ] {
            let message = seconds(text).unwrap_err().to_string();
            assert!(message.contains(problem) && message.contains("`10m`"), "{message}");
        }
        // Less text, less time; more text, more.
        let auto = |words| Budget::Auto.seconds(words);
        assert!(auto(40_000) < 300.0 && auto(2_000_000) > 900.0 && auto(usize::MAX) <= LONGEST);
    }
}
