//! The library's errors as Python's exceptions.
//!
//! What the operating system refused is an `OSError` of the fitting kind, a path that is not there a `FileNotFoundError`,
//! and everything else a `bowline.Error`, which is a `ValueError`. The message is the library's: what is wrong, and what
//! to do next.

use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;
use std::path::Path;

pyo3::create_exception!(
    bowline,
    Error,
    PyValueError,
    "What was asked for cannot be done: a damaged model, an impossible setting, a text that cannot be read."
);

/// For `map_err`.
pub fn to_python(error: bowline::Error) -> PyErr {
    let message = error.to_string();
    let missing = |path: &Path| path.components().count() > 0 && path.try_exists().is_ok_and(|there| !there);
    match &error {
        bowline::Error::Io { path, source, .. } => match source.raw_os_error() {
            // With a number, Python chooses the kind of `OSError` by itself.
            Some(number) => PyOSError::new_err((number, message, path.clone())),
            None => PyOSError::new_err(message),
        },
        bowline::Error::Model { path, .. } | bowline::Error::Run { path, .. } if missing(path) => {
            PyFileNotFoundError::new_err(message)
        }
        bowline::Error::Corpus { path, line: None, .. } if path.is_absolute() && missing(path) => {
            PyFileNotFoundError::new_err(message)
        }
        _ => Error::new_err(message),
    }
}

/// A value that is out of its range: `ValueError`.
pub fn value(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}
