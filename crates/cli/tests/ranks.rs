//! A program without MPI that a launcher has started several times, and what `shards` does on the command line. Real ranks are
//! tested by `cargo xtask mpi`.

#![cfg(not(feature = "mpi"))]

mod common;

use common::{Place, bowline, finish, result};

#[test]
fn several_processes_without_mpi_are_an_error_and_write_nothing() {
    let place = Place::new();
    for (variables, by) in [
        ([("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")], "mpirun has started 2 processes"),
        ([("PMI_SIZE", "3"), ("PMI_RANK", "0")], "mpirun has started 3 processes"),
        ([("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "0")], "srun has started 4 processes"),
    ] {
        let error = finish(place.train("run").envs(variables)).error().to_owned();
        assert!(error.contains(by) && error.contains("--features mpi"), "{error}");
        assert!(!place.path("run").exists());
    }
    // A batch script is one process, and so is a launch of one.
    let script =
        [("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")];
    finish(place.train("run").args(["--epochs", "1"]).envs(script)).success();
}

#[test]
fn a_run_keeps_its_shards_when_it_is_resumed() {
    let place = Place::new();
    let sharded = |name: &str, epochs: &str| {
        finish(place.train(name).args(["--epochs", epochs, "--set", "shards=2"])).success();
    };
    sharded("whole", "2");
    let config = std::fs::read_to_string(place.path("whole/config.toml")).unwrap();
    assert!(config.contains("shards = 2\n"), "{config}");
    sharded("half", "1");
    finish(bowline(["branch", "--set", "epochs=2", "--out"]).arg(place.path("rest")).arg(place.path("half"))).success();
    finish(&mut place.resume("rest")).success();
    assert_eq!(result(&place.path("rest")).weights, result(&place.path("whole")).weights);
    let error =
        finish(place.train("none").args(["--epochs", "1", "--set", "shards=3", "--set", "batch=4"])).error().to_owned();
    assert!(error.contains("4 streams (setting `batch`) cannot be divided into 3 equal shards"), "{error}");
}
