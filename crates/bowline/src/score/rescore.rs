//! N-best lists scored anew and searched for the best hypothesis of each utterance.
//!
//! All scores of a list are *costs*, negative natural logarithms, as in Kaldi's archives: lower is better. The cost of a
//! hypothesis is
//!
//! `graph + w model + (1 - w) old + a acoustic`
//!
//! where `model` is what our model says of its words and the sentence end, and the penalty for each word that it reads as
//! `<unk>` (the model speaks of all unknown words together, and each is one of many), `old` the old language model's cost, `graph`
//! what the decoding graph costs besides, and `acoustic` what the sound says.

use super::nbest::utterance;
use super::{Lines, Memory, Reader, Scored, Sentence};
use crate::error::{Error, Result};
use crate::predictor::is_logprob;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// Costs by the key of the hypothesis, from a text archive with lines `utt-k cost`.
#[derive(Clone, Debug)]
pub struct Costs {
    path: PathBuf,
    costs: HashMap<String, f64>,
}

const ARCHIVE_LINE: &str = "each line is the key of a hypothesis and a number, as in `utt-1 42.5`";

impl Costs {
    /// Reads a whole archive.
    pub fn read<R: BufRead>(lines: &mut Lines<R>) -> Result<Costs> {
        let path = lines.path().to_owned();
        let mut costs = HashMap::new();
        while let Some((number, line)) = lines.next_line()? {
            let wrong = |problem: String| Error::corpus_line(&path, number, problem, ARCHIVE_LINE);
            let mut fields = line.split_whitespace();
            let (Some(key), Some(cost), None) = (fields.next(), fields.next(), fields.next()) else {
                return Err(wrong("the line does not have two fields".to_owned()));
            };
            let value: f64 = cost.parse().map_err(|_| wrong(format!("`{cost}` is not a number")))?;
            if !value.is_finite() {
                return Err(wrong(format!("the cost `{cost}` is not finite")));
            }
            if costs.insert(key.to_owned(), value).is_some() {
                return Err(wrong(format!("the key `{key}` is there twice")));
            }
        }
        Ok(Costs { path, costs })
    }

    /// These costs less others: what a total holds besides a part of it.
    pub fn less(mut self, part: &Costs) -> Result<Costs> {
        for (key, cost) in &mut self.costs {
            *cost -= part.get(key)?;
        }
        Ok(self)
    }

    fn get(&self, key: &str) -> Result<f64> {
        self.costs.get(key).copied().ok_or_else(|| {
            let problem = format!("there is no cost for the hypothesis `{key}`");
            Error::corpus(&self.path, problem, "give scores that were made from the same n-best list")
        })
    }
}

/// What is known about the hypotheses of a list besides their words, and what counts how much.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// Costs of the decoding graph without its language model (Kaldi's `lmwt.nolm`).
    pub graph: Option<Costs>,
    /// Costs of the old language model (`lmwt.lmonly`).
    pub old: Option<Costs>,
    /// Acoustic costs (`acwt`).
    pub acoustic: Option<Costs>,
    /// `w`, the share of our model in the language model's cost; the rest is the old one's. 1 where there is none.
    pub weight: f64,
    /// `a`, which the acoustic costs are multiplied with.
    pub acoustic_scale: f64,
    /// Added to our model's cost for each word that it does not know.
    pub unk_penalty: f64,
}

/// A hypothesis of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// `utt-k`.
    pub key: String,
    /// Its words.
    pub sentence: Sentence,
}

/// A hypothesis with its costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rescored {
    /// `utt-k`.
    pub key: String,
    /// Its words.
    pub words: Vec<String>,
    /// Our model's cost: the negative natural logarithm of the probability of the words and the sentence end.
    pub model: f64,
    /// `graph + w model + (1 - w) old`: what goes back into a lattice.
    pub language: f64,
    /// The same and the acoustic cost.
    pub cost: f64,
}

/// An utterance, its hypotheses and the best of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Utterance {
    /// Its name.
    pub utterance: String,
    /// Which of the hypotheses has the lowest cost; of equals, the first.
    pub best: usize,
    /// All hypotheses, in the order of the list.
    pub hypotheses: Vec<Rescored>,
}

/// Reads a list utterance by utterance.
pub struct List<R> {
    lines: Lines<R>,
    /// The first hypothesis of the next utterance.
    next: Option<Hypothesis>,
    seen: HashSet<String>,
}

impl<R: BufRead> List<R> {
    /// The list in some lines.
    pub fn new(lines: Lines<R>) -> List<R> {
        List { lines, next: None, seen: HashSet::new() }
    }

    /// The hypotheses of the next utterance; none after the last.
    pub fn next_utterance(&mut self, reader: &Reader) -> Result<Vec<Hypothesis>> {
        let mut hypotheses: Vec<Hypothesis> = self.next.take().into_iter().collect();
        while let Some((number, line)) = self.lines.next_line()? {
            let path = self.lines.path();
            let advice = "each line of an n-best list is `utterance-number word word ...`";
            let Some((key, words)) = super::nbest::split_key(&line) else {
                return Err(Error::corpus_line(path, number, "the line has no utterance id", advice));
            };
            if !super::nbest::is_key(key) {
                let problem = format!("`{key}` is not a key such as `utt-1`");
                return Err(Error::corpus_line(path, number, problem, advice));
            }
            let model = reader.model();
            let sentence = Sentence::at(path, number, words, &model.vocabulary, model.tokenize)?;
            let hypothesis = Hypothesis { key: key.to_owned(), sentence };
            let name = utterance(key);
            if hypotheses.first().is_some_and(|first| utterance(&first.key) == name) {
                hypotheses.push(hypothesis);
                continue;
            }
            if !self.seen.insert(name.to_owned()) {
                let problem = format!("the hypotheses of `{name}` do not stand together");
                return Err(Error::corpus_line(path, number, problem, "sort the list by its keys"));
            }
            if hypotheses.is_empty() {
                hypotheses.push(hypothesis);
            } else {
                self.next = Some(hypothesis);
                break;
            }
        }
        Ok(hypotheses)
    }
}

impl Knowledge {
    /// The costs of an utterance's hypotheses from what our model says of them, and the best one.
    pub fn weigh(&self, hypotheses: Vec<Hypothesis>, scores: Vec<Scored>) -> Result<Utterance> {
        let known = |costs: &Option<Costs>, key: &str| costs.as_ref().map_or(Ok(0.0), |costs| costs.get(key));
        let name = hypotheses.first().map_or(String::new(), |first| utterance(&first.key).to_owned());
        let mut rescored = Vec::with_capacity(hypotheses.len());
        for (Hypothesis { key, sentence }, scored) in hypotheses.into_iter().zip(scores) {
            if !is_logprob(scored.logprob) {
                let problem = format!("the model gives it the log-probability {}", scored.logprob);
                let advice = "a lower --dynamic-rate, or a model whose weights are sound";
                return Err(Error::model(key, "predictions", problem, advice));
            }
            let model = -scored.logprob + self.unk_penalty * sentence.unseen.len() as f64;
            let old = known(&self.old, &key)?;
            let language = known(&self.graph, &key)? + self.weight * model + (1.0 - self.weight) * old;
            let cost = language + self.acoustic_scale * known(&self.acoustic, &key)?;
            rescored.push(Rescored { key, words: sentence.words, model, language, cost });
        }
        let best = (0..rescored.len()).min_by(|&a, &b| rescored[a].cost.total_cmp(&rescored[b].cost)).unwrap_or(0);
        Ok(Utterance { utterance: name, best, hypotheses: rescored })
    }
}

impl Reader {
    /// Rescores utterances, each by itself, many hypotheses side by side.
    pub fn rescore(&mut self, utterances: Vec<Vec<Hypothesis>>, knowledge: &Knowledge) -> Result<Vec<Utterance>> {
        let sentences: Vec<Sentence> = utterances.iter().flatten().map(|h| h.sentence.clone()).collect();
        let mut scores = self.score(&sentences).into_iter();
        let weigh = |hypotheses: Vec<Hypothesis>| {
            let scores = scores.by_ref().take(hypotheses.len()).collect();
            knowledge.weigh(hypotheses, scores)
        };
        utterances.into_iter().map(weigh).collect()
    }

    /// Rescores the utterance that comes after `memory`, which is brought up to the end of its best hypothesis.
    pub fn rescore_on(
        &mut self,
        memory: &mut Memory,
        hypotheses: Vec<Hypothesis>,
        knowledge: &Knowledge,
    ) -> Result<Utterance> {
        let sentences: Vec<Sentence> = hypotheses.iter().map(|h| h.sentence.clone()).collect();
        let scores = self.score_after(Some(memory), &sentences);
        let rescored = knowledge.weigh(hypotheses, scores)?;
        if let Some(best) = sentences.get(rescored.best) {
            self.score_on(memory, std::slice::from_ref(best));
        }
        Ok(rescored)
    }
}

/// The archive of a Kaldi folder by name, if it is there.
pub fn archive(folder: &Path, name: &str) -> Option<PathBuf> {
    Some(folder.join(name)).filter(|path| path.is_file())
}
