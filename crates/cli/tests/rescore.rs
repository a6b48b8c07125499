//! `bowline rescore`: which hypothesis wins, and why.

mod common;
mod made_models;

use common::{Place, bowline, finish};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// `<eos>` 1/2, `the` 1/4, `cat` 1/8, `<unk>` 1/8: a word costs 1.3863 or 2.0794, the end 0.6931.
const LIST: &str = "utt-a-1 cat cat\nutt-a-2 the cat\nutt-a-3 the\nutt-b-1 the cat\nutt-b-2 dog\nutt-c-1\n";

fn rescore(model: &Path, list: &Path) -> Command {
    let mut command = bowline(["rescore", "--threads", "1"]);
    command.arg(model).arg(list);
    command
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
}

#[test]
fn the_cheapest_hypothesis_wins_and_weights_count() {
    let place = Place::new();
    let model = made_models::biased(&place.path("model"));
    let list = place.path("list.txt");
    fs::write(&list, LIST).unwrap();
    // The model alone likes short ones: the, dog, nothing.
    let ended = finish(&mut rescore(&model, &list)).success();
    assert_eq!(ended.stdout, "utt-a the\nutt-b dog\nutt-c\n");
    assert_eq!(ended.stderr, "3 utterances, 6 hypotheses; the best changed for 2\n");

    // Costs by hand: utt-a-1 4.852 utt-a-2 4.159 utt-a-3 2.079, and an old model that likes the first very much.
    let old = place.path("old");
    fs::write(&old, "utt-a-1 1\nutt-a-2 3\nutt-a-3 20\nutt-b-1 1\nutt-b-2 1\nutt-c-1 0\nutt-d-1 5\n").unwrap();
    let with = |options: &[&str]| {
        let ended = finish(rescore(&model, &list).arg("--scores").arg(&old).arg("--json").args(options)).success();
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let (ln2, half) = (2f64.ln(), with(&["--lm-weight", "0.5"]));
    assert_eq!((&half[0]["utterance"], &half[0]["best"]), (&"utt-a".into(), &0.into()));
    let hypotheses = half[0]["hypotheses"].as_array().unwrap();
    for (hypothesis, (model, old)) in hypotheses.iter().zip([(7.0 * ln2, 1.0), (6.0 * ln2, 3.0), (3.0 * ln2, 20.0)]) {
        close(number(&hypothesis["model"]), model);
        close(number(&hypothesis["language"]), 0.5 * model + 0.5 * old);
        close(number(&hypothesis["cost"]), 0.5 * model + 0.5 * old);
    }
    assert_eq!(hypotheses[1]["words"], serde_json::json!(["the", "cat"]));
    // Kaldi's weight is the usual one, and 1 is the model alone.
    close(number(&with(&[])[0]["hypotheses"][2]["language"]), 0.8 * 3.0 * ln2 + 0.2 * 20.0);
    assert_eq!(with(&["--lm-weight", "1"])[0]["best"], 2);
    assert_eq!(with(&["--lm-weight", "0"])[1]["best"], 0, "of equals, the first");
}

#[test]
fn a_folder_of_kaldi_s_archives_is_taken_as_a_whole() {
    let place = Place::new();
    let model = made_models::biased(&place.path("model"));
    let folder = place.path("archives.1");
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, costs: [f64; 6]| {
        let keys = LIST.lines().map(|line| line.split(' ').next().unwrap());
        let text: String = keys.zip(costs).map(|(key, cost)| format!("{key} {cost}\n")).collect();
        fs::write(folder.join(name), text).unwrap();
    };
    fs::write(folder.join("words_text"), LIST).unwrap();
    write("lmwt.nolm", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    write("lmwt.withlm", [3.0, 4.5, 6.0, 7.0, 8.0, 6.5]);
    write("acwt", [-100.0, -130.0, -110.0, -50.0, -20.0, -1.0]);
    let out = place.path("lmwt.interp");
    let answer = |options: &[&str]| {
        let mut command = rescore(&model, &folder);
        command.args(["--json", "--unk-penalty", "0"]);
        let ended = finish(command.arg("--scores-out").arg(&out).args(options)).success();
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let ln2 = 2f64.ln();
    let model_costs = [7.0, 6.0, 3.0, 6.0, 4.0, 1.0].map(|halves| halves * ln2);
    // graph + 0.8 model + 0.2 (with - without), and a tenth of the acoustic cost for the choice.
    let graph = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let language = |i: usize| graph[i] + 0.8 * model_costs[i] + 0.2 * [2.0, 2.5, 3.0, 3.0, 3.0, 0.5][i];
    let all = answer(&[]);
    let hypotheses: Vec<&Value> = all.iter().flat_map(|u| u["hypotheses"].as_array().unwrap()).collect();
    for (i, hypothesis) in hypotheses.iter().enumerate() {
        close(number(&hypothesis["language"]), language(i));
        close(number(&hypothesis["cost"]), language(i) + 0.1 * [-100.0, -130.0, -110.0, -50.0, -20.0, -1.0][i]);
    }
    let best = |all: &[Value]| all.iter().map(|u| u["best"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(best(&all), [1, 0, 0]);
    assert_eq!(best(&answer(&["--acoustic-scale", "0"])), [2, 1, 0]);
    // What goes back into a lattice has no acoustic part.
    let written = fs::read_to_string(&out).unwrap();
    for (i, line) in written.lines().enumerate() {
        let (key, cost) = line.split_once(' ').unwrap();
        assert_eq!(key, hypotheses[i]["key"]);
        close(cost.parse().unwrap(), language(i));
    }
    assert_eq!(written.lines().count(), 6);
    // lmwt.lmonly, where it is there, is the old language model's cost itself.
    write("lmwt.lmonly", [0.0; 6]);
    close(number(&answer(&[])[0]["hypotheses"][0]["language"]), 1.0 + 0.8 * model_costs[0]);
}

#[test]
fn the_state_may_be_carried_from_best_to_best() {
    let place = Place::new();
    let run = place.trained("run");
    let list = place.path("list.txt");
    let (a, b, c) = ("kababa lobaba mibaba", "bababa", "fibaba dobaba");
    fs::write(&list, format!("u-1 {a}\nu-2 {b}\nv-1 {c}\nv-2 {a}\n")).unwrap();
    let costs = |options: &[&str]| {
        let ended = finish(rescore(&run, &list).arg("--json").args(options)).success();
        let all: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(all[0]["best"], 1, "the short and frequent one");
        all.iter()
            .flat_map(|u| u["hypotheses"].as_array().unwrap().clone())
            .map(|h| number(&h["model"]))
            .collect::<Vec<_>>()
    };
    let stream = |lines: &[&str]| {
        fs::write(place.path("in.txt"), lines.join("\n") + "\n").unwrap();
        let mut command = bowline(["score", "--carry", "--format", "json"]);
        let ended = finish(command.arg(&run).arg(place.path("in.txt"))).success();
        -number(&serde_json::from_str::<Value>(ended.stdout.lines().last().unwrap()).unwrap()["logprob"])
    };
    let alone = costs(&[]);
    assert_eq!(alone, [stream(&[a]), stream(&[b]), stream(&[c]), stream(&[a])]);
    let carried = costs(&["--carry"]);
    assert_eq!(carried, [stream(&[a]), stream(&[b]), stream(&[b, c]), stream(&[b, a])]);
    assert_ne!(alone[2], carried[2]);
}

#[test]
fn what_does_not_fit_together_is_named() {
    let place = Place::new();
    let model = made_models::biased(&place.path("model"));
    let (list, scores) = (place.path("list.txt"), place.path("scores"));
    let check = |words: &str, costs: &str, problem: &str, advice: &str| {
        fs::write(&list, words).unwrap();
        fs::write(&scores, costs).unwrap();
        let ended = finish(rescore(&model, &list).arg("--scores").arg(&scores));
        place.check_error(&ended, problem, advice);
    };
    let two_fields = "each line is the key of a hypothesis and a number, as in `utt-1 42.5`";
    check("u-1 a\n", "u-1\n", "DIR/scores:1: the line does not have two fields", two_fields);
    check("u-1 a\n", "u-1 1 2\n", "DIR/scores:1: the line does not have two fields", two_fields);
    check("u-1 a\n", "u-1 x\n", "DIR/scores:1: `x` is not a number", two_fields);
    check("u-1 a\n", "u-1 NaN\n", "DIR/scores:1: the cost `NaN` is not finite", two_fields);
    check("u-1 a\n", "u-1 1\nu-1 2\n", "DIR/scores:2: the key `u-1` is there twice", two_fields);
    let same = "give scores that were made from the same n-best list";
    check("u-1 a\nu-2 b\n", "u-1 1\n", "DIR/scores: there is no cost for the hypothesis `u-2`", same);
    let sort = "sort the list by its keys";
    let costs = "u-1 1\nu-2 1\nv-1 1\n";
    check("u-1 a\nv-1 b\nu-2 a\n", costs, "DIR/list.txt:3: the hypotheses of `u` do not stand together", sort);
    let list_line = "each line of an n-best list is `utterance-number word word ...`";
    check("u-1 a\n\n", costs, "DIR/list.txt:2: the line has no utterance id", list_line);

    fs::write(&list, LIST).unwrap();
    place.check_refusal(
        rescore(&model, &list).args(["--lm-weight", "0.5"]),
        "--lm-weight: there are no old scores to interpolate with",
        "give them with --scores FILE",
    );
    let folder = place.path("archives.1");
    fs::create_dir(&folder).unwrap();
    let separate = "give the folder of an n-best list in Kaldi's separate-archive form";
    place.check_refusal(&mut rescore(&model, &folder), "DIR/archives.1: there is no file words_text", separate);
    fs::write(folder.join("words"), "u-1 12 13\n").unwrap();
    let int2sym = "utils/int2sym.pl -f 2- words.txt < words > words_text";
    let problem = "DIR/archives.1: words_text is missing, and words has numbers";
    place.check_refusal(&mut rescore(&model, &folder), problem, int2sym);
    for (option, value) in [("--lm-weight", "1.5"), ("--acoustic-scale", "-1"), ("--lm-weight", "NaN")] {
        let ended = finish(rescore(&model, &list).arg(format!("{option}={value}")));
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("is needed"), "{ended:?}");
    }
    // An empty list is no error, and a failed one leaves no file.
    fs::write(&list, "").unwrap();
    assert_eq!(finish(&mut rescore(&model, &list)).success().stdout, "");
    fs::write(&list, "u-1 a\n\n").unwrap();
    assert_eq!(finish(rescore(&model, &list).arg("--scores-out").arg(place.path("out"))).code, Some(1));
    assert!(!place.path("out").exists());
}
