//! The passing time of a run, as far as this process sees it.

use std::time::Instant;

/// What is measured of the passing time.
pub(super) struct Clock {
    pub(super) start: Instant,
    pub(super) checkpoint: Instant,
    pub(super) epoch: Instant,
    /// Seconds spent training, and the words of that time.
    pub(super) busy: f64,
    pub(super) words: f64,
    /// Words per second, lately.
    pub(super) speed: f64,
    /// Seconds of the last validation.
    pub(super) validation: f64,
}

impl Clock {
    /// From now on.
    pub(super) fn new() -> Clock {
        let now = Instant::now();
        Clock { start: now, checkpoint: now, epoch: now, busy: 0.0, words: 0.0, speed: 0.0, validation: 0.0 }
    }

    /// A step of `words` words took `seconds`.
    pub(super) fn tick(&mut self, seconds: f64, words: f64) {
        self.busy += seconds;
        self.words += words;
        let now = words / seconds.max(1e-9);
        self.speed = if self.speed == 0.0 { now } else { 0.98 * self.speed + 0.02 * now };
    }
}
