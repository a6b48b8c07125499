//! The listener: takes connections, serves them, and stops in an orderly way.

use crate::Limits;
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
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
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
                Ok((stream, _)) => match app.connections.admit() {
                    Some(place) => {
                        tasks.spawn(connection(stream, place, router.clone(), app.limits, stop.clone()));
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

/// Serves one connection.
async fn connection(stream: TcpStream, place: Place, router: Router, limits: Limits, mut stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let connection = Arc::clone(&place.connection);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        connection.waits();
        request.extensions_mut().insert(Arc::clone(&connection));
        let (mut router, connection) = (router.clone(), Arc::clone(&connection));
        async move {
            use tower_service::Service;
            let mut response = router.call(request.map(Body::new)).await?;
            let room = response.extensions_mut().remove::<Room>();
            connection.works();
            Ok::<_, std::convert::Infallible>(response.map(|body| ReplyBody { body, connection, _room: room }))
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

/// The body of an answer. When it is dropped, it has been sent, and its connection waits for the next request.
struct ReplyBody {
    body: Body,
    connection: Arc<Connection>,
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
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
