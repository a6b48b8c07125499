//! `cargo xtask bench`: Bowline and its peers side by side.

use anyhow::Result;

pub fn run(_: &[String]) -> Result<()> {
    Ok(())
}
