//! `bowline report`: the page and its files, from runs that are over, under way or broken.

mod common;

use common::{Place, bowline, finish};
use std::fs;
use std::path::Path;

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_report_is_one_page_and_its_figures_and_tables() {
    let place = Place::new();
    let done = finish(place.train("re").args(["--epochs", "2", "--model", "re"])).success();
    // The paper has no number for this corpus, and the run says nothing of it.
    assert!(!done.stdout.contains("paper"), "{}", done.stdout);
    finish(place.train("real").args(["--epochs", "1", "--second-training"])).success();
    // A run that is still at work: no summary yet, and its log ends in the middle of a line.
    let (run, log) = (place.path("real"), place.path("real/events.jsonl"));
    fs::remove_file(run.join("summary.json")).unwrap();
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, &text[..text.rfind("\"event\":\"end\"").unwrap()]).unwrap();

    let report = || {
        let mut command = bowline(["report", "--out"]);
        command.arg(place.path("out")).args([place.path("re"), place.path("real")]);
        command
    };
    let said = place.plain(&finish(&mut report()).success().stdout);
    assert_eq!(
        said,
        "DIR/re: finished, 2 epochs\nDIR/real: not finished: 2 of 2 epochs done\n\
         the report is DIR/out/report.html (11 files in all)\n"
    );
    let there = [
        "divergence.svg",
        "epochs-re.csv",
        "epochs-re.md",
        "epochs-real.csv",
        "epochs-real.md",
        "learning-rate.svg",
        "report.html",
        "results.csv",
        "results.md",
        "training.svg",
        "validation.svg",
    ];
    assert_eq!(names(&place.path("out")), there);
    let html = fs::read_to_string(place.path("out/report.html")).unwrap();
    for text in ["VD-LSTM +RE", "VD-LSTM +REAL", "not finished", ">second training<", "SHA-256", "hidden = 24"] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "").contains("http:"), "no address");
    assert_eq!(fs::read_to_string(place.path("out/epochs-re.csv")).unwrap().lines().count(), 3);

    // The same runs give the same bytes, and what else is in the folder stays.
    fs::write(place.path("out/mine.txt"), "mine").unwrap();
    let answer = finish(report().arg("--json")).json();
    assert_eq!(fs::read_to_string(place.path("out/report.html")).unwrap(), html);
    assert_eq!(fs::read_to_string(place.path("out/mine.txt")).unwrap(), "mine");
    assert_eq!(answer["files"].as_array().unwrap().len(), 11);
    assert_eq!((&answer["runs"][0]["finished"], &answer["runs"][1]["finished"]), (&true.into(), &false.into()));
    assert!(answer["runs"][0]["test"].is_f64() && answer["runs"][1]["test"].is_null(), "{answer}");
    assert!(answer["runs"][0]["paper_test"].is_null(), "{answer}");
}

#[test]
fn what_is_no_run_is_refused_and_nothing_is_written() {
    let place = Place::new();
    let report = |run: &str| {
        let mut command = bowline(["report", "--out"]);
        command.arg(place.path("out")).arg(place.path(run));
        command
    };
    let advice = "the folder that was given to `bowline train --out` (it has a config.toml)";
    place.check_refusal(&mut report("none"), "DIR/none: there is no such folder", advice);
    place.check_refusal(&mut report("corpus"), "DIR/corpus: this folder has no run", advice);
    let run = place.trained("run");
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    fs::write(run.join("events.jsonl"), log.replacen("\"event\":\"start\"", "\"event\":\"sart\"", 1)).unwrap();
    let ended = finish(&mut report("run"));
    let said = place.plain(ended.error());
    assert!(said.starts_with("DIR/run/events.jsonl: line 1: it is not an event: unknown variant `sart`"), "{said}");
    assert!(said.ends_with("\n  try: restore the file as the run wrote it, or leave this run out"), "{said}");
    assert!(!place.path("out").exists());
    fs::write(run.join("events.jsonl"), log).unwrap();
    fs::write(place.path("out"), "a file").unwrap();
    assert!(finish(&mut report("run")).error().contains("cannot create the folder"));
    assert_eq!(finish(&mut bowline(["report"])).code, Some(2));
}
