//! A model as the tensors of a tensor file ([`crate::storage::tensor_file`]).
//!
//! For every length `k`: `k.word`, the last word of each n-gram (not for single words, whose numbers are their ids);
//! `k.probability`; and unless it is the longest `k.backoff` and `k.children`, the number of n-grams one word longer that
//! begin with it. The n-grams stand in the order of the trie ([`super::model`]), so that the children of each follow those of
//! the one before. Whole numbers are stored as `f32`, which has all of them up to 2^24; no vocabulary is larger.

use super::model::{Level, NgramModel};
use crate::error::{Error, Result};
use crate::storage::tensor_file::TensorFile;
use std::borrow::Cow;
use std::path::Path;

const DAMAGED: &str = "the file is damaged or was not made by Bowline: copy it again";

/// The tensors of a model by name.
pub(crate) fn tensors(model: &NgramModel) -> Vec<(String, Cow<'_, [f32]>)> {
    let mut tensors = Vec::new();
    for (level, length) in model.levels().iter().zip(1..) {
        if length > 1 {
            let words: Vec<f32> = level.words.iter().map(|&word| word as f32).collect();
            tensors.push((format!("{length}.word"), Cow::from(words)));
        }
        tensors.push((format!("{length}.probability"), Cow::from(&level.probabilities)));
        if length < model.order() {
            let children: Vec<f32> = level.first.windows(2).map(|pair| (pair[1] - pair[0]) as f32).collect();
            tensors.push((format!("{length}.backoff"), Cow::from(&level.backoffs)));
            tensors.push((format!("{length}.children"), Cow::from(children)));
        }
    }
    tensors
}

/// The model in a file, all of it checked; `path` is for the messages.
pub(crate) fn load(path: &Path, file: &TensorFile, order: usize, vocab: usize, eos: u32) -> Result<NgramModel> {
    let wrong = |name: &str, problem: String| Error::model(path, format!("tensor `{name}`"), problem, DAMAGED);
    let mut expected: Vec<(String, usize)> = Vec::new();
    for length in 1..=order {
        let name = format!("{length}.probability");
        let size = match file.shape(&name) {
            Some(&[size]) if length > 1 || size == vocab => size,
            Some(shape) if length == 1 => return Err(wrong(&name, format!("its shape is {shape:?}, not [{vocab}]"))),
            Some(shape) => return Err(wrong(&name, format!("its shape is {shape:?}, not a list"))),
            None => return Err(wrong(&name, "it is missing".to_owned())),
        };
        if length > 1 {
            expected.push((format!("{length}.word"), size));
        }
        expected.push((name, size));
        if length < order {
            expected.push((format!("{length}.backoff"), size));
            expected.push((format!("{length}.children"), size));
        }
    }
    file.expect_exactly(expected.iter().map(|(name, size)| (name.as_str(), std::slice::from_ref(size))))?;

    let values = |name: &str| -> Result<Vec<f32>> {
        let mut values = vec![0.0; file.shape(name).map_or(0, |shape| shape.iter().product())];
        file.copy_to(name, &mut values)?;
        Ok(values)
    };
    let whole = |name: &str, most: usize| -> Result<Vec<u32>> {
        let values = values(name)?;
        match values.iter().position(|&x| !(x >= 0.0 && x <= most as f32 && x.fract() == 0.0)) {
            Some(at) => Err(wrong(name, format!("the value {} at [{at}] is not from 0 to {most}", values[at]))),
            None => Ok(values.into_iter().map(|x| x as u32).collect()),
        }
    };
    let weights = |name: &str, most: f32| -> Result<Vec<f32>> {
        let values = values(name)?;
        match values.iter().position(|x| !(0.0..=most).contains(x)) {
            Some(at) => Err(wrong(name, format!("the value {} at [{at}] is not from 0 to {most}", values[at]))),
            None => Ok(values),
        }
    };
    let mut levels: Vec<Level> = Vec::with_capacity(order);
    for length in 1..=order {
        let name = format!("{length}.word");
        let words = if length == 1 { (0..vocab as u32).collect() } else { whole(&name, vocab - 1)? };
        if let Some(shorter) = levels.last() {
            let rising = |pair: &[u32]| words[pair[0] as usize..pair[1] as usize].is_sorted_by(|a, b| a < b);
            if let Some(node) = shorter.first.windows(2).position(|pair| !rising(pair)) {
                let problem = format!("the words after n-gram {node} of length {} do not rise", length - 1);
                return Err(wrong(&name, problem));
            }
        }
        let mut level =
            Level { words, probabilities: weights(&format!("{length}.probability"), 1.0)?, ..Level::default() };
        if length < order {
            level.backoffs = weights(&format!("{length}.backoff"), f32::MAX)?;
            let name = format!("{length}.children");
            let next = file.shape(&format!("{}.probability", length + 1)).map_or(0, |shape| shape[0]);
            let mut sum = 0u64;
            level.first.push(0);
            for children in whole(&name, vocab)? {
                sum += u64::from(children);
                level.first.push(sum.min(next as u64) as u32);
            }
            if sum != next as u64 {
                return Err(wrong(&name, format!("the children are {sum}, the longer n-grams {next}")));
            }
        }
        levels.push(level);
    }
    Ok(NgramModel::from_levels(eos, levels))
}
