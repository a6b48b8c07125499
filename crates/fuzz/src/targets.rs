//! What reads each format. Errors are what is expected; only their being errors is of interest.

use crate::seeds;
use bowline::budget::Budget;
use bowline::config::{Config, ModelKind, Size, preset};
use bowline::corpus::{Corpus, CorpusOptions, Phrase};
use bowline::event::Event;
use bowline::loaded_model::LoadedModel;
use bowline::model_folder::NgramFolder;
use bowline::predictor::{Reads, Shipped, TunedSettings};
use bowline::recipes::Recipe;
use bowline::run::Position;
use bowline::score::rescore::Costs;
use bowline::score::{Lines, Sentence, nbest};
use bowline::spec::Activation;
use bowline::storage::tensor_file::{ContentHash, TensorFile, TensorFileWriter, sha256};
use bowline::vocabulary::Vocabulary;
use bowline_interop::import::{self, Names, Request};
use bowline_interop::tensorboard;
use bowline_serve::{Server, ServerOptions};
use std::fs;
use std::io::BufReader;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use tempfile::TempDir;

/// A folder in memory, where there is such a thing.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder for the inputs can be made")
}

/// Has the bytes read as a file of this name.
fn as_file(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    thread_local! {
        static FOLDER: TempDir = folder();
    }
    FOLDER.with(|folder| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("the input can be written");
        read(&path);
    });
}

/// safetensors, of ours and of others.
pub fn tensor_file(bytes: &[u8]) {
    if let Ok(file) = TensorFile::parse("input", bytes.to_vec(), ContentHash::IfPresent) {
        copy_all(&file);
    }
    as_file("input.safetensors", bytes, |path| {
        if let Ok(file) = TensorFile::read_foreign(path) {
            copy_all(&file);
        }
    });
}

fn copy_all(file: &TensorFile) {
    let names: Vec<String> = file.names().map(str::to_owned).collect();
    for name in names {
        let size: usize = file.shape(&name).map_or(0, |shape| shape.iter().product());
        let _ = file.copy_to(&name, &mut vec![0.0; size]);
    }
}

/// A run's `config.toml`.
pub fn config(bytes: &[u8]) {
    as_file("config.toml", bytes, |path| {
        if let Ok(config) = Config::read(path) {
            comes_back(&config, path);
        }
    });
}

/// Settings that were accepted are the same when they are written and read again.
fn comes_back(config: &Config, path: &Path) {
    let text = config.to_toml().expect("what was read can be written");
    fs::write(path, text).expect("the text can be written");
    assert_eq!(Config::read(path).expect("what was written can be read"), *config);
}

/// What follows `--set`, and `--budget`.
pub fn setting(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(budget) = text.parse::<Budget>() {
        let seconds = budget.seconds(1_000_000);
        assert!(seconds.is_finite() && seconds > 0.0, "{text}: {seconds}");
    }
    let settings: Vec<String> = text.lines().map(str::to_owned).collect();
    let _ = preset(Size::ALL[0], ModelKind::ALL[0], "demo").with(&settings);
}

/// A recipe of somebody's own: what follows `--model`.
pub fn recipe(bytes: &[u8]) {
    as_file("mine.toml", bytes, |path| {
        let Ok(recipe) = Recipe::find(&path.to_string_lossy()) else { return };
        for size in [None, Some(Size::Small), Some(Size::Large)] {
            if let Ok(config) = recipe.config(size, "demo") {
                comes_back(&config, &path.with_file_name("config.toml"));
            }
        }
    });
}

/// A model's `predictor.json`.
pub fn predictor(bytes: &[u8]) {
    as_file(Shipped::FILE, bytes, |path| {
        let folder = path.parent().expect("it is in a folder");
        if let Ok(Some(shipped)) = Shipped::load(folder) {
            for reads in [Reads::Text, Reads::Phrase] {
                let _ = shipped.ensemble(seeds::served_model(), reads);
            }
        }
    });
}

/// A model's `config.json`, with words and weights that belong to another one.
pub fn model_config(bytes: &[u8]) {
    static MODEL: OnceLock<TempDir> = OnceLock::new();
    let model = MODEL.get_or_init(|| {
        let dir = folder();
        seeds::model(dir.path());
        dir
    });
    fs::write(model.path().join("config.json"), bytes).expect("the input can be written");
    let _ = LoadedModel::load(model.path());
}

/// `tuned.json`.
pub fn tuned(bytes: &[u8]) {
    as_file("tuned.json", bytes, |path| {
        let _ = path.parent().map(TunedSettings::load);
    });
}

/// `vocab.txt`, and the lists of others.
pub fn vocabulary(bytes: &[u8]) {
    let _ = Vocabulary::from_list(Path::new("tokens.txt"), bytes);
    if let Ok(vocabulary) = Vocabulary::from_text(Path::new("vocab.txt"), bytes) {
        let again = Vocabulary::from_text(Path::new("vocab.txt"), vocabulary.to_text().as_bytes());
        assert_eq!(again.expect("what was written can be read"), vocabulary);
    }
}

/// A checkpoint: the file, and the position in it.
pub fn checkpoint(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Position>(bytes);
    if let Ok(file) = TensorFile::parse("last.safetensors", bytes.to_vec(), ContentHash::IfPresent)
        && let Ok(text) = file.value::<String>("bowline.position")
    {
        let _ = serde_json::from_str::<Position>(&text);
    }
}

/// `events.jsonl`, as the server and TensorBoard read it.
pub fn events(bytes: &[u8]) {
    for line in bytes.split(|&byte| byte == b'\n') {
        let _ = serde_json::from_slice::<Event>(line);
    }
    as_file("events.jsonl", bytes, |path| {
        let run = path.parent().expect("it is in a folder");
        if !run.join("config.toml").exists() {
            fs::write(run.join("config.toml"), "").expect("the settings can be written");
        }
        let _ = tensorboard::convert(run, &run.join("curves"));
    });
}

/// ARPA files, compressed or not.
pub fn arpa(bytes: &[u8]) {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        as_file("input.arpa.gz", bytes, |path| drop(bowline::ngram::arpa::read(path)));
        return;
    }
    if let Ok((model, vocabulary)) = bowline::ngram::arpa::parse(Path::new("input.arpa"), bytes) {
        let ids: Vec<u32> = (0..vocabulary.len().min(50) as u32).collect();
        let _ = model.nll(&ids);
    }
}

/// The tensors of an n-gram model: the input is their values, the file around them is sound.
pub fn ngram(bytes: &[u8]) {
    const WORDS: &str = "<eos>\n<unk>\na\nb\n";
    let value = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    let values: Vec<f32> = bytes.chunks_exact(4).map(value).map(|x| if x.is_finite() { x } else { 1.0 }).collect();
    let (first, rest) = values.split_at(values.len().min(12));
    let longer = rest.len() / 2;
    let mut file = TensorFileWriter::new();
    file.metadata("vocab_sha256", sha256(WORDS.as_bytes())).metadata("tokenize", false);
    for (name, values) in [
        ("1.probability", &first[..first.len() / 3]),
        ("1.backoff", &first[first.len() / 3..first.len() / 3 * 2]),
        ("1.children", &first[first.len() / 3 * 2..first.len() / 3 * 3]),
        ("2.word", &rest[..longer]),
        ("2.probability", &rest[longer..2 * longer]),
    ] {
        file.tensor(name, &[values.len()], values);
    }
    let Ok(weights) = file.to_bytes("model.safetensors") else { return };
    as_file("model.safetensors", &weights, |path| {
        let dir = path.parent().expect("it is in a folder");
        let config = r#"{"format":"bowline","version":1,"model":"kn","vocab_size":4,"order":2}"#;
        fs::write(dir.join("vocab.txt"), WORDS).expect("the words can be written");
        fs::write(dir.join("config.json"), config).expect("the sizes can be written");
        if let Ok(model) = NgramFolder::load(dir) {
            let _ = model.model.nll(&[0, 2, 3, 1, 0, 2]);
        }
    });
}

/// n-best lists and the costs beside them.
pub fn nbest(bytes: &[u8]) {
    let words = Vocabulary::from_text(Path::new("vocab.txt"), b"<eos>\n<unk>\nthe\ncat\n").expect("these are words");
    let path = Path::new("list");
    let mut lines = Lines::new(path, BufReader::new(bytes));
    while let Ok(Some((number, line))) = lines.next_line() {
        if let Some((key, rest)) = nbest::split_key(&line) {
            let _ = nbest::utterance(key);
            let _ = Sentence::at(path, number, rest, &words, number % 2 == 0);
        }
    }
    let _ = Costs::read(&mut Lines::new(path, BufReader::new(bytes)));
}

/// A text as a corpus, tokenized or not.
pub fn corpus(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for tokenize in [false, true] {
        let options = CorpusOptions { vocab_size: Some(20), tokenize, ..CorpusOptions::default() };
        if let Ok(corpus) = Corpus::from_texts(&text, &text, &text, options) {
            let _ = Phrase::new(&text, &corpus.vocabulary, tokenize);
        }
    }
    as_file("input.txt", bytes, |path| {
        drop(Corpus::from_file(path, CorpusOptions { tokenize: true, ..CorpusOptions::default() }))
    });
}

/// The ids of a large training text. A file that is another text's is made again; one that is damaged is an error.
pub fn ids(bytes: &[u8]) {
    as_file("train.ids", bytes, |path| {
        let mut corpus = seeds::corpus_in_a_file(&path.with_file_name("text"));
        if corpus.keep_ids(path).is_ok() {
            let _ = corpus.train_ids();
        }
    });
}

/// The weights of another tool.
pub fn import(bytes: &[u8]) {
    imported("weights.safetensors", bytes);
}

/// The graph of another tool.
pub fn onnx(bytes: &[u8]) {
    imported("weights.onnx", bytes);
}

fn imported(name: &str, bytes: &[u8]) {
    as_file(name, bytes, |path| {
        let (words, out) = (path.with_file_name("words.txt"), path.with_file_name("imported"));
        if !words.exists() {
            fs::write(&words, "<eos>\n<unk>\na\n").expect("the words can be written");
        }
        let names = Names::default();
        let request = Request {
            weights: path,
            vocabulary: &words,
            names,
            model: None,
            activation: Activation::Tanh,
            projection_activation: Activation::Linear,
            tokenize: false,
        };
        if import::import(&request, &out).is_ok() {
            LoadedModel::load(&out).expect("what was imported can be read");
            fs::remove_dir_all(out).expect("it can be removed");
        }
    });
}

/// The bodies of HTTP requests; the first byte says of which.
pub fn http(bytes: &[u8]) {
    static SERVER: OnceLock<Mutex<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let options = ServerOptions { threads: 1, ..ServerOptions::default() };
        Mutex::new(Server::new([seeds::served_model()], listener, options).expect("the server can be made"))
    });
    const PATHS: [&str; 7] =
        ["/v1/completions", "/api/next", "/api/score", "/api/neighbours", "/api/generate", "/tokenize", "/detokenize"];
    let (which, body) = bytes.split_first().unwrap_or((&0, &[]));
    let path = PATHS[usize::from(*which) % PATHS.len()];
    let status = server.lock().unwrap_or_else(PoisonError::into_inner).answer(path, body.to_vec());
    assert!(matches!(status, 200 | 400 | 404 | 413), "{path}: {status}");
}
