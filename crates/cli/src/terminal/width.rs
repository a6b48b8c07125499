//! Lines that fit the terminal: fields left out in the order of their rank, or words wrapped.

use std::io::IsTerminal;
use terminal_size::{Width, terminal_size_of};

/// Columns of the terminal that standard error is; `None` in a pipe.
pub fn of_stderr() -> Option<usize> {
    of(std::io::stderr())
}

/// Columns of the terminal that standard output is; `None` in a pipe.
pub fn of_stdout() -> Option<usize> {
    of(std::io::stdout())
}

#[cfg(unix)]
fn of(stream: impl IsTerminal + std::os::fd::AsFd) -> Option<usize> {
    stream.is_terminal().then(|| columns(terminal_size_of(&stream)))
}

#[cfg(windows)]
fn of(stream: impl IsTerminal + std::os::windows::io::AsHandle) -> Option<usize> {
    stream.is_terminal().then(|| columns(terminal_size_of(&stream)))
}

/// A terminal that does not know its size has 80 columns.
fn columns(size: Option<(Width, terminal_size::Height)>) -> usize {
    size.map(|(Width(columns), _)| usize::from(columns)).filter(|&columns| columns > 0).unwrap_or(80)
}

/// The fields with two spaces between them, as many as fit: while the line is too long, the one with the highest rank goes.
pub fn fit(fields: &[(u8, String)], width: usize) -> String {
    let mut kept: Vec<&(u8, String)> = fields.iter().filter(|(_, text)| !text.is_empty()).collect();
    loop {
        let line = kept.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("  ");
        // The last column stays free: some terminals wrap as soon as it is written.
        if line.chars().count() < width {
            return line;
        }
        match (0..kept.len()).max_by_key(|&i| kept[i].0) {
            Some(least) if kept.len() > 1 => drop(kept.remove(least)),
            _ => return line.chars().take(width.saturating_sub(1)).collect(),
        }
    }
}

/// A text in lines of the terminal's width, those after the first indented. A word that is too long stays whole.
pub fn wrap(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut out = String::new();
    for (i, paragraph) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if paragraph.chars().count() < width {
            out.push_str(paragraph);
            continue;
        }
        let indent = paragraph.len() - paragraph.trim_start().len();
        let mut column = indent;
        out.push_str(&paragraph[..indent]);
        for (i, word) in paragraph[indent..].split(' ').enumerate() {
            let length = word.chars().count();
            if i > 0 && column + 1 + length >= width {
                out = format!("{}\n{}", out.trim_end(), " ".repeat(indent + 2));
                column = indent + 2;
            } else if i > 0 {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += length;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_important_fields_go_first() {
        let fields: Vec<(u8, String)> =
            [(0, "epoch 3"), (3, "lr 1.000"), (1, "ppl 120.1"), (2, "ETA 5m")].map(|(r, t)| (r, t.to_owned())).to_vec();
        assert_eq!(fit(&fields, 80), "epoch 3  lr 1.000  ppl 120.1  ETA 5m");
        assert_eq!(fit(&fields, 36), "epoch 3  ppl 120.1  ETA 5m");
        assert_eq!(fit(&fields, 20), "epoch 3  ppl 120.1");
        assert_eq!(fit(&fields, 18), "epoch 3");
        assert_eq!(fit(&fields, 5), "epoc");
    }

    #[test]
    fn long_lines_wrap_between_words() {
        assert_eq!(wrap("one two three four", Some(10)), "one two\n  three\n  four");
        assert_eq!(wrap("one two three four", None), "one two three four");
        assert_eq!(
            wrap("  a long path/that/does/not/fit b\nshort", Some(12)),
            "  a long\n    path/that/does/not/fit\n    b\nshort"
        );
    }
}
