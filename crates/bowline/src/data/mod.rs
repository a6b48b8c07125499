//! The public corpora: where they are, how to get and verify them.
