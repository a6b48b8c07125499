//! The built-in corpus.
