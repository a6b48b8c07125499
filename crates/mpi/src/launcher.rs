//! Who has started this process, and how many of them.

/// What a launcher says in the environment of the processes it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The launcher, for people.
    pub by: &'static str,
    /// The variable that says how many processes there are.
    pub variable: &'static str,
    /// How many.
    pub size: usize,
}

/// Launchers, the variable with the number of processes, and one that must be there besides.
///
/// A batch script of Slurm has `SLURM_NTASKS` and even `SLURM_PROCID`, but is one process; only a step that `srun` has started
/// has `SLURM_STEP_NUM_TASKS`. `WORLD_SIZE` alone can be anybody's; torchrun sets `LOCAL_RANK` beside it.
const LAUNCHERS: [(&str, &str, &str); 5] = [
    ("mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("mpirun", "PMI_SIZE", "PMI_RANK"),
    ("mpirun", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
    ("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ("torchrun", "WORLD_SIZE", "LOCAL_RANK"),
];

/// What the environment says; nothing for a process that was started alone.
pub fn launch(environment: impl Fn(&str) -> Option<String>) -> Option<Launch> {
    LAUNCHERS.into_iter().find_map(|(by, variable, besides)| {
        let size = environment(variable)?.trim().parse().ok()?;
        environment(besides)?;
        Some(Launch { by, variable, size })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<(&'static str, usize)> {
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        launch(get).map(|launch| (launch.by, launch.size))
    }

    #[test]
    fn launchers_are_known_by_what_they_set() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3")]), Some(("mpirun", 4)));
        assert_eq!(of(&[("PMI_SIZE", "2"), ("PMI_RANK", "0")]), Some(("mpirun", 2)));
        assert_eq!(of(&[("WORLD_SIZE", "8"), ("RANK", "0"), ("LOCAL_RANK", "0")]), Some(("torchrun", 8)));
        assert_eq!(of(&[("WORLD_SIZE", "8")]), None);
        assert_eq!(of(&[("PMI_SIZE", "many"), ("PMI_RANK", "0")]), None);
    }

    #[test]
    fn a_batch_script_is_one_process_and_a_step_is_as_many_as_it_has_tasks() {
        let script = [("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "16"), ("SLURM_PROCID", "0")];
        assert_eq!(of(&script), None);
        let step = [&script[..], &[("SLURM_STEP_NUM_TASKS", "16")]].concat();
        assert_eq!(of(&step), Some(("srun", 16)));
    }
}
