//! Words whose vectors point the same way, and words that are spelled alike.

use crate::vocabulary::Vocabulary;
use serde::Serialize;

/// A word and how much its vector points the way of another's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbour {
    /// The word.
    pub word: String,
    /// The cosine of the angle between the two vectors.
    pub cosine: f64,
}

/// The `k` words whose vectors, rows of `vectors` (V, d), have the largest cosines with that of word `id`, largest first;
/// of equals, the more frequent in training. The word itself is not among them.
pub fn neighbours(vectors: &[f32], vocabulary: &Vocabulary, id: u32, k: usize) -> Vec<Neighbour> {
    let d = vectors.len() / vocabulary.len();
    let row = |id: u32| vectors[id as usize * d..][..d].iter().map(|&x| f64::from(x));
    let norm = |id: u32| row(id).map(|x| x * x).sum::<f64>().sqrt();
    let own = norm(id);
    let cosine = |other: u32| {
        let product: f64 = row(id).zip(row(other)).map(|(a, b)| a * b).sum();
        let norms = own * norm(other);
        if norms > 0.0 { product / norms } else { 0.0 }
    };
    let others = (0..vocabulary.len() as u32).filter(|&other| other != id);
    let mut all: Vec<(f64, u32)> = others.map(|other| (cosine(other), other)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let neighbour = |(cosine, id): (f64, u32)| Neighbour { word: vocabulary.word(id).to_owned(), cosine };
    all.into_iter().take(k).map(neighbour).collect()
}

/// The word of the vocabulary that is spelled most like `word`, if one is alike at all: the same but for upper and lower
/// case, or at most a third of the letters away. Of equals, the more frequent in training.
pub fn similar_spelling<'a>(vocabulary: &'a Vocabulary, word: &str) -> Option<&'a str> {
    let lower: Vec<char> = word.to_lowercase().chars().collect();
    let limit = lower.len() / 3;
    let distances = vocabulary.words().filter_map(|candidate| {
        let letters: Vec<char> = candidate.to_lowercase().chars().collect();
        let distance = if letters.len().abs_diff(lower.len()) > limit { None } else { Some(edits(&lower, &letters)) };
        distance.filter(|&distance| distance <= limit).map(|distance| (distance, candidate))
    });
    // `min_by_key` keeps the first of equals.
    distances.min_by_key(|&(distance, _)| distance).map(|(_, candidate)| candidate)
}

/// How many letters must be added, taken away or changed to turn one spelling into the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
