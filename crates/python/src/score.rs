//! What is said about a sentence.

use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;
use std::sync::Arc;

/// The log-probabilities of a sentence: what `bowline score --json` prints, to the last digit.
///
/// >>> score = model.score("the cat sat on the mat")
/// >>> score.words
/// ['the', 'cat', 'sat', 'on', 'the', 'mat', '<eos>']
/// >>> float(score) == score.logprob
/// True
#[pyclass(frozen, module = "bowline")]
pub struct Score {
    pub words: Vec<String>,
    pub logprobs: Vec<f64>,
    pub sum: f64,
    pub unseen: Vec<usize>,
}

#[pymethods]
impl Score {
    /// The words as the model read them, and `<eos>`.
    #[getter]
    fn words(&self) -> Vec<String> {
        self.words.clone()
    }

    /// The natural logarithm of each word's probability given all before it, and that of the sentence's end.
    #[getter]
    fn logprobs<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.logprobs.to_pyarray(py)
    }

    /// Their sum.
    #[getter]
    fn logprob(&self) -> f64 {
        self.sum
    }

    /// The places of the words that the model does not know and reads as `<unk>`.
    #[getter]
    fn unk(&self) -> Vec<usize> {
        self.unseen.clone()
    }

    /// `exp(-logprob / n)`, the sentence's end counted.
    #[getter]
    fn perplexity(&self) -> f64 {
        (-self.sum / self.logprobs.len().max(1) as f64).exp()
    }

    fn __float__(&self) -> f64 {
        self.sum
    }

    /// The number of predictions: words, and the sentence's end.
    fn __len__(&self) -> usize {
        self.logprobs.len()
    }

    fn __repr__(&self) -> String {
        let words = self.words.len().saturating_sub(1);
        format!("<Score: {words} words, logprob {:.4}, perplexity {:.2}>", self.sum, self.perplexity())
    }
}

/// How surprising each word of a sentence is, and how uncertain the next word was before it; in bits.
///
/// >>> s = model.surprisal("the cat sat on the mat")
/// >>> s.words[1], bool(s.bits[1] > 0), int(s.rank[1]) >= 1
/// ('cat', True, True)
/// >>> s.bits.shape == s.entropy.shape == s.entropy_reduction.shape == (7,)
/// True
#[pyclass(frozen, module = "bowline")]
pub struct Surprisal {
    pub words: Arc<[String]>,
    pub all: Vec<bowline::score::Surprisal>,
}

impl Surprisal {
    fn array<'py>(&self, py: Python<'py>, of: impl Fn(&bowline::score::Surprisal) -> f64) -> Bound<'py, PyArray1<f64>> {
        self.all.iter().map(of).collect::<Vec<_>>().to_pyarray(py)
    }
}

#[pymethods]
impl Surprisal {
    /// The words as the model read them, and `<eos>`.
    #[getter]
    fn words(&self) -> Vec<String> {
        self.words.to_vec()
    }

    /// `-log2` of each word's probability.
    #[getter]
    fn bits<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.array(py, |word| word.bits)
    }

    /// The entropy of the distribution that each word came from.
    #[getter]
    fn entropy<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.array(py, |word| word.entropy)
    }

    /// The entropy before each word minus that after it; negative where a word opens more than it settles.
    #[getter]
    fn entropy_reduction<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.array(py, |word| word.reduction)
    }

    /// The place of each word among all words by probability, from 1.
    #[getter]
    fn rank<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.all.iter().map(|word| word.rank as i64).collect::<Vec<_>>().to_pyarray(py)
    }

    fn __len__(&self) -> usize {
        self.all.len()
    }

    fn __repr__(&self) -> String {
        let bits: f64 = self.all.iter().map(|word| word.bits).sum();
        format!("<Surprisal: {} words, {bits:.2} bits>", self.words.len().saturating_sub(1))
    }
}
