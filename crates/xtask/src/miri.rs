//! `cargo xtask miri`: the kernels' tests under Miri, which finds what is undefined: reads and writes out of bounds, of
//! memory not written, by two references at once, and races.
//!
//! Miri interprets plain Rust, so it sees the portable kernels and all that surrounds them, not the vector instructions;
//! and it is some thousand times slower, so it gets the tests with small sizes.

use crate::{root, say};
use anyhow::{Result, ensure};
use std::process::{Command, Stdio};

/// Tests that are small enough, by parts of their names.
const TESTS: [&str; 5] = ["sizes_whose", "rows_after", "rounding_goes", "a_name_gives", "the_members"];

/// Runs them; says so and does nothing where there is no Miri.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut miri = Command::new("cargo");
    miri.args(["+nightly", "miri", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !miri.status().is_ok_and(|status| status.success()) {
        return say(
            "skipped: there is no Miri; `rustup toolchain install nightly --component miri,rust-src` brings it",
        );
    }
    let named: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let tests = if named.is_empty() { &TESTS[..] } else { &named };
    let mut miri = Command::new("cargo");
    miri.args(["+nightly", "miri", "test", "-p", "bowline-kernels", "--lib", "--"]).args(tests).current_dir(root());
    ensure!(miri.status()?.success(), "Miri has found something; see above");
    Ok(())
}
