//! Files that are not what they should be, as only a foe or an accident makes them.

#![cfg(unix)]

mod common;

use bowline::storage::tensor_file::TensorFileWriter;
use common::{Place, bowline, finish};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

#[test]
fn files_without_an_end_and_pipes_are_refused() {
    let place = Place::new();
    let run = place.trained("run");
    let refused = |command: &mut Command, name: &str| {
        let ended = finish(command);
        let expected = format!("{name}: cannot read: it is a pipe or a device, not a regular file");
        assert!(place.plain(ended.error()).contains(&expected), "{}", ended.error());
    };
    let zero = |name: &str| {
        let _ = fs::remove_file(place.path(name));
        symlink("/dev/zero", place.path(name)).unwrap();
    };
    zero("run/best/tuned.json");
    let mut eval = bowline(["eval", "--threads", "1", "--cache", "--data"]);
    refused(eval.arg(place.path("corpus")).arg(&run), "DIR/run/best/tuned.json");
    zero("endless.toml");
    let mut recipe = bowline(["train", "--threads", "1", "--data"]);
    recipe.arg(place.path("corpus")).arg("--model").arg(place.path("endless.toml")).arg("--out").arg(place.path("new"));
    refused(&mut recipe, "DIR/endless.toml");
    zero("run/summary.json");
    refused(bowline(["report", "--out"]).arg(place.path("pages")).arg(&run), "DIR/run/summary.json");
    zero("run/best/vocab.txt");
    refused(bowline(["next", "--threads", "1"]).arg(&run).arg("ba"), "DIR/run/best/vocab.txt");
    fs::remove_file(place.path("run/config.toml")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path("run/config.toml")).status().unwrap().success());
    // A pipe is not even a run's settings.
    let ended = finish(&mut place.resume("run"));
    assert!(ended.error().contains("this folder has no run"), "{}", ended.error());
    fs::remove_file(place.path("corpus/train.txt")).unwrap();
    zero("corpus/train.txt");
    let ended = finish(place.train("other").args(["--epochs", "1"]));
    assert!(ended.error().contains("missing: train.txt"), "{}", ended.error());
}

#[test]
fn a_message_does_not_command_the_terminal() {
    let place = Place::new();
    let ended = finish(bowline(["next", "--threads", "1"]).arg(place.path("\u{1b}[2J\u{9b}31m")).arg("the"));
    assert!(ended.error().contains("\\u{1b}[2J\\u{9b}31m"), "{}", ended.error());
    assert!(!ended.stderr.contains(['\u{1b}', '\u{9b}']));
    let text = "fine words\n\u{1b}]0;gone\u{7} <unk> <eos>\n";
    fs::write(place.path("corpus/train.txt"), text).unwrap();
    let ended = finish(place.train("run").args(["--epochs", "1"]));
    assert!(!ended.stderr.contains(['\u{1b}', '\u{7}']), "{:?}", ended.stderr);
}

#[test]
fn a_file_that_outgrows_its_limit_is_an_error_with_advice() {
    let place = Place::new();
    let (corpus, run) = (place.path("corpus"), place.path("run"));
    let command = format!(
        "ulimit -f 40; exec {} train --threads 1 --set hidden=24 --set batch=4 --set unroll=8 --data {} --out {}",
        env!("CARGO_BIN_EXE_bowline"),
        corpus.display(),
        run.display()
    );
    let ended = finish(Command::new("sh").args(["-c", &command]).env("RUST_BACKTRACE", "0"));
    assert!(ended.error().contains("what was there before is unchanged"), "{}", ended.error());
    assert!(ended.error().contains("raise the file size limit (`ulimit -f`)"), "{}", ended.error());
    // With the limit gone, the run goes on.
    finish(&mut place.resume("run")).success();
}

#[test]
fn a_file_of_more_layers_than_a_model_can_have_is_refused_at_once() {
    let place = Place::new();
    let mut file = TensorFileWriter::new();
    let (weights, bias) = ([0.5; 4], [0.1; 4]);
    let names: Vec<String> = (0..5000).map(|layer| layer.to_string()).collect();
    file.tensor("encoder.weight", &[3, 1], &[0.1, 0.2, 0.3]);
    for layer in &names {
        file.tensor(format!("rnn.weight_ih_l{layer}"), &[4, 1], &weights);
        file.tensor(format!("rnn.weight_hh_l{layer}"), &[4, 1], &weights);
        file.tensor(format!("rnn.bias_ih_l{layer}"), &[4], &bias);
        file.tensor(format!("rnn.bias_hh_l{layer}"), &[4], &bias);
    }
    file.save(place.path("deep.safetensors")).unwrap();
    fs::write(place.path("vocab.txt"), "<eos>\n<unk>\na\n").unwrap();
    let mut command = bowline(["import", "--vocab"]);
    command.arg(place.path("vocab.txt")).arg("--out").arg(place.path("model")).arg(place.path("deep.safetensors"));
    place.check_refusal(
        &mut command,
        "DIR/deep.safetensors: tensor `rnn.weight_ih_l64`: the file has more than 64 layers, the most that a model can have",
        "Bowline's models are an nn.Embedding, an nn.LSTM, nn.GRU or nn.RNN, and an nn.Linear",
    );
}

#[test]
fn more_threads_than_help_are_not_used() {
    let place = Place::new();
    let run = place.trained("run");
    let ended = finish(bowline(["next", "--threads", "256"]).arg(run).arg("ba")).success();
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(ended.stderr.contains("threads instead of 256"), cores < 128, "{}", ended.stderr);
}
