//! The text that `--data` and `--split` name, as ids of a model's vocabulary.

use anyhow::bail;
use bowline::corpus::{Corpus, Split, SplitName, find_split};
use bowline::run::OwnText;
use bowline::vocabulary::Vocabulary;
use bowline::{Error, data};
use bowline_demo as demo;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where a text comes from.
pub struct Source {
    /// As `--data` names it, or as the run does.
    pub name: String,
    form: Form,
}

enum Form {
    /// The corpus that the model's run was trained on, cut as it was then.
    Own(Box<Corpus>),
    /// The built-in corpus.
    Demo,
    /// A folder with a file for each part.
    Folder(PathBuf),
    /// One file, taken whole.
    File(PathBuf),
    /// Standard input, taken whole.
    Input(Vec<u8>),
}

impl Source {
    /// What `data` means to the model in `model`; without it, the text that its run was trained on.
    pub fn of(model: &Path, vocabulary: &Vocabulary, data: Option<&str>) -> anyhow::Result<Source> {
        let own = OwnText::of(model)?;
        let Some(name) = data else {
            let Some(own) = own else {
                bail!(
                    "{}: the model does not lie in the folder of its run, so its text is not known\n  \
                     try: --data with a text, or with the corpus it was trained on",
                    model.display()
                );
            };
            return Ok(Source { name: own.source().to_owned(), form: Form::Own(Box::new(own.corpus(vocabulary)?)) });
        };
        let path = match name {
            "demo" => return Ok(Source { name: name.to_owned(), form: Form::Demo }),
            "-" => {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes).map_err(Error::io("standard input", "read"))?;
                return Ok(Source { name: "standard input".to_owned(), form: Form::Input(bytes) });
            }
            _ => locate(name)?,
        };
        let form = match path.is_file() {
            false => Form::Folder(path),
            true => match own.map(|own| own.in_file(&path)).transpose()?.flatten() {
                Some(own) => Form::Own(Box::new(own.corpus(vocabulary)?)),
                None => Form::File(path),
            },
        };
        Ok(Source { name: name.to_owned(), form })
    }

    /// Whether this is one text without parts.
    pub fn is_whole(&self) -> bool {
        matches!(self.form, Form::File(_) | Form::Input(_))
    }

    /// Reads one part of a corpus; a text without parts is taken whole.
    pub fn read(&self, part: SplitName, vocabulary: &Vocabulary, tokenize: bool) -> bowline::Result<Split> {
        match &self.form {
            Form::Own(corpus) => corpus.split(part),
            Form::Demo => {
                let splits = demo::splits(demo::DEFAULT_SEED);
                let text = match part {
                    SplitName::Train => splits.train,
                    SplitName::Valid => splits.valid,
                    SplitName::Test => splits.test,
                };
                Split::from_text("demo", &text, vocabulary, tokenize)
            }
            Form::Folder(dir) => Split::read(&find_split(dir, part)?, vocabulary, tokenize),
            Form::File(path) => Split::read(path, vocabulary, tokenize),
            Form::Input(bytes) => Split::from_bytes(&self.name, bytes.clone(), vocabulary, tokenize),
        }
    }

    /// Reads a part that must be one of several: a text taken whole has none.
    pub fn read_part(
        &self,
        part: SplitName,
        purpose: &str,
        vocabulary: &Vocabulary,
        tokenize: bool,
    ) -> bowline::Result<Split> {
        if self.is_whole() {
            let part = part.as_str();
            return Err(Error::corpus(
                &self.name,
                format!("{purpose} needs the {part} part of a corpus, and this is one text"),
                "leave --data out to use the text of the run, or give a folder made by `bowline data split`",
            ));
        }
        self.read(part, vocabulary, tokenize)
    }

    /// What to call the part that was read.
    pub fn label(&self, part: SplitName, text: &Split) -> String {
        match &self.form {
            Form::File(_) => "whole file".to_owned(),
            Form::Input(_) => "whole text".to_owned(),
            // The parts of one file are told apart by their lines.
            Form::Own(corpus) if corpus.test.first_line > 1 => {
                let last = text.first_line + text.lines - 1;
                format!("{}: lines {} to {last}", part.as_str(), text.first_line)
            }
            _ => part.as_str().to_owned(),
        }
    }
}

fn locate(data: &str) -> bowline::Result<PathBuf> {
    match data::by_name(data) {
        Some(corpus) => data::locate(corpus, &data::Environment::current()),
        None => Ok(Path::new(data).to_path_buf()),
    }
}
