//! Numbers as people write them.

/// 12345678 as 12,345,678.
pub fn grouped(n: usize) -> String {
    group_digits(&n.to_string())
}

/// A comma before every third digit from the right; `digits` are digits alone.
pub fn group_digits(digits: &str) -> String {
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// 0.07 as 7: a share in percent, without the digits that binary fractions add.
pub fn percent(share: f64) -> String {
    let rounded = format!("{:.4}", 100.0 * share);
    rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "?".to_owned();
    }
    let s = seconds.round() as u64;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{duration, grouped, percent};

    #[test]
    fn a_share_in_percent_has_no_digits_but_its_own() {
        assert_eq!([0.07, 0.1, 0.125, 0.0015, 0.5, 1.0].map(percent), ["7", "10", "12.5", "0.15", "50", "100"]);
    }

    #[test]
    fn every_third_digit_has_a_comma_before_it() {
        assert_eq!(
            [0, 12, 999, 1000, 123_456, 2_088_628].map(grouped),
            ["0", "12", "999", "1,000", "123,456", "2,088,628"]
        );
    }

    #[test]
    fn times_are_easy_to_read() {
        assert_eq!([0.4, 59.6, 754.0, 7384.0, f64::NAN].map(duration), ["0s", "1m00s", "12m34s", "2h03m", "?"]);
    }
}
