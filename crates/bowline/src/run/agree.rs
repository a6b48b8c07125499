//! What ranks find out about each other before they train together: whether all can, and whether they are of one mind.
//!
//! What one of them fails in, all return as the same error, which names the rank.

use super::checkpoint::FREE;
use super::ranks::Ranks;
use crate::config::Config;
use crate::error::{Error, Result};
use bowline_kernels::Isa;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a rank says of itself. Where two differ, their weights would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Card {
    /// Of the program.
    pub(super) version: String,
    /// The instruction set.
    pub(super) isa: String,
    /// SHA-256 of the training, validation and test split.
    pub(super) data: [String; 3],
    /// `config.toml`.
    pub(super) settings: String,
}

impl Card {
    /// The card of this rank, which works with `isa`.
    pub(super) fn new(config: &Config, isa: Isa, data: [String; 3]) -> Result<Card> {
        let (version, isa) = (env!("CARGO_PKG_VERSION").to_owned(), isa.name().to_owned());
        Ok(Card { version, isa, data, settings: config.to_toml()? })
    }

    /// How the card of another rank differs from that of the lead: what, and what to do.
    fn difference(&self, lead: &Card) -> Option<(String, &'static str)> {
        if self.version != lead.version {
            let problem = format!("is version {} of bowline, and rank 0 is {}", self.version, lead.version);
            return Some((problem, "the same program on every machine"));
        }
        if let Some(split) = (0..3).find(|&i| self.data[i] != lead.data[i]) {
            let (name, hash) =
                (["training", "validation", "test"][split], |card: &Card| card.data[split][..12].to_owned());
            let problem =
                format!("has another {name} text than rank 0 (SHA-256 {}..., not {}...)", hash(self), hash(lead));
            return Some((problem, "the same corpus on every machine"));
        }
        if self.isa != lead.isa {
            let problem = format!("computes with {}, and rank 0 with {}", self.isa, lead.isa);
            return Some((problem, "`--isa` with one that all machines have"));
        }
        let (Ok(ours), Ok(theirs)) =
            (toml::from_str::<Config>(&self.settings), toml::from_str::<Config>(&lead.settings))
        else {
            return Some(("has settings that cannot be read".to_owned(), "the same program on every machine"));
        };
        let mut others = ours.differences(&theirs);
        others.retain(|(key, ..)| !FREE.contains(&key.as_str()));
        let (key, here, there) = others.first()?;
        let problem = format!("has other settings than rank 0: `{key}` is {here}, not {there}");
        Some((problem, "the same command on every rank"))
    }
}

/// What this rank has come to, if no other has failed; and their cards are alike.
pub(super) fn together<T>(ranks: &dyn Ranks, mine: Result<T>, card: impl Fn(&T) -> Result<Card>) -> Result<T> {
    if ranks.size() == 1 {
        return mine;
    }
    let cards = all(ranks, &mine.as_ref().map_err(Error::to_string).and_then(|t| card(t).map_err(|e| e.to_string())))?;
    for (rank, one) in cards.iter().enumerate() {
        if let Some((problem, advice)) = one.difference(&cards[0]) {
            return Err(Error::ranks(format!("rank {rank} {problem}"), advice));
        }
    }
    mine
}

/// What all ranks have, in their order; or the first error of one.
pub(super) fn all<T: Serialize + DeserializeOwned>(
    ranks: &dyn Ranks,
    mine: &std::result::Result<T, String>,
) -> Result<Vec<T>> {
    let message = serde_json::to_vec(mine).map_err(garbled)?;
    let each = |(rank, bytes): (usize, &Vec<u8>)| {
        let one: std::result::Result<T, String> = serde_json::from_slice(bytes).map_err(garbled)?;
        one.map_err(|error| of_rank(rank, &error))
    };
    ranks.tell(&message)?.iter().enumerate().map(each).collect()
}

fn garbled(error: serde_json::Error) -> Error {
    Error::ranks(format!("a message between ranks cannot be read: {error}"), "the same program on every machine")
}

/// An error of one rank, for all.
fn of_rank(rank: usize, error: &str) -> Error {
    let (problem, advice) = error.split_once("\n  try: ").unwrap_or((error, "what the message says, on that machine"));
    let problem = if rank == 0 { problem.to_owned() } else { format!("rank {rank}: {problem}") };
    Error::ranks(problem, advice)
}

/// Lets all ranks know whether this one can go on; an error of one of them is an error of all.
pub fn all_can(ranks: &dyn Ranks, mine: std::result::Result<(), String>) -> Result<()> {
    all(ranks, &mine).map(drop)
}

/// The instruction set for all ranks: the one that is asked for, or the widest that all have. `asked` is the lead's; each must
/// have it.
pub fn common_isa(ranks: &dyn Ranks, asked: Option<&str>) -> Result<Isa> {
    let have: Vec<String> = Isa::available().iter().map(|isa| isa.name().to_owned()).collect();
    let all = all(ranks, &Ok((have, asked.map(str::to_owned))))?;
    let lacks = |name: &str| all.iter().position(|(have, _)| !have.iter().any(|isa| isa == name));
    let found = match &all[0].1 {
        Some(name) => match lacks(name) {
            None => Isa::named(name),
            Some(rank) => {
                let problem = format!("rank {rank} does not have {name}, which was asked for or is the run's");
                return Err(Error::ranks(problem, "`--isa auto`, which takes the widest that all machines have"));
            }
        },
        None => Isa::available().into_iter().rfind(|isa| lacks(isa.name()).is_none()),
    };
    Ok(found.unwrap_or(Isa::PORTABLE))
}

/// The numbers that all ranks have found, one after the other; none if one of them has found none.
pub(super) fn on_numbers(ranks: &dyn Ranks, found: Option<Vec<f64>>) -> Result<Option<Vec<f64>>> {
    if ranks.size() == 1 {
        return Ok(found);
    }
    const NONE: [u8; 1] = [0];
    let mine = found.map_or(NONE.to_vec(), |found| found.into_iter().flat_map(f64::to_le_bytes).collect());
    let all = ranks.tell(&mine)?;
    if all.iter().any(|message| *message == NONE) {
        return Ok(None);
    }
    let numbers = all.iter().flat_map(|message| message.as_chunks::<8>().0).map(|bytes| f64::from_le_bytes(*bytes));
    Ok(Some(numbers.collect()))
}

/// What rank 0 lets the others begin, or go on, with.
pub(super) enum Opening {
    /// A checkpoint.
    Checkpoint(Vec<u8>),
    /// There is nothing left to do; the summary as JSON.
    Over(Vec<u8>),
    /// It has failed or was stopped, and says why, if there is more to say.
    Failed(String),
}

impl Opening {
    /// Rank 0 says it.
    pub(super) fn tell(self, ranks: &dyn Ranks) -> Result<()> {
        if ranks.size() > 1 {
            let (tag, mut message) = match self {
                Opening::Checkpoint(bytes) => (b'c', bytes),
                Opening::Over(summary) => (b'o', summary),
                Opening::Failed(why) => (b'f', why.into_bytes()),
            };
            message.push(tag);
            ranks.lead_says(&message)?;
        }
        Ok(())
    }

    /// The others hear it.
    pub(super) fn hear(ranks: &dyn Ranks) -> Result<Opening> {
        let mut message = ranks.lead_says(&[])?;
        match message.pop() {
            Some(b'c') => Ok(Opening::Checkpoint(message)),
            Some(b'o') => Ok(Opening::Over(message)),
            _ => Ok(Opening::Failed(String::from_utf8_lossy(&message).into_owned())),
        }
    }

    /// What rank 0 has failed in, as an error of the others.
    pub(super) fn failure(why: &str) -> Error {
        of_rank(0, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ModelKind, Size, preset};
    use crate::run::ranks::Thread;

    fn card(settings: &[&str]) -> Card {
        let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
        let config = preset(Size::Small, ModelKind::Real, "demo").with(&settings).unwrap();
        Card::new(&config, Isa::PORTABLE, ["1", "2", "3"].map(|hash| hash.repeat(64))).unwrap()
    }

    /// What each of two ranks makes of their cards.
    fn meet(lead: Card, other: Card) -> [Option<String>; 2] {
        let cards = [lead, other];
        let mut ranks = Thread::group(2).into_iter().zip(&cards);
        let mut run = || {
            let (rank, card) = ranks.next().unwrap();
            move || together(&rank, Ok(()), |()| Ok(card.clone())).err().map(|e| e.to_string())
        };
        let (first, second) = (run(), run());
        std::thread::scope(|scope| {
            let other = scope.spawn(second);
            [first(), other.join().unwrap()]
        })
    }

    #[test]
    fn what_a_rank_differs_in_is_said_by_all() {
        let lead = card(&[]);
        assert_eq!(meet(lead.clone(), lead.clone()), [None, None]);
        // Another path, or another time between checkpoints, changes no result.
        assert_eq!(meet(lead.clone(), card(&["checkpoint.every_seconds=1"])), [None, None]);
        for (other, said) in [
            (card(&["seed=2"]), "rank 1 has other settings than rank 0: `seed` is 2, not 1"),
            (Card { version: "0.0.1".to_owned(), ..lead.clone() }, "rank 1 is version 0.0.1 of bowline"),
            (Card { isa: "avx2".to_owned(), ..lead.clone() }, "rank 1 computes with avx2, and rank 0 with portable"),
            (
                Card { data: ["1", "2", "4"].map(|hash| hash.repeat(64)), ..lead.clone() },
                "rank 1 has another test text than rank 0 (SHA-256 444444444444..., not 333333333333...)",
            ),
        ] {
            for error in meet(lead.clone(), other.clone()) {
                assert!(error.as_ref().is_some_and(|e| e.starts_with(said) && e.contains("\n  try: ")), "{error:?}");
            }
        }
    }

    #[test]
    fn an_error_of_one_rank_is_one_of_all() {
        let mut ranks = Thread::group(2);
        let (other, lead) = (ranks.remove(1), ranks.remove(0));
        std::thread::scope(|scope| {
            let other = scope.spawn(move || all_can(&other, Err("no such file\n  try: a path".to_owned())));
            let errors = [all_can(&lead, Ok(())), other.join().unwrap()].map(|e| e.unwrap_err().to_string());
            assert_eq!(errors, ["rank 1: no such file\n  try: a path"; 2]);
        });
    }

    #[test]
    fn the_instruction_set_is_one_that_all_have() {
        let mut ranks = Thread::group(2);
        let (other, lead) = (ranks.remove(1), ranks.remove(0));
        std::thread::scope(|scope| {
            let other = scope.spawn(move || [None, Some("avx1024")].map(|isa| common_isa(&other, isa).ok()));
            let widest = Isa::available().last().copied();
            assert_eq!(common_isa(&lead, None).ok(), widest);
            assert_eq!(common_isa(&lead, Some("portable")).ok(), Some(Isa::PORTABLE));
            assert_eq!(other.join().unwrap(), [widest, Some(Isa::PORTABLE)]);
        });
    }
}
