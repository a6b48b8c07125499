//! Bowline's HTTP server: the completions API of other servers, a smaller one of its own, and a page to play with.
//!
//! A request passes the checks of [`guard`](ServerOptions::api_key), is read within the [`Limits`], and becomes a job for the
//! *engine*, whose workers read the jobs that are there at the same time as batches. `docs/serve.md` describes the API.
#![forbid(unsafe_code)]

mod access_log;
mod api;
mod app;
mod completions;
mod connections;
mod engine;
mod fields;
mod guard;
mod metrics;
mod one_by_one;
mod page;
mod patient;
mod problem;
mod prompt;
mod runs;
mod server;
mod stream;
mod tokenizer;

use access_log::AccessLog;
pub use access_log::LogTarget;
use app::{App, ServedModel};
use bowline::predictor::Ensemble;
use bowline::score::Reader;
use bowline_kernels::{Isa, Team};
use connections::Connections;
use engine::Engine;
use guard::Guard;
use metrics::Metrics;
use problem::Problem;
pub use runs::{Run, Runs};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

/// Threads that read requests and make answers.
const ANSWERING: usize = 2;

/// How much one client may take from the others.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Words of a request: those of its prompts and those to be drawn.
    pub tokens: usize,
    /// Words and log-probabilities of an answer, whatever `n` and `echo` make of the prompt.
    pub answer: usize,
    /// The same of all answers that are being made or sent.
    pub answers: usize,
    /// Requests that wait for the engine.
    pub queue: usize,
    /// Open connections.
    pub connections: usize,
    /// Time for a request's head, and again for its body, to arrive. An idle connection is closed after it, too.
    pub read_time: Duration,
    /// Time in which a client must take some of its answer.
    pub write_time: Duration,
    /// Time for the answer to be ready.
    pub request_time: Duration,
    /// Time for running requests to end when the server stops.
    pub stop_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 1 << 20,
            tokens: 16_384,
            answer: 1 << 18,
            answers: 1 << 20,
            queue: 256,
            connections: 512,
            read_time: Duration::from_secs(10),
            write_time: Duration::from_secs(10),
            request_time: Duration::from_secs(60),
            stop_time: Duration::from_secs(10),
        }
    }
}

impl Limits {
    fn check_answer(&self, items: usize) -> Result<(), Problem> {
        if items <= self.answer {
            return Ok(());
        }
        let limit = self.answer;
        Err(Problem::invalid(format!(
            "the answer would have about {items} words and log-probabilities, more than the {limit} that this server \
             allows; ask for fewer prompts, `n` or `logprobs`, or without `echo`"
        )))
    }

    fn check_tokens(&self, tokens: usize) -> Result<(), Problem> {
        if tokens <= self.tokens {
            return Ok(());
        }
        let limit = self.tokens;
        Err(Problem::invalid(format!(
            "{tokens} words in one request are more than the {limit} that this server allows"
        )))
    }
}

/// How to serve.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// What clients must know, if not everybody may ask.
    pub api_key: Option<String>,
    /// Names under which the server may be reached, besides addresses and `localhost`.
    pub names: Vec<String>,
    /// A folder with runs whose curves are shown.
    pub runs: Option<PathBuf>,
    /// How much one client may take.
    pub limits: Limits,
    /// Threads that compute.
    pub threads: usize,
    /// Where a line is written for each request.
    pub access_log: Option<LogTarget>,
}

/// A server with its port, ready to run.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    engine: Vec<JoinHandle<()>>,
    log: Option<JoinHandle<()>>,
    answering: Runtime,
    stop: (watch::Sender<bool>, watch::Receiver<bool>),
}

/// Stops a server from elsewhere.
#[derive(Clone, Debug)]
pub struct StopHandle(watch::Sender<bool>);

impl StopHandle {
    /// Takes no more connections, lets what runs come to its end, and returns from [`Server::run`].
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Takes the models and the listener. Each model is named after its folder (or its run's). Requests to a network as it
    /// was trained share passes through it; those to anything else are answered one by one, each beginning with nothing
    /// read.
    pub fn new(
        models: impl IntoIterator<Item = impl Into<Ensemble>>,
        listener: TcpListener,
        options: ServerOptions,
    ) -> bowline::Result<Server> {
        let (limits, workers) = (options.limits, options.threads.max(1));
        let mut served: Vec<ServedModel> = Vec::new();
        let mut readers: Vec<Vec<Reader>> = (0..workers).map(|_| Vec::new()).collect();
        for ensemble in models {
            let ensemble: Ensemble = ensemble.into();
            // One for each worker: none waits for another.
            for readers in &mut readers {
                readers.push(ensemble.reader(&Arc::new(Team::new(1)), Isa::detect(), None)?);
            }
            let name = unused_name(&served, &name_of(&ensemble.model().folder));
            let side_by_side = readers[0].last().is_some_and(Reader::is_side_by_side);
            served.push(ServedModel { name, ensemble, side_by_side });
        }
        let (access_log, log) = options.access_log.map(AccessLog::start).transpose()?.unzip();
        let no_thread = || bowline::Error::io("the server", "start a thread");
        let (engine, threads) = Engine::start(readers, limits.queue).map_err(no_thread())?;
        let answering = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(ANSWERING)
            .thread_name("answers")
            .enable_time()
            .build()
            .map_err(no_thread())?;
        let app = App {
            answering: answering.handle().clone(),
            answers: Arc::new(Semaphore::new(limits.answers.min(Semaphore::MAX_PERMITS))),
            models: served,
            engine,
            guard: Guard { names: options.names, key: options.api_key },
            limits,
            metrics: Metrics::default(),
            access_log,
            connections: Arc::new(Connections::new(limits.connections, 2 * limits.request_time)),
            runs: options.runs.map(|folder| Mutex::new(Runs::new(folder))),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        };
        Ok(Server { app: Arc::new(app), listener, engine: threads, log, answering, stop: watch::channel(false) })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The names of the models.
    pub fn model_names(&self) -> impl Iterator<Item = &str> {
        self.app.models.iter().map(|model| model.name.as_str())
    }

    /// The models, and whether their requests share passes.
    pub fn models(&self) -> impl Iterator<Item = (&Ensemble, bool)> {
        self.app.models.iter().map(|served| (&served.ensemble, served.side_by_side))
    }

    /// To stop it while it runs.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.stop.0.clone())
    }

    /// Answers a POST request without a connection, and says with which status: for what is to be asked a million times.
    pub fn answer(&self, path: &str, body: Vec<u8>) -> u16 {
        use tower_service::Service;
        let request = axum::http::Request::post(path).header("host", "localhost").body(axum::body::Body::from(body));
        let Ok(request) = request else { return 0 };
        let mut router = app::router(Arc::clone(&self.app));
        self.answering.block_on(async {
            let response = router.call(request).await.unwrap_or_else(|never| match never {});
            let (head, body) = response.into_parts();
            // To the end: an answer may still go wrong while it is sent.
            let _ = http_body_util::BodyExt::collect(body).await;
            head.status.as_u16()
        })
    }

    /// Serves until it is stopped.
    pub fn run(self) -> std::io::Result<()> {
        let Server { app, listener, engine, log, answering, stop: (_stop, stopped) } = self;
        listener.set_nonblocking(true)?;
        let (stop_engine, stop_time) = (app.engine.stop_handle(), app.limits.stop_time);
        // One thread for all connections: it only moves bytes. Requests are read and answers made elsewhere.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            server::serve(app, listener, stopped).await;
            Ok::<_, std::io::Error>(())
        })?;
        // What is not done by now is not waited for: its requests go, and with them the reason to go on.
        stop_engine.stop();
        runtime.shutdown_timeout(Duration::from_millis(100));
        answering.shutdown_timeout(Duration::from_millis(100));
        join_within(engine.into_iter().chain(log), stop_time.min(Duration::from_secs(2)));
        Ok(())
    }
}

/// Joins the workers. One that does not notice in time that it should stop is left behind: it ends with the process.
fn join_within(workers: impl Iterator<Item = JoinHandle<()>>, time: Duration) {
    let begin = Instant::now();
    for worker in workers {
        while !worker.is_finished() && begin.elapsed() < time {
            std::thread::sleep(Duration::from_millis(1));
        }
        if worker.is_finished() {
            let _ = worker.join();
        }
    }
}

/// A model in a run's `best/` has the run's name.
fn name_of(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let own = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let parent = folder.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match own {
        Some(name) if name == bowline::model_folder::BEST => parent.unwrap_or(name),
        Some(name) => name,
        None => "model".to_owned(),
    }
}

fn unused_name(served: &[ServedModel], name: &str) -> String {
    let is_used = |name: &str| served.iter().any(|other| other.name == name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_used(name)).unwrap_or_default()
}
