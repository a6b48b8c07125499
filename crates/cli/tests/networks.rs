//! Networks of other kinds than the paper's, as people use them: how else they predict, what they are exported as, and what is
//! refused.

#![cfg(unix)]

mod common;

use common::{Place, bowline, finish};
use std::process::Command;

/// A kind of network, by a recipe made small.
struct Kind {
    model: &'static str,
    settings: &'static [&'static str],
    /// What is said of dynamic evaluation, which none of them takes.
    dynamic: &'static str,
    /// What is said of export to ONNX, where that is refused.
    onnx: Option<&'static str>,
    /// Settings that cannot be, and what is said of them.
    refused: &'static [(&'static str, &'static str)],
    /// The same of one of the paper's models: its name, the settings, and what is said.
    of_the_paper: Option<(&'static str, &'static [&'static str], &'static str)>,
}

const CACHE: &[&str] = &["--cache-window", "50", "--cache-lambda", "0.1"];
const DROPOUT: &[&str] = &["--mc", "3", "--mc-keep", "0.8"];
const TEMPERATURE: &[&str] = &["--temperature", "1.5"];

impl Kind {
    fn train(&self, place: &Place, out: &str, more: &[&str]) -> Command {
        train(place, out, self.model, &[self.settings, more].concat())
    }

    /// Trains for an epoch, and predicts in every way but by learning from the text.
    fn predicts(&self, ways: &[&[&str]]) -> Place {
        let place = Place::new();
        finish(&mut self.train(&place, "run", &[])).success();
        let (run, corpus) = (place.path("run"), place.path("corpus"));
        let eval = |flags: &[&str]| {
            let mut command = bowline(["eval", "--json", "--threads", "1"]);
            finish(command.arg(&run).arg("--data").arg(&corpus).args(flags)).json()["perplexity"].as_f64().unwrap()
        };
        let alone = eval(&[]);
        for flags in ways {
            let other = eval(flags);
            assert!(other.is_finite() && other != alone, "{flags:?}: {other}");
        }
        finish(bowline(["generate", "--threads", "1", "--words", "5"]).arg(&run)).success();
        let mut dynamic = bowline(["eval", "--dynamic-form", "sgd", "--dynamic-rate", "0.1"]);
        let refused = finish(dynamic.arg(&run).arg("--data").arg(&corpus));
        assert!(refused.error().contains(self.dynamic), "{refused:?}");
        let exported = finish(bowline(["export", "--to", "onnx", "--out"]).arg(place.path("model.onnx")).arg(&run));
        match self.onnx {
            Some(problem) => assert!(exported.error().contains(problem), "{exported:?}"),
            None => drop(exported.success()),
        }
        let exported = finish(bowline(["export", "--to", "huggingface", "--out"]).arg(place.path("folder")).arg(&run));
        assert!(exported.error().contains("only networks of equal LSTM layers"), "{exported:?}");
        place
    }

    fn refuses(&self) {
        let place = Place::new();
        for (setting, problem) in self.refused {
            let refused = finish(&mut self.train(&place, "run", &[setting]));
            assert!(refused.error().contains(problem), "{setting}: {refused:?}");
            assert!(!place.path("run").exists());
        }
        if let Some((model, settings, problem)) = self.of_the_paper {
            let refused = finish(&mut train(&place, "paper", model, settings));
            assert!(refused.error().contains(problem), "{refused:?}");
        }
    }
}

fn train(place: &Place, out: &str, model: &str, settings: &[&str]) -> Command {
    let mut command = bowline(["train", "--threads", "1", "--min-count", "1", "--epochs", "1", "--model", model]);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    command.arg("--data").arg(place.path("corpus")).arg("--out").arg(place.path(out));
    command
}

const CHARACTERS: Kind = Kind {
    model: "char-cnn",
    settings: &["hidden=8", "network.characters.maps=[4,5,6]"],
    dynamic: "a model that reads characters cannot learn from the text",
    onnx: None,
    refused: &[
        ("network.characters.symbols=5", "a table of 5 symbols cannot be made"),
        ("network.characters.length=2", "words of 2 symbols have no room"),
        ("network.embedding=7", "the characters give word vectors of 15 values, not of 7"),
        ("network.tied=true", "a classifier cannot reuse word vectors that come from characters"),
        ("unit_vectors=true", "word vectors that come from characters cannot be scaled to length 1"),
    ],
    of_the_paper: Some(("al", &["network.characters.maps=[4]"], "the augmented loss compares word vectors")),
};

#[test]
fn characters() {
    let place = CHARACTERS.predicts(&[CACHE, &["--mc", "3"]]);
    // Word vectors are those that the characters give.
    let near = finish(bowline(["neighbours", "--json"]).arg(place.path("run")).arg("dobaba")).json();
    assert_eq!(near["neighbours"].as_array().unwrap().len(), 10);
    CHARACTERS.refuses();
}

const CLASSES: Kind = Kind {
    model: "rnn-mikolov",
    settings: &["hidden=8", "batch=4", "network.classes=3"],
    dynamic: "a model with classes of words cannot learn from the text",
    onnx: Some("ONNX has no operator for classes of words"),
    refused: &[
        ("network.classes=70000", "70000 classes cannot be made of the text's"),
        ("network.bias=true", "classes have softmaxes of their own"),
        ("network.pointer=10", "classes have softmaxes of their own"),
        ("loss.sampled=5", "a network with classes cannot be learned from a sample of the words"),
    ],
    of_the_paper: Some(("al", &["network.classes=3"], "classes")),
};

#[test]
fn classes_of_words() {
    CLASSES.predicts(&[CACHE, TEMPERATURE]);
    CLASSES.refuses();
}

const MIXTURE: Kind = Kind {
    model: "mos",
    settings: &["network.widths=[8,6]", "network.embedding=5", "network.projection=5", "network.softmaxes=3"],
    dynamic: "a mixture of softmaxes cannot learn from the text that it reads",
    onnx: Some("ONNX has no operator for a mixture of softmaxes"),
    refused: &[
        ("network.softmaxes=0", "the number of softmaxes is 0"),
        ("network.softmaxes=70000", "the number of softmaxes is 70000, and 1024 is the most"),
        ("network.projection=0", "a mixture of softmaxes needs a projection"),
        ("network.projection=6", "the classifier is tied to word vectors of 5 values, and sees 6"),
        ("network.pointer=10", "a mixture of softmaxes cannot be beside a pointer or topics"),
    ],
    of_the_paper: Some((
        "real",
        &["network.softmaxes=2", "network.projection=200"],
        "for one softmax, not for a mixture of them",
    )),
};

#[test]
fn a_mixture_of_softmaxes() {
    MIXTURE.predicts(&[CACHE, DROPOUT, TEMPERATURE]);
    MIXTURE.refuses();
}

const MOGRIFIER: Kind = Kind {
    model: "mogrifier",
    settings: &["hidden=8", "network.rank=3", "batch=4", "unroll=10"],
    dynamic: "a model with summed layers cannot learn",
    onnx: Some("ONNX has no operator for a sum of layers"),
    refused: &[
        ("network.rounds=0", "the number of rounds of layer 0 is 0"),
        ("network.rounds=65", "the number of rounds of layer 0 is 65, and 64 is the most"),
        ("network.rank=0", "the rank of the rounds of layer 0 is 0"),
        ("network.rank=9", "the rank of the rounds of layer 0 is 9, and 8 is the most"),
        ("network.widths=[8,9]", "layers that are summed need one width, and they have [8, 9]"),
        ("masks.per_gate=[\"state\"]", "the input and the state of a Mogrifier gate each other"),
        ("activity.ar=1", "the activity that costs is the last layer's"),
        ("network.unit=\"mogrify\"", "mogrify"),
    ],
    of_the_paper: None,
};

#[test]
fn rounds_of_gating_and_summed_layers() {
    MOGRIFIER.predicts(&[CACHE, &["--mc", "3"]]);
    MOGRIFIER.refuses();
}

const POINTER: Kind = Kind {
    model: "pointer-sentinel",
    settings: &["hidden=8", "network.pointer=10"],
    dynamic: "a model with a pointer cannot learn from the text that it reads",
    onnx: Some("ONNX has no operator for a pointer to the last words"),
    refused: &[("network.pointer=70000", "the number of words that a pointer looks back on is 70000")],
    of_the_paper: Some(("real", &["network.pointer=10"], "not for one beside a pointer")),
};

#[test]
fn a_pointer() {
    POINTER.predicts(&[CACHE, &["--mc", "3"]]);
    POINTER.refuses();
}
