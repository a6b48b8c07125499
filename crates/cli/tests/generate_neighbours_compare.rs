//! Commands that speak in words: `generate`, `neighbours` and `compare`.

mod common;
mod made_models;

use bowline::params::Params;
use bowline::spec::ModelSpec;
use common::{Place, bowline, finish};
use serde_json::Value;
use std::path::Path;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn generate(model: &Path, options: &[&str]) -> Value {
    finish(bowline(["generate", "--json"]).arg(model).args(options)).json()
}

fn words(sample: &Value) -> Vec<&str> {
    sample["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn the_same_seed_gives_the_same_text() {
    let place = Place::new();
    let run = place.trained("run");
    let options = ["--prompt", "bababa dobaba", "--samples", "5", "--words", "30", "--through-eos"];
    let with = |more: &[&str]| generate(&run, &[&options, more].concat());
    let first = with(&["--seed", "7", "--threads", "1"]);
    assert_eq!(with(&["--seed", "7", "--threads", "3"]), first);
    assert_ne!(with(&["--seed", "8"])["samples"], first["samples"]);
    let samples = first["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 5);
    assert!((0..5).all(|i| (0..i).all(|j| samples[i]["words"] != samples[j]["words"])));
    for sample in samples {
        assert_eq!((words(sample).len(), &sample["ended"]), (30, &"words".into()));
        assert!(words(sample).iter().all(|word| *word != "<unk>"), "{sample}");
        let sum: f64 = sample["logprobs"].as_array().unwrap().iter().map(number).sum();
        assert!((sum - number(&sample["logprob"])).abs() < 1e-9);
    }
    // What people see is the same: the prompt, the words, and a new line at each end of a sentence.
    let ended = finish(bowline(["generate"]).arg(&run).args(options).args(["--seed", "7"])).success();
    let text = |sample: &Value| {
        let text = format!("bababa dobaba {}", words(sample).join(" "));
        text.replace(" <eos> ", "\n").replace(" <eos>", "\n") + "\n"
    };
    let expected: String = samples.iter().map(text).collect();
    assert_eq!(ended.stdout.replace("\n\n", "\n"), expected.replace("<eos> ", "").replace("\n\n", "\n"));

    // By default the text ends with the sentence, and the end is not printed.
    let stopped = generate(&run, &["--seed", "7", "--samples", "20", "--words", "200"]);
    let stopped = stopped["samples"].as_array().unwrap();
    assert!(stopped.iter().all(|s| s["ended"] == "eos" && words(s).iter().filter(|w| **w == "<eos>").count() == 1));
    assert!(stopped.iter().all(|sample| words(sample).last() == Some(&"<eos>")));
    let ended = finish(bowline(["generate", "--seed", "7", "--words", "200"]).arg(&run)).success();
    let shown = words(&stopped[0]);
    assert_eq!(ended.stdout, shown[..shown.len() - 1].join(" ") + "\n");
}

#[test]
fn temperature_and_limits_do_what_they_say() {
    let place = Place::new();
    let run = place.trained("run");
    // At 0 each word is the likeliest but for <unk>, whatever the seed.
    let greedy = generate(&run, &["--temperature", "0", "--words", "6", "--through-eos", "--seed", "5"]);
    assert_eq!(generate(&run, &["--top-k", "1", "--words", "6", "--through-eos"])["samples"], greedy["samples"]);
    assert_eq!(generate(&run, &["--top-p", "1e-9", "--words", "6", "--through-eos"])["samples"], greedy["samples"]);
    let mut phrase = String::new();
    for (word, logprob) in words(&greedy["samples"][0]).iter().zip(greedy["samples"][0]["logprobs"].as_array().unwrap())
    {
        let next = finish(bowline(["next", "--json", "-k", "2"]).arg(&run).arg(&phrase)).json();
        let candidates = next["next"].as_array().unwrap();
        let best = candidates.iter().find(|c| c["word"] != "<unk>").unwrap();
        assert_eq!(best["word"], *word);
        assert!((number(&best["probability"]).ln() - number(logprob)).abs() < 1e-6);
        phrase = format!("{phrase} {word}");
    }

    // Shares: <eos> 1/2, the 1/4, cat 1/8, <unk> 1/8.
    let model = made_models::biased(&place.path("biased"));
    let count = |options: &[&str], word: &str| {
        let answer = generate(&model, &[&["--words", "1", "--samples", "4000"], options].concat());
        let samples = answer["samples"].as_array().unwrap();
        samples.iter().filter(|sample| words(sample) == [word]).count() as f64 / 4000.0
    };
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 0.03, "{found} {expected}");
    near(count(&[], "<eos>"), 4.0 / 7.0);
    assert_eq!(count(&[], "<unk>"), 0.0);
    near(count(&["--unk"], "<unk>"), 1.0 / 8.0);
    near(count(&["--temperature", "0.5"], "the"), 4.0 / 21.0);
    near(count(&["--top-k", "2"], "the"), 1.0 / 3.0);
    assert_eq!(count(&["--top-k", "2"], "cat"), 0.0);
    near(count(&["--top-p", "0.6"], "the"), 1.0 / 3.0);

    for (option, value) in [("--temperature", "-1"), ("--temperature", "NaN"), ("--top-p", "0"), ("--words", "0")] {
        let ended = finish(bowline(["generate"]).arg(&model).arg(format!("{option}={value}")));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{option} {value}");
    }
    let ended = finish(bowline(["generate", "--prompt", "zebra", "--words", "1"]).arg(&model)).success();
    assert_eq!(ended.stderr, "`zebra` is not in the model's vocabulary and is read as <unk>\n");
}

/// An untied model of words on a compass: the embedding and the classifier point different ways.
fn compass(dir: &Path) {
    let words = ["<eos>", "north", "south", "east", "northish"];
    let mut params = Params::zeros(&ModelSpec::paper(5, 2, 1, false));
    params.embedding_mut().copy_from_slice(&[1.0, 1.0, 0.0, 2.0, 0.0, -3.0, 1.0, 0.0, 0.1, 1.0]);
    params.classifier_mut().copy_from_slice(&[-1.0, 0.0, 1.0, 0.0, 1.0, 0.1, 0.0, 1.0, 0.0, 0.0]);
    made_models::save(dir, "vd-lstm", &params, words);
}

#[test]
fn neighbours_are_the_nearest_words() {
    let place = Place::new();
    let dir = place.path("compass");
    compass(&dir);
    let ended = finish(bowline(["neighbours", "-k", "3"]).arg(&dir).arg("north")).success();
    assert_eq!(
        ended.stdout,
        format!("northish   0.9950  {}\n<eos>      0.7071  {}\neast       0.0000\n", "#".repeat(30), "#".repeat(21))
    );
    let answer = finish(bowline(["neighbours", "--json", "--classifier"]).arg(&dir).arg("north")).json();
    assert_eq!(answer["vectors"], "classifier");
    let found: Vec<&str> =
        answer["neighbours"].as_array().unwrap().iter().map(|n| n["word"].as_str().unwrap()).collect();
    assert_eq!(found, ["south", "east", "northish", "<eos>"], "and a vector of zeros points nowhere");
    assert_eq!(number(&answer["neighbours"][3]["cosine"]), -1.0);

    let refuse = |word: &str, advice: &str| {
        let problem = format!("DIR/compass/vocab.txt: `{word}` is not among the model's 5 words");
        place.check_refusal(bowline(["neighbours"]).arg(&dir).arg(word), &problem, advice);
    };
    let capital = finish(bowline(["neighbours", "--json"]).arg(&dir).arg("North")).json();
    assert_eq!(capital["word"], "north");
    refuse("noorth", "did you mean `north`?");
    refuse("zebra", "choose one of the words in this file");
    let tied = made_models::uniform(&place.path("tied"));
    let ended = finish(bowline(["neighbours", "--classifier"]).arg(&tied).arg("cat")).success();
    assert_eq!(ended.stderr, "the model is tied: its classifier's vectors are those of the embedding\n");
}

#[test]
fn two_models_are_shown_side_by_side() {
    let place = Place::new();
    let biased = made_models::biased(&place.path("biased"));
    let uniform = made_models::uniform(&place.path("uniform"));
    let mut command = bowline(["compare", "-k", "3"]);
    let ended = finish(command.arg(&biased).arg(&uniform).args(["the cat", "dog"])).success();
    let table = "  vd-lstm          re\n  \
                 <eos>    0.5000  <eos>  0.1250\n  \
                 the      0.2500  <unk>  0.1250\n  \
                 cat      0.1250  the    0.1250\n";
    assert_eq!(ended.stdout, format!("the cat ...\n{table}\ndog ...\n{table}"));
    assert_eq!(
        ended.stderr,
        "`dog` is not in the vocabulary of vd-lstm and is read as <unk>\n\
         `dog` is not in the vocabulary of re and is read as <unk>\n"
    );
    // Each half is what `next` says, and two of a kind are told apart by their folders.
    let run = place.trained("run");
    let mut command = bowline(["compare", "--json", "-k", "5"]);
    let answer = finish(command.arg(&run).arg(&biased).args(["bababa dobaba", "zebra"])).json();
    let next = finish(bowline(["next", "--json", "-k", "5"]).arg(&run).arg("bababa dobaba")).json();
    assert_eq!(answer["phrases"][0]["phrase"], "bababa dobaba");
    assert_eq!(answer["phrases"][0]["predictions"][0]["next"], next["next"]);
    assert_eq!(answer["phrases"][0]["predictions"][1]["unseen"], serde_json::json!(["bababa", "dobaba"]));
    assert_eq!((&answer["models"][0]["model"], &answer["models"][1]["model"]), (&"real".into(), &"vd-lstm".into()));
    let ended = finish(bowline(["compare"]).arg(&uniform).arg(&uniform).arg("a")).success();
    let header = place.plain(ended.stdout.lines().nth(1).unwrap());
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["DIR/uniform", "DIR/uniform"]);
    let ended = finish(bowline(["compare"]).arg(&uniform).arg(&uniform));
    assert_eq!(ended.code, Some(2), "a phrase is needed");
}
