//! Word-level language models on ordinary CPUs.
#![forbid(unsafe_code)]

pub mod error;

pub use error::{Error, Result};
