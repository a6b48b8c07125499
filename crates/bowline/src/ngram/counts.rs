//! Counting n-grams.
//!
//! The text is read as one stream with an `<eos>` before it. An n-gram of it is valid if no word but its first (the
//! beginning of a sentence) and its last (the end of one) is `<eos>`. Level by level every position of the stream gets
//! the node of the valid n-gram that starts there: sorting the positions by the node one word shorter and the word that
//! follows puts the nodes of the next level in the order of the trie.

use super::model::NONE;

/// The n-grams of one length, in the order of the trie.
#[derive(Debug, Default)]
pub(super) struct Grams {
    /// The last word of each node.
    pub words: Vec<u32>,
    /// The children of node `i` are `first[i] .. first[i + 1]` of the next level. Empty on the last level.
    pub first: Vec<u32>,
    /// The node one level up without the first word: `w2 .. wk` of `w1 .. wk`. Empty on the first level.
    pub suffix: Vec<u32>,
    /// The *adjusted count*: how often the n-gram stands in the text if it is of the longest ones or begins a sentence;
    /// otherwise before how many different words it stands, its *continuation count* (Chen & Goodman 1998, section 2.7;
    /// that n-grams at the beginning of a sentence keep their counts, since nothing can stand before them, is the custom of
    /// SRILM and KenLM).
    pub counts: Vec<u32>,
    /// How often the n-gram stands in the text.
    pub raw: Vec<u32>,
}

/// Counts the n-grams of 1 to `order` words. All `ids` are below `vocab`, and there are fewer than 2^32 - 1 of them.
pub(super) fn count(ids: &[u32], vocab: usize, eos: u32, order: usize) -> Vec<Grams> {
    let stream: Vec<u32> = std::iter::once(eos).chain(ids.iter().copied()).collect();
    let mut single = Grams { words: (0..vocab as u32).collect(), counts: vec![0; vocab], ..Grams::default() };
    for &word in ids {
        single.counts[word as usize] += 1;
    }
    let mut levels = vec![single];
    // The node of the n-gram that starts at each position, of the present length.
    let mut nodes = stream.clone();
    let mut places: Vec<(u64, u32)> = Vec::with_capacity(stream.len());
    for length in 2..=order {
        places.clear();
        for (start, (&node, &last)) in nodes.iter().zip(stream.iter().skip(length - 1)).enumerate() {
            let ended = length > 2 && stream[start + length - 2] == eos;
            if node != NONE && !ended {
                places.push((u64::from(node) << 32 | u64::from(last), start as u32));
            }
        }
        places.sort_unstable();
        let shorter = &nodes;
        let mut longer = vec![NONE; stream.len()];
        let parents = levels[length - 2].words.len();
        let (mut grams, mut first) = (Grams::default(), Vec::with_capacity(parents + 1));
        let mut previous = None;
        for &(key, start) in &places {
            if previous != Some(key) {
                previous = Some(key);
                // This node is the first child of every parent up to its own that has none yet.
                first.resize((key >> 32) as usize + 1, grams.words.len() as u32);
                grams.words.push(key as u32);
                grams.suffix.push(shorter[start as usize + 1]);
                grams.counts.push(0);
            }
            let node = grams.words.len() - 1;
            grams.counts[node] += 1;
            longer[start as usize] = node as u32;
        }
        first.resize(parents + 1, grams.words.len() as u32);
        levels[length - 2].raw = levels[length - 2].counts.clone();
        continuation_counts(&mut levels[length - 2].counts, &grams.suffix, length == 2);
        levels[length - 2].first = first;
        levels.push(grams);
        nodes = longer;
    }
    if let Some(longest) = levels.last_mut() {
        longest.raw = longest.counts.clone();
    }
    levels
}

/// Replaces the counts of a level by how many different n-grams of the next level end in each: their suffixes. An n-gram
/// that no other ends in begins a sentence, and keeps its count; only a single word that no other comes before has not
/// been seen at all.
fn continuation_counts(counts: &mut [u32], suffixes: &[u32], single: bool) {
    let mut different = vec![0; counts.len()];
    for &suffix in suffixes {
        different[suffix as usize] += 1;
    }
    for (count, different) in counts.iter_mut().zip(different) {
        if different > 0 || single {
            *count = different;
        }
    }
}
