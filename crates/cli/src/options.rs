//! The command line: names, values, help.

use crate::commands::arpa::ArpaOptions;
use crate::commands::reproduce::ReproduceOptions;
use crate::commands::subspace::SubspaceOptions;
use crate::terminal::note;
use bowline::config::{ModelKind, Precision, Size};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::sync::Once;

/// Trains, evaluates and uses word-level language models on ordinary CPUs.
///
/// It reproduces "Tying Word Vectors and Word Classifiers" (Inan, Khosravi, Socher 2017). Start with `bowline demo`.
#[derive(Parser)]
#[command(name = "bowline", version, max_term_width = 100)]
pub struct Options {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
    /// The instruction set to compute with; `bench` takes `all`. Other bits, other speed; `auto` takes the widest the CPU has
    #[arg(long, global = true, value_name = "SET", default_value = "auto", help_heading = "Machine")]
    #[arg(value_parser = ["auto", "portable", "avx2", "avx512", "all"])]
    pub isa: String,
}

#[derive(Subcommand)]
pub enum Command {
    /// Train the four models on the built-in corpus and compare them (a few minutes)
    Demo(DemoOptions),
    /// Train a model
    Train(TrainOptions),
    /// The models that `--model` takes, with their size, published perplexity and cost
    Recipes(crate::commands::recipes::RecipesOptions),
    /// Go on with a run that was stopped, or look at one that is over
    Resume(ResumeOptions),
    /// Go on from where a run is in a new one, with other settings
    Branch(BranchOptions),
    /// The perplexity of a model on a corpus
    Eval(crate::commands::eval::EvalOptions),
    /// The most likely next words after a phrase
    Next(crate::commands::next::NextOptions),
    /// The distance between a model's word vectors and its classifier (appendix B of the paper)
    Subspace(SubspaceOptions),
    /// The paper's tables and figures, cell by cell, beside the paper's numbers
    Reproduce(ReproduceOptions),
    /// A page with the curves and results of runs, beside the paper's
    Report(crate::commands::report::ReportOptions),
    /// How likely sentences are, word by word
    Score(crate::commands::score::ScoreOptions),
    /// Search n-best lists anew with a model
    Rescore(crate::commands::rescore::RescoreOptions),
    /// Let a text go on by itself
    Generate(crate::commands::generate::GenerateOptions),
    /// The words whose vectors are nearest to a word's
    Neighbours(crate::commands::neighbours::NeighboursOptions),
    /// The likeliest next words of two models side by side
    Compare(crate::commands::compare::CompareOptions),
    /// Answer over HTTP, with a page to play with
    Serve(crate::commands::serve::ServeOptions),
    /// Get or check the public corpora
    Data(DataOptions),
    /// Write an n-gram model as an ARPA file, or read one
    Arpa(ArpaOptions),
    /// How fast training is on this machine
    Bench(BenchOptions),
    /// Write a model as a file for other tools
    Export(crate::commands::export::ExportOptions),
    /// Make a model's folder of what PyTorch saved
    Import(crate::commands::import::ImportOptions),
    /// Write the curves of runs for TensorBoard
    #[command(name = "tensorboard")]
    TensorBoard(crate::commands::tensorboard::TensorBoardOptions),
    /// Print the completions of a shell
    Completions(crate::commands::completions::CompletionsOptions),
    /// Print the manual page, or write those of all commands
    Man(crate::commands::man::ManOptions),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SizeName {
    /// 200 units
    Small,
    /// 650 units
    Medium,
    /// 1500 units
    Large,
}

impl From<SizeName> for Size {
    fn from(name: SizeName) -> Size {
        match name {
            SizeName::Small => Size::Small,
            SizeName::Medium => Size::Medium,
            SizeName::Large => Size::Large,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// The variational-dropout LSTM: the paper's baseline
    VdLstm,
    /// With the augmented loss
    Al,
    /// With the reused embedding
    Re,
    /// With both
    Real,
    /// No network: an n-gram model with modified Kneser-Ney smoothing
    Kn,
}

impl TryFrom<ModelName> for ModelKind {
    type Error = bowline::Error;

    fn try_from(name: ModelName) -> bowline::Result<ModelKind> {
        Ok(match name {
            ModelName::VdLstm => ModelKind::VdLstm,
            ModelName::Al => ModelKind::Al,
            ModelName::Re => ModelKind::Re,
            ModelName::Real => ModelKind::Real,
            ModelName::Kn => {
                let advice = "one of vd-lstm, al, re and real";
                return Err(bowline::Error::config("model", "`kn` is not a network", advice));
            }
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrecisionName {
    /// 32 bits
    F32,
    /// Operands of 16 bits with sums of 32, where the CPU has avx512_bf16
    Bf16,
    /// The same rounding with 32-bit instructions, slowly, on any CPU
    #[value(hide = true)]
    Bf16Emulated,
}

impl From<PrecisionName> for Precision {
    fn from(name: PrecisionName) -> Precision {
        match name {
            PrecisionName::F32 => Precision::F32,
            PrecisionName::Bf16 => Precision::Bf16,
            PrecisionName::Bf16Emulated => Precision::Bf16Emulated,
        }
    }
}

/// Seeds that `config.toml` can hold: whole numbers of TOML have a sign.
pub fn seed() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(0..=i64::MAX as u64)
}

#[derive(Args)]
pub struct Threads {
    /// Threads to use; the result is the same with any number [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

impl Threads {
    pub fn get(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let (asked, most) = (self.threads.map_or(cores, usize::from), (2 * cores).max(4));
        if asked > most {
            static SAID: Once = Once::new();
            let plural = if cores == 1 { "" } else { "s" };
            SAID.call_once(|| {
                note(format_args!(
                    "{most} threads instead of {asked}: with {cores} core{plural}, more are much slower"
                ));
            });
        }
        asked.min(most)
    }
}

#[derive(Args)]
pub struct DemoOptions {
    /// Where the four runs and the results go
    #[arg(long, value_name = "DIR", default_value = "runs/demo")]
    pub out: PathBuf,
    /// Everything random follows from it
    #[arg(long, default_value_t = 1, value_parser = seed())]
    pub seed: u64,
    /// Passes over the training text
    #[arg(long, value_name = "N")]
    pub epochs: Option<u32>,
    /// Throw away what an earlier demo left in --out
    #[arg(long)]
    pub fresh: bool,
    #[command(flatten)]
    pub threads: Threads,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct TrainOptions {
    /// ptb, wikitext-2, demo, a folder with train/valid/test files, or a text file
    #[arg(long, value_name = "DIR|FILE|NAME")]
    pub data: String,
    /// The paper's network size [default: small]
    #[arg(long, value_enum)]
    pub size: Option<SizeName>,
    /// A recipe (see `bowline recipes`): vd-lstm, al, re, real, another name, or a file; or kn, an n-gram model
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "real")]
    pub model: String,
    /// For kn: the length of the longest n-grams [default: 5]
    #[arg(long, value_name = "N")]
    pub order: Option<usize>,
    /// The run's folder, which must not hold anything yet
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// Passes over the training text
    #[arg(long, value_name = "N")]
    pub epochs: Option<u32>,
    /// Everything random follows from it
    #[arg(long, value_parser = seed())]
    pub seed: Option<u64>,
    /// Stop when validation has not improved for N epochs
    #[arg(long, value_name = "N")]
    pub patience: Option<u32>,
    /// Train a second time from the final weights, with the learning rate reset (the paper's footnote)
    #[arg(long)]
    pub second_training: bool,
    /// Keep the N most frequent words, <unk> and <eos> among them
    #[arg(long, value_name = "N")]
    pub vocab_size: Option<usize>,
    /// Lower-case the text and split words from their punctuation
    #[arg(long)]
    pub tokenize: bool,
    /// What the operands of matrix products are rounded to [default: f32]
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionName>,
    /// Change a setting, for example keep=0.5 or augment.gamma=0.7
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Write the curves for TensorBoard too, into RUN/tensorboard; `resume` goes on with them
    #[arg(long)]
    pub tensorboard: bool,
    #[command(flatten)]
    pub threads: Threads,
    /// Print one JSON object at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ResumeOptions {
    /// The run's folder
    pub run: PathBuf,
    /// Write the curves for TensorBoard too, all of them from the beginning on, if the run has none yet
    #[arg(long)]
    pub tensorboard: bool,
    #[command(flatten)]
    pub threads: Threads,
    /// Print one JSON object at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct BranchOptions {
    /// The run to go on from, at its last checkpoint; it stays as it is
    pub run: PathBuf,
    /// The new run's folder, which must not hold anything yet
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// Change a setting, for example weight_decay=1e-4, or epochs=70 for a run that is over
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    #[command(flatten)]
    pub threads: Threads,
    /// Print one JSON object at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SplitOption {
    Train,
    Valid,
    Test,
}

#[derive(Args)]
pub struct DataOptions {
    #[command(subcommand)]
    pub action: DataAction,
}

#[derive(Subcommand)]
pub enum DataAction {
    /// Download a corpus, verified by its SHA-256
    Get(CorpusOptions),
    /// Check the files that are there
    Verify(CorpusOptions),
}

#[derive(Args)]
pub struct CorpusOptions {
    /// ptb or wikitext-2
    pub corpus: String,
    /// A folder other than the per-user one
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Try this address before the known mirrors (a folder with the files in it)
    #[arg(long, value_name = "URL")]
    pub mirror: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct BenchOptions {
    /// The paper's network size [default: small]
    #[arg(long, value_enum)]
    pub size: Option<SizeName>,
    /// A recipe (see `bowline recipes`)
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "real")]
    pub model: String,
    /// Words in the vocabulary
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..=16_000_000))]
    pub vocab: u32,
    /// Training steps to measure [default: 20, 10 or 5 by size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub steps: Option<u32>,
    /// What the operands of matrix products are rounded to [default: f32]
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionName>,
    /// Change a setting, as for train
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    #[command(flatten)]
    pub threads: Threads,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
