//! `bowline train --budget`: the best model for the time there is.

use super::fit;
use super::train::report;
use crate::interrupt::Interrupt;
use crate::options::TrainOptions;
use crate::terminal::{Bar, Terminal, duration};
use bowline::budget::{self, Budget, Facts, Plan};
use bowline::config::{DataConfig, Precision};
use bowline::run::fit::source;
use bowline::run::{self, NgramConfig, Session};
use bowline_interop::tensorboard::TensorBoard;
use std::process::ExitCode;
use std::time::Instant;

pub fn run(options: &TrainOptions, budget: Budget, session: Session) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    let mut notes = Vec::new();
    let mut data = DataConfig { source: source(&options.data), ..DataConfig::default() };
    fit::data_for_anybody(options, &mut data, &mut notes)?;
    let ngrams = NgramConfig::new(run::DEFAULT_ORDER, data.clone());
    ngrams.validate()?;
    let corpus = run::open_corpus(&data)?;
    let words = [&corpus.train, &corpus.valid, &corpus.test].map(|split| split.ids.len());
    let seconds = budget.seconds(words[0]);
    let precision = options.precision.map_or_else(|| budget::precision(session), Precision::from);
    let mut chosen = vec![format!("precision={}", bowline_kernels::Precision::from(precision).name())];
    chosen.extend(options.settings.iter().cloned());
    let facts = Facts {
        data,
        words,
        vocab: corpus.vocabulary.len(),
        seconds: (seconds - begin.elapsed().as_secs_f64()).max(0.0),
        seed: options.seed.unwrap_or(1),
        chosen,
    };
    drop(corpus);
    let bar = Bar::new();
    let plan = Plan::new(&facts, &mut |config, vocab| {
        bar.show("measuring this machine", 0.5);
        budget::measure(config, vocab, session)
    });
    bar.clear();
    drop(bar);
    let asked = match budget {
        Budget::Auto => format!("{}, by the size of the text (--budget)", duration(seconds)),
        Budget::Seconds(_) => duration(seconds),
    };
    match plan? {
        Plan::Ngrams { why } => {
            notes.push(format!("budget {asked}: {why}; a Kneser-Ney model instead"));
            let mut watch = Terminal::new(Interrupt::listen(), "").saying(notes);
            report(&options.out, run::start_ngram(&options.out, &ngrams, session, &mut watch)?, options.json)
        }
        Plan::Network(planned) => {
            notes.push(format!("budget {asked}; {}", planned.describe(facts.vocab)));
            let mut terminal = Terminal::new(Interrupt::listen(), "").saying(notes);
            let mut watch = TensorBoard::beside(&mut terminal, &options.out, options.tensorboard);
            report(&options.out, budget::train(&options.out, &planned, session, &mut watch)?, options.json)
        }
    }
}
