//! Word-level language models on ordinary CPUs.
#![forbid(unsafe_code)]

pub mod architecture;
pub mod batch;
pub mod bench;
pub mod config;
pub mod corpus;
pub mod data;
pub mod error;
pub mod eval;
pub mod event;
pub mod loaded_model;
pub mod model;
pub mod model_folder;
pub mod ngram;
pub mod optim;
pub mod paper;
pub mod params;
pub mod predictor;
pub mod rng;
pub mod run;
pub mod score;
pub mod storage;
pub mod subspace;
pub mod vocabulary;
pub mod wording;

pub use error::{Error, Result};
