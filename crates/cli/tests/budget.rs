//! `bowline train --budget`: what a person with a text and some time gets.

mod common;

use common::{Place, bowline, finish, text};
use std::fs;

fn own_text(place: &Place, lines: usize) -> String {
    let file = place.path("my.txt");
    // Untokenised, as people write.
    let lines: String = text(1, lines, 300).lines().map(|line| format!("{}, indeed.\n", line)).collect();
    fs::write(&file, lines).unwrap();
    file.display().to_string()
}

#[test]
fn a_budget_that_is_no_time_is_refused_with_what_is_possible() {
    let place = Place::new();
    let data = own_text(&place, 100);
    for (budget, problem) in
        [("10", "`10` has no unit"), ("0s", "is not a possible training time"), ("soon", "has no unit")]
    {
        let mut command = bowline(["train", "--data", &data, "--budget", budget, "--out"]);
        let said = finish(command.arg(place.path("run"))).stderr;
        assert!(said.contains(problem) && said.contains("`10m`"), "{said}");
        assert!(!place.path("run").exists());
    }
    let mut command = bowline(["train", "--data", &data, "--budget", "1m", "--epochs", "3", "--out"]);
    let said = finish(command.arg(place.path("run"))).stderr;
    assert!(said.contains("--budget") && said.contains("--epochs"), "{said}");
}

#[test]
fn too_little_time_gives_n_grams_and_says_so() {
    let place = Place::new();
    let data = own_text(&place, 2_000);
    let run = place.path("run");
    let mut command = bowline(["train", "--data", &data, "--budget", "0.01s", "--threads", "1", "--out"]);
    let said = finish(command.arg(&run)).success();
    assert!(said.stderr.contains("a Kneser-Ney model instead"), "{}", said.stderr);
    assert!(said.stderr.contains("the text is not tokenised"), "{}", said.stderr);
    let answer = finish(bowline(["eval", "--json"]).arg(&run)).json();
    assert_eq!(answer["model"], "kn");
    let said = finish(bowline(["resume", "--budget", "1m"]).arg(&run)).stderr;
    assert!(said.contains("it is an n-gram model, which has no epochs to plan"), "{said}");
}

#[test]
fn a_text_and_a_time_give_a_model_that_predicts_with_everything_and_can_go_on() {
    let place = Place::new();
    let data = own_text(&place, 1_500);
    let run = place.path("run");
    let small = ["--set", "hidden=32", "--set", "network.projection=16", "--set", "epochs=2"];
    let mut command = bowline(["train", "--data", &data, "--budget", "20s", "--threads", "1", "--json", "--out"]);
    let said = finish(command.arg(&run).args(small));
    let (stderr, summary) = (said.stderr.clone(), said.json());
    assert!(stderr.contains("budget 20s; plan: one Mogrifier LSTM of 32 units"), "{stderr}");
    let (plain, full) = (&summary["predictor"]["plain"], &summary["predictor"]["full"]);
    assert!(full[1].as_f64() < plain[1].as_f64(), "{summary}");
    let of = |args: &[&str]| finish(bowline(["eval", "--threads", "1", "--json"]).arg(&run).args(args)).json();
    let close =
        |a: &serde_json::Value, b: &serde_json::Value| (a.as_f64().unwrap() / b.as_f64().unwrap() - 1.0).abs() < 1e-5;
    assert!(close(&of(&[])["perplexity"], &full[1]), "{} {full}", of(&[]));
    assert!(close(&of(&["--plain"])["perplexity"], &plain[1]));
    // A phrase is continued with the n-grams; a sentence that stands alone has the network's own score.
    let words: Vec<String> = fs::read_to_string(&data).unwrap().split_whitespace().take(6).map(str::to_owned).collect();
    let phrase = words[..2].join(" ");
    let next = |args: &[&str]| finish(bowline(["next", "--json"]).arg(&run).arg(&phrase).args(args)).success().stdout;
    assert_ne!(next(&[]), next(&["--plain"]));
    let scores = |args: &[&str]| {
        let lines = place.path("lines.txt");
        fs::write(&lines, format!("{}\n{}\n", words[..3].join(" "), words[3..].join(" "))).unwrap();
        finish(bowline(["score"]).arg(&run).arg(&lines).args(args)).success().stdout
    };
    assert_eq!(scores(&[]), scores(&["--plain"]));
    assert_ne!(scores(&["--carry"]), scores(&["--carry", "--plain"]));

    // A finished run has nothing left to do: what was found is not sought again.
    let whole = |file: &str| fs::read(run.join(file)).unwrap();
    let before = (whole("summary.json"), whole("best/predictor.json"), whole("events.jsonl"));
    assert_eq!(finish(bowline(["resume", "--threads", "1", "--json"]).arg(&run)).json(), summary);
    assert_eq!((whole("summary.json"), whole("best/predictor.json"), whole("events.jsonl")), before);

    // With more time it goes on, and is fitted again.
    let again = finish(bowline(["resume", "--budget", "15s", "--threads", "1", "--json"]).arg(&run)).json();
    assert!(again["epochs"].as_u64() > summary["epochs"].as_u64(), "{again}");
    assert_ne!(again["weights_sha256"], summary["weights_sha256"]);
    assert!(again["predictor"]["full"].is_array());
    let said = finish(bowline(["resume", "--budget", "auto"]).arg(&run)).stderr;
    assert!(said.contains("needs a time"), "{said}");
}
