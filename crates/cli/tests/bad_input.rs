//! Every bad input gets a message that says what is wrong with which file or setting and what to do, and never a panic.

mod common;

use bowline_kernels::{Isa, Precision};
use common::{Place, bowline, change, finish, snapshot};
use std::fs;

/// All settings.
const NAMES: &str = "activity.ar, activity.tar, augment.begin, augment.beta, augment.form, augment.gamma, \
    augment.gradient, augment.loss, augment.target, augment.tau, augment.teachers, \
    augment.teachers_sha256, average, batch, checkpoint.every_seconds, classifier_init, clip, \
    data.extend, data.ids, data.min_count, data.source, data.tokenize, data.train_start, data.train_words, data.valid_words, \
    data.vocab_size, data.vocabulary, decay, decay_after, epochs, finish.predictor, finish.seconds, \
    hidden, init, keep, layers, learning_rate, loss.sampled, masks.between, masks.each_step, masks.input, \
    masks.output, masks.per_gate, masks.projection, masks.state, masks.weights, masks.word, model, \
    network.activation, network.bias, network.characters.highways, network.characters.length, \
    network.characters.maps, network.characters.symbols, network.characters.width, network.classes, network.context, \
    network.coupled, network.depth, network.direct, network.embedding, \
    network.pointer, network.projection, network.projection_activation, network.projection_bias, \
    network.rank, network.rounds, network.softmaxes, network.sum_layers, network.sum_product, network.tied, \
    network.topics, network.unit, network.widths, optimizer.beta1, optimizer.beta2, optimizer.decoupled, \
    optimizer.epsilon, optimizer.kind, optimizer.trigger, patience, precision, schedule.at, \
    schedule.constant, schedule.factor, schedule.gain, schedule.kind, schedule.patience, schedule.warm_up, \
    second_training_epochs, seed, select, shards, size, spare_vectors, start.biases, start.fan_in, \
    start.forget_bias, start.model, start.model_sha256, \
    start.transform_bias, streams.offset, streams.random_length, streams.reset, \
    topics.count, topics.sentences, topics.sharpness, topics.shrinkage, topics.smoothing, topics.sweeps, topics.window, \
    unit_vectors, unroll, validation_streams, weight_decay";

#[test]
fn settings() {
    let place = Place::new();
    let check = |arg: &[&str], problem: &str, advice: &str| {
        let named = ["--model", "--budget"].iter().any(|option| arg.contains(option));
        let model: &[&str] = if named { &[] } else { &["--model", "real"] };
        place.check_refusal(place.train("run").args(model).args(arg), problem, advice);
        assert!(!place.path("run").exists(), "nothing is made for a run that cannot be");
    };
    check(
        &["--set", "learnig_rate=1"],
        "setting `learnig_rate`: there is no such setting",
        &format!("`learning_rate`, the closest of: {NAMES}"),
    );
    check(
        &["--set", "tau=1"],
        "setting `tau`: there is no such setting",
        &format!("`augment.tau`, the closest of: {NAMES}"),
    );
    check(&["--set", "keep"], "setting `keep`: there is no value", "`--set keep=VALUE`");
    check(&["--set", "keep=0"], "setting `keep`: 0 is impossible", "a value above 0, up to 1 (1 drops nothing)");
    check(&["--set", "keep=nan"], "setting `keep`: NaN is impossible", "a value above 0, up to 1 (1 drops nothing)");
    check(&["--set", "batch=0"], "setting `batch`: 0 is impossible", "a value from 1 to 65536");
    check(
        &["--set", "batch=-1"],
        "setting `batch`: `-1`: invalid value: integer `-1`, expected usize",
        "a value like the present one, `batch = 4`",
    );
    check(
        &["--set", "batch=many"],
        "setting `batch`: `many` is not a whole number",
        "a value like the present one, `batch=4`",
    );
    check(&["--set", "learning_rate=inf"], "setting `learning_rate`: inf is impossible", "a value above 0");
    check(
        &["--set", "augment.gradient=maybe"],
        "setting `augment.gradient`: `maybe`: unknown variant `maybe`, expected `flow` or `stop`",
        "a value like the present one, `gradient = \"flow\"`",
    );
    check(
        &["--set", "model=lstm"],
        "setting `model`: `lstm` is none of vd-lstm, al, re, real",
        "another recipe by `--model`",
    );
    check(
        &["--set", "data.tokenize=perhaps"],
        "setting `data.tokenize`: `perhaps` is not true or false",
        "a value like the present one, `data.tokenize=false`",
    );
    check(
        &["--set", "version=2"],
        "setting `version`: there is no such setting",
        &format!("`optimizer.epsilon`, the closest of: {NAMES}"),
    );
    check(
        &["--set", "precision=f16"],
        "setting `precision`: `f16`: unknown variant `f16`, expected one of `f32`, `bf16`, `bf16-emulated`",
        "a value like the present one, `precision = \"f32\"`",
    );
    if !Precision::Bf16.available(Isa::detect()) {
        check(
            &["--precision", "bf16"],
            "setting `precision`: this CPU has no instruction for bf16 (avx512_bf16)",
            "`precision=f32`, or `precision=bf16-emulated`, which rounds in the same way on any CPU but is slower than f32",
        );
    }
    check(
        &["--set", "augment.begin=second"],
        "setting `augment.begin`: there is no second training to begin with",
        "`second_training_epochs=N`, or `augment.begin=first`",
    );
    check(&["--epochs", "0"], "setting `epochs`: 0 is impossible", "a value of at least 1");
    check(&["--set", "average=1"], "setting `average`: 1 is impossible", "a value from 0 (no mean) to below 1");
    check(
        &["--set", "weight_decay=0.5", "--set", "learning_rate=2"],
        "setting `weight_decay`: 0.5 is impossible",
        "a value from 0 to below 0.5 (1 / learning_rate)",
    );
    check(
        &["--vocab-size", "2"],
        "setting `data.vocab_size`: 2 is impossible",
        "a value of at least 3, or 0 to keep all words",
    );

    // What the command line itself refuses has clap's words and exit code.
    let ended = finish(place.train("run").args(["--seed", "9223372036854775808", "--set", "keep=0.5"]));
    assert_eq!(ended.code, Some(2));
    assert_eq!(
        ended.stderr.lines().next().unwrap(),
        "error: invalid value '9223372036854775808' for '--seed <SEED>': \
         9223372036854775808 is not in 0..=9223372036854775807"
    );
}

#[test]
fn folders() {
    let place = Place::new();
    place.trained("run");
    let before = snapshot(&place.path("run"));
    place.check_refusal(
        &mut place.train("run"),
        "DIR/run: this folder already has a run",
        "`bowline resume DIR/run` to continue it, or another --out",
    );
    assert_eq!(snapshot(&place.path("run")), before);

    fs::create_dir(place.path("photos")).unwrap();
    fs::write(place.path("photos/cat.png"), "meow").unwrap();
    place.check_refusal(
        &mut place.train("photos"),
        "DIR/photos: the folder is not empty, and it is not a run",
        "an --out that does not exist yet, or an empty folder",
    );
    place.check_refusal(
        &mut place.train("photos/cat.png"),
        "DIR/photos/cat.png/checkpoints: cannot create the folder: Not a directory (os error 20)",
        "",
    );
    place.check_refusal(
        &mut place.resume("photos"),
        "DIR/photos: this folder has no run",
        "the folder that was given to `bowline train --out` (it has a config.toml)",
    );
    place.check_refusal(
        &mut place.resume("nowhere"),
        "DIR/nowhere: there is no such folder",
        "the folder that was given to `bowline train --out` (it has a config.toml)",
    );
    assert_eq!(snapshot(&place.path("photos")), [(place.path("photos/cat.png"), b"meow".to_vec())]);
}

const PUT_BACK: &str = "restore the file as it was when the run began; settings are changed with `bowline train --set`";

#[test]
fn a_damaged_config() {
    let place = Place::new();
    let config = place.trained("run").join("config.toml");
    let whole = fs::read_to_string(&config).unwrap();
    let check = |damaged: &[u8], problem: &str, advice: &str| {
        fs::write(&config, damaged).unwrap();
        place.check_refusal(&mut place.resume("run"), problem, advice);
    };
    check(
        whole.replace("\nhidden = 24", "\nhidden = \"many\"").as_bytes(),
        "DIR/run/config.toml: line 5: invalid type: string \"many\", expected usize",
        PUT_BACK,
    );
    check(
        whole.replace("\nhidden = 24", "\nhidden = ").as_bytes(),
        "DIR/run/config.toml: line 5: string values must be quoted, expected literal string",
        PUT_BACK,
    );
    check(
        whole.replace("\nhidden = 24", "\nhidden = 0").as_bytes(),
        "DIR/run/config.toml: setting `hidden`: 0 is impossible; possible is a value from 1 to 65536",
        PUT_BACK,
    );
    check(
        whole.replace("version = 2", "version = 3").as_bytes(),
        "DIR/run/config.toml: setting `version`: 3 is impossible; possible is a value from 1 to 2, or another version of \
         bowline",
        PUT_BACK,
    );
    check(&whole.as_bytes()[..30], "DIR/run/config.toml: line 3: key with no value, expected `=`", PUT_BACK);
    check(b"", "DIR/run/config.toml: line 1: missing field `version`", PUT_BACK);
    check(b"version = 1\nmodel = \"\xff\"\n", "DIR/run/config.toml: line 2: it is not UTF-8", PUT_BACK);
    // Settings that do not belong to the checkpoints.
    check(
        whole.replace("\nhidden = 24", "\nhidden = 25").as_bytes(),
        "DIR/run/config.toml: the settings were edited: hidden is 25 and was 24",
        "restore the original settings, then `bowline branch DIR/run --out ANOTHER --set hidden=25` to continue with \
         other settings",
    );
}

#[test]
fn a_training_text_that_is_no_longer_the_same() {
    let place = Place::new();
    place.trained("run");
    change(&place.path("corpus/train.txt"), |bytes| bytes.extend(b"ba do\n"));
    place.check_refusal(
        &mut place.resume("run"),
        "DIR/run: the text has changed since the run began (DIR/corpus/train.txt)",
        "restore the old text, or start a new run",
    );
    change(&place.path("corpus/train.txt"), |bytes| bytes.extend(b"a new word\n"));
    place.check_refusal(
        &mut place.resume("run"),
        "DIR/run: the text has changed since the run began (DIR/corpus/train.txt)",
        "restore the old text, or start a new run",
    );
}

#[test]
fn corpora() {
    let place = Place::new();
    let check = |name: &str, contents: Option<&[u8]>, settings: &[&str], problem: &str, advice: &str| {
        if let Some(contents) = contents {
            fs::write(place.path(name), contents).unwrap();
        }
        let mut command = bowline(["train", "--threads", "1", "--data"]);
        command.arg(place.path(name)).arg("--out").arg(place.path("run")).args(settings);
        place.check_refusal(&mut command, problem, advice);
        assert!(!place.path("run").exists(), "nothing is made for a run that cannot be");
    };
    fs::create_dir(place.path("folder")).unwrap();
    check(
        "folder",
        None,
        &[],
        "DIR/folder: no corpus is in this folder; looked for train.txt, valid.txt, test.txt; or ptb.train.txt, \
         ptb.valid.txt, ptb.test.txt; or wiki.train.tokens, wiki.valid.tokens, wiki.test.tokens",
        "name the three files so, or give one text file, which is then split by itself",
    );
    check(
        "folder/train.txt",
        Some(b"a b c\n"),
        &[],
        "DIR/folder/train.txt: 1 lines are too few to split: 80% train, 10% valid and 10% test need 10",
        "put one sentence on each line, or give a folder with train.txt, valid.txt and test.txt",
    );
    check(
        "folder",
        None,
        &[],
        "DIR/folder: the corpus is not complete; missing: valid.txt, test.txt",
        "put the missing file there, or give one text file, which is then split by itself",
    );
    check(
        "nowhere",
        None,
        &[],
        "DIR/nowhere: there is no such file or folder",
        "check the path; `ptb`, `wikitext-2` and `demo` are known by name",
    );
    check("empty.txt", Some(b""), &[], "DIR/empty.txt: the file is empty", "put text in it, one sentence a line");
    check(
        "blank.txt",
        Some(&[b'\n'; 100]),
        &[],
        "DIR/blank.txt: the training text has no words; there is nothing to learn",
        "use a text of at least two different words",
    );
    check(
        "one.txt",
        Some("word word\n".repeat(100).as_bytes()),
        &[],
        "DIR/one.txt: the training text has only one word, `word`; there is nothing to learn",
        "use a text of at least two different words",
    );
    check(
        "latin.txt",
        Some(b"one two\ncaf\xE9 au lait\n"),
        &[],
        "DIR/latin.txt:2: not UTF-8: byte 0xE9 at column 4",
        "convert the file to UTF-8, for example `iconv -f ISO-8859-1 -t UTF-8 OLD > NEW`",
    );
    check(
        "short.txt",
        Some("a b c\n".repeat(30).as_bytes()),
        &["--model", "re", "--set", "batch=200"],
        "DIR/short.txt: the text is too short: 96 tokens, and 200 streams (setting `batch`) need at least 201",
        "use a longer text, one sentence a line",
    );
    check(
        "short.txt",
        None,
        &["--vocab-size", "2"],
        "setting `data.vocab_size`: 2 is impossible",
        "a value of at least 3, or 0 to keep all words",
    );
}

#[test]
fn a_public_corpus_that_is_not_there() {
    let place = Place::new();
    let empty = place.path("data");
    fs::create_dir(&empty).unwrap();
    let mut train = bowline(["train", "--data", "ptb", "--out"]);
    place.check_refusal(
        train.arg(place.path("run")).env("XDG_DATA_HOME", &empty),
        "DIR/data/bowline/ptb: the corpus `ptb` is not there; missing: ptb.train.txt, ptb.valid.txt, ptb.test.txt",
        "`bowline data get ptb`, or `--data DIR` with a copy of your own",
    );
    let model = place.trained("model");
    let mut eval = bowline(["eval", "--data", "wikitext-2"]);
    place.check_refusal(
        eval.arg(&model).env("XDG_DATA_HOME", &empty),
        "DIR/data/bowline/wikitext-2: the corpus `wikitext-2` is not there; missing: train.txt, valid.txt, test.txt",
        "`bowline data get wikitext-2`, or `--data DIR` with a copy of your own",
    );
    place.check_refusal(
        bowline(["data", "get", "penn"]).env("XDG_DATA_HOME", &empty),
        "`penn`: there is no such corpus",
        "one of ptb, wikitext-2, or `--data DIR` with files of your own",
    );
    place.check_refusal(
        bowline(["data", "verify", "penn"]).env("XDG_DATA_HOME", &empty),
        "`penn`: there is no such corpus",
        "one of ptb, wikitext-2, or `--data DIR` with files of your own",
    );
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);

    // A file under the right name that is another one is not used.
    fs::create_dir_all(empty.join("bowline/ptb")).unwrap();
    for split in ["train", "valid", "test"] {
        fs::write(empty.join(format!("bowline/ptb/ptb.{split}.txt")), "a b\n").unwrap();
    }
    place.check_refusal(
        train.env("XDG_DATA_HOME", &empty),
        "DIR/data/bowline/ptb/ptb.train.txt: this is not the file of the corpus `ptb`: \
         its SHA-256 is SHA256, not SHA256",
        "move it away and run `bowline data get ptb`, or use `--data DIR` for your own text",
    );
}
