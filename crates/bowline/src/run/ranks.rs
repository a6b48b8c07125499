//! Several processes that train one model: the *ranks*, numbered from 0.
//!
//! Rank 0 *leads*: it alone touches the run's folder, writes to the log and evaluates. All hold all weights, and each computes
//! the gradients of its own shards of the batch. What passes between them are three *collectives*, which all ranks call in the
//! same order: [`Ranks::tell`], [`Ranks::exchange`] and [`Ranks::gather`].
//!
//! No sum is made on the way. MPI does not promise that a sum over ranks is added up in the same order for any number of
//! them; so whoever needs a sum gets its terms, and adds them in the order of the shards.

use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The ranks, as one of them sees them.
pub trait Ranks {
    /// Which of them this is.
    fn rank(&self) -> usize;
    /// How many there are.
    fn size(&self) -> usize;
    /// What every rank has to say, in the order of the ranks.
    fn tell(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Sends part `r` of `values` to rank `r`, and receives this rank's part from all, in the order of the ranks.
    fn exchange(&self, values: &[f32], parts: &[Range<usize>], received: &mut [f32]) -> Result<()>;
    /// Fills `values` with the parts of all ranks, of which this one's is `mine`.
    fn gather(&self, mine: &[f32], parts: &[Range<usize>], values: &mut [f32]) -> Result<()>;

    /// Whether this is the rank that reads, writes and evaluates.
    fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// What rank 0 has to say; the others say nothing.
    fn lead_says(&self, mine: &[u8]) -> Result<Vec<u8>> {
        Ok(self.tell(if self.leads() { mine } else { &[] })?.swap_remove(0))
    }
}

/// `n` values in a part for each of `ranks`.
pub fn parts(n: usize, ranks: usize) -> Vec<Range<usize>> {
    (0..ranks).map(|r| n * r / ranks..n * (r + 1) / ranks).collect()
}

/// One process, which has nobody to talk to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Ranks for Alone {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn tell(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![mine.to_vec()])
    }
    fn exchange(&self, values: &[f32], _: &[Range<usize>], received: &mut [f32]) -> Result<()> {
        received.copy_from_slice(values);
        Ok(())
    }
    fn gather(&self, mine: &[f32], _: &[Range<usize>], values: &mut [f32]) -> Result<()> {
        values.copy_from_slice(mine);
        Ok(())
    }
}

/// A rank that is a thread of this process: the same training, without MPI.
pub struct Thread {
    rank: usize,
    /// To each rank, and from each.
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl Thread {
    /// So many of them, each for a thread of its own.
    pub fn group(size: usize) -> Vec<Thread> {
        let mut ranks: Vec<Thread> = (0..size).map(|rank| Thread { rank, to: Vec::new(), from: Vec::new() }).collect();
        for from in 0..size {
            for to in 0..size {
                let (sender, receiver) = channel();
                ranks[from].to.push(sender);
                ranks[to].from.push(receiver);
            }
        }
        ranks
    }

    fn all(&self, message: impl Fn(usize) -> Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let gone = |rank: usize| {
            Error::ranks(format!("rank {rank} has ended before the others"), "its own message, which says why")
        };
        for (rank, to) in self.to.iter().enumerate() {
            to.send(message(rank)).map_err(|_| gone(rank))?;
        }
        self.from.iter().enumerate().map(|(rank, from)| from.recv().map_err(|_| gone(rank))).collect()
    }
}

impl Ranks for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn tell(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.all(|_| mine.to_vec())
    }

    fn exchange(&self, values: &[f32], parts: &[Range<usize>], received: &mut [f32]) -> Result<()> {
        let messages = self.all(|rank| to_bytes(&values[parts[rank].clone()]))?;
        let own = parts[self.rank].len();
        messages.iter().enumerate().for_each(|(rank, bytes)| from_bytes(bytes, &mut received[rank * own..][..own]));
        Ok(())
    }

    fn gather(&self, mine: &[f32], parts: &[Range<usize>], values: &mut [f32]) -> Result<()> {
        let messages = self.tell(&to_bytes(mine))?;
        parts.iter().zip(&messages).for_each(|(part, bytes)| from_bytes(bytes, &mut values[part.clone()]));
        Ok(())
    }
}

/// Numbers as a message.
pub(super) fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The way back, for as many as there are of both.
pub(super) fn from_bytes(bytes: &[u8], values: &mut [f32]) {
    for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
        *value = f32::from_le_bytes(*bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(size: usize, work: impl Fn(&Thread) + Sync) {
        std::thread::scope(|scope| {
            for rank in Thread::group(size) {
                let work = &work;
                scope.spawn(move || work(&rank));
            }
        });
    }

    #[test]
    fn parts_are_all_there_is_in_order() {
        for (n, ranks) in [(10, 3), (2, 4), (0, 2), (64, 64)] {
            let all: Vec<usize> = parts(n, ranks).into_iter().flatten().collect();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_rank_gets_its_part_from_all_and_all_parts_from_their_owners() {
        each(3, |ranks| {
            let (me, parts) = (ranks.rank(), parts(10, 3));
            let values: Vec<f32> = (0..10).map(|i| (100 * me + i) as f32).collect();
            let mut received = vec![0.0; 3 * parts[me].len()];
            ranks.exchange(&values, &parts, &mut received).unwrap();
            let expected: Vec<f32> =
                (0..3).flat_map(|r| parts[me].clone().map(move |i| (100 * r + i) as f32)).collect();
            assert_eq!(received, expected);
            let mut gathered = vec![0.0; 10];
            ranks.gather(&values[parts[me].clone()], &parts, &mut gathered).unwrap();
            let owner = |i: usize| parts.iter().position(|part| part.contains(&i)).unwrap();
            assert_eq!(gathered, (0..10).map(|i| (100 * owner(i) + i) as f32).collect::<Vec<_>>());
            assert_eq!(ranks.tell(&[me as u8]).unwrap(), [vec![0], vec![1], vec![2]]);
            assert_eq!(ranks.lead_says(&[7 + me as u8]).unwrap(), [7]);
        });
    }

    #[test]
    fn a_rank_that_has_ended_is_an_error_for_the_others() {
        let mut ranks = Thread::group(2);
        drop(ranks.remove(1));
        let message = ranks[0].tell(&[]).unwrap_err().to_string();
        assert!(message.starts_with("rank 1 has ended before the others"), "{message}");
    }
}
