//! The features of topics, in plain loops: `f = softmax(sum of the table's rows of the last words)`.

use super::Window;
use super::loss::log_softmax;

/// The features after each word of a window, `(t, b)` at `t * batch + b`. `carried` are the words before it, for each stream.
pub fn features(table: &[f64], (k, window): (usize, usize), carried: &[Vec<u32>], text: &Window) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for t in 0..text.steps {
        for b in 0..text.batch {
            let mut words = carried[b].clone();
            words.extend((0..=t).map(|t| text.inputs[t * text.batch + b]));
            let last = &words[words.len().saturating_sub(window)..];
            let sums: Vec<f64> = (0..k).map(|j| last.iter().map(|&word| table[word as usize * k + j]).sum()).collect();
            all.push(log_softmax(&sums).iter().map(|x| x.exp()).collect());
        }
    }
    all
}
