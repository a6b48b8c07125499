//! Models and runs for other programs, and models of other programs.
//!
//! [`import`] makes a model folder from the weights of a PyTorch word model, [`onnx`] writes a model as an ONNX file, and
//! [`tensorboard`] writes the curves of a run for TensorBoard. The last two are made of protobuf messages (`protobuf`).
#![forbid(unsafe_code)]

pub mod import;
pub mod onnx;
mod protobuf;
pub mod tensorboard;
