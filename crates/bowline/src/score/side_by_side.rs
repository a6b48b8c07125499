//! Many passages read side by side, whatever their lengths.
//!
//! The passages are sorted by length and taken in groups; those of a group are the rows of a batch. A group is read in
//! windows. A row that is done leaves the batch at the end of its window, and what the recurrent layers read for it
//! until then is never asked about, so the classifier, which is most of the work, does nothing in vain.

use super::continuation::extend;
use super::reader::{Passage, Read, Reading};
use super::{Continuation, Memory, Word};
use crate::batch::Window;
use crate::compute::Compute;
use crate::model::{Network, Question, State, Use};
use crate::params::Params;
use bowline_kernels::{Isa, Team};
use std::cmp::Reverse;
use std::sync::Arc;

/// Passages side by side unless told otherwise.
const BATCH: usize = 80;
/// Words of a window, whatever the number of passages in it.
const ROWS: usize = 640;
/// Of the words of a window, one in so many may be read in vain.
const WASTE: usize = 8;

/// A network as it was trained, ready to read.
pub(super) struct SideBySide {
    params: Arc<Params>,
    unk: Option<u32>,
    network: Network,
    batch: usize,
    rows: usize,
    // Buffers that are used again.
    window: Window,
    questions: Vec<Question>,
    /// Words of the window that the vocabulary lacks, each once.
    strangers: Vec<String>,
}

impl SideBySide {
    /// With up to `batch` passages side by side. Only speed and memory depend on it.
    pub(super) fn new(
        params: Arc<Params>,
        unk: Option<u32>,
        team: Arc<Team>,
        isa: Isa,
        batch: Option<usize>,
    ) -> SideBySide {
        let batch = batch.unwrap_or(BATCH).max(1);
        let steps = ROWS.div_ceil(batch);
        let mut network = Network::new(params.spec(), Compute::new(team, isa), Use::Evaluate, steps, batch);
        network.pack(&params, Use::Evaluate);
        let (rows, window) = (steps * batch, Window::default());
        SideBySide { params, unk, network, batch, rows, window, questions: Vec::new(), strangers: Vec::new() }
    }

    /// Reads the passages whose numbers are in `group`, longest first.
    fn read_group(
        &mut self,
        passages: &[Passage<'_>],
        group: &[usize],
        readings: &mut [Reading],
        stop: &dyn Fn() -> bool,
    ) -> Option<()> {
        let mut state = State::zeros(self.params.spec(), group.len());
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
                return Some(());
            }
            if stop() {
                return None;
            }
            state.truncate(active);
            let left = |row: usize| length(row) - start;
            let steps = window_steps(
                self.rows / active,
                (0..active).map(left),
                (0..active).filter(|&row| passages[group[row]].keep).map(left).min(),
            );
            self.ask(passages, &group[..active], start, steps);
            self.network.answer(&self.params, &self.window, &mut state, &mut self.questions);
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

    /// Prepares the window of the steps from `start` on: its words, and a question for each that has a target. Words that the
    /// vocabulary lacks get the ids after those of the vocabulary.
    fn ask(&mut self, passages: &[Passage<'_>], rows: &[usize], start: usize, steps: usize) {
        let Window { inputs, .. } = &mut self.window;
        inputs.clear();
        self.questions.clear();
        self.strangers.clear();
        let (spec, strangers) = (self.params.spec(), &mut self.strangers);
        let (vocab, spells) = (spec.vocab, spec.reads_any_word());
        let mut stranger = |passage: &Passage<'_>, place: usize| {
            let found =
                passage.strangers.binary_search_by_key(&place, |stranger| stranger.place).ok().filter(|_| spells)?;
            let word = &passage.strangers[found].word;
            let number = strangers.iter().position(|other| other == word).unwrap_or_else(|| {
                strangers.push(word.clone());
                strangers.len() - 1
            });
            Some((vocab + number) as u32)
        };
        for t in 0..steps {
            for &i in rows {
                let passage = &passages[i];
                if let Some(&target) = passage.targets.get(start + t) {
                    let question = Question { row: inputs.len(), target, top: passage.top, ..Question::default() };
                    self.questions.push(question);
                }
                // Beyond its end a passage repeats its first word, until it leaves.
                let word = passage.inputs.get(start + t).copied().unwrap_or(passage.inputs[0]);
                inputs.push(stranger(passage, start + t).unwrap_or(word));
            }
        }
        if !self.strangers.is_empty() {
            self.network.spell(&self.params, &self.strangers);
        }
        (self.window.steps, self.window.batch) = (steps, rows.len());
    }
}

impl Read for SideBySide {
    fn read(&mut self, passages: &[Passage<'_>], stop: &dyn Fn() -> bool) -> Option<Vec<Reading>> {
        let mut readings = vec![Reading::default(); passages.len()];
        let mut order: Vec<usize> = (0..passages.len()).collect();
        order.sort_by_key(|&i| (Reverse(passages[i].inputs.len()), i));
        for group in order.chunks(self.batch) {
            self.read_group(passages, group, &mut readings, stop)?;
        }
        Some(readings)
    }

    fn distributions(&mut self, memories: &[&Memory]) -> Vec<f32> {
        let states = memories.iter().filter_map(|memory| memory.state());
        let h: Vec<f32> = states.flat_map(|state| self.network.outlook_of(&self.params, state)).collect();
        let mut out = vec![0.0; memories.len() * self.params.spec().vocab];
        self.network.distributions(&self.params, &h, 1.0, &mut out);
        out
    }

    /// All texts go on by a word in turn; those that have ended leave.
    fn tell(&mut self, texts: Vec<Continuation>, words: usize, top: usize, take: &mut dyn FnMut(usize, Word) -> bool) {
        let unk = self.unk;
        let mut going: Vec<(usize, Continuation)> = texts.into_iter().enumerate().collect();
        for _ in 0..words {
            let mut ended = Vec::new();
            // As many as a batch has room for, so that memory does not grow with the number of texts.
            for part in going.chunks_mut(self.batch) {
                let mut continuations: Vec<&mut Continuation> = part.iter_mut().map(|(_, text)| text).collect();
                let drawn = extend(self, &mut continuations, unk, top);
                for (word, (number, _)) in drawn.into_iter().zip(part) {
                    if !take(*number, word) {
                        ended.push(*number);
                    }
                }
            }
            going.retain(|(number, _)| !ended.contains(number));
        }
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
