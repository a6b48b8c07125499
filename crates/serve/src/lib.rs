//! Bowline's HTTP server: the completions API of other servers, a smaller one of its own, and a page to play with.
//!
//! A request passes the checks of [`guard`](Options::api_key), is read within the [`Limits`], and becomes a job for the
//! *engine*, whose workers read the jobs that are there at the same time as batches. `docs/serve.md` describes the API.
#![forbid(unsafe_code)]

mod api;
mod app;
mod completions;
mod connections;
mod engine;
mod fields;
mod guard;
mod metrics;
mod model;
mod page;
mod problem;
mod prompt;
mod runs;
mod server;
mod stream;
mod teller;
mod tokenizer;

use app::{App, ServedModel};
use connections::Connections;
use engine::{Engine, Mind};
use guard::Guard;
use metrics::Metrics;
use model::Model;
pub use model::{Offer, Way};
use problem::Problem;
pub use runs::{Run, Runs};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use teller::Teller;
use tokio::sync::watch;

/// How much one client may take from the others.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Words of a request: those of its prompts and those to be drawn.
    pub tokens: usize,
    /// Requests that wait for the engine.
    pub queue: usize,
    /// Open connections.
    pub connections: usize,
    /// Time for a request's head, and again for its body, to arrive. An idle connection is closed after it, too.
    pub read_time: Duration,
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
            queue: 256,
            connections: 512,
            read_time: Duration::from_secs(10),
            request_time: Duration::from_secs(60),
            stop_time: Duration::from_secs(10),
        }
    }
}

impl Limits {
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
pub struct Options {
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
}

/// A server with its port, ready to run.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    engine: Vec<JoinHandle<()>>,
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
    /// Takes the models and the listener. Each model is named after its folder (or its run's). A [`Way`] must bring as
    /// many predictors as there are threads that compute.
    pub fn new(
        models: impl IntoIterator<Item = impl Into<Offer>>,
        listener: TcpListener,
        options: Options,
    ) -> std::io::Result<Server> {
        let (limits, workers) = (options.limits, options.threads.max(1));
        let mut served: Vec<ServedModel> = Vec::new();
        // What each worker predicts with.
        let mut minds: Vec<Vec<Mind>> = (0..workers).map(|_| Vec::new()).collect();
        for offer in models {
            let model = match offer.into() {
                Offer::Trained(model) => {
                    let model = Arc::new(*model);
                    minds.iter_mut().for_each(|minds| minds.push(Mind::Trained(Arc::clone(&model))));
                    Model::Trained(model)
                }
                Offer::Way(way) => {
                    let Way { model, title, details, predictors } = *way;
                    if predictors.len() != workers {
                        let problem = format!("{} predictors for {workers} threads", predictors.len());
                        return Err(std::io::Error::new(ErrorKind::InvalidInput, problem));
                    }
                    let (eos, unk) = (model.vocabulary.eos(), model.vocabulary.unk());
                    for (minds, predictor) in minds.iter_mut().zip(predictors) {
                        minds.push(Mind::Way(Teller { predictor, eos, unk }));
                    }
                    Model::Way { member: Box::new(model), title, details }
                }
            };
            let name = unused_name(&served, &name_of(model.folder()));
            served.push(ServedModel { name, model: Arc::new(model) });
        }
        let (engine, threads) = Engine::start(minds, limits.queue)?;
        let app = App {
            models: served,
            engine,
            guard: Guard { names: options.names, key: options.api_key },
            limits,
            metrics: Metrics::default(),
            connections: Arc::new(Connections::new(limits.connections, 2 * limits.request_time)),
            runs: options.runs.map(|folder| Mutex::new(Runs::new(folder))),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        };
        Ok(Server { app: Arc::new(app), listener, engine: threads, stop: watch::channel(false) })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The names of the models.
    pub fn model_names(&self) -> impl Iterator<Item = &str> {
        self.app.models.iter().map(|model| model.name.as_str())
    }

    /// To stop it while it runs.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.stop.0.clone())
    }

    /// Serves until it is stopped.
    pub fn run(self) -> std::io::Result<()> {
        let Server { app, listener, engine, stop: (_stop, stopped) } = self;
        listener.set_nonblocking(true)?;
        // One thread for all connections: it parses and prints, the work is done elsewhere.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            server::serve(app, listener, stopped).await;
            Ok::<_, std::io::Error>(())
        })?;
        runtime.shutdown_timeout(Duration::from_secs(1));
        // With the last request gone, the engine finds its queue closed.
        for worker in engine {
            let _ = worker.join();
        }
        Ok(())
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
