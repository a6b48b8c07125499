//! What charts and bars have in common: the drawing around them, with title, legend and the words for those who hear it.

use super::text::{escape, fit, px, width, wrap};
use super::theme;
use std::fmt::Write as _;

/// The size of a drawing. The same figure is drawn for wide and for narrow surroundings, so that its letters never
/// become too small to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Canvas {
    /// Width of the whole drawing.
    pub(super) width: f64,
    /// Height of the part inside the axes.
    pub(super) plot: f64,
    /// Size of ordinary letters.
    pub(super) font: f64,
}

/// For a page at a desk, and for files.
pub(super) const WIDE: Canvas = Canvas { width: 720.0, plot: 300.0, font: 13.0 };
/// For a telephone.
pub(super) const NARROW: Canvas = Canvas { width: 360.0, plot: 230.0, font: 12.0 };

/// An entry of the legend.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) key: Key,
}

/// What stands before an entry's name.
pub(super) enum Key {
    /// A line, a marker, or both.
    Series { look: usize, dash: usize, line: bool, marker: bool },
    /// The line of a reference, of this class.
    Reference(String),
    /// A filled field.
    Field { look: usize },
}

/// A drawing under way.
pub(super) struct Drawing {
    pub(super) canvas: Canvas,
    body: String,
    /// Where the next thing goes, from the top.
    pub(super) y: f64,
}

const MARGIN: f64 = 10.0;

impl Drawing {
    /// Begins with the title.
    pub(super) fn new(canvas: Canvas, title: &str) -> Drawing {
        let mut drawing = Drawing { canvas, body: String::new(), y: MARGIN };
        let size = canvas.font + 2.0;
        for line in wrap(title, size * 1.06, canvas.width - 2.0 * MARGIN) {
            drawing.y += size + 3.0;
            let y = drawing.y;
            drawing.text(MARGIN, y, &line, "title", "start", size);
        }
        drawing.y += 6.0;
        drawing
    }

    /// Adds markup.
    pub(super) fn push(&mut self, markup: &str) {
        self.body.push_str(markup);
        self.body.push('\n');
    }

    /// Adds a text.
    pub(super) fn text(&mut self, x: f64, y: f64, text: &str, class: &str, anchor: &str, size: f64) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let anchor = if anchor == "start" { String::new() } else { format!(" text-anchor=\"{anchor}\"") };
        let line = format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{class}{anchor}>{}</text>",
            px(x),
            px(y),
            px(size),
            escape(text)
        );
        self.push(&line);
    }

    /// Adds a straight line.
    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let line = format!(
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{class}\"/>",
            px(x1),
            px(y1),
            px(x2),
            px(y2)
        );
        self.push(&line);
    }

    /// Adds the legend in as many lines as it takes.
    pub(super) fn legend(&mut self, entries: &[Entry]) {
        if entries.is_empty() {
            return;
        }
        const KEY: f64 = 30.0;
        let (font, right) = (self.canvas.font, self.canvas.width - MARGIN);
        let (mut x, mut y) = (MARGIN, self.y + font);
        for entry in entries {
            let name = fit(&entry.name, font, right - MARGIN - KEY - 6.0);
            let wide = KEY + 6.0 + width(&name, font) + 16.0;
            if x > MARGIN && x + wide - 16.0 > right {
                (x, y) = (MARGIN, y + font + 7.0);
            }
            let middle = y - 0.35 * font;
            match &entry.key {
                Key::Field { look } => {
                    let field = format!(
                        "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"11\" class=\"f{look}\"/>",
                        px(x + KEY - 14.0),
                        px(middle - 5.5)
                    );
                    self.push(&field);
                }
                Key::Reference(class) => self.line((x, middle), (x + KEY, middle), class),
                &Key::Series { look, dash, line, marker } => {
                    if line {
                        let (x, y, wide) = (px(x), px(middle), px(KEY));
                        let dashed = dashed(dash);
                        self.push(&format!("<path d=\"M{x} {y}h{wide}\" class=\"line s{look}\"{dashed}/>"));
                    }
                    if marker {
                        self.marker(x + KEY / 2.0, middle, look, dash);
                    }
                }
            }
            self.text(x + KEY + 6.0, y, &name, "strong", "start", font);
            x += wide;
        }
        self.y = y + 10.0;
    }

    /// Adds a marker.
    pub(super) fn marker(&mut self, x: f64, y: f64, look: usize, shape: usize) {
        let path = format!(
            "<path d=\"{}\" transform=\"translate({} {})\" class=\"mark f{look}\"/>",
            theme::marker(shape),
            px(x),
            px(y)
        );
        self.push(&path);
    }

    /// The whole drawing as a file. `class` distinguishes the versions of one figure in a page.
    pub(super) fn finish(mut self, title: &str, description: &str, class: &str) -> String {
        let (width, height) = (px(self.canvas.width), px(self.y + MARGIN));
        let mut out = String::new();
        let class = if class.is_empty() { "bl".to_owned() } else { format!("bl {class}") };
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" role=\"img\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\">"
        );
        let _ = writeln!(out, "<title>{}</title>", escape(title));
        let _ = writeln!(out, "<desc>{}</desc>", escape(description));
        let _ = writeln!(out, "<style>{}</style>", theme::figure_style());
        let _ = writeln!(out, "<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>");
        out.push_str(&std::mem::take(&mut self.body));
        out.push_str("</svg>\n");
        out
    }
}

/// The attribute for a look's dashes.
pub(super) fn dashed(look: usize) -> String {
    match theme::dash(look) {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    }
}
