//! For tests: whether a text is well-formed XML, as far as a drawing or page of ours can go wrong.

/// Reads a whole document: tags are closed in order, attributes quoted and given once, no stray `<` or `&`, no character
/// that XML forbids, one root.
pub(super) fn check(text: &str) -> Result<(), String> {
    if let Some(c) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) {
        return Err(format!("character {:?}", c));
    }
    let (mut open, mut roots): (Vec<&str>, usize) = (Vec::new(), 0);
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some(inside) = rest.strip_prefix('<') else {
            let end = rest.find('<').unwrap_or(rest.len());
            if open.is_empty() {
                return Err(format!("text outside the root: {}", &rest[..end]));
            }
            references(&rest[..end])?;
            if rest[..end].contains('>') && open.last() != Some(&"style") {
                return Err(format!("a stray >: {}", &rest[..end]));
            }
            rest = &rest[end..];
            continue;
        };
        let end = inside.find('>').ok_or("a tag without an end")?;
        let (tag, after) = (&inside[..end], &inside[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop().ok_or_else(|| format!("</{name}> closes nothing"))?;
            if last != name {
                return Err(format!("</{name}> closes <{last}>"));
            }
        } else {
            let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
                return Err(format!("a tag named {name:?}"));
            }
            self::attributes(attributes)?;
            roots += usize::from(open.is_empty());
            if !closed {
                open.push(name);
            }
        }
    }
    match (open.last(), roots) {
        (Some(name), _) => Err(format!("<{name}> is not closed")),
        (None, 1) => Ok(()),
        (None, n) => Err(format!("{n} roots")),
    }
}

fn attributes(text: &str) -> Result<(), String> {
    let (mut rest, mut seen) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").ok_or_else(|| format!("no value in quotes: {rest}"))?;
        let (value, after) = after.split_once('"').ok_or_else(|| format!("a value without an end: {after}"))?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') || seen.contains(&name) {
            return Err(format!("attribute {name:?}"));
        }
        if value.contains('<') {
            return Err(format!("< in {name}"));
        }
        references(value)?;
        seen.push(name);
        rest = after.trim_start();
    }
    Ok(())
}

fn references(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        if !known.iter().any(|entity| text[at..].starts_with(entity)) {
            return Err(format!("a stray &: {}", &text[at..]));
        }
    }
    Ok(())
}

#[test]
fn the_checker_finds_what_is_wrong() {
    assert_eq!(check("<a b=\"1\"><c/>x &amp; y</a>"), Ok(()));
    for wrong in [
        "<a>",
        "<a></b>",
        "<a b=1></a>",
        "<a b=\"1\" b=\"2\"/>",
        "<a>x & y</a>",
        "<a/><b/>",
        "<a>\u{1}</a>",
        "x<a/>",
        "<a>1 > 0</a>",
        "",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
