//! A team of threads that all run the same piece of work and meet at its end.
//!
//! A time step of a small model takes tens of microseconds, so the members wait for the next piece of work by spinning
//! for a moment before they sleep, and nothing is allocated on the way. How work is divided never changes a result:
//! every value is computed by one member, in an order that does not depend on how many there are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How often a waiting thread looks before it lets others have its core: some tens of microseconds, more than a member that
/// has a core of its own keeps the others waiting.
const SPINS: u32 = 1_500;
/// How often it looks after that, each time ready to let another program go first: about a millisecond on an idle machine,
/// which is less than it costs to be woken now and then at one of the many meetings of a window.
const YIELDS: u32 = 2_000;

/// A number that threads wait for.
struct Signal {
    value: AtomicUsize,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Signal {
    fn new(value: usize) -> Signal {
        Signal {
            value: AtomicUsize::new(value),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    fn get(&self) -> usize {
        self.value.load(Ordering::Acquire)
    }

    /// Changes the value and wakes those who sleep. (Sequential consistency: either the sleeper sees the new value, or we
    /// see the sleeper.)
    fn change(&self, f: impl Fn(&AtomicUsize)) {
        f(&self.value);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }

    /// Returns when the value fulfils the condition: spins for a moment, then sleeps.
    fn wait(&self, condition: impl Fn(usize) -> bool) {
        for look in 0..SPINS + YIELDS {
            if condition(self.get()) {
                return;
            }
            if look < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !condition(self.value.load(Ordering::SeqCst)) {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A piece of work, with its lifetime erased while a call of [`Team::run`] is waiting for it.
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn(usize) + Sync));

// SAFETY: the pointer is only followed while `run` keeps the closure alive, and the closure is `Sync`.
unsafe impl Send for Work {}

struct Shared {
    work: Mutex<Option<Work>>,
    /// Counts the pieces of work handed out.
    round: Signal,
    /// Members that have not finished the current piece.
    busy: Signal,
    quit: AtomicBool,
}

/// A fixed number of threads, the caller's own among them.
pub struct Team {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    /// One piece of work at a time, whoever calls.
    turn: Mutex<()>,
}

impl Team {
    /// A team of `threads` (at least one: the caller).
    pub fn new(threads: usize) -> Team {
        let shared = Arc::new(Shared {
            work: Mutex::new(None),
            round: Signal::new(0),
            busy: Signal::new(0),
            quit: AtomicBool::new(false),
        });
        let handles = (1..threads.max(1))
            .map(|member| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || member_loop(&shared, member))
            })
            .collect();
        Team { shared, handles, turn: Mutex::new(()) }
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.handles.len() + 1
    }

    /// Runs `f(member)` once on every member, `0..threads()`, and returns when all are done. Must not be nested.
    pub fn run(&self, f: impl Fn(usize) + Sync) {
        if self.handles.is_empty() {
            return f(0);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let f: &(dyn Fn(usize) + Sync) = &f;
        // SAFETY: only the lifetime changes; the members are done with it before this function returns (see `busy`).
        let erased: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(f) };
        self.shared.busy.change(|busy| busy.store(self.handles.len(), Ordering::SeqCst));
        *self.shared.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(Work(erased));
        self.shared.round.change(|round| {
            round.fetch_add(1, Ordering::SeqCst);
        });
        /// Waits for the others even when the caller's own share panics: they still hold the closure.
        struct WaitForOthers<'a>(&'a Shared);
        impl Drop for WaitForOthers<'_> {
            fn drop(&mut self) {
                self.0.busy.wait(|busy| busy == 0);
            }
        }
        let _wait = WaitForOthers(&self.shared);
        f(0);
    }

    /// [`Team::for_each`], by the calling thread alone if the work is `small`.
    pub(crate) fn for_each_unless<J>(&self, small: bool, jobs: impl Iterator<Item = J> + Send, f: impl Fn(J) + Sync) {
        if small { jobs.for_each(f) } else { self.for_each(jobs, f) }
    }

    /// Takes the jobs from the iterator one by one and runs each on whichever member is free.
    pub fn for_each<J>(&self, jobs: impl Iterator<Item = J> + Send, f: impl Fn(J) + Sync) {
        let jobs = Mutex::new(jobs);
        let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
        self.run(|_| {
            while let Some(job) = next() {
                f(job);
            }
        });
    }
}

/// Rows of a job, a multiple of 10 and at most `most`, when `rows` are to be divided among the members of a team: they
/// should finish together, and a job should be long, since each passes over the other operand once more (which costs about
/// as much as 8 rows do, measured with the classifier of a medium model).
pub fn rows_per_job(rows: usize, threads: usize, most: usize) -> usize {
    let time = |job: usize| rows.div_ceil(job).div_ceil(threads) * (job + 8);
    (1..=most / 10).rev().map(|tens| 10 * tens).min_by_key(|&job| time(job)).unwrap_or(10)
}

/// Elements (of memory to pass over, or multiply-adds of a product) below which a piece of work is done sooner by the
/// calling thread alone than handed out: some microseconds' worth.
pub(crate) const SMALL_PASS: usize = 20_000;
/// See [`SMALL_PASS`].
pub(crate) const SMALL_PRODUCT: usize = 300_000;

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        self.shared.round.change(|round| {
            round.fetch_add(1, Ordering::SeqCst);
        });
        for handle in self.handles.drain(..) {
            // A member that panicked has ended the process already; there is nothing left to report.
            let _ = handle.join();
        }
    }
}

fn member_loop(shared: &Shared, member: usize) {
    let mut seen = 0;
    loop {
        shared.round.wait(|round| round != seen);
        seen += 1;
        if shared.quit.load(Ordering::SeqCst) {
            return;
        }
        let work = *shared.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = work {
            // A panic here would leave the others waiting for ever at a barrier; its message is out, so end the process.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                // SAFETY: `run` keeps the closure alive until `busy` is 0.
                let f = unsafe { &*work.0 };
                f(member);
            }));
            if outcome.is_err() {
                std::process::abort();
            }
        }
        shared.busy.change(|busy| {
            busy.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// A meeting point for all members inside one piece of work.
pub(crate) struct Barrier {
    members: usize,
    arrived: AtomicUsize,
    round: Signal,
}

impl Barrier {
    pub(crate) fn new(members: usize) -> Barrier {
        Barrier { members, arrived: AtomicUsize::new(0), round: Signal::new(0) }
    }

    /// Returns when all members have called it.
    pub(crate) fn wait(&self) {
        let round = self.round.get();
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.change(|round| {
                round.fetch_add(1, Ordering::SeqCst);
            });
        } else {
            self.round.wait(|now| now != round);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_runs_each_piece_once() {
        for threads in 1..=4 {
            let team = Team::new(threads);
            let counts: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            for round in 0..500 {
                team.run(|member| {
                    counts[member].fetch_add(1, Ordering::Relaxed);
                });
                if round % 100 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(20)); // long enough for the members to sleep
                }
            }
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 500));
        }
    }

    #[test]
    fn jobs_may_carry_disjoint_mutable_pieces() {
        let team = Team::new(3);
        let mut data = vec![0usize; 1000];
        team.for_each(data.chunks_mut(7).enumerate(), |(i, chunk)| chunk.fill(i));
        assert!(data.iter().enumerate().all(|(at, &x)| x == at / 7));
    }

    #[test]
    fn the_members_of_a_team_get_even_shares() {
        for threads in 1..=4 {
            for rows in [1, 9, 100, 359, 700, 800, 2600, 10_000] {
                let job = rows_per_job(rows, threads, 120);
                assert!(job.is_multiple_of(10) && job <= 120, "{job}");
                let longest = rows.div_ceil(job).div_ceil(threads) * job;
                let even = rows.div_ceil(threads);
                assert!(
                    longest <= even + even / 20 + 20,
                    "{rows} rows, {threads} threads: {longest} rows for one member"
                );
            }
        }
        assert_eq!([700, 359, 10_000].map(|rows| rows_per_job(rows, 2, 120)), [120, 90, 120]);
    }

    #[test]
    fn a_barrier_holds_back_the_fast_ones() {
        let team = Team::new(3);
        let barrier = Barrier::new(3);
        let step = AtomicUsize::new(0);
        team.run(|_| {
            for round in 1..=200 {
                step.fetch_add(1, Ordering::SeqCst);
                barrier.wait();
                assert_eq!(step.load(Ordering::SeqCst), 3 * round);
                barrier.wait();
            }
        });
    }
}
