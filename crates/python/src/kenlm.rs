//! The shape of KenLM's Python module: scores in base 10, and states that are passed from word to word.
//!
//! A [`State`] of a network holds what the network knows after all words but the last, and the last: a word's probability
//! and the state after it then cost one step together.

use crate::engine::Shared;
use crate::error::{to_python, value};
use crate::model::LanguageModel;
use bowline::LoadedModel;
use bowline::ngram::{NgramModel, NgramState};
use bowline::predictor::check_logprobs;
use bowline::score::{Memory, Passage, Sentence};
use bowline::vocabulary::UNK;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use std::f64::consts::LN_10;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

/// What KenLM's `order` is for a network, which remembers all words: larger than any.
const NO_ORDER: usize = i32::MAX as usize;

/// What is known after some words. A new one knows nothing, as after `Model.NullContextWrite`.
///
/// >>> from bowline import kenlm
/// >>> model = kenlm.Model("runs/cats")
/// >>> state, after = kenlm.State(), kenlm.State()
/// >>> model.BeginSentenceWrite(state)
/// >>> model.BaseScore(state, "the", after) < 0
/// True
/// >>> state == after
/// False
#[pyclass(module = "bowline.kenlm")]
#[derive(Clone, Default)]
pub struct State {
    known: Option<(Arc<LoadedModel>, Position)>,
}

#[derive(Clone)]
enum Position {
    /// The words so far, of which the last is not in the memory yet.
    Network {
        memory: Memory,
        words: Vec<u32>,
    },
    Ngrams(NgramState),
}

impl Position {
    fn key(&self) -> (Option<NgramState>, &[u32]) {
        match self {
            Position::Network { words, .. } => (None, words),
            Position::Ngrams(state) => (Some(*state), &[]),
        }
    }
}

impl State {
    /// What makes two states the same.
    fn key(&self) -> impl Hash + PartialEq {
        self.known.as_ref().map(|(model, position)| (Arc::as_ptr(model), position.key()))
    }
}

#[pymethods]
impl State {
    #[new]
    fn new() -> State {
        State::default()
    }

    /// Equal states predict the same.
    fn __eq__(&self, other: PyRef<'_, State>) -> bool {
        self.key() == other.key()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.key().hash(&mut hasher);
        hasher.finish()
    }

    fn __copy__(&self) -> State {
        self.clone()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> State {
        self.clone()
    }

    fn __repr__(&self) -> String {
        match self.known.as_ref().map(|(model, position)| (model, position)) {
            None => "<State: nothing read>".to_owned(),
            Some((_, Position::Ngrams(_))) => "<State of an n-gram model>".to_owned(),
            Some((model, Position::Network { words, .. })) => {
                let words: Vec<&str> = words.iter().map(|&id| model.vocabulary.word(id)).collect();
                format!("<State after {:?}>", words.join(" "))
            }
        }
    }
}

/// The score of a word with its details.
#[pyclass(frozen, module = "bowline.kenlm", get_all)]
pub struct FullScoreReturn {
    /// Base-10 logarithm of the word's probability.
    log_prob: f64,
    /// Length of the n-gram that was found; for a network, all words from the beginning of the sentence on.
    ngram_length: usize,
    /// Whether the model does not know the word.
    oov: bool,
}

#[pymethods]
impl FullScoreReturn {
    fn __repr__(&self) -> String {
        let FullScoreReturn { log_prob, ngram_length, oov } = self;
        let oov = if *oov { "True" } else { "False" };
        format!("FullScoreReturn(log_prob={log_prob}, ngram_length={ngram_length}, oov={oov})")
    }
}

/// A model as programs for KenLM expect it: `import bowline.kenlm as kenlm`. All scores are base-10 logarithms.
///
/// It is made from the folder of a model or a run, or from a `bowline.LanguageModel`, whose memory it shares. A network
/// always begins with a sentence, so for networks `bos=False` and `NullContextWrite` mean the beginning of one, too.
///
/// >>> from bowline import kenlm
/// >>> model = kenlm.Model("runs/cats")
/// >>> model.score("the cat sat on the mat") > model.score("mat the on sat cat the")
/// True
/// >>> "cat" in model, "dragon" in model
/// (True, False)
#[pyclass(frozen, module = "bowline.kenlm")]
pub struct Model {
    path: PathBuf,
    shared: Arc<Shared>,
}

/// A word's natural logarithm, the length of its n-gram, and whether it is unknown.
type Scored = (f64, usize, bool);

impl Model {
    fn loaded(&self) -> &Arc<LoadedModel> {
        &self.shared.model
    }

    fn ngrams(&self) -> Option<&NgramModel> {
        self.loaded().require_ngrams().ok().map(|model| &**model)
    }

    /// The id that a word is read with, and whether the model does not know it. KenLM's ends are ours.
    fn id(&self, word: &str) -> PyResult<(u32, bool)> {
        let vocabulary = &self.loaded().vocabulary;
        if word == "<s>" || word == "</s>" {
            return Ok((vocabulary.eos(), false));
        }
        match (vocabulary.id(word), vocabulary.unk()) {
            (Some(id), _) => Ok((id, false)),
            (None, Some(unk)) => Ok((unk, true)),
            (None, None) => {
                let words = vocabulary.len();
                Err(value(format!("{word:?} is not among the model's {words} words, and it has no `{UNK}`")))
            }
        }
    }

    /// The position that a state stands for.
    fn position(&self, state: &State) -> PyResult<Position> {
        match &state.known {
            None => Ok(self.beginning(false)),
            Some((model, position)) if Arc::ptr_eq(model, self.loaded()) => Ok(position.clone()),
            Some(_) => Err(value("the state is one of another model; begin with BeginSentenceWrite of this one")),
        }
    }

    fn beginning(&self, of_sentence: bool) -> Position {
        match self.ngrams() {
            Some(ngrams) if of_sentence => Position::Ngrams(ngrams.start()),
            Some(ngrams) => Position::Ngrams(ngrams.empty()),
            None => Position::Network { memory: Memory::default(), words: vec![self.loaded().vocabulary.eos()] },
        }
    }

    /// The word after a position, and the position after it.
    fn step(&self, py: Python<'_>, position: Position, id: u32) -> PyResult<(f64, usize, Position)> {
        match position {
            Position::Ngrams(mut state) => {
                let model = self.loaded().require_ngrams().map_err(to_python)?;
                let length = model.matched(&state, id);
                let logprob = model.step(&mut state, id).ln();
                Ok((logprob, length, Position::Ngrams(state)))
            }
            Position::Network { memory, mut words } => {
                let read = self.shared.with(py, |engine| {
                    let inputs = words.last().map_or(&[][..], std::slice::from_ref);
                    let passage =
                        Passage { from: Some(&memory), inputs, strangers: &[], targets: &[id], top: 0, keep: true };
                    let reading = engine.reader.read(&[passage]).pop().unwrap_or_default();
                    check_logprobs(&self.loaded().folder, reading.logprobs.iter().copied())?;
                    Ok(reading)
                })?;
                let logprob = read.logprobs.first().copied().unwrap_or(f64::NEG_INFINITY);
                words.push(id);
                let length = words.len();
                Ok((logprob, length, Position::Network { memory: read.memory.unwrap_or_default(), words }))
            }
        }
    }

    /// The words of a sentence, read at once.
    fn scores(&self, py: Python<'_>, sentence: &Bound<'_, PyAny>, bos: bool, eos: bool) -> PyResult<Vec<Scored>> {
        let vocabulary = &self.loaded().vocabulary;
        let Sentence { mut ids, unseen, .. } =
            Sentence::new(&text(sentence)?, vocabulary, self.loaded().tokenize).map_err(to_python)?;
        ids.extend(eos.then_some(vocabulary.eos()));
        let scores = match self.beginning(bos) {
            Position::Ngrams(mut state) => {
                let model = self.loaded().require_ngrams().map_err(to_python)?;
                let step = |&id: &u32| (model.matched(&state, id), model.step(&mut state, id).ln());
                ids.iter().map(step).collect::<Vec<_>>()
            }
            Position::Network { mut words, .. } => {
                words.extend(&ids);
                words.pop();
                let logprobs = self.shared.with(py, |engine| {
                    let passage = Passage { inputs: &words[..ids.len()], targets: &ids, ..Passage::default() };
                    let reading = engine.reader.read(&[passage]).pop().unwrap_or_default();
                    check_logprobs(&self.loaded().folder, reading.logprobs.iter().copied())?;
                    Ok(reading.logprobs)
                })?;
                logprobs.into_iter().enumerate().map(|(i, logprob)| (i + 2, logprob)).collect()
            }
        };
        let scored =
            |(i, (length, logprob)): (usize, (usize, f64))| (logprob, length, unseen.binary_search(&i).is_ok());
        Ok(scores.into_iter().enumerate().map(scored).collect())
    }
}

#[pymethods]
impl Model {
    #[new]
    fn new(py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Model> {
        if let Ok(model) = path.cast::<LanguageModel>() {
            let LanguageModel { path, shared } = model.get();
            return Ok(Model { path: path.clone(), shared: Arc::clone(shared) });
        }
        let path: PathBuf = path.extract()?;
        let shared = Shared::load(py, &path, None)?;
        Ok(Model { path, shared })
    }

    /// The length of the longest n-grams; for a network, which remembers everything, 2147483647.
    #[getter]
    fn order(&self) -> usize {
        self.ngrams().map_or(NO_ORDER, NgramModel::order)
    }

    /// The folder, as it was given.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The base-10 logarithm of a sentence's probability, with or without its end.
    ///
    /// >>> model.score("the cat") < model.score("the cat", eos=False)
    /// True
    #[pyo3(signature = (sentence, bos=true, eos=true))]
    fn score(&self, py: Python<'_>, sentence: &Bound<'_, PyAny>, bos: bool, eos: bool) -> PyResult<f64> {
        Ok(self.scores(py, sentence, bos, eos)?.iter().map(|(logprob, ..)| logprob).sum::<f64>() / LN_10)
    }

    /// The perplexity of a sentence, its end counted.
    fn perplexity(&self, py: Python<'_>, sentence: &Bound<'_, PyAny>) -> PyResult<f64> {
        let scores = self.scores(py, sentence, true, true)?;
        let sum: f64 = scores.iter().map(|(logprob, ..)| logprob).sum();
        Ok((-sum / scores.len().max(1) as f64).exp())
    }

    /// The base-10 logarithm, the n-gram's length and whether the word is unknown, for each word.
    ///
    /// >>> [(length, oov) for _, length, oov in model.full_scores("the dragon sat")]
    /// [(2, False), (3, True), (4, False), (5, False)]
    #[pyo3(signature = (sentence, bos=true, eos=true))]
    fn full_scores<'py>(
        &self,
        py: Python<'py>,
        sentence: &Bound<'py, PyAny>,
        bos: bool,
        eos: bool,
    ) -> PyResult<Bound<'py, PyIterator>> {
        let scores = self.scores(py, sentence, bos, eos)?;
        PyList::new(py, scores.into_iter().map(|(logprob, length, oov)| (logprob / LN_10, length, oov)))?.try_iter()
    }

    /// Makes `state` that of the beginning of a sentence.
    #[pyo3(name = "BeginSentenceWrite")]
    fn begin_sentence_write(&self, state: &Bound<'_, State>) {
        state.borrow_mut().known = Some((Arc::clone(self.loaded()), self.beginning(true)));
    }

    /// Makes `state` one that knows nothing before.
    #[pyo3(name = "NullContextWrite")]
    fn null_context_write(&self, state: &Bound<'_, State>) {
        state.borrow_mut().known = Some((Arc::clone(self.loaded()), self.beginning(false)));
    }

    /// The base-10 logarithm of a word's probability after `in_state`; `out_state` becomes the state after it. `</s>` is
    /// the sentence's end.
    #[pyo3(name = "BaseScore")]
    fn base_score(
        &self,
        py: Python<'_>,
        in_state: &Bound<'_, State>,
        word: &Bound<'_, PyAny>,
        out_state: &Bound<'_, State>,
    ) -> PyResult<f64> {
        self.base_full_score(py, in_state, word, out_state).map(|score| score.log_prob)
    }

    /// The same with its details.
    #[pyo3(name = "BaseFullScore")]
    fn base_full_score(
        &self,
        py: Python<'_>,
        in_state: &Bound<'_, State>,
        word: &Bound<'_, PyAny>,
        out_state: &Bound<'_, State>,
    ) -> PyResult<FullScoreReturn> {
        let (id, oov) = self.id(&text(word)?)?;
        let position = self.position(&in_state.borrow())?;
        let (logprob, ngram_length, position) = self.step(py, position, id)?;
        out_state.borrow_mut().known = Some((Arc::clone(self.loaded()), position));
        Ok(FullScoreReturn { log_prob: logprob / LN_10, ngram_length, oov })
    }

    fn __contains__(&self, word: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.id(&text(word)?).map(|(_, oov)| !oov).or(Ok(false))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (PathBuf,))> {
        Ok((py.import("bowline.kenlm")?.getattr("Model")?, (std::path::absolute(&self.path)?,)))
    }

    fn __repr__(&self) -> String {
        format!("<Model from '{}'>", self.path.display())
    }
}

/// KenLM takes text as `str` and as UTF-8 `bytes`.
fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = value.extract::<String>() {
        return Ok(text);
    }
    let bytes: &[u8] = value.extract().map_err(|_| {
        let kind = value.get_type().name().map_or_else(|_| "another type".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("a str or bytes is needed, and this is {kind}"))
    })?;
    Ok(String::from_utf8(bytes.to_vec())?)
}
