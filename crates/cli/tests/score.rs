//! `bowline score`: its formats, its bits, and what it does in a pipe.

mod common;
mod made_models;

use common::{Ended, Place, bowline, finish, text};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

fn score(model: &Path, file: &Path, format: &str) -> Command {
    let mut command = bowline(["score", "--threads", "1", "--format", format]);
    command.arg(model).arg(file);
    command
}

fn lines(ended: Ended) -> Vec<Value> {
    ended.success().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn the_formats_of_other_tools_are_as_their_definitions_say() {
    let place = Place::new();
    let model = made_models::uniform(&place.path("uniform"));
    let sentences = golden("sentences.txt");
    let printed = |file: &Path, format: &str| {
        let ended = finish(&mut score(&model, file, format)).success();
        assert_eq!(ended.stderr, "", "{format}");
        ended.stdout.replace(&file.display().to_string(), "FILE")
    };
    assert_eq!(printed(&sentences, "srilm"), read(golden("srilm.txt")));
    assert_eq!(printed(&golden("nbest.txt"), "kaldi"), read(golden("kaldi.txt")));
    assert_eq!(printed(&golden("nbest.txt"), "rnnlm"), read(golden("rnnlm.txt")));

    let answers = lines(finish(&mut score(&model, &sentences, "json")));
    let expected = 0.125f64.ln();
    assert_eq!(answers[0]["words"], serde_json::json!(["the", "cat", "sat", "<eos>"]));
    assert_eq!(answers[0]["logprobs"], serde_json::json!(vec![expected; 4]));
    assert_eq!(answers[0]["logprob"], serde_json::json!(4.0 * expected));
    assert_eq!(
        (&answers[1]["words"], &answers[1]["logprobs"]),
        (&serde_json::json!(["<eos>"]), &serde_json::json!([expected]))
    );
    // A word that the model does not have is scored as <unk>, and said to be.
    assert_eq!(answers[2]["words"][1], "dog");
    let unk: Vec<&Value> = answers.iter().map(|answer| &answer["unk"]).collect();
    assert_eq!(unk, [&serde_json::json!([]), &serde_json::json!([]), &serde_json::json!([1])]);
    // The keys come in the order in which they are promised.
    let raw = finish(&mut score(&model, &sentences, "json")).success().stdout;
    assert!(raw.starts_with("{\"words\":[\"the\",\"cat\",\"sat\",\"<eos>\"],\"logprobs\":["), "{raw}");

    // For people: a line for a line, and a summary beside.
    let ended = finish(&mut score(&model, &sentences, "text")).success();
    assert_eq!(
        ended.stdout,
        "   -8.3178  ppl       8.00   the -2.079  cat -2.079  sat -2.079  <eos> -2.079\n   \
         -2.0794  ppl       8.00   <eos> -2.079\n  \
         -14.5561  ppl       8.00   a -2.079  dog (<unk>) -2.079  sat -2.079  on -2.079  the -2.079  mat -2.079  \
         <eos> -2.079\n"
    );
    assert_eq!(
        ended.stderr,
        "3 sentences, 9 words (1 of them read as <unk>), log-probability -24.9533, perplexity 8.000 with sentence ends, \
         state empty at each line\n"
    );
}

/// The same with probabilities that differ from word to word; they are not exact, so numbers are compared as such.
#[test]
fn every_word_gets_its_own_probability() {
    let place = Place::new();
    let model = made_models::biased(&place.path("biased"));
    let file = place.path("in.txt");
    fs::write(&file, "the cat\ndog the the\n").unwrap();
    let printed = finish(&mut score(&model, &file, "srilm")).success().stdout;
    let printed = printed.replace(&file.display().to_string(), "FILE");
    let expected = read(golden("biased-srilm.txt"));
    assert_eq!(printed.lines().count(), expected.lines().count());
    for (printed, expected) in printed.lines().zip(expected.lines()) {
        let (found, wanted): (Vec<&str>, Vec<&str>) = (printed.split(' ').collect(), expected.split(' ').collect());
        assert_eq!(found.len(), wanted.len(), "{printed}");
        for (found, wanted) in found.into_iter().zip(wanted) {
            match (found.parse::<f64>(), wanted.parse::<f64>()) {
                (Ok(found), Ok(wanted)) => assert!((found / wanted - 1.0).abs() < 1e-6 || found == wanted, "{printed}"),
                _ => assert_eq!(found, wanted, "{printed}"),
            }
        }
    }
    fs::write(&file, "x-y-1 the cat\nx-y-2 cat dog\nx-z-1\n").unwrap();
    let kaldi = finish(&mut score(&model, &file, "kaldi")).success().stdout;
    assert_eq!(kaldi, "x-y-1 1.3863 2.0794 0.6931 \nx-y-2 2.0794 2.0794 0.6931 \nx-z-1 0.6931 \n");
    let rnnlm = finish(&mut score(&model, &file, "rnnlm")).success().stdout;
    assert_eq!(rnnlm, "-1.806180\n-2.107210\n-0.301030\n");
}

#[test]
fn batch_order_and_threads_change_no_byte() {
    let place = Place::new();
    let run = place.trained("run");
    // Ragged lines, an empty one among them, and one longer than any window.
    let mut sentences: Vec<String> = text(21, 150, 300).lines().map(str::to_owned).collect();
    sentences[7] = String::new();
    sentences[60] = text(22, 150, 300).split_whitespace().collect::<Vec<_>>().join(" ");
    let file = place.path("in.txt");
    let printed = |lines: &[String], options: &[&str]| {
        fs::write(&file, lines.join("\n") + "\n").unwrap();
        let mut command = bowline(["score", "--format", "json"]);
        finish(command.args(options).arg(&run).arg(&file)).success().stdout
    };
    let expected = printed(&sentences, &["--threads", "1", "--batch", "1"]);
    assert_eq!(expected.lines().count(), 150);
    for options in
        [["--threads", "1", "--batch", "7"], ["--threads", "3", "--batch", "80"], ["--threads", "2", "--batch", "500"]]
    {
        assert_eq!(printed(&sentences, &options), expected, "{options:?}");
    }
    sentences.reverse();
    let backwards = printed(&sentences, &["--threads", "2"]);
    assert_eq!(backwards.lines().rev().collect::<Vec<_>>(), expected.lines().collect::<Vec<_>>());
    // One by one is the same, too.
    let alone = printed(&sentences[89..90], &["--threads", "1"]);
    assert_eq!(alone.trim_end(), backwards.lines().nth(89).unwrap());
    assert!(alone.len() > 10_000, "the long one");
}

#[test]
fn the_formats_agree_and_a_carried_state_is_that_of_eval() {
    let place = Place::new();
    let run = place.trained("run");
    let test = place.path("corpus/test.txt");
    let words = fs::read_to_string(&test).unwrap();
    let list: String = words.lines().enumerate().map(|(i, line)| format!("utt-{i}-1 {line}\n")).collect();
    fs::write(place.path("list.txt"), list).unwrap();
    let run_with = |format: &str, carry: bool| {
        let file = if ["kaldi", "rnnlm"].contains(&format) { place.path("list.txt") } else { test.clone() };
        let mut command = score(&run, &file, format);
        if carry {
            command.arg("--carry");
        }
        finish(&mut command).success().stdout
    };
    let mut sums = Vec::new();
    for carry in [false, true] {
        let json: Vec<Value> =
            run_with("json", carry).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let sum: f64 = json.iter().map(|answer| number(&answer["logprob"])).sum();
        let words: f64 = json.iter().flat_map(|a| a["logprobs"].as_array().unwrap()).map(number).sum();
        assert!((words / sum - 1.0).abs() < 1e-12);
        let kaldi = run_with("kaldi", carry);
        let costs: f64 =
            kaldi.lines().flat_map(|l| l.split_whitespace().skip(1)).map(|x| x.parse::<f64>().unwrap()).sum();
        assert!((-costs / sum - 1.0).abs() < 1e-5, "{costs} {sum}");
        let rnnlm: f64 = run_with("rnnlm", carry).lines().map(|line| line.parse::<f64>().unwrap()).sum();
        assert!((rnnlm * std::f64::consts::LN_10 / sum - 1.0).abs() < 1e-6, "{rnnlm} {sum}");
        let srilm = run_with("srilm", carry);
        let last = srilm.lines().last().unwrap().split_whitespace().nth(3).unwrap().parse::<f64>().unwrap();
        assert!((last * std::f64::consts::LN_10 / sum - 1.0).abs() < 1e-6, "{last} {sum}");
        sums.push(sum);
    }
    assert!((sums[0] / sums[1] - 1.0).abs() > 1e-6, "carrying makes a difference");

    // eval predicts every word after the first: give it the `<eos>` that a score reads before the first sentence.
    fs::write(place.path("stream.txt"), format!("<eos>\n{words}")).unwrap();
    let eval = finish(bowline(["eval", "--json", "--data"]).arg(place.path("stream.txt")).arg(&run)).json();
    assert!((-number(&eval["nll"]) / sums[1] - 1.0).abs() < 1e-12, "{eval} {sums:?}");
}

/// In a list, the state is carried from the first hypothesis of an utterance to the next utterance, not line by line.
#[test]
fn a_list_carries_the_first_hypothesis() {
    let place = Place::new();
    let run = place.trained("run");
    let (a, b, c) = ("bababa dobaba", "fibaba bababa dobaba", "gubaba");
    fs::write(place.path("list.txt"), format!("u-1 {a}\nu-2 {b}\nv-1 {c}\nv-2 {b}\nw-1 {a}\n")).unwrap();
    let list = finish(score(&run, &place.path("list.txt"), "kaldi").arg("--carry")).success().stdout;
    let stream = |lines: &[&str]| {
        let text: String = lines.iter().enumerate().map(|(i, line)| format!("x{i}-1 {line}\n")).collect();
        fs::write(place.path("stream.txt"), text).unwrap();
        let printed = finish(score(&run, &place.path("stream.txt"), "kaldi").arg("--carry")).success().stdout;
        printed.lines().last().unwrap().split_once(' ').unwrap().1.to_owned()
    };
    let expected = [stream(&[a]), stream(&[b]), stream(&[a, c]), stream(&[a, b]), stream(&[a, c, a])];
    let found: Vec<&str> = list.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(found, expected);
    assert_ne!(expected[1], expected[3]);
}

#[test]
fn a_pipe_gets_its_answer_before_it_sends_more() {
    let place = Place::new();
    let model = made_models::uniform(&place.path("uniform"));
    let mut command = bowline(["score", "--format", "rnnlm", "--threads", "2"]);
    let mut child = command.arg(&model).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for (line, expected) in [("u-1 the cat sat", "-3.612360\n"), ("u-2", "-0.903090\n"), ("u-3 a", "-1.806180\n")] {
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert_eq!(answer, expected);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn bad_input_is_named_with_its_line_after_what_came_before_is_answered() {
    let place = Place::new();
    let model = made_models::uniform(&place.path("uniform"));
    let file = place.path("in.txt");
    let check = |bytes: &[u8], format: &str, answered: usize, problem: &str, advice: &str| {
        fs::write(&file, bytes).unwrap();
        let ended = finish(&mut score(&model, &file, format));
        place.check_error(&ended, problem, advice);
        assert_eq!(ended.stdout.lines().count(), answered, "{ended:?}");
    };
    let utf8 = "convert the text to UTF-8, for example with `iconv -f ISO-8859-1 -t UTF-8`";
    check(b"the cat\nthe caf\xE9\nthe\n", "json", 1, "DIR/in.txt:2: not UTF-8: byte 0xE9 at column 8", utf8);
    let text = "give a text file; Kaldi writes archives as text with `ark,t:`";
    check(b"\nthe\nu-1 \0B", "text", 2, "DIR/in.txt:3: byte 0x00 at column 5: this is not text", text);
    let list = "each line of an n-best list is `utterance-number word word ...`";
    check(b"u-1 a\n \n", "kaldi", 1, "DIR/in.txt:2: the line has no utterance id", list);
    let long = vec![b'a'; (1 << 20) + 1];
    check(&long, "json", 0, "DIR/in.txt:1: the line has more than 1048576 bytes", "put one sentence on each line");

    let mut missing = score(&model, &place.path("none.txt"), "json");
    place.check_refusal(&mut missing, "DIR/none.txt: cannot read: No such file or directory (os error 2)", "");

    // Without <unk> there is nothing an unknown word could be.
    let closed = made_models::fixed(&place.path("closed"), &[("<eos>", 0.5), ("the", 0.5)]);
    fs::write(&file, "the the\nthe end\n").unwrap();
    let ended = finish(&mut score(&closed, &file, "srilm"));
    let problem = "DIR/in.txt:2: the word `end` is not among the model's 2 words, and it has no `<unk>`";
    place.check_error(
        &ended,
        problem,
        "use a text of the model's words, or train with `--vocab-size`, which brings `<unk>`",
    );
    assert!(ended.stdout.starts_with("the the\n\tp( the | <s> ) \t= [2gram] 0.5 ["), "{}", ended.stdout);

    // From a pipe, the line is one of standard input.
    let mut command = bowline(["score"]);
    let mut child =
        command.arg(&closed).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"end\n").unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert!(ended.error().starts_with("standard input:1: the word `end`"), "{ended:?}");
}

#[test]
fn several_files_are_read_in_turn_and_nothing_is_nothing() {
    let place = Place::new();
    let model = made_models::uniform(&place.path("uniform"));
    fs::write(place.path("a.txt"), "the\n").unwrap();
    fs::write(place.path("b.txt"), "").unwrap();
    fs::write(place.path("c.txt"), "a mat").unwrap();
    let mut command = bowline(["score", "--format", "srilm"]);
    command.arg(&model).args(["a.txt", "b.txt", "c.txt"].map(|name| place.path(name)));
    let printed = place.plain(&finish(&mut command).success().stdout);
    let sums: Vec<&str> = printed.lines().filter(|line| line.starts_with("file ")).collect();
    let expected = [
        "file DIR/a.txt: 1 sentences, 1 words, 0 OOVs",
        "file DIR/b.txt: 0 sentences, 0 words, 0 OOVs",
        "file DIR/c.txt: 1 sentences, 2 words, 0 OOVs",
    ];
    assert_eq!(sums, expected);
    let ended = finish(&mut score(&model, &place.path("b.txt"), "json")).success();
    assert_eq!(ended.stdout, "");
}
