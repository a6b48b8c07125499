//! `bowline`: the command line.

fn main() {}
