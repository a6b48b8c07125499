//! Server-sent events: an answer that is sent bit by bit, each bit a line `data: ...` and an empty one.

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Events that may wait for a slow client; then the sender waits too.
const WAITING: usize = 64;

/// Where events go in.
pub struct EventSender(mpsc::Sender<Bytes>);

/// Where they come out: the body of an answer.
pub struct EventStream(mpsc::Receiver<Bytes>);

impl EventStream {
    /// Both ends.
    pub fn new() -> (EventSender, EventStream) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (EventSender(sender), EventStream(receiver))
    }
}

impl EventSender {
    /// Sends an event. False if nobody listens any more.
    pub async fn send(&self, data: &impl Serialize) -> bool {
        match serde_json::to_string(data) {
            Ok(text) => self.send_text(&text).await,
            Err(_) => false,
        }
    }

    /// Sends an event, whose data must be one line.
    pub async fn send_text(&self, data: &str) -> bool {
        self.0.send(Bytes::from(format!("data: {data}\n\n"))).await.is_ok()
    }
}

impl hyper::body::Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl IntoResponse for EventStream {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], Body::new(self))
            .into_response()
    }
}
