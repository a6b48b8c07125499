//! A page: one HTML file with all it needs inside, and beside it its figures and tables as files.

use super::bars::Bars;
use super::chart::Chart;
use super::table::Table;
use super::text::escape;
use bowline::error::{Error, Result};
use bowline::storage::{atomic, files};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A drawing of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// Lines and points.
    Chart(Chart),
    /// Bars.
    Bars(Bars),
}

impl Figure {
    /// The drawing as a file.
    pub fn svg(&self) -> String {
        match self {
            Figure::Chart(chart) => chart.svg(),
            Figure::Bars(bars) => bars.svg(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Figure::Chart(chart) => &chart.name,
            Figure::Bars(bars) => &bars.name,
        }
    }

    fn html(&self) -> String {
        let ([wide, narrow], description) = match self {
            Figure::Chart(chart) => (chart.both(), &chart.description),
            Figure::Bars(bars) => (bars.both(), &bars.description),
        };
        let caption = match description.as_str() {
            "" => String::new(),
            text => format!("<figcaption>{}</figcaption>\n", escape(text)),
        };
        format!("<figure>\n{wide}{narrow}{caption}</figure>\n")
    }
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A smaller heading.
    Heading(String),
    /// A table.
    Table(Table),
    /// A drawing.
    Figure(Figure),
    /// Names and values: settings, hashes, seeds.
    Facts(Vec<(String, String)>),
    /// Text as it is: a file, a command.
    Verbatim(String),
    /// Something to open when it is wanted.
    Folded(String, Vec<Block>),
}

impl Block {
    /// A paragraph.
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text(text.into())
    }

    fn html(&self) -> String {
        match self {
            Block::Text(text) => format!("<p>{}</p>\n", escape(text)),
            Block::Heading(text) => format!("<h3>{}</h3>\n", escape(text)),
            Block::Table(table) => table.html(),
            Block::Figure(figure) => figure.html(),
            Block::Facts(facts) => {
                let fact = |(name, value): &(String, String)| {
                    format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
                };
                format!("<dl>\n{}</dl>\n", facts.iter().map(fact).collect::<String>())
            }
            Block::Verbatim(text) => format!("<pre tabindex=\"0\">{}</pre>\n", escape(text)),
            Block::Folded(title, blocks) => {
                let inside: String = blocks.iter().map(Block::html).collect();
                format!("<details>\n<summary>{}</summary>\n{inside}</details>\n", escape(title))
            }
        }
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Block {
        Block::Table(table)
    }
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Block {
        Block::Figure(Figure::Chart(chart))
    }
}

impl From<Bars> for Block {
    fn from(bars: Bars) -> Block {
        Block::Figure(Figure::Bars(bars))
    }
}

/// A part of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What is in it.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section with these blocks.
    pub fn new(title: impl Into<String>, blocks: impl Into<Vec<Block>>) -> Section {
        Section { title: title.into(), blocks: blocks.into() }
    }
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its heading, and the window's title.
    pub title: String,
    /// What it is about, below the heading.
    pub lead: String,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// From so many sections on a page has a table of contents.
const CONTENTS_FROM: usize = 4;

impl Page {
    /// The page as one HTML file.
    pub fn html(&self) -> String {
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             img-src data:; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"bowline {}\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n",
            env!("CARGO_PKG_VERSION"),
            escape(&self.title)
        );
        out += &format!("<header>\n<h1>{}</h1>\n", escape(&self.title));
        if !self.lead.is_empty() {
            out += &format!("<p class=\"lead\">{}</p>\n", escape(&self.lead));
        }
        out += "</header>\n";
        if self.sections.len() >= CONTENTS_FROM {
            out += "<nav aria-label=\"Contents\"><ol>\n";
            for (i, section) in self.sections.iter().enumerate() {
                out += &format!("<li><a href=\"#s{}\">{}</a></li>\n", i + 1, escape(&section.title));
            }
            out += "</ol></nav>\n";
        }
        for (i, section) in self.sections.iter().enumerate() {
            let blocks = in_pairs(&section.blocks);
            out += &format!("<section id=\"s{}\">\n<h2>{}</h2>\n{blocks}</section>\n", i + 1, escape(&section.title));
        }
        out +=
            &format!("<footer>Written by bowline {}.</footer>\n</main>\n</body>\n</html>\n", env!("CARGO_PKG_VERSION"));
        out
    }

    /// Writes `report.html` into a folder, and beside it every figure as `NAME.svg` and every table as `NAME.md` and
    /// `NAME.csv`. The folder is made if it is not there; other files in it stay. Returns what was written, the page first.
    pub fn write(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        files::create_dir_all(dir).map_err(Error::io(dir, "create the folder"))?;
        let mut files = vec![("report.html".to_owned(), self.html())];
        let mut names = HashSet::new();
        for block in self.sections.iter().flat_map(|section| &section.blocks) {
            collect(block, &mut names, &mut files);
        }
        files
            .into_iter()
            .map(|(name, text)| {
                let path = dir.join(name);
                atomic::write(&path, |out| out.write_all(text.as_bytes()))?;
                Ok(path)
            })
            .collect()
    }
}

/// The blocks of a section; figures that follow each other stand side by side where there is room.
fn in_pairs(blocks: &[Block]) -> String {
    let is_figure = |block: &Block| matches!(block, Block::Figure(_));
    let together = |a: &Block, b: &Block| is_figure(a) && is_figure(b);
    blocks
        .chunk_by(together)
        .map(|chunk| {
            let html: String = chunk.iter().map(Block::html).collect();
            if chunk.len() > 1 { format!("<div class=\"pairs\">\n{html}</div>\n") } else { html }
        })
        .collect()
}

/// The figures and tables of a block, as files with names of their own.
fn collect(block: &Block, names: &mut HashSet<String>, files: &mut Vec<(String, String)>) {
    match block {
        Block::Figure(figure) => {
            let name = unused(figure.name(), "figure", names);
            files.push((format!("{name}.svg"), figure.svg()));
        }
        Block::Table(table) => {
            let name = unused(&table.name, "table", names);
            files.push((format!("{name}.md"), table.markdown()));
            files.push((format!("{name}.csv"), table.csv()));
        }
        Block::Folded(_, blocks) => blocks.iter().for_each(|block| collect(block, names, files)),
        Block::Text(_) | Block::Heading(_) | Block::Facts(_) | Block::Verbatim(_) => {}
    }
}

/// A name that is a plain file's and was not given before.
fn unused(name: &str, kind: &str, names: &mut HashSet<String>) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let plain = plain.trim_matches('-');
    let base = if plain.is_empty() { kind } else { plain };
    let mut name = base.to_owned();
    for i in 2.. {
        if names.insert(name.clone()) {
            break;
        }
        name = format!("{base}-{i}");
    }
    name
}

/// The style sheet of a page. Figures bring their own.
const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests {
    use super::super::chart::{Point, Series};
    use super::super::table::{Cell, Column};
    use super::*;

    fn page() -> Page {
        let chart = Chart {
            name: "../Valid <x>".into(),
            title: "A & B".into(),
            description: "falls <fast>".into(),
            series: vec![Series::line("s", [Point::new(1.0, 2.0), Point::new(2.0, 1.0)])],
            ..Chart::default()
        };
        let table = Table {
            name: "results".into(),
            columns: vec![Column::text("word"), Column::number("p")],
            rows: vec![vec![Cell::text("<script>alert(1)</script>"), Cell::number(0.5, 2)]],
            ..Table::default()
        };
        let facts = Block::Facts(vec![("path \"x\"".into(), "/tmp/<run>".into())]);
        let folded = Block::Folded("more".into(), vec![table.clone().into(), Block::Verbatim("a < b && c".into())]);
        let blocks =
            vec![Block::text("p < 0.05 & so on"), chart.clone().into(), chart.into(), table.into(), facts, folded];
        Page {
            title: "Runs <of> today".into(),
            lead: "lead".into(),
            sections: ["one", "two", "three", "fo<u>r"].map(|title| Section::new(title, blocks.clone())).to_vec(),
        }
    }

    #[test]
    fn a_page_is_escaped_and_asks_for_nothing() {
        let html = page().html();
        for forbidden in ["<script", "<unk>", "<of>", "<run>", "<u>", "src=", "@import", "url("] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        assert!(html.contains("default-src 'none'"));
        let without_namespace = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        assert!(!without_namespace.contains("http:") && !without_namespace.contains("https:"));
        for link in html.match_indices("href=\"").map(|(at, _)| &html[at + 6..at + 12]) {
            assert!(link.starts_with('#') || link.starts_with("data:,"), "{link}");
        }
    }

    #[test]
    fn every_tag_of_a_page_is_closed() {
        let html = page().html();
        // HTML's own: the declaration and the tags that have no end.
        let body = html.strip_prefix("<!doctype html>\n").unwrap();
        let void = |tag: &str| tag.starts_with("<meta") || tag.starts_with("<link");
        let body: String = body.lines().filter(|line| !void(line)).map(|line| format!("{line}\n")).collect();
        super::super::xml_check::check(&body).unwrap_or_else(|problem| panic!("{problem}\n{body}"));
    }

    #[test]
    fn only_a_long_page_has_a_table_of_contents() {
        let mut page = page();
        assert!(page.html().contains("<a href=\"#s4\">fo&lt;u&gt;r</a>"));
        page.sections.truncate(3);
        assert!(!page.html().contains("<nav"));
    }

    #[test]
    fn a_folder_has_the_page_and_its_parts_under_names_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("new/folder");
        let page = Page { sections: page().sections[..1].to_vec(), ..page() };
        let written = page.write(&out).unwrap();
        let names: Vec<String> =
            written.iter().map(|path| path.strip_prefix(&out).unwrap().display().to_string()).collect();
        assert_eq!(
            names,
            [
                "report.html",
                "valid--x.svg",
                "valid--x-2.svg",
                "results.md",
                "results.csv",
                "results-2.md",
                "results-2.csv"
            ]
        );
        assert_eq!(std::fs::read_to_string(&written[0]).unwrap(), page.html());
        assert!(std::fs::read_to_string(&written[1]).unwrap().starts_with("<svg xmlns="));
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = page.write(&file).unwrap_err().to_string();
        assert!(refused.contains("cannot create the folder"), "{refused}");
    }
}
