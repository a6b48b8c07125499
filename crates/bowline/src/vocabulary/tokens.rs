//! Words with given ids: the `tokens.txt` of a speech recogniser.
//!
//! ```text
//! <blk> 0
//! <sos/eos> 1
//! <unk> 2
//! ▁THE 3
//! ```
//!
//! The ids index the recogniser's outputs, so they are kept: each line must have the id of its place. A file that one has is
//! never put in order here, because the ids of a wrong file would be as wrong in another order.

use std::path::Path;

use crate::{Error, Result};

/// What others call the end of a sentence, the likeliest first. Where one of them begins a sentence as well, so does [`super::EOS`].
pub(super) const ENDS: [&str; 2] = ["<sos/eos>", "</s>"];

const ADVICE: &str = "a token and its id on each line, from 0 without a gap, as in the recogniser's tokens.txt";

/// Whether the lines are tokens with ids. A list of words has no white space on its lines.
pub(super) fn has_ids(text: &str) -> bool {
    let mut fields = text.lines().next().unwrap_or_default().split_whitespace();
    matches!((fields.next(), fields.next(), fields.next()), (Some(_), Some(id), None) if id.parse::<u32>().is_ok())
}

/// The tokens in the order of their ids.
pub(super) fn read<'a>(path: &Path, text: &'a str) -> Result<Vec<&'a str>> {
    let mut tokens = Vec::new();
    for (index, line) in text.strip_suffix('\n').unwrap_or(text).split('\n').enumerate() {
        let fail = |problem: String| Err(Error::corpus_line(path, index + 1, problem, ADVICE));
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (token, id) = match fields[..] {
            [token, id] => (token, id),
            [_] => return fail("there is one field; a token of white space alone has no place in a text".to_owned()),
            _ => return fail(format!("there are {} fields, not a token and its id", fields.len())),
        };
        let Ok(id) = id.parse::<usize>() else {
            return fail(format!("`{}` is not an id, a whole number from 0", id.escape_debug()));
        };
        match id.cmp(&index) {
            std::cmp::Ordering::Equal => tokens.push(token),
            std::cmp::Ordering::Less => {
                let (token, first) = (token.escape_debug(), tokens[id]);
                return fail(format!("the id {id} of `{token}` is there twice, first for `{}`", first.escape_debug()));
            }
            std::cmp::Ordering::Greater => {
                return fail(format!("the id of `{}` is {id}, but the next one is {index}", token.escape_debug()));
            }
        }
    }
    Ok(tokens)
}
