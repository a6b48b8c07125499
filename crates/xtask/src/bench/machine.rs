//! The machine: what it is, and whether it is quiet enough to measure on.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Instruction sets that decide who is fast.
const FLAGS: [&str; 6] = ["avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd"];

/// What is on the machine.
pub struct Machine {
    pub date: String,
    pub cpu: String,
    pub commit: String,
    cores: usize,
    memory: String,
    caches: String,
    os: String,
    rustc: String,
}

impl Machine {
    pub fn describe() -> Machine {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Machine {
            date: date(seconds / 86_400),
            cpu: bowline_kernels::model_name(),
            commit: commit(),
            cores: thread::available_parallelism().map_or(1, |n| n.get()),
            memory: field("/proc/meminfo", "MemTotal").unwrap_or_else(unknown),
            caches: caches(),
            os: os(),
            rustc: said("rustc", &["--version"]).unwrap_or_else(unknown),
        }
    }

    /// The CPU's name as part of a folder's name.
    pub fn slug(&self) -> String {
        let mut slug = String::new();
        for c in self.cpu.to_lowercase().chars() {
            if c.is_ascii_alphanumeric() {
                slug.push(c);
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
        }
        slug.trim_end_matches('-').to_owned()
    }

    /// The text of `machine.txt`. `end` is the load average at the end of the run.
    pub fn text(&self, quiet: &Quiet, end: Option<f64>, versions: &HashMap<String, String>) -> String {
        let mut versions: Vec<String> =
            versions.iter().map(|(package, version)| format!("{package} {version}")).collect();
        versions.sort();
        let load = |load: Option<f64>| load.map_or_else(unknown, |load| format!("{load:.2}"));
        let rows = [
            ("date", self.date.clone()),
            ("commit", self.commit.clone()),
            ("CPU", self.cpu.clone()),
            ("cores", self.cores.to_string()),
            ("flags", flags()),
            ("caches", self.caches.clone()),
            ("memory", self.memory.clone()),
            ("OS", self.os.clone()),
            ("rustc", self.rustc.clone()),
            ("peers", if versions.is_empty() { "none measured".to_owned() } else { versions.join(", ") }),
            ("load at start", load(quiet.load)),
            ("busy at start", quiet.busy.map_or_else(unknown, |busy| format!("{:.1}% of all cores", 100.0 * busy))),
            ("load at end", load(end)),
        ];
        let mut text = String::new();
        for (name, value) in rows {
            let _ = writeln!(text, "{name:<14} {value}");
        }
        if let Some(warning) = quiet.warning() {
            let _ = write!(text, "\nWARNING: {warning}\n");
        }
        text
    }
}

/// What else the machine had to do before the first measurement.
pub struct Quiet {
    /// Processes that wanted to run, on average over the last minute.
    pub load: Option<f64>,
    /// The share of the time of all cores that was used over the last two seconds.
    pub busy: Option<f64>,
}

impl Quiet {
    /// Why the numbers are not to be trusted. Where the system tells nothing, nothing is said.
    pub fn warning(&self) -> Option<String> {
        let load =
            self.load.filter(|&load| load > 0.5).map(|load| format!("the load average at the start was {load:.2}"));
        let busy = self.busy.filter(|&busy| busy > 0.05);
        let busy = busy.map(|busy| format!("{:.0}% of the cores' time was used by others", 100.0 * busy));
        let why: Vec<String> = load.into_iter().chain(busy).collect();
        let end = "These numbers say nothing: measure again when nothing else runs (a build just before counts, too).";
        (!why.is_empty()).then(|| format!("the machine was not quiet: {}. {end}", why.join(", and ")))
    }
}

/// The load average of the last minute.
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// The share of the time of all cores that is in use, watched for a while.
pub fn busy(time: Duration) -> Option<f64> {
    let before = ticks()?;
    thread::sleep(time);
    let after = ticks()?;
    let (idle, all) = (after.0.checked_sub(before.0)?, after.1.checked_sub(before.1)?);
    (all > 0).then(|| 1.0 - idle as f64 / all as f64)
}

/// Idle and all ticks of all cores since the start of the system.
fn ticks() -> Option<(u64, u64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    // user nice system idle iowait irq softirq steal; the guests' ticks after these are in the first two already.
    let ticks: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).take(8).filter_map(|t| t.parse().ok()).collect();
    Some((ticks.get(3)? + ticks.get(4)?, ticks.iter().sum()))
}

/// Whether products of bf16 numbers have instructions of their own here.
pub fn has_bf16() -> bool {
    cpu_flags().iter().any(|flag| ["avx512_bf16", "amx_bf16", "bf16"].contains(&flag.as_str()))
}

fn flags() -> String {
    let known = cpu_flags();
    let listed = FLAGS.map(|flag| format!("{flag} {}", if known.iter().any(|f| f == flag) { "yes" } else { "no" }));
    listed.join(", ")
}

fn cpu_flags() -> Vec<String> {
    let flags = field("/proc/cpuinfo", "flags").or_else(|| field("/proc/cpuinfo", "Features"));
    flags.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn caches() -> String {
    let caches = (0..8).filter_map(|i| {
        let read = |file: &str| fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{file}")).ok();
        let kind = match read("type")?.trim() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some(format!("L{}{kind} {}", read("level")?.trim(), read("size")?.trim()))
    });
    let caches = caches.collect::<Vec<_>>().join(", ");
    if caches.is_empty() { unknown() } else { caches }
}

fn os() -> String {
    let name = fs::read_to_string("/etc/os-release").ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=").map(|name| name.trim_matches('"').to_owned()))
    });
    format!("{}, {}", name.unwrap_or_else(unknown), std::env::consts::OS)
}

fn commit() -> String {
    let root = crate::root().to_string_lossy().into_owned();
    let Some(commit) = said("git", &["-C", &root, "rev-parse", "HEAD"]) else { return unknown() };
    let changed = said("git", &["-C", &root, "status", "--porcelain", "--untracked-files=no"]);
    if changed.is_some_and(|files| !files.is_empty()) { commit + ", with changes" } else { commit }
}

/// What a program prints, if it succeeds.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The value of the first `name: value` in a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The date of a day, counted from 1 January 1970, as `2025-12-31`.
fn date(mut days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (day, wanted) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_322, "2000-12-31"),
            (11_323, "2001-01-01"),
            (20_407, "2025-11-15"),
        ] {
            assert_eq!(date(day), wanted);
        }
    }

    #[test]
    fn a_machine_with_other_work_is_warned_of() {
        let warning = |load, busy| Quiet { load, busy }.warning();
        assert_eq!(warning(Some(0.5), Some(0.05)), None);
        assert_eq!(warning(None, None), None);
        assert!(warning(Some(0.51), Some(0.0)).unwrap().contains("the load average at the start was 0.51. "));
        assert!(warning(Some(0.0), Some(0.5)).unwrap().contains("50% of the cores' time was used by others. "));
        assert!(warning(Some(3.0), Some(1.0)).unwrap().contains("3.00, and 100%"));
    }

    #[test]
    fn a_cpu_names_a_folder() {
        let machine = Machine { cpu: "Intel(R) Xeon(R) CPU @ 2.60GHz".to_owned(), ..Machine::describe() };
        assert_eq!(machine.slug(), "intel-r-xeon-r-cpu-2-60ghz");
        let text = machine.text(&Quiet { load: Some(2.0), busy: None }, None, &HashMap::new());
        assert!(
            text.contains("load at start  2.00\n") && text.contains("\nWARNING: the machine was not quiet"),
            "{text}"
        );
    }
}
