//! A few threads, the *workers*, do all the work with the models; requests wait for them in a queue of limited length.
//!
//! A *job* is one request: some *sequences* to be read, each with questions about its words, and continuations to be
//! drawn from its end. A worker works in *rounds*. In a round it takes its share of what has arrived, reads it as one
//! batch, and then draws one word for every continuation it has. Each worker goes its own way: no core waits for another
//! in the middle of a batch, and while one answers, others read. So a long generation does not hold up a short question, and many
//! clients at the same time share passes through the network. What a client gets does not depend on who else asks: the
//! [`Reader`] gives the same bits in any company.
//!
//! What does not predict as a network was trained has no batches: a worker answers a job about it from beginning to end
//! ([`one_by_one`]).

use crate::metrics::ModelMetrics;
use crate::one_by_one;
use crate::problem::Problem;
use bowline::corpus::Stranger;
use bowline::predictor::is_logprob;
use bowline::score::{Continuation, Memory, Passage, Reader, Reading, Sampling, Word};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender, error::TrySendError};

/// A round reads about this many words. More would make the continuations wait, fewer would make small batches.
const WORDS_OF_ROUND: usize = 4096;
/// Continuations that are drawn at the same time; the others wait for a place.
const MOST_DRAWN: usize = 128;

/// Parts of an answer that may wait for a client that does not take them, besides those about the prompts. Then its
/// continuations wait, too.
const MOST_UNTAKEN: usize = 2 * MOST_DRAWN;

/// What a request wants from a model.
#[derive(Debug)]
pub struct Job {
    /// The model's number.
    pub model: usize,
    /// The sequences, in the request's order.
    pub sequences: Vec<Sequence>,
}

/// Words to be read, and what is to be drawn after them.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The words to be read, an `<eos>` first.
    pub inputs: Vec<u32>,
    /// Those of them that the vocabulary lacks.
    pub strangers: Vec<Stranger>,
    /// Whether the probability of each input but the first is wanted.
    pub score: bool,
    /// How many of the likeliest words are wanted beside each of them.
    pub top: usize,
    /// What is to be drawn.
    pub draws: Vec<Draw>,
}

/// One continuation of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// How its words are chosen.
    pub sampling: Sampling,
    /// What chance follows from.
    pub seed: u64,
    /// Tells continuations with the same seed apart.
    pub sample: u64,
    /// At most so many words, and at least one.
    pub words: usize,
    /// How many of the likeliest words are wanted beside each of them.
    pub top: usize,
}

/// A part of the answer. When there are no more, the sender is gone.
#[derive(Debug)]
pub enum Part {
    /// What was found out about a sequence: as many log-probabilities as it has words after the first.
    Read(usize, Reading),
    /// The next word of a sequence's continuation: (sequence, draw, word). `<eos>` is the last one.
    Word(usize, usize, Word),
}

impl Part {
    /// Whether all probabilities in it can be some.
    pub fn is_sound(&self) -> bool {
        match self {
            Part::Read(_, reading) => reading.logprobs.iter().all(|&x| is_logprob(x)),
            Part::Word(_, _, word) => is_logprob(word.logprob),
        }
    }
}

/// The place where jobs are handed in.
#[derive(Debug)]
pub struct Engine {
    queue: Sender<Waiting>,
    metrics: Arc<Vec<ModelMetrics>>,
    stop: StopEngine,
    /// Of each model, whether its jobs are answered one by one.
    one_by_one: Vec<bool>,
}

/// Has the workers leave everything as it is.
#[derive(Clone, Debug, Default)]
pub struct StopEngine(Arc<AtomicBool>);

impl StopEngine {
    /// From now on.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A job and where its answer goes.
pub struct Waiting {
    /// What is wanted.
    pub job: Job,
    /// Where the answer goes.
    pub reply: Sender<Part>,
    /// Whether the whole server is asked to stop.
    stop: Arc<AtomicBool>,
    /// Counts the job as long as it is there.
    _place: Counted,
}

impl Waiting {
    /// Whether nobody wants to hear the answer any more.
    pub fn given_up(&self) -> bool {
        self.reply.is_closed() || self.stop.load(Ordering::Relaxed)
    }

    /// Hands out a part of the answer; false if nobody wants it. There is room for it: see [`Engine::submit`].
    pub fn say(&self, part: Part) -> bool {
        self.reply.try_send(part).is_ok()
    }
}

/// One more in a gauge, until it is dropped.
struct Counted(Arc<Vec<ModelMetrics>>, usize);

impl Counted {
    fn gauge(&self) -> &AtomicU64 {
        &self.0[self.1].queued
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge().fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// Starts a worker for each element of `workers`, its readers of the models; they end when the engine is dropped and
    /// the last job is done. At most `places` jobs wait. Each worker has the models packed in its own way, so memory grows
    /// with their number.
    pub fn start(workers: Vec<Vec<Reader>>, places: usize) -> std::io::Result<(Engine, Vec<JoinHandle<()>>)> {
        let (queue, arriving) = mpsc::channel(places.max(1));
        let models = workers.first().map_or(0, Vec::len);
        let metrics: Arc<Vec<ModelMetrics>> = Arc::new((0..models).map(|_| ModelMetrics::default()).collect());
        let one_by_one: Vec<bool> =
            workers.first().into_iter().flatten().map(|reader| !reader.is_side_by_side()).collect();
        let arriving = Arriving { jobs: Mutex::new(arriving), workers: workers.len(), one_by_one: one_by_one.clone() };
        let arriving = Arc::new(arriving);
        let start = |(number, readers): (usize, Vec<Reader>)| {
            let (counted, arriving) = (Arc::clone(&metrics), Arc::clone(&arriving));
            std::thread::Builder::new().name(format!("engine {}", number + 1)).spawn(move || {
                Worker { readers, metrics: counted, waiting: VecDeque::new(), drawing: Vec::new() }.run(&arriving);
            })
        };
        let threads = workers.into_iter().enumerate().map(start).collect::<std::io::Result<Vec<_>>>()?;
        Ok((Engine { queue, metrics, stop: StopEngine::default(), one_by_one }, threads))
    }

    /// Hands a job in. The parts of the answer come as they are found; to give up, drop the receiver.
    pub fn submit(&self, job: Job) -> Result<Receiver<Part>, Problem> {
        // What is answered by itself must not wait for its client: the worker has others. Its parts all have a place.
        let drawn = |s: &Sequence| s.draws.iter().map(|draw| draw.words).sum::<usize>();
        let untaken = if self.one_by_one[job.model] { job.sequences.iter().map(drawn).sum() } else { MOST_UNTAKEN };
        let (reply, parts) = mpsc::channel(job.sequences.len() + untaken);
        let place = Counted(Arc::clone(&self.metrics), job.model);
        place.gauge().fetch_add(1, Ordering::Relaxed);
        let refused = &self.metrics[job.model].refused;
        match self.queue.try_send(Waiting { job, reply, stop: Arc::clone(&self.stop.0), _place: place }) {
            Ok(()) => Ok(parts),
            Err(TrySendError::Full(_)) => {
                refused.fetch_add(1, Ordering::Relaxed);
                Err(Problem::busy("too many requests are waiting already; try again in a moment"))
            }
            Err(TrySendError::Closed(_)) => Err(Problem::internal("the engine has stopped")),
        }
    }

    /// To stop the workers in the middle of what they do.
    pub fn stop_handle(&self) -> StopEngine {
        self.stop.clone()
    }

    /// Whether the thread is there.
    pub fn is_alive(&self) -> bool {
        !self.queue.is_closed()
    }

    /// The counters of each model.
    pub fn metrics(&self) -> &[ModelMetrics] {
        &self.metrics
    }
}

/// The end of the queue that the workers share.
struct Arriving {
    jobs: Mutex<Receiver<Waiting>>,
    workers: usize,
    /// Of each model, whether its jobs are answered one by one.
    one_by_one: Vec<bool>,
}

impl Arriving {
    /// Moves a worker's share of what has arrived to `waiting`, about a round's words at most, so that the queue's limit
    /// holds. A job that is answered by itself ends the share: what comes after it is for who is free sooner. One with
    /// nothing to do waits for a job; false if there will be none any more.
    fn take(&self, idle: bool, waiting: &mut VecDeque<Waiting>) -> bool {
        let mut jobs = match self.jobs.try_lock() {
            Ok(jobs) => jobs,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another one is waiting for a job.
            Err(TryLockError::WouldBlock) if !idle => return true,
            Err(TryLockError::WouldBlock) => self.jobs.lock().unwrap_or_else(PoisonError::into_inner),
        };
        if idle {
            match jobs.blocking_recv() {
                Some(job) => waiting.push_back(job),
                None => return false,
            }
        }
        let words = |w: &Waiting| w.job.sequences.iter().map(|s| s.inputs.len()).sum::<usize>();
        let mut ready: usize = waiting.iter().map(words).sum();
        let mut share = jobs.len().div_ceil(self.workers);
        while ready < WORDS_OF_ROUND
            && share > 0
            && !waiting.back().is_some_and(|last| self.one_by_one[last.job.model])
            && let Ok(job) = jobs.try_recv()
        {
            ready += words(&job);
            share -= 1;
            waiting.push_back(job);
        }
        true
    }
}

/// A worker's own things.
struct Worker {
    readers: Vec<Reader>,
    metrics: Arc<Vec<ModelMetrics>>,
    waiting: VecDeque<Waiting>,
    drawing: Vec<Drawing>,
}

/// A continuation at work.
struct Drawing {
    model: usize,
    sequence: usize,
    draw: usize,
    text: Text,
    words_left: usize,
    top: usize,
    /// Its job: the answer goes on as long as one of its continuations does.
    job: Arc<Waiting>,
}

/// A continuation has a memory of its own from its first word on: of those that wait there can be many.
enum Text {
    Waits(Arc<Memory>, Draw),
    Goes(Continuation),
}

impl Text {
    fn go(&mut self) -> &mut Continuation {
        if let Text::Waits(memory, how) = self {
            *self = Text::Goes(Continuation::after(Memory::clone(memory), how.sampling, how.seed, how.sample));
        }
        match self {
            Text::Goes(continuation) => continuation,
            Text::Waits(..) => unreachable!("it has only just begun"),
        }
    }
}

impl Worker {
    fn run(mut self, arriving: &Arriving) {
        while arriving.take(self.waiting.is_empty() && self.drawing.is_empty(), &mut self.waiting) {
            if self.drawing.len() < MOST_DRAWN {
                let jobs = self.waiting.drain(..).filter(|w| !w.given_up()).map(Arc::new).collect::<Vec<_>>();
                for (model, (reader, metrics)) in self.readers.iter_mut().zip(self.metrics.iter()).enumerate() {
                    let jobs: Vec<_> = jobs.iter().filter(|w| w.job.model == model).collect();
                    match reader.is_side_by_side() {
                        _ if jobs.is_empty() => {}
                        true => read(reader, metrics, &mut self.drawing, &jobs),
                        false => jobs.iter().for_each(|job| one_by_one::answer(reader, job, metrics)),
                    }
                }
            }
            let drawn: usize = (0..self.readers.len()).map(|model| self.draw(model)).sum();
            self.drawing.retain(|drawing| drawing.words_left > 0 && !drawing.job.given_up());
            if drawn == 0 && !self.drawing.is_empty() {
                // All that is left to do is for clients who have not taken what there is.
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// Draws one word for each continuation of a model whose client takes them; says how many.
    fn draw(&mut self, model: usize) -> usize {
        let (reader, metrics) = (&mut self.readers[model], &self.metrics[model]);
        let eos = reader.model().vocabulary.eos();
        let wanted = |d: &&mut Drawing| d.model == model && d.job.reply.capacity() >= MOST_DRAWN;
        let mut mine: Vec<&mut Drawing> = self.drawing.iter_mut().filter(wanted).collect();
        // The first ones in line: those behind them wait until one is done.
        mine.truncate(MOST_DRAWN);
        if mine.is_empty() {
            return 0;
        }
        let top = mine.iter().map(|d| d.top).max().unwrap_or(0);
        let mut continuations: Vec<&mut Continuation> = mine.iter_mut().map(|d| d.text.go()).collect();
        let words = reader.extend(&mut continuations, top);
        metrics.batches.fetch_add(1, Ordering::Relaxed);
        metrics.generated.fetch_add(words.len() as u64, Ordering::Relaxed);
        let drawn = words.len();
        for (drawing, mut word) in mine.into_iter().zip(words) {
            drawing.words_left = if word.id == eos { 0 } else { drawing.words_left - 1 };
            word.likeliest.truncate(drawing.top);
            let _ = drawing.job.say(Part::Word(drawing.sequence, drawing.draw, word));
        }
        drawn
    }
}

/// Reads the sequences of some jobs as one batch, and begins their continuations.
fn read(reader: &mut Reader, metrics: &ModelMetrics, drawing: &mut Vec<Drawing>, jobs: &[&Arc<Waiting>]) {
    let sequences: Vec<(&Arc<Waiting>, usize, &Sequence)> = jobs
        .iter()
        .flat_map(|job| job.job.sequences.iter().enumerate().map(move |(number, s)| (*job, number, s)))
        .collect();
    // After each word but the last comes the next one. The last one is read only where something is to follow, which
    // nobody knows yet; what is asked about it is thrown away.
    let targets: Vec<Vec<u32>> =
        sequences.iter().map(|(_, _, s)| s.inputs.iter().skip(1).copied().chain([0]).collect()).collect();
    let passages: Vec<Passage<'_>> = sequences
        .iter()
        .zip(&targets)
        .map(|((_, _, s), targets)| {
            let (draws, last) = (!s.draws.is_empty(), s.inputs.len() - 1);
            let inputs = if draws { &s.inputs[..] } else { &s.inputs[..last] };
            let targets = if s.score { &targets[..inputs.len()] } else { &[] };
            Passage { from: None, inputs, strangers: &s.strangers, targets, top: s.top, keep: draws }
        })
        .collect();
    // The batch is read to its end as long as one client waits for it.
    let Some(readings) = reader.read_until(&passages, &|| jobs.iter().all(|job| job.given_up())) else { return };
    metrics.batches.fetch_add(1, Ordering::Relaxed);
    for ((job, number, sequence), mut reading) in sequences.into_iter().zip(readings) {
        if let Some(memory) = reading.memory.take().map(Arc::new) {
            for (draw, how) in sequence.draws.iter().enumerate() {
                drawing.push(Drawing {
                    model: job.job.model,
                    sequence: number,
                    draw,
                    text: Text::Waits(Arc::clone(&memory), *how),
                    words_left: how.words,
                    top: how.top,
                    job: Arc::clone(job),
                });
            }
        }
        reading.logprobs.truncate(sequence.inputs.len() - 1);
        reading.likeliest.truncate(sequence.inputs.len() - 1);
        metrics.scored.fetch_add(reading.logprobs.len() as u64, Ordering::Relaxed);
        // Who has gone is found out when the continuations are looked through.
        let _ = job.say(Part::Read(number, reading));
    }
}
