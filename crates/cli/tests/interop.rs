//! The doors to other tools: ONNX, PyTorch's files, TensorBoard, shells and manuals.

mod common;

use common::{Place, bowline, events, finish};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// The subcommands that the help names, without `help` itself.
fn subcommands(path: &[&str]) -> Vec<String> {
    let help = finish(&mut bowline(path.iter().chain(&["--help"]))).success().stdout;
    let Some((_, commands)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let names = commands.lines().take_while(|line| line.starts_with("  "));
    let names = names.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn completions_know_every_command() {
    let commands = subcommands(&[]);
    for name in ["train", "export", "import", "tensorboard", "completions", "man"] {
        assert!(commands.iter().any(|command| command == name), "{commands:?}");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = finish(&mut bowline(["completions", shell])).success().stdout;
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell} knows no {command}");
        }
        for option in ["second-training", "tensorboard", "vocab-size", "mirror"] {
            assert!(script.contains(option), "{shell} knows no --{option}");
        }
        assert!(script.contains("vd-lstm"), "{shell} knows no values");
    }
    let ended = finish(&mut bowline(["completions", "tcsh"]));
    assert_eq!(ended.code, Some(2));
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let place = Place::new();
    let page = finish(&mut bowline(["man"])).success().stdout;
    assert!(page.contains(".TH bowline 1"), "{page}");
    finish(bowline(["man", "--out"]).arg(place.path("man/man1"))).success();
    let read =
        |name: String| fs::read_to_string(place.path("man/man1").join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(read("bowline.1".to_owned()), page);
    let mut pages = 1;
    for command in subcommands(&[]) {
        assert!(page.contains(&command.replace('-', "\\-")), "the page of the program does not name {command}");
        assert!(read(format!("bowline-{command}.1")).contains(&format!(".TH bowline-{command} 1")));
        pages += 1;
        for below in subcommands(&[&command]) {
            read(format!("bowline-{command}-{below}.1"));
            pages += 1;
        }
    }
    assert!(page.contains("bowline\\-train(1)"), "{page}");
    assert!(read("bowline-train.1".to_owned()).contains("\\-\\-second\\-training"));
    assert_eq!(fs::read_dir(place.path("man/man1")).unwrap().count(), pages, "one for each, and nothing else");
}

#[test]
fn a_model_is_exported_and_comes_back() {
    let place = Place::new();
    let run = place.trained("run");
    // The file itself is read in the library's tests.
    for form in ["step", "sequence"] {
        let out = place.path(&format!("{form}.onnx"));
        let mut command = bowline(["export", "--to", "onnx", "--form", form, "--json", "--out"]);
        let answer = finish(command.arg(&out).arg(&run)).json();
        assert_eq!(answer["form"], form);
        assert_eq!(answer["bytes"], fs::metadata(&out).unwrap().len());
    }
    place.check_refusal(
        bowline(["export", "--to", "onnx", "--out"]).arg(place.path("x.onnx")).arg(place.path("corpus")),
        "DIR/corpus: model: neither `model.safetensors` nor `best/model.safetensors` is in this folder",
        "give the folder of a run (`--out` of `bowline train`) or of a model",
    );
    assert!(!place.path("x.onnx").exists());

    let import = |out: &str| {
        let mut command = bowline(["import", "--model", "real", "--vocab"]);
        command.arg(run.join("best/vocab.txt")).arg(run.join("best/model.safetensors"));
        command.arg("--out").arg(place.path(out));
        command
    };
    let said = finish(&mut import("model")).success().stdout;
    assert!(place.plain(&said).starts_with("DIR/model: real, "), "{said}");
    assert!(place.plain(&said).ends_with("next: bowline next DIR/model \"the beginning of a sentence\"\n"), "{said}");
    for file in ["model.safetensors", "vocab.txt", "config.json"] {
        assert!(fs::read(run.join("best").join(file)).unwrap() == fs::read(place.path("model").join(file)).unwrap());
    }
    let eval = |model: &Path| {
        finish(bowline(["eval", "--json", "--threads", "1", "--data"]).arg(place.path("corpus")).arg(model)).json()
    };
    assert_eq!(eval(&place.path("model")), eval(&run));
    place.check_refusal(
        &mut import("model"),
        "DIR/model: something is already here",
        "an --out that does not exist yet, or an empty folder",
    );
    place.check_refusal(
        import("other").args(["--map", "lstm=rnn"]),
        "setting `map`: `lstm` begins with none of `encoder`, `rnn`, `projection`, `decoder`",
        "`--map rnn=lstm` or `--map encoder.weight=embed`",
    );
    assert!(!place.path("other").exists());
}

/// The one event file of a folder that is not empty; at most one more is there.
/// What sherpa-onnx makes of the files is tested with itself, in Python.
#[test]
fn the_tokens_of_a_recogniser_keep_their_ids() {
    let place = Place::new();
    let train = |tokens: &str, out: &str| {
        fs::write(place.path("tokens.txt"), tokens).unwrap();
        let mut command = bowline(["train", "--model", "re", "--epochs", "1", "--threads", "1", "--set", "hidden=8"]);
        command.arg("--data").arg(place.path("corpus")).arg("--vocab").arg(place.path("tokens.txt"));
        command.arg("--out").arg(place.path(out));
        command
    };
    let words: HashSet<String> =
        fs::read_to_string(place.path("corpus/train.txt")).unwrap().split_whitespace().map(str::to_owned).collect();
    let mut words: Vec<String> = words.into_iter().filter(|word| word != "<unk>").collect();
    words.sort();
    let tokens = [vec!["<blk>".to_owned(), "<sos/eos>".to_owned(), "<unk>".to_owned()], words].concat();
    let text: String = tokens.iter().enumerate().map(|(id, token)| format!("{token} {id}\n")).collect();
    finish(&mut train(&text, "run")).success();
    let kept = fs::read_to_string(place.path("run/best/vocab.txt")).unwrap();
    assert_eq!(kept.replace("<eos>", "<sos/eos>"), tokens.join("\n") + "\n");

    let export = |options: &[&str]| {
        let mut command = bowline(["export", "--out"]);
        command.arg(place.path("lm.onnx")).arg(place.path("run")).args(options);
        command
    };
    for (options, form) in
        [(&["--to", "sherpa-onnx"][..], "hypotheses"), (&["--to=sherpa-onnx", "--streaming"], "token")]
    {
        let answer = finish(export(options).arg("--json")).json();
        assert_eq!(
            (&answer["form"], &answer["bytes"]),
            (&form.into(), &place.path("lm.onnx").metadata().unwrap().len().into())
        );
    }
    for (options, option, only) in [
        (["--to=onnx", "--streaming"], "--streaming", "sherpa-onnx has recognisers that stream"),
        (["--to=sherpa-onnx", "--form=step"], "--form", "ONNX has forms"),
    ] {
        place.check_refusal(&mut export(&options), &format!("`{option}`: only {only}"), "leave it out");
    }
    let ids = "a token and its id on each line, from 0 without a gap, as in the recogniser's tokens.txt";
    for (tokens, problem, advice) in [
        ("a 0\nb 2\n", "2: the id of `b` is 2, but the next one is 1", ids),
        ("a 0\nb 0\n", "2: the id 0 of `b` is there twice, first for `a`", ids),
        ("a 0\nb 1\na 2\n", "3: the word `a` is there twice, first on line 1", "each token once"),
        ("a\nb\na\n", "3: the word `a` is there twice, first on line 1", "one word a line, each once"),
    ] {
        place.check_error(&finish(&mut train(tokens, "other")), &format!("DIR/tokens.txt:{problem}"), advice);
        assert!(!place.path("other").exists());
    }
}

fn event_file(folder: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let full: Vec<_> = files.iter().filter(|file| fs::metadata(file).unwrap().len() > 0).collect();
    assert!(full.len() == 1 && files.len() <= 2, "{files:?}");
    full[0].clone()
}

/// The steps of the records of an event file: field 2 of each message, where it has one.
fn steps(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).unwrap();
    let (mut at, mut steps) = (0, Vec::new());
    while at < bytes.len() {
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let message = &bytes[at + 12..at + 12 + length];
        // Field 1 is the time, nine bytes.
        if message[9] == 0x10 {
            let bits = message[10..].iter().enumerate();
            let last = 1 + message[10..].iter().position(|byte| byte & 0x80 == 0).unwrap();
            steps.push(bits.take(last).map(|(i, byte)| u64::from(byte & 0x7f) << (7 * i)).sum());
        }
        at += 16 + length;
    }
    steps
}

#[test]
fn the_curves_of_a_killed_and_resumed_run_have_no_step_twice() {
    let place = Place::new();
    let mut killed = false;
    // A run may be over before it can be killed; then the next one is killed earlier.
    for attempt in 0..20u32 {
        let run = place.path("run");
        let often = ["--epochs", "6", "--tensorboard", "--set", "checkpoint.every_seconds=0.05"];
        let mut command = place.train("run");
        let mut child = command.args(often).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let progressed = || fs::read_to_string(run.join("events.jsonl")).is_ok_and(|log| log.contains("\"epoch\":2"));
        while !progressed() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(u64::from(20 / (attempt + 1))));
        child.kill().unwrap();
        if child.wait().unwrap().code().is_none() {
            killed = true;
            break;
        }
        fs::remove_dir_all(&run).unwrap();
    }
    assert!(killed, "the run was always over before it could be killed");
    finish(&mut place.resume("run")).success();
    let run = place.path("run");
    let log = events(&run);
    assert!(log.iter().any(|event| event["event"] == "resume"));

    let file = event_file(&run.join("tensorboard"));
    let mut found = steps(&file);
    // The test perplexity comes at the last step, after that of the epoch.
    let last = found.pop().unwrap();
    assert_eq!(found.last(), Some(&last));
    assert_eq!(found.iter().collect::<HashSet<_>>().len(), found.len(), "{found:?}");
    let expected: Vec<u64> = log
        .iter()
        .filter(|event| event["event"] == "progress" || event["event"] == "epoch")
        .map(|event| event["step"].as_u64().unwrap())
        .collect();
    assert_eq!(found, expected);

    // After the fact, the same curves, and the run is left alone.
    let before = common::snapshot(&run);
    finish(bowline(["tensorboard", "--out"]).arg(place.path("board")).arg(&run)).success();
    assert_eq!(fs::read(event_file(&place.path("board/run"))).unwrap(), fs::read(&file).unwrap());
    assert_eq!(common::snapshot(&run), before);
    place.check_refusal(
        bowline(["tensorboard", "--out"]).arg(place.path("board")).arg(&run).arg(&run),
        "DIR/run: another of the runs is called `run` too",
        "one call for each, with another --out",
    );
}

#[test]
fn curves_can_be_asked_for_later_and_are_not_there_unasked() {
    let place = Place::new();
    let run = place.trained("run");
    assert!(!run.join("tensorboard").exists());
    finish(place.resume("run").arg("--tensorboard")).success();
    let file = event_file(&run.join("tensorboard"));
    let found = steps(&file);
    assert!(found.len() > 10, "{found:?}");
    // The folder's being there is enough from now on, and old files do not pile up.
    let mut before = file;
    for _ in 0..3 {
        finish(&mut place.resume("run")).success();
        let later = event_file(&run.join("tensorboard"));
        assert!(later > before, "a TensorBoard that looks on takes the files in the order of their names");
        assert_eq!(steps(&later), found);
        before = later;
    }
}

/// What a kill before there was a run leaves behind is no hindrance.
#[test]
fn an_empty_folder_for_curves_is_no_run() {
    let place = Place::new();
    fs::create_dir_all(place.path("run/tensorboard")).unwrap();
    finish(place.train("run").args(["--epochs", "1", "--tensorboard"])).success();
    event_file(&place.path("run/tensorboard"));

    fs::create_dir_all(place.path("full/tensorboard")).unwrap();
    fs::write(place.path("full/tensorboard/mine"), "").unwrap();
    place.check_refusal(
        place.train("full").args(["--epochs", "1", "--tensorboard"]),
        "DIR/full: the folder is not empty, and it is not a run",
        "an --out that does not exist yet, or an empty folder",
    );
}
