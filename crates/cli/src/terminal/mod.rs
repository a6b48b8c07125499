//! Progress: bars that fit the terminal and leave nothing behind, plain lines in a pipe.

mod target;
pub mod width;

use crate::interrupt::Interrupt;
use crate::screen::harmless;
use bowline::event::{Event, Progress};
use bowline::run::Watch;
pub use bowline::wording::{duration, grouped};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::fmt;
use std::io::Write;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use width::{fit, wrap};

/// How often a bar is drawn again, and how often a line is written where there is no terminal.
const REDRAW: Duration = Duration::from_millis(150);
const LINE: Duration = Duration::from_secs(30);

/// All bars, one below the other. Lines appear above them.
static BARS: LazyLock<MultiProgress> = LazyLock::new(|| MultiProgress::with_draw_target(target::target()));

/// A bar that is drawn where somebody looks.
struct Drawn {
    bar: ProgressBar,
    width: usize,
}

impl Drawn {
    /// `None` in a pipe.
    fn new() -> Option<Drawn> {
        let width = target::columns()?;
        let bar = BARS.add(ProgressBar::no_length());
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Some(Drawn { bar, width })
    }

    /// Shows the share that is done and the fields that fit beside it.
    fn draw(&self, share: f64, fields: &[(u8, String)]) {
        let width = target::columns().unwrap_or(self.width);
        let cells = (width / 6).clamp(6, 20);
        let done = (share.clamp(0.0, 1.0) * cells as f64) as usize;
        let bar = format!("[{}{}] ", "=".repeat(done), " ".repeat(cells - done));
        self.bar.set_message(format!("{bar}{}", fit(fields, width.saturating_sub(bar.len()))));
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        BARS.remove(&self.bar);
    }
}

/// A reader of a run's events that writes to standard error.
pub struct Terminal {
    interrupt: Interrupt,
    bar: Option<Drawn>,
    drawn: Instant,
    /// Put before every line: the model's name where several are trained.
    label: String,
    epochs: u32,
    /// What follows the training.
    phase: Option<Bar>,
    /// Said when the run begins, and not at all if it does not.
    before: Vec<String>,
}

impl Terminal {
    pub fn new(interrupt: Interrupt, label: &str) -> Terminal {
        let label = if label.is_empty() { String::new() } else { format!("{label:<14}") };
        Terminal { interrupt, bar: None, drawn: Instant::now(), label, epochs: 0, phase: None, before: Vec::new() }
    }

    /// The same with lines to be said when the run begins.
    pub fn saying(self, before: Vec<String>) -> Terminal {
        Terminal { before, ..self }
    }

    fn say_before(&mut self) {
        self.phase = None;
        for text in std::mem::take(&mut self.before) {
            self.line(&text);
        }
    }

    fn line(&self, text: &str) {
        let space = if self.label.is_empty() { "" } else { " " };
        note(format_args!("{}{space}{text}", self.label));
    }

    /// A line of fields, of which a narrow terminal leaves some out.
    fn fields(&self, fields: &[(u8, String)]) {
        let all = [&[(0, self.label.clone())], fields].concat();
        let width = width::of_stderr().unwrap_or(usize::MAX);
        note(format_args!("{}", fit(&all, width)));
    }

    fn status(&self, p: &Progress) -> Vec<(u8, String)> {
        let percent = 100 * p.epoch_step / p.epoch_steps.max(1);
        vec![
            (1, self.label.trim_end().to_owned()),
            (0, format!("epoch {}{} {percent:>3}%", p.epoch, of(self.epochs))),
            (6, format!("loss {:.3}", p.loss)),
            (2, format!("ppl {:.1}", p.perplexity)),
            (5, format!("lr {}", rate(p.learning_rate))),
            (7, format!("|g| {:.2}", p.gradient_norm)),
            (4, format!("{:.0} words/s", p.words_per_second)),
            (3, format!("ETA {}", duration(p.eta_seconds))),
        ]
    }
}

/// A corpus by name, or by the last part of its path.
pub fn last_part(data: &str) -> &str {
    data.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(data)
}

/// `/55` after an epoch, where it is known.
fn of(epochs: u32) -> String {
    if epochs > 0 { format!("/{epochs}") } else { String::new() }
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
                self.say_before();
                let data = last_part(data);
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
            Event::Resume { over: true, .. } => self.line("this run is finished; its model is evaluated again"),
            Event::Resume { step, epoch, epochs, .. } => {
                self.epochs = *epochs;
                self.line(&format!("resuming in epoch {epoch}{} after {} steps", of(*epochs), grouped(*step as usize)));
            }
            Event::Epoch(e) => self.fields(&[
                (0, format!("epoch {:>3}", e.epoch)),
                (4, format!("train ppl {:>8.2}", e.train)),
                (1, format!("valid ppl {:>8.2}{}", e.valid, if e.best { " best" } else { "" })),
                (3, if e.learning_rate > 0.0 { format!("lr {}", rate(e.learning_rate)) } else { String::new() }),
                (2, duration(e.seconds)),
            ]),
            Event::SecondTraining { epoch } => {
                self.line(&format!("second training from epoch {epoch} on, with the learning rate reset"));
            }
            Event::Stop { .. } | Event::End { .. } => (self.bar, self.phase) = (None, None),
            Event::Progress(_) => {}
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if self.bar.is_none() {
            self.bar = Drawn::new();
        }
        if self.drawn.elapsed() < if self.bar.is_some() { REDRAW } else { LINE } {
            return;
        }
        self.drawn = Instant::now();
        match &self.bar {
            Some(bar) => {
                bar.draw(progress.epoch_step as f64 / progress.epoch_steps.max(1) as f64, &self.status(progress))
            }
            None => note(format_args!("{}", fit(&self.status(progress), usize::MAX))),
        }
    }

    fn planned(&mut self, epochs: u32) {
        self.epochs = epochs;
    }

    fn phase(&mut self, what: &str, share: f64) {
        self.bar = None;
        self.phase.get_or_insert_with(Bar::new).show(what, share);
    }

    fn notice(&mut self, text: &str) {
        self.say_before();
        self.line(text);
    }

    fn stop(&self) -> bool {
        self.interrupt.asked()
    }
}

/// How far a long piece of work is: a bar on a terminal, a line now and then in a pipe.
pub struct Bar {
    bar: Option<Drawn>,
    drawn: Cell<Option<Instant>>,
    started: Instant,
}

impl Bar {
    pub fn new() -> Bar {
        Bar { bar: Drawn::new(), drawn: Cell::new(None), started: Instant::now() }
    }

    /// Says what is being done, and which share of it is done.
    pub fn show(&self, what: &str, share: f64) {
        let every = if self.bar.is_some() { REDRAW } else { LINE };
        let since = self.drawn.get().unwrap_or(self.started);
        if (self.bar.is_some() && self.drawn.get().is_none()) || since.elapsed() >= every {
            self.drawn.set(Some(Instant::now()));
            match &self.bar {
                Some(bar) => bar.draw(share, &[(0, what.to_owned())]),
                None => note(format_args!("{what}: {:.0}%", 100.0 * share)),
            }
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.bar.finish_and_clear();
        }
    }
}

/// A line on standard error. That nobody can read it any more is no reason for a training to end.
pub fn note(line: fmt::Arguments<'_>) {
    // What is said may come out of a file: it must not command the terminal.
    let text = wrap(&harmless(&line.to_string()), width::of_stderr());
    BARS.suspend(|| drop(writeln!(std::io::stderr(), "{text}")));
}

/// A line in answer to Ctrl-C, in the place of the `^C` that a terminal shows.
pub fn answer(line: fmt::Arguments<'_>) {
    BARS.suspend(|| drop(width::of_stderr().map(|_| target::clear_line())));
    note(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_learning_rate_is_not_shown_as_none() {
        assert_eq!([1.0, 0.0424, 0.001, 0.0003].map(rate), ["1.000", "0.042", "0.001", "3.0e-4"]);
    }
}
