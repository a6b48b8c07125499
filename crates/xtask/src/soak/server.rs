//! A server that has more to do than it can, for a long time, from good and bad clients at once.

use super::clients::{Manner, Scene, Seen, ask, essence};
use super::{bowline, write_corpus};
use crate::say;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Requests that may wait; the engine draws 128 continuations at the same time.
const QUEUE: usize = 16;
/// Clients that behave well, twice as many as there are places; those among them with a bad line; and those that do harm.
const GOOD: usize = 2 * (128 + QUEUE);
const SLOW: usize = 16;
const BAD: u64 = 24;
/// How long the capacity is measured.
const MEASURING: Duration = Duration::from_secs(10);

/// Serves for so many seconds, and checks what came of it.
pub fn run(program: &Path, place: &Path, seconds: u64) -> Result<()> {
    write_corpus(&place.join("corpus"))?;
    let train =
        ["train", "--threads", "1", "--set", "hidden=256", "--epochs", "1", "--data", "corpus", "--out", "model"];
    ensure!(bowline(program, &train).current_dir(place).status()?.success(), "the model cannot be trained");
    let queue = QUEUE.to_string();
    let mut server = bowline(program, &["serve", "model", "--port", "0", "--threads", "1", "--max-queue", &queue]);
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
    let expected = essence(&body)?;
    let capacity = capacity(&address, &expected)?;
    let interval = Duration::from_secs_f64(GOOD as f64 / (2.0 * capacity));
    let (over, seen) = (AtomicBool::new(false), Seen::default());
    let scene = Scene { address: &address, over: &over, seen: &seen, expected: &expected };
    let (mut latencies, memory) = std::thread::scope(|scope| {
        let (scene, over) = (&scene, &over);
        let good: Vec<_> = (0..GOOD - SLOW).map(|_| scope.spawn(move || scene.good(Manner::Each(interval)))).collect();
        (0..SLOW).for_each(|_| drop(scope.spawn(move || scene.good(Manner::Slowly))));
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
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (right, wrong, refused) = (count(&seen.right), count(&seen.wrong), count(&seen.refused));
    let share = 100.0 * refused as f64 / (right + wrong + refused).max(1) as f64;
    let (warm, last) = drift(&memory);
    let drift = 100.0 * (last / warm - 1.0);
    say(&format!(
        "{seconds} s: {:.0} questions/s where {capacity:.0} can be answered; {right} right answers, {wrong} wrong, \
         {refused} refused ({share:.2}%), {} connections closed, {} attacks; p50 {:.1} ms, p99 {:.1} ms; \
         memory {warm:.1} MB after warming up, {last:.1} MB at the end ({drift:+.2}%)",
        count(&seen.asked) as f64 / seconds as f64,
        count(&seen.broken),
        count(&seen.attacks),
        percentile(50),
        percentile(99),
    ))?;
    ensure!(wrong == 0, "{wrong} answers were wrong");
    ensure!(right > 0, "nobody was served");
    // In a short time it is still warming up.
    ensure!(drift.abs() < 1.0 || seconds < 600, "the memory has changed by {drift:.2}%");
    Ok(())
}

/// The answers per second to well-behaved clients who ask as fast as they get them.
fn capacity(address: &str, expected: &str) -> Result<f64> {
    let (over, seen) = (AtomicBool::new(false), Seen::default());
    let scene = Scene { address, over: &over, seen: &seen, expected };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        (0..GOOD / 4).for_each(|_| drop(scope.spawn(|| scene.good(Manner::AtOnce))));
        std::thread::sleep(MEASURING);
        over.store(true, Ordering::Relaxed);
    });
    let right = seen.right.load(Ordering::Relaxed);
    ensure!(
        right > 0 && seen.wrong.load(Ordering::Relaxed) == 0,
        "the server does not answer well even without a load"
    );
    Ok(right as f64 / begin.elapsed().as_secs_f64())
}

/// The memory of a process in megabytes, each half second; now and then it is said.
fn watch(process: u32, seconds: u64) -> Vec<f64> {
    let (begin, mut memory) = (Instant::now(), Vec::new());
    // Counted, not measured: a machine that sleeps does not soak.
    while (memory.len() as u64) < 2 * seconds {
        let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
        memory.push(pages.unwrap_or(f64::NAN) * 4096.0 / 1e6);
        if memory.len().is_multiple_of(600)
            && let Some(now) = memory.last()
        {
            // Who does not listen does not end it.
            let _ = say(&format!("{:>5.0} s: {now:.1} MB", begin.elapsed().as_secs_f64()));
        }
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
