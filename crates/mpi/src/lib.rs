//! The ranks of a training ([`bowline::run::ranks`]) as processes that `mpirun` or `srun` has started.
//!
//! Whether there are several is known from the launcher's environment before MPI is asked: a process that was started by hand
//! never loads it up, and a program without the feature `mpi` can say that it cannot take part, instead of being one of several
//! that write to the same folder.

mod launcher;
#[cfg(feature = "mpi")]
mod world;

pub use launcher::{Launch, launch};
#[cfg(feature = "mpi")]
pub use world::World;

use bowline::Result;
use bowline::run::ranks::{Alone, Ranks};

/// The processes that this one was started with.
pub enum Processes {
    /// It was started alone.
    Alone(Alone),
    /// They talk by MPI.
    #[cfg(feature = "mpi")]
    World(World),
}

impl Processes {
    /// Joins the others, if there are any. They end together when this is dropped.
    pub fn join() -> Result<Processes> {
        match launch(|name| std::env::var(name).ok()) {
            Some(launch) if launch.size > 1 => Processes::among(&launch),
            _ => Ok(Processes::Alone(Alone)),
        }
    }

    #[cfg(feature = "mpi")]
    fn among(launch: &Launch) -> Result<Processes> {
        World::join(launch).map(Processes::World)
    }

    #[cfg(not(feature = "mpi"))]
    fn among(launch: &Launch) -> Result<Processes> {
        let problem = format!(
            "{} has started {} processes ({}), and this program was built without MPI: each would write to the same files",
            launch.by, launch.size, launch.variable
        );
        let advice = "`cargo build --release --features mpi`, or start one process; see docs/scale.md";
        Err(bowline::Error::ranks(problem, advice))
    }

    /// The processes as ranks.
    pub fn ranks(&self) -> &dyn Ranks {
        match self {
            Processes::Alone(alone) => alone,
            #[cfg(feature = "mpi")]
            Processes::World(world) => world,
        }
    }

    /// Ends all processes at once, where one cannot go on and the others do not know.
    pub fn abort(&self) {
        #[cfg(feature = "mpi")]
        if let Processes::World(world) = self {
            world.abort();
        }
    }
}
