//! Charts of points and lines over two axes.
//!
//! A *series* is what belongs together: it has one colour, one dash pattern and one marker. A *point* may carry a spread,
//! drawn as an error bar. A *reference* is a value to compare with that was not measured here: the paper's.

use super::frame::{Canvas, Drawing, Entry, Key, NARROW, WIDE, dashed};
use super::scale::{Axis, Fitted};
use super::text::{escape, fit, number, px, width};
use super::theme::{self, LOOKS};
use std::fmt::Write as _;

/// A value, with its spread where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis. One that is no number makes a gap in the line.
    pub y: f64,
    /// The lower and the upper end of the error bar.
    pub spread: Option<(f64, f64)>,
}

impl Point {
    /// A value without spread.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, spread: None }
    }

    /// The mean of several measurements at `x`, with plus and minus one standard deviation (of the sample) as its spread.
    /// None if there is no measurement.
    pub fn mean(x: f64, values: &[f64]) -> Option<Point> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        match values.len() {
            0 => None,
            1 => Some(Point::new(x, mean)),
            _ => {
                let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
                Some(Point { x, y: mean, spread: Some((mean - deviation, mean + deviation)) })
            }
        }
    }
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// In the order in which a line joins them.
    pub points: Vec<Point>,
    /// Whether a line joins them.
    pub line: bool,
    /// Whether each has a marker.
    pub markers: bool,
    /// Which colour; without it, the next one.
    pub colour: Option<usize>,
    /// Which dashes and marker; without it, those of the colour.
    pub dash: Option<usize>,
}

impl Series {
    /// Points joined by a line.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Series {
        let points = points.into_iter().collect();
        Series { name: name.into(), points, line: true, markers: true, colour: None, dash: None }
    }

    /// Points alone, for values with error bars or those of single runs.
    pub fn dots(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Series {
        Series { line: false, ..Series::line(name, points) }
    }

    /// The same in the given colour, with its dashes and marker.
    pub fn look(self, look: usize) -> Series {
        Series { colour: Some(look), ..self }
    }

    /// The same with the given dashes and marker.
    pub fn dash(self, dash: usize) -> Series {
        Series { dash: Some(dash), ..self }
    }
}

/// A value to compare with.
#[derive(Clone, Debug, PartialEq)]
pub enum Reference {
    /// A line across the chart at a value of the vertical axis; in the colour of a look if one is given.
    Across {
        /// The value.
        y: f64,
        /// What it is.
        label: String,
        /// Whose colour.
        look: Option<usize>,
    },
    /// A line from bottom to top at a value of the horizontal axis: where something happened.
    Upright {
        /// The value.
        x: f64,
        /// What happened.
        label: String,
    },
    /// A hollow point.
    Point {
        /// Along the horizontal axis.
        x: f64,
        /// Along the vertical axis.
        y: f64,
        /// What it is.
        label: String,
        /// Whose colour.
        look: usize,
    },
}

/// A chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The file's name without its ending.
    pub name: String,
    /// Above the drawing.
    pub title: String,
    /// What there is to see, in a sentence, for those who cannot, and as the caption in a page.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The measured.
    pub series: Vec<Series>,
    /// The compared with.
    pub references: Vec<Reference>,
}

impl Chart {
    /// The drawing as a file.
    pub fn svg(&self) -> String {
        self.draw(WIDE, "")
    }

    /// The drawing for a page: for wide and for narrow windows.
    pub(super) fn both(&self) -> [String; 2] {
        [self.draw(WIDE, "wide"), self.draw(NARROW, "narrow")]
    }

    fn look(&self, i: usize) -> (usize, usize) {
        let series = &self.series[i];
        let colour = series.colour.unwrap_or(i);
        // A series that stands alone is solid: there is nothing to tell it from.
        let dash = if self.series.len() == 1 { 0 } else { colour };
        (colour % LOOKS, series.dash.unwrap_or(dash) % LOOKS)
    }

    fn draw(&self, canvas: Canvas, class: &str) -> String {
        let mut drawing = Drawing::new(canvas, &self.title);
        let entry = |(i, series): (usize, &Series)| {
            let ((look, dash), name) = (self.look(i), series.name.clone());
            Entry { name, key: Key::Series { look, dash, line: series.line, marker: series.markers } }
        };
        let plot = self.fit(canvas);
        let mut legend = Vec::new();
        if self.series.len() > 1 {
            legend.extend(self.series.iter().enumerate().map(entry));
        }
        if let Some(plot) = &plot {
            let lines = self.lines_across(plot);
            legend.extend(lines.map(|(_, label, class)| Entry { name: label.to_owned(), key: Key::Reference(class) }));
        }
        drawing.legend(&legend);
        match plot {
            Some(plot) => self.plot(&mut drawing, &plot),
            None => {
                drawing.y += 60.0;
                let (middle, y) = (canvas.width / 2.0, drawing.y);
                drawing.text(middle, y, "no values yet", "", "middle", canvas.font);
                drawing.y += 50.0;
            }
        }
        drawing.finish(&self.title, &self.spoken(), class)
    }

    /// The axes over all that is to be seen.
    fn fit(&self, canvas: Canvas) -> Option<Plot> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let shown = || points().filter(|p| self.x.shows(p.x) && self.y.shows(p.y));
        shown().next()?;
        let across = self.references.iter().filter_map(|reference| match reference {
            Reference::Across { y, .. } | Reference::Point { y, .. } => Some(*y),
            Reference::Upright { .. } => None,
        });
        let along = self.references.iter().filter_map(|reference| match reference {
            Reference::Upright { x, .. } | Reference::Point { x, .. } => Some(*x),
            Reference::Across { .. } => None,
        });
        let ends = shown().filter_map(|p| p.spread).flat_map(|(low, high)| [low, high]);
        let wanted = (canvas.plot / 50.0) as usize;
        let y = self.y.fit(shown().map(|p| p.y).chain(ends).chain(across), canvas.plot, wanted, true)?;
        let widest = y.labels.iter().map(|label| width(label, canvas.font)).fold(0.0, f64::max);
        let left = 10.0 + canvas.font + 8.0 + widest + 6.0;
        let length = canvas.width - left - 18.0;
        let x = self.x.fit(shown().map(|p| p.x).chain(along), length, (length / 85.0) as usize, false)?;
        Some(Plot { x, y, left, length, height: canvas.plot })
    }

    fn plot(&self, drawing: &mut Drawing, plot: &Plot) {
        let top = drawing.y + 8.0;
        let (left, right, bottom) = (plot.left, plot.left + plot.length, top + plot.height);
        let font = drawing.canvas.font;
        let at = |x: f64, y: f64| (left + plot.x.place(x), bottom - plot.y.place(y));
        for (&tick, label) in plot.y.ticks.iter().zip(&plot.y.labels) {
            let y = at(plot.x.low, tick).1;
            drawing.line((left, y), (right, y), "grid");
            drawing.text(left - 6.0, y + 0.35 * font, label, "", "end", font);
        }
        let mut free_from = f64::NEG_INFINITY;
        for (&tick, label) in plot.x.ticks.iter().zip(&plot.x.labels) {
            let x = at(tick, plot.y.low).0;
            drawing.line((x, bottom), (x, bottom + 5.0), "axis");
            let half = width(label, font) / 2.0;
            // Given ticks may stand so close that their numbers would touch.
            // The last one may not go beyond the edge; how wide it is in the reader's font is not known.
            let edge = drawing.canvas.width - 1.0;
            let (place, begin, anchor) =
                if x + 1.25 * half > edge { (edge, edge - 2.0 * half, "end") } else { (x, x - half, "middle") };
            if begin > free_from {
                drawing.text(place, bottom + 7.0 + font, label, "", anchor, font);
                free_from = begin + 2.0 * half + 4.0;
            }
        }
        drawing.line((left, bottom), (right, bottom), "axis");
        drawing.line((left, top), (left, bottom), "axis");
        self.references_behind(drawing, plot, top, &at);
        for (i, series) in self.series.iter().enumerate() {
            self.draw_series(drawing, plot, series, self.look(i), &at);
        }
        self.reference_labels(drawing, plot, top, &at);
        let (middle, y) = ((left + right) / 2.0, bottom + 2.0 * font + 16.0);
        drawing.text(middle, y, &fit(&self.x.label, font, drawing.canvas.width - 20.0), "", "middle", font);
        let x = 10.0 + 0.8 * font;
        let label = format!(
            "<text transform=\"translate({} {}) rotate(-90)\" font-size=\"{}\" text-anchor=\"middle\">{}</text>",
            px(x),
            px((top + bottom) / 2.0),
            px(font),
            escape(&fit(&self.y.label, font, plot.height + 20.0))
        );
        drawing.push(&label);
        drawing.y = y + 2.0;
    }

    fn draw_series(
        &self,
        drawing: &mut Drawing,
        plot: &Plot,
        series: &Series,
        (look, dash): (usize, usize),
        at: &dyn Fn(f64, f64) -> (f64, f64),
    ) {
        let shown = |p: &&Point| self.x.shows(p.x) && self.y.shows(p.y);
        if series.line {
            let mut path = String::new();
            let mut joined = false;
            for point in &series.points {
                if !shown(&point) {
                    joined = false;
                    continue;
                }
                let (x, y) = at(point.x, point.y);
                let _ = write!(path, "{}{} {}", if joined { 'L' } else { 'M' }, px(x), px(y));
                joined = true;
            }
            if !path.is_empty() {
                // Inside a drawing of its own, which shows nothing of what is outside the axes.
                let (_, bottom) = at(plot.x.low, plot.y.low);
                let (left, top, wide, high) =
                    (plot.left - 1.0, bottom - plot.height - 1.0, plot.length + 2.0, plot.height + 2.0);
                let clipped = format!(
                    "<svg x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" viewBox=\"{0} {1} {2} {3}\">\
                     <path d=\"{path}\" class=\"line s{look}\"{4}/></svg>",
                    px(left),
                    px(top),
                    px(wide),
                    px(high),
                    dashed(dash)
                );
                drawing.push(&clipped);
            }
        }
        let within: Vec<&Point> =
            series.points.iter().filter(shown).filter(|p| plot.x.contains(p.x) && plot.y.contains(p.y)).collect();
        for point in &within {
            if let Some((low, high)) = point.spread.filter(|&(low, high)| self.y.shows(low) && self.y.shows(high)) {
                let ((x, y1), (_, y2)) = (at(point.x, low.max(plot.y.low)), at(point.x, high.min(plot.y.high)));
                let bar = format!(
                    "<path d=\"M{0} {1}h8M{2} {1}V{3}M{0} {3}h8\" class=\"thin s{look}\"/>",
                    px(x - 4.0),
                    px(y1),
                    px(x),
                    px(y2)
                );
                drawing.push(&bar);
            }
        }
        if series.markers {
            // A long line has markers only so often that they can be told apart; a point that stands alone always has.
            let every = if series.line { within.len().div_ceil((plot.length / 22.0) as usize).max(1) } else { 1 };
            for (i, point) in within.iter().enumerate() {
                if i % every == 0 || i + 1 == within.len() {
                    let (x, y) = at(point.x, point.y);
                    drawing.marker(x, y, look, dash);
                }
            }
        }
    }

    /// The lines across that lie within the axes, with what they are and their class. Their names stand in the legend:
    /// inside the plot they would lie upon the ends of the curves.
    fn lines_across<'a>(&'a self, plot: &'a Plot) -> impl Iterator<Item = (f64, &'a str, String)> {
        self.references.iter().filter_map(|reference| match reference {
            Reference::Across { y, label, look } if self.y.shows(*y) && plot.y.contains(*y) => {
                let class = look.map_or_else(|| "ref".to_owned(), |look| format!("ref s{}", look % LOOKS));
                Some((*y, label.as_str(), class))
            }
            _ => None,
        })
    }

    fn references_behind(&self, drawing: &mut Drawing, plot: &Plot, top: f64, at: &dyn Fn(f64, f64) -> (f64, f64)) {
        for (y, _, class) in self.lines_across(plot) {
            let y = at(plot.x.low, y).1;
            drawing.line((plot.left, y), (plot.left + plot.length, y), &class);
        }
        for reference in &self.references {
            if let Reference::Upright { x, .. } = reference
                && self.x.shows(*x)
                && plot.x.contains(*x)
            {
                let x = at(*x, plot.y.low).0;
                drawing.line((x, top), (x, top + plot.height), "ref");
            }
        }
    }

    /// Words beside the references that have a place of their own along the horizontal axis.
    fn reference_labels(&self, drawing: &mut Drawing, plot: &Plot, top: f64, at: &dyn Fn(f64, f64) -> (f64, f64)) {
        let (font, right) = (drawing.canvas.font - 1.0, plot.left + plot.length);
        let mut uprights = 0;
        for reference in &self.references {
            match reference {
                Reference::Upright { x, label } if self.x.shows(*x) && plot.x.contains(*x) => {
                    let x = at(*x, plot.y.low).0;
                    let (left_room, right_room) = (x - plot.left - 5.0, right - x - 5.0);
                    let y = top + font + f64::from(uprights) * (font + 3.0);
                    uprights += 1;
                    if width(label, font) <= right_room || right_room >= left_room {
                        drawing.text(x + 5.0, y, &fit(label, font, right_room), "halo", "start", font);
                    } else {
                        drawing.text(x - 5.0, y, &fit(label, font, left_room), "halo", "end", font);
                    }
                }
                Reference::Point { x, y, label, look } if self.x.shows(*x) && self.y.shows(*y) => {
                    if !plot.x.contains(*x) || !plot.y.contains(*y) {
                        continue;
                    }
                    let (x, y) = at(*x, *y);
                    let look = look % LOOKS;
                    let path = format!(
                        "<path d=\"{}\" transform=\"translate({} {}) scale(1.25)\" class=\"hollow s{look}\"/>",
                        theme::marker(look),
                        px(x),
                        px(y)
                    );
                    drawing.push(&path);
                    let (side, anchor) =
                        if x + 9.0 + width(label, font) <= right { (9.0, "start") } else { (-9.0, "end") };
                    drawing.text(x + side, y + 0.35 * font, label, "halo", anchor, font);
                }
                _ => {}
            }
        }
    }

    /// The description, and the last value of each series.
    fn spoken(&self) -> String {
        let mut text = self.description.clone();
        for series in &self.series {
            if let Some(last) = series.points.iter().rev().find(|p| self.x.shows(p.x) && self.y.shows(p.y)) {
                let decimals = if last.y.abs() < 10.0 { 3 } else { 1 };
                let _ = write!(
                    text,
                    " {}: {} points, the last {} at {}.",
                    series.name,
                    series.points.len(),
                    number(last.y, decimals),
                    number(last.x, if last.x.fract() == 0.0 { 0 } else { 2 })
                );
            }
        }
        text.trim_start().to_owned()
    }
}

/// The axes and where they are.
struct Plot {
    x: Fitted,
    y: Fitted,
    left: f64,
    length: f64,
    height: f64,
}

#[cfg(test)]
mod tests {
    use super::super::xml_check::check;
    use super::*;

    fn chart() -> Chart {
        let points =
            |factor: f64| (1..=40).map(move |i| Point::new(f64::from(i), factor * 400.0 / f64::from(i).sqrt()));
        Chart {
            name: "valid".into(),
            title: "Validation <perplexity> & more".into(),
            description: "It \"falls\".".into(),
            x: Axis::whole("epoch"),
            y: Axis::log("perplexity"),
            series: vec![Series::line("VD-LSTM", points(1.0)), Series::line("+REAL <b>", points(0.9)).dash(3)],
            references: vec![
                Reference::Across { y: 92.6, label: "the paper 92.6".into(), look: Some(0) },
                Reference::Across { y: 92.0, label: "the paper 92.0".into(), look: None },
                Reference::Upright { x: 20.0, label: "second training".into() },
                Reference::Point { x: 40.0, y: 86.3, label: "paper".into(), look: 1 },
            ],
        }
    }

    #[test]
    fn drawings_are_well_formed_whatever_is_in_them() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1e300, 7.0];
        let mut charts = vec![chart(), Chart::default()];
        for y in [Axis::linear("y"), Axis::log("y"), Axis::linear("y").from_to(0.0, 1.0)] {
            let points =
                odd.iter().enumerate().map(|(i, &y)| Point { x: i as f64, y, spread: Some((y / 2.0, y * 2.0)) });
            let series = vec![Series::dots("odd", points.clone()), Series::line("joined", points)];
            charts.push(Chart { y, series, title: "odd\u{0}".into(), ..chart() });
        }
        for chart in charts {
            for svg in chart.both().into_iter().chain([chart.svg()]) {
                check(&svg).unwrap_or_else(|problem| panic!("{problem}\n{svg}"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.contains("role=\"img\"") && svg.contains("<desc>"));
            }
        }
    }

    #[test]
    fn text_is_escaped_and_the_title_comes_first() {
        let svg = chart().svg();
        assert!(svg.contains("<title>Validation &lt;perplexity&gt; &amp; more</title>"), "{svg}");
        assert!(svg.contains("+REAL &lt;b&gt;") && !svg.contains("<b>"));
        assert!(svg.contains("the last 63.2 at 40."), "{svg}");
    }

    #[test]
    fn series_differ_in_more_than_colour() {
        let svg = chart().svg();
        assert!(svg.contains("class=\"line s0\"/>") && svg.contains("class=\"line s1\" stroke-dasharray"), "{svg}");
        assert!(svg.contains(theme::marker(0)) && svg.contains(theme::marker(3)));
    }

    #[test]
    fn a_value_that_is_no_number_leaves_a_gap() {
        let points = [1.0, 2.0, f64::INFINITY, 3.0, 2.5].iter().enumerate().map(|(i, &y)| Point::new(i as f64, y));
        let svg = Chart { series: vec![Series::line("s", points)], ..Chart::default() }.svg();
        let path = svg.split("<path d=\"").find(|p| p.contains("class=\"line s0\"") && p.contains('L')).unwrap();
        let path = path.split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 2), "{path}");
    }

    #[test]
    fn a_mean_has_the_spread_of_its_sample() {
        assert_eq!(Point::mean(1.0, &[]), None);
        assert_eq!(Point::mean(1.0, &[4.0]), Some(Point::new(1.0, 4.0)));
        assert_eq!(Point::mean(1.0, &[3.0, 4.0, 5.0]), Some(Point { x: 1.0, y: 4.0, spread: Some((3.0, 5.0)) }));
    }

    #[test]
    fn a_long_number_at_the_end_of_an_axis_ends_before_the_edge() {
        let words = vec![5_000.0, 20_000.0, 80_000.0];
        let series = vec![Series::line("a", words.iter().map(|&x| Point::new(x, 1.0 / x)).collect::<Vec<_>>())];
        let svg = Chart { x: Axis::log("words").at(words), series, references: Vec::new(), ..chart() }.svg();
        let tag = |label: &str| {
            let before = &svg[..svg.find(&format!(">{label}<")).unwrap()];
            before[before.rfind("<text").unwrap()..].to_owned()
        };
        assert!(tag("80,000").contains("text-anchor=\"end\""), "{}", tag("80,000"));
        assert!(tag("20,000").contains("text-anchor=\"middle\""), "{}", tag("20,000"));
    }

    #[test]
    fn names_of_lines_across_stand_above_the_plot() {
        let svg = chart().svg();
        // The plot begins with its grid; what comes before is title and legend.
        let top = svg.split("class=\"grid\"").next().unwrap();
        assert!(top.contains(">the paper 92.6<") && top.contains(">the paper 92.0<"), "{top}");
        assert!(top.contains("class=\"ref s0\"") && top.contains("class=\"ref\""), "{top}");
        assert_eq!(svg.matches("class=\"ref s0\"").count(), 2, "once in the legend, once in the plot");
        // One outside the axes is not named.
        let y = Axis::linear("y").from_to(0.0, 50.0);
        let outside = Chart { y, ..chart() }.svg();
        assert!(!outside.contains("the paper 92.6"), "{outside}");
    }
}
