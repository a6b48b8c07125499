//! The public corpora: where they are, how to get and verify them.
//!
//! The [`catalog`](CATALOG) knows each file of a corpus by its SHA-256, and several *mirrors*: places on the network
//! that had it when this was written. No mirror is trusted. `fetch` gives a file its name only after its hash came
//! out right, so that what [`locate`] finds is the corpus that the literature means, or nothing.
//!
//! Files go to a folder of the user's own ([`Environment::corpus_folder`]), or to any other.

mod archive;
mod catalog;
mod fetch;
mod folder;
mod http;
mod verify;

pub use catalog::{CATALOG, KnownFile, Mirror, MirrorKind, PublicCorpus, by_name, half};
pub use fetch::{FetchOptions, Progress, fetch};
pub use folder::{Environment, Platform};
pub use verify::{FileCheck, FileStatus, locate, recognise, verify};

#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tests;
