//! Ctrl-C: the first one asks the work to save and stop, the second one quits at once.

use crate::terminal::answer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody has asked to stop.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on (also for a polite `kill`).
    pub fn listen() -> Interrupt {
        Interrupt::listen_saying(|| answer(format_args!("saving; press Ctrl-C again to quit without saving")))
    }

    /// The same where another process answers.
    pub fn listen_silently() -> Interrupt {
        Interrupt::listen_saying(|| {})
    }

    fn listen_saying(say: impl Fn() + Send + 'static) -> Interrupt {
        let interrupt = Interrupt::default();
        let asked = interrupt.clone();
        // Where there can be no handler, Ctrl-C ends the process as usual; checkpoints are there all the same.
        let _ = ctrlc::set_handler(move || {
            if asked.0.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            say();
        });
        interrupt
    }

    /// Whether to stop.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
