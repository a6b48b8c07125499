//! Word-level language models on ordinary CPUs.
#![forbid(unsafe_code)]

pub mod any_model;
pub mod batch;
pub mod bench;
pub mod compute;
pub mod config;
pub mod corpus;
pub mod data;
pub mod demo;
pub mod error;
pub mod eval;
pub mod event;
pub mod import;
pub mod layout;
pub mod model;
pub mod model_folder;
pub mod ngram;
pub mod onnx;
pub mod optim;
pub mod paper;
pub mod params;
pub mod predict;
pub mod predictor;
pub mod recipes;
pub mod report;
pub mod reproduce;
pub mod rng;
pub mod run;
pub mod score;
pub mod spec;
pub mod storage;
pub mod subspace;
pub mod vocabulary;
pub mod wording;

pub use error::{Error, Result};
