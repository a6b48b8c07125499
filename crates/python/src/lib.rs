//! Bowline as a Python module.
//!
//! `load` gives a [`model::LanguageModel`]; [`kenlm`] has the classes that programs for KenLM expect; [`train`] starts and
//! resumes runs. Whatever computes does so without Python's global lock. The Python package around this module, with its
//! type stubs, is in `python/bowline`.

mod engine;
mod error;
mod kenlm;
mod model;
mod score;
mod train;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::error::Error;
    #[pymodule_export]
    use super::kenlm::{FullScoreReturn, Model, State};
    #[pymodule_export]
    use super::model::{LanguageModel, load};
    #[pymodule_export]
    use super::score::{Score, Surprisal};
    #[pymodule_export]
    use super::train::{Run, resume, train};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
