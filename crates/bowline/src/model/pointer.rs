//! A pointer to the last words beside the softmax: the pointer sentinel mixture (Merity et al. 2017).
//!
//! What the classifier sees, `h`, also asks which of the last `L` words may come again. With `i` over the window, the word that
//! was read last among them, and a sentinel `s`:
//!
//! `q = tanh(Q h + b)`, `a = softmax([q . h_i .., q . s])`, `g` the sentinel's share of it,
//! `p(w) = g softmax(W h)_w + sum_{i: w_i = w} a_i`.
//!
//! The loss is `-log p(y) - log(g + sum_{i: w_i = y} a_i)`: without the second term the gate learns to ignore the pointer. The
//! window reaches back into the windows read before; no gradient does.
//!
//! All that a distribution needs besides the weights is the *outlook* of a word, a row
//! `[h (d) | g | a (L) | w (L)]`, oldest word first; `w` is a word's id and 1, and 0 is none.

use super::layer::{Backward, Shape};
use super::pass::LayerMasks;
use super::projection::Projection;
use super::state::Part;
use crate::compute::Compute;
use crate::layout::{PointerTensors, ProjectionTensors};
use crate::params::Params;
use crate::spec::{Activation, ModelSpec, ProjectionSpec};
use bowline_kernels::{Buffer, Into, Mat, PackedB, gemm_alone};

/// The names of the carried parts of the state: the last words of each stream, oldest first, each as its id and 1; 0 is none.
/// And what the classifier saw after each.
pub(super) const PARTS: [&str; 2] = ["pointer_words", "pointer_h"];

/// The pointer's buffers and packed weights.
pub(super) struct Pointer {
    compute: Compute,
    /// `L`.
    window: usize,
    d: usize,
    tensors: PointerTensors,
    query: Projection,
    streams: Vec<Stream>,
    /// (T, B, d + 1 + 2 L).
    outlook: Buffer,
    /// (T, B, d) each: the gradient by the queries, and through them by `h`.
    d_query: Buffer,
    through_query: Buffer,
}

/// One stream at work, the carried words first.
struct Stream {
    words: Vec<u32>,
    /// How many of them were carried.
    known: usize,
    /// `h` after each of them, and the queries of those of the window.
    states: Buffer,
    queries: Buffer,
    scores: Buffer,
    products: Buffer,
    packed: PackedB,
    /// The gradients by the states, by the queries and by the sentinel.
    d_states: Buffer,
    d_queries: Buffer,
    d_sentinel: Vec<f32>,
}

/// Some words of a stream, and all that their windows reach.
struct Piece {
    /// Words of the window, counted from its first.
    steps: std::ops::Range<usize>,
    /// Words of the stream, carried ones included.
    reach: std::ops::Range<usize>,
}

impl Pointer {
    /// Room for `rows` words; none if the model has no pointer.
    pub(super) fn new(spec: &ModelSpec, compute: &Compute, rows: usize) -> Option<Pointer> {
        let (pointer, tensors, d) = (spec.output.pointer?, spec.layout().pointer?, spec.width());
        let query = ProjectionSpec { width: d, activation: Activation::Tanh, bias: true };
        let of_query = ProjectionTensors { weight: tensors.query, bias: Some(tensors.bias) };
        Some(Pointer {
            compute: compute.clone(),
            window: pointer.window,
            d,
            tensors,
            query: Projection::with(query, of_query, d, compute, rows),
            streams: Vec::new(),
            outlook: Buffer::zeros(rows * spec.outlook()),
            d_query: Buffer::new(),
            through_query: Buffer::new(),
        })
    }

    /// Takes new weights.
    pub(super) fn pack(&mut self, params: &Params) {
        self.query.pack(params);
    }

    /// From `h`, (T, B, d), to [`Pointer::outlook`]. The last words are carried in and out.
    pub(super) fn forward(&mut self, params: &Params, inputs: &[u32], h: &[f32], carried: &mut [Part], shape: Shape) {
        let ((steps, batch), d, window) = (shape, self.d, self.window);
        let [words, states] = carried else { return };
        self.query.forward(params, h, None, shape);
        let queries = self.query.output(shape);
        self.streams.resize_with(batch.max(self.streams.len()), || Stream::new(&self.compute));
        let sentinel = params.of(self.tensors.sentinel);
        let width = d + 1 + 2 * window;
        let jobs = self
            .streams
            .iter_mut()
            .zip(words.values.chunks_exact_mut(window))
            .zip(states.values.chunks_exact_mut(window * d))
            .enumerate()
            .take(batch);
        self.compute.team.for_each(jobs, |(b, ((stream, words), states))| {
            stream.take(words, states, (inputs, h, queries), (b, steps, batch, d));
            stream.attend(sentinel, (steps, d, window));
            stream.leave(words, states, d);
        });
        for (b, stream) in self.streams.iter().enumerate().take(batch) {
            for t in 0..steps {
                let row = t * batch + b;
                stream.tell(t, (d, window), &mut self.outlook[row * width..][..width]);
            }
        }
    }

    /// The outlook after every word of the window that was read last, (T, B, d + 1 + 2 L).
    pub(super) fn outlook(&self, (steps, batch): Shape) -> &[f32] {
        &self.outlook[..steps * batch * (self.d + 1 + 2 * self.window)]
    }

    /// The outlook of one stream in a state.
    pub(super) fn after(&self, params: &Params, carried: &[Part], h: &[f32]) -> Vec<f32> {
        let (d, window) = (self.d, self.window);
        let mut row = vec![0.0; d + 1 + 2 * window];
        row[..d].copy_from_slice(h);
        let [words, states] = carried else { return row };
        let query = self.query.of(params, h);
        let dot = |x: &[f32]| x.iter().zip(&query).map(|(x, q)| x * q).sum::<f32>();
        let known: Vec<usize> = (0..window).filter(|&i| words.values[i] > 0.0).collect();
        let mut scores: Vec<f32> = known.iter().map(|&i| dot(&states.values[i * d..][..d])).collect();
        scores.push(dot(params.of(self.tensors.sentinel)));
        softmax(&mut scores);
        let (out, rest) = row[d..].split_at_mut(1);
        let (shares, ids) = rest.split_at_mut(window);
        out[0] = scores[known.len()];
        for (&i, &share) in known.iter().zip(&scores) {
            (shares[i], ids[i]) = (share, words.values[i]);
        }
        row
    }

    /// The gradient of the loss by `h`, added to `d_h`, (T, B, d), and of the weights, where the classifier alone gave
    /// `-log y_target` of each word as `losses` say. `scale` is the weight of a word in the loss.
    pub(super) fn backward(
        &mut self,
        (params, h, shape): (&Params, &[f32], Shape),
        (targets, losses, scale): (&[u32], &[f64], f32),
        (gradient, d_h): (&mut Params, &mut [f32]),
        scratch: &mut PackedB,
    ) {
        let ((steps, batch), d, window) = (shape, self.d, self.window);
        let (rows, width) = (steps * batch, d + 1 + 2 * window);
        let (sentinel, outlook) = (params.of(self.tensors.sentinel), &self.outlook[..]);
        self.compute.team.for_each(self.streams.iter_mut().enumerate().take(batch), |(b, stream)| {
            stream.begin_back((steps, d));
            for piece in pieces(steps, stream.known, window) {
                stream.scores_back(&piece, |t, d_scores| {
                    let row = t * batch + b;
                    let seen = Outlook::of(&outlook[row * width..][..width], d);
                    seen.gradient(targets[row], losses[row], scale, d_scores)
                });
                stream.products_back(&piece, sentinel, d);
            }
        });
        self.d_query.grow(rows * d);
        let d_sentinel = gradient.of_mut(self.tensors.sentinel);
        d_sentinel.fill(0.0);
        for (b, stream) in self.streams.iter().enumerate().take(batch) {
            d_sentinel.iter_mut().zip(&stream.d_sentinel).for_each(|(sum, x)| *sum += x);
            for t in 0..steps {
                let row = (t * batch + b) * d;
                self.d_query[row..][..d].copy_from_slice(&stream.d_queries[t * d..][..d]);
                let by_state = &stream.d_states[(stream.known + t) * d..][..d];
                d_h[row..][..d].iter_mut().zip(by_state).for_each(|(sum, x)| *sum += x);
            }
        }
        self.through_query.grow(rows * d);
        let (masks, through_query) = (LayerMasks::default(), &mut self.through_query[..rows * d]);
        let back = Backward { params, x: h, masks, shape, d_output: &mut self.d_query[..rows * d], d_raw: None };
        self.query.backward(back, gradient, through_query, scratch);
        d_h.iter_mut().zip(&*through_query).for_each(|(sum, x)| *sum += x);
    }
}

impl Stream {
    fn new(compute: &Compute) -> Stream {
        let (isa, precision) = (compute.isa, bowline_kernels::Precision::F32);
        Stream {
            words: Vec::new(),
            known: 0,
            states: Buffer::new(),
            queries: Buffer::new(),
            scores: Buffer::new(),
            products: Buffer::new(),
            packed: PackedB::new(isa, precision),
            d_states: Buffer::new(),
            d_queries: Buffer::new(),
            d_sentinel: Vec::new(),
        }
    }

    /// What was carried, then what the window has of stream `b`.
    fn take(
        &mut self,
        words: &[f32],
        states: &[f32],
        (inputs, h, queries): (&[u32], &[f32], &[f32]),
        (b, steps, batch, d): (usize, usize, usize, usize),
    ) {
        self.words.clear();
        self.words.extend(words.iter().filter(|&&word| word > 0.0).map(|&word| word as u32 - 1));
        self.known = self.words.len();
        self.words.extend(inputs.iter().skip(b).step_by(batch));
        self.states.resize((self.known + steps) * d);
        self.queries.resize(steps * d);
        let (old, new) = self.states.split_at_mut(self.known * d);
        old.copy_from_slice(&states[states.len() - old.len()..]);
        for t in 0..steps {
            let row = (t * batch + b) * d;
            new[t * d..][..d].copy_from_slice(&h[row..][..d]);
            self.queries[t * d..][..d].copy_from_slice(&queries[row..][..d]);
        }
    }

    /// `a` of every word of the window into `scores`: for each `L` shares, oldest word first, and that of the sentinel.
    fn attend(&mut self, sentinel: &[f32], (steps, d, window): (usize, usize, usize)) {
        self.scores.resize(steps * (window + 1));
        for piece in pieces(steps, self.known, window) {
            let (rows, keys) = (piece.steps.len(), piece.reach.len());
            let reached = &self.states[piece.reach.start * d..piece.reach.end * d];
            self.packed.pack_alone(Mat::new(reached, keys, d).t());
            self.products.resize(rows * keys);
            let queries = &self.queries[piece.steps.start * d..piece.steps.end * d];
            gemm_alone(Mat::new(queries, rows, d), &self.packed, &mut self.products, Into::Overwrite);
            for (t, products) in piece.steps.clone().zip(self.products.chunks_exact(keys)) {
                let row = &mut self.scores[t * (window + 1)..][..window + 1];
                let place = piece.place(self.known + t, window);
                row[..place.empty].fill(0.0);
                row[place.empty..window].copy_from_slice(&products[place.keys]);
                let query = &self.queries[t * d..][..d];
                row[window] = query.iter().zip(sentinel).map(|(q, s)| q * s).sum();
                softmax(&mut row[place.empty..]);
            }
        }
    }

    /// The last words and states, for the next window.
    fn leave(&self, words: &mut [f32], states: &mut [f32], d: usize) {
        let n = self.words.len().min(words.len());
        let (none, some) = words.split_at_mut(words.len() - n);
        none.fill(0.0);
        some.iter_mut().zip(&self.words[self.words.len() - n..]).for_each(|(to, &word)| *to = (word + 1) as f32);
        let (none, some) = states.split_at_mut(states.len() - n * d);
        none.fill(0.0);
        some.copy_from_slice(&self.states[(self.words.len() - n) * d..]);
    }

    /// The outlook of word `t` of the window.
    fn tell(&self, t: usize, (d, window): (usize, usize), row: &mut [f32]) {
        let (scores, at) = (&self.scores[t * (window + 1)..][..window + 1], self.known + t);
        row[..d].copy_from_slice(&self.states[at * d..][..d]);
        row[d] = scores[window];
        row[d + 1..][..window].copy_from_slice(&scores[..window]);
        let ids = &mut row[d + 1 + window..];
        let seen = &self.words[(at + 1).saturating_sub(window)..=at];
        let (none, some) = ids.split_at_mut(window - seen.len());
        none.fill(0.0);
        some.iter_mut().zip(seen).for_each(|(to, &word)| *to = (word + 1) as f32);
    }

    fn begin_back(&mut self, (steps, d): (usize, usize)) {
        self.d_states.resize((self.known + steps) * d);
        self.d_states.fill(0.0);
        self.d_queries.resize(steps * d);
        self.d_sentinel.clear();
        self.d_sentinel.resize(d, 0.0);
    }

    /// The gradient by the scores of a piece in the place of the shares, as `each` gives it for a word of the window.
    fn scores_back(&mut self, piece: &Piece, each: impl Fn(usize, &mut [f32])) {
        let width = self.scores.len() / (self.words.len() - self.known);
        for t in piece.steps.clone() {
            each(t, &mut self.scores[t * width..][..width]);
        }
    }

    /// From there to the gradient by the queries, the states and the sentinel.
    fn products_back(&mut self, piece: &Piece, sentinel: &[f32], d: usize) {
        let window = self.scores.len() / (self.words.len() - self.known) - 1;
        let (rows, keys) = (piece.steps.len(), piece.reach.len());
        self.products.resize(rows * keys);
        self.products.fill(0.0);
        for (t, d_products) in piece.steps.clone().zip(self.products.chunks_exact_mut(keys)) {
            let d_scores = &self.scores[t * (window + 1)..][..window + 1];
            let place = piece.place(self.known + t, window);
            d_products[place.keys].copy_from_slice(&d_scores[place.empty..window]);
            let query = &self.queries[t * d..][..d];
            self.d_sentinel.iter_mut().zip(query).for_each(|(sum, q)| *sum += d_scores[window] * q);
            let d_query = &mut self.d_queries[t * d..][..d];
            d_query.iter_mut().zip(sentinel).for_each(|(to, s)| *to = d_scores[window] * s);
        }
        let d_products = Mat::new(&self.products, rows, keys);
        let reach = piece.reach.start * d..piece.reach.end * d;
        let steps = piece.steps.start * d..piece.steps.end * d;
        self.packed.pack_alone(Mat::new(&self.states[reach.clone()], keys, d));
        gemm_alone(d_products, &self.packed, &mut self.d_queries[steps.clone()], Into::Accumulate);
        self.packed.pack_alone(Mat::new(&self.queries[steps], rows, d));
        gemm_alone(d_products.t(), &self.packed, &mut self.d_states[reach], Into::Accumulate);
    }
}

/// Where the window of a word is among the keys of its piece.
struct Place {
    /// Places of the window that no word fills yet.
    empty: usize,
    keys: std::ops::Range<usize>,
}

impl Piece {
    /// The window that ends with word `at` of the stream.
    fn place(&self, at: usize, window: usize) -> Place {
        let first = (at + 1).saturating_sub(window);
        let keys = first - self.reach.start..at + 1 - self.reach.start;
        Place { empty: window - keys.len(), keys }
    }
}

/// The words of a window in pieces of at most `window`, so that no product has many more keys than a window.
fn pieces(steps: usize, known: usize, window: usize) -> impl Iterator<Item = Piece> {
    (0..steps).step_by(window).map(move |first| {
        let steps = first..steps.min(first + window);
        Piece { reach: (known + first + 1).saturating_sub(window)..known + steps.end, steps }
    })
}

/// `softmax(x)` in its place.
pub(super) fn softmax(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    x.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f64 = x.iter().map(|&x| f64::from(x)).sum();
    x.iter_mut().for_each(|x| *x = (f64::from(*x) / sum) as f32);
}

/// A row of [`Pointer::outlook`], taken apart.
#[derive(Clone, Copy)]
pub(crate) struct Outlook<'a> {
    /// What the classifier sees.
    pub(crate) h: &'a [f32],
    /// The share of the classifier.
    pub(crate) gate: f32,
    shares: &'a [f32],
    words: &'a [f32],
}

impl<'a> Outlook<'a> {
    pub(crate) fn of(row: &'a [f32], d: usize) -> Outlook<'a> {
        let (h, rest) = row.split_at(d);
        let (shares, words) = rest[1..].split_at((rest.len() - 1) / 2);
        Outlook { h, gate: rest[0], shares, words }
    }

    /// The words of the window and their shares, oldest first.
    pub(crate) fn pointed(self) -> impl Iterator<Item = (u32, f32)> + 'a {
        let there = |(&word, &share): (&f32, &f32)| (word > 0.0).then(|| (word as u32 - 1, share));
        self.words.iter().zip(self.shares).filter_map(there)
    }

    /// What the pointer gives to a word.
    fn mass(self, word: u32) -> f64 {
        self.pointed().filter(|&(other, _)| other == word).map(|(_, share)| f64::from(share)).sum()
    }

    /// `-log p(word)`, where the classifier alone gives it `nll`.
    pub(crate) fn mixed(self, word: u32, nll: f64) -> f64 {
        -(f64::from(self.gate) * (-nll).exp() + self.mass(word)).ln()
    }

    /// The classifier's share of `p(word)`: by this its own gradient is less.
    pub(crate) fn share(self, word: u32, nll: f64) -> f64 {
        let own = f64::from(self.gate) * (-nll).exp();
        let all = own + self.mass(word);
        if all > 0.0 { own / all } else { 1.0 }
    }

    /// `p` of all words in the place of the classifier's own.
    pub(crate) fn mix(self, y: &mut [f32]) {
        y.iter_mut().for_each(|y| *y *= self.gate);
        self.pointed().for_each(|(word, share)| y[word as usize] += share);
    }

    /// The gradient of `scale (-log p(y) - log(g + m))` by the scores, where `m` is what the pointer gives to `y`:
    /// by a share `a_i` of `y` it is `-(1 / p + 1 / (g + m))`, by `g` it is `-(y_own / p + 1 / (g + m))`.
    fn gradient(self, target: u32, nll: f64, scale: f32, d_scores: &mut [f32]) {
        let (gate, own, mass) = (f64::from(self.gate), (-nll).exp(), self.mass(target));
        let (p, guided) = ((gate * own + mass).max(f64::MIN_POSITIVE), (gate + mass).max(f64::MIN_POSITIVE));
        let (by_share, by_gate) = (-(1.0 / p + 1.0 / guided), -(own / p + 1.0 / guided));
        let along = mass * by_share + gate * by_gate;
        let slope = |share: f32, by: f64| (f64::from(scale) * f64::from(share) * (by - along)) as f32;
        let (by_words, by_sentinel) = d_scores.split_at_mut(self.words.len());
        for ((d, &word), &share) in by_words.iter_mut().zip(self.words).zip(self.shares) {
            *d = slope(share, if word == (target + 1) as f32 { by_share } else { 0.0 });
        }
        by_sentinel[0] = slope(self.gate, by_gate);
    }
}
