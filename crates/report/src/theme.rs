//! Colours and line styles, for light and dark surroundings.
//!
//! A figure carries its own style sheet, so that the same drawing works in a page and as a file. The rules of all figures
//! are the same, so several of them in one page do not disturb each other.

/// How many looks there are before they repeat.
pub(super) const LOOKS: usize = 8;

/// Dashes by look. Together with the marker they tell series apart where colours cannot.
const DASHES: [&str; LOOKS] = ["", "7 3", "2 3", "9 3 2 3", "5 2", "1 2", "12 4", "7 2 2 2 2 2"];

/// The dash pattern of a look; nothing for a full line.
pub(super) fn dash(look: usize) -> &'static str {
    DASHES[look % LOOKS]
}

/// The shape of a look's marker around (0, 0), as the `d` of a path.
pub(super) fn marker(look: usize) -> &'static str {
    [
        "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z",
        "M-3.2-3.2h6.4v6.4h-6.4z",
        "M0-4.2L4.1 3.2H-4.1z",
        "M0-4.4L4.4 0L0 4.4L-4.4 0z",
        "M0 4.2L4.1-3.2H-4.1z",
        "M-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",
        "M-4.4-2h8.8v4h-8.8z",
        "M-2-4.4h4v8.8h-4z",
    ][look % LOOKS]
}

const LIGHT: &str = "--bl-paper:#fff;--bl-ink:#1b1f24;--bl-soft:#59626d;--bl-grid:#e4e7eb;--bl-axis:#9aa3ad;\
--bl-0:#0b62a8;--bl-1:#c04a06;--bl-2:#19794a;--bl-3:#8a3ea8;--bl-4:#00747f;--bl-5:#7a5b00;--bl-6:#b92c72;--bl-7:#4d5561";
const DARK: &str = "--bl-paper:#171a20;--bl-ink:#e8eaed;--bl-soft:#a4adb8;--bl-grid:#2b3038;--bl-axis:#67707b;\
--bl-0:#6cb6ff;--bl-1:#f6995c;--bl-2:#5fce8e;--bl-3:#d2a3ff;--bl-4:#56d4dd;--bl-5:#e3c454;--bl-6:#ff8fc1;--bl-7:#b3bdc9";

/// The style sheet inside every figure.
pub(super) fn figure_style() -> String {
    let looks: String = (0..LOOKS)
        .map(|i| format!(".bl .s{i}{{stroke:var(--bl-{i})}}.bl .f{i}{{fill:var(--bl-{i});stroke:var(--bl-paper)}}"))
        .collect();
    format!(
        ".bl{{{LIGHT};font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}}\
         @media (prefers-color-scheme:dark){{.bl{{{DARK}}}}}\
         @media print{{.bl{{{LIGHT}}}}}\
         .bl .paper{{fill:var(--bl-paper)}}\
         .bl text{{fill:var(--bl-soft)}}.bl .title{{fill:var(--bl-ink);font-weight:600}}.bl .strong{{fill:var(--bl-ink)}}\
         .bl .grid{{stroke:var(--bl-grid);stroke-width:1}}.bl .axis{{stroke:var(--bl-axis);stroke-width:1}}\
         .bl .line{{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:butt}}\
         .bl .thin{{fill:none;stroke-width:1.3}}\
         .bl .mark{{stroke-width:1}}.bl .hollow{{fill:var(--bl-paper);stroke-width:1.6}}\
         .bl .ref{{fill:none;stroke:var(--bl-soft);stroke-width:1.2;stroke-dasharray:2 3}}\
         .bl .halo{{paint-order:stroke;stroke:var(--bl-paper);stroke-width:3;stroke-linejoin:round}}\
         {looks}"
    )
}
