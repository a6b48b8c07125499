//! A server that has more to do than it can, for a long time, from good and bad clients at once.

use super::clients::{Scene, Seen, ask, essence};
use super::{bowline, write_corpus};
use crate::say;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Clients that ask one question after the other, twice as many as may wait; and those that do harm.
const GOOD: usize = 32;
const BAD: u64 = 24;

/// Serves for so many seconds, and checks what came of it.
pub fn run(program: &Path, place: &Path, seconds: u64) -> Result<()> {
    write_corpus(&place.join("corpus"))?;
    let train =
        ["train", "--threads", "1", "--set", "hidden=64", "--epochs", "1", "--data", "corpus", "--out", "model"];
    ensure!(bowline(program, &train).current_dir(place).status()?.success(), "the model cannot be trained");
    let mut server = bowline(program, &["serve", "model", "--port", "0", "--max-queue", "16"]);
    let mut server = server.current_dir(place).stdout(Stdio::piped()).spawn()?;
    let outcome = soak(&mut server, seconds);
    let _ = server.kill();
    server.wait()?;
    outcome
}

fn soak(server: &mut Child, seconds: u64) -> Result<()> {
    let mut lines = BufReader::new(server.stdout.take().context("no output")?).lines();
    let address = loop {
        let line = lines.next().context("the server said nothing")??;
        if let Some(at) = line.find("http://") {
            let rest = &line[at + "http://".len()..];
            break rest.split(['/', ' ']).next().unwrap_or_default().to_owned();
        }
    };
    let (status, body) = ask(&address)?;
    ensure!(status == 200, "the first question got {status}");
    let (expected, over, seen) = (essence(&body)?, AtomicBool::new(false), Seen::default());
    let scene = Scene { address: &address, over: &over, seen: &seen };
    let (mut latencies, memory) = std::thread::scope(|scope| {
        let good: Vec<_> = (0..GOOD).map(|_| scope.spawn(|| scene.good(&expected))).collect();
        let (scene, over) = (&scene, &over);
        (0..BAD).for_each(|seed| drop(scope.spawn(move || scene.bad(seed))));
        let memory = watch(server.id(), seconds);
        over.store(true, Ordering::Relaxed);
        let latencies: Vec<f64> = good.into_iter().flat_map(|client| client.join().unwrap_or_default()).collect();
        (latencies, memory)
    });
    ensure!(server.try_wait()?.is_none(), "the server has ended");
    ensure!(ask(&address)?.0 == 200, "the last question was not answered");
    latencies.sort_by(f64::total_cmp);
    let percentile = |p: usize| latencies.get(latencies.len().saturating_sub(1) * p / 100).copied().unwrap_or(f64::NAN);
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (right, wrong, refused) = (count(&seen.right), count(&seen.wrong), count(&seen.refused));
    let share = 100.0 * refused as f64 / (right + wrong + refused).max(1) as f64;
    let (warm, last) = drift(&memory);
    say(&format!(
        "{seconds} s: {right} right answers, {wrong} wrong, {refused} refused ({share:.2}%), {} connections closed, {} attacks; \
         p50 {:.1} ms, p99 {:.1} ms; memory {warm:.1} MB after warming up, {last:.1} MB at the end ({:+.2}%)",
        count(&seen.broken),
        count(&seen.attacks),
        percentile(50),
        percentile(99),
        100.0 * (last / warm - 1.0)
    ))?;
    ensure!(wrong == 0, "{wrong} answers were wrong");
    ensure!(right > 0, "nobody was served");
    Ok(())
}

/// The memory of a process in megabytes, each half second.
fn watch(process: u32, seconds: u64) -> Vec<f64> {
    let (begin, mut memory) = (Instant::now(), Vec::new());
    while begin.elapsed() < Duration::from_secs(seconds) {
        let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
        memory.push(pages.unwrap_or(f64::NAN) * 4096.0 / 1e6);
        std::thread::sleep(Duration::from_millis(500));
    }
    memory
}

/// The median memory of the second quarter and of the last one.
fn drift(memory: &[f64]) -> (f64, f64) {
    let median = |part: &[f64]| {
        let mut part = part.to_vec();
        part.sort_by(f64::total_cmp);
        part.get(part.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let quarter = memory.len() / 4;
    (median(&memory[quarter..2 * quarter]), median(&memory[3 * quarter..]))
}
