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

/// Seconds since 1970 as year, month, day, hour, minute and second, UTC.
pub fn calendar(seconds_since_1970: u64) -> [u64; 6] {
    let (days, s) = (seconds_since_1970 / 86_400, seconds_since_1970 % 86_400);
    // The civil calendar from a count of days: eras of 400 years that begin on a 1st of March.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    [year, month, day, s / 3600, s % 3600 / 60, s % 60]
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
