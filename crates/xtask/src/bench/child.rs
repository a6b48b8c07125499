//! Runs a program to its end, with an eye on its memory.

use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A program that ended.
pub struct Ended {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
    /// The most memory it ever had in use, in bytes, where the system tells (Linux).
    pub peak_memory: Option<u64>,
}

impl Ended {
    /// The last line of what it said, which is where programs say why they failed.
    pub fn last_words(&self) -> String {
        let line = self.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.unwrap_or("it failed and did not say why").chars().take(300).collect()
    }
}

/// Runs `command`; what needs longer than `limit` is stopped.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{name}: cannot start"))?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let start = Instant::now();
    // The kernel keeps the highest value itself, so that looking now and then misses only what the last moment adds.
    let mut peak_memory = None;
    let status = loop {
        peak_memory = peak_memory.max(high_water(child.id()));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("stopped after {} minutes", limit.as_secs() / 60);
        }
        thread::sleep(Duration::from_millis(20));
    };
    Ok(Ended { success: status.success(), stdout: text(stdout), stderr: text(stderr), peak_memory })
}

/// Reads beside the child, which would wait for ever before a full pipe.
fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is still worth reading.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn text(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

/// `VmHWM` of a process: the most physical memory it has had in use.
fn high_water(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Ended> {
        run(Command::new("sh").args(["-c", script]), limit)
    }

    #[test]
    fn both_outputs_and_the_status_come_back() {
        let long = Duration::from_secs(60);
        let ended = shell("echo out; echo first >&2; echo why >&2; exit 3", long).unwrap();
        assert_eq!((ended.success, ended.stdout.as_str(), ended.last_words().as_str()), (false, "out\n", "why"));
        // More than a pipe holds.
        let ended = shell("i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done", long).unwrap();
        assert_eq!((ended.success, ended.stdout.len()), (true, 220_000));
        let none = run(&mut Command::new("no-such-program-anywhere"), long).err().unwrap();
        assert!(format!("{none:#}").starts_with("no-such-program-anywhere: cannot start"));
    }

    #[test]
    fn what_takes_too_long_is_stopped() {
        let start = Instant::now();
        // `exec`: no other process keeps the pipes open.
        assert!(shell("exec sleep 60", Duration::from_millis(50)).is_err());
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_stays_when_the_memory_is_given_back() {
        // 40 MB in a variable, given back before the end.
        let script = "x=$(head -c 40000000 /dev/zero | tr '\\0' a); sleep 0.3; x=; sleep 0.3";
        let peak = shell(script, Duration::from_secs(60)).unwrap().peak_memory.unwrap();
        assert!((40_000_000..400_000_000).contains(&peak), "{peak}");
    }
}
