//! A model, ready to be asked.

use crate::engine::{Engine, Shared};
use crate::error::{to_python, value};
use crate::score::{Score, Surprisal};
use bowline::LoadedModel;
use bowline::corpus::{Detokenizer, Phrase};
use bowline::loaded_model::likeliest;
use bowline::predictor::{Reads, check_logprobs};
use bowline::score::{Continuation, Memory, Passage, Reader, Sampling, Scored, Sentence};
use numpy::{PyArray2, PyArrayMethods, ToPyArray};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::path::PathBuf;
use std::sync::Arc;

/// Sentences that are scored between two looks at Python's signals.
const CHUNK: usize = 1024;

/// Loads a model: the folder of a run, or of a model.
///
/// `threads` is how many threads compute; all cores unless told otherwise. No number depends on it.
///
/// >>> import bowline
/// >>> model = bowline.load("runs/cats")
/// >>> model
/// <LanguageModel real: 12 words, from 'runs/cats'>
#[pyfunction]
#[pyo3(signature = (path, *, threads=None))]
pub fn load(py: Python<'_>, path: PathBuf, threads: Option<usize>) -> PyResult<LanguageModel> {
    let shared = Shared::load(py, &path, threads)?;
    Ok(LanguageModel { path, shared })
}

/// A language model: a network, or n-grams. Made by `bowline.load`.
#[pyclass(frozen, module = "bowline")]
pub struct LanguageModel {
    pub path: PathBuf,
    pub shared: Arc<Shared>,
}

impl LanguageModel {
    fn model(&self) -> &LoadedModel {
        &self.shared.model
    }

    fn sentence(&self, text: &str) -> bowline::Result<Sentence> {
        Sentence::new(text, &self.model().vocabulary, self.model().tokenize)
    }

    fn id_of(&self, word: &str) -> PyResult<u32> {
        let missing = || {
            let similar = bowline::score::similar_spelling(&self.model().vocabulary, word);
            let similar = similar.map_or_else(String::new, |word| format!("; did you mean {word:?}?"));
            let words = self.model().vocabulary.len();
            PyKeyError::new_err(format!("{word:?} is not among the model's {words} words{similar}"))
        };
        self.model().vocabulary.id(word).ok_or_else(missing)
    }

    /// Draws texts; each begins with the prompt.
    fn draw(
        &self,
        py: Python<'_>,
        samples: usize,
        prompt: &str,
        words: usize,
        sampling: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<String>> {
        let (seed, sampling) = read_sampling(sampling)?;
        let (vocabulary, tokenize) = (&self.model().vocabulary, self.model().tokenize);
        let phrase = Phrase::new(prompt, vocabulary, tokenize).map_err(to_python)?;
        let (text, strangers) = phrase.after_eos(vocabulary);
        let mut texts: Vec<(String, Detokenizer)> =
            (0..samples).map(|_| (prompt.trim().to_owned(), Detokenizer::new(prompt.trim()))).collect();
        let work = |engine: &mut Engine| {
            let start = |sample: usize| {
                let text = Continuation::new(text.clone(), sampling, seed, sample as u64);
                text.with_strangers(strangers.clone())
            };
            engine.reader_of(Reads::Phrase)?.tell((0..samples).map(start).collect(), words, 0, &mut |number, word| {
                if word.id == vocabulary.eos() {
                    return false;
                }
                let (text, joins) = &mut texts[number];
                let word = vocabulary.word(word.id);
                if tokenize {
                    text.push_str(&joins.next(word));
                } else {
                    text.push_str(if text.is_empty() { "" } else { " " });
                    text.push_str(word);
                }
                true
            });
            Ok(())
        };
        self.shared.with(py, work)?;
        Ok(texts.into_iter().map(|(text, _)| text).collect())
    }
}

#[pymethods]
impl LanguageModel {
    /// The log-probabilities of a sentence, word by word: natural logarithms, the end of the sentence last.
    ///
    /// >>> bool(model.score("the cat sat on the mat").logprob > model.score("mat the on sat cat the").logprob)
    /// True
    fn score(&self, py: Python<'_>, text: &str) -> PyResult<Score> {
        let sentence = self.sentence(text).map_err(to_python)?;
        let mut scores = self.score_sentences(py, vec![sentence], None)?;
        scores.pop().ok_or_else(|| value("there is no sentence"))
    }

    /// The same for many sentences, much faster. With `carry` they are one text: each is read after those before it.
    ///
    /// >>> [len(score) for score in model.score_many(["the cat sat", "the dog ran to the cat"])]
    /// [4, 7]
    #[pyo3(signature = (texts, *, carry=false))]
    fn score_many(&self, py: Python<'_>, texts: &Bound<'_, PyAny>, carry: bool) -> PyResult<Vec<Score>> {
        if texts.is_instance_of::<PyString>() || texts.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err("texts: several sentences are needed, such as a list, and this is one"));
        }
        let mut scores = Vec::new();
        let mut carried = match carry {
            true => Some((self.shared.with(py, |engine| engine.reader_of(Reads::Text))?, Memory::default())),
            false => None,
        };
        let mut texts = texts.try_iter()?;
        loop {
            let mut sentences = Vec::new();
            for text in texts.by_ref().take(CHUNK) {
                let text: String = text?.extract()?;
                sentences.push(self.sentence(&text).map_err(to_python)?);
            }
            if sentences.is_empty() {
                return Ok(scores);
            }
            scores.extend(self.score_sentences(py, sentences, carried.as_mut())?);
            py.check_signals()?;
        }
    }

    /// The `k` likeliest next words after the beginning of a sentence, with their probabilities.
    ///
    /// >>> [word for word, p in model.next("the cat sat", k=1)]
    /// ['on']
    #[pyo3(signature = (text="", k=10))]
    fn next(&self, py: Python<'_>, text: &str, k: usize) -> PyResult<Vec<(String, f64)>> {
        let model = self.model();
        let phrase = Phrase::new(text, &model.vocabulary, model.tokenize).map_err(to_python)?;
        let y = self.shared.with(py, |engine| {
            let mut reader = engine.reader_of(Reads::Phrase)?;
            let (inputs, strangers) = phrase.after_eos(&model.vocabulary);
            let passage = Passage { inputs: &inputs, strangers: &strangers, keep: true, ..Passage::default() };
            let memory = reader.read(&[passage]).pop().and_then(|reading| reading.memory).unwrap_or_default();
            let y = reader.distributions(&[&memory]);
            check_logprobs(&model.folder, y.iter().map(|&p| f64::from(p).ln()))?;
            Ok(y)
        })?;
        Ok(likeliest(&model.vocabulary, &y, k).into_iter().map(|next| (next.word, next.probability)).collect())
    }

    /// Goes on with a text, up to the end of the sentence: what `bowline generate` prints. The same seed gives the same
    /// text.
    ///
    /// >>> model.generate("the cat", temperature=0)
    /// 'the cat sat on the mat'
    #[pyo3(
        signature = (prompt="", words=50, **sampling),
        text_signature = "($self, prompt='', words=50, *, seed=1, temperature=1.0, top_k=0, top_p=1.0, unk=False)"
    )]
    fn generate(
        &self,
        py: Python<'_>,
        prompt: &str,
        words: usize,
        sampling: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let mut texts = self.draw(py, 1, prompt, words, sampling)?;
        Ok(texts.pop().unwrap_or_default())
    }

    /// The same, several times, side by side.
    ///
    /// >>> texts = model.generate_many(3, "the dog", seed=7)
    /// >>> len(texts), texts == model.generate_many(3, "the dog", seed=7)
    /// (3, True)
    #[pyo3(
        signature = (samples, prompt="", words=50, **sampling),
        text_signature = "($self, samples, prompt='', words=50, *, seed=1, temperature=1.0, top_k=0, top_p=1.0, \
                          unk=False)"
    )]
    fn generate_many(
        &self,
        py: Python<'_>,
        samples: usize,
        prompt: &str,
        words: usize,
        sampling: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<String>> {
        self.draw(py, samples, prompt, words, sampling)
    }

    /// Surprisal, entropy and rank of each word of a sentence, in bits.
    ///
    /// >>> s = model.surprisal("the cat sat")
    /// >>> for word, bits in zip(s.words, s.bits):
    /// ...     print(f"{word:6}", "surprising" if bits > 3 else "expected")
    /// the    expected
    /// cat    expected
    /// sat    expected
    /// <eos>  surprising
    fn surprisal(&self, py: Python<'_>, text: &str) -> PyResult<Surprisal> {
        let sentence = self.sentence(text).map_err(to_python)?;
        let words = with_end(&sentence).into();
        let all = self.shared.with(py, |engine| {
            let (reader, outlook) = engine.outlook()?;
            // Entropy and rank are those after `<unk>`; the words' own log-probabilities must be, too.
            let closed = Sentence { unseen: Vec::new(), ..sentence.clone() };
            let scored = reader.score(&[closed]);
            let scored = scored.into_iter().next().unwrap_or_else(|| Scored::new(Vec::new()));
            check_logprobs(&self.model().folder, scored.logprobs.iter().copied())?;
            Ok(outlook.read(&sentence, &scored, false))
        })?;
        Ok(Surprisal { words, all })
    }

    /// What a network knows before each word of a sentence, one row for each prediction of `score`: float32, (words + 1, d).
    /// The first row is after the `<eos>` before the sentence, the last before the one at its end.
    ///
    /// >>> model.hidden("the cat sat").shape
    /// (4, 32)
    fn hidden<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let sentence = self.sentence(text).map_err(to_python)?;
        let ids = [&[self.model().vocabulary.eos()], &sentence.ids[..]].concat();
        let hidden = self.shared.with(py, |engine| self.model().hidden(&engine.team, engine.isa, &ids))?;
        hidden.to_pyarray(py).reshape([ids.len(), hidden.len() / ids.len()])
    }

    /// The word vectors of a network: those of the given words, or all in the order of `words`; float32, (words, d).
    ///
    /// >>> model.embedding().shape
    /// (12, 32)
    /// >>> model.embedding(["cat", "dog"]).shape
    /// (2, 32)
    /// >>> model.embedding(["dragon"])
    /// Traceback (most recent call last):
    /// KeyError: '"dragon" is not among the model\'s 12 words'
    #[pyo3(signature = (words=None))]
    fn embedding<'py>(&self, py: Python<'py>, words: Option<Vec<String>>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let params = self.model().require_network("word vectors").map_err(to_python)?;
        let (all, width) = (bowline::model::word_vectors(params), params.spec().input.width);
        let Some(words) = words else { return all.to_pyarray(py).reshape([self.model().vocabulary.len(), width]) };
        let mut rows = Vec::with_capacity(words.len() * width);
        for word in &words {
            rows.extend_from_slice(&all[self.id_of(word)? as usize * width..][..width]);
        }
        rows.to_pyarray(py).reshape([words.len(), width])
    }

    /// The id of a word; `KeyError` if the model does not have it.
    fn id(&self, word: &str) -> PyResult<u32> {
        self.id_of(word)
    }

    /// All words in the order of their ids.
    #[getter]
    fn words(&self) -> Vec<String> {
        self.model().vocabulary.words().map(str::to_owned).collect()
    }

    /// What was trained: `real`, `kn` and so on.
    #[getter]
    fn kind(&self) -> &str {
        &self.model().kind
    }

    /// The folder, as it was given.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether texts are lower-cased and parted from their punctuation before they are read.
    #[getter]
    fn tokenize(&self) -> bool {
        self.model().tokenize
    }

    fn __contains__(&self, word: &str) -> bool {
        self.model().vocabulary.id(word).is_some()
    }

    /// The number of words.
    fn __len__(&self) -> usize {
        self.model().vocabulary.len()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (PathBuf,))> {
        Ok((py.import("bowline")?.getattr("load")?, (std::path::absolute(&self.path)?,)))
    }

    fn __repr__(&self) -> String {
        let (title, words) = (self.model().title(), self.model().vocabulary.len());
        format!("<LanguageModel {title}: {words} words, from '{}'>", self.path.display())
    }
}

impl LanguageModel {
    fn score_sentences(
        &self,
        py: Python<'_>,
        sentences: Vec<Sentence>,
        carried: Option<&mut (Reader, Memory)>,
    ) -> PyResult<Vec<Score>> {
        let scores = self.shared.with(py, |engine| {
            let scores = match carried {
                Some((reader, memory)) => reader.score_on(memory, &sentences),
                None => engine.reader.score(&sentences),
            };
            check_logprobs(&self.model().folder, scores.iter().flat_map(|scored| scored.logprobs.iter().copied()))?;
            Ok(scores)
        })?;
        let score = |(sentence, scored): (Sentence, Scored)| Score {
            words: with_end(&sentence),
            logprobs: scored.logprobs,
            sum: scored.logprob,
            unseen: sentence.unseen,
        };
        Ok(sentences.into_iter().zip(scores).map(score).collect())
    }
}

/// The words of a sentence, and `<eos>`.
fn with_end(sentence: &Sentence) -> Vec<String> {
    sentence.words.iter().cloned().chain([bowline::vocabulary::EOS.to_owned()]).collect()
}

/// The seed, and how words are drawn.
fn read_sampling(options: Option<&Bound<'_, PyDict>>) -> PyResult<(u64, Sampling)> {
    let (mut seed, mut sampling) = (1, Sampling::default());
    for (name, value) in options.into_iter().flatten() {
        match name.extract::<String>()?.as_str() {
            "seed" => seed = value.extract()?,
            "temperature" => sampling.temperature = value.extract()?,
            "top_k" => sampling.top_k = value.extract()?,
            "top_p" => sampling.top_p = value.extract()?,
            "unk" => sampling.unk = value.extract()?,
            other => {
                let known = "seed, temperature, top_k, top_p, unk";
                return Err(PyTypeError::new_err(format!("unexpected argument '{other}'; there are {known}")));
            }
        }
    }
    let Sampling { temperature, top_p, .. } = sampling;
    if !(temperature >= 0.0 && temperature.is_finite()) {
        return Err(value(format!("temperature: {temperature} is impossible; a number of at least 0")));
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        return Err(value(format!("top_p: {top_p} is impossible; above 0 and up to 1")));
    }
    Ok((seed, sampling))
}
