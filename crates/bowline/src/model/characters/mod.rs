//! Word vectors from characters (Kim et al. 2016): vectors of the symbols, convolutions over them, a feed-forward highway.
//!
//! In training a window's different words are worked out once each, in the order in which they first occur, and the gradient by
//! a word's vector is the sum over its places, in their order. For evaluation all words are worked out once, when the weights are
//! taken; then it is a table like any other, to which words outside the vocabulary can be added.

mod convolution;
mod highway;

use super::embedding;
use crate::compute::Compute;
use crate::layout::TensorId;
use crate::model::Masks;
use crate::params::Params;
use crate::spec::ModelSpec;
use bowline_kernels::{Buffer, PackedB, rows_per_job};
use convolution::Convolution;
use highway::Highway;
use std::borrow::Cow;

/// Words that are worked out together when all are.
const TABULATED: usize = 512;

/// Words whose convolutions are one job.
const BLOCK: usize = 32;

/// The buffers and packed weights.
pub(super) struct Characters {
    compute: Compute,
    /// Size of a word vector, `d`.
    width: usize,
    convolutions: Vec<Convolution>,
    highways: Vec<Highway>,
    /// The different words of the window that was read last, in the order of their first occurrence; for each word of the
    /// vocabulary its place among them; and the places of the window's words.
    distinct: Vec<u32>,
    place: Vec<u32>,
    places: Vec<u32>,
    /// (n, d) each: what the convolutions give, where each map has its largest value, and the gradient on its way back.
    pooled: Buffer,
    largest: Vec<u32>,
    d_vectors: Buffer,
    /// (V + n, d): the vectors of all words, where the weights were taken for evaluation, and those of `n` others.
    table: Option<Buffer>,
}

impl Characters {
    /// Room for windows of `rows` words; none if the model reads words as such.
    pub(super) fn new(spec: &ModelSpec, compute: &Compute, rows: usize) -> Option<Characters> {
        let (characters, tensors) = (spec.input.characters.as_ref()?, spec.layout().characters?);
        let (width, rows) = (spec.input.width, rows.max(TABULATED).min(spec.vocab));
        let mut first = 0;
        let convolution = |&one: &(usize, usize, TensorId, TensorId)| {
            first += one.1;
            Convolution::new(compute, one, (tensors.vectors, characters.width), first - one.1)
        };
        Some(Characters {
            compute: compute.clone(),
            width,
            convolutions: tensors.convolutions.iter().map(convolution).collect(),
            highways: tensors.highways.iter().map(|parts| Highway::new(compute, parts, width, rows)).collect(),
            distinct: Vec::with_capacity(rows),
            place: vec![u32::MAX; spec.vocab],
            places: Vec::new(),
            pooled: Buffer::zeros(rows * width),
            largest: vec![0; rows * width],
            d_vectors: Buffer::new(),
            table: None,
        })
    }

    /// Takes new weights; for evaluation all words are worked out.
    pub(super) fn pack(&mut self, params: &Params, for_backward: bool) {
        self.convolutions.iter_mut().for_each(|convolution| convolution.pack(params));
        self.highways.iter_mut().for_each(|highway| highway.pack(params));
        let table = self.table.take();
        if for_backward {
            return;
        }
        let (vocab, d) = (params.spec().vocab, self.width);
        let mut table = table.unwrap_or_else(|| Buffer::zeros(vocab * d));
        if let Some(spelling) = params.spelling() {
            let spelled = |id: usize| spelling.word(id as u32);
            self.tabulate(params, &(0..vocab).map(spelled).collect::<Vec<_>>(), &mut table[..vocab * d]);
        }
        self.table = Some(table);
        self.place.fill(u32::MAX);
        self.distinct.clear();
    }

    /// Adds words outside the vocabulary to the table, in the place of those that were added before: the `i`th has the id
    /// `V + i`.
    pub(super) fn spell(&mut self, params: &Params, words: &[String]) {
        let (Some(spelling), Some(mut table)) = (params.spelling(), self.table.take()) else { return };
        let (known, new) = (params.spec().vocab * self.width, words.len() * self.width);
        if table.len() < known + new {
            let mut larger = Buffer::zeros(known + new);
            larger[..known].copy_from_slice(&table[..known]);
            table = larger;
        }
        let spelled: Vec<Vec<f32>> = words.iter().map(|word| spelling.spell(word)).collect();
        let spelled: Vec<&[f32]> = spelled.iter().map(Vec::as_slice).collect();
        self.tabulate(params, &spelled, &mut table[known..known + new]);
        self.table = Some(table);
    }

    /// The vectors of words of any number by their symbols, (n, d) into `out`.
    fn tabulate(&mut self, params: &Params, words: &[&[f32]], out: &mut [f32]) {
        for (words, out) in words.chunks(TABULATED).zip(out.chunks_mut(TABULATED * self.width)) {
            self.work_out(params, words);
            out.copy_from_slice(self.vectors(words.len()));
        }
    }

    /// The vectors of a window's words, times their masks: (T, B, d) into `out`.
    pub(super) fn forward(&mut self, params: &Params, ids: &[u32], masks: Option<&Masks>, out: &mut [f32]) {
        if let Some(table) = &self.table {
            return embedding::forward(table, ids, masks, self.width, out);
        }
        self.distinct.iter().for_each(|&word| self.place[word as usize] = u32::MAX);
        self.distinct.clear();
        self.places.clear();
        for &word in ids {
            let place = &mut self.place[word as usize];
            if *place == u32::MAX {
                *place = self.distinct.len() as u32;
                self.distinct.push(word);
            }
            self.places.push(*place);
        }
        let Some(spelling) = params.spelling() else { return };
        let words: Vec<&[f32]> = self.distinct.iter().map(|&word| spelling.word(word)).collect();
        self.work_out(params, &words);
        embedding::forward(self.vectors(words.len()), &self.places, masks, self.width, out);
    }

    /// From `d_out`, (T, B, d), the gradient by what [`Characters::forward`] gave, to that of the weights.
    pub(super) fn backward(
        &mut self,
        params: &Params,
        (d_out, masks): (&[f32], Option<&Masks>),
        gradient: &mut Params,
        scratch: &mut PackedB,
    ) {
        let (Some(spelling), Some(tensors)) = (params.spelling(), params.layout().characters.as_ref()) else { return };
        let (d, len) = (self.width, self.distinct.len() * self.width);
        self.d_vectors.grow(len);
        self.d_vectors[..len].fill(0.0);
        embedding::backward(d_out, &self.places, masks, d, &mut self.d_vectors);
        for l in (0..self.highways.len()).rev() {
            let (below, above) = self.highways.split_at_mut(l);
            let x = below.last().map_or(&self.pooled[..len], |highway| highway.output(len / d));
            above[0].backward(params, x, &mut self.d_vectors[..len], gradient, scratch);
        }
        let by_sums = self.d_vectors[..len].iter_mut().zip(&self.pooled[..len]);
        by_sums.for_each(|(d, y)| *d *= 1.0 - y * y);
        let (d_sums, largest, distinct) = (&self.d_vectors[..len], &self.largest, &self.distinct);
        self.compute.team.for_each(self.convolutions.iter_mut(), |convolution| {
            let maps = convolution.columns();
            let rows = d_sums.chunks_exact(d).zip(largest.chunks_exact(d)).zip(distinct);
            convolution.back_to_table(
                rows.map(|((d, largest), &word)| (spelling.word(word), &d[maps.clone()], &largest[maps.clone()])),
            );
        });
        gradient.of_mut(tensors.vectors).fill(0.0);
        self.convolutions.iter_mut().for_each(|convolution| convolution.backward(params, gradient));
    }

    /// The vectors of words by their symbols.
    fn work_out(&mut self, params: &Params, words: &[&[f32]]) {
        let (d, n) = (self.width, words.len());
        let convolutions = &self.convolutions;
        let block = rows_per_job(n, self.compute.team.threads(), BLOCK);
        let jobs = self.pooled[..n * d]
            .chunks_mut(block * d)
            .zip(self.largest[..n * d].chunks_mut(block * d))
            .zip(words.chunks(block));
        self.compute.team.for_each(jobs, |((y, largest), words)| {
            for ((y, largest), word) in y.chunks_exact_mut(d).zip(largest.chunks_exact_mut(d)).zip(words) {
                for convolution in convolutions {
                    let maps = convolution.columns();
                    convolution.forward(params, word, &mut y[maps.clone()], &mut largest[maps]);
                }
            }
        });
        for l in 0..self.highways.len() {
            let (below, above) = self.highways.split_at_mut(l);
            let x = below.last().map_or(&self.pooled[..n * d], |highway| highway.output(n));
            above[0].forward(params, x);
        }
    }

    /// What was worked out last, (n, d).
    fn vectors(&self, n: usize) -> &[f32] {
        self.highways.last().map_or(&self.pooled[..n * self.width], |highway| highway.output(n))
    }
}

/// The vectors of all words, (V, d): the embedding, or what the words' characters give.
pub fn word_vectors(params: &Params) -> Cow<'_, [f32]> {
    let mut characters = match Characters::new(params.spec(), &Compute::with_threads(1), 0) {
        Some(characters) => characters,
        None => return Cow::Borrowed(params.embedding()),
    };
    characters.pack(params, false);
    Cow::Owned(characters.table.map_or_else(Vec::new, |table| table.to_vec()))
}
