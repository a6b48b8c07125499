//! N-best lists: several hypotheses for the words of one utterance.
//!
//! A line of a list is `utt-k w1 w2 ...`: the *key* of the hypothesis, which is the name of its utterance, a hyphen and
//! a number, and its words, of which there may be none. The hypotheses of an utterance stand together, best first.

use super::{Memory, Reader, Scored, Sentence};

/// The key of a line and the rest of it; `None` where there is no key.
pub fn split_key(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (key, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (!key.is_empty()).then_some((key, rest))
}

/// Whether this is the name of an utterance, a hyphen and a number.
pub fn is_key(key: &str) -> bool {
    key.rsplit_once('-').is_some_and(|(utterance, number)| {
        !utterance.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The utterance that a key belongs to: what stands before its last hyphen, or the whole key where there is none.
pub fn utterance(key: &str) -> &str {
    key.rsplit_once('-').map_or(key, |(utterance, _)| utterance)
}

/// The memory carried through a list: the hypotheses of an utterance are read after the first hypothesis of the utterance
/// before it, as Kaldi's scripts and `rnnlm -nbest` do.
#[derive(Clone, Debug, Default)]
pub struct CarriedBetweenUtterances {
    utterance: Option<String>,
    /// Before the current utterance, and after its first hypothesis.
    before: Memory,
    after: Memory,
}

impl CarriedBetweenUtterances {
    /// At the beginning of a list.
    pub fn new() -> CarriedBetweenUtterances {
        CarriedBetweenUtterances::default()
    }

    /// The log-probabilities of the next hypotheses of the list.
    pub fn score(&mut self, reader: &mut Reader, hypotheses: &[(String, Sentence)]) -> Vec<Scored> {
        let mut scores = Vec::with_capacity(hypotheses.len());
        for same in hypotheses.chunk_by(|a, b| utterance(&a.0) == utterance(&b.0)) {
            let name = utterance(&same[0].0);
            let mut sentences: Vec<Sentence> = same.iter().map(|(_, sentence)| sentence.clone()).collect();
            if self.utterance.as_deref() != Some(name) {
                self.utterance = Some(name.to_owned());
                self.before.clone_from(&self.after);
                scores.extend(reader.score_on(&mut self.after, &sentences[..1]));
                sentences.remove(0);
            }
            scores.extend(reader.score_after(Some(&self.before), &sentences));
        }
        scores
    }
}
