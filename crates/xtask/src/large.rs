//! `cargo xtask large`: a made text of any size, and a training on it with the memory that it took.
//!
//! The text is for measuring alone. Its words follow Zipf's law: the word of rank `k` of `V` has a probability of about
//! `1 / (k ln V)`. Every second word is one of four that often follow the one before, so that there is something to learn.
//! Everything follows from the seed.

use anyhow::{Context, Result, bail, ensure};
use bowline::rng::{Purpose, Stream};
use bowline::storage::{atomic, files};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const USAGE: &str = "usage: cargo xtask large make DIR [WORDS [VOCABULARY]] | run PROGRAM ARGUMENTS...";
const SEED: u64 = 1;
/// Words that often follow a word.
const FOLLOWERS: u32 = 4;
/// One word in so many is the last of its line.
const LINE: u32 = 20;
/// Words of the validation and of the test text.
const HELD_OUT: u64 = 20_000;

pub fn run(arguments: &[String]) -> Result<()> {
    let number = |text: &String| text.replace('_', "").parse::<u64>().with_context(|| format!("`{text}`; {USAGE}"));
    match arguments {
        [what, dir, sizes @ ..] if what == "make" && sizes.len() <= 2 => {
            let words = sizes.first().map_or(Ok(100_000_000), number)?;
            let vocabulary = sizes.get(1).map_or(Ok(200_000), number)?;
            ensure!((3..=10_000_000).contains(&vocabulary), "a vocabulary of 3 to 10000000 words; {USAGE}");
            make(Path::new(dir), words, vocabulary as u32)
        }
        [what, program, arguments @ ..] if what == "run" => watch(program, arguments),
        _ => bail!(USAGE),
    }
}

/// Writes `train.txt`, `valid.txt` and `test.txt`.
fn make(dir: &Path, words: u64, vocabulary: u32) -> Result<()> {
    files::create_dir_all(dir)?;
    // With `<eos>` they are `vocabulary` words.
    let spellings: Vec<String> = (0..vocabulary - 1).map(spelling).collect();
    for (part, (name, words)) in [("train", words), ("valid", HELD_OUT), ("test", HELD_OUT)].into_iter().enumerate() {
        let path = dir.join(format!("{name}.txt"));
        atomic::write(&path, |out| text(part as u64, words, &spellings, out))?;
        crate::say(&format!("{}: {words} words, ends of lines among them", path.display()))?;
    }
    Ok(())
}

/// A text of `words` words, ends of lines among them.
fn text(part: u64, words: u64, spellings: &[String], out: &mut dyn Write) -> io::Result<()> {
    let v = spellings.len() as u32;
    let (mut before, mut in_line) = (0, 0u64);
    for at in 0..words {
        // A block has an index of 32 bits.
        let [kind, choice, rank, end] = Stream::new(SEED, Purpose::Words, (part << 32) | (at >> 32)).block(at as u32);
        if in_line > 0 && (end % LINE == 0 || at + 1 == words) {
            out.write_all(b"\n")?;
            (before, in_line) = (0, 0);
            continue;
        }
        let word = match kind % 2 {
            0 => zipf(follower(before, choice % FOLLOWERS), v),
            _ => zipf(rank, v),
        };
        if in_line > 0 {
            out.write_all(b" ")?;
        }
        out.write_all(spellings[word as usize].as_bytes())?;
        (before, in_line) = (word + 1, in_line + 1);
    }
    Ok(())
}

/// A random number that is always the same for a word and one of its followers.
fn follower(before: u32, which: u32) -> u32 {
    Stream::new(SEED, Purpose::Piece, u64::from(before)).block(which)[0]
}

/// The rank, from 0, of a word among `v`: uniform in the logarithm, which is Zipf's law.
fn zipf(random: u32, v: u32) -> u32 {
    let u = (f64::from(random) + 0.5) / 2f64.powi(32);
    ((f64::from(v) + 1.0).powf(u) as u32).clamp(1, v) - 1
}

/// The word of a rank: short ones are frequent.
fn spelling(rank: u32) -> String {
    let (mut letters, mut rest) = (Vec::new(), rank + 1);
    while rest > 0 {
        letters.push(b'a' + ((rest - 1) % 26) as u8);
        rest = (rest - 1) / 26;
    }
    letters.iter().rev().map(|&letter| char::from(letter)).collect()
}

/// Runs a program to its end, and says how much memory it had at most.
fn watch(program: &str, arguments: &[String]) -> Result<()> {
    let mut child = Command::new(program).args(arguments).spawn().with_context(|| format!("cannot run {program}"))?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let code = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let highest = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak = highest.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0).max(peak);
        if let Some(code) = child.try_wait()? {
            break code;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    crate::say(&format!("memory at most: {:.2} GB (VmHWM)", peak as f64 * 1024.0 / 1e9))?;
    ensure!(code.success(), "{program} failed: {code}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_text_has_its_words_and_repeats_itself() {
        let spellings: Vec<String> = (0..99).map(spelling).collect();
        assert_eq!([0, 25, 26, 27].map(spelling), ["a", "z", "aa", "ab"]);
        let made = |part: u64| {
            let mut out = Vec::new();
            text(part, 20_000, &spellings, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let train = made(0);
        assert_eq!(train, made(0));
        assert_ne!(train, made(1));
        let words: Vec<&str> = train.split_whitespace().collect();
        assert_eq!(words.len() + train.lines().count(), 20_000);
        let mut counts: HashMap<&str, u32> = HashMap::new();
        words.iter().for_each(|word| *counts.entry(word).or_default() += 1);
        assert_eq!(counts.len(), 99);
        // The followers of a word are few: after `a` its likeliest ones are half of all.
        let mut after: HashMap<&str, u32> = HashMap::new();
        words.windows(2).filter(|pair| pair[0] == "a").for_each(|pair| *after.entry(pair[1]).or_default() += 1);
        let mut best: Vec<u32> = after.values().copied().collect();
        best.sort_unstable_by(|a, b| b.cmp(a));
        assert!(best.iter().take(8).sum::<u32>() > best.iter().sum::<u32>() / 2);
    }
}
