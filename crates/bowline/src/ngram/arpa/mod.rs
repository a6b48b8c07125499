//! ARPA files: n-gram models as text, the format that SRILM, KenLM and every decoder read.
//!
//! ```text
//! \data\
//! ngram 1=4
//! ngram 2=3
//!
//! \1-grams:
//! -99        <s>     -0.30103          log10 p, the n-gram, log10 of its back-off weight
//! -0.69897   </s>
//! ...
//! \2-grams:
//! -0.1249387 <s> the                   the longest n-grams have no back-off weight
//! ...
//! \end\
//! ```
//!
//! The end of a sentence, `<eos>` here, is `</s>` there, and its beginning, which is never predicted, is `<s>` with the
//! probability -99 by convention. A probability or weight of at most -99 is read as 0. Files whose names end in `.gz` are
//! written compressed; compressed files are known by their first bytes.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{parse, read};
pub use write::{save, write};

/// The beginning of a sentence.
const BEGIN: &str = "<s>";
/// The end of a sentence.
const END: &str = "</s>";
/// What log10 of zero is written as.
const LOG_ZERO: f64 = -99.0;
