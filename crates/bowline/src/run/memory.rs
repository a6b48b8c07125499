//! How much memory this process may still take, so that what cannot fit is refused before it begins.

use crate::error::{Error, Result};

/// Bytes that can still be had: what the system has free, within the limits on this process and on its container.
/// `None` where the system does not tell.
pub(super) fn available() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let system = read("/proc/meminfo").and_then(|text| after(&text, "MemAvailable:")).map(|kib| kib * 1024);
    let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
    let container = number("/sys/fs/cgroup/memory.max")
        .map(|most| most.saturating_sub(number("/sys/fs/cgroup/memory.current").unwrap_or(0)));
    let address_space = read("/proc/self/limits").and_then(|text| after(&text, "Max address space"));
    [system, container, address_space].into_iter().flatten().min()
}

/// The number after a label at the beginning of a line.
fn after(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(label))?.split_whitespace().next()?.parse().ok()
}

/// An error if `needed` bytes are more than can be had.
pub(super) fn require(needed: u64, available: Option<u64>) -> Result<()> {
    let Some(available) = available.filter(|&available| needed > available) else { return Ok(()) };
    let problem = format!("this needs about {}, and {} are free", gigabytes(needed), gigabytes(available));
    let advice = "a smaller `hidden`, `layers`, `batch`, `unroll` or `data.vocab_size`, or a machine with more memory";
    Err(Error::config("hidden", problem, advice))
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB of memory", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        assert!(require(5_000, Some(5_000)).is_ok());
        assert!(require(u64::MAX, None).is_ok());
        let message = require(300_000_000_000, Some(8_000_000_000)).unwrap_err().to_string();
        assert!(message.contains("about 300.0 GB of memory, and 8.0 GB of memory are free"), "{message}");
    }

    #[test]
    fn labels_are_found_and_words_are_no_numbers() {
        let text = "MemTotal:  10 kB\nMemAvailable:   7 kB\nMax address space   unlimited  unlimited  bytes\n";
        assert_eq!(after(text, "MemAvailable:"), Some(7));
        assert_eq!(after(text, "Max address space"), None);
        assert_eq!(after(text, "Missing"), None);
    }
}
