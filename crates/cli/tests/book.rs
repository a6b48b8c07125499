//! The documentation: links lead somewhere, every page is in the book, the README is short, and the reference is what the
//! program says (`BOWLINE_UPDATE=1 cargo test -p bowline-cli --test book` writes it anew).

mod common;

use common::{bowline, finish};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All Markdown files of the book and those beside it.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)).to_vec();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|end| end == "md") {
                pages.push(entry);
            }
        }
    }
    // The template becomes reproduction.md, which `cargo xtask results` puts together; its links are those of that page.
    pages.retain(|page| page.exists() && !page.ends_with("results/reproduction.template.md"));
    pages
}

/// The text without what stands in code blocks and between backticks.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            out.extend(line.split('`').step_by(2));
            out.push('\n');
        }
    }
    out
}

/// The targets of the links in a page.
fn links(text: &str) -> Vec<String> {
    let text = prose(text);
    text.match_indices("](").map(|(at, _)| text[at + 2..].split(')').next().unwrap().to_owned()).collect()
}

/// The anchors of a page, as GitHub and mdBook make them of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let keep = |c: char| c.is_alphanumeric() || c == ' ' || c == '-' || c == '_';
    headings.map(|h| h.to_lowercase().chars().filter(|&c| keep(c)).collect::<String>().replace(' ', "-")).collect()
}

/// What stands between backticks in a text.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// All Rust sources of a file or folder, one after the other.
fn sources(path: &Path) -> String {
    if path.is_file() {
        return fs::read_to_string(path).unwrap();
    }
    let Ok(entries) = fs::read_dir(path) else { return String::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_dir() || path.extension().is_some_and(|end| end == "rs"));
    paths.iter().map(|path| sources(path)).collect()
}

/// Whether a function or a type of that name is declared there.
fn declares(source: &str, name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap();
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    ["fn ", "struct ", "enum "].iter().any(|kind| {
        let declared = format!("{kind}{name}");
        source.match_indices(&declared).any(|(at, _)| ends(&source[at + declared.len()..]))
    })
}

#[test]
fn the_page_on_the_paper_names_what_is_there() {
    let text = fs::read_to_string(root().join("docs/paper.md")).unwrap();
    let mut missing = Vec::new();
    let mut rows = 0;
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [_, _, file, names] = cells[..] else { continue };
        let ([file], names) = (&quoted(file)[..], quoted(names)) else { continue };
        let path = match (file.strip_prefix("kernels/"), file.starts_with("crates/")) {
            (Some(kernel), _) => Path::new("crates/kernels/src").join(kernel),
            (None, true) => PathBuf::from(file),
            (None, false) => Path::new("crates/bowline/src").join(file),
        };
        let source = sources(&root().join(path));
        rows += names.len();
        missing.extend(names.iter().filter(|name| !declares(&source, name)).map(|name| format!("{file}: {name}")));
    }
    assert!(rows > 40, "the tables of docs/paper.md name {rows} functions alone");
    // The tests are named by sentences.
    let all = sources(&root().join("crates"));
    let checks = text.split("## How the numbers are checked").nth(1).unwrap();
    let tests = quoted(checks).into_iter().filter(|name| name.matches('_').count() > 3 && !name.contains('.'));
    missing.extend(tests.filter(|name| !declares(&all, name)).map(|name| format!("no test is called {name}")));
    assert!(missing.is_empty(), "docs/paper.md names what is not there:\n{}", missing.join("\n"));
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let anchored =
                || anchor.is_empty() || anchors(&fs::read_to_string(&target).unwrap_or_default()).contains(anchor);
            if !target.exists() || !anchored() {
                broken.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_book() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary).into_iter().map(|link| docs.join(link)).collect();
    let missing: Vec<PathBuf> = pages()
        .into_iter()
        .filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md") && !listed.contains(page))
        .collect();
    assert!(missing.is_empty(), "not in SUMMARY.md: {missing:?}");
}

#[test]
fn the_readme_is_short_and_its_commands_exist() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(text.lines().count() <= 150, "{} lines", text.lines().count());
    let help = finish(&mut bowline(["--help"])).success().stdout;
    let known = commands(&help);
    for line in text.lines() {
        let line = line.trim_start_matches("$ ");
        if let Some(command) = line.strip_prefix("bowline ").and_then(|rest| rest.split_whitespace().next()) {
            assert!(known.iter().any(|name| name == command), "`bowline {command}` does not exist");
        }
    }
}

/// The names under `Commands:` in a help text.
fn commands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

fn describe(words: &[String], out: &mut String) {
    let mut command = bowline(words);
    let help = finish(command.arg("--help").env("COLUMNS", "100")).success().stdout;
    let title = [&["bowline".to_owned()], words].concat().join(" ");
    let help: String = help.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    out.push_str(&format!("{} {title}\n\n```text\n{}\n```\n\n", "#".repeat(2 + words.len().min(1)), help.trim_end()));
    for name in commands(&help) {
        describe(&[words, &[name]].concat(), out);
    }
}

#[test]
fn the_reference_is_what_the_program_says() {
    let mut text =
        "# Reference\n\nEvery command with its options, as `bowline COMMAND --help` prints them.\n\n".to_owned();
    describe(&[], &mut text);
    let text = format!("{}\n", text.trim_end());
    let path = root().join("docs/reference.md");
    if std::env::var_os("BOWLINE_UPDATE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "docs/reference.md is out of date: BOWLINE_UPDATE=1 cargo test -p bowline-cli --test book");
}
