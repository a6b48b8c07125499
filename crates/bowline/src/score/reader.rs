//! Passages of text, and what reads them.

use super::continuation::extend;
use super::one_by_one::OneByOne;
use super::side_by_side::SideBySide;
use super::{Continuation, Memory, Word};
use crate::corpus::Stranger;
use crate::error::Result;
use crate::loaded_model::LoadedModel;
use crate::params::Params;
use crate::predictor::{Ensemble, Predictor};
use crate::run::Session;
use bowline_kernels::{Isa, Team};
use std::sync::Arc;

/// Words to be read, and questions about what comes after each of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passage<'a> {
    /// Where to start; `None` where nothing was read before.
    pub from: Option<&'a Memory>,
    /// The words to be read.
    pub inputs: &'a [u32],
    /// Those of `inputs` that the vocabulary lacks, in order. A network that reads characters reads them by these; everyone
    /// else reads the `<unk>` that stands among the inputs.
    pub strangers: &'a [Stranger],
    /// The word that comes after each of `inputs`, whose probability is asked for; or nothing, where nothing is asked.
    /// But for the last, that is the next of `inputs`.
    pub targets: &'a [u32],
    /// How many of the likeliest words are asked for at each place, besides.
    pub top: usize,
    /// Whether the memory after the last of `inputs` is wanted.
    pub keep: bool,
}

/// What was found out about a passage.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The natural logarithm of the probability of each target.
    pub logprobs: Vec<f64>,
    /// The likeliest words at each place with the logarithms of their probabilities, likeliest first; empty unless
    /// asked for.
    pub likeliest: Vec<Vec<(u32, f64)>>,
    /// The memory after the last word, where it was wanted.
    pub memory: Option<Memory>,
}

/// A way of reading passages.
pub(super) trait Read: Send {
    /// Answers all questions, in the order of the passages, or until `stop` says so.
    fn read(&mut self, passages: &[Passage<'_>], stop: &dyn Fn() -> bool) -> Option<Vec<Reading>>;

    /// The distribution of the next word after each memory, (n, V), by id.
    fn distributions(&mut self, memories: &[&Memory]) -> Vec<f32>;

    /// Goes on with texts by up to `words` words; `take` hears the number of the text and the word, and says whether the
    /// text goes on.
    fn tell(&mut self, texts: Vec<Continuation>, words: usize, top: usize, take: &mut dyn FnMut(usize, Word) -> bool);
}

/// Reads texts for a model, or for several that are joined.
///
/// A network as it was trained reads many passages side by side; everything else reads one after the other. What is said
/// about a passage does not depend on which it is.
pub struct Reader {
    model: Arc<LoadedModel>,
    way: Box<dyn Read>,
    side_by_side: bool,
    /// Whether words outside the vocabulary are read by their characters.
    spells: bool,
}

impl Reader {
    /// A reader of a model as it was trained, with the work divided among a team.
    pub fn new(model: Arc<LoadedModel>, team: &Arc<Team>, isa: Isa) -> Result<Reader> {
        Ensemble::from(model).reader(team, isa, None)
    }

    /// The same with all threads of the machine and its best instructions.
    pub fn of(model: LoadedModel) -> Result<Reader> {
        let Session { threads, isa } = Session::default();
        Reader::new(Arc::new(model), &Arc::new(Team::new(threads)), isa)
    }

    pub(crate) fn side_by_side(
        model: Arc<LoadedModel>,
        params: Arc<Params>,
        team: Arc<Team>,
        isa: Isa,
        batch: Option<usize>,
    ) -> Reader {
        let spells = params.spec().reads_any_word();
        let way = SideBySide::new(params, model.vocabulary.unk(), team, isa, batch);
        Reader { model, way: Box::new(way), side_by_side: true, spells }
    }

    pub(crate) fn one_by_one(model: Arc<LoadedModel>, predictor: Box<dyn Predictor>) -> Reader {
        let way = OneByOne::new(predictor, &model.vocabulary);
        Reader { model, way: Box::new(way), side_by_side: false, spells: false }
    }

    /// The model; of several, the first.
    pub fn model(&self) -> &Arc<LoadedModel> {
        &self.model
    }

    /// Whether many passages are read in little more time than one.
    pub fn is_side_by_side(&self) -> bool {
        self.side_by_side
    }

    /// Whether words outside the vocabulary are read by their characters, not as `<unk>`.
    pub fn spells(&self) -> bool {
        self.spells
    }

    /// From now on reads words outside the vocabulary as `<unk>`, as everything does that does not read characters.
    pub fn without_spelling(mut self) -> Reader {
        self.spells = false;
        self
    }

    /// Reads all passages and answers their questions, in the order of the passages. Ids must be below the vocabulary's
    /// size, and a passage must have as many targets as inputs, or none.
    pub fn read(&mut self, passages: &[Passage<'_>]) -> Vec<Reading> {
        self.read_until(passages, &|| false).unwrap_or_default()
    }

    /// The same, given up without a result as soon as `stop` says so. It is asked before every window.
    pub fn read_until(&mut self, passages: &[Passage<'_>], stop: &dyn Fn() -> bool) -> Option<Vec<Reading>> {
        for passage in passages {
            assert!(passage.targets.is_empty() || passage.targets.len() == passage.inputs.len());
        }
        if self.spells || passages.iter().all(|passage| passage.strangers.is_empty()) {
            return self.way.read(passages, stop);
        }
        let closed: Vec<_> = passages.iter().map(|passage| Passage { strangers: &[], ..*passage }).collect();
        self.way.read(&closed, stop)
    }

    /// The distribution of the next word after each memory, (n, V), by id.
    pub fn distributions(&mut self, memories: &[&Memory]) -> Vec<f32> {
        self.way.distributions(memories)
    }

    /// Draws the next word of each text and adds it to the text; `top` asks for the likeliest words besides.
    pub fn extend(&mut self, continuations: &mut [&mut Continuation], top: usize) -> Vec<Word> {
        extend(&mut *self.way, continuations, self.model.vocabulary.unk(), top)
    }

    /// Goes on with texts by up to `words` words; `top` asks for the likeliest words besides. `take` hears the number of
    /// the text and each of its words, and says whether the text goes on.
    pub fn tell(
        &mut self,
        texts: Vec<Continuation>,
        words: usize,
        top: usize,
        take: &mut dyn FnMut(usize, Word) -> bool,
    ) {
        self.way.tell(texts, words, top, take);
    }
}
