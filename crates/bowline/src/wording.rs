//! Numbers as people write them.

/// 12345678 as 12,345,678.
pub fn grouped(n: usize) -> String {
    group_digits(&n.to_string())
}

/// A comma before every third digit from the right; `digits` are digits alone.
pub(crate) fn group_digits(digits: &str) -> String {
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn every_third_digit_has_a_comma_before_it() {
        assert_eq!(
            [0, 12, 999, 1000, 123_456, 2_088_628].map(grouped),
            ["0", "12", "999", "1,000", "123,456", "2,088,628"]
        );
    }
}
