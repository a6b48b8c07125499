//! The paper's experiments, cell by cell.
//!
//! An *experiment* is a table or a figure of the paper, or one that its theory calls for. It consists of *cells*: each is
//! an ordinary run with a folder of its own below the experiment's, so that it can be stopped, resumed, evaluated
//! and looked at like any other. What an experiment shows is made from the cells that are there (`pages`); those that
//! are not are shown as not run.
#![forbid(unsafe_code)]

mod benchmark;
mod ideal;
mod pages;
mod perplexity;
mod phrases;
mod qualitative;
mod recipe;
mod systems;
mod theory;

pub use ideal::ideal;
pub use pages::{Distance, Results, page, tables};
pub use phrases::{PHRASES, Prediction, predictions};
pub use qualitative::{Tendencies, neighbours, tendencies};
pub use systems::{Joined, JoinedResult, SystemRow, join, joined, label, machine_table, ngrams, rows};
pub use theory::figure1;

use bowline::config::{Config, ModelKind, Size, Training, preset};
use bowline::data;
use bowline::error::{Error, Result};
use bowline::paper::WIKITEXT_2_HALVES;
use bowline::run::RunFolder;
use bowline_report::RunRecord;
use std::path::{Path, PathBuf};

/// What can be reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Perplexities of the four models on PTB and WikiText-2.
    Table1,
    /// The small models on the two halves of WikiText-2.
    Table2,
    /// Our systems on PTB beside the published ones.
    Table3,
    /// The most likely next words of the baseline and of +REAL.
    Table4,
    /// The distance between the subspaces of `L^T` and `W`.
    Figure1,
    /// Validation perplexity by epoch.
    Figure2,
    /// Section 3's ideal case, on the built-in corpus: `y~` is the truth.
    Ideal,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Experiment; 7] = [
        Experiment::Table1,
        Experiment::Table2,
        Experiment::Table3,
        Experiment::Table4,
        Experiment::Figure1,
        Experiment::Figure2,
        Experiment::Ideal,
    ];

    /// The name on the command line and of its page.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Table1 => "table1",
            Experiment::Table2 => "table2",
            Experiment::Table3 => "table3",
            Experiment::Table4 => "table4",
            Experiment::Figure1 => "figure1",
            Experiment::Figure2 => "figure2",
            Experiment::Ideal => "ideal",
        }
    }

    /// What is there of a cell below `out`, to be shown, however it was trained; but settings are what the cells of some
    /// experiments differ in.
    pub fn found(self, cell: &Cell, out: &Path) -> Result<Option<RunRecord>> {
        match self {
            Experiment::Figure1 | Experiment::Ideal => cell.record(out),
            _ => cell.found(out),
        }
    }
}

/// Which of an experiment's cells to run.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The network sizes, where the experiment has several.
    pub sizes: Vec<Size>,
    /// The corpora, where it has several.
    pub data: Vec<String>,
    /// The models, where it has several.
    pub models: Vec<ModelKind>,
    /// Table 3: these systems, by the names of recipes and of [`Joined`]; none for the paper's own models.
    pub only: Vec<String>,
    /// Runs of each cell, with seeds that follow each other.
    pub runs: u32,
    /// The first of the seeds.
    pub seed: u64,
    /// Epochs of each training, other than the recipe's.
    pub epochs: Option<u32>,
    /// Further settings, as `--set` takes them.
    pub settings: Vec<String>,
}

/// One run of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its folder, below that of all experiments.
    pub folder: String,
    /// What is run.
    pub config: Config,
}

impl Cell {
    /// What is there of it below `out`, to go on with; none if it was never started. A run with other settings is an
    /// error: it is not taken for the cell, and not touched.
    pub fn record(&self, out: &Path) -> Result<Option<RunRecord>> {
        self.read(out, |_| self.config.clone())
    }

    /// The first of its two trainings as a run of its own, if the loss is not augmented in it: with and without the augmented
    /// loss it is the same, and need not be done twice.
    pub fn first_training(&self) -> Option<Cell> {
        let model = match self.config.model {
            ModelKind::VdLstm | ModelKind::Al => ModelKind::VdLstm,
            ModelKind::Re | ModelKind::Real => ModelKind::Re,
            ModelKind::Recipe(_) => return None,
        };
        if self.config.second_training_epochs == 0 || self.config.augments(Training::First) {
            return None;
        }
        let config = Config { model, second_training_epochs: 0, ..self.config.clone() };
        Some(Cell { folder: format!("{}-first", folder(&config)), config })
    }

    /// Whether the two are the same run: settings of a loss that it does not have do not count.
    pub fn is(&self, other: &Cell) -> bool {
        self.folder == other.folder && differences(&self.config, other.config.clone()).is_empty()
    }

    /// The folder of a finished run below `out` that this one can begin with ([`Cell::first_training`]).
    pub fn begins_with(&self, out: &Path) -> Option<PathBuf> {
        let first = self.first_training()?;
        let there = first.record(out).ok().flatten()?;
        there.summary.is_some().then(|| out.join(first.folder))
    }

    /// What is there of it below `out`, to be shown: any run of its model, size, corpus and seed. How it was trained is its
    /// own affair, and on the page.
    fn found(&self, out: &Path) -> Result<Option<RunRecord>> {
        self.read(out, |there| {
            let Config { model, size, seed, ref data, .. } = self.config;
            Config { model, size, seed, data: data.clone(), ..there.clone() }
        })
    }

    fn read(&self, out: &Path, wanted: impl Fn(&Config) -> Config) -> Result<Option<RunRecord>> {
        let dir = out.join(&self.folder);
        if !RunFolder::new(&dir).config().exists() {
            return Ok(None);
        }
        let record = RunRecord::read(&dir)?;
        let advice = "the settings it started with, or another --out; `--no-run` shows what is there";
        let Some(there) = record.config.network() else {
            return Err(Error::run(&dir, "there is the run of an n-gram model in this folder", advice));
        };
        let others = differences(there, wanted(there));
        if let Some((key, there, here)) = others.first() {
            let problem = format!("this folder has a run with other settings: `{key}` is {there}, not {here}");
            return Err(Error::run(&dir, problem, advice));
        }
        Ok(Some(record))
    }
}

/// Where a run's settings are not those that are wanted. Those of a loss that it does not have do not count.
fn differences(there: &Config, mut wanted: Config) -> Vec<(String, String, String)> {
    if !wanted.model.augmented() {
        wanted.augment.clone_from(&there.augment);
    }
    there.differences(&wanted)
}

/// The cells of an experiment, in the order in which they are shown.
pub fn cells(experiment: Experiment, choice: &Choice) -> Result<Vec<Cell>> {
    let mut cells = match experiment {
        Experiment::Table1 => trainings(choice, &choice.data, &choice.sizes, &choice.models),
        Experiment::Table2 => {
            let halves = WIKITEXT_2_HALVES.map(str::to_owned);
            trainings(choice, &halves, &[Size::Small], &choice.models)
        }
        Experiment::Table3 if !choice.only.is_empty() => systems::cells(choice)?,
        Experiment::Table3 | Experiment::Figure2 => {
            trainings(choice, &["ptb".to_owned()], &choice.sizes, &choice.models)
        }
        Experiment::Table4 => {
            let compared = [ModelKind::VdLstm, ModelKind::Real];
            trainings(choice, &choice.data, &choice.sizes, &compared)
        }
        Experiment::Figure1 => figure1(choice),
        Experiment::Ideal => ideal(choice),
    };
    for cell in &mut cells {
        cell.config = cell.config.clone().with(&choice.settings)?;
    }
    Ok(cells)
}

/// Trainings as Table 1 has them: corpus by size by model by seed.
fn trainings(choice: &Choice, data: &[String], sizes: &[Size], models: &[ModelKind]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for data in data {
        for &size in sizes {
            for &model in models {
                cells.extend((0..u64::from(choice.runs.max(1))).map(|run| training(choice, data, size, model, run)));
            }
        }
    }
    cells
}

fn training(choice: &Choice, data: &str, size: Size, model: ModelKind, run: u64) -> Cell {
    // A folder with the files of a public corpus is that corpus, wherever it lies.
    let name = data::recognise(Path::new(data)).map_or(data, |corpus| corpus.name);
    let mut config = recipe::recipe(preset(size, model, name), choice.epochs);
    config.seed = choice.seed + run;
    let folder = folder(&config);
    config.data.source = data.to_owned();
    Cell { folder, config }
}

/// The folder of a training.
fn folder(config: &Config) -> String {
    let name = data_name(&config.data.source);
    format!("{name}-{}-{}{}", config.size.name(), config.model.name(), seed_suffix(config.seed))
}

/// A corpus by its name, or by the last part of its path.
fn data_name(data: &str) -> String {
    Path::new(data).file_name().map_or_else(|| data.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Nothing for the usual seed.
fn seed_suffix(seed: u64) -> String {
    if seed == 1 { String::new() } else { format!("-seed{seed}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> Choice {
        Choice {
            sizes: vec![Size::Small, Size::Medium],
            data: vec!["ptb".to_owned(), "wikitext-2".to_owned()],
            models: ModelKind::ALL.to_vec(),
            only: Vec::new(),
            runs: 1,
            seed: 1,
            epochs: None,
            settings: Vec::new(),
        }
    }

    #[test]
    fn every_cell_has_a_folder_of_its_own_and_possible_settings() {
        for experiment in Experiment::ALL {
            let cells = cells(experiment, &Choice { runs: 3, ..choice() }).unwrap();
            let mut folders: Vec<&str> = cells.iter().map(|cell| cell.folder.as_str()).collect();
            folders.sort_unstable();
            folders.dedup();
            assert_eq!(folders.len(), cells.len(), "{}", experiment.name());
            for cell in &cells {
                cell.config.validate().unwrap();
            }
        }
    }

    #[test]
    fn the_experiments_share_their_trainings() {
        let names = |experiment| {
            let cells = cells(experiment, &Choice { sizes: vec![Size::Small], data: vec!["ptb".into()], ..choice() });
            cells.unwrap().into_iter().map(|cell| cell.folder).collect::<Vec<_>>()
        };
        let all = ["ptb-small-vd-lstm", "ptb-small-al", "ptb-small-re", "ptb-small-real"];
        assert_eq!(names(Experiment::Table1), all);
        assert_eq!(names(Experiment::Figure2), all);
        assert_eq!(names(Experiment::Table3), all);
        assert_eq!(names(Experiment::Table4), [all[0], all[3]]);
    }

    #[test]
    fn small_models_on_ptb_have_a_recipe_of_their_own() {
        let short = Choice { epochs: Some(3), ..choice() };
        let of = |choice: &Choice| cells(Experiment::Table1, choice).unwrap();
        for (cell, short) in of(&choice()).into_iter().zip(of(&short)) {
            let Config { model, size, ref data, .. } = cell.config;
            let same = cell.config == preset(size, model, &data.source);
            assert_eq!(same, !cell.folder.starts_with("ptb-small-"), "{}", cell.folder);
            // The length that is asked for is that of each training.
            let twice = cell.config.second_training_epochs > 0;
            assert_eq!((short.config.epochs, short.config.second_training_epochs), (3, if twice { 3 } else { 0 }));
            // A run of it is the paper's in all that the paper says.
            let expected = bowline::paper::compare(&cell.config, 100.0, 100.0).unwrap();
            assert_eq!(expected.other_settings, Vec::<String>::new(), "{}", cell.folder);
        }
    }

    #[test]
    fn the_first_training_is_the_same_with_and_without_the_augmented_loss() {
        for cell in cells(Experiment::Table1, &choice()).unwrap() {
            let first = cell.first_training().map(|first| first.folder);
            let expected = match cell.folder.as_str() {
                "ptb-small-vd-lstm" | "ptb-small-al" => Some("ptb-small-vd-lstm-first"),
                "ptb-small-re" | "ptb-small-real" => Some("ptb-small-re-first"),
                _ => None,
            };
            assert_eq!(first.as_deref(), expected);
        }
        let of = |model| training(&choice(), "ptb", Size::Small, model, 0).first_training().unwrap();
        assert!(of(ModelKind::VdLstm).is(&of(ModelKind::Al)) && of(ModelKind::Re).is(&of(ModelKind::Real)));
        assert!(!of(ModelKind::Re).is(&of(ModelKind::Al)));
    }

    #[test]
    fn another_run_in_a_cell_s_place_is_not_taken_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let cell = training(&choice(), "ptb", Size::Small, ModelKind::Re, 0);
        assert!(cell.record(dir.path()).unwrap().is_none());
        let folder = dir.path().join(&cell.folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), cell.config.to_toml().unwrap()).unwrap();
        assert!(cell.record(dir.path()).unwrap().is_some());
        let mut same = cell.config.clone();
        same.augment.gamma = 0.5; // +RE has no augmented loss
        std::fs::write(folder.join("config.toml"), same.to_toml().unwrap()).unwrap();
        assert!(cell.record(dir.path()).unwrap().is_some());
        let other = Config { epochs: 3, ..cell.config.clone() };
        std::fs::write(folder.join("config.toml"), other.to_toml().unwrap()).unwrap();
        let message = cell.record(dir.path()).unwrap_err().to_string();
        assert!(message.contains("`epochs` is 3, not 34"), "{message}");
    }
}
