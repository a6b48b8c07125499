//! Text files to ids.
