//! Who computes, and how: the thread team, its instruction set, and what operands are rounded to.

use bowline_kernels::{Isa, Precision, Team};
use std::sync::Arc;

/// What every computation needs to know. Cloning it shares the team.
#[derive(Clone)]
pub struct Compute {
    /// The threads.
    pub team: Arc<Team>,
    /// The instruction set.
    pub isa: Isa,
    /// What the operands of matrix products are rounded to; sums are always f32.
    pub precision: Precision,
}

impl Compute {
    /// In f32.
    pub fn new(team: Arc<Team>, isa: Isa) -> Compute {
        Compute { team, isa, precision: Precision::F32 }
    }

    /// On a team of its own, with the best instruction set of this CPU.
    pub fn with_threads(threads: usize) -> Compute {
        Compute::new(Arc::new(Team::new(threads)), Isa::detect())
    }

    /// The same at another precision, which must be available ([`Precision::available`]).
    pub fn at(self, precision: Precision) -> Compute {
        Compute { precision, ..self }
    }
}
