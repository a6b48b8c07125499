//! `bowline score`: how likely are these sentences, word by word?

mod format;

use super::predictor::{PredictorOptions, Setup};
use crate::options::Threads;
use crate::read_ahead::{Item, ReadAhead};
use crate::screen::stdout;
use crate::terminal::{grouped, note};
use bowline::predictor::{Reads, check_logprobs};
use bowline::score::{Memory, Outlook, Reader, Scored, Sentence, nbest};
use bowline::vocabulary::Vocabulary;
use clap::Args;
use clap::builder::ArgPredicate;
use format::Format;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Lines that are worked on together at most, so that answers come while the input still goes on.
const CHUNK: usize = 1024;

#[derive(Args)]
pub struct ScoreOptions {
    /// A model's folder, or a run's
    pub model: PathBuf,
    /// Texts, one sentence per line; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text", default_value_if("json", ArgPredicate::IsPresent, "json"))]
    pub format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Carry the state from line to line instead of starting each line afresh; with kaldi and rnnlm,
    /// from the first hypothesis of an utterance to the next utterance
    #[arg(long)]
    pub carry: bool,
    /// Sentences per batch; results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub batch: u16,
    /// Subtract X from the log-probability of each unknown word; `ln N` if <unk> stands for N words
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    pub unk_penalty: f64,
    /// Mix in another model; may be given several times
    #[arg(long = "with", value_name = "MODEL")]
    pub others: Vec<PathBuf>,
    #[command(flatten)]
    pub predictor: PredictorOptions,
    #[command(flatten)]
    pub threads: Threads,
}

/// Where each sentence starts.
enum Past {
    Empty,
    Line(Memory),
    Utterance(nbest::CarriedBetweenUtterances),
}

pub fn run(options: &ScoreOptions) -> anyhow::Result<ExitCode> {
    let input = ReadAhead::start(&options.files)?;
    // A sentence that stands alone has the score that the network gives it.
    let (threads, reads) = (options.threads.get(), options.carry.then_some(Reads::Text));
    let setup = Setup::known(&options.model, &options.others, &options.predictor, threads, reads)?;
    let mut reader = setup.reader(Some(usize::from(options.batch)))?;
    let mut past = match (options.carry, options.format.has_keys()) {
        (false, _) => Past::Empty,
        (true, false) => Past::Line(Memory::default()),
        (true, true) => Past::Utterance(nbest::CarriedBetweenUtterances::new()),
    };
    let (vocabulary, tokenize) = (&setup.model().vocabulary, setup.model().tokenize);
    let mut outlook = match options.format {
        Format::Surprisal => {
            // Entropy and rank are those after `<unk>`; the words' own log-probabilities must be, too.
            reader = reader.without_spelling();
            Some(Outlook::new(setup.predictor()?, vocabulary))
        }
        _ => None,
    };
    let mut writer = format::Writer::new(options.format, BufWriter::new(stdout()), vocabulary);
    loop {
        let items = input.take(CHUNK);
        if items.is_empty() {
            break;
        }
        let (mut lines, mut rest) = (Vec::new(), items.into_iter().peekable());
        while rest.peek().is_some() {
            // The lines up to the end of a file, or to where something is wrong.
            let mut stopped = None;
            for item in rest.by_ref() {
                match item {
                    Item::Line { source, number, text } => {
                        match parse(options, (vocabulary, tokenize), &options.files[source], number, &text) {
                            Ok(line) => lines.push(line),
                            Err(error) => stopped = Some(Err(error)),
                        }
                    }
                    Item::End { source } => stopped = Some(Ok(source)),
                    Item::Failed(error) => stopped = Some(Err(error)),
                }
                if stopped.is_some() {
                    break;
                }
            }
            let scores = score(&mut reader, &mut past, &lines);
            for scored in &scores {
                check_logprobs(&options.model, scored.logprobs.iter().copied())?;
            }
            for ((key, sentence), scored) in lines.drain(..).zip(scores) {
                let scored = penalised(scored, &sentence, options.unk_penalty);
                match &mut outlook {
                    Some(outlook) => {
                        let words = outlook.read(&sentence, &scored, options.carry);
                        writer.surprisal(&sentence, &scored, &words)?;
                    }
                    None => writer.sentence(&key, &sentence, &scored)?,
                }
            }
            match stopped {
                Some(Ok(source)) => writer.end(&options.files[source])?,
                Some(Err(error)) => {
                    writer.flush()?;
                    return Err(error.into());
                }
                None => {}
            }
        }
        writer.flush()?;
    }
    let total = writer.total();
    if options.format == Format::Text {
        let predictions = total.words + total.sentences;
        note(format_args!(
            "{}, {} words ({} of them {}), log-probability {:.4}, perplexity {:.3} with sentence \
             ends, state {}",
            if total.sentences == 1 {
                "1 sentence".to_owned()
            } else {
                format!("{} sentences", grouped(total.sentences))
            },
            grouped(total.words),
            grouped(total.unseen),
            if reader.spells() { "<unk>, read by their characters" } else { "read as <unk>" },
            total.logprob,
            (-total.logprob / predictions.max(1) as f64).exp(),
            if options.carry { "carried" } else { "empty at each line" }
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The scores with the penalty for each unknown word.
fn penalised(scored: Scored, sentence: &Sentence, penalty: f64) -> Scored {
    let mut logprobs = scored.logprobs;
    for &place in &sentence.unseen {
        logprobs[place] -= penalty;
    }
    Scored::new(logprobs)
}

/// The key of a line, where the format has one, and its sentence.
fn parse(
    options: &ScoreOptions,
    (vocabulary, tokenize): (&Vocabulary, bool),
    file: &Path,
    number: usize,
    text: &str,
) -> bowline::Result<(String, Sentence)> {
    let file = if file == Path::new("-") { Path::new("standard input") } else { file };
    let (key, words) = if options.format.has_keys() {
        nbest::split_key(text).ok_or_else(|| {
            let advice = "each line of an n-best list is `utterance-number word word ...`";
            bowline::Error::corpus_line(file, number, "the line has no utterance id", advice)
        })?
    } else {
        ("", text)
    };
    Ok((key.to_owned(), Sentence::at(file, number, words, vocabulary, tokenize)?))
}

fn score(reader: &mut Reader, past: &mut Past, lines: &[(String, Sentence)]) -> Vec<Scored> {
    let sentences = || lines.iter().map(|(_, sentence)| sentence.clone()).collect::<Vec<_>>();
    match past {
        Past::Empty => reader.score(&sentences()),
        Past::Line(memory) => reader.score_on(memory, &sentences()),
        Past::Utterance(carried) => carried.score(reader, lines),
    }
}
