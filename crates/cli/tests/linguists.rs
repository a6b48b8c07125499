//! What linguists ask: `score --format surprisal` and `pairs`.

mod common;
mod made_models;

use common::{Place, bowline, finish};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

fn surprisal(model: &Path, file: &Path) -> Command {
    let mut command = bowline(["score", "--threads", "1", "--format", "surprisal"]);
    command.arg(model).arg(file);
    command
}

fn pairs(model: &Path, file: &Path) -> Command {
    let mut command = bowline(["pairs", "--threads", "1"]);
    command.arg(model).arg(file);
    command
}

#[test]
fn surprisal_is_a_table_with_a_row_for_each_word() {
    let place = Place::new();
    // Eight words, all equally likely: three bits each, and nothing is ever learned.
    let model = made_models::uniform(&place.path("uniform"));
    let (one, two) = (place.path("one.txt"), place.path("two.txt"));
    fs::write(&one, "the cat\n").unwrap();
    fs::write(&two, "dog\n").unwrap();
    let row = |sentence, position, word| format!("{sentence}\t{position}\t{word}\t3.000000\t3.000000\t0.000000\t1\n");
    let expected = ["sentence\tposition\tword\tsurprisal\tentropy\tentropy_reduction\trank\n".to_owned()]
        .into_iter()
        .chain(
            [(1, 1, "the"), (1, 2, "cat"), (1, 3, "<eos>"), (2, 1, "dog"), (2, 2, "<eos>")]
                .map(|(s, p, w)| row(s, p, w)),
        )
        .collect::<String>();
    let ended = finish(surprisal(&model, &one).arg(&two)).success();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (expected.as_str(), ""));
    assert_eq!(finish(surprisal(&model, &one).arg(&two).arg("--carry")).success().stdout, expected);
}

#[test]
fn surprisal_agrees_with_the_scores_and_the_likeliest_words() {
    let place = Place::new();
    let run = place.trained("run");
    let file = place.path("corpus/test.txt");
    let printed = finish(&mut surprisal(&run, &file)).success().stdout;
    let rows: Vec<Vec<&str>> = printed.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let scores = finish(bowline(["score", "--threads", "1", "--json"]).arg(&run).arg(&file)).success().stdout;
    let scores: Vec<Value> = scores.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let bits = |row: &[&str], column: usize| row[column].parse::<f64>().unwrap();
    let mut rest = rows.iter();
    for (i, answer) in scores.iter().enumerate() {
        let words = answer["words"].as_array().unwrap();
        for (position, (word, logprob)) in words.iter().zip(answer["logprobs"].as_array().unwrap()).enumerate() {
            let row = rest.next().unwrap();
            assert_eq!(row[..3], [&(i + 1).to_string(), &(position + 1).to_string(), word.as_str().unwrap()]);
            let expected = -logprob.as_f64().unwrap() / std::f64::consts::LN_2;
            assert!((bits(row, 3) - expected).abs() < 1e-6, "{row:?}");
            assert!(bits(row, 4) > 0.0 && bits(row, 4) < 300f64.log2() + 0.1, "{row:?}");
        }
    }
    assert!(rest.next().is_none());
    // Reductions are differences of entropies.
    for pair in rows.windows(2).filter(|pair| pair[0][0] == pair[1][0]) {
        assert!((bits(&pair[0], 4) - bits(&pair[1], 4) - bits(&pair[0], 5)).abs() < 3e-6, "{pair:?}");
    }
    // The first word's rank is its place in what `next` lists.
    let next = finish(bowline(["next", "--threads", "1", "--json", "-k", "1000"]).arg(&run)).json();
    let listed = next["next"].as_array().unwrap();
    for row in rows.iter().filter(|row| row[1] == "1") {
        let place = listed.iter().position(|candidate| candidate["word"] == row[2]).unwrap();
        assert_eq!(
            listed[place]["probability"],
            listed[row[6].parse::<usize>().unwrap() - 1]["probability"],
            "{row:?}"
        );
    }
}

#[test]
fn pairs_are_judged_by_category() {
    let place = Place::new();
    let model = made_models::biased(&place.path("biased"));
    // `the` is likelier than `cat` wherever it stands; `dog` is unknown, and so is `bird`.
    let file = place.path("pairs.tsv");
    fs::write(&file, "good\tbad\tcategory\nthe\tcat\teasy\ncat\tthe\thard\n\ndog\tbird\ttie\nthe dog\tcat dog\teasy\n")
        .unwrap();
    let answer = finish(pairs(&model, &file).arg("--json").arg("--each")).json();
    let line = |category: &str, sums: [usize; 4], accuracy: Value, known: Value| {
        json!({"category": category, "pairs": sums[0], "right": sums[1], "ties": sums[2], "unknown": sums[3],
            "accuracy": accuracy, "accuracy_known": known})
    };
    assert_eq!(
        answer["categories"],
        json!([
            line("easy", [2, 2, 0, 1], json!(1.0), json!(1.0)),
            line("hard", [1, 0, 0, 0], json!(0.0), json!(0.0)),
            line("tie", [1, 0, 1, 1], json!(0.0), Value::Null),
        ])
    );
    assert_eq!(
        (&answer["pairs"], &answer["accuracy"], &answer["accuracy_known"]),
        (&json!(4), &json!(0.5), &json!(0.5))
    );
    let each = answer["each"].as_array().unwrap();
    assert_eq!(each.len(), 4);
    let score = |text: &str| {
        fs::write(place.path("one.txt"), text).unwrap();
        let mut command = bowline(["score", "--threads", "1", "--json"]);
        finish(command.arg(&model).arg(place.path("one.txt"))).json()["logprob"].clone()
    };
    assert_eq!((&each[3]["good"], &each[3]["bad"]), (&score("the dog\n"), &score("cat dog\n")));

    // BLiMP's layout says the same, and any of its keys may be the category.
    let blimp = place.path("blimp.jsonl");
    let lines =
        [("the", "cat", "easy"), ("cat", "the", "hard"), ("dog", "bird", "tie"), ("the dog", "cat dog", "easy")].map(
            |(good, bad, uid)| {
                json!({"sentence_good": good, "sentence_bad": bad, "UID": uid, "field": "all"}).to_string()
            },
        );
    fs::write(&blimp, lines.join("\n")).unwrap();
    let same = finish(pairs(&model, &blimp).arg("--json").arg("--each")).json();
    assert_eq!(same, answer);
    let by_field = finish(pairs(&model, &blimp).args(["--json", "--by", "field"])).json();
    assert_eq!(by_field["categories"].as_array().unwrap().len(), 1);

    let printed = finish(&mut pairs(&model, &file)).success().stdout;
    assert_eq!(
        printed,
        "category     pairs     right   unknown  right if known\n\
         easy             2    100.0%         1          100.0%\n\
         hard             1      0.0%         0            0.0%\n\
         tie              1      0.0%         1               -\n\
         all              4     50.0%         2           50.0%\n"
    );
}

#[test]
fn pairs_that_are_none_are_named_with_their_line() {
    let place = Place::new();
    let model = made_models::uniform(&place.path("uniform"));
    let file = place.path("pairs.tsv");
    let layout = "a pair a line: JSON with `sentence_good` and `sentence_bad`, or `good<TAB>bad<TAB>category`";
    for (text, problem) in [
        ("the\tcat\nthe cat\n", "DIR/pairs.tsv:2: there are 1 fields between tabs, not 2 or 3"),
        ("{\"sentence_good\": \"the\"}\n", "DIR/pairs.tsv:1: there is no `sentence_bad`"),
        ("the\t\n", "DIR/pairs.tsv:1: the bad sentence is empty"),
    ] {
        fs::write(&file, text).unwrap();
        place.check_refusal(&mut pairs(&model, &file), problem, layout);
    }
    fs::write(&file, "\n").unwrap();
    place.check_refusal(
        &mut pairs(&model, &file),
        "DIR/pairs.tsv: there is no pair in it",
        "a file with a pair a line: BLiMP's JSON, or `good<TAB>bad<TAB>category`",
    );
}
