//! Chores of the repository, run as `cargo xtask <chore>`.

fn main() {}
