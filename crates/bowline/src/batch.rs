//! A split cut into `B` streams side by side, read in windows of `T` steps.
//!
//! Invariant: the first input of a window is the last target of the window before it, stream by stream, so that the state
//! carried from one to the other belongs to the words it has seen.

use crate::Result;
use crate::corpus::{Ids, Page};
use std::ops::Range;

/// Some steps of all streams. Entry `(t, b)` is at `t * batch + b`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Steps in this window, at most `T`; the last one of a split may be shorter.
    pub steps: usize,
    /// Streams `B`.
    pub batch: usize,
    /// The words read.
    pub inputs: Vec<u32>,
    /// The words to be predicted: each the successor of the input.
    pub targets: Vec<u32>,
}

impl Window {
    /// Takes the streams `rows` of another window.
    pub fn take_streams(&mut self, whole: &Window, rows: Range<usize>) {
        (self.steps, self.batch) = (whole.steps, rows.len());
        for (to, from) in [(&mut self.inputs, &whole.inputs), (&mut self.targets, &whole.targets)] {
            to.clear();
            from.chunks_exact(whole.batch).for_each(|step| to.extend_from_slice(&step[rows.clone()]));
        }
    }
}

/// A split as `B` streams of equal length. Its ids are in memory (`[u32]`), or may be in a file ([`Ids`]).
#[derive(Clone, Debug)]
pub struct Streams<'a, I: ?Sized = [u32]> {
    ids: &'a I,
    /// How many ids there are.
    words: usize,
    batch: usize,
    unroll: usize,
    length: usize,
    /// Where in the split the first stream begins.
    offset: usize,
    /// Where each window begins, and the end; empty if all have `unroll` steps.
    starts: Vec<usize>,
}

impl<'a> Streams<'a> {
    /// Divides `ids` into `batch` streams of `(n - 1) / batch` predictions each (what is left over at the end, fewer than
    /// `batch` words, is not used), to be read `unroll` steps at a time.
    pub fn new(ids: &'a [u32], batch: usize, unroll: usize) -> Streams<'a> {
        Streams::over(ids, ids.len(), batch, unroll)
    }

    /// Puts the `index`-th window into `out`, whose buffers are used again.
    pub fn read(&self, index: usize, out: &mut Window) {
        let (first, steps) = self.window(index);
        (out.steps, out.batch) = (steps, self.batch);
        out.inputs.clear();
        out.targets.clear();
        for t in first..first + out.steps {
            for b in 0..self.batch {
                let word = |at: usize| self.ids[(self.offset + b * self.length + at) % self.words];
                out.inputs.push(word(t));
                out.targets.push(word(t + 1));
            }
        }
    }
}

impl<'a> Streams<'a, Ids> {
    /// [`Streams::new`] for ids that may be in a file.
    pub fn of(ids: &'a Ids, batch: usize, unroll: usize) -> Streams<'a, Ids> {
        Streams::over(ids, ids.len(), batch, unroll)
    }

    /// Puts the `index`-th window into `out`, whose buffers are used again. What a file gives beyond it stays in `ahead`.
    pub fn read_ahead(&self, index: usize, out: &mut Window, ahead: &mut Ahead) -> Result<()> {
        let (first, steps) = self.window(index);
        (out.steps, out.batch) = (steps, self.batch);
        out.inputs.resize(steps * self.batch, 0);
        out.targets.resize(steps * self.batch, 0);
        ahead.0.resize_with(self.batch, Page::default);
        for (b, page) in ahead.0.iter_mut().enumerate() {
            // The inputs and one word more, the last target.
            let (mut t, end) = (0, steps + usize::from(steps > 0));
            while t < end {
                let at = (self.offset + b * self.length + first + t) % self.words;
                let some = (end - t).min(self.words - at);
                for &word in self.ids.read(at..at + some, page)? {
                    if t < steps {
                        out.inputs[t * self.batch + b] = word;
                    }
                    if t > 0 {
                        out.targets[(t - 1) * self.batch + b] = word;
                    }
                    t += 1;
                }
            }
        }
        Ok(())
    }
}

/// What was read ahead of each stream.
#[derive(Clone, Debug, Default)]
pub struct Ahead(Vec<Page>);

impl<'a, I: ?Sized> Streams<'a, I> {
    fn over(ids: &'a I, words: usize, batch: usize, unroll: usize) -> Streams<'a, I> {
        let batch = batch.max(1);
        let length = words.saturating_sub(1) / batch;
        Streams { ids, words, batch, unroll: unroll.max(1), length, offset: 0, starts: Vec::new() }
    }

    /// The same, beginning at another word; after the end the text goes on with its beginning.
    pub fn from_word(self, offset: usize) -> Streams<'a, I> {
        Streams { offset: offset % self.words.max(1), ..self }
    }

    /// The same with windows of these lengths, one after the other for as long as the streams last.
    pub fn in_windows(self, mut length: impl FnMut() -> usize) -> Streams<'a, I> {
        let mut starts = vec![0];
        let mut at = 0;
        while at < self.length {
            at = self.length.min(at + length().clamp(1, 2 * self.unroll));
            starts.push(at);
        }
        Streams { starts, ..self }
    }

    /// The longest window there can be.
    pub fn longest(&self) -> usize {
        if self.starts.is_empty() { self.unroll } else { 2 * self.unroll }
    }

    /// Where the `index`-th window begins, and how many steps it has.
    fn window(&self, index: usize) -> (usize, usize) {
        match self.starts.get(index..index + 2) {
            Some([first, end]) => (*first, end - first),
            _ if !self.starts.is_empty() => (self.length, 0),
            _ => {
                let first = index * self.unroll;
                (first, self.unroll.min(self.length.saturating_sub(first)))
            }
        }
    }

    /// Windows in one pass.
    pub fn windows(&self) -> usize {
        if self.starts.is_empty() { self.length.div_ceil(self.unroll) } else { self.starts.len() - 1 }
    }

    /// Predictions in one pass.
    pub fn predictions(&self) -> usize {
        self.length * self.batch
    }

    /// Where in the split the target of entry `row` of the `index`-th window is.
    pub fn target_position(&self, index: usize, row: usize) -> usize {
        let at = (row % self.batch) * self.length + self.window(index).0 + row / self.batch + 1;
        (self.offset + at) % self.words.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_goes_on_where_its_last_window_ended() {
        let ids: Vec<u32> = (0..50).collect();
        let streams = Streams::new(&ids, 4, 5);
        assert_eq!((streams.windows(), streams.predictions()), (3, 48));
        let (mut window, mut last, mut seen) = (Window::default(), [0, 12, 24, 36], 0);
        for i in 0..streams.windows() {
            streams.read(i, &mut window);
            assert_eq!(window.steps, if i < 2 { 5 } else { 2 });
            for (input, target) in window.inputs.iter().zip(&window.targets) {
                assert_eq!(input + 1, *target);
            }
            assert_eq!(window.inputs[..4], last, "the first inputs are the last targets");
            last.copy_from_slice(&window.targets[(window.steps - 1) * 4..]);
            seen += window.targets.len();
        }
        assert_eq!(seen, streams.predictions());
    }

    #[test]
    fn windows_of_any_length_and_offset_read_every_word_once() {
        let ids: Vec<u32> = (0..61).collect();
        let mut lengths = [3, 1, 9, 2].into_iter().cycle();
        let streams = Streams::new(&ids, 4, 5).from_word(17).in_windows(|| lengths.next().unwrap_or(1));
        let (mut window, mut seen, mut last) = (Window::default(), Vec::new(), vec![17, 32, 47, 1]);
        for i in 0..streams.windows() {
            streams.read(i, &mut window);
            assert!((1..=10).contains(&window.steps));
            assert_eq!(window.inputs[..4], last, "the first inputs are the last targets");
            last = window.targets[(window.steps - 1) * 4..].to_vec();
            for (row, &target) in window.targets.iter().enumerate() {
                assert_eq!(ids[streams.target_position(i, row)], target);
                assert_eq!((window.inputs[row] + 1) % 61, target);
            }
            seen.extend_from_slice(&window.targets);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!((seen.len(), streams.predictions()), (60, 60));
    }

    #[test]
    fn splits_too_short_for_a_window_have_none() {
        for n in 0..4 {
            let ids = vec![0; n];
            assert_eq!(Streams::new(&ids, 4, 5).windows(), 0);
        }
    }

    #[test]
    fn a_target_s_position_is_where_it_stands_in_the_split() {
        let ids: Vec<u32> = (100..153).collect();
        let (streams, mut window) = (Streams::new(&ids, 4, 5), Window::default());
        for index in 0..streams.windows() {
            streams.read(index, &mut window);
            for (row, &target) in window.targets.iter().enumerate() {
                assert_eq!(ids[streams.target_position(index, row)], target);
            }
        }
    }

    #[test]
    fn a_window_read_ahead_is_the_window() {
        let ids: Vec<u32> = (0..83).map(|i| i * 7 % 31).collect();
        let kept = Ids::from(ids.clone());
        let mut lengths = [3, 1, 9, 2].into_iter().cycle();
        let drawn: Vec<usize> = (0..60).map(|_| lengths.next().unwrap_or(1)).collect();
        for (batch, unroll, offset, random) in
            [(4, 5, 0, false), (1, 7, 50, false), (3, 5, 80, true), (90, 5, 0, false)]
        {
            let length = || {
                let mut drawn = drawn.iter().copied();
                move || drawn.next().unwrap_or(1)
            };
            let (mut a, mut b) = (Streams::new(&ids, batch, unroll), Streams::of(&kept, batch, unroll));
            (a, b) = (a.from_word(offset), b.from_word(offset));
            if random {
                (a, b) = (a.in_windows(length()), b.in_windows(length()));
            }
            let (mut one, mut other, mut ahead) = (Window::default(), Window::default(), Ahead::default());
            assert_eq!(a.windows(), b.windows());
            for index in 0..a.windows() {
                a.read(index, &mut one);
                b.read_ahead(index, &mut other, &mut ahead).unwrap();
                assert_eq!(one, other, "{batch} {offset} {index}");
            }
        }
    }
}
