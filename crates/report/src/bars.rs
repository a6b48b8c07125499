//! Horizontal bars: one value for each of several named things, from zero on.

use super::frame::{Canvas, Drawing, Entry, Key, NARROW, WIDE};
use super::scale::Axis;
use super::text::{escape, fit, number, px, width};
use super::theme::LOOKS;
use std::fmt::Write as _;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What it is the value of.
    pub label: String,
    /// The value; none for what was not run.
    pub value: Option<f64>,
    /// The lower and the upper end of the error bar.
    pub spread: Option<(f64, f64)>,
    /// Which colour, and which entry of the legend.
    pub look: usize,
    /// Written beside the value: "as published".
    pub note: String,
}

impl Bar {
    /// A measured value.
    pub fn new(label: impl Into<String>, value: f64) -> Bar {
        Bar { label: label.into(), value: Some(value), spread: None, look: 0, note: String::new() }
    }

    /// A value that is not there.
    pub fn missing(label: impl Into<String>) -> Bar {
        Bar { value: None, ..Bar::new(label, 0.0) }
    }

    /// The same in another colour.
    pub fn look(self, look: usize) -> Bar {
        Bar { look, ..self }
    }

    /// The same with words beside the value.
    pub fn note(self, note: impl Into<String>) -> Bar {
        Bar { note: note.into(), ..self }
    }
}

/// Bars under each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// The file's name without its ending.
    pub name: String,
    /// Above the drawing.
    pub title: String,
    /// What there is to see, in a sentence, for those who cannot, and as the caption in a page.
    pub description: String,
    /// What the values are, with their unit.
    pub unit: String,
    /// Digits after the point.
    pub decimals: usize,
    /// From the top.
    pub bars: Vec<Bar>,
    /// The names of the looks, for a legend; empty for none.
    pub looks: Vec<String>,
    /// Upright lines at values to compare with, and what they are.
    pub references: Vec<(f64, String)>,
}

impl Bars {
    /// The drawing as a file.
    pub fn svg(&self) -> String {
        self.draw(WIDE, "")
    }

    /// The drawing for a page: for wide and for narrow windows.
    pub(super) fn both(&self) -> [String; 2] {
        [self.draw(WIDE, "wide"), self.draw(NARROW, "narrow")]
    }

    /// What is written at the end of a bar.
    fn value(&self, bar: &Bar) -> String {
        let value = bar.value.map_or_else(|| "not run".to_owned(), |value| number(value, self.decimals));
        if bar.note.is_empty() { value } else { format!("{value} {}", bar.note) }
    }

    fn draw(&self, canvas: Canvas, class: &str) -> String {
        const GAP: f64 = 7.0;
        let font = canvas.font;
        let mut drawing = Drawing::new(canvas, &self.title);
        let entry = |(look, name): (usize, &String)| {
            let look = look % LOOKS;
            Entry { name: name.clone(), key: Key::Field { look } }
        };
        drawing.legend(&self.looks.iter().enumerate().map(entry).collect::<Vec<_>>());
        let widest = |texts: &mut dyn Iterator<Item = String>| texts.map(|t| width(&t, font)).fold(0.0, f64::max);
        let labels = widest(&mut self.bars.iter().map(|bar| bar.label.clone())).min(0.4 * canvas.width);
        let values = widest(&mut self.bars.iter().map(|bar| self.value(bar))).min(0.4 * canvas.width);
        let left = 10.0 + labels + GAP;
        let length = (canvas.width - left - values - GAP - 12.0).max(40.0);
        let ends = self.bars.iter().filter_map(|bar| bar.spread).map(|(_, high)| high);
        let all = self.bars.iter().filter_map(|bar| bar.value).chain(ends);
        let marks = self.references.iter().map(|&(value, _)| value);
        let axis = Axis::linear(&self.unit).fit(all.chain(marks).chain([0.0]), length, (length / 90.0) as usize, false);
        let (thick, step) = (font + 5.0, font + 12.0);
        let top = drawing.y + 6.0;
        let bottom = top + step * self.bars.len() as f64;
        let place = |value: f64| axis.as_ref().map_or(0.0, |axis| left + axis.place(value).clamp(0.0, length));
        if let Some(axis) = &axis {
            for (&tick, label) in axis.ticks.iter().zip(&axis.labels) {
                let x = place(tick);
                drawing.line((x, top), (x, bottom), "grid");
                drawing.text(x, bottom + font + 4.0, label, "", "middle", font);
            }
        }
        for (i, bar) in self.bars.iter().enumerate() {
            let (y, look) = (top + step * i as f64 + (step - thick) / 2.0, bar.look % LOOKS);
            let baseline = y + thick / 2.0 + 0.35 * font;
            drawing.text(left - GAP, baseline, &fit(&bar.label, font, labels), "strong", "end", font);
            let zero = place(0.0);
            let mut end = zero;
            if let Some(value) = bar.value.filter(|value| value.is_finite()) {
                let to = place(value);
                let field = format!(
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"f{look}\"><title>{}</title></rect>",
                    px(zero.min(to)),
                    px(y),
                    px((to - zero).abs()),
                    px(thick),
                    escape(&format!("{}: {}", bar.label, self.value(bar)))
                );
                drawing.push(&field);
                end = to.max(zero);
            }
            if let Some((low, high)) = bar.spread.filter(|(low, high)| low.is_finite() && high.is_finite()) {
                let (from, to, middle) = (place(low), place(high), y + thick / 2.0);
                drawing.line((from, middle), (to, middle), "axis");
                drawing.line((to, middle - 4.0), (to, middle + 4.0), "axis");
                drawing.line((from, middle - 4.0), (from, middle + 4.0), "axis");
                end = end.max(to);
            }
            let room = canvas.width - end - GAP - 4.0;
            drawing.text(end + GAP, baseline, &fit(&self.value(bar), font, room), "halo", "start", font);
        }
        let mut y = bottom + font + 4.0;
        for (value, label) in self.references.iter().filter(|(value, _)| value.is_finite()) {
            let x = place(*value);
            y += font + 4.0;
            drawing.line((x, top - 3.0), (x, y - font), "ref");
            let label = fit(label, font, canvas.width - 20.0);
            let half = width(&label, font) / 2.0;
            drawing.text(
                x.clamp(10.0 + half, (canvas.width - 10.0 - half).max(10.0 + half)),
                y,
                &label,
                "",
                "middle",
                font,
            );
        }
        if !self.unit.is_empty() {
            y += font + 7.0;
            drawing.text(left + length / 2.0, y, &fit(&self.unit, font, canvas.width - 20.0), "", "middle", font);
        }
        drawing.y = y + 2.0;
        drawing.finish(&self.title, &self.spoken(), class)
    }

    /// The description, and every value.
    fn spoken(&self) -> String {
        let mut text = self.description.clone();
        for bar in &self.bars {
            let _ = write!(text, " {}: {}.", bar.label, self.value(bar));
        }
        text.trim_start().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::xml_check::check;
    use super::*;

    fn bars() -> Bars {
        Bars {
            name: "cost".into(),
            title: "Test perplexity".into(),
            unit: "perplexity".into(),
            decimals: 1,
            bars: vec![
                Bar::new("VD-LSTM <small>", 87.3),
                Bar { spread: Some((80.0, 85.0)), ..Bar::new("+REAL", 82.7).look(1) },
                Bar::new("cache", 72.1).note("as published").look(9),
                Bar::missing("large"),
                Bar::new("broken", f64::INFINITY),
            ],
            looks: vec!["ours".into(), "theirs".into()],
            references: vec![(82.7, "the paper".into())],
            ..Bars::default()
        }
    }

    #[test]
    fn bars_begin_at_zero_and_say_their_values() {
        let svg = bars().svg();
        let rects: Vec<f64> = svg
            .match_indices("<rect x=")
            .filter_map(|(at, _)| svg[at..].split_once("width=\"")?.1.split('"').next()?.parse().ok())
            .filter(|&w: &f64| w != 14.0)
            .collect();
        assert_eq!(rects.len(), 3, "{svg}");
        assert!((rects[1] / rects[0] - 82.7 / 87.3).abs() < 0.002, "{rects:?}");
        for text in ["VD-LSTM &lt;small&gt;", ">87.3<", ">72.1 as published<", ">not run<", ">infinite<", ">theirs<"] {
            assert!(svg.contains(text), "{text} {svg}");
        }
    }

    #[test]
    fn drawings_are_well_formed_whatever_is_in_them() {
        let nothing = Bars::default();
        let zero = Bars { bars: vec![Bar::new("zero", 0.0), Bar::new("below", -2.0)], ..bars() };
        let long = Bars { bars: vec![Bar::new("a very long name ".repeat(20), 1.0)], ..bars() };
        for bars in [bars(), nothing, zero, long] {
            for svg in bars.both().into_iter().chain([bars.svg()]) {
                check(&svg).unwrap_or_else(|problem| panic!("{problem}\n{svg}"));
                assert!(!svg.contains("NaN") && !svg.contains("=\"inf") && !svg.contains("=\"-"), "{svg}");
            }
        }
    }
}
