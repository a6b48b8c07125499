//! Word-level language models on CPUs: train, evaluate, generate, mix.
//!
//! A *run* trains a model on a text and leaves a folder; [`LoadedModel`] is the model of such a folder, a network or
//! n-grams; a [`Reader`] scores sentences with it and continues texts.
//!
//! ```
//! use bowline::{Config, LoadedModel, ModelKind, Reader, Session, Size, start};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (text, run) = (folder.path().join("text.txt"), folder.path().join("run"));
//! # std::fs::write(&text, "the cat sat on the mat\nthe dog ran to the cat\n".repeat(200))?;
//! // A text with one sentence per line, and a small network. A single text is split into train, valid and test.
//! let settings = ["hidden=32", "epochs=12", "batch=4"].map(str::to_owned);
//! let config = Config::new(Size::Small, ModelKind::Real, &text.to_string_lossy()).with(&settings)?;
//! start(&run, &config, Session::default(), &mut ())?;
//!
//! // How likely is a sentence? Natural logarithms, word by word, the end of the sentence last.
//! let mut reader = Reader::of(LoadedModel::load(&run)?)?;
//! let likely = reader.score_line("the cat sat on the mat")?;
//! let unlikely = reader.score_line("mat the on sat cat the")?;
//! assert_eq!(likely.logprobs.len(), 7);
//! assert!(likely.logprob > unlikely.logprob);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | train a network | [`Config`], [`start`], [`resume`] |
//! | estimate n-grams | [`NgramConfig`], [`start_ngram`] |
//! | watch a run | [`Watch`], which receives its [`Event`]s |
//! | load any model | [`LoadedModel`] |
//! | score sentences, continue texts | [`Reader`] |
//! | add a cache or dynamic evaluation, mix models | [`Ensemble`] |
//! | write your own predictor | [`Predictor`] |
//!
//! `examples/` has short programs. A run is determined by its settings and its seed: it gives the same bits at any number of
//! threads, and after any kill and resume. The library never prints.
//!
//! The modules that this page does not list are public for Bowline's own crates and tests, and may change at any time.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod batch;
#[doc(hidden)]
pub mod bench;
pub mod budget;
#[doc(hidden)]
pub mod characters;
pub mod classes;
pub mod compute;
pub mod config;
pub mod corpus;
#[doc(hidden)]
pub mod data;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod eval;
#[doc(hidden)]
pub mod event;
pub mod explain;
#[doc(hidden)]
pub mod layout;
#[doc(hidden)]
pub mod loaded_model;
#[doc(hidden)]
pub mod model;
#[doc(hidden)]
pub mod model_folder;
pub mod ngram;
#[doc(hidden)]
pub mod optim;
#[doc(hidden)]
pub mod paper;
#[doc(hidden)]
pub mod params;
pub mod predictor;
pub mod recipes;
#[doc(hidden)]
pub mod rng;
pub mod run;
pub mod score;
#[doc(hidden)]
pub mod spec;
#[doc(hidden)]
pub mod storage;
#[doc(hidden)]
pub mod subspace;
#[doc(hidden)]
pub mod topics;
pub mod vocabulary;
#[doc(hidden)]
pub mod wording;

pub use config::{Config, ModelKind, Size};
pub use error::{Error, Result};
pub use event::Event;
pub use loaded_model::LoadedModel;
pub use predictor::{Ensemble, Predictor};
pub use run::{NgramConfig, Session, Summary, Watch, resume, start, start_ngram};
pub use score::Reader;
pub use vocabulary::Vocabulary;
