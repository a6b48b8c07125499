//! A softmax in two steps: `log y_w = log softmax(C h)_c + log softmax(W_c h)_w` for a word `w` of class `c`.

use super::layout::Layout;
use super::loss::{log_softmax, rows_times};

/// The class of a word where every word counts the same, and the words that are left have classes of their own.
fn class(layout: &Layout, classes: usize, word: usize) -> usize {
    ((word * classes).saturating_sub(1) / layout.vocab).max((word + classes).saturating_sub(layout.vocab))
}

/// The words of each class.
fn words(layout: &Layout, classes: usize) -> Vec<Vec<usize>> {
    let of = |c| (0..layout.vocab).filter(|&w| class(layout, classes, w) == c).collect();
    (0..classes).map(of).collect()
}

/// `log y` of each word's score `W h`, where the model has classes; the scores themselves otherwise.
pub fn logits(layout: &Layout, params: &[f64], h: &[f64], scores: Vec<f64>) -> Vec<f64> {
    let Some(weight) = layout.find("classes.weight") else { return scores };
    let of_classes = log_softmax(&rows_times(&params[weight], h));
    let mut out = vec![0.0; scores.len()];
    for (c, words) in words(layout, of_classes.len()).into_iter().enumerate() {
        let within = log_softmax(&words.iter().map(|&w| scores[w]).collect::<Vec<f64>>());
        words.iter().zip(within).for_each(|(&w, within)| out[w] = of_classes[c] + within);
    }
    out
}

/// From the gradient by the logits to that by the scores, by the classes' weights, which is added to `gradient`, and by `h`.
pub fn backward(
    layout: &Layout,
    params: &[f64],
    (h, scores): (&[f64], &[f64]),
    mut d_logits: Vec<f64>,
    gradient: &mut [f64],
) -> (Vec<f64>, Vec<f64>) {
    let mut d_h = vec![0.0; h.len()];
    let Some(weight) = layout.find("classes.weight") else { return (d_logits, d_h) };
    let y = log_softmax(&rows_times(&params[weight.clone()], h));
    let all: f64 = d_logits.iter().sum();
    for (c, words) in words(layout, y.len()).into_iter().enumerate() {
        let within = log_softmax(&words.iter().map(|&w| scores[w]).collect::<Vec<f64>>());
        let sum: f64 = words.iter().map(|&w| d_logits[w]).sum();
        words.iter().zip(within).for_each(|(&w, within)| d_logits[w] -= within.exp() * sum);
        let d_class = sum - y[c].exp() * all;
        for (k, d_h) in d_h.iter_mut().enumerate() {
            let at = weight.start + c * h.len() + k;
            gradient[at] += d_class * h[k];
            *d_h += d_class * params[at];
        }
    }
    (d_logits, d_h)
}
