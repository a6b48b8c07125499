//! A map of the words: their vectors seen from the side on which they differ most.
//!
//! The two directions are the first principal components of the vectors of the words on the map, found by power iteration
//! on `X^T X` with the mean of `X` (n, d) taken off; the second is kept orthogonal to the first.

use crate::vocabulary::Vocabulary;
use serde::Serialize;

/// Rounds of the power iteration: the map is to be looked at, not computed with.
const ROUNDS: usize = 60;

/// A word and its place, the farthest word being 1 away from the middle in each direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// The word.
    pub word: String,
    /// Along the first component.
    pub x: f32,
    /// Along the second.
    pub y: f32,
}

/// The `n` most frequent words that begin with a letter, placed by their vectors, rows of `vectors` (V, d).
pub fn word_map(vectors: &[f32], vocabulary: &Vocabulary, n: usize) -> Vec<Place> {
    let d = vectors.len() / vocabulary.len().max(1);
    let begins_with_letter = |word: &str| word.chars().next().is_some_and(char::is_alphabetic);
    let chosen: Vec<usize> =
        vocabulary.words().enumerate().filter(|(_, word)| begins_with_letter(word)).map(|(id, _)| id).take(n).collect();
    let row = |id: usize| &vectors[id * d..][..d];
    let mut mean = vec![0.0; d];
    for &id in &chosen {
        mean.iter_mut().zip(row(id)).for_each(|(m, &x)| *m += f64::from(x) / chosen.len() as f64);
    }
    let centred: Vec<Vec<f64>> =
        chosen.iter().map(|&id| row(id).iter().zip(&mean).map(|(&x, m)| f64::from(x) - m).collect()).collect();
    let first = component(&centred, None, d);
    let second = component(&centred, Some(&first), d);
    let along = |direction: &[f64]| {
        let places: Vec<f64> = centred.iter().map(|x| dot(x, direction)).collect();
        let largest = places.iter().fold(1e-30, |most: f64, x| most.max(x.abs()));
        places.into_iter().map(move |x| (x / largest) as f32).collect::<Vec<f32>>()
    };
    let (xs, ys) = (along(&first), along(&second));
    let place = |((&id, x), y)| Place { word: vocabulary.word(id as u32).to_owned(), x, y };
    chosen.iter().zip(xs).zip(ys).map(place).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The direction in which the rows differ most, orthogonal to `other`.
fn component(rows: &[Vec<f64>], other: Option<&[f64]>, d: usize) -> Vec<f64> {
    // Any start will do that is not orthogonal to the answer.
    let mut v: Vec<f64> = (0..d).map(|i| 1.0 + ((i * 7919) % 101) as f64 / 101.0).collect();
    for _ in 0..ROUNDS {
        let mut next = vec![0.0; d];
        for row in rows {
            let share = dot(row, &v);
            next.iter_mut().zip(row).for_each(|(n, x)| *n += share * x);
        }
        if let Some(other) = other {
            let share = dot(&next, other);
            next.iter_mut().zip(other).for_each(|(n, o)| *n -= share * o);
        }
        let norm = dot(&next, &next).sqrt();
        if norm < 1e-30 {
            break;
        }
        v = next.into_iter().map(|x| x / norm).collect();
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn words_lie_along_the_directions_in_which_they_differ_most() {
        let words = "a\nb\nc\nd\n,\n<eos>\n";
        let vocabulary = Vocabulary::from_text(Path::new("v"), words.as_bytes()).unwrap();
        // They differ by 4 along the third axis, by 1 along the first, hardly along the second.
        let vectors = [
            [5.0, 0.0, -4.0],
            [6.0, 0.0, 4.0],
            [6.0, 0.01, -4.0],
            [5.0, 0.0, 4.0],
            [99.0, 99.0, 99.0],
            [0.0, 0.0, 0.0],
        ]
        .concat();
        let map = word_map(&vectors, &vocabulary, 10);
        assert_eq!(map.iter().map(|place| place.word.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        let close = |a: f32, b: f32| (a - b).abs() < 0.02;
        assert!(close(map[0].x, map[2].x) && close(map[1].x, map[3].x) && close(map[0].x, -map[1].x), "{map:?}");
        assert!(close(map[0].y, map[3].y) && close(map[1].y, map[2].y) && close(map[0].y, -map[1].y), "{map:?}");
        assert!(close(map[0].x.abs(), 1.0) && close(map[0].y.abs(), 1.0), "{map:?}");
        assert_eq!(word_map(&vectors, &vocabulary, 2).len(), 2);
    }
}
