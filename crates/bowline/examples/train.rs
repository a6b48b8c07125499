//! Trains a small network on a text and says how well it learned:
//! `cargo run --release -p bowline --example train -- TEXT RUN`.

// An example is a program, and programs print; the library does not.
#![allow(clippy::print_stdout)]

use bowline::run::Outcome;
use bowline::{Config, Event, ModelKind, Session, Size, Watch, start};
use std::path::Path;

/// Prints a line after each epoch.
struct Epochs;

impl Watch for Epochs {
    fn event(&mut self, event: &Event) {
        if let Event::Epoch(end) = event {
            println!("epoch {:>2}  train {:>8.2}  valid {:>8.2}", end.epoch, end.train, end.valid);
        }
    }
    fn progress(&mut self, _: &bowline::event::Progress) {}
    fn notice(&mut self, text: &str) {
        println!("{text}");
    }
    fn stop(&self) -> bool {
        false
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [text, run] = arguments.as_slice() else { return Err("give a text and a folder for the run".into()) };
    // What is not said here is as in the paper's small models.
    let settings = ["epochs=10", "batch=10"].map(str::to_owned);
    let config = Config::new(Size::Small, ModelKind::Real, text).with(&settings)?;
    match start(Path::new(run), &config, Session::default(), &mut Epochs)? {
        Outcome::Finished(summary) => println!("test perplexity {:.2}; the model is in {run}/best", summary.test),
        Outcome::Stopped(_) => println!("stopped; `bowline resume {run}` resumes it"),
    }
    Ok(())
}
