//! Tables: one value that becomes HTML for pages, Markdown for documents, and CSV for machines.
//!
//! A *cell* is a text, a number with its decimals, or *missing*: something that could be measured and was not, shown as
//! "not run". A number that was not measured here but taken from a publication is *quoted* and carries a dagger. CSV has
//! numbers alone: a missing one is an empty field, and a quoted one looks like any other, so a table that mixes the two
//! should say in a column of its own where a number is from.

use super::text::{escape, number};

/// Where a column's cells stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    #[default]
    Left,
    /// Numbers.
    Right,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// For people.
    pub title: String,
    /// For machines, in the first line of the CSV; the title if it is empty.
    pub key: String,
    /// Left or right.
    pub align: Align,
}

impl Column {
    /// A column of texts.
    pub fn text(title: impl Into<String>) -> Column {
        Column { title: title.into(), key: String::new(), align: Align::Left }
    }

    /// A column of numbers.
    pub fn number(title: impl Into<String>) -> Column {
        Column { align: Align::Right, ..Column::text(title) }
    }

    /// The same with a name for machines.
    pub fn key(self, key: impl Into<String>) -> Column {
        Column { key: key.into(), ..self }
    }
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number.
    Number {
        /// It.
        value: f64,
        /// Digits after the point for people.
        decimals: usize,
    },
    /// A difference: a number with its sign.
    Difference {
        /// It.
        value: f64,
        /// Digits after the point for people.
        decimals: usize,
    },
    /// A number as published elsewhere.
    Quoted {
        /// It.
        value: f64,
        /// Digits after the point for people.
        decimals: usize,
    },
    /// The best number of its column.
    Best {
        /// It.
        value: f64,
        /// Digits after the point for people.
        decimals: usize,
    },
    /// What was not run.
    Missing,
    /// What is not known yet, since its run goes on.
    NotYet,
    /// Where there is nothing to say.
    Empty,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// A number.
    pub fn number(value: f64, decimals: usize) -> Cell {
        Cell::Number { value, decimals }
    }

    /// A number, or "not run".
    pub fn maybe(value: Option<f64>, decimals: usize) -> Cell {
        value.map_or(Cell::Missing, |value| Cell::number(value, decimals))
    }

    /// A number with its sign; nothing without it.
    pub fn difference(value: Option<f64>, decimals: usize) -> Cell {
        value.map_or(Cell::Empty, |value| Cell::Difference { value, decimals })
    }

    /// A number as published; nothing without it.
    pub fn quoted(value: Option<f64>, decimals: usize) -> Cell {
        value.map_or(Cell::Empty, |value| Cell::Quoted { value, decimals })
    }

    fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number { value, decimals } | Cell::Best { value, decimals } => number(*value, *decimals),
            Cell::Difference { value, decimals } => {
                let text = number(*value, *decimals);
                let zero = text.chars().all(|c| matches!(c, '0' | '.'));
                if *value > 0.0 && value.is_finite() && !zero { format!("+{text}") } else { text }
            }
            Cell::Quoted { value, decimals } => number(*value, *decimals) + "\u{2020}",
            Cell::Missing => "not run".to_owned(),
            Cell::NotYet => "not yet".to_owned(),
            Cell::Empty => String::new(),
        }
    }

    /// For machines: at least four decimals, none of them a useless zero.
    fn plain(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Missing | Cell::NotYet | Cell::Empty => String::new(),
            Cell::Number { value, decimals }
            | Cell::Best { value, decimals }
            | Cell::Difference { value, decimals }
            | Cell::Quoted { value, decimals } => {
                if !value.is_finite() {
                    return format!("{value}");
                }
                let text = format!("{value:.*}", (*decimals).max(4));
                let text = text.trim_end_matches('0').trim_end_matches('.');
                if text == "-0" { "0".to_owned() } else { text.to_owned() }
            }
        }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The files' name without their ending.
    pub name: String,
    /// Above the table.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a cell for every column; missing ones at the end are empty.
    pub rows: Vec<Vec<Cell>>,
    /// Below the table.
    pub notes: Vec<String>,
}

/// What the dagger means.
const QUOTED: &str = "\u{2020} as published, not measured here.";

impl Table {
    fn cell<'a>(&self, row: &'a [Cell], column: usize) -> &'a Cell {
        row.get(column).unwrap_or(&Cell::Empty)
    }

    fn notes(&self) -> Vec<&str> {
        let quoted = self.rows.iter().flatten().any(|cell| matches!(cell, Cell::Quoted { .. }));
        quoted.then_some(QUOTED).into_iter().chain(self.notes.iter().map(String::as_str)).collect()
    }

    /// For a page: scrolls in its own box where the window is too narrow.
    pub fn html(&self) -> String {
        let mut out = String::from("<div class=\"table\" tabindex=\"0\" role=\"region\"");
        out += &format!(" aria-label=\"{}\"><table>\n", escape(&self.caption));
        if !self.caption.is_empty() {
            out += &format!("<caption><span>{}</span></caption>\n", escape(&self.caption));
        }
        out += "<thead><tr>";
        for column in &self.columns {
            out += &format!("<th scope=\"col\"{}>{}</th>", right(column), escape(&column.title));
        }
        out += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            let best = row.iter().any(|cell| matches!(cell, Cell::Best { .. }));
            out += if best { "<tr class=\"best\">" } else { "<tr>" };
            for (i, column) in self.columns.iter().enumerate() {
                let cell = self.cell(row, i);
                let class = match cell {
                    Cell::Missing | Cell::NotYet => " class=\"missing\"",
                    _ => right(column),
                };
                let (tag, scope) = if i == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
                let shown = match cell {
                    Cell::Best { .. } => format!("<strong>{}</strong>", escape(&cell.shown())),
                    _ => escape(&cell.shown()).to_string(),
                };
                out += &format!("<{tag}{scope}{class}>{shown}</{tag}>");
            }
            out += "</tr>\n";
        }
        out += "</tbody></table></div>\n";
        for note in self.notes() {
            out += &format!("<p class=\"note\">{}</p>\n", escape(note));
        }
        out
    }

    /// For a terminal: columns under each other, two spaces between them.
    pub fn text(&self) -> String {
        let shown = |row: &[Cell], column: usize| self.cell(row, column).shown();
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| shown(row, column).chars().count());
            cells.chain([self.columns[column].title.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: Vec<String>| {
            let padded =
                self.columns.iter().zip(&widths).zip(cells).map(|((column, &width), cell)| match column.align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let mut out = if self.caption.is_empty() { String::new() } else { format!("{}\n", self.caption) };
        out += &line(self.columns.iter().map(|column| column.title.clone()).collect());
        for row in &self.rows {
            out += &line((0..self.columns.len()).map(|column| shown(row, column)).collect());
        }
        for note in self.notes() {
            out += &format!("{note}\n");
        }
        out
    }

    /// For a document, with the caption above and the notes below.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        if !self.caption.is_empty() {
            out += &format!("{}\n\n", markdown_text(&self.caption));
        }
        let line = |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        out += &line(&mut self.columns.iter().map(|column| markdown_text(&column.title)));
        let rule = |column: &Column| if column.align == Align::Right { "---:" } else { "---" };
        out += &format!("|{}|\n", self.columns.iter().map(rule).collect::<Vec<_>>().join("|"));
        for row in &self.rows {
            let shown = |i: usize| match self.cell(row, i) {
                best @ Cell::Best { .. } => format!("**{}**", best.shown()),
                cell => markdown_text(&cell.shown()),
            };
            out += &line(&mut (0..self.columns.len()).map(shown));
        }
        for note in self.notes() {
            out += &format!("\n{}\n", markdown_text(note));
        }
        out
    }

    /// For machines (RFC 4180, with `\n` at the end of a line).
    pub fn csv(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            cells.map(|cell| csv_field(&cell)).collect::<Vec<_>>().join(",") + "\n"
        };
        let key = |column: &Column| if column.key.is_empty() { column.title.clone() } else { column.key.clone() };
        let mut out = line(&mut self.columns.iter().map(key));
        for row in &self.rows {
            out += &line(&mut (0..self.columns.len()).map(|i| self.cell(row, i).plain()));
        }
        out
    }
}

fn right(column: &Column) -> &'static str {
    if column.align == Align::Right { " class=\"right\"" } else { "" }
}

/// A field of CSV, in quotes where it has to be.
fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// Text that Markdown leaves as it is, in one line.
fn markdown_text(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' | '|' | '<' | '>' | '*' | '_' | '`' | '[' | ']' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::xml_check::check;
    use super::*;

    fn table() -> Table {
        Table {
            name: "table1".into(),
            caption: "Perplexity | <small>".into(),
            columns: vec![
                Column::text("model").key("model"),
                Column::number("test").key("test"),
                Column::number("the paper").key("paper_test"),
                Column::number("difference"),
            ],
            rows: vec![
                vec![
                    Cell::text("+RE, \"tied\""),
                    Cell::number(85.064, 1),
                    Cell::quoted(Some(85.1), 1),
                    Cell::difference(Some(-0.036), 2),
                ],
                vec![Cell::text("<unk>|*x*"), Cell::Missing, Cell::quoted(None, 1)],
                vec![
                    Cell::text("two\nlines"),
                    Cell::number(f64::INFINITY, 1),
                    Cell::Empty,
                    Cell::difference(Some(12.5), 1),
                ],
            ],
            notes: vec!["One seed & one run.".into()],
        }
    }

    #[test]
    fn csv_is_quoted_where_it_must_be_and_has_plain_numbers() {
        assert_eq!(
            table().csv(),
            "model,test,paper_test,difference\n\"+RE, \"\"tied\"\"\",85.064,85.1,-0.036\n<unk>|*x*,,,\n\"two\nlines\",inf,,12.5\n"
        );
        assert_eq!(Cell::number(-0.00001, 1).plain(), "0");
        assert_eq!(Cell::number(1_234_567.0, 0).plain(), "1234567");
        assert_eq!(Cell::number(100.0, 0).plain(), "100");
    }

    #[test]
    fn markdown_shows_the_text_itself() {
        let markdown = table().markdown();
        let lines: Vec<&str> = markdown.lines().collect();
        assert_eq!(
            lines,
            [
                "Perplexity \\| \\<small\\>",
                "",
                "| model | test | the paper | difference |",
                "|---|---:|---:|---:|",
                "| +RE, \"tied\" | 85.1 | 85.1\u{2020} | \u{2212}0.04 |",
                "| \\<unk\\>\\|\\*x\\* | not run |  |  |",
                "| two lines | infinite |  | +12.5 |",
                "",
                "\u{2020} as published, not measured here.",
                "",
                "One seed & one run."
            ]
        );
    }

    #[test]
    fn html_is_escaped_and_well_formed() {
        let html = table().html();
        check(&format!("<div>{html}</div>")).unwrap_or_else(|problem| panic!("{problem}\n{html}"));
        assert!(html.contains("&lt;unk&gt;|*x*") && !html.contains("<unk>"), "{html}");
        assert!(html.contains("<td class=\"missing\">not run</td>"), "{html}");
        assert!(html.contains("One seed &amp; one run."), "{html}");
        assert!(!Table::default().html().contains('\u{2020}'));
    }

    #[test]
    fn differences_have_their_sign_and_zero_has_none() {
        let shown = [0.04, -0.04, 0.0, 3.2, -3.2].map(|value| Cell::difference(Some(value), 1).shown());
        assert_eq!(shown, ["0.0", "0.0", "0.0", "+3.2", "\u{2212}3.2"].map(str::to_owned));
    }
}
