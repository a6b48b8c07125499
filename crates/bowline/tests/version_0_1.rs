//! What version 0.1 wrote is still read: `fixtures/v0.1` holds two of its runs, of two epochs each, on the text beside them.

use bowline::compute::Compute;
use bowline::config::Config;
use bowline::eval::Evaluator;
use bowline::event::{Event, Progress};
use bowline::model_folder::ModelFolder;
use bowline::run::{self, Outcome, Session, Watch};
use bowline_kernels::Isa;
use std::fs;
use std::path::{Path, PathBuf};

struct Quiet;

impl Watch for Quiet {
    fn event(&mut self, _: &Event) {}
    fn progress(&mut self, _: &Progress) {}
    fn notice(&mut self, text: &str) {
        panic!("{text}");
    }
    fn stop(&self) -> bool {
        false
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v0.1")
}

/// The run in a place where it can be changed, with its text where the fixtures are.
fn copy(model: &str, to: &Path) {
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
            }
        }
    };
    let from = fixtures().join(model);
    for part in ["", "best", "checkpoints"] {
        copy(&from.join(part), &to.join(part));
    }
    let config = fs::read_to_string(to.join("config.toml")).unwrap();
    let text = fixtures().join("text");
    fs::write(to.join("config.toml"), config.replace("TEXT", text.to_str().unwrap())).unwrap();
}

/// Perplexities of version 0.1: of the model on the validation text, and after two more epochs.
const KNOWN: [(&str, f64, f64); 2] = [
    ("vd-lstm", 16.477_907_823_738_345, 16.506_818_249_727_45),
    ("real", 16.348_387_504_093_264, 15.271_922_388_986_1),
];

#[test]
fn models_give_the_perplexity_they_had() {
    for (model, valid, _) in KNOWN {
        let place = tempfile::tempdir().unwrap();
        copy(model, place.path());
        let folder = ModelFolder::load(place.path().join("best")).unwrap();
        let config = Config::read(&place.path().join("config.toml")).unwrap();
        let corpus = run::open_corpus(&config.data).unwrap();
        let mut evaluator = Evaluator::new(folder.params.spec(), Compute::with_threads(1), 10);
        let found = evaluator.evaluate(&folder.params, &corpus.valid.ids, None, corpus.vocabulary.eos()).all.perplexity;
        assert!((found - valid).abs() < 1e-5 * valid, "{model}: {found}, not {valid}");
    }
}

#[test]
fn runs_go_on_from_their_checkpoints_as_they_would_have() {
    for (model, _, valid) in KNOWN {
        let place = tempfile::tempdir().unwrap();
        let (old, longer) = (place.path().join("old"), place.path().join("longer"));
        copy(model, &old);
        run::branch(&old, &longer, &["epochs=4".to_owned()]).unwrap();
        let session = Session { threads: 2, isa: Isa::detect() };
        let Outcome::Finished(summary) = run::resume(&longer, session, &mut Quiet).unwrap() else {
            panic!("{model}: nobody asked it to stop");
        };
        let last = summary.curve.last().unwrap();
        assert_eq!((last.epoch, summary.steps), (4, 156));
        assert!((last.valid - valid).abs() < 1e-5 * valid, "{model}: {}, not {valid}", last.valid);
    }
}
