//! The page: plain files, part of the program.

use crate::problem::Problem;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

/// The page takes nothing from elsewhere and may not be put into another one.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = include_str!("../page/icon.svg");

/// Name, kind and text of each file that the page needs.
const FILES: [(&str, &str, &str); 10] = [
    ("page.css", STYLE, include_str!("../page/page.css")),
    ("main.js", SCRIPT, include_str!("../page/main.js")),
    ("server.js", SCRIPT, include_str!("../page/server.js")),
    ("next.js", SCRIPT, include_str!("../page/next.js")),
    ("surprise.js", SCRIPT, include_str!("../page/surprise.js")),
    ("neighbours.js", SCRIPT, include_str!("../page/neighbours.js")),
    ("map.js", SCRIPT, include_str!("../page/map.js")),
    ("continue.js", SCRIPT, include_str!("../page/continue.js")),
    ("curves.js", SCRIPT, include_str!("../page/curves.js")),
    ("dom.js", SCRIPT, include_str!("../page/dom.js")),
];

/// `/`
pub async fn index() -> Response {
    answer(HTML, include_str!("../page/index.html"))
}

/// `/page/...`
pub async fn file(Path(name): Path<String>) -> Result<Response, Problem> {
    match FILES.iter().find(|(known, _, _)| *known == name) {
        Some((_, kind, text)) => Ok(answer(kind, text)),
        None => Err(Problem::not_found("the page does not have this file")),
    }
}

/// `/favicon.ico`
pub async fn icon() -> Response {
    answer("image/svg+xml", ICON)
}

fn answer(kind: &'static str, text: &'static str) -> Response {
    // Another version of the program has another page.
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}
