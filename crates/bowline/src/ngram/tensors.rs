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

#[cfg(test)]
mod tests {
    use super::super::tests::text;
    use super::*;
    use crate::storage::tensor_file::{ContentHash, TensorFileWriter};

    type Tensors = Vec<(String, Vec<f32>)>;

    fn loaded(tensors: &Tensors, order: usize) -> Result<NgramModel> {
        let mut file = TensorFileWriter::new();
        for (name, values) in tensors {
            file.tensor(name, &[values.len()], values);
        }
        let path = Path::new("m.safetensors");
        let file = TensorFile::parse(path, file.to_bytes(path).unwrap(), ContentHash::Required).unwrap();
        load(path, &file, order, 30, 29)
    }

    fn stored() -> (NgramModel, Tensors) {
        let (model, _) = NgramModel::train(&text(3, 200, 30), 30, 29, 3).unwrap();
        let tensors = tensors(&model).into_iter().map(|(name, values)| (name, values.into_owned())).collect();
        (model, tensors)
    }

    #[test]
    fn a_model_survives_its_tensors() {
        for order in [1, 2, 3, 9] {
            let (model, _) = NgramModel::train(&text(3, 200, 30), 30, 29, order).unwrap();
            let tensors: Tensors =
                tensors(&model).into_iter().map(|(name, values)| (name, values.into_owned())).collect();
            assert!(loaded(&tensors, order).unwrap() == model, "{order}");
        }
    }

    #[test]
    fn tensors_that_are_no_model_are_refused() {
        let (_, good) = stored();
        let check = |name: &str, change: &dyn Fn(&mut Vec<f32>), problem: &str| {
            let mut tensors = good.clone();
            let (_, values) = tensors.iter_mut().find(|(found, _)| found == name).unwrap();
            change(values);
            let message = loaded(&tensors, 3).unwrap_err().to_string();
            assert!(message.starts_with(&format!("m.safetensors: {problem}")), "{name}: {message}");
        };
        let of = |name: &str, problem: &str| format!("tensor `{name}`: {problem}");
        check("2.word", &|v| v[1] = 30.0, &of("2.word", "the value 30 at [1] is not from 0 to 29"));
        check("2.word", &|v| v[1] = 0.5, &of("2.word", "the value 0.5 at [1] is not from 0 to 29"));
        check("3.word", &|v| v.swap(0, 1), &of("3.word", "the words after n-gram 0 of length 2 do not rise"));
        check("3.word", &|v| v[1] = v[0], &of("3.word", "the words after n-gram 0 of length 2 do not rise"));
        check("1.probability", &|v| v[2] = -0.1, &of("1.probability", "the value -0.1 at [2] is not from 0 to 1"));
        check("3.probability", &|v| v[2] = 1.5, &of("3.probability", "the value 1.5 at [2] is not from 0 to 1"));
        check("2.backoff", &|v| v[0] = -1.0, &of("2.backoff", "the value -1 at [0] is not from 0 to "));
        check("1.children", &|v| v[0] += 1.0, &of("1.children", "the children are "));
        check("1.children", &|v| v[0] = -1.0, &of("1.children", "the value -1 at [0] is not from 0 to 30"));
        check("1.probability", &|v| v.truncate(29), &of("1.probability", "its shape is [29], not [30]"));
        check("2.backoff", &|v| v.truncate(5), &of("2.backoff", "its shape is [5], it should be "));
        let message = loaded(&good, 4).unwrap_err().to_string();
        assert!(message.starts_with("m.safetensors: tensor `4.probability`: it is missing"), "{message}");
        let message = loaded(&good, 2).unwrap_err().to_string();
        assert!(message.contains("there should be no such tensor"), "{message}");
    }
}
