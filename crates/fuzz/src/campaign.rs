//! Many inputs for one target, with an eye on time and memory.

use crate::mutate::mutation;
use crate::{BYTES_PER_BYTE, MOST_BYTES, Target};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// An input may take so long.
pub const LONGEST: Duration = Duration::from_secs(10);

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Inputs read.
    pub inputs: u64,
    /// The longest time that one of them took.
    pub slowest: Duration,
    /// The most bytes that were allocated for one of them.
    pub most_bytes: usize,
    /// What was not as it should be: the number of the mutation, the input, and what happened.
    pub failures: Vec<(String, Vec<u8>, String)>,
}

/// Reads the seeds and the mutations with these numbers. Ends early after ten failures.
pub fn run(target: &Target, numbers: std::ops::Range<u64>) -> Outcome {
    let seeds = (target.seeds)();
    let mut outcome = Outcome::default();
    // What is set up once for all inputs is not theirs.
    (target.read)(&[]);
    for (i, seed) in seeds.iter().enumerate() {
        one(target, format!("seed {i}"), seed.clone(), &mut outcome);
    }
    for number in numbers {
        one(target, number.to_string(), mutation(&seeds, number), &mut outcome);
        if outcome.failures.len() >= 10 {
            break;
        }
    }
    outcome
}

fn one(target: &Target, name: String, input: Vec<u8>, outcome: &mut Outcome) {
    let (begin, region) = (Instant::now(), Region::new(ALLOCATOR));
    let panicked = catch_unwind(AssertUnwindSafe(|| (target.read)(&input))).err();
    let (time, bytes) = (begin.elapsed(), region.change().bytes_allocated);
    outcome.inputs += 1;
    outcome.slowest = outcome.slowest.max(time);
    outcome.most_bytes = outcome.most_bytes.max(bytes);
    let problem = match panicked {
        Some(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            format!("it panicked: {}", text.unwrap_or("?"))
        }
        None if time > LONGEST => format!("it took {time:?}"),
        None if bytes > MOST_BYTES + BYTES_PER_BYTE * input.len() => format!("it allocated {bytes} bytes"),
        None => return,
    };
    outcome.failures.push((name, input, problem));
}
