//! What a person sees while a run goes on: a bar that renews itself on a terminal, plain lines in a pipe.

use crate::interrupt::Interrupt;
use crate::screen::harmless;
use bowline::event::{Event, Progress};
use bowline::run::Watch;
pub use bowline::wording::grouped;
use std::cell::Cell;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the bar is drawn again, and how often a line is written where there is no terminal.
const REDRAW: Duration = Duration::from_millis(150);
const LINE: Duration = Duration::from_secs(30);

/// To the beginning of the line, and away with it.
const ERASE: &str = "\r\x1b[2K";

/// A reader of a run's events that writes to standard error.
pub struct Terminal {
    interrupt: Interrupt,
    bar: bool,
    drawn: Instant,
    /// Put before every line: the model's name where several are trained.
    label: String,
    epochs: u32,
}

impl Terminal {
    pub fn new(interrupt: Interrupt, label: &str) -> Terminal {
        let label = if label.is_empty() { String::new() } else { format!("{label:<14} ") };
        // A bar only where somebody looks.
        let bar = std::io::stderr().is_terminal();
        let drawn = Instant::now();
        Terminal { interrupt, bar, drawn, label, epochs: 0 }
    }

    fn line(&self, text: &str) {
        let erase = if self.bar { ERASE } else { "" };
        note(format_args!("{erase}{}{text}", self.label));
    }

    fn draw(&self, p: &Progress) {
        let text = self.status(p);
        if self.bar {
            let done = 20 * p.epoch_step / p.epoch_steps.max(1);
            let bar: String = (0..20).map(|i| if i < done { '=' } else { ' ' }).collect();
            let _ = write!(std::io::stderr(), "{ERASE}{}[{bar}] {text}", self.label);
        } else {
            self.line(&text);
        }
    }

    fn status(&self, p: &Progress) -> String {
        let percent = 100 * p.epoch_step / p.epoch_steps.max(1);
        let of = if self.epochs > 0 { format!("/{}", self.epochs) } else { String::new() };
        format!(
            "epoch {}{of} {percent:>3}%  loss {:.3}  ppl {:.1}  lr {}  |g| {:.2}  {:.0} words/s  ETA {}",
            p.epoch,
            p.loss,
            p.perplexity,
            rate(p.learning_rate),
            p.gradient_norm,
            p.words_per_second,
            duration(p.eta_seconds)
        )
    }
}

/// A learning rate in few characters, whatever its size.
fn rate(learning_rate: f64) -> String {
    if learning_rate >= 0.001 { format!("{learning_rate:.3}") } else { format!("{learning_rate:.1e}") }
}

impl Watch for Terminal {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Start { model, data, vocab, words, unseen, parameters, epochs, memory, machine, .. } => {
                self.epochs = *epochs;
                self.line(&format!(
                    "{model} on {data}: {} training words, vocabulary {}, {} parameters, {epochs} epoch{}, about {} MB, {machine}",
                    grouped(words[0]),
                    grouped(*vocab),
                    grouped(*parameters),
                    if *epochs == 1 { "" } else { "s" },
                    memory.div_ceil(1_000_000)
                ));
                if unseen[0] + unseen[1] > 0 {
                    self.line(&format!(
                        "words that training never saw, read as <unk>: {} in valid, {} in test",
                        grouped(unseen[0]),
                        grouped(unseen[1])
                    ));
                }
            }
            Event::Resume { step, epoch, .. } => {
                self.line(&format!("going on with epoch {epoch} after {} steps", grouped(*step as usize)));
            }
            Event::Epoch(e) => {
                let best = if e.best { ", the best so far" } else { "" };
                self.line(&format!(
                    "epoch {:>3}  train ppl {:>8.2}  valid ppl {:>8.2}{best}  (lr {}, {})",
                    e.epoch,
                    e.train,
                    e.valid,
                    rate(e.learning_rate),
                    duration(e.seconds)
                ));
            }
            Event::SecondTraining { epoch } => {
                self.line(&format!("second training from epoch {epoch} on, with the learning rate reset"));
            }
            Event::Progress(_) | Event::End { .. } => {}
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if self.drawn.elapsed() >= if self.bar { REDRAW } else { LINE } {
            self.drawn = Instant::now();
            self.draw(progress);
        }
    }

    fn notice(&mut self, text: &str) {
        self.line(text);
    }

    fn stop(&self) -> bool {
        self.interrupt.asked()
    }
}

/// How far a long piece of work is: a bar on a terminal, a line now and then in a pipe.
pub struct Bar {
    terminal: bool,
    drawn: Cell<Option<Instant>>,
    started: Instant,
}

impl Bar {
    pub fn new() -> Bar {
        Bar { terminal: std::io::stderr().is_terminal(), drawn: Cell::new(None), started: Instant::now() }
    }

    /// Says what is being done, and which share of it is done.
    pub fn show(&self, what: &str, share: f64) {
        let every = if self.terminal { REDRAW } else { LINE };
        let since = self.drawn.get().unwrap_or(self.started);
        if (self.terminal && self.drawn.get().is_none()) || since.elapsed() >= every {
            self.drawn.set(Some(Instant::now()));
            if self.terminal {
                let done = (20.0 * share) as usize;
                let bar: String = (0..20).map(|i| if i < done { '=' } else { ' ' }).collect();
                let _ = write!(std::io::stderr(), "\r\x1b[2K[{bar}] {what}");
            } else {
                note(format_args!("{what}: {:.0}%", 100.0 * share));
            }
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if self.terminal && self.drawn.get().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

/// A line on standard error. That nobody can read it any more is no reason for a training to end.
pub fn note(line: fmt::Arguments<'_>) {
    let line = line.to_string();
    // Ours alone: what erases the bar. All else may come out of a file.
    let (erase, text) = line.split_at(if line.starts_with(ERASE) { ERASE.len() } else { 0 });
    let _ = writeln!(std::io::stderr(), "{erase}{}", harmless(text));
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "?".to_owned();
    }
    let s = seconds.round() as u64;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_easy_to_read() {
        assert_eq!([0.4, 59.6, 754.0, 7384.0, f64::NAN].map(duration), ["0s", "1m00s", "12m34s", "2h03m", "?"]);
    }

    #[test]
    fn a_low_learning_rate_is_not_shown_as_none() {
        assert_eq!([1.0, 0.0424, 0.001, 0.0003].map(rate), ["1.000", "0.042", "0.001", "3.0e-4"]);
    }
}
