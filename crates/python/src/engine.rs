//! A loaded model with what computes for it, shared by the Python objects that use it.

use crate::error::{to_python, value};
use bowline::predictor::{Reads, Shipped};
use bowline::score::{Outlook, Reader};
use bowline::{Ensemble, LoadedModel, Session};
use bowline_kernels::{Isa, Team};
use pyo3::prelude::*;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A model, and its engine when nobody else is using it.
pub struct Shared {
    pub model: Arc<LoadedModel>,
    pub threads: usize,
    engine: Mutex<Engine>,
}

/// Threads that compute, and what reads with them.
pub struct Engine {
    /// The process whose threads these are. A forked process has only the one thread that forked.
    process: u32,
    pub team: Arc<Team>,
    pub isa: Isa,
    pub reader: Reader,
    outlook: Option<Outlook>,
    /// The ways of predicting that are stored with the model, once they were asked for.
    stored: [Option<Ensemble>; 2],
}

impl Engine {
    fn new(model: &Arc<LoadedModel>, threads: usize) -> bowline::Result<Engine> {
        let (team, isa) = (Arc::new(Team::new(threads)), Isa::detect());
        let reader = Reader::new(Arc::clone(model), &team, isa)?;
        Ok(Engine { process: std::process::id(), team, isa, reader, outlook: None, stored: [None, None] })
    }

    /// The model as it reads texts or phrases: in the way that is stored with it, or as it was trained.
    pub fn ensemble(&mut self, reads: Reads) -> bowline::Result<Ensemble> {
        let place = &mut self.stored[usize::from(reads == Reads::Phrase)];
        if let Some(ensemble) = place {
            return Ok(ensemble.clone());
        }
        let model = self.reader.model();
        let ensemble = match Shipped::load(&model.folder)? {
            Some(shipped) => shipped.ensemble(LoadedModel::load(&model.folder)?, reads)?,
            None => Ensemble::from(Arc::clone(model)),
        };
        Ok(place.insert(ensemble).clone())
    }

    /// A reader of them.
    pub fn reader_of(&mut self, reads: Reads) -> bowline::Result<Reader> {
        self.ensemble(reads)?.reader(&self.team, self.isa, None)
    }

    /// What looks at whole distributions.
    pub fn outlook(&mut self) -> bowline::Result<(&mut Reader, &mut Outlook)> {
        if self.outlook.is_none() {
            let model = self.reader.model();
            let predictor = model.predictor(&self.team, self.isa, &Default::default())?;
            self.outlook = Some(Outlook::new(predictor, &model.vocabulary));
        }
        let reader = &mut self.reader;
        let nothing = || bowline::Error::config("model", "nothing reads", "load the model again");
        self.outlook.as_mut().map(|outlook| (reader, outlook)).ok_or_else(nothing)
    }
}

impl Shared {
    pub fn load(py: Python<'_>, path: &Path, threads: Option<usize>) -> PyResult<Arc<Shared>> {
        let threads = self::threads(threads)?;
        let load = || {
            let model = Arc::new(LoadedModel::load(path)?);
            let engine = Engine::new(&model, threads)?;
            Ok(Arc::new(Shared { model, threads, engine: Mutex::new(engine) }))
        };
        py.detach(load).map_err(to_python)
    }

    /// Does some work without the global lock. Threads of Python that ask the same model wait for each other here.
    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Engine) -> bowline::Result<T> + Send,
    ) -> PyResult<T> {
        let locked = || {
            let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            if engine.process != std::process::id() {
                let new = Engine::new(&self.model, self.threads)?;
                // To end the threads of the parent is not for its child.
                std::mem::forget(std::mem::replace(&mut *engine, new));
            }
            work(&mut engine)
        };
        py.detach(locked).map_err(to_python)
    }
}

/// As many threads as asked for, but not so many that they would get in each other's way.
pub fn threads(asked: Option<usize>) -> PyResult<usize> {
    let cores = Session::default().threads;
    match asked {
        None => Ok(cores),
        Some(0) => Err(value("threads: 0 is impossible; 1 or more, or None for all cores")),
        Some(asked) => Ok(asked.min((2 * cores).max(4))),
    }
}
