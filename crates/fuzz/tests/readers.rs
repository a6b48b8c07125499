//! Every reader on its seeds and on some mutations; `cargo xtask fuzz --cases N` throws more.

use bowline_fuzz::{TARGETS, Target, campaign};

/// Mutations for each format: `BOWLINE_FUZZ_CASES`, or what takes a moment.
fn cases() -> u64 {
    std::env::var("BOWLINE_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}

/// One test, since the memory that is counted is that of the whole process.
#[test]
fn whatever_the_bytes_are_every_reader_returns() {
    // What panics is caught and told below.
    std::panic::set_hook(Box::new(|_| {}));
    let noticed = net_catches();
    let all: Vec<_> = TARGETS.iter().map(|target| (target.name, campaign::run(target, 0..cases()))).collect();
    drop(std::panic::take_hook());
    assert!(noticed.is_ok(), "{noticed:?}");
    for (name, outcome) in all {
        let show = |input: &[u8]| input.escape_ascii().to_string();
        let failures: Vec<_> = outcome.failures.iter().map(|(n, input, what)| (n, what, show(input))).collect();
        assert!(failures.is_empty(), "{name}: {failures:#?}");
        assert!(outcome.inputs > cases(), "{name}: {} inputs", outcome.inputs);
    }
}

/// A net that catches nothing is none: what a reader must not do is noticed.
fn net_catches() -> Result<(), String> {
    let panics = |bytes: &[u8]| assert!(!bytes.starts_with(b"x"), "an x");
    let hoards = |bytes: &[u8]| drop(vec![1u8; if bytes.is_empty() { 0 } else { 200 << 20 }]);
    for (read, expected) in [(panics as fn(&[u8]), "it panicked: an x"), (hoards, "it allocated")] {
        let target = Target { name: "bad", read, seeds: || vec![b"x".to_vec()] };
        let failures = campaign::run(&target, 0..1).failures;
        if !failures.first().is_some_and(|(_, _, what)| what.starts_with(expected)) {
            return Err(format!("{expected}: {failures:?}"));
        }
    }
    Ok(())
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
