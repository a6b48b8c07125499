//! Jobs that are answered from beginning to end, for models that read one text after the other.
//!
//! Every sequence begins with nothing read, and so does each of its continuations: an empty cache, the trained weights, no
//! state. What one request teaches never reaches another.
//!
//! The numbers are those of the command line: log-probabilities those of `bowline score`, which reads a text line by line,
//! and distributions those of `bowline next`, which reads a phrase at once.

use crate::engine::{Part, Sequence, Waiting};
use crate::metrics::ModelMetrics;
use bowline::score::{Continuation, Passage, Reader};
use std::sync::atomic::Ordering;

/// Answers a job, or as much of it as somebody wants to hear.
pub fn answer(reader: &mut Reader, waiting: &Waiting, metrics: &ModelMetrics) {
    for (number, sequence) in waiting.job.sequences.iter().enumerate() {
        if !read(reader, number, sequence, waiting, metrics) {
            return;
        }
    }
    for (number, sequence) in waiting.job.sequences.iter().enumerate() {
        for draw in 0..sequence.draws.len() {
            if !tell(reader, (number, draw), sequence, waiting, metrics) {
                return;
            }
        }
    }
}

/// The log-probability of each word but the first, and the likeliest words in its place, as far as they are wanted. Whether
/// somebody heard it.
fn read(reader: &mut Reader, number: usize, sequence: &Sequence, waiting: &Waiting, metrics: &ModelMetrics) -> bool {
    let passage = match sequence.inputs.split_last() {
        Some((_, inputs)) if sequence.score => {
            Passage { inputs, targets: &sequence.inputs[1..], top: sequence.top, ..Passage::default() }
        }
        _ => Passage::default(),
    };
    let Some(mut readings) = reader.read_until(&[passage], &|| waiting.given_up()) else { return false };
    let reading = readings.pop().unwrap_or_default();
    metrics.batches.fetch_add(1, Ordering::Relaxed);
    metrics.scored.fetch_add(reading.logprobs.len() as u64, Ordering::Relaxed);
    waiting.say(Part::Read(number, reading))
}

/// Draws one continuation; whether somebody heard it.
fn tell(
    reader: &mut Reader,
    (number, draw): (usize, usize),
    sequence: &Sequence,
    waiting: &Waiting,
    metrics: &ModelMetrics,
) -> bool {
    let (how, eos) = (&sequence.draws[draw], reader.model().vocabulary.eos());
    // The prompt may be long: while it is read, it is asked whether anybody waits.
    let prompt = Passage { inputs: &sequence.inputs, keep: true, ..Passage::default() };
    let Some(mut readings) = reader.read_until(&[prompt], &|| waiting.given_up()) else { return false };
    let memory = readings.pop().and_then(|reading| reading.memory).unwrap_or_default();
    let text = Continuation::after(memory, how.sampling, how.seed, how.sample);
    reader.tell(vec![text], how.words, how.top, &mut |_, word| {
        let end = word.id == eos;
        metrics.batches.fetch_add(1, Ordering::Relaxed);
        metrics.generated.fetch_add(1, Ordering::Relaxed);
        waiting.say(Part::Word(number, draw, word)) && !waiting.given_up() && !end
    });
    !waiting.given_up()
}
