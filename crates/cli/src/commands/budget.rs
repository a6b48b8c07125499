//! `bowline train --budget`: the best model for the time available.

use super::fit;
use super::train::report;
use crate::interrupt::Interrupt;
use crate::options::TrainOptions;
use crate::terminal::Terminal;
use bowline::budget::{self, Budget, Request};
use bowline::config::{DataConfig, Precision};
use bowline::run::Session;
use bowline::run::fit::source;
use bowline_interop::tensorboard::TensorBoard;
use std::process::ExitCode;

pub fn run(options: &TrainOptions, budget: Budget, session: Session) -> anyhow::Result<ExitCode> {
    let mut notes = Vec::new();
    let mut data = DataConfig { source: source(&options.data), ..DataConfig::default() };
    fit::data_for_anybody(options, &mut data, &mut notes)?;
    let request = Request {
        data,
        budget,
        seed: options.seed.unwrap_or(1),
        precision: options.precision.map(Precision::from),
        settings: options.settings.clone(),
    };
    let mut terminal = Terminal::new(Interrupt::listen(), "").saying(notes);
    let mut watch = TensorBoard::beside(&mut terminal, &options.out, options.tensorboard);
    report(&options.out, budget::start(&options.out, &request, session, &mut watch)?, options.json)
}
