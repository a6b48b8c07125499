//! Ways of predicting from the command line: eval, score and next with caches, learning on the way, mixtures and tuning.

mod common;

use common::{Place, bowline, finish};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn eval(place: &Place, models: &[&Path]) -> Command {
    let mut command = bowline(["eval", "--threads", "1", "--data"]);
    command.arg(place.path("corpus")).args(models);
    command
}

fn perplexity(place: &Place, models: &[&Path], flags: &[&str]) -> f64 {
    finish(eval(place, models).args(flags).arg("--json")).json()["perplexity"].as_f64().unwrap()
}

#[test]
fn ways_of_predicting_that_change_nothing_change_nothing() {
    let place = Place::new();
    let run = place.trained("run");
    let plain = perplexity(&place, &[&run], &[]);
    assert_eq!(perplexity(&place, &[&run], &["--cache-lambda", "0"]), plain);
    assert_eq!(perplexity(&place, &[&run], &["--dynamic-rate", "0"]), plain);
    assert_eq!(perplexity(&place, &[&run], &["--temperature", "1"]), plain);
    assert_eq!(perplexity(&place, &[&run], &["--recency=weight=0"]), plain);
    assert!((perplexity(&place, &[&run], &["--mc", "3", "--mc-keep", "1"]) - plain).abs() < 1e-9);
    assert!((perplexity(&place, &[&run, &run], &["--weights", "0.3,0.7"]) - plain).abs() < 1e-9);
    let two = perplexity(&place, &[&run, &run], &["--mix", "log", "--weights", "0.5,0.5"]);
    assert!((two / plain - 1.0).abs() < 1e-5);
    for flags in [&["--cache"][..], &["--dynamic"], &["--mc", "3"], &["--temperature", "1.5"], &["--recency"]] {
        let answer = finish(eval(&place, &[&run]).args(flags).args(["--json", "--split", "valid"])).json();
        let other = answer["perplexity"].as_f64().unwrap();
        assert!((other - plain).abs() > 1e-6 && other.is_finite(), "{flags:?}");
        assert!(answer["predictor"]["title"].as_str().unwrap().starts_with("real"), "{answer}");
    }
}

#[test]
fn what_was_tuned_is_kept_and_used() {
    let place = Place::new();
    let run = place.trained("run");
    let weights = common::sha256(&run.join("best/model.safetensors"));
    let tuned = finish(eval(&place, &[&run]).args(["--tune", "--cache", "--dynamic", "--tune-seconds", "2", "--json"]));
    let tuned = tuned.json();
    assert_eq!(tuned["split"], "test");
    assert!(tuned["predictor"]["valid"].as_f64().unwrap() > 1.0);
    let stored: Value = serde_json::from_slice(&fs::read(run.join("best/tuned.json")).unwrap()).unwrap();
    let settings = &tuned["predictor"]["members"][0]["settings"];
    assert_eq!(stored["dynamic"], settings["dynamic"]);
    assert_eq!(stored["cache_with_dynamic"], settings["cache"]);
    // The same flags without values mean what was found; the model itself is as it was.
    assert_eq!(perplexity(&place, &[&run], &["--cache", "--dynamic"]), tuned["perplexity"].as_f64().unwrap());
    assert_eq!(common::sha256(&run.join("best/model.safetensors")), weights);
    // A value that is given counts.
    let given = finish(eval(&place, &[&run]).args(["--cache", "--dynamic", "--cache-window", "7", "--json"])).json();
    let members = &given["predictor"]["members"];
    assert_eq!(members[0]["settings"]["cache"]["window"], 7);
    assert_eq!(members[0]["settings"]["cache"]["theta"], stored["cache_with_dynamic"]["theta"]);
}

#[test]
fn how_many_units_to_keep_is_found_kept_and_used() {
    let place = Place::new();
    let run = place.trained("run");
    let flags = ["--mc", "3", "--tune", "--tune-seconds", "1", "--json"];
    let tuned = finish(eval(&place, &[&run]).args(flags)).json();
    let stored: Value = serde_json::from_slice(&std::fs::read(run.join("best/tuned.json")).unwrap()).unwrap();
    let keep = stored["mc_keep"].as_f64().unwrap();
    assert!(keep > 0.0 && keep < 1.0, "{keep}");
    assert_eq!(tuned["predictor"]["members"][0]["settings"]["monte_carlo"]["keep"].as_f64(), Some(keep));
    // No worse on valid than as in training, and used without being asked for again; what is given comes first.
    let on_valid = |flags: &[&str]| perplexity(&place, &[&run], &[&["--split", "valid", "--mc", "3"], flags].concat());
    let found = on_valid(&[]);
    assert_eq!(found, on_valid(&["--mc-keep", &keep.to_string()]));
    assert!(found <= on_valid(&["--mc-keep", "0.7"]), "{found}");
    assert_ne!(found, on_valid(&["--mc-keep", "0.5"]));
}

#[test]
fn mixtures_are_fitted_on_valid_and_used_elsewhere() {
    let place = Place::new();
    let run = place.trained("run");
    let mut kn = bowline(["train", "--model", "kn", "--min-count", "1", "--data"]);
    finish(kn.arg(place.path("corpus")).arg("--out").arg(place.path("kn"))).success();
    let kn = place.path("kn");
    let on_valid = |models: &[&Path], flags: &[&str]| {
        let mut all = vec!["--split", "valid"];
        all.extend(flags);
        perplexity(&place, models, &all)
    };
    let mixed = on_valid(&[&run, &kn], &[]);
    assert!(mixed < on_valid(&[&run], &[]) && mixed < on_valid(&[&kn], &[]));
    // Not known yet where there is no text to fit them on.
    place.check_refusal(
        bowline(["next"]).arg(&run).args(["baba", "--with"]).arg(&kn),
        "setting `weights`: the weights of this mixture are not known yet",
        "--weights, or `bowline eval MODEL MODEL.. --data DIR --tune` with the same flags, which keeps them",
    );
    let tuned = finish(eval(&place, &[&run, &kn]).args(["--tune", "--json"])).json();
    let weights: Vec<f64> =
        tuned["predictor"]["members"].as_array().unwrap().iter().map(|m| m["weight"].as_f64().unwrap()).collect();
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9 && weights.iter().all(|&w| w > 0.0));
    let mut next = bowline(["next"]);
    let next = finish(next.arg(&run).args(["baba", "-k", "400", "--json", "--with"]).arg(&kn)).json();
    let sum: f64 = next["next"].as_array().unwrap().iter().map(|c| c["probability"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    // `score` says of a text what `eval` says of it.
    let text = place.path("corpus/test.txt");
    let mut score = bowline(["score"]);
    score.arg(&run).arg(&text).args(["--carry", "--format", "json", "--cache", "--with"]).arg(&kn);
    let scored = finish(score.args(["--weights", "0.5,0.5"])).success().stdout;
    let (mut nll, mut words) = (0.0, 0);
    for line in scored.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(logprob) = line["logprob"].as_f64() {
            nll -= logprob;
            words += 1;
        }
    }
    assert!(words >= 60 && nll > 0.0, "{scored}");
}

#[test]
fn the_table_has_every_way_and_is_written_for_machines() {
    let place = Place::new();
    let (run, other) = (place.trained("run"), place.path("other"));
    finish(place.train("other").args(["--epochs", "1", "--seed", "2"])).success();
    let file = place.path("table.csv");
    let mut all = eval(&place, &[&run, &other]);
    all.args(["--all", "--mc", "3", "--tune-seconds", "2", "--json", "--out"]).arg(&file);
    let answer = finish(&mut all).json();
    let rows = answer["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["technique"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "static",
            "temperature",
            "cache",
            "dynamic",
            "dynamic + cache",
            "MC 3",
            "real alone",
            "KN-5 alone",
            "static + KN-5",
            "dynamic + cache + KN-5",
            "ensemble of 2 networks",
            "dynamic + cache + 2 more models"
        ]
    );
    let value = |name: &str, key: &str| {
        rows.iter().find(|row| row["technique"] == name).and_then(|row| row[key].as_f64()).unwrap()
    };
    for row in rows {
        assert!(row["valid"].as_f64().unwrap() > 1.0 && row["test"].as_f64().unwrap() > 1.0);
        assert!(row["microseconds"].as_f64().unwrap() > 0.0);
    }
    assert!((value("static", "test") / perplexity(&place, &[&run], &[]) - 1.0).abs() < 1e-12);
    // Mixtures fitted on valid are there at least as good as each of their members, but for where the fitting stops: with
    // members as alike as two networks of one epoch, its last rounds gain very little each.
    for (mixture, members) in [
        ("static + KN-5", ["static", "KN-5 alone"]),
        ("ensemble of 2 networks", ["static", "real alone"]),
        ("dynamic + cache + KN-5", ["dynamic + cache", "KN-5 alone"]),
    ] {
        assert!(
            members.iter().all(|member| value(mixture, "valid") <= (1.0 + 1e-4) * value(member, "valid")),
            "{mixture}"
        );
    }
    let csv = fs::read_to_string(&file).unwrap();
    assert_eq!(csv.lines().count(), rows.len() + 1);
    assert!(
        csv.starts_with(
            "model,technique,settings,valid,test,microseconds_per_token,relative_cost\n\"run\",\"static\","
        )
    );
    // It is kept beside the run, and the report shows it.
    let kept: Value = serde_json::from_slice(&fs::read(run.join("predictors.json")).unwrap()).unwrap();
    assert_eq!(kept["rows"], answer["rows"]);
    assert_eq!(kept["weights"].as_str().unwrap().len(), 64);
    let out = place.path("report");
    let report = finish(bowline(["report", "--json", "--out"]).arg(&out).args([&run, &other])).json();
    let files = report["files"].as_array().unwrap();
    assert_eq!(files.iter().filter(|file| file.as_str().unwrap().contains("predictor")).count(), 3, "{files:?}");
    let shown = fs::read_to_string(out.join("predictors-run.csv")).unwrap();
    assert_eq!(shown.lines().count(), rows.len() + 1);
    let html = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("Ways of predicting of run") && !html.contains("Ways of predicting of other"));
    assert!(!html.contains("are of other weights"));
}

#[test]
fn impossible_ways_are_refused() {
    let place = Place::new();
    let run = place.trained("run");
    let refused = |flags: &[&str], problem: &str, advice: &str| {
        place.check_refusal(eval(&place, &[&run]).args(flags), problem, advice);
    };
    refused(
        &["--cache-lambda", "1.5"],
        "setting `cache-lambda`: 1.5 is impossible",
        "a value from 0 to 1; 0.1 is usual",
    );
    refused(
        &["--cache-window", "0"],
        "setting `cache-window`: 0 is impossible",
        "a value from 1 to 1000000; 2000 is usual",
    );
    refused(&["--dynamic-rate=-1"], "setting `dynamic-rate`: -1 is impossible", "a value of at least 0");
    refused(
        &["--mc", "3", "--cache"],
        "setting `mc`: Monte-Carlo dropout cannot be combined with a cache: there is no single state to follow",
        "one of the two; models can still be mixed",
    );
    refused(
        &["--cache", "--streams", "4"],
        "setting `streams`: only a network as it was trained can read a text in several streams",
        "--streams 1, or leave it out",
    );
    refused(
        &["--weights", "0.5,0.5"],
        "setting `weights`: there are 2 weights for 1 members",
        "one weight for each MODEL, in this order, with commas between",
    );
    refused(
        &["--tune"],
        "setting `tune`: a single model as trained has nothing to tune",
        "choose what to tune: --cache, --dynamic, --mc N, --temperature tuned, --recency, several models, or use --all",
    );
    let text = place.path("corpus/test.txt");
    place.check_refusal(
        bowline(["eval", "--dynamic", "--data"]).arg(&text).arg(&run),
        "DIR/corpus/test.txt: the rms form of dynamic evaluation needs the train part of a corpus, and this is one text",
        "leave --data out to use the text of the run, or give a folder made by `bowline data split`",
    );
    // Other words.
    fs::create_dir_all(place.path("others")).unwrap();
    for split in ["train", "valid", "test"] {
        fs::write(place.path(&format!("others/{split}.txt")), "one two three four\n".repeat(40)).unwrap();
    }
    let mut train = bowline(["train", "--threads", "1", "--epochs", "1", "--set", "hidden=8", "--data"]);
    finish(train.arg(place.path("others")).arg("--out").arg(place.path("small"))).success();
    let ended = finish(&mut eval(&place, &[&run, &place.path("small")]));
    assert!(
        place.plain(ended.error()).starts_with("DIR/small: vocabulary: it has 5 words and DIR/run has "),
        "{ended:?}"
    );
    assert!(ended.error().contains("they cannot be mixed"));
}
