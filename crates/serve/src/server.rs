//! The listener: takes connections, serves them, and stops in an orderly way.

use crate::access_log::Entry;
use crate::app::{App, HEAD_BYTES, Room, router};
use crate::connections::{Connection, Place};
use crate::patient::Patient;
use crate::problem::Problem;
use axum::Router;
use axum::body::Body;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What a client gets for whom there is no place.
fn full() -> String {
    let body = Problem::busy("too many connections; try again in a moment").to_json();
    let head =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/json";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Serves until `stop` is true, and then until what runs is done, but not for longer than the limits say.
pub async fn serve(app: Arc<App>, listener: TcpListener, mut stop: watch::Receiver<bool>) {
    let router = router(Arc::clone(&app));
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            () = asked(&mut stop) => break,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => match app.connections.admit() {
                    Some(place) => {
                        let client = Client { app: Arc::clone(&app), address: client.ip(), place };
                        tasks.spawn(connection(stream, client, router.clone(), stop.clone()));
                    }
                    None => refuse(stream),
                },
                // Most likely there are no file descriptors left. A moment later there may be.
                Err(_) => {
                    app.connections.make_room();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            },
        }
    }
    drop(listener);
    let all_done = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(app.limits.stop_time, all_done).await;
}

/// Returns when the server is asked to stop.
async fn asked(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|&stop| stop).await;
}

/// Says that there is no place, if the client can hear it at once.
fn refuse(stream: TcpStream) {
    let _ = stream.try_write(full().as_bytes());
}

/// Who is connected.
struct Client {
    app: Arc<App>,
    address: IpAddr,
    place: Place,
}

/// Serves one connection.
async fn connection(stream: TcpStream, client: Client, router: Router, mut stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let Client { app, address, place } = client;
    let limits = app.limits;
    let connection = Arc::clone(&place.connection);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        connection.waits();
        request.extensions_mut().insert(Arc::clone(&connection));
        let (mut router, connection) = (router.clone(), Arc::clone(&connection));
        let mut log = app.access_log.is_some().then(|| Logged::new(&app, address, &request));
        async move {
            use tower_service::Service;
            let mut response = router.call(request.map(Body::new)).await?;
            let room = response.extensions_mut().remove::<Room>();
            connection.works();
            let status = response.status().as_u16();
            if let Some(log) = &mut log {
                log.note(|entry| entry.status = status);
            }
            Ok::<_, std::convert::Infallible>(response.map(|body| ReplyBody { body, connection, log, _room: room }))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.read_time).max_buf_size(HEAD_BYTES).half_close(true);
    let stream = Patient::new(stream, Arc::clone(&place.connection), limits.write_time);
    let serving = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let mut stopping = false;
    loop {
        tokio::select! {
            // Bad requests and broken connections concern nobody but the client.
            _ = serving.as_mut() => return,
            () = place.connection.close.notified() => return,
            () = asked(&mut stop), if !stopping => {
                stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The status of a request whose client did not wait for the answer, as in nginx's logs.
const GONE: u16 = 499;

/// A request on its way to the access log, which it reaches when it is dropped: with the answer, or without one.
struct Logged {
    app: Arc<App>,
    began: Instant,
    entry: Option<Entry>,
}

impl Logged {
    fn new(app: &Arc<App>, client: IpAddr, request: &hyper::Request<Incoming>) -> Logged {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let (began, time) = (SystemTime::now(), Duration::ZERO);
        let entry = Entry { began, client, method, path, status: GONE, bytes: 0, time };
        Logged { app: Arc::clone(app), began: Instant::now(), entry: Some(entry) }
    }

    /// Changes what will be written.
    fn note(&mut self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = &mut self.entry {
            change(entry);
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        if let (Some(mut entry), Some(log)) = (self.entry.take(), &self.app.access_log) {
            entry.time = self.began.elapsed();
            log.add(entry);
        }
    }
}

/// The body of an answer. When it is dropped, it has been sent, and its connection waits for the next request.
struct ReplyBody {
    body: Body,
    connection: Arc<Connection>,
    /// Written down when the body is dropped.
    log: Option<Logged>,
    /// The room that the answer takes, until it is sent.
    _room: Option<Room>,
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        self.connection.waits();
    }
}

impl hyper::body::Body for ReplyBody {
    type Data = <Body as hyper::body::Body>::Data;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let (Some(log), Poll::Ready(Some(Ok(frame)))) = (&mut self.log, &polled)
            && let Some(data) = frame.data_ref()
        {
            log.note(|entry| entry.bytes += data.len() as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
