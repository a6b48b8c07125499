//! `cargo xtask notices`: whose work is in the program, and under which licences. Writes `THIRD-PARTY.md`.

use crate::{root, say};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;

/// The licences that may be in a program under MIT or Apache-2.0; `deny.toml` has the same.
const ALLOWED: [&str; 11] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether a licence expression can be met by the allowed ones.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    let one = |licence: &str| ALLOWED.contains(&licence.trim());
    // `A OR B AND C`: one of the alternatives, all parts of it. Without brackets, which no crate here needs to be read by.
    expression.split(" OR ").any(|all| all.split(" AND ").all(one))
        || expression.split(" AND ").all(|any| any.split(" OR ").any(one))
}

/// Writes the notices; an error names the first crate whose licence is not allowed.
pub fn run() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked"]).current_dir(root());
    let metadata: Value = serde_json::from_slice(&command.output()?.stdout)?;
    let mut crates = BTreeMap::new();
    for package in metadata["packages"].as_array().context("no packages")? {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        // Ours have no source.
        if package["source"].is_null() {
            continue;
        }
        let licence = text("license");
        ensure!(is_allowed(&licence), "{} {}: the licence `{licence}` is not allowed", text("name"), text("version"));
        crates.insert((text("name"), text("version")), (licence, text("repository")));
    }
    let mut page =
        "# Third-party notices\n\nBowline is built with these crates. Their licence texts are in their sources.\n\n\
                    | crate | version | licence | source |\n|---|---|---|---|\n"
            .to_owned();
    for ((name, version), (licence, source)) in &crates {
        page += &format!("| {name} | {version} | {licence} | {source} |\n");
    }
    std::fs::write(root().join("THIRD-PARTY.md"), page)?;
    say(&format!("THIRD-PARTY.md names {} crates, all under licences that are allowed", crates.len()))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn alternatives_and_conjunctions_are_understood() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 AND ISC",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "AGPL-3.0 OR GPL-3.0"] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
