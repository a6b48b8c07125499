//! What is wrong with a request, as the client gets it: a status and one JSON object in the form OpenAI's clients know.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    kind: &'static str,
    /// The field at fault, where there is one.
    field: Option<&'static str>,
    message: String,
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, kind, field: None, message: message.into() }
    }

    /// The request makes no sense.
    pub fn invalid(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// One field of the request makes no sense.
    pub fn field(field: &'static str, message: impl Into<String>) -> Problem {
        Problem { field: Some(field), ..Problem::invalid(format!("`{field}`: {}", message.into())) }
    }

    /// There is no such thing here.
    pub fn not_found(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found_error", message)
    }

    /// The path is known, but not with this method.
    pub fn method(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", message)
    }

    /// The key is missing or wrong.
    pub fn unauthorized() -> Problem {
        let message = "this server wants its key: send the header `Authorization: Bearer KEY`";
        Problem::new(StatusCode::UNAUTHORIZED, "authentication_error", message)
    }

    /// The request comes from where none should come.
    pub fn forbidden(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "permission_error", message)
    }

    /// The body did not arrive in time.
    pub fn too_slow() -> Problem {
        Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout_error", "the request's body did not arrive in time")
    }

    /// The body is longer than is allowed.
    pub fn too_large(limit: usize) -> Problem {
        let message = format!("the body has more than {limit} bytes, this server's limit");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", message)
    }

    /// The request line and the headers are longer than is allowed.
    pub fn long_head(limit: usize) -> Problem {
        let message = format!("the request line and headers have more than {limit} bytes, this server's limit");
        Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "invalid_request_error", message)
    }

    /// There is too much to do already.
    pub fn busy(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded_error", message)
    }

    /// Something failed on our side.
    pub fn internal(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// The object that clients get; also sent within a stream that has begun.
    pub fn to_json(&self) -> String {
        let code = self.status.as_u16();
        json!({"error": {"message": self.message, "type": self.kind, "param": self.field, "code": code}}).to_string()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.to_json()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1")),
            StatusCode::UNAUTHORIZED => headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            // The rest of the body is still on its way: the connection is of no use any more.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"))
            }
            _ => None,
        };
        response
    }
}
