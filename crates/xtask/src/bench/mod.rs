//! `cargo xtask bench`: Bowline and its peers side by side, in one go, on the same words per step and the same threads.
//!
//! A *case* is a network size with a number of words in the vocabulary. A *contender* is Bowline with a model and some
//! settings, or one of the peers that `bench/peers.py` knows. A *round* runs every contender once on every case, a few
//! seconds each: Bowline first in odd rounds, last in even ones, so that a machine whose speed slowly drifts favours
//! nobody. What a contender printed goes to `raw.jsonl` at once; the table is made from that file and nothing else.

pub(crate) mod child;
mod contender;
pub(crate) mod machine;
mod options;
mod readme;
mod table;

use anyhow::{Context, Result, ensure};
pub(crate) use contender::program;
use contender::{Contender, Tools};
use machine::{Machine, Quiet};
use options::{BenchOptions, Case};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A contender that takes longer for one case is given up. The first call of a compiled one needs minutes.
const LIMIT: Duration = Duration::from_secs(20 * 60);

pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|a| a == "--help" || a == "-h") {
        return Ok(std::io::stdout().write_all(options::HELP.as_bytes())?);
    }
    let options = BenchOptions::parse(arguments)?;
    match &options.from {
        _ if options.readme => readme::renew(),
        Some(raw) => render(raw),
        None => measure(&options),
    }
}

fn measure(options: &BenchOptions) -> Result<()> {
    let load = machine::load_average();
    let machine = Machine::describe();
    let tools = Tools::build(options)?;
    let quiet = Quiet { load, busy: machine::busy(Duration::from_secs(2)) };
    if let Some(warning) = quiet.warning() {
        eprintln!("\n*** WARNING: {warning}\n");
    }
    let out = folder(options, &machine)?;
    let raw = out.join("raw.jsonl");
    let write = |file: &str, text: &str| {
        fs::write(out.join(file), text).with_context(|| format!("{}: cannot write", out.join(file).display()))
    };
    write("machine.txt", &machine.text(&quiet, None, &HashMap::new()))?;

    let mut lines = Lines::create(&raw)?;
    lines.add(&json!({ "run": {
        "date": machine.date, "cpu": machine.cpu, "commit": machine.commit, "threads": options.threads,
        "rounds": options.rounds, "load_at_start": quiet.load, "busy_at_start": quiet.busy,
        "warning": quiet.warning(),
    }}))?;
    let mut versions = HashMap::new();
    // Who could not run on a case stays out of it in later rounds.
    let mut skipped: Vec<(Case, Contender)> = Vec::new();
    for round in 1..=options.rounds {
        for case in &options.cases {
            for contender in contender::in_turn(options, round) {
                if skipped.iter().any(|(c, who)| c == case && *who == contender) {
                    continue;
                }
                eprint!("round {round}/{}  {case}  {}  ", options.rounds, contender.name());
                let record = contender.measure(&tools, case, options, round)?;
                match record["tokens_per_second"].as_f64() {
                    Some(speed) => eprintln!("{speed:.0} tokens/s"),
                    None => {
                        eprintln!("skipped: {}", record["skipped"].as_str().unwrap_or_default());
                        skipped.push((case.clone(), contender));
                    }
                }
                for (package, version) in record["versions"].as_object().into_iter().flatten() {
                    versions.insert(package.clone(), version.as_str().unwrap_or_default().to_owned());
                }
                lines.add(&record)?;
            }
        }
    }
    write("machine.txt", &machine.text(&quiet, machine::load_average(), &versions))?;
    render(&raw)
}

/// Makes `table.md` beside a `raw.jsonl`.
fn render(raw: &Path) -> Result<()> {
    let table = table::render(&read_lines(raw)?).with_context(|| raw.display().to_string())?;
    let path = raw.with_file_name("table.md");
    fs::write(&path, table).with_context(|| format!("{}: cannot write", path.display()))?;
    eprintln!("{}", path.display());
    Ok(())
}

/// The lines of a `raw.jsonl`.
fn read_lines(raw: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(raw).with_context(|| format!("{}: cannot read", raw.display()))?;
    text.lines()
        .enumerate()
        .map(|(i, line)| serde_json::from_str(line).with_context(|| format!("{}:{}: is no JSON", raw.display(), i + 1)))
        .collect()
}

/// The folder of this run, made new. A folder with a run in it is never written to.
fn folder(options: &BenchOptions, machine: &Machine) -> Result<PathBuf> {
    let out = match &options.out {
        Some(out) => out.clone(),
        None => {
            let runs = super::root().join("bench/runs");
            let name = format!("{}-{}", machine.date, machine.slug());
            (1..)
                .map(|i| runs.join(if i == 1 { name.clone() } else { format!("{name}-{i}") }))
                .find(|path| !path.exists())
                .unwrap_or(runs)
        }
    };
    let raw = out.join("raw.jsonl");
    ensure!(!raw.exists(), "{}: there is a run already; give --out another folder", raw.display());
    fs::create_dir_all(&out).with_context(|| format!("{}: cannot create", out.display()))?;
    Ok(out)
}

/// A file of JSON lines, of which a run that is stopped loses none.
struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    fn create(path: &Path) -> Result<Lines> {
        let file = File::create_new(path).with_context(|| format!("{}: cannot create", path.display()))?;
        Ok(Lines { file, path: path.to_owned() })
    }

    fn add(&mut self, record: &Value) -> Result<()> {
        self.file
            .write_all(format!("{record}\n").as_bytes())
            .with_context(|| format!("{}: cannot write", self.path.display()))
    }
}
