//! Text on its way into a figure or page: escaped, measured, and numbers as people read them.

use bowline::wording::group_digits;

/// Text for the inside of XML and HTML, attributes included. Characters that XML does not allow become U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// About how wide a text is in a usual sans-serif font, in pixels; rather too wide than too narrow.
pub(super) fn width(text: &str, font_size: f64) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.32,
        'f' | 't' | 'r' | '(' | ')' | '-' | '/' | '[' | ']' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' => 0.88,
        'A'..='Z' | '+' | '=' | '<' | '>' => 0.68,
        '\u{0300}'..='\u{036f}' => 0.0,
        c if c >= '\u{1100}' => 1.0,
        _ => 0.57,
    };
    text.chars().map(of).sum::<f64>() * font_size
}

/// The text itself, or its beginning with an ellipsis if it is wider than `room`.
pub(super) fn fit(text: &str, font_size: f64, room: f64) -> String {
    if width(text, font_size) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if width(&short, font_size) + font_size > room {
            short.pop();
            break;
        }
    }
    short.trim_end().to_owned() + "\u{2026}"
}

/// Words put into lines that are no wider than `room` (a longer word has a line of its own).
pub(super) fn wrap(text: &str, font_size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, font_size) + width(" ", font_size) + width(word, font_size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A coordinate, to a tenth of a pixel.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// A number with `decimals` digits after the point and groups of three before it. Infinity is said in words.
pub(super) fn number(value: f64, decimals: usize) -> String {
    if value.is_nan() {
        return "not a number".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "infinite" } else { "minus infinite" }.to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    // What is rounded to zero has no sign.
    let sign = if value < 0.0 && text.bytes().any(|b| b.is_ascii_digit() && b != b'0') { "\u{2212}" } else { "" };
    format!("{sign}{}{rest}", group_digits(whole))
}

/// Seconds as people say them: `12 min 34 s`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown".to_owned();
    }
    let s = seconds.round() as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
    }
}

/// Seconds since 1970 as a date and time, `2026-11-16 00:05 UTC`.
pub fn date(seconds_since_1970: u64) -> String {
    let [year, month, day, hour, minute, _] = bowline::wording::calendar(seconds_since_1970);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_taken_for_markup() {
        assert_eq!(
            escape("<unk> & \"a\" 'b' \u{1b}[2J\u{0}"),
            "&lt;unk&gt; &amp; &quot;a&quot; &#39;b&#39; \u{fffd}[2J\u{fffd}"
        );
    }

    #[test]
    fn numbers_are_easy_to_read() {
        let shown = [(85.06, 1), (-0.04, 1), (-1234.5, 0), (1e6, 0), (0.0625, 3), (f64::INFINITY, 1), (f64::NAN, 1)];
        let shown = shown.map(|(value, decimals)| number(value, decimals));
        assert_eq!(
            shown,
            ["85.1", "0.0", "\u{2212}1,234", "1,000,000", "0.062", "infinite", "not a number"].map(str::to_owned)
        );
        assert_eq!([0.4, 61.0, 7384.0, f64::NAN].map(duration), ["0 s", "1 min 01 s", "2 h 03 min", "unknown"]);
        assert_eq!([px(1.0), px(-0.04), px(2.26)], ["1", "0", "2.3"]);
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_794_783_067), "2026-11-15 22:51 UTC");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59 UTC");
        assert_eq!(date(4_107_542_400), "2100-03-01 00:00 UTC");
    }

    #[test]
    fn long_texts_are_cut_and_wrapped() {
        assert_eq!(fit("short", 12.0, 100.0), "short");
        let cut = fit("a rather long label that has no room", 12.0, 80.0);
        assert!(cut.ends_with('\u{2026}') && width(&cut, 12.0) <= 80.0 + 12.0, "{cut}");
        let lines = wrap("one two three four five six seven", 12.0, 80.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| width(line, 12.0) <= 80.0), "{lines:?}");
        assert_eq!(lines.join(" "), "one two three four five six seven");
    }
}
