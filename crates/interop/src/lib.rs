//! Models and runs for other programs, and models of other programs.
//!
//! [`import`] makes a model folder from the weights of a PyTorch word model, [`onnx`] writes a model as an ONNX file,
//! [`huggingface`] as a folder for transformers, and [`tensorboard`] writes the curves of a run for TensorBoard. ONNX and
//! TensorBoard files are made of protobuf messages (`protobuf`).
#![forbid(unsafe_code)]

pub mod huggingface;
pub mod import;
pub mod onnx;
mod protobuf;
pub mod tensorboard;
