//! Many passages read side by side, whatever their lengths.
//!
//! The passages are sorted by length and taken in groups; those of a group are the rows of a batch. A group is read in
//! windows. A row that is done leaves the batch at the end of its window, and what the recurrent layers read for it
//! until then is never asked about, so the classifier, which is most of the work, does nothing in vain.

use super::Memory;
use crate::batch::Window;
use crate::compute::Compute;
use crate::model::{Network, Question, State, Use};
use crate::predict::LanguageModel;
use bowline_kernels::{Isa, Team};
use std::cmp::Reverse;
use std::sync::Arc;

/// Passages side by side unless told otherwise.
const BATCH: usize = 80;
/// Words of a window, whatever the number of passages in it.
const ROWS: usize = 640;
/// Of the words of a window, one in so many may be read in vain.
const WASTE: usize = 8;

/// Words to be read, and questions about what comes after each of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passage<'a> {
    /// Where to start; `None` where nothing was read before.
    pub from: Option<&'a Memory>,
    /// The words to be read.
    pub inputs: &'a [u32],
    /// The word that comes after each of `inputs`, whose probability is asked for; or nothing, where nothing is asked.
    pub targets: &'a [u32],
    /// How many of the likeliest words are asked for at each place, besides.
    pub top: usize,
    /// Whether the memory after the last of `inputs` is wanted.
    pub keep: bool,
}

/// What was found out about a passage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The natural logarithm of the probability of each target.
    pub logprobs: Vec<f64>,
    /// The likeliest words at each place with the logarithms of their probabilities, likeliest first; empty unless
    /// asked for.
    pub likeliest: Vec<Vec<(u32, f64)>>,
    /// The memory after the last word, where it was wanted.
    pub memory: Option<Memory>,
}

/// A model ready to read.
pub struct Reader {
    model: Arc<LanguageModel>,
    network: Network,
    batch: usize,
    rows: usize,
    // Buffers that are used again.
    window: Window,
    questions: Vec<Question>,
}

impl Reader {
    /// A reader of a model, with the work divided among a team.
    pub fn new(model: Arc<LanguageModel>, team: Arc<Team>, isa: Isa) -> Reader {
        Reader::with_batch(model, team, isa, BATCH)
    }

    /// The same, with up to `batch` passages side by side. Only speed and memory depend on it.
    pub fn with_batch(model: Arc<LanguageModel>, team: Arc<Team>, isa: Isa, batch: usize) -> Reader {
        let batch = batch.max(1);
        let steps = ROWS.div_ceil(batch);
        let mut network = Network::new(model.params.spec(), Compute::new(team, isa), Use::Evaluate, steps, batch);
        network.pack(&model.params, Use::Evaluate);
        Reader { model, network, batch, rows: steps * batch, window: Window::default(), questions: Vec::new() }
    }

    /// The model.
    pub fn model(&self) -> &Arc<LanguageModel> {
        &self.model
    }

    /// The memory of a text's beginning: nothing was read.
    pub fn start(&self) -> Memory {
        Memory::empty(self.model.params.spec())
    }

    /// Reads all passages and answers their questions, in the order of the passages. Ids must be below the vocabulary's
    /// size, and a passage must have as many targets as inputs, or none.
    pub fn read(&mut self, passages: &[Passage<'_>]) -> Vec<Reading> {
        for passage in passages {
            assert!(passage.targets.is_empty() || passage.targets.len() == passage.inputs.len());
        }
        let mut readings = vec![Reading::default(); passages.len()];
        let mut order: Vec<usize> = (0..passages.len()).collect();
        order.sort_by_key(|&i| (Reverse(passages[i].inputs.len()), i));
        for group in order.chunks(self.batch) {
            self.read_group(passages, group, &mut readings);
        }
        readings
    }

    /// Reads the passages whose numbers are in `group`, longest first.
    fn read_group(&mut self, passages: &[Passage<'_>], group: &[usize], readings: &mut [Reading]) {
        let spec = self.model.params.spec();
        let mut state = State::zeros(spec, group.len());
        for (row, &i) in group.iter().enumerate() {
            if let Some(memory) = passages[i].from {
                memory.put(&mut state, row);
            }
        }
        let length = |row: usize| passages[group[row]].inputs.len();
        let (mut start, mut active) = (0, group.len());
        loop {
            let done = (0..active).take_while(|&row| length(row) > start).count()..active;
            for row in done.clone() {
                let i = group[row];
                readings[i].memory = passages[i].keep.then(|| Memory::take(&state, row));
            }
            active = done.start;
            if active == 0 {
                return;
            }
            state.truncate(active);
            let left = |row: usize| length(row) - start;
            let steps = window_steps(
                self.rows / active,
                (0..active).map(left),
                (0..active).filter(|&row| passages[group[row]].keep).map(left).min(),
            );
            self.ask(passages, &group[..active], start, steps);
            self.network.answer(&self.model.params, &self.window, &mut state, &mut self.questions);
            for question in &mut self.questions {
                let i = group[question.row % active];
                readings[i].logprobs.push(question.logprob);
                if passages[i].top > 0 {
                    readings[i].likeliest.push(std::mem::take(&mut question.likeliest));
                }
            }
            start += steps;
        }
    }

    /// Prepares the window of the steps from `start` on: its words, and a question for each that has a target.
    fn ask(&mut self, passages: &[Passage<'_>], rows: &[usize], start: usize, steps: usize) {
        let Window { inputs, .. } = &mut self.window;
        inputs.clear();
        self.questions.clear();
        for t in 0..steps {
            for &i in rows {
                let passage = &passages[i];
                if let Some(&target) = passage.targets.get(start + t) {
                    let question = Question { row: inputs.len(), target, top: passage.top, ..Question::default() };
                    self.questions.push(question);
                }
                // Beyond its end a passage repeats its first word, until it leaves.
                inputs.push(passage.inputs.get(start + t).copied().unwrap_or(passage.inputs[0]));
            }
        }
        (self.window.steps, self.window.batch) = (steps, rows.len());
    }

    /// The distribution of the next word after each memory, (n, V), by id.
    pub fn distributions(&self, memories: &[&Memory]) -> Vec<f32> {
        let spec = self.model.params.spec();
        let h: Vec<f32> =
            memories.iter().flat_map(|memory| self.network.hidden_of(&self.model.params, memory.state())).collect();
        let mut out = vec![0.0; memories.len() * spec.vocab];
        self.network.distributions(&self.model.params, &h, 1.0, &mut out);
        out
    }
}

/// How many steps to read at once: as many as there is `room` for and the longest passage has, but so that few words are
/// read in vain, and none of a passage whose memory is wanted (`shortest_kept`), since that must not read on.
fn window_steps(room: usize, left: impl Iterator<Item = usize> + Clone, shortest_kept: Option<usize>) -> usize {
    let longest = left.clone().max().unwrap_or(1);
    let mut steps = room.min(longest).min(shortest_kept.unwrap_or(usize::MAX)).max(1);
    let wasteful = |steps: usize| {
        let (rows, vain) =
            left.clone().fold((0, 0), |(rows, vain), left| (rows + 1, vain + steps.saturating_sub(left)));
        vain * WASTE > rows * steps
    };
    while steps > 1 && wasteful(steps) {
        steps -= 1;
    }
    steps
}
