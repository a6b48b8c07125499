//! What `cargo xtask bench` is asked to do.

use super::contender::{Model, PEERS};
use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::path::PathBuf;

pub const HELP: &str = "\
Runs Bowline and its peers alternately and writes raw.jsonl, table.md and machine.txt.

Usage: cargo xtask bench [OPTIONS]

  --python PATH     a Python with the peers' packages [default: python3]
  --sizes LIST      small, medium, large; with @N for another vocabulary than --vocab
                    (small,medium@33278) [default: small,medium,large]
  --vocab N         words in the vocabulary [default: 10000]
  --threads N       threads for everyone [default: 2]
  --rounds N        how often each contender runs [default: 5]
  --steps N         steps that a call measures [default: by size, some 3 to 6 seconds]
  --models LIST     Bowline's models, with settings or an instruction set after a plus
                    (real,re,real+augment.gradient=flow,real+isa=avx2) [default: real,re]
  --precision P     f32 or bf16: Bowline and the peers of that precision alone; with bf16, real in f32 beside it
  --peers LIST      some of the peers [default: all]
  --skip-peers      Bowline alone
  --out DIR         a folder for this run [default: bench/runs/DATE-CPU]
  --from RAW        measure nothing: make table.md anew beside this raw.jsonl
  --readme          measure nothing: renew the README's table from the newest whole run of each kind of CPU
";

/// The network sizes and their units.
const SIZES: [(&str, usize); 3] = [("small", 200), ("medium", 650), ("large", 1500)];

/// A network size with a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub size: String,
    pub vocab: usize,
}

impl Case {
    fn parse(text: &str, vocab: usize) -> Result<Case> {
        let (size, vocab) = match text.split_once('@') {
            None => (text, vocab),
            Some((size, words)) => (size, positive("--sizes", words)?),
        };
        ensure!(SIZES.iter().any(|(name, _)| *name == size), "--sizes: `{size}` is none of small, medium, large");
        Ok(Case { size: size.to_owned(), vocab })
    }

    /// Steps that take some 3 to 6 seconds on two good cores: fewer where the vocabulary makes each of them longer.
    pub fn default_steps(&self) -> usize {
        let units = SIZES.iter().find(|(name, _)| *name == self.size).map_or(200, |(_, units)| *units) as f64;
        let base = match self.size.as_str() {
            "small" => 30.0,
            "medium" => 10.0,
            _ => 4.0,
        };
        let work = |vocab: f64| 16.0 * units * units + vocab * units;
        (base * work(10_000.0) / work(self.vocab as f64)).round().clamp(3.0, 100.0) as usize
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {}", self.size, self.vocab)
    }
}

/// The command line.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    pub python: PathBuf,
    pub cases: Vec<Case>,
    pub threads: usize,
    pub rounds: usize,
    pub steps: Option<usize>,
    pub models: Vec<Model>,
    pub peers: Vec<&'static str>,
    pub out: Option<PathBuf>,
    pub from: Option<PathBuf>,
    pub readme: bool,
}

impl BenchOptions {
    pub fn parse(arguments: &[String]) -> Result<BenchOptions> {
        let (mut sizes, mut vocab, mut skip_peers) = ("small,medium,large", 10_000, false);
        let mut options = BenchOptions {
            python: "python3".into(),
            cases: Vec::new(),
            threads: 2,
            rounds: 5,
            steps: None,
            models: ["real", "re"].map(Model::plain).to_vec(),
            peers: PEERS.to_vec(),
            out: None,
            from: None,
            readme: false,
        };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            let mut value =
                || rest.next().map(String::as_str).with_context(|| format!("{name}: a value is missing; see --help"));
            match name.as_str() {
                "--python" => options.python = value()?.into(),
                "--sizes" => sizes = value()?,
                "--vocab" => vocab = positive(name, value()?)?,
                "--threads" => options.threads = positive(name, value()?)?,
                "--rounds" => options.rounds = positive(name, value()?)?,
                "--steps" => options.steps = Some(positive(name, value()?)?),
                "--models" => options.models = value()?.split(',').map(Model::parse).collect::<Result<_>>()?,
                "--peers" => options.peers = value()?.split(',').map(peer).collect::<Result<_>>()?,
                "--precision" => match value()? {
                    "f32" => options.peers.retain(|peer| !peer.ends_with("-bf16")),
                    "bf16" => {
                        options.models = vec![Model::parse("real+precision=bf16")?, Model::plain("real")];
                        options.peers.retain(|peer| peer.ends_with("-bf16"));
                    }
                    other => bail!("--precision: `{other}` is none of f32, bf16"),
                },
                "--readme" => options.readme = true,
                "--skip-peers" => skip_peers = true,
                "--out" => options.out = Some(value()?.into()),
                "--from" => options.from = Some(value()?.into()),
                _ => bail!("`{name}` is no option of cargo xtask bench; see --help"),
            }
        }
        ensure!(vocab >= 2, "--vocab: at least 2 words are needed");
        options.cases = sizes.split(',').map(|text| Case::parse(text, vocab)).collect::<Result<_>>()?;
        if skip_peers {
            options.peers.clear();
        }
        Ok(options)
    }
}

fn peer(text: &str) -> Result<&'static str> {
    let known = PEERS.iter().find(|name| **name == text);
    known.copied().with_context(|| format!("--peers: `{text}` is none of {}", PEERS.join(", ")))
}

fn positive(name: &str, text: &str) -> Result<usize> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => bail!("{name}: `{text}` is no whole number above 0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<BenchOptions> {
        BenchOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_size_takes_its_own_vocabulary_wherever_vocab_stands() {
        let options = parse("--sizes small,medium@33278 --vocab 500").unwrap();
        let cases: Vec<String> = options.cases.iter().map(Case::to_string).collect();
        assert_eq!(cases, ["small 500", "medium 33278"]);
        assert_eq!(options.peers, PEERS);
        assert!(parse("--skip-peers --peers jax-vd").unwrap().peers.is_empty());
    }

    #[test]
    fn a_precision_has_its_own_peers() {
        let bf16 = parse("--precision bf16").unwrap();
        assert!(bf16.peers.len() == 4 && bf16.peers.iter().all(|peer| peer.ends_with("-bf16")));
        assert_eq!(bf16.models[0], Model::parse("real+precision=bf16").unwrap());
        assert_eq!(parse("--precision f32").unwrap().peers.len(), PEERS.len() - 4);
    }

    #[test]
    fn a_larger_vocabulary_gets_fewer_steps() {
        let steps = |size: &str, vocab| Case { size: size.to_owned(), vocab }.default_steps();
        assert_eq!((steps("small", 10_000), steps("medium", 10_000), steps("large", 10_000)), (30, 10, 4));
        assert_eq!((steps("small", 33_278), steps("medium", 33_278)), (11, 5));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, said) in [
            ("--sizes tiny", "--sizes: `tiny` is none of small, medium, large"),
            ("--sizes small@x", "--sizes: `x` is no whole number above 0"),
            ("--precision f64", "--precision: `f64` is none of f32, bf16"),
            ("--rounds 0", "--rounds: `0` is no whole number above 0"),
            ("--vocab 1", "--vocab: at least 2 words are needed"),
            ("--threads", "--threads: a value is missing; see --help"),
            ("--round 3", "`--round` is no option of cargo xtask bench; see --help"),
            ("--models real+tau", "--models: `tau` in `real+tau` is no KEY=VALUE"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), said);
        }
        assert!(parse("--peers torch").unwrap_err().to_string().contains("`torch` is none of jax-vd, torch-vd"));
    }
}
