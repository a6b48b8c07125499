//! A MODEL is a MODEL: every command takes networks, n-gram models and mixtures of them, in every way of predicting, or says
//! why it cannot.

mod common;

use common::{Place, bowline, finish};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A network, an n-gram model of the same words, and lists of hypotheses.
fn place() -> Place {
    let place = Place::new();
    place.trained("network");
    finish(
        bowline(["train", "--model", "kn", "--min-count", "1", "--data"])
            .arg(place.path("corpus"))
            .arg("--out")
            .arg(place.path("kn")),
    )
    .success();
    let text = fs::read_to_string(place.path("corpus/test.txt")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(12).collect();
    let list: String = (0..12).map(|i| format!("u{}-{} {}\n", i / 3, i % 3, lines[i])).collect();
    fs::write(place.path("list"), list).unwrap();
    fs::write(place.path("text"), lines.join("\n") + "\n").unwrap();
    place
}

/// Models and ways of predicting, as flags.
fn ways(place: &Place) -> Vec<Vec<String>> {
    let path = |name: &str| place.path(name).display().to_string();
    let (network, kn) = (path("network"), path("kn"));
    let mixed = [network.as_str(), "--with", &kn, "--weights", "0.6,0.4"];
    let strings = |args: &[&str]| args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>();
    vec![
        strings(&[&network]),
        strings(&[&kn]),
        strings(&[&kn, "--recency=window=500,horizon=0,weight=0.2,strength=2"]),
        strings(&[&network, "--cache"]),
        strings(&[&network, "--dynamic-form", "sgd"]),
        strings(&[&network, "--mc", "2", "--mc-keep", "0.8"]),
        strings(&mixed),
        strings(&[&mixed[..], &["--mix", "log", "--recency=window=500,horizon=0,weight=0.2,strength=2"]].concat()),
        strings(&[&mixed[..], &["--cache", "--dynamic-form", "sgd"]].concat()),
    ]
}

fn command(name: &str, way: &[String]) -> Command {
    let mut command = bowline([name, "--threads", "1"]);
    command.args(way);
    command
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The costs of `rescore` are those of `score`, with and without a memory between utterances.
#[test]
fn every_way_of_predicting_scores_and_rescores() {
    let place = place();
    for way in ways(&place) {
        let scored = finish(command("score", &way).arg(place.path("text"))).success();
        assert_eq!(scored.stdout.lines().count(), 12, "{way:?}");
        let kaldi = finish(command("score", &way).args(["--format", "kaldi"]).arg(place.path("list"))).success().stdout;
        let rescored = finish(command("rescore", &way).args(["--json", "--unk-penalty", "0"]).arg(place.path("list")))
            .success()
            .stdout;
        let costs = lines(&rescored)
            .iter()
            .flat_map(|u| u["hypotheses"].as_array().unwrap().clone())
            .map(|h| (h["key"].as_str().unwrap().to_owned(), h["model"].as_f64().unwrap()))
            .collect::<Vec<_>>();
        assert_eq!(costs.len(), 12);
        for ((key, cost), line) in costs.iter().zip(kaldi.lines()) {
            let (other, words) = line.split_once(' ').unwrap();
            let score: f64 = words.split_whitespace().map(|cost| cost.parse::<f64>().unwrap()).sum();
            assert_eq!(key, other);
            assert!((cost - score).abs() < 2e-3, "{way:?}: {key} {cost} {score}");
        }
        // Read after the best of the utterance before, the second utterance is another one; the first is not.
        let carried =
            finish(command("rescore", &way).args(["--json", "--carry", "--unk-penalty", "0"]).arg(place.path("list")))
                .success();
        let (carried, alone) = (lines(&carried.stdout), lines(&rescored));
        let cost = |hypothesis: &Value| hypothesis["model"].as_f64().unwrap();
        let differ = |i: usize| {
            let pairs =
                carried[i]["hypotheses"].as_array().unwrap().iter().zip(alone[i]["hypotheses"].as_array().unwrap());
            pairs.filter(|(a, b)| (cost(a) - cost(b)).abs() > 1e-6).count()
        };
        // Only n-grams without a cache remember nothing; a cache alone knows only the words that came before.
        let remembers = !(way.len() == 1 && way[0].ends_with("kn"));
        assert_eq!((differ(0), differ(1) > 0), (0, remembers), "{way:?}: {} {}", carried[1], alone[1]);
    }
}

#[test]
fn every_way_of_predicting_evaluates_and_generates() {
    let place = place();
    for way in ways(&place) {
        // `eval` takes all its models in a row.
        let way: Vec<String> = way.into_iter().filter(|arg| arg != "--with").collect();
        let answer = finish(command("eval", &way).arg("--data").arg(place.path("corpus")).arg("--json")).json();
        assert!(answer["perplexity"].as_f64().unwrap() < 400.0, "{way:?}: {answer}");
    }
    for way in ways(&place) {
        let next = finish(command("next", &way).args(["baba", "--json", "-k", "3"])).json();
        assert_eq!(next["next"].as_array().unwrap().len(), 3, "{way:?}");
        let draw = ["--words", "8", "--samples", "2", "--seed", "5"];
        let texts = finish(command("generate", &way).args(draw)).success().stdout;
        let answer = finish(command("generate", &way).args(draw).arg("--json")).json();
        let said = |sample: &Value| {
            let words = sample["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
            words.filter(|word| *word != "<eos>").collect::<Vec<_>>().join(" ")
        };
        let samples: Vec<String> = answer["samples"].as_array().unwrap().iter().map(said).collect();
        assert_eq!(texts.lines().collect::<Vec<_>>(), samples, "{way:?}");
    }
}

#[test]
fn models_of_two_kinds_are_compared_and_reported_side_by_side() {
    let place = place();
    let (network, kn) = (place.path("network"), place.path("kn"));
    let answer = finish(bowline(["compare", "--json", "-k", "3"]).args([&network, &kn]).arg("baba")).json();
    let next = finish(bowline(["next", "--json", "-k", "3"]).arg(&kn).arg("baba")).json();
    assert_eq!(answer["models"][1]["model"], "kn");
    assert_eq!(answer["phrases"][0]["predictions"][1]["next"], next["next"]);

    let out = place.path("report");
    let answer = finish(bowline(["report", "--json", "--out"]).arg(&out).args([&network, &kn])).json();
    let summary: Value = serde_json::from_str(&fs::read_to_string(kn.join("summary.json")).unwrap()).unwrap();
    let run = &answer["runs"][1];
    assert_eq!((&run["model"], &run["size"], &run["seed"]), (&"kn".into(), &"5-gram".into(), &Value::Null));
    assert_eq!((&run["valid"], &run["test"]), (&summary["valid"], &summary["test"]));
    let table = fs::read_to_string(out.join("results.csv")).unwrap();
    assert!(table.lines().nth(2).is_some_and(|row| row.starts_with("kn,") && row.contains(",KN-5,")), "{table}");
    // It has no curve, but a line across the others'.
    let chart = fs::read_to_string(out.join("validation.svg")).unwrap();
    let level = format!("{:.1}", summary["valid"].as_f64().unwrap());
    assert!(chart.contains(&format!("KN-5 {level}")) || chart.contains(&format!("kn {level}")), "{chart}");
    // Alone, too.
    finish(bowline(["report", "--out"]).arg(place.path("alone")).arg(&kn)).success();
}

#[test]
fn what_an_n_gram_model_cannot_do_is_said() {
    let place = place();
    let kn = place.path("kn");
    let eval = |flags: &[&str]| {
        let mut command = bowline(["eval", "--data"]);
        command.arg(place.path("corpus")).arg(&kn).args(flags);
        command
    };
    for (flags, problem) in [
        (&["--cache"][..], "setting `cache`: an n-gram model has no states that a neural cache could compare"),
        (
            &["--dynamic-form", "sgd"],
            "setting `dynamic`: an n-gram model has no weights that could learn from the text",
        ),
        (&["--mc", "3"], "setting `mc`: an n-gram model has no units that could be dropped"),
        (&["--temperature", "1.2"], "setting `temperature`: an n-gram model has no logits that could be divided"),
    ] {
        place.check_refusal(
            &mut eval(flags),
            problem,
            "--recency, a cache for every kind of model, or mix in a network",
        );
    }
    let network = "a network: a model of `bowline train` without `--model kn`";
    let lacks = |command: &mut Command, what: &str| {
        place.check_refusal(command, &format!("DIR/kn/best: model: an n-gram model has no {what}"), network);
    };
    let of_kn = |name: &str, rest: &[&str]| {
        let mut command = bowline([name]);
        command.arg(Path::new(&kn)).args(rest);
        command
    };
    lacks(&mut of_kn("neighbours", &["baba"]), "word vectors");
    lacks(&mut of_kn("subspace", &[]), "word vectors");
    lacks(of_kn("export", &["--to", "onnx", "--out"]).arg(place.path("m.onnx")), "layers that ONNX could run");
    lacks(&mut eval(&["--all"]), "ways of predicting to compare");
}
