//! MPI's world as [`Ranks`].

use crate::Launch;
use bowline::run::ranks::Ranks;
use bowline::{Error, Result};
use ferrompi::{Communicator, Mpi, ThreadLevel};
use std::ops::Range;

/// All processes of an MPI job. MPI ends when this is dropped, which waits for all.
pub struct World {
    world: Communicator,
    rank: usize,
    size: usize,
    _mpi: Mpi,
}

impl World {
    /// Starts MPI. The launcher has promised a number of processes; where MPI sees fewer, each would be a world of its own.
    pub(crate) fn join(launch: &Launch) -> Result<World> {
        let mpi = Mpi::init_thread(ThreadLevel::Funneled).map_err(failed)?;
        let world = mpi.world();
        let (Ok(rank), Ok(size)) = (usize::try_from(world.rank()), usize::try_from(world.size())) else {
            return Err(Error::ranks("MPI gave this process no number", "another installation of MPI"));
        };
        if size != launch.size {
            let problem = format!(
                "{} has started {} processes ({}), and MPI sees {size}",
                launch.by, launch.size, launch.variable
            );
            let advice = match launch.by {
                "srun" => "`srun --mpi=pmix`, or the `mpirun` of the MPI that this program was built with",
                _ => "the `mpirun` of the MPI that this program was built with",
            };
            return Err(Error::ranks(problem, advice));
        }
        Ok(World { world, rank, size, _mpi: mpi })
    }

    /// Ends all processes.
    pub(crate) fn abort(&self) {
        self.world.abort(1)
    }
}

impl Ranks for World {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn tell(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lengths = vec![0u64; self.size];
        self.world.allgather(&[mine.len() as u64], &mut lengths).map_err(failed)?;
        let mut at = 0;
        let parts: Vec<Range<usize>> = lengths
            .iter()
            .map(|&length| {
                let begin = at;
                at += length as usize;
                begin..at
            })
            .collect();
        let (counts, places) = of(&parts)?;
        let mut all = vec![0u8; at];
        self.world.allgatherv(mine, &mut all, &counts, &places).map_err(failed)?;
        Ok(parts.into_iter().map(|part| all[part].to_vec()).collect())
    }

    fn exchange(&self, values: &[f32], parts: &[Range<usize>], received: &mut [f32]) -> Result<()> {
        let own = parts[self.rank].len();
        let theirs: Vec<Range<usize>> = (0..self.size).map(|rank| rank * own..(rank + 1) * own).collect();
        let ((counts, places), (received_counts, received_places)) = (of(parts)?, of(&theirs)?);
        self.world.alltoallv(values, &counts, &places, received, &received_counts, &received_places).map_err(failed)
    }

    fn gather(&self, mine: &[f32], parts: &[Range<usize>], values: &mut [f32]) -> Result<()> {
        let (counts, places) = of(parts)?;
        self.world.allgatherv(mine, values, &counts, &places).map_err(failed)
    }
}

/// Lengths and beginnings as MPI wants them.
fn of(parts: &[Range<usize>]) -> Result<(Vec<i32>, Vec<i32>)> {
    let number = |n: usize| {
        let advice = "a smaller model; MPI counts with 31 bits";
        i32::try_from(n).map_err(|_| Error::ranks(format!("a message of {n} values is too long for MPI"), advice))
    };
    let counts = parts.iter().map(|part| number(part.len())).collect::<Result<_>>()?;
    let places = parts.iter().map(|part| number(part.start)).collect::<Result<_>>()?;
    Ok((counts, places))
}

fn failed(error: ferrompi::Error) -> Error {
    Error::run("MPI", error.to_string(), "look for the rank that ended first; `bowline resume RUN` goes on")
}
