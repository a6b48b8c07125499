//! What a network carries from one window to the next, for each of the streams side by side.

use super::features::WORDS;
use super::pointer;
use crate::spec::ModelSpec;

/// One of the values that a layer carries, (B, width).
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The value's name and the layer's number: `h_l0`.
    pub name: String,
    /// Values for each stream.
    pub width: usize,
    /// Stream after stream.
    pub values: Vec<f32>,
}

/// The state of all layers between two windows: the parts of the lowest layer first ([`LayerSpec::state`]), each without a
/// mask. Where the model has topics, words side by side or a pointer, what those remember comes before them.
///
/// [`LayerSpec::state`]: crate::spec::LayerSpec::state
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// From below.
    pub parts: Vec<Part>,
}

impl State {
    /// The state before the first word, of `batch` streams.
    pub fn zeros(spec: &ModelSpec, batch: usize) -> State {
        let of_layer = |(l, layer): (usize, &crate::spec::LayerSpec)| {
            let (names, width) = (layer.state(), layer.units);
            names.iter().map(move |name| Part { name: format!("{name}_l{l}"), width, values: vec![0.0; batch * width] })
        };
        let words =
            spec.remembered().map(|width| Part { name: WORDS.to_owned(), width, values: vec![0.0; batch * width] });
        let pointed = |window: usize| {
            let part =
                |(name, width): (&str, usize)| Part { name: name.to_owned(), width, values: vec![0.0; batch * width] };
            pointer::PARTS.into_iter().zip([window, window * spec.width()]).map(part)
        };
        let pointed = spec.output.pointer.into_iter().flat_map(|pointer| pointed(pointer.window));
        State {
            parts: words.into_iter().chain(pointed).chain(spec.layers.iter().enumerate().flat_map(of_layer)).collect(),
        }
    }

    /// Takes the values of another state of the same size.
    pub fn copy_from(&mut self, other: &State) {
        for (to, from) in self.parts.iter_mut().zip(&other.parts) {
            to.values.copy_from_slice(&from.values);
        }
    }

    /// Back to the state before the first word.
    pub fn reset(&mut self) {
        self.parts.iter_mut().for_each(|part| part.values.fill(0.0));
    }

    /// One stream back to the state before the first word.
    pub fn reset_row(&mut self, row: usize) {
        self.parts.iter_mut().for_each(|part| part.row_mut(row).fill(0.0));
    }

    /// Gives stream `row` the state of a single stream.
    pub fn put(&mut self, row: usize, single: &State) {
        for (to, from) in self.parts.iter_mut().zip(&single.parts) {
            to.row_mut(row).copy_from_slice(&from.values);
        }
    }

    /// The state of stream `row` alone.
    pub fn take(&self, row: usize) -> State {
        let of = |part: &Part| Part { values: part.row(row).to_vec(), ..part.clone() };
        State { parts: self.parts.iter().map(of).collect() }
    }

    /// Takes the streams from `first` on of another state, as many as there are here.
    pub fn take_streams(&mut self, whole: &State, first: usize) {
        for (to, from) in self.parts.iter_mut().zip(&whole.parts) {
            let some = &from.values[first * to.width..][..to.values.len()];
            to.values.copy_from_slice(some);
        }
    }

    /// The way back: gives the streams from `first` on the states of those in `some`.
    pub fn put_streams(&mut self, some: &State, first: usize) {
        for (to, from) in self.parts.iter_mut().zip(&some.parts) {
            let at = first * to.width;
            to.values[at..at + from.values.len()].copy_from_slice(&from.values);
        }
    }

    /// Keeps the first `rows` streams.
    pub fn truncate(&mut self, rows: usize) {
        self.parts.iter_mut().for_each(|part| part.values.truncate(rows * part.width));
    }

    /// The last words, where they are remembered; what the pointer remembers; and the parts of the layers.
    pub(super) fn split_mut(&mut self, spec: &ModelSpec) -> (Option<&mut Part>, &mut [Part], &mut [Part]) {
        let (words, rest) = self.parts.split_at_mut(usize::from(spec.remembered().is_some()));
        let pointer = if spec.output.pointer.is_some() { pointer::PARTS.len() } else { 0 };
        let (pointer, layers) = rest.split_at_mut(pointer);
        (words.first_mut(), pointer, layers)
    }

    /// What the pointer remembers.
    pub(super) fn pointer(&self, spec: &ModelSpec) -> &[Part] {
        let first = usize::from(spec.remembered().is_some());
        if spec.output.pointer.is_some() { &self.parts[first..first + pointer::PARTS.len()] } else { &[] }
    }

    /// The part of a name, such as `h_l0`.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }
}

impl Part {
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }

    fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.width..][..self.width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_s_state_can_be_taken_and_put_and_the_last_ones_dropped() {
        let spec = ModelSpec::paper(5, 3, 2, true);
        let mut state = State::zeros(&spec, 4);
        assert_eq!(state.parts.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["h_l0", "c_l0", "h_l1", "c_l1"]);
        for (i, part) in state.parts.iter_mut().enumerate() {
            part.values.iter_mut().enumerate().for_each(|(k, x)| *x = (100 * i + k) as f32);
        }
        let second = state.take(1);
        assert_eq!(second.parts[2].values, [203.0, 204.0, 205.0]);
        let mut other = State::zeros(&spec, 2);
        other.put(1, &second);
        assert_eq!(other.take(1), second);
        assert_eq!(other.take(0), State::zeros(&spec, 1));
        other.reset_row(1);
        assert_eq!(other, State::zeros(&spec, 2));
        state.truncate(2);
        assert_eq!(state.take(1), second);
        assert_eq!(state.part("c_l1").map(|part| part.values.len()), Some(6));
    }
}
