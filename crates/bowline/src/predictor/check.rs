//! What cannot be a probability is an error, not a number in a table.

use crate::error::{Error, Result};
use std::path::Path;

/// Rounding may bring a logarithm so far above 0.
const ROUNDING: f64 = 1e-3;

/// Whether this can be the logarithm of a probability. It can be minus infinity: a model may rule a word out.
pub fn is_logprob(x: f64) -> bool {
    x <= ROUNDING
}

/// Checks the logarithms of probabilities that the model in `from` gave to the words of a text, one after the other.
pub fn check_logprobs(from: &Path, logprobs: impl IntoIterator<Item = f64>) -> Result<()> {
    let Some((at, x)) = logprobs.into_iter().enumerate().find(|&(_, x)| !is_logprob(x)) else { return Ok(()) };
    let (what, advice) = match x {
        x if x.is_nan() => {
            ("not a number".to_owned(), "a lower --dynamic-rate, smaller --weights, or a model whose weights are sound")
        }
        x => (
            format!("{:e}, above 1", x.exp()),
            "a model whose probabilities sum to 1: the back-off weights of an ARPA file may be too large for its probabilities",
        ),
    };
    Err(Error::model(from, "predictions", format!("the probability of word {} of the text is {what}", at + 1), advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_probability_is_named_with_its_word() {
        let check = |logprobs: &[f64]| check_logprobs(Path::new("model"), logprobs.iter().copied());
        assert!(check(&[]).is_ok());
        assert!(check(&[-1.0, f64::NEG_INFINITY, 0.0, 1e-6]).is_ok());
        let message = check(&[-1.0, 66.774_967]).unwrap_err().to_string();
        assert!(message.starts_with("model: predictions: the probability of word 2 of the text is 9.9"), "{message}");
        assert!(message.contains("e28, above 1\n  try: "), "{message}");
        assert!(check(&[f64::NAN]).unwrap_err().to_string().contains("word 1 of the text is not a number"));
        assert!(check(&[f64::INFINITY]).is_err());
    }
}
