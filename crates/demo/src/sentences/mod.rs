//! The sentences, one file for each field of life.
//!
//! Each function here or in the files beside is the phrase of whole sentences of one kind, end mark included.

mod clothes;
mod feelings;
mod food;
mod home;
mod learning;
mod links;
mod nature;
mod play;
mod travel;
mod weather;
mod work;

use super::phrase::{Phrase, either};

/// Everything the grammar can say.
pub(super) fn sentence() -> Phrase {
    either![
        30 => work::sentences(),
        14 => food::sentences(),
        7 => clothes::sentences(),
        11 => travel::sentences(),
        12 => play::sentences(),
        11 => learning::sentences(),
        10 => home::sentences(),
        18 => nature::sentences(),
        3 => weather::sentences(),
        8 => feelings::sentences(),
        8 => links::sentences(),
    ]
}
