//! The yardstick: the true distribution laid beside a text, and beside a model that reads it.
//!
//! A [`Yardstick`] walks along a text in the reader's own word ids and knows, before each word, the exact distribution
//! of what comes next. From it follow, at each position: the *entropy*, the least loss any model can expect there; the
//! *surprise* of the word that did come; and the *divergence* KL(truth || model) in nats, the part of the model's
//! expected loss that is its own fault. Words of the grammar that the reader does not have count as its `<unk>`: their
//! probabilities are added up, and reading `<unk>` means hearing one of them without knowing which.

use std::collections::HashMap;

use super::truth::{Beliefs, Truth, entropy};
use crate::error::NotOfThisGrammar;

type Result<T> = std::result::Result<T, NotOfThisGrammar>;

/// The truth, position by position, in the word ids of a reader.
pub struct Yardstick<'a> {
    truth: &'a Truth,
    /// For each word of the truth, the reader's id.
    ids: Vec<u32>,
    /// For each id of the reader, the words of the truth behind it.
    words: HashMap<u32, Vec<usize>>,
    state: Beliefs,
    /// (id, probability) of the next word, ordered by id.
    next: Vec<(u32, f64)>,
    position: usize,
}

impl<'a> Yardstick<'a> {
    /// A yardstick at the beginning of a text. `id` gives the reader's id of a word, `<eos>` among them; `unk` is its id
    /// for the words it does not have. Fails if there is such a word and no `unk`.
    pub fn new(truth: &'a Truth, id: impl Fn(&str) -> Option<u32>, unk: Option<u32>) -> Result<Yardstick<'a>> {
        let mut ids = Vec::with_capacity(truth.words().len());
        let mut words: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, word) in truth.words().iter().enumerate() {
            let id = id(word).or(unk).ok_or_else(|| {
                NotOfThisGrammar::new(
                    format!("the vocabulary has neither `{word}`, a word of the built-in grammar, nor `<unk>`"),
                    "measure against the grammar only models that were trained on the built-in corpus",
                )
            })?;
            ids.push(id);
            words.entry(id).or_default().push(index);
        }
        let mut yardstick = Yardstick { truth, ids, words, state: truth.start(), next: Vec::new(), position: 0 };
        yardstick.look_ahead();
        Ok(yardstick)
    }

    /// The exact distribution of the next word: the ids with a positive probability, in ascending order.
    pub fn distribution(&self) -> &[(u32, f64)] {
        &self.next
    }

    /// The exact probability of one id as the next word.
    pub fn probability(&self, id: u32) -> f64 {
        match self.next.binary_search_by_key(&id, |&(id, _)| id) {
            Ok(at) => self.next[at].1,
            Err(_) => 0.0,
        }
    }

    /// The exact entropy of the next word, in nats.
    pub fn entropy(&self) -> f64 {
        entropy(&self.next)
    }

    /// KL(truth || model) of the next word, in nats; `ln_q` is the natural logarithm of the model's probability of an
    /// id. Infinite where the model rules out what the grammar can say.
    pub fn divergence(&self, ln_q: impl Fn(u32) -> f64) -> f64 {
        self.next.iter().map(|&(id, p)| p * (p.ln() - ln_q(id))).sum()
    }

    /// Reads the next word of the text. Fails if the grammar cannot say it here: the text is not of this grammar.
    pub fn read(&mut self, id: u32) -> Result<()> {
        let words = self.words.get(&id).map_or(&[][..], Vec::as_slice);
        let state = match words {
            [word] => self.truth.advance(&self.state, *word),
            _ => self.truth.advance_any(&self.state, |word| self.ids[word] == id),
        };
        let state = state.ok_or_else(|| {
            NotOfThisGrammar::new(
                format!("word {} of the text (id {id}) is impossible in the built-in grammar", self.position + 1),
                "measure against the grammar only a split of the built-in corpus, from its first word on",
            )
        })?;
        self.state = state;
        self.position += 1;
        self.look_ahead();
        Ok(())
    }

    fn look_ahead(&mut self) {
        let distribution = self.truth.distribution(&self.state);
        self.next.clear();
        self.next.extend(distribution.into_iter().map(|(word, probability)| (self.ids[word], probability)));
        self.next.sort_by_key(|&(id, _)| id);
        self.next.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
    }
}

/// The best that is possible on a text, from the grammar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// How many words were predicted, each line's `<eos>` among them.
    pub positions: usize,
    /// The mean over positions of the exact entropy of the next word given the words before, in nats.
    pub entropy: f64,
    /// The mean over positions of -ln P(the word that came), in nats: the true model's own loss on this very text.
    pub surprise: f64,
}

impl Floor {
    /// The perplexity floor: what the true model expects on texts with these histories.
    pub fn perplexity(&self) -> f64 {
        self.entropy.exp()
    }

    /// The true model's perplexity on this very text; differs from the floor by the luck of the draw.
    pub fn perplexity_on_text(&self) -> f64 {
        self.surprise.exp()
    }
}

impl Truth {
    /// The floor of a text: one sentence a line, words separated by spaces, without `<eos>`.
    pub fn floor(&self, text: &str) -> Result<Floor> {
        let mut yardstick = Yardstick::new(self, |word| self.word_index(word).map(|index| index as u32), None)?;
        let (mut positions, mut entropy, mut surprise) = (0, 0.0, 0.0);
        for (line, sentence) in text.lines().enumerate() {
            let words = sentence.split_whitespace().map(|word| (word, self.word_index(word)));
            for (word, index) in words.chain([("<eos>", Some(self.eos()))]) {
                let not_ours = || NotOfThisGrammar {
                    line: Some(line + 1),
                    problem: format!("the built-in grammar cannot say `{word}` here"),
                    advice: "measure against the grammar only a split of the built-in corpus",
                };
                let id = index.ok_or_else(not_ours)? as u32;
                entropy += yardstick.entropy();
                surprise -= yardstick.probability(id).ln();
                positions += 1;
                yardstick.read(id).map_err(|_| not_ours())?;
            }
        }
        if positions == 0 {
            let problem = "the text is empty".to_owned();
            return Err(NotOfThisGrammar::new(problem, "give a split of the built-in corpus"));
        }
        let count = positions as f64;
        Ok(Floor { positions, entropy: entropy / count, surprise: surprise / count })
    }
}
