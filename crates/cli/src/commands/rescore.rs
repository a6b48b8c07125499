//! `bowline rescore`: rescore n-best lists with a better language model.

use super::predictor::{PredictorOptions, Setup};
use crate::options::Threads;
use crate::read_ahead::open;
use crate::screen::stdout;
use crate::terminal::{grouped, note};
use anyhow::bail;
use bowline::score::Memory;
use bowline::score::rescore::{Costs, Knowledge, List, Utterance, archive};
use bowline::storage::atomic;
use clap::Args;
use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Hypotheses that are worked on together, unless one utterance has more.
const CHUNK: usize = 1024;
/// The share of our model where there are old scores, as in Kaldi's scripts.
const USUAL_WEIGHT: f64 = 0.8;

#[derive(Args)]
pub struct RescoreOptions {
    /// A model's folder, or a run's
    pub model: PathBuf,
    /// An n-best list with lines `utt-k word word ...` (- is standard input), or a folder with Kaldi's text archives
    /// words_text and, if they are there, lmwt.nolm, lmwt.lmonly or lmwt.withlm, and acwt
    #[arg(value_name = "NBEST")]
    pub nbest: PathBuf,
    /// Costs of the old language model to interpolate with, lines `utt-k cost` (lower is better)
    #[arg(long, value_name = "FILE")]
    pub scores: Option<PathBuf>,
    /// Costs of the decoding graph without a language model, lines `utt-k cost`
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    /// Acoustic costs, lines `utt-k cost`
    #[arg(long, value_name = "FILE")]
    pub acoustic: Option<PathBuf>,
    /// Weight of this model against the old language model [default: 0.8, or 1 without old
    /// scores]
    #[arg(long, value_name = "W", value_parser = share)]
    pub lm_weight: Option<f64>,
    /// Factor on the acoustic costs
    #[arg(long, value_name = "A", default_value_t = 0.1, value_parser = scale)]
    pub acoustic_scale: f64,
    /// Added to the cost of each unknown word [default: the logarithm of the
    /// vocabulary's size]
    #[arg(long, value_name = "X", value_parser = scale)]
    pub unk_penalty: Option<f64>,
    /// Read each utterance after the best hypothesis of the one before it
    #[arg(long)]
    pub carry: bool,
    /// Write the new graph and language model costs of all hypotheses, lines `utt-k cost`
    #[arg(long, value_name = "FILE")]
    pub scores_out: Option<PathBuf>,
    /// Mix in another model; may be given several times
    #[arg(long = "with", value_name = "MODEL")]
    pub others: Vec<PathBuf>,
    #[command(flatten)]
    pub predictor: PredictorOptions,
    #[command(flatten)]
    pub threads: Threads,
    /// Print one JSON object per utterance, with all its hypotheses
    #[arg(long)]
    pub json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|w| (0.0..=1.0).contains(w)).ok_or_else(|| "a number from 0 to 1 is needed".to_owned())
}

fn scale(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|a| *a >= 0.0 && a.is_finite());
    number.ok_or_else(|| "a number of at least 0 is needed".to_owned())
}

pub fn run(options: &RescoreOptions) -> anyhow::Result<ExitCode> {
    let (words, mut knowledge) = inputs(options)?;
    let mut list = List::new(open(&words)?);
    let setup = Setup::known(&options.model, &options.others, &options.predictor, options.threads.get(), None)?;
    let mut reader = setup.reader(None)?;
    knowledge.unk_penalty = options.unk_penalty.unwrap_or((reader.model().vocabulary.len() as f64).ln());
    let mut answers = Answers { options, costs: String::new(), utterances: 0, hypotheses: 0, moved: 0 };
    let mut memory = Memory::default();
    loop {
        let (mut chunk, mut count, mut over) = (Vec::new(), 0, false);
        while count < CHUNK && !over {
            let hypotheses = list.next_utterance(&reader)?;
            (count, over) = (count + hypotheses.len(), hypotheses.is_empty());
            chunk.push(hypotheses);
        }
        if over {
            chunk.pop();
        }
        if options.carry {
            for hypotheses in chunk {
                answers.print(&[reader.rescore_on(&mut memory, hypotheses, &knowledge)?])?;
            }
        } else {
            answers.print(&reader.rescore(chunk, &knowledge)?)?;
        }
        if over {
            break;
        }
    }
    if let Some(path) = &options.scores_out {
        atomic::write(path, |out| out.write_all(answers.costs.as_bytes()))?;
    }
    note(format_args!(
        "{} utterance{}, {} hypotheses; the best changed for {}",
        grouped(answers.utterances),
        if answers.utterances == 1 { "" } else { "s" },
        grouped(answers.hypotheses),
        grouped(answers.moved)
    ));
    Ok(ExitCode::SUCCESS)
}

/// What has been printed so far.
struct Answers<'a> {
    options: &'a RescoreOptions,
    /// What goes into `--scores-out`.
    costs: String,
    utterances: usize,
    hypotheses: usize,
    moved: usize,
}

impl Answers<'_> {
    fn print(&mut self, utterances: &[Utterance]) -> anyhow::Result<()> {
        let mut out = BufWriter::new(stdout());
        for utterance in utterances {
            self.utterances += 1;
            self.hypotheses += utterance.hypotheses.len();
            self.moved += usize::from(utterance.best > 0);
            if self.options.scores_out.is_some() {
                for hypothesis in &utterance.hypotheses {
                    // Writing to a string cannot fail.
                    let _ = writeln!(self.costs, "{} {}", hypothesis.key, hypothesis.language);
                }
            }
            if self.options.json {
                writeln!(out, "{}", serde_json::to_string(utterance)?)?;
                continue;
            }
            write!(out, "{}", utterance.utterance)?;
            for word in &utterance.hypotheses[utterance.best].words {
                write!(out, " {word}")?;
            }
            writeln!(out)?;
        }
        out.flush()?;
        Ok(())
    }
}

/// The file with the words, and all that is known about the hypotheses besides.
fn inputs(options: &RescoreOptions) -> anyhow::Result<(PathBuf, Knowledge)> {
    let read = |path: &Path| Costs::read(&mut open(path)?);
    let optional = |path: Option<PathBuf>| path.map(|path| read(&path)).transpose();
    let folder = options.nbest.is_dir().then_some(options.nbest.as_path());
    let part = |given: &Option<PathBuf>, name: &str| given.clone().or_else(|| archive(folder?, name));
    let words = match folder {
        None => options.nbest.clone(),
        Some(folder) => match archive(folder, "words_text") {
            Some(words) => words,
            None => {
                let what = if folder.join("words").is_file() {
                    "words_text is missing, and words has numbers\n  try: utils/int2sym.pl -f 2- words.txt < words > words_text"
                } else {
                    "there is no file words_text\n  try: give the folder of an n-best list in Kaldi's separate-archive form"
                };
                bail!("{}: {what}", folder.display());
            }
        },
    };
    let graph = optional(part(&options.graph, "lmwt.nolm"))?;
    let mut old = optional(part(&options.scores, "lmwt.lmonly"))?;
    if let (None, Some(graph), Some(path)) = (&old, &graph, folder.and_then(|f| archive(f, "lmwt.withlm"))) {
        old = Some(read(&path)?.less(graph)?);
    }
    let weight = match (options.lm_weight, &old) {
        (None, None) => 1.0,
        (weight, Some(_)) => weight.unwrap_or(USUAL_WEIGHT),
        (Some(_), None) => {
            bail!("--lm-weight: there are no old scores to interpolate with\n  try: give them with --scores FILE")
        }
    };
    let acoustic = optional(part(&options.acoustic, "acwt"))?;
    Ok((words, Knowledge { graph, old, acoustic, weight, acoustic_scale: options.acoustic_scale, unk_penalty: 0.0 }))
}
