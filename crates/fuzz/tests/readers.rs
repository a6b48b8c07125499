//! Every reader on its seeds and on some mutations; `cargo xtask fuzz --cases N` throws more.

use bowline_fuzz::{TARGETS, Target, campaign};

/// Mutations for each format: `BOWLINE_FUZZ_CASES`, or what takes a moment.
fn cases() -> u64 {
    std::env::var("BOWLINE_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}

#[test]
fn whatever_the_bytes_are_every_reader_returns() {
    std::panic::set_hook(Box::new(|_| {}));
    for target in &TARGETS {
        let outcome = campaign::run(target, 0..cases());
        assert!(outcome.inputs > cases(), "{}: {} inputs", target.name, outcome.inputs);
        let shown: Vec<_> =
            outcome.failures.iter().map(|(n, input, what)| (n, what, input.escape_ascii().to_string())).collect();
        assert!(shown.is_empty(), "{}: {shown:#?}", target.name);
    }
}

/// A net that catches nothing is none: what a reader must not do is noticed.
#[test]
fn a_reader_that_panics_hoards_or_dawdles_is_noticed() {
    std::panic::set_hook(Box::new(|_| {}));
    let panics = |bytes: &[u8]| assert!(!bytes.starts_with(b"x"), "an x");
    let hoards = |bytes: &[u8]| drop(vec![1u8; if bytes.is_empty() { 0 } else { 200 << 20 }]);
    for (read, expected) in [(panics as fn(&[u8]), "it panicked: an x"), (hoards, "it allocated")] {
        let target = Target { name: "bad", read, seeds: || vec![b"x".to_vec()] };
        let failures = campaign::run(&target, 0..1).failures;
        assert!(failures.first().is_some_and(|(_, _, what)| what.starts_with(expected)), "{expected}: {failures:?}");
    }
}

#[test]
fn every_target_has_a_file_for_libfuzzer() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for target in &TARGETS {
        assert!(folder.join("fuzz_targets").join(format!("{}.rs", target.name)).is_file(), "{}", target.name);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
}
