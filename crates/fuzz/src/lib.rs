//! Everything that Bowline reads, as functions from bytes to nothing: whatever the bytes are, they return.
//!
//! A *target* reads one format. It may find the bytes wrong, and mostly does; it may not panic, take longer than ten
//! seconds, or ask for much more memory than the input has ([`MOST_BYTES`]). libFuzzer calls the targets by way of
//! `fuzz/`; `cargo test` calls them with the [`seeds`] and some hundred [`mutations`](mutate); `cargo xtask fuzz` with as
//! many as one likes.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod mutate;
pub mod seeds;
pub mod targets;

/// A format: its name, what reads it, and examples to start from.
pub struct Target {
    /// As the files of `fuzz/` have it.
    pub name: &'static str,
    /// Reads bytes as that format.
    pub read: fn(&[u8]),
    /// Well-formed examples.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Bytes that reading may allocate in all, beside [`BYTES_PER_BYTE`] for each byte of the input.
pub const MOST_BYTES: usize = 64 << 20;

/// See [`MOST_BYTES`].
pub const BYTES_PER_BYTE: usize = 4096;

/// All targets.
pub const TARGETS: [Target; 18] = [
    Target { name: "tensor_file", read: targets::tensor_file, seeds: seeds::tensor_file },
    Target { name: "config", read: targets::config, seeds: seeds::config },
    Target { name: "setting", read: targets::setting, seeds: seeds::setting },
    Target { name: "recipe", read: targets::recipe, seeds: seeds::recipe },
    Target { name: "predictor", read: targets::predictor, seeds: seeds::predictor },
    Target { name: "model_config", read: targets::model_config, seeds: seeds::model_config },
    Target { name: "tuned", read: targets::tuned, seeds: seeds::tuned },
    Target { name: "vocabulary", read: targets::vocabulary, seeds: seeds::vocabulary },
    Target { name: "checkpoint", read: targets::checkpoint, seeds: seeds::checkpoint },
    Target { name: "events", read: targets::events, seeds: seeds::events },
    Target { name: "arpa", read: targets::arpa, seeds: seeds::arpa },
    Target { name: "ngram", read: targets::ngram, seeds: seeds::ngram },
    Target { name: "nbest", read: targets::nbest, seeds: seeds::nbest },
    Target { name: "corpus", read: targets::corpus, seeds: seeds::corpus },
    Target { name: "ids", read: targets::ids, seeds: seeds::ids },
    Target { name: "import", read: targets::import, seeds: seeds::import },
    Target { name: "onnx", read: targets::onnx, seeds: seeds::onnx },
    Target { name: "http", read: targets::http, seeds: seeds::http },
];

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
