//! A split cut into `B` streams side by side, read in windows of `T` steps.
//!
//! Invariant: the first input of a window is the last target of the window before it, stream by stream, so that the state
//! carried from one to the other belongs to the words it has seen.

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

/// A split as `B` streams of equal length.
#[derive(Clone, Copy, Debug)]
pub struct Streams<'a> {
    ids: &'a [u32],
    batch: usize,
    unroll: usize,
    length: usize,
}

impl<'a> Streams<'a> {
    /// Divides `ids` into `batch` streams of `(n - 1) / batch` predictions each (what is left over at the end, fewer than
    /// `batch` words, is not used), to be read `unroll` steps at a time.
    pub fn new(ids: &'a [u32], batch: usize, unroll: usize) -> Streams<'a> {
        let batch = batch.max(1);
        Streams { ids, batch, unroll: unroll.max(1), length: ids.len().saturating_sub(1) / batch }
    }

    /// Windows in one pass.
    pub fn windows(&self) -> usize {
        self.length.div_ceil(self.unroll)
    }

    /// Predictions in one pass.
    pub fn predictions(&self) -> usize {
        self.length * self.batch
    }

    /// Where in the split the target of entry `row` of the `index`-th window is.
    pub fn target_position(&self, index: usize, row: usize) -> usize {
        (row % self.batch) * self.length + index * self.unroll + row / self.batch + 1
    }

    /// Puts the `index`-th window into `out`, whose buffers are used again.
    pub fn read(&self, index: usize, out: &mut Window) {
        let first = index * self.unroll;
        out.steps = self.unroll.min(self.length.saturating_sub(first));
        out.batch = self.batch;
        out.inputs.clear();
        out.targets.clear();
        for t in first..first + out.steps {
            for b in 0..self.batch {
                let at = b * self.length + t;
                out.inputs.push(self.ids[at]);
                out.targets.push(self.ids[at + 1]);
            }
        }
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
}
