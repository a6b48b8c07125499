//! Words and their ids.
