//! `README.md`: the card that tells people what a model is, how it came about, and how to use it.

use std::fmt::Write;

use super::config::Config;
use super::{CONFIG, VOCABULARY, WEIGHTS};
use crate::spec::{LayerSpec, ModelSpec};
use crate::wording::grouped;

/// What the card says beyond what the model's own sizes say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelCard {
    /// The headline: "VD-LSTM+REAL, small, on PTB".
    pub title: String,
    /// The corpus as `--data` takes it.
    pub data_name: String,
    /// The SHA-256 of the corpus.
    pub data_sha256: String,
    /// The settings of the training, in the order in which they shall be shown.
    pub recipe: Vec<(String, String)>,
    /// The random seed.
    pub seed: u64,
    /// The epoch after which these weights were kept, counted from 1.
    pub epoch: u32,
    /// Perplexity on the validation split, where it was measured.
    pub valid: Option<f64>,
    /// Perplexity on the test split, where it was measured.
    pub test: Option<f64>,
    /// The beginning of a sentence, of words that the model knows, for the examples.
    pub example: String,
    /// For a model that another program trained, where its weights come from; then nothing is known of its training.
    pub origin: Option<String>,
}

/// "2 LSTM layers of 200 units", or each layer by itself where they differ.
fn layers(spec: &ModelSpec) -> String {
    let name = |layer: &LayerSpec| layer.unit.title();
    match &spec.layers[..] {
        [] => format!("the last {} words side by side", spec.input.context.unwrap_or(1)),
        [one] => format!("one {} layer of {} units", name(one), grouped(one.units)),
        [first, rest @ ..] if rest.iter().all(|layer| layer == first) => {
            format!("{} {} layers of {} units", spec.layers.len(), name(first), grouped(first.units))
        }
        layers => {
            let all: Vec<_> = layers.iter().map(|layer| format!("{} {}", grouped(layer.units), name(layer))).collect();
            format!("layers of {} units", all.join(", "))
        }
    }
}

impl ModelCard {
    pub(super) fn to_markdown(&self, config: &Config, hash: &str) -> String {
        let a = &config.spec;
        let mut card = String::new();
        let mut line = |text: String| {
            card.push_str(&text);
            card.push('\n');
        };
        line(format!("# {}\n", plain(&self.title)));
        let (how, kind) = match &self.origin {
            None if a.as_paper().is_none() => ("trained with Bowline", "a recurrent network"),
            None => ("trained with Bowline", kind(&config.model)),
            Some(_) if a.output.tied => ("imported by Bowline", "an LSTM whose classifier reuses the word vectors"),
            Some(_) => ("imported by Bowline", "an LSTM whose classifier has its own matrix and bias"),
        };
        line(format!(
            "A word-level language model, {how} {}: {kind}. It has {}, a vocabulary of {} words \
             and {} parameters.\n",
            env!("CARGO_PKG_VERSION"),
            layers(a),
            grouped(a.vocab),
            grouped(a.parameters()),
        ));

        match &self.origin {
            None => self.training(&mut line),
            Some(origin) => {
                line(format!("The weights come from {}; how they were trained is not known.\n", plain(origin)))
            }
        }

        line("## Use\n".to_owned());
        let evaluate = match self.origin {
            None => "bowline eval .                  # on the test part of its own text, in the folder of its run",
            Some(_) => "bowline eval . --data TEXT",
        };
        line(format!(
            "In this folder:\n\n```sh\n{evaluate}\nbowline next . {} -k 10\n```\n",
            shell_word(&self.example),
        ));
        if a.as_paper().is_some() {
            line(format!("In PyTorch:\n\n```python\n{}```\n", self.python(a.output.tied)));
        }

        line("## Files\n".to_owned());
        line(format!(
            "- `{WEIGHTS}`: the weights{}; {}. Content hash `{}`, checked on loading.",
            match a.as_paper() {
                Some(_) => " under PyTorch's names, gates in the order i, f, g, o",
                None => "",
            },
            match (a.output.tied, a.output.bias) {
                (true, _) => "the classifier is the embedding and is stored once",
                (false, true) => "the classifier has its own matrix and bias",
                (false, false) => "the classifier has its own matrix",
            },
            code(hash),
        ));
        line(format!("- `{CONFIG}`: the sizes."));
        line(format!("- `{VOCABULARY}`: the words, one per line, in the order of the word vectors.\n"));
        if !config.is_of_the_paper() {
            return card;
        }
        line(
            "The model is that of Inan, Khosravi and Socher, *Tying Word Vectors and Word Classifiers: A Loss \
             Framework for Language Modeling*, ICLR 2017."
                .to_owned(),
        );
        card
    }

    /// What came out of the training, and how it was done.
    fn training(&self, line: &mut impl FnMut(String)) {
        self.results(line);
        line(format!("These are the weights after epoch {}, the best on the validation split so far.\n", self.epoch));
        self.made_of(line);
        line(format!("| seed | {} |\n", self.seed));
    }

    fn results(&self, line: &mut impl FnMut(String)) {
        line("## Results\n".to_owned());
        line("| split | perplexity |\n|---|---:|".to_owned());
        for (split, perplexity) in [("validation", self.valid), ("test", self.test)] {
            line(format!("| {split} | {} |", perplexity.map_or("not measured".to_owned(), |p| format!("{p:.2}"))));
        }
        line(String::new());
    }

    fn made_of(&self, line: &mut impl FnMut(String)) {
        line("## Data\n".to_owned());
        line(format!("{}, SHA-256 `{}`.\n", plain(&self.data_name), code(&self.data_sha256)));
        line("## Recipe\n".to_owned());
        line("| setting | value |\n|---|---|".to_owned());
        for (key, value) in &self.recipe {
            line(format!("| {} | {} |", plain(key), plain(value)));
        }
    }

    /// The card of an n-gram model; `summary` is a sentence without its end.
    pub(super) fn to_ngram_markdown(&self, summary: &str, hash: &str) -> String {
        let mut card = String::new();
        let mut line = |text: String| {
            card.push_str(&text);
            card.push('\n');
        };
        line(format!("# {}\n", plain(&self.title)));
        line(format!("A word-level language model, made with Bowline {}: {summary}.\n", env!("CARGO_PKG_VERSION")));
        self.results(&mut line);
        self.made_of(&mut line);
        line(format!(
            "\n## Use\n\nIn this folder:\n\n```sh\nbowline eval .\nbowline next . {} -k 10\nbowline arpa write . model.arpa.gz\n```\n",
            shell_word(&self.example),
        ));
        line("## Files\n".to_owned());
        line(format!(
            "- `{WEIGHTS}`: the n-grams of each length with their probabilities and back-off weights. Content hash `{}`, \
             checked on loading.",
            code(hash)
        ));
        line(format!("- `{CONFIG}`: the kind and the sizes."));
        line(format!("- `{VOCABULARY}`: the words, one per line, in the order of their ids."));
        card
    }

    /// A program that loads this folder and prints the most likely words after the example.
    fn python(&self, tied: bool) -> String {
        let mut program = String::from(
            "import json\n\
             import torch\n\
             from safetensors.torch import load_file\n\
             \n\
             config = json.load(open(\"config.json\"))\n\
             words = open(\"vocab.txt\", encoding=\"utf-8\", newline=\"\\n\").read().split(\"\\n\")[:-1]\n\
             size, d = config[\"vocab_size\"], config[\"hidden_size\"]\n\
             model = torch.nn.ModuleDict({\n\
             \x20   \"encoder\": torch.nn.Embedding(size, d),\n\
             \x20   \"rnn\": torch.nn.LSTM(d, d, config[\"num_layers\"]),\n",
        );
        // Writing to a string cannot fail.
        let bias = if tied { ", bias=False" } else { "" };
        let _ = writeln!(program, "    \"decoder\": torch.nn.Linear(d, size{bias}),\n}})");
        program.push_str("weights = load_file(\"model.safetensors\")\n");
        if tied {
            program.push_str("weights[\"decoder.weight\"] = weights[\"encoder.weight\"]\n");
        }
        let example = serde_json::Value::from(one_line(&self.example));
        let _ = write!(
            program,
            "model.load_state_dict(weights)\n\
             \n\
             ids = torch.tensor([[words.index(word)] for word in {example}.split()])\n\
             with torch.no_grad():\n\
             \x20   states, _ = model[\"rnn\"](model[\"encoder\"](ids))\n\
             \x20   top = model[\"decoder\"](states[-1, 0]).softmax(-1).topk(min(10, size))\n\
             for probability, word in zip(*top):\n\
             \x20   print(f\"{{probability:.4f}} {{words[word]}}\")\n"
        );
        program
    }
}

/// What a model is, in words.
fn kind(model: &str) -> &'static str {
    match model {
        "al" => "an LSTM with variational dropout and the augmented loss (VD-LSTM+AL)",
        "re" => "an LSTM with variational dropout whose classifier reuses the word vectors (VD-LSTM+RE)",
        "real" => {
            "an LSTM with variational dropout, with the augmented loss and a classifier that reuses the word vectors \
             (VD-LSTM+REAL)"
        }
        "vd-lstm" => "an LSTM with variational dropout (VD-LSTM)",
        _ => "a recurrent network",
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text that Markdown shows as it is, also in a table.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    for c in one_line(text).chars() {
        if "\\`*|<[".contains(c) {
            shown.push('\\');
        }
        shown.push(c);
    }
    shown
}

/// Text for between two backticks.
fn code(text: &str) -> String {
    one_line(text).replace('`', "'")
}

/// Text that a shell takes as one word.
fn shell_word(text: &str) -> String {
    let text = one_line(text);
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(safe) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_would_break_the_card_is_tamed() {
        assert_eq!(plain("a|b\n<unk> `x` *y*"), r"a\|b \<unk> \`x\` \*y\*");
        assert_eq!(shell_word("ptb"), "ptb");
        assert_eq!(shell_word("my data/it's"), r"'my data/it'\''s'");
        assert_eq!(shell_word("-x"), "'-x'");
        assert_eq!(shell_word("x\n```"), "'x ```'");
        assert_eq!(
            ["1", "12", "123", "1234", "1234567"].map(|n| grouped(n.parse().unwrap())),
            ["1", "12", "123", "1,234", "1,234,567"]
        );
    }
}
