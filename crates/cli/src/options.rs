//! The command line: names, values, help.

use crate::commands::arpa::ArpaOptions;
use crate::commands::reproduce::ReproduceOptions;
use crate::commands::subspace::SubspaceOptions;
use crate::terminal::note;
use bowline::budget::Budget;
use bowline::config::{ModelKind, Precision, Size};
use clap::builder::PossibleValuesParser;
use clap::builder::RangedU64ValueParser;
use clap::builder::TypedValueParser;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::sync::Once;

/// Train, evaluate and serve word-level language models on CPUs.
///
/// Implements "Tying Word Vectors and Word Classifiers" (Inan, Khosravi and Socher, 2017). Start with `bowline demo`.
#[derive(Parser)]
#[command(name = "bowline", version, max_term_width = 100)]
pub struct Options {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
    /// Instruction set to use [default: auto, the widest the CPU has; for `resume`, the run's]
    ///
    /// `bench` also takes `all`. Results on another instruction set differ in the last bits.
    #[arg(long, global = true, value_name = "SET", help_heading = "Machine")]
    #[arg(value_parser = ["auto", "portable", "avx2", "avx512", "all"])]
    pub isa: Option<String>,
}

impl Options {
    /// What was asked for on the command line. A number with a sign is a value, not an option.
    pub fn read() -> Options {
        fn signed(command: clap::Command) -> clap::Command {
            let takes_value = |arg: &clap::Arg| arg.get_action().takes_values();
            command
                .mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg })
                .mut_subcommands(signed)
        }
        let matches = signed(Options::command()).get_matches();
        Options::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

#[derive(Subcommand)]
pub enum Command {
    /// Train the paper's four models on a built-in corpus and compare them
    Demo(DemoOptions),
    /// Train a model
    Train(TrainOptions),
    /// List the recipes for `--model`, with size, published perplexity and cost
    Recipes(crate::commands::recipes::RecipesOptions),
    /// Resume a run that was stopped or killed
    Resume(ResumeOptions),
    /// Start a new run from another run's last checkpoint, with other settings
    Branch(BranchOptions),
    /// List the runs in a folder: state, model, epoch, perplexity, time left
    Runs(crate::commands::runs::RunsOptions),
    /// List the settings for --set, with defaults and meaning
    Settings(crate::commands::settings::SettingsOptions),
    /// Compute perplexity, with caches, dynamic evaluation and mixtures
    Eval(crate::commands::eval::EvalOptions),
    /// Show the most likely next words after a phrase
    Next(crate::commands::next::NextOptions),
    /// Measure the distance between word vectors and classifier (appendix B of the paper)
    Subspace(SubspaceOptions),
    /// Reproduce the paper's tables and figures
    Reproduce(ReproduceOptions),
    /// Write an HTML report about runs: results, curves, the paper's numbers
    Report(crate::commands::report::ReportOptions),
    /// Score sentences word by word
    Score(crate::commands::score::ScoreOptions),
    /// Judge minimal pairs: which of two sentences is likelier?
    Pairs(crate::commands::pairs::PairsOptions),
    /// Rescore n-best lists
    Rescore(crate::commands::rescore::RescoreOptions),
    /// Generate text
    Generate(crate::commands::generate::GenerateOptions),
    /// List the nearest words by their vectors
    Neighbours(crate::commands::neighbours::NeighboursOptions),
    /// Compare the predictions of two models
    Compare(crate::commands::compare::CompareOptions),
    /// Serve models over HTTP: a completions API and a web page
    Serve(crate::commands::serve::ServeOptions),
    /// Download, check, split and inspect corpora
    Data(DataOptions),
    /// Read and write n-gram models as ARPA files
    Arpa(ArpaOptions),
    /// Measure training speed on this machine
    Bench(BenchOptions),
    /// Export a model to ONNX or Hugging Face
    Export(crate::commands::export::ExportOptions),
    /// Import a PyTorch model from safetensors or ONNX
    Import(crate::commands::import::ImportOptions),
    /// Write the curves of runs as TensorBoard files
    #[command(name = "tensorboard")]
    TensorBoard(crate::commands::tensorboard::TensorBoardOptions),
    /// Print shell completions
    Completions(crate::commands::completions::CompletionsOptions),
    /// Print or write the manual pages
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

/// The models that are networks.
pub fn networks() -> impl TypedValueParser<Value = ModelName> {
    let names = ModelName::value_variants().iter().filter(|name| **name != ModelName::Kn);
    PossibleValuesParser::new(names.filter_map(ModelName::to_possible_value).collect::<Vec<_>>())
        .try_map(|name| ModelName::from_str(&name, false))
}

/// Seeds that `config.toml` can hold: whole numbers of TOML have a sign.
pub fn seed() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(0..=i64::MAX as u64)
}

#[derive(Args)]
pub struct Threads {
    /// Threads to use; results do not depend on it [default: all cores]
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
    /// Random seed
    #[arg(long, default_value_t = 1, value_parser = seed())]
    pub seed: u64,
    /// Passes over the training text
    #[arg(long, value_name = "N")]
    pub epochs: Option<u32>,
    /// Delete the results of an earlier demo in --out first
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
    /// [default: chosen by --budget, or real where --size or --epochs is given]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub model: Option<String>,
    /// How long to train: 90s, 10m, 3h, 1d; chooses network, vocabulary and schedule to fit [default: auto,
    /// unless --model, --size or --epochs is given]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["model", "size", "epochs", "second_training", "patience"])]
    pub budget: Option<Budget>,
    /// For kn: the length of the longest n-grams [default: 5]
    #[arg(long, value_name = "N")]
    pub order: Option<usize>,
    /// For kn: drop n-grams of 1, 2, .. words seen N times or less, as in 0,0,1 (like lmplz --prune)
    #[arg(long, value_name = "N,N..", value_delimiter = ',')]
    pub prune: Vec<u32>,
    /// The run's folder; it must be new or empty
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// Passes over the training text
    #[arg(long, value_name = "N")]
    pub epochs: Option<u32>,
    /// Random seed
    #[arg(long, value_parser = seed())]
    pub seed: Option<u64>,
    /// Stop when validation has not improved for N epochs
    #[arg(long, value_name = "N")]
    pub patience: Option<u32>,
    /// Train a second time from the final weights with the learning rate reset (the paper's footnote)
    #[arg(long)]
    pub second_training: bool,
    /// Begin with the weights of a trained model, which keeps its words and gets those of the text
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["budget", "vocab", "size", "order"])]
    pub init: Option<PathBuf>,
    /// Learn from a trained model (see `--model distilled`); may be given several times
    #[arg(long = "teacher", value_name = "MODEL")]
    pub teachers: Vec<PathBuf>,
    /// Keep the N most frequent words, including <unk> and <eos>
    #[arg(long, value_name = "N")]
    pub vocab_size: Option<usize>,
    /// Words seen fewer than N times in training become <unk> [default: 2 for a text without <unk>]
    #[arg(long, value_name = "N")]
    pub min_count: Option<u64>,
    /// Use exactly the words in FILE, one per line; or a speech recogniser's tokens.txt, whose ids are kept
    #[arg(long, value_name = "FILE", conflicts_with_all = ["vocab_size", "min_count"])]
    pub vocab: Option<PathBuf>,
    /// Lower-case the text and split words from their punctuation
    #[arg(long)]
    pub tokenize: bool,
    /// Precision of matrix products [default: f32]
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionName>,
    /// Change a setting, for example keep=0.5; `bowline settings` lists them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Also write the curves for TensorBoard, into RUN/tensorboard
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
    /// Replan the run to end after this much more time: 30m, 2h, ...
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Budget>,
    /// Also write the curves for TensorBoard, from the first epoch on
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
    /// The run to start from; it is not changed
    pub run: PathBuf,
    /// The new run's folder; it must be new or empty
    #[arg(long, value_name = "RUN")]
    pub out: PathBuf,
    /// Change a setting, for example weight_decay=1e-4, or epochs=70 for a finished run
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
    /// Verify the files of a corpus
    Verify(CorpusOptions),
    /// Split a text into train.txt, valid.txt and test.txt (80%, 10% and 10% of its lines, in order)
    Split(SplitOptions),
    /// Show the size of a corpus, its most frequent words, and the share of unseen words
    Stats(StatsOptions),
}

#[derive(Args)]
pub struct SplitOptions {
    /// A text file, one sentence per line
    pub file: PathBuf,
    /// The folder for the three files
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Lower-case the text and split words from their punctuation
    #[arg(long)]
    pub tokenize: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct StatsOptions {
    /// A text file, a folder with train/valid/test files, ptb, wikitext-2 or demo
    #[arg(value_name = "DIR|FILE|NAME")]
    pub data: String,
    /// Lower-case the text and split words from their punctuation
    #[arg(long)]
    pub tokenize: bool,
    /// How many of the most frequent words to show
    #[arg(short, value_name = "N", default_value_t = 20)]
    pub k: usize,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
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
    /// Precision of matrix products [default: f32]
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
