//! Runs, started and resumed from Python.
//!
//! A run works without the global lock. It takes the lock for a moment to hand over an event, and ten times a second to
//! ask for signals. Ctrl-C, or an exception in `on_event`, stops the run as Ctrl-C stops `bowline train`: everything is
//! saved, and `resume` continues to the same bits.

use crate::engine;
use crate::error::{to_python, value};
use crate::model::{self, LanguageModel};
use bowline::budget::{self, Budget};
use bowline::config::{Config, DataConfig, Size};
use bowline::event::{Event, Progress};
use bowline::recipes::Recipe;
use bowline::run::fit::{self, Choice};
use bowline::run::{DEFAULT_ORDER, Outcome, recorded_isa};
use bowline::{NgramConfig, Session, Watch, data};
use bowline_kernels::Isa;
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often Python is asked for signals.
const PULSE: Duration = Duration::from_millis(100);

/// Trains a model on a text and leaves a run in the folder `out`.
///
/// `data` is a text file with a sentence a line, a folder with train, valid and test files, `ptb`, `wikitext-2` or `demo`.
/// `budget` is the time there is (`"90s"`, `"10m"`, `"3h"`): network, vocabulary and schedule are chosen to fit, and the model
/// gets n-grams, a cache and dynamic evaluation of its own. Without it, and without `model`, `size` or `epochs`, the time goes
/// by the size of the text. `model` is a recipe or `kn`, an n-gram model. `size`, `tokenize`, `vocab_size`,
/// `min_count`, `vocab`, `second_training`, and for `kn` `order` and `prune`, are the options of `bowline train`. Every other
/// name is a setting (`bowline settings` lists them), two underscores for a dot: `epochs=3`, `hidden=200`,
/// `checkpoint__every_seconds=60`.
///
/// `on_event` hears what the run logs: dicts, the lines of its `events.jsonl`. Ctrl-C saves, and then raises
/// `KeyboardInterrupt`; `bowline.resume(out)` goes on from there.
///
/// >>> import bowline
/// >>> run = bowline.train("cats.txt", "runs/dogs", hidden=16, epochs=2, batch=4)
/// >>> run.epochs
/// 2
/// >>> run.load()
/// <LanguageModel real: 13 words, from 'runs/dogs'>
#[pyfunction]
#[pyo3(
    signature = (data, out, *, on_event=None, threads=None, **settings),
    text_signature = "(data, out, *, budget=None, model=None, size=None, on_event=None, threads=None, tokenize=False, \
                      vocab_size=None, min_count=None, vocab=None, second_training=False, order=None, prune=None, \
                      **settings)"
)]
pub fn train(
    py: Python<'_>,
    data: PathBuf,
    out: PathBuf,
    on_event: Option<Py<PyAny>>,
    threads: Option<usize>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Run> {
    let request = Request::read(data, settings)?;
    let session = Session { threads: engine::threads(threads)?, isa: Isa::detect() };
    work(py, out, on_event, move |out, watch| match request.model.as_deref().unwrap_or("real") {
        _ if request.is_budgeted() => budget::start(out, &request.budgeted(watch)?, session, watch),
        "kn" => bowline::start_ngram(out, &request.ngrams(watch)?, session, watch),
        _ => bowline::start(out, &request.network(watch)?, session, watch),
    })
}

/// Goes on with a run that was stopped or killed; the result of one that is over.
///
/// >>> import bowline
/// >>> bowline.resume("runs/cats").epochs
/// 12
#[pyfunction]
#[pyo3(signature = (run, *, on_event=None, threads=None))]
pub fn resume(py: Python<'_>, run: PathBuf, on_event: Option<Py<PyAny>>, threads: Option<usize>) -> PyResult<Run> {
    // Another instruction set would give other last bits.
    let isa = recorded_isa(&run).and_then(|name| Isa::available().into_iter().find(|isa| isa.name() == name));
    let session = Session { threads: engine::threads(threads)?, isa: isa.unwrap_or_else(Isa::detect) };
    work(py, run, on_event, move |run, watch| bowline::resume(run, session, watch))
}

/// A run that is over: its folder, and what came out.
#[pyclass(frozen, module = "bowline")]
pub struct Run {
    path: PathBuf,
    summary: bowline::Summary,
}

#[pymethods]
impl Run {
    /// The run's folder.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Validation perplexity of the best model.
    #[getter]
    fn valid(&self) -> f64 {
        self.summary.valid
    }

    /// Test perplexity of the best model.
    #[getter]
    fn test(&self) -> f64 {
        self.summary.test
    }

    /// Epochs done.
    #[getter]
    fn epochs(&self) -> u32 {
        self.summary.epochs
    }

    /// The epoch that the best model is from.
    #[getter]
    fn best_epoch(&self) -> u32 {
        self.summary.best_epoch
    }

    /// All of `summary.json`.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_object(py, &serde_json::to_string(&self.summary))
    }

    /// Loads the best model.
    #[pyo3(signature = (*, threads=None))]
    fn load(&self, py: Python<'_>, threads: Option<usize>) -> PyResult<LanguageModel> {
        model::load(py, self.path.clone(), threads)
    }

    fn __repr__(&self) -> String {
        let (path, bowline::Summary { model, valid, test, .. }) = (self.path.display(), &self.summary);
        format!("<Run '{path}': {model}, valid perplexity {valid:.2}, test perplexity {test:.2}>")
    }
}

/// What is asked for by name.
struct Request {
    data: String,
    budget: Option<Budget>,
    model: Option<String>,
    size: Option<Size>,
    text: DataConfig,
    /// Whether a vocabulary was chosen.
    chosen: bool,
    second_training: bool,
    order: Option<usize>,
    prune: Option<Vec<u32>>,
    settings: Vec<String>,
}

impl Request {
    fn read(data: PathBuf, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
        let data = data.into_os_string().into_string().map_err(|_| value("data: the path is not UTF-8"))?;
        let mut request = Request {
            data: fit::source(&data),
            budget: None,
            model: None,
            size: None,
            text: DataConfig::default(),
            chosen: false,
            second_training: false,
            order: None,
            prune: None,
            settings: Vec::new(),
        };
        for (name, value) in settings.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
            request.take(&name.extract::<String>()?, &value)?;
        }
        Ok(request)
    }

    fn take(&mut self, name: &str, given: &Bound<'_, PyAny>) -> PyResult<()> {
        match name {
            "budget" => {
                let text: String = given.extract()?;
                self.budget = Some(text.parse::<Budget>().map_err(to_python)?);
            }
            "model" => self.model = Some(given.extract()?),
            "size" => {
                let name: String = given.extract()?;
                let sizes = [Size::Small, Size::Medium, Size::Large];
                let size = sizes.into_iter().find(|size| size.name() == name);
                self.size = Some(size.ok_or_else(|| value(format!("size: {name:?} is none of small, medium, large")))?);
            }
            "tokenize" => self.text.tokenize = given.extract()?,
            "vocab_size" => (self.text.vocab_size, self.chosen) = (given.extract()?, true),
            "min_count" => (self.text.min_count, self.chosen) = (given.extract()?, true),
            "vocab" => {
                let path: PathBuf = given.extract()?;
                let path = std::path::absolute(&path).unwrap_or(path).display().to_string();
                (self.text.vocabulary, self.chosen) = (path, true);
            }
            "second_training" => self.second_training = given.extract()?,
            "order" => self.order = Some(given.extract()?),
            "prune" => self.prune = Some(given.extract()?),
            name => self.settings.push(format!("{}={}", name.replace("__", "."), setting(name, given)?)),
        }
        Ok(())
    }

    /// Whether the run has a budget: asked for, or because nothing says what else to do.
    fn is_budgeted(&self) -> bool {
        let network = self.model.is_some() || self.size.is_some() || self.order.is_some() || self.prune.is_some();
        let epochs = self.settings.iter().any(|setting| setting.starts_with("epochs="));
        self.budget.is_some() || !(network || epochs || self.second_training)
    }

    fn budgeted(&self, watch: &mut Watcher) -> bowline::Result<budget::Request> {
        if self.model.is_some() || self.size.is_some() || self.second_training {
            let problem = "with a time, the network is chosen for you";
            return Err(bowline::Error::config("budget", problem, "one of budget and model (or size)"));
        }
        let mut data = DataConfig { source: self.data.clone(), ..self.text.clone() };
        let mut choices = Vec::new();
        fit::tokenise(&mut data, &mut choices)?;
        fit::data(&mut data, self.chosen, &mut choices)?;
        watch.choices(&choices);
        let seed = self.settings.iter().find_map(|setting| setting.strip_prefix("seed=")?.parse().ok()).unwrap_or(1);
        let (budget, settings) = (self.budget.unwrap_or(Budget::Auto), self.settings.clone());
        Ok(budget::Request { data, budget, seed, precision: None, settings })
    }

    fn network(&self, watch: &mut Watcher) -> bowline::Result<Config> {
        if self.order.is_some() || self.prune.is_some() {
            let name = if self.order.is_some() { "order" } else { "prune" };
            return Err(bowline::Error::config(name, "a network has no n-grams", "model=\"kn\", or leave it out"));
        }
        // A folder with the files of a public corpus has the settings of that corpus, wherever it lies.
        let known = data::recognise(Path::new(&self.data)).map_or(self.data.as_str(), |corpus| corpus.name);
        let mut config = Recipe::find(self.model.as_deref().unwrap_or("real"))?.config(self.size, known)?;
        config.data = DataConfig { source: self.data.clone(), ..self.text.clone() };
        let mut choices = Vec::new();
        if let Some(survey) = fit::data(&mut config.data, self.chosen, &mut choices)? {
            let given = |key: &str| self.settings.iter().any(|s| s.split('=').next() == Some(key));
            fit::network(&mut config, given, &survey, &mut choices);
        }
        watch.choices(&choices);
        let mut config = config.with(&self.settings)?;
        if self.second_training && config.second_training_epochs == 0 {
            config.second_training_epochs = config.epochs;
        }
        config.validate()?;
        Ok(config)
    }

    fn ngrams(&self, watch: &mut Watcher) -> bowline::Result<NgramConfig> {
        let second = self.second_training.then_some("second_training");
        let setting = self.settings.first().and_then(|setting| setting.split('=').next());
        if let Some(name) = self.size.map(|_| "size").or(second).or(setting) {
            let problem = "an n-gram model (`kn`) has no such setting";
            return Err(bowline::Error::config(name, problem, "leave it out; what it has is `order` and `prune`"));
        }
        let mut data = DataConfig { source: self.data.clone(), ..self.text.clone() };
        let mut choices = Vec::new();
        fit::data(&mut data, self.chosen, &mut choices)?;
        watch.choices(&choices);
        let mut config = NgramConfig::new(self.order.unwrap_or(DEFAULT_ORDER), data);
        config.prune = self.prune.clone().unwrap_or_default();
        config.validate()?;
        Ok(config)
    }
}

/// A value as `--set` takes it.
fn setting(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    if given.is_instance_of::<PyBool>() {
        return Ok(given.extract::<bool>()?.to_string());
    }
    if given.extract::<f64>().is_ok() || given.extract::<String>().is_ok() {
        return Ok(given.str()?.to_string());
    }
    if let Ok(list) = given.extract::<Vec<Bound<'_, PyAny>>>() {
        let items: Vec<String> = list.iter().map(|item| setting(name, item)).collect::<PyResult<_>>()?;
        return Ok(format!("[{}]", items.join(", ")));
    }
    let kind = given.get_type().name()?;
    Err(PyTypeError::new_err(format!("{name}: a number, a str, a bool or a list is needed, and this is {kind}")))
}

/// Lets a run work without the global lock, and tells how it ended.
fn work(
    py: Python<'_>,
    out: PathBuf,
    on_event: Option<Py<PyAny>>,
    run: impl FnOnce(&Path, &mut Watcher) -> bowline::Result<Outcome> + Send,
) -> PyResult<Run> {
    if let Some(function) = on_event.as_ref().filter(|function| !function.bind(py).is_callable()) {
        let kind = function.bind(py).get_type().name()?;
        return Err(PyTypeError::new_err(format!("on_event: a function is needed, and this is {kind}")));
    }
    let (outcome, stopped_by) = py.detach(|| {
        let on_event = RefCell::new(on_event);
        let mut watch = Watcher { on_event, error: RefCell::new(None), asked: Cell::new(Instant::now()) };
        let outcome = run(&out, &mut watch);
        (outcome, watch.error.into_inner())
    });
    match (outcome.map_err(to_python)?, stopped_by) {
        (_, Some(error)) => Err(error),
        (Outcome::Finished(summary), None) => Ok(Run { path: out, summary: *summary }),
        (Outcome::Stopped(_), None) => Err(PyKeyboardInterrupt::new_err(())),
    }
}

/// Hands a run's events to Python, and Python's signals to the run.
struct Watcher {
    /// Who listens, until it raises.
    on_event: RefCell<Option<Py<PyAny>>>,
    /// What Python raised; the run is then to stop.
    error: RefCell<Option<PyErr>>,
    asked: Cell<Instant>,
}

impl Watcher {
    fn hand_over(&self, event: &serde_json::Result<String>) {
        let Some(function) = self.on_event.take() else { return };
        let called = Python::attach(|py| function.call1(py, (to_object(py, event)?,)).map(drop));
        match called {
            Ok(()) => *self.on_event.borrow_mut() = Some(function),
            Err(error) => *self.error.borrow_mut() = Some(error),
        }
    }

    fn choices(&mut self, choices: &[Choice]) {
        for choice in choices {
            self.notice(&match choice {
                Choice::Untokenised(word, more) => {
                    format!("{word:?} and {more} more words have punctuation attached: tokenize=True splits it off")
                }
                Choice::Tokenised => {
                    "the text is not tokenised: words are lower-cased and split from their punctuation".to_owned()
                }
                Choice::RareWords(rare, all) => {
                    format!("words seen once in training become <unk>: {rare} of {all}; min_count=1 keeps them")
                }
                Choice::FewStreams(streams, words) => format!("batch={streams}: the text has {words} words"),
            });
        }
    }
}

impl Watch for Watcher {
    fn event(&mut self, event: &Event) {
        self.hand_over(&serde_json::to_string(event));
    }

    fn progress(&mut self, _: &Progress) {}

    fn notice(&mut self, text: &str) {
        self.hand_over(&serde_json::to_string(&serde_json::json!({"event": "notice", "text": text})));
    }

    fn stop(&self) -> bool {
        if self.error.borrow().is_none() && self.asked.get().elapsed() >= PULSE {
            self.asked.set(Instant::now());
            if let Err(error) = Python::attach(|py| py.check_signals()) {
                *self.error.borrow_mut() = Some(error);
            }
        }
        self.error.borrow().is_some()
    }
}

/// An object of Python's from JSON.
fn to_object<'py>(py: Python<'py>, json: &serde_json::Result<String>) -> PyResult<Bound<'py, PyAny>> {
    let text = json.as_ref().map_err(|error| value(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}
