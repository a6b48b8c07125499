//! The commands in a row, as people use them: train, evaluate, ask, measure.

mod common;

use common::{Place, bowline, events, finish, result, sha256, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The tokens of a text: its words, and one `<eos>` a line.
fn tokens(file: &Path) -> usize {
    let text = fs::read_to_string(file).unwrap();
    text.split_whitespace().count() + text.lines().count()
}

fn summary(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn eval_agrees_with_the_summary_and_counts_every_prediction() {
    let place = Place::new();
    let printed = finish(place.train("run").args(["--epochs", "3", "--json"])).json();
    let run = place.path("run");
    let summary = summary(&run);
    assert_eq!(printed, summary);
    let eval = |split: &str, streams: &str| {
        let mut command =
            bowline(["eval", "--json", "--threads", "1", "--split", split, "--streams", streams, "--data"]);
        finish(command.arg(place.path("corpus")).arg(&run)).json()
    };
    for (i, split) in ["valid", "test"].into_iter().enumerate() {
        let answer = eval(split, "1");
        let words = tokens(&place.path(&format!("corpus/{split}.txt")));
        assert_eq!(answer["tokens"], words - 1);
        assert_eq!(summary["tokens"][i], words - 1);
        let (perplexity, nll) = (number(&answer["perplexity"]), number(&answer["nll"]));
        assert!((perplexity - number(&summary[split])).abs() < 1e-9, "{answer} {summary}");
        assert!((perplexity - (nll / (words - 1) as f64).exp()).abs() < 1e-9, "{answer}");

        // Without the ends of lines and the unknown words there are fewer predictions.
        let lines = fs::read_to_string(place.path(&format!("corpus/{split}.txt"))).unwrap().lines().count();
        assert_eq!(answer["without_eos"]["tokens"], words - 1 - lines);
        let unseen = answer["unseen"].as_u64().unwrap() as usize;
        assert!(unseen > 0, "the test wants a few");
        assert_eq!(events(&run)[0]["unseen"][i], unseen);
        assert_eq!(answer["without_unk"]["tokens"], words - 1 - unseen);
        assert_eq!(answer["without_both"]["tokens"], words - 1 - lines - unseen);
        for key in ["without_eos", "without_unk", "without_both"] {
            let (nll, tokens) = (number(&answer[key]["nll"]), number(&answer[key]["tokens"]));
            assert!((number(&answer[key]["perplexity"]) - (nll / tokens).exp()).abs() < 1e-9, "{answer}");
        }

        // Five streams lose the past of four words.
        let five = eval(split, "5");
        assert_eq!(five["tokens"], words - 1);
        let off = (number(&five["perplexity"]) / perplexity - 1.0).abs();
        assert!(0.0 < off && off < 0.02, "{five} {answer}");
    }
    // A perplexity that has learned something: the corpus has about 300 words, the frequent ones often.
    assert!(number(&summary["test"]) < 200.0);

    // The file itself, taken whole, is the same text; a run's folder and its best/ are the same model.
    let by = |data: &str, model: &str| {
        let mut command = bowline(["eval", "--json", "--threads", "2", "--data"]);
        finish(command.arg(place.path(data)).arg(run.join(model))).json()["nll"].clone()
    };
    assert_eq!(by("corpus/test.txt", ""), by("corpus", "best"));

    // For people.
    let ended = finish(bowline(["eval", "--data"]).arg(place.path("corpus")).arg(&run)).success();
    let said = place.plain(&ended.stdout);
    assert!(said.starts_with("real on DIR/corpus (test), state carried, one stream\n  perplexity "), "{said}");
    for what in ["all words", "without <unk>", "without <eos>", "without both"] {
        assert_eq!(said.lines().filter(|line| line.ends_with(what)).count(), 1, "{said}");
    }
}

/// A window of the evaluation has 200 words; what comes after it must still know what was in it.
#[test]
fn eval_and_next_agree_on_what_a_long_past_leads_to() {
    let place = Place::new();
    let run = place.trained("run");
    let words = text(9, 60, 300);
    let phrase = words.split_whitespace().take(200).collect::<Vec<_>>().join(" ");
    fs::write(place.path("one-line.txt"), format!("<eos>\n{phrase}\n")).unwrap();
    let answer = finish(bowline(["eval", "--json", "--data"]).arg(place.path("one-line.txt")).arg(&run)).json();
    assert_eq!((&answer["tokens"], &answer["without_eos"]["tokens"]), (&Value::from(201), &Value::from(200)));
    let eval = (number(&answer["without_eos"]["nll"]) - number(&answer["nll"])).exp();

    let answer = finish(bowline(["next", "--json", "-k", "100000"]).arg(&run).arg(&phrase)).json();
    let eos = answer["next"].as_array().unwrap().iter().find(|word| word["word"] == "<eos>").unwrap();
    let next = number(&eos["probability"]);
    assert!((eval / next - 1.0).abs() < 1e-5, "{eval} {next}");
}

#[test]
fn next_gives_the_likeliest_words_first() {
    let place = Place::new();
    let run = place.trained("run");
    let next = |model: &Path, phrase: &str, k: &str| {
        finish(bowline(["next", "--json", "-k", k]).arg(model).arg(phrase)).json()
    };
    let answer = next(&run, "bababa dobaba", "5");
    assert_eq!(answer["phrase"], "bababa dobaba");
    assert_eq!(answer["model"], "real");
    let words = answer["next"].as_array().unwrap();
    assert_eq!(words.len(), 5);
    let probabilities: Vec<f64> = words.iter().map(|word| number(&word["probability"])).collect();
    assert!(probabilities.is_sorted_by(|a, b| a >= b) && probabilities[4] > 0.0, "{answer}");
    assert!(probabilities.iter().sum::<f64>() <= 1.0, "{answer}");
    assert_eq!(next(&run.join("best"), "bababa dobaba", "5"), answer);

    // All words together are certain, and each is there once.
    let all = next(&run, "bababa dobaba", "100000");
    let all = all["next"].as_array().unwrap();
    let vocabulary = fs::read_to_string(run.join("best/vocab.txt")).unwrap();
    let mut found: Vec<&str> = all.iter().map(|word| word["word"].as_str().unwrap()).collect();
    let mut expected: Vec<&str> = vocabulary.lines().collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let sum: f64 = all.iter().map(|word| number(&word["probability"])).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");

    // Another past, another prediction; an unknown word is named.
    assert_ne!(next(&run, "kababa", "5")["next"], answer["next"]);
    assert_eq!(next(&run, "bababa zebra", "1")["unseen"], serde_json::json!(["zebra"]));
    let ended = finish(bowline(["next"]).arg(&run).arg("bababa zebra")).success();
    assert_eq!(ended.stderr, "`zebra` is not in the model's vocabulary and is read as <unk>\n");
    assert_eq!(ended.stdout.lines().count(), 10);
}

#[test]
fn all_four_models_train_and_are_what_they_say() {
    let place = Place::new();
    let mut results = Vec::new();
    for model in ["vd-lstm", "al", "re", "real"] {
        let summary = finish(place.train(model).args(["--epochs", "1", "--json", "--model", model])).json();
        assert_eq!(summary["model"], model);
        let answer = finish(bowline(["next", "--json"]).arg(place.path(model))).json();
        assert_eq!(answer["model"], model);
        results.push((summary["parameters"].as_u64().unwrap(), number(&summary["valid"])));
    }
    // The tied ones have no second matrix and no bias.
    let vocab = events(&place.path("re"))[0]["vocab"].as_u64().unwrap();
    assert_eq!(results[0].0, results[1].0);
    assert_eq!(results[2].0, results[3].0);
    assert_eq!(results[0].0 - results[2].0, vocab * 25);
    for i in 0..4 {
        for j in 0..i {
            assert_ne!(results[i].1, results[j].1, "{i} and {j} are the same model");
        }
    }
}

#[test]
fn patience_ends_a_run_early() {
    let place = Place::new();
    let mut wobbled = false;
    for seed in ["1", "2", "3", "4", "5", "6"] {
        // A rate too high to get better for long, and much noise.
        let settings = ["--seed", seed, "--set", "learning_rate=1.5", "--set", "keep=0.5"];
        let run = format!("run-{seed}");
        let patience = ["--epochs", "50", "--patience", "2", "--json"];
        let summary = finish(place.train(&run).args(settings).args(patience)).json();
        let curve: Vec<f64> =
            summary["curve"].as_array().unwrap().iter().map(|point| number(&point["valid"])).collect();
        // Two epochs in a row that are no better than the best before them, and none after.
        let (mut best, mut stale) = (0, 0);
        for (i, valid) in curve.iter().enumerate() {
            assert!(stale < 2, "seed {seed} went on after its patience: {curve:?}");
            if i == 0 || *valid < curve[best] {
                wobbled |= stale > 0;
                (best, stale) = (i, 0);
            } else {
                stale += 1;
            }
        }
        assert_eq!(stale, 2, "seed {seed} ended before its patience: {curve:?}");
        assert_eq!(summary["ended"], "patience");
        assert_eq!((&summary["epochs"], &summary["best_epoch"]), (&curve.len().into(), &(best + 1).into()));
        assert_eq!(events(&place.path(&run)).last().unwrap()["reason"], "patience");

        // The weights in best/ are those of the best epoch: a run that ends there has the same.
        if seed == "1" {
            finish(place.train("short").args(settings).args(["--epochs", &(best + 1).to_string()])).success();
            assert_eq!(result(&place.path("short")).weights, result(&place.path(&run)).weights);
        }
    }
    assert!(wobbled, "none of the seeds got worse for an epoch before it got better: they show too little");
}

#[test]
fn a_plain_file_is_tokenized_and_its_vocabulary_limited() {
    let place = Place::new();
    let sentences: String =
        text(5, 300, 300).lines().map(|line| format!("{}, {line}.\n", line.to_uppercase())).collect();
    fs::write(place.path("book.txt"), sentences).unwrap();
    let train = |out: &str, settings: &[&str]| {
        let mut command = bowline(["train", "--threads", "1", "--epochs", "1", "--set", "hidden=8", "--data"]);
        command.arg(place.path("book.txt")).arg("--out").arg(place.path(out)).args(settings);
        finish(&mut command).success();
        let run = place.path(out);
        let vocabulary = fs::read_to_string(run.join("best/vocab.txt")).unwrap();
        (events(&run)[0].clone(), vocabulary.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let (raw, words) = train("raw", &[]);
    assert!(words.iter().any(|word| word.starts_with("BA")) && words.iter().any(|word| word.ends_with('.')));
    assert_eq!(raw["vocab"], words.len());

    let (tokenized, words) = train("tokenized", &["--tokenize"]);
    assert!(words.contains(&".".to_owned()) && words.contains(&",".to_owned()), "{words:?}");
    assert!(words.iter().all(|word| word.to_lowercase() == *word), "{words:?}");
    let count = |event: &Value| -> u64 { event["words"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum() };
    assert_eq!(count(&tokenized), count(&raw) + 600, "a comma and a full stop in each of 300 lines");
    // The model remembers that its words are made so.
    let answer = finish(bowline(["next", "--json", "-k", "1"]).arg(place.path("tokenized")).arg("BABABA,")).json();
    assert_eq!(answer["unseen"], serde_json::json!([]));

    let (limited, words) = train("limited", &["--tokenize", "--vocab-size", "50"]);
    assert_eq!((&limited["vocab"], words.len()), (&Value::from(50), 50));
    assert!(words.contains(&"<unk>".to_owned()) && words.contains(&"<eos>".to_owned()), "{words:?}");
}

#[test]
fn in_a_pipe_there_are_lines_and_the_log_has_what_they_say() {
    let place = Place::new();
    let ended = finish(place.train("run").args(["--epochs", "2"])).success();
    assert!(!ended.stderr.contains('\r') && !ended.stderr.contains('\x1b'), "{:?}", ended.stderr);
    assert!(!ended.stdout.contains('\r') && !ended.stdout.contains('\x1b'), "{:?}", ended.stdout);
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert!(lines[0].starts_with("real on ") && lines[0].contains(" training words, vocabulary "), "{lines:?}");
    let events = events(&place.path("run"));
    let epochs: Vec<_> = events.iter().filter(|event| event["event"] == "epoch").collect();
    assert_eq!(epochs.len(), 2);
    for epoch in epochs {
        let begin = format!(
            "epoch   {}  train ppl {:>8.2}  valid ppl {:>8.2}",
            epoch["epoch"],
            number(&epoch["train"]),
            number(&epoch["valid"])
        );
        assert_eq!(lines.iter().filter(|line| line.starts_with(&begin)).count(), 1, "{begin} {lines:?}");
    }
    let progress: Vec<_> = events.iter().filter(|event| event["event"] == "progress").collect();
    assert!(progress.len() >= 20, "{}", progress.len());
    let keys =
        ["epoch", "step", "loss", "perplexity", "learning_rate", "gradient_norm", "words_per_second", "eta_seconds"];
    for key in keys {
        assert!(progress.iter().all(|event| number(&event[key]) > 0.0), "{key}");
    }
    assert!(ended.stdout.contains("\nthe model is in "), "{}", ended.stdout);
    assert!(fs::read_to_string(place.path("run/best/README.md")).unwrap().contains("VD-LSTM +REAL"));
}

#[test]
fn bench_measures() {
    let answer = finish(&mut bowline([
        "bench",
        "--json",
        "--steps",
        "2",
        "--threads",
        "1",
        "--set",
        "hidden=16",
        "--vocab",
        "500",
    ]))
    .json();
    let value = |key: &str| number(&answer[key]);
    for key in ["tokens_per_second", "gflops", "peak_gflops", "share_of_peak"] {
        assert!(value(key) > 0.0, "{key}: {answer}");
    }
    assert!((value("share_of_peak") - value("gflops") / value("peak_gflops")).abs() < 1e-9, "{answer}");
    assert!(value("share_of_peak") < 1.0, "{answer}");
    assert_eq!((value("batch"), value("unroll"), value("steps"), value("vocab")), (20.0, 35.0, 2.0, 500.0));
}

#[test]
fn data_verify_and_get_leave_a_file_alone_that_is_not_theirs() {
    let place = Place::new();
    let dir = place.path("ptb");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("ptb.valid.txt"), "my own text\n").unwrap();
    let ended = finish(bowline(["data", "verify", "ptb", "--json", "--dir"]).arg(&dir));
    assert_eq!(ended.code, Some(1));
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["ok"], false);
    let status = |i: usize| answer["files"][i]["status"].as_str().unwrap();
    assert_eq!([0, 1, 2].map(status), ["missing", "differs", "missing"]);
    assert_eq!(answer["files"][1]["found"].as_str().unwrap(), sha256(&dir.join("ptb.valid.txt")));

    let ended = finish(bowline(["data", "verify", "ptb", "--dir"]).arg(&dir));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), "get it with: bowline data get ptb\n"));
    assert_eq!(
        place.plain(&ended.stdout),
        "ptb.train.txt: missing\nptb.valid.txt: differs\n  expected SHA-256 SHA256\n  found    SHA-256 SHA256\n\
         ptb.test.txt: missing\n"
    );

    // Refused before anything is asked for on the network.
    place.check_refusal(
        bowline(["data", "get", "ptb", "--dir"]).arg(&dir),
        "DIR/ptb/ptb.valid.txt: this is not the file of the corpus `ptb`: its SHA-256 is SHA256, not SHA256",
        "move it away and run `bowline data get ptb`, or use `--data DIR` for your own text",
    );
    assert_eq!(fs::read_to_string(dir.join("ptb.valid.txt")).unwrap(), "my own text\n");
}
