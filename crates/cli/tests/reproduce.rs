//! `bowline reproduce`: cells that are stopped and resumed, plans, pages, and what is refused.

#![cfg(unix)]

mod common;

use common::{Ended, Place, bowline, finish, result};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Two cells of Table 1 on the place's own corpus, with networks that are trained in a moment.
fn table1(place: &Place, out: &str) -> Command {
    table1_of(place, out, "re,al")
}

fn table1_of(place: &Place, out: &str, models: &str) -> Command {
    let mut command = bowline(["reproduce", "table1", "--models", models, "--epochs", "6", "--data"]);
    command.arg(place.path("corpus")).arg("--out").arg(place.path(out));
    for setting in ["hidden=24", "batch=4", "unroll=8", "checkpoint.every_seconds=0"] {
        command.args(["--set", setting]);
    }
    command
}

fn cells(place: &Place, out: &str) -> [PathBuf; 2] {
    ["re", "al"].map(|model| place.path(out).join(format!("corpus-small-{model}")))
}

#[test]
fn cells_that_were_killed_end_in_the_same_numbers() {
    let place = Place::new();
    let json = finish(table1(&place, "whole").arg("--json")).success().json();
    assert_eq!(json["experiment"], "table1");
    let expected = cells(&place, "whole").map(|run| result(&run));
    assert_eq!(json["cells"][1]["test"], expected[1].metrics["test"]);
    let csv = |out: &str| fs::read_to_string(place.path(out).join("table1-report/table1.csv")).unwrap();
    assert_eq!(csv("whole").lines().count(), 3, "a head and two cells");
    assert_eq!(csv("whole").lines().next().unwrap(), "data,size,model,valid,test,paper_valid,paper_test,epochs,seed");

    // Killed in the first cell, then in the second, then let alone; two jobs at a time the last time.
    for cell in cells(&place, "killed") {
        let mut child = table1(&place, "killed").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begin = Instant::now();
        while !cell.join("best/model.safetensors").exists() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let said = finish(table1(&place, "killed").args(["--jobs", "2"])).success();
    assert!(said.stdout.contains("report.html"), "{}", said.stdout);
    assert_eq!(csv("killed"), csv("whole"));
    for (run, expected) in cells(&place, "killed").iter().zip(&expected) {
        assert_eq!(result(run).weights, expected.weights);
    }

    // A third call has nothing left to do, and a page is made without running anything.
    let before = fs::metadata(cells(&place, "killed")[0].join("events.jsonl")).unwrap().modified().unwrap();
    finish(&mut table1(&place, "killed")).success();
    finish(table1(&place, "killed").arg("--no-run")).success();
    assert_eq!(fs::metadata(cells(&place, "killed")[0].join("events.jsonl")).unwrap().modified().unwrap(), before);
    let page = fs::read_to_string(place.path("killed").join("table1-report/report.html")).unwrap();
    assert!(page.contains("not run") && page.contains("VD-LSTM +RE"), "the paper's cells are shown as not run");
}

#[test]
fn a_job_array_runs_the_cells_by_number() {
    let place = Place::new();
    let listed = finish(table1(&place, "array").arg("--list")).success().stdout;
    let folders = [(0, "corpus-small-re"), (1, "corpus-small-al")];
    for (number, folder) in folders {
        let line = listed.lines().nth(number).unwrap_or_default();
        assert!(line.starts_with(&format!("  {number}  {folder}")) && line.ends_with("not begun"), "{listed}");
    }
    assert!(!place.path("array").exists(), "a list runs nothing");
    let said = finish(table1(&place, "array").args(["--cell", "1"])).success();
    assert!(said.stderr.contains("cell 1, corpus-small-al, is finished"), "{}", said.stderr);
    assert!(place.path("array/corpus-small-al/summary.json").exists());
    assert!(!place.path("array/corpus-small-re").exists() && !place.path("array/table1-report").exists());
    let listed = finish(table1(&place, "array").arg("--list")).success().stdout;
    assert!(listed.lines().nth(1).is_some_and(|line| line.ends_with("finished")), "{listed}");
    let error = finish(table1(&place, "array").args(["--cell", "2"])).error().to_owned();
    assert!(error.contains("there is no cell 2; there are 2, from 0 on") && error.contains("--list"), "{error}");
}

#[test]
fn a_plan_says_what_is_left_and_runs_nothing() {
    let place = Place::new();
    let said = finish(table1(&place, "plan").arg("--dry-run")).success();
    assert!(said.stdout.contains("corpus-small-re") && said.stdout.contains("not begun"), "{}", said.stdout);
    assert!(said.stdout.contains("6 epochs to go") && said.stdout.contains("2 cells, about"), "{}", said.stdout);
    assert!(!place.path("plan").exists());
}

#[test]
fn the_first_training_of_two_cells_is_done_once() {
    let place = Place::new();
    let twice = |out: &str, models: &str| {
        let mut command = table1_of(&place, out, models);
        command.args(["--set", "second_training_epochs=2", "--set", "augment.begin=second"]);
        command
    };
    let cell = |out: &str, model: &str| place.path(out).join(format!("corpus-small-{model}"));
    let plan = |out: &str, models: &str| finish(twice(out, models).arg("--dry-run")).success().stdout;
    let planned = plan("shared", "vd-lstm,al");
    assert!(planned.contains("6 epochs to go") && planned.contains("2 epochs to go"), "{planned}");
    assert!(planned.contains("corpus-small-vd-lstm-first") && !planned.contains("8 epochs"), "{planned}");
    let said = finish(twice("shared", "vd-lstm,al").args(["--jobs", "3"])).success();
    assert_eq!(said.stderr.matches("its first training is").count(), 2, "{}", said.stderr);
    assert_eq!(result(&cell("shared", "al")).events[0]["model"], "vd-lstm");
    assert!(plan("shared", "vd-lstm,al").contains("finished"));
    // They end in the same bits as each by itself, where there is nothing to begin with, or something else.
    assert!(plan("alone", "al").contains("8 epochs to go"));
    finish(&mut twice("alone", "al")).success();
    finish(table1_of(&place, "other", "vd-lstm").args(["--set", "keep=0.9"])).success();
    fs::rename(cell("other", "vd-lstm"), cell("other", "vd-lstm-first")).unwrap();
    for model in ["al", "vd-lstm"] {
        finish(&mut twice("other", model)).success();
    }
    for (out, model) in [("alone", "al"), ("other", "al"), ("other", "vd-lstm")] {
        assert_eq!(result(&cell(out, model)).events[0]["model"], model);
        assert_eq!(result(&cell(out, model)).weights, result(&cell("shared", model)).weights);
        assert_eq!(result(&cell(out, model)).metrics, result(&cell("shared", model)).metrics);
    }
}

#[test]
fn another_run_in_a_cell_s_place_is_refused_before_anything_is_run() {
    let place = Place::new();
    finish(table1_of(&place, "out", "al").args(["--set", "hidden=12"])).success();
    let refused: Ended = finish(&mut table1(&place, "out"));
    let message = refused.error();
    assert!(message.contains("this folder has a run with other settings: `hidden` is 12, not 24"), "{message}");
    assert!(!cells(&place, "out")[0].exists(), "the first cell was not begun");
    // It is shown as it is where nothing is to be run; what is another cell is not.
    let shown = finish(table1(&place, "out").args(["--no-run", "--json"])).success().json();
    assert_eq!(shown["cells"][1]["test"], result(&cells(&place, "out")[1]).metrics["test"]);
    let page = fs::read_to_string(place.path("out").join("table1-report/report.html")).unwrap();
    assert!(page.contains("hidden") && page.contains("not run"));
    fs::rename(&cells(&place, "out")[1], &cells(&place, "out")[0]).unwrap();
    let refused = finish(table1(&place, "out").arg("--no-run"));
    assert!(refused.error().contains("`model` is al, not re"), "{}", refused.error());
    let kn = finish(&mut table1_of(&place, "other", "kn"));
    assert!(kn.code == Some(2) && kn.stderr.contains("invalid value 'kn'"), "{kn:?}");
}

/// Any system of Table 3 by its name: one recipe, or several joined.
#[test]
fn table3_runs_the_systems_that_are_asked_for() {
    let place = Place::new();
    let table3 = |only: &str| {
        let mut command = bowline(["reproduce", "table3", "--epochs", "1", "--only", only, "--data"]);
        command.arg(place.path("corpus")).arg("--out").arg(place.path("out"));
        for setting in ["hidden=8", "batch=4", "unroll=8", "topics.sweeps=4", "data.min_count=1"] {
            command.args(["--set", setting]);
        }
        command
    };
    let rows = || fs::read_to_string(place.path("out/table3-report/table3.csv")).unwrap();
    let row = |name: &str| {
        let rows = rows();
        let row =
            rows.lines().find(|row| row.starts_with(&format!("{name},"))).unwrap_or_else(|| panic!("{name}: {rows}"));
        row.split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    finish(&mut table3("rnn-mikolov")).success();
    assert_eq!(rows().lines().next().unwrap(), "name,parameters,valid,test,published,epochs,finished");
    let summary = result(&place.path("out/corpus-rnn-mikolov")).metrics;
    let found = row("rnn-mikolov");
    assert!((found[3].parse::<f64>().unwrap() - summary["test"].as_f64().unwrap()).abs() < 1e-3, "{found:?}");
    // One epoch is not what the recipe asks for.
    assert_eq!(found[4..], ["124.7", "1", "false"]);
    assert_eq!(row("rhn-re")[2..], ["", "", "66", "0", "false"], "not run");

    finish(&mut table3("rnn-lda+kn5+cache")).success();
    let (joined, alone) = (row("rnn-lda+kn5+cache"), row("rnn-lda"));
    // Where the weights and the cache were found, it cannot be worse.
    let valid = |row: &[String]| row[2].parse::<f64>().unwrap();
    assert!(valid(&joined) < valid(&alone), "{joined:?} {alone:?}");
    let kept = fs::read_to_string(place.path("out/rnn-lda+kn5+cache.json")).unwrap();
    assert!(kept.contains("corpus-kn5") && kept.contains("\"recency\": \""), "{kept}");

    let refused = finish(&mut table3("rnn-ldda"));
    assert!(refused.error().contains("there is no recipe `rnn-ldda`"), "{refused:?}");
    let refused = finish(bowline(["reproduce", "table1", "--only", "rnn"]).arg("--out").arg(place.path("out")));
    assert!(refused.error().contains("this experiment has no systems to choose from"), "{refused:?}");
}
