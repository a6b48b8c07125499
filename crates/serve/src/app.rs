//! What every request handler sees, and the paths.

use crate::access_log::AccessLog;
use crate::connections::{Connection, Connections};
use crate::engine::Engine;
use crate::guard::Guard;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::runs::Runs;
use crate::{Limits, api, completions, page, tokenizer};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bowline::loaded_model::LoadedModel;
use bowline::predictor::Ensemble;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// Request lines and headers may have so many bytes.
pub const HEAD_BYTES: usize = 32 << 10;

/// The server's parts.
pub struct App {
    /// The models, in the order they were given.
    pub models: Vec<ServedModel>,
    /// Where the work is done.
    pub engine: Engine,
    /// Where requests are read and answers made, away from the thread that serves all connections.
    pub answering: Handle,
    /// What is left of the memory for answers, in words and log-probabilities.
    pub answers: Arc<Semaphore>,
    /// Who may ask.
    pub guard: Guard,
    /// How much.
    pub limits: Limits,
    /// What is counted.
    pub metrics: Metrics,
    /// Where requests are written down, if they are.
    pub access_log: Option<AccessLog>,
    /// Who is connected.
    pub connections: Arc<Connections>,
    /// The runs to show, if a folder was given.
    pub runs: Option<Mutex<Runs>>,
    /// Seconds since 1970 when the server started.
    pub started: u64,
}

/// A model under the name it has here.
pub struct ServedModel {
    /// The name of its folder, made unique.
    pub name: String,
    /// The model, or several that are joined, and how they predict.
    pub ensemble: Ensemble,
    /// Whether its requests share passes.
    pub side_by_side: bool,
}

impl ServedModel {
    /// The model whose words are those of all.
    pub fn model(&self) -> &Arc<LoadedModel> {
        self.ensemble.model()
    }
}

/// A handler's view of the server.
pub type Shared = State<Arc<App>>;

impl App {
    /// The number of the model that a request names; without a name, the first.
    pub fn model(&self, name: Option<&str>) -> Result<usize, Problem> {
        let Some(name) = name else { return Ok(0) };
        self.models.iter().position(|model| model.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
            Problem::not_found(format!("there is no model `{name}` here; there is {}", names.join(", ")))
        })
    }

    /// Takes room for an answer of about so many words and log-probabilities. It is free again when the answer is sent.
    pub fn reserve(&self, items: usize) -> Result<Room, Problem> {
        self.limits.check_answer(items)?;
        let permits = u32::try_from(items).unwrap_or(u32::MAX);
        match Arc::clone(&self.answers).try_acquire_many_owned(permits) {
            Ok(permit) => Ok(Room(Arc::new(permit))),
            Err(_) => Err(Problem::busy("too many long answers are on their way already; try again in a moment")),
        }
    }

    /// The whole body of a request, within the limits of length and time.
    pub async fn body(&self, request: Request) -> Result<Bytes, Problem> {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let limit = self.limits.body_bytes;
        let announced =
            request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > limit as u64) {
            return Err(Problem::too_large(limit));
        }
        let body = Limited::new(request.into_body(), limit).collect();
        let bytes = match tokio::time::timeout(self.limits.read_time, body).await {
            Err(_) => return Err(Problem::too_slow()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Problem::too_large(limit)),
            Ok(Err(_)) => return Err(Problem::invalid("the body ended too early")),
            Ok(Ok(body)) => body.to_bytes(),
        };
        if let Some(connection) = connection {
            connection.works();
        }
        Ok(bytes)
    }

    /// The fields of a request: the JSON object in its body, or for GET what follows the question mark, as strings.
    pub async fn fields(&self, request: Request) -> Result<Map<String, Value>, Problem> {
        if request.method() == Method::GET {
            let query = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(request.uri())
                .map_err(|error| Problem::invalid(format!("the query string cannot be read: {error}")))?;
            return Ok(query.0.into_iter().map(|(name, value)| (name, Value::String(value))).collect());
        }
        let body = self.body(request).await?;
        match serde_json::from_slice(&body) {
            Ok(Value::Object(fields)) => Ok(fields),
            Ok(_) => Err(Problem::invalid("the body is not a JSON object")),
            Err(error) => Err(Problem::invalid(format!("the body is not JSON: {error}"))),
        }
    }
}

/// Room for an answer, kept with it until it is sent.
#[derive(Clone)]
pub struct Room(#[allow(dead_code, reason = "held for its Drop")] Arc<OwnedSemaphorePermit>);

impl Room {
    /// Hands the room over to an answer.
    pub fn of(self, mut response: Response) -> Response {
        response.extensions_mut().insert(self);
        response
    }
}

/// Work that is given up when nobody waits for it any more.
struct Elsewhere(JoinHandle<Response>);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer that is one JSON object.
pub fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], bytes).into_response(),
        Err(error) => Problem::internal(format!("the answer cannot be written: {error}")).into_response(),
    }
}

/// All paths.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/completions", post(completions::completions))
        .route("/v1/models", get(api::models))
        .route("/v1/models/{id}", get(api::model))
        .route("/api/next", get(api::next).post(api::next))
        .route("/api/score", get(api::score).post(api::score))
        .route("/api/neighbours", get(api::neighbours).post(api::neighbours))
        .route("/api/map", get(api::map))
        .route("/api/example", get(api::example))
        .route("/api/generate", get(api::generate).post(api::generate))
        .route("/api/runs", get(api::runs))
        .route("/tokenizer_info", get(tokenizer::info))
        .route("/tokenize", post(tokenizer::tokenize))
        .route("/detokenize", post(tokenizer::detokenize))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .route("/", get(page::index))
        .route("/page/{file}", get(page::file))
        .route("/favicon.ico", get(page::icon))
        .fallback(|| async { Problem::not_found("there is nothing at this path; docs/serve.md lists what there is") })
        .method_not_allowed_fallback(|| async { Problem::method("this path does not answer to this method") })
        .layer(middleware::from_fn_with_state(Arc::clone(&app), around))
        .with_state(app)
}

/// Refuses a head that is longer than it may be. The reader of the connection lets some more pass, if it comes at once.
fn check_head(request: &Request) -> Result<(), Problem> {
    let line = request.method().as_str().len() + request.uri().to_string().len() + " HTTP/1.1\r\n ".len();
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    let bytes = line + headers.sum::<usize>() + "\r\n".len();
    if bytes <= HEAD_BYTES { Ok(()) } else { Err(Problem::long_head(HEAD_BYTES)) }
}

/// Around every request: the checks before it, the count and the headers after it.
async fn around(State(app): Shared, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    // Only known paths are counted by name, so that nobody can fill the memory with names.
    let path = request.extensions().get::<MatchedPath>().map_or("other".to_owned(), |path| path.as_str().to_owned());
    if request.method() == Method::GET
        && let Some(connection) = request.extensions().get::<Arc<Connection>>()
    {
        connection.works();
    }
    let checked = check_head(&request).and_then(|()| app.guard.check(request.uri(), request.headers()));
    let mut response = match checked {
        Ok(()) if at_once(&path) => next.run(request).await,
        Ok(()) => {
            let mut work = Elsewhere(app.answering.spawn(next.run(request)));
            (&mut work.0).await.unwrap_or_else(|_| Problem::internal("the answer was cancelled").into_response())
        }
        Err(problem) => problem.into_response(),
    };
    app.metrics.answered(&path, response.status().as_u16(), begin.elapsed());
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", page::POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// What is answered in no time, whatever else there is to do.
fn at_once(path: &str) -> bool {
    ["/healthz", "/metrics", "/openapi.json", "/", "/page/{file}", "/favicon.ico", "other"].contains(&path)
}

async fn health(State(app): Shared) -> Response {
    if app.engine.is_alive() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the engine has stopped\n").into_response()
    }
}

/// The description of all this for programs, and for those who write them.
pub const OPENAPI: &str = include_str!("../openapi.json");

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], OPENAPI).into_response()
}

async fn metrics(State(app): Shared) -> Response {
    let models = app.models.iter().map(|model| model.name.as_str()).zip(app.engine.metrics());
    let lost = app.access_log.as_ref().map(AccessLog::lost);
    let text = app.metrics.to_text(app.connections.len(), lost, models);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], Body::from(text)).into_response()
}

#[cfg(test)]
mod tests {
    use super::OPENAPI;
    use serde_json::Value;

    /// Every path but those of the page is described, with its methods, and nothing that is not there.
    #[test]
    fn the_description_has_all_paths() {
        let described: Value = serde_json::from_str(OPENAPI).unwrap();
        assert_eq!(described["info"]["version"], env!("CARGO_PKG_VERSION"));
        let paths = described["paths"].as_object().unwrap();
        let routes = include_str!("app.rs").lines().filter_map(|line| line.trim().strip_prefix(".route(\""));
        let mut found = 0;
        for route in routes.filter(|route| !["/\"", "/page", "/favicon"].iter().any(|page| route.starts_with(page))) {
            let (path, methods) = route.split_once('"').unwrap();
            for (method, call) in [("get", "get("), ("post", "post(")] {
                assert_eq!(paths[path].get(method).is_some(), methods.contains(call), "{method} {path}");
            }
            found += 1;
        }
        assert_eq!(found, paths.len());
    }
}
