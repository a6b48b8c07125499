//! The systems of Table 3 that can be trained here: recipes, and models joined from the runs of several.
//!
//! A recipe's run is a cell like any other, in the folder `ptb-NAME`. A *joined* system is made of finished cells: the mean of
//! several, or a mixture with weights found by expectation maximisation on the validation split and a recency cache tuned there.
//! What comes of it is kept in `NAME.json` beside the cells.

use super::{Cell as RunCell, Choice, recipe};
use bowline::config::{DataConfig, ModelKind, Size, preset};
use bowline::corpus::Corpus;
use bowline::error::{Error, Result};
use bowline::loaded_model::LoadedModel;
use bowline::predictor::recency_cache::tune;
use bowline::predictor::{Ensemble, Mix, em};
use bowline::recipes::Recipe;
use bowline::run::{DEFAULT_ORDER, NgramConfig};
use bowline::storage::{atomic, files};
use bowline_kernels::{Isa, Team};
use bowline_report::{Cell, Column, RunRecord, Table};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Words of PTB's vocabulary.
const PTB_WORDS: usize = 10_000;

/// A system that is joined from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// RNN+LDA with n-grams and a recency cache.
    RnnLdaKnCache,
    /// The mean of four small +REAL of different seeds.
    FourReal,
    /// The mean of two narrow LSTMs and two GRUs.
    FourMixed,
}

impl Joined {
    /// All of them.
    pub const ALL: [Joined; 3] = [Joined::RnnLdaKnCache, Joined::FourReal, Joined::FourMixed];

    /// What `--only` takes.
    pub fn name(self) -> &'static str {
        match self {
            Joined::RnnLdaKnCache => "rnn-lda+kn5+cache",
            Joined::FourReal => "4-small-real",
            Joined::FourMixed => "2-narrow-2-gru",
        }
    }

    fn published(self) -> Option<f64> {
        match self {
            Joined::RnnLdaKnCache => Some(92.0),
            Joined::FourReal | Joined::FourMixed => None,
        }
    }

    /// Whether an n-gram model is one of its members.
    pub fn has_ngrams(self) -> bool {
        self == Joined::RnnLdaKnCache
    }

    /// The trainings it is made of.
    fn cells(self, choice: &Choice) -> Result<Vec<RunCell>> {
        match self {
            Joined::RnnLdaKnCache => Ok(vec![of_recipe(choice, "rnn-lda", 0)?]),
            Joined::FourMixed => {
                let all = [("narrow", 0), ("narrow", 1), ("gru", 0), ("gru", 1)];
                all.into_iter().map(|(name, run)| of_recipe(choice, name, run)).collect()
            }
            Joined::FourReal => {
                let one = |run| super::training(choice, data(choice), Size::Small, ModelKind::Real, run);
                Ok((0..4).map(one).collect())
            }
        }
    }

    /// What is kept of it below `out`.
    fn read(self, out: &Path) -> Result<Option<JoinedResult>> {
        let path = out.join(format!("{}.json", self.name()));
        let Some(bytes) = files::read_if_there(&path, 1 << 20)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            let advice = format!("remove it, and `bowline reproduce table3 --only {}`", self.name());
            Error::run(&path, format!("line {}: {e}", e.line()), advice)
        })
    }
}

/// What came of a joined system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinedResult {
    /// The folders of its members.
    pub members: Vec<String>,
    /// What each counts.
    pub weights: Vec<f64>,
    /// Trainable values of all members; n-grams count by their number.
    pub parameters: usize,
    /// The cache's settings, in words.
    pub recency: Option<String>,
    /// Perplexity on the validation split.
    pub valid: f64,
    /// Perplexity on the test split.
    pub test: f64,
    /// Epochs of all members, and whether each was trained to its end.
    pub epochs: u32,
    /// See `epochs`.
    pub finished: bool,
}

/// A recipe's run of number `run`, with a seed of its own.
pub(super) fn of_recipe(choice: &Choice, name: &str, run: u64) -> Result<RunCell> {
    let mut config = Recipe::find(name)?.config(None, "ptb")?;
    config.epochs = choice.epochs.unwrap_or(config.epochs);
    config.seed = choice.seed + run;
    config.data.source = data(choice).to_owned();
    let (place, seed) = (label(choice), super::seed_suffix(config.seed));
    Ok(RunCell { folder: format!("{place}-{name}{seed}"), config })
}

/// The corpus: PTB, wherever it lies, or another in its place.
fn data(choice: &Choice) -> &str {
    choice.data.first().map_or("ptb", |data| data)
}

/// What the folders begin with.
pub fn label(choice: &Choice) -> String {
    super::data_name(data(choice))
}

/// The joined system of a name.
pub fn joined(name: &str) -> Option<Joined> {
    Joined::ALL.into_iter().find(|joined| joined.name() == name)
}

/// The cells of the systems that were asked for.
pub(super) fn cells(choice: &Choice) -> Result<Vec<RunCell>> {
    let mut all: Vec<RunCell> = Vec::new();
    for name in &choice.only {
        let cells = match joined(name) {
            Some(joined) => joined.cells(choice)?,
            None => vec![of_recipe(choice, name, 0)?],
        };
        for cell in cells {
            if !all.iter().any(|other| other.folder == cell.folder) {
                all.push(cell);
            }
        }
    }
    Ok(all)
}

/// The n-gram model's settings and folder.
pub fn ngrams(choice: &Choice) -> (NgramConfig, String) {
    let data = DataConfig { source: data(choice).to_owned(), ..DataConfig::default() };
    (NgramConfig::new(DEFAULT_ORDER, data), format!("{}-kn5", label(choice)))
}

/// Joins finished cells below `out`, and keeps what comes of it there.
pub fn join(joined: Joined, choice: &Choice, out: &Path, corpus: &Corpus, team: &Arc<Team>) -> Result<JoinedResult> {
    let mut members: Vec<String> = joined.cells(choice)?.into_iter().map(|cell| cell.folder).collect();
    if joined.has_ngrams() {
        members.push(ngrams(choice).1);
    }
    let records = members.iter().map(|folder| RunRecord::read(&out.join(folder))).collect::<Result<Vec<_>>>()?;
    let paths: Vec<_> = members.iter().map(|folder| out.join(folder)).collect();
    let mut ensemble = Ensemble::new(LoadedModel::load_all(&paths)?, Mix::Linear)?;
    let (isa, valid) = (Isa::detect(), &corpus.valid.ids);
    let predict = |ensemble: &Ensemble, ids: &[u32]| ensemble.nll(team, isa, ids, 1);
    if joined.has_ngrams() {
        let mut all = Vec::new();
        for mut predictor in ensemble.predictors(team, isa)? {
            all.push(predictor.target_probabilities(valid, &|| false).unwrap_or_default());
        }
        ensemble.set_weights(Some(em(&all.iter().map(|p| &p[..]).collect::<Vec<_>>()).weights))?;
        ensemble.recency = Some(tune(corpus.vocabulary.eos(), valid, &predict(&ensemble, valid)?)?.settings);
    } else {
        ensemble.set_weights(Some(vec![1.0 / members.len() as f64; members.len()]))?;
    }
    let of = |ids: &[u32]| -> Result<f64> {
        let nll = predict(&ensemble, ids)?;
        Ok((nll.iter().sum::<f64>() / nll.len().max(1) as f64).exp())
    };
    let result = JoinedResult {
        weights: ensemble.shares(),
        parameters: records.iter().filter_map(|run| run.summary.as_ref()).map(|summary| summary.parameters).sum(),
        recency: ensemble.recency.map(|settings| settings.to_string()),
        valid: of(valid)?,
        test: of(&corpus.test.ids)?,
        epochs: records.iter().filter(|run| run.config.network().is_some()).map(|run| run.epochs.len() as u32).sum(),
        finished: records.iter().all(to_its_end),
        members,
    };
    let path = out.join(format!("{}.json", joined.name()));
    let text = serde_json::to_string_pretty(&result)
        .map_err(|e| Error::run(&path, format!("the result cannot be written: {e}"), "report this"))?;
    atomic::write(&path, |to| to.write_all(text.as_bytes()).and_then(|()| to.write_all(b"\n")))?;
    Ok(result)
}

/// Whether a run is over and as long as its recipe is.
fn to_its_end(run: &RunRecord) -> bool {
    let Some(config) = run.config.network() else { return run.summary.is_some() };
    let epochs = match config.model.paper_tied() {
        Some(_) => Some(recipe::recipe(preset(config.size, config.model, "ptb"), None).epochs),
        None => Recipe::find(config.model.name()).and_then(|recipe| recipe.config(None, "ptb")).ok().map(|c| c.epochs),
    };
    run.summary.is_some() && epochs.is_none_or(|epochs| config.epochs >= epochs)
}

/// A row of Table 3.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemRow {
    /// What `--only` takes.
    pub name: String,
    /// Trainable values.
    pub parameters: Option<usize>,
    /// Perplexities, where they are known.
    pub valid: Option<f64>,
    /// See `valid`.
    pub test: Option<f64>,
    /// The published test perplexity.
    pub published: Option<f64>,
    /// Epochs done.
    pub epochs: u32,
    /// Whether it was trained to its end.
    pub finished: bool,
}

/// What there is of every system below `out`, in folders that begin with the label.
pub fn rows(out: &Path, label: &str) -> Result<Vec<SystemRow>> {
    let mut rows = Vec::new();
    for recipe in Recipe::all()?.into_iter().filter(|recipe| !recipe.about.sizes) {
        let dir = out.join(format!("{label}-{}", recipe.name));
        let run = dir.join("config.toml").is_file().then(|| RunRecord::read(&dir)).transpose()?;
        let published = recipe.about.published.iter().find(|published| published.data == "ptb");
        let summary = run.as_ref().and_then(|run| run.summary.as_ref());
        rows.push(SystemRow {
            parameters: Some(match summary {
                Some(summary) => summary.parameters,
                None => recipe.config(None, "ptb")?.spec(PTB_WORDS).parameters(),
            }),
            valid: run.as_ref().and_then(RunRecord::valid),
            test: run.as_ref().and_then(RunRecord::test),
            published: published.map(|published| published.test),
            epochs: run.as_ref().map_or(0, |run| run.epochs.len() as u32),
            finished: run.as_ref().is_some_and(to_its_end),
            name: recipe.name,
        });
    }
    for joined in Joined::ALL {
        let result = joined.read(out)?;
        let of = |f: fn(&JoinedResult) -> f64| result.as_ref().map(f);
        rows.push(SystemRow {
            name: joined.name().to_owned(),
            parameters: result.as_ref().map(|result| result.parameters),
            valid: of(|result| result.valid),
            test: of(|result| result.test),
            published: joined.published(),
            epochs: result.as_ref().map_or(0, |result| result.epochs),
            finished: result.is_some_and(|result| result.finished),
        });
    }
    Ok(rows)
}

/// The rows for people.
pub(super) fn table(rows: &[SystemRow]) -> Table {
    let over = |row: &SystemRow| Some(row.test? - row.published?);
    let state = |row: &SystemRow| match (row.epochs, row.finished) {
        (0, _) => "not run",
        (_, true) => "finished",
        (_, false) => "not to its end",
    };
    let shown = rows.iter().map(|row| {
        vec![
            Cell::text(row.name.clone()),
            row.parameters.map_or(Cell::Empty, |n| Cell::text(format!("{:.2}M", n as f64 / 1e6))),
            Cell::maybe(row.valid, 2),
            Cell::maybe(row.test, 2),
            Cell::quoted(row.published, 1),
            Cell::difference(over(row), 2),
            Cell::number(f64::from(row.epochs), 0),
            Cell::text(state(row)),
        ]
    });
    Table {
        name: "table3-systems".to_owned(),
        caption: "The systems as trained here, beside what was published".to_owned(),
        columns: vec![
            Column::text("name"),
            Column::text("parameters"),
            Column::number("valid"),
            Column::number("test"),
            Column::number("published"),
            Column::number("diff.").key("difference"),
            Column::number("epochs"),
            Column::text("state"),
        ],
        rows: shown.collect(),
        notes: vec![
            "Test perplexity of the kept model, one stream, state carried. Of a run that is under way there is no test, and \
             valid is the best so far."
                .to_owned(),
        ],
    }
}

/// The rows for machines: `name,parameters,valid,test,published,epochs,finished`.
pub fn machine_table(rows: &[SystemRow]) -> Table {
    let number = |value: Option<f64>, decimals| value.map_or(Cell::Empty, |value| Cell::number(value, decimals));
    let row = |row: &SystemRow| {
        vec![
            Cell::text(row.name.clone()),
            number(row.parameters.map(|n| n as f64), 0),
            number(row.valid, 4),
            number(row.test, 4),
            number(row.published, 1),
            Cell::number(f64::from(row.epochs), 0),
            Cell::text(if row.finished { "true" } else { "false" }),
        ]
    };
    let columns = ["name", "parameters", "valid", "test", "published", "epochs", "finished"];
    Table {
        name: "table3".to_owned(),
        columns: columns.map(Column::text).to_vec(),
        rows: rows.iter().map(row).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(only: &[&str]) -> Choice {
        Choice {
            sizes: vec![Size::Small],
            data: vec!["ptb".to_owned()],
            models: Vec::new(),
            only: only.iter().map(|name| (*name).to_owned()).collect(),
            runs: 1,
            seed: 1,
            epochs: None,
            settings: Vec::new(),
        }
    }

    #[test]
    fn every_system_can_be_asked_for_and_joined_ones_share_their_members() {
        let folders = |only: &[&str]| {
            let cells = cells(&choice(only)).unwrap();
            cells.into_iter().map(|cell| cell.folder).collect::<Vec<_>>()
        };
        for row in rows(Path::new("nowhere"), "ptb").unwrap() {
            assert!(!folders(&[&row.name]).is_empty(), "{}", row.name);
            assert_eq!((row.test, row.epochs, row.finished), (None, 0, false), "{}", row.name);
        }
        assert_eq!(folders(&["rnn-lda", "rnn-lda+kn5+cache"]), ["ptb-rnn-lda"]);
        let four = ["ptb-small-real", "ptb-small-real-seed2", "ptb-small-real-seed3", "ptb-small-real-seed4"];
        assert_eq!(folders(&["4-small-real"]), four);
        let mixed = ["ptb-narrow", "ptb-narrow-seed2", "ptb-gru", "ptb-gru-seed2"];
        assert_eq!(folders(&["2-narrow-2-gru"]), mixed);
        let message = cells(&choice(&["rnn-ldda"])).unwrap_err().to_string();
        assert!(message.contains("there is no recipe `rnn-ldda`"), "{message}");
    }

    #[test]
    fn a_run_that_is_shorter_than_its_recipe_is_not_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let write = |epochs: u32, over: bool| {
            let cell = of_recipe(&Choice { epochs: Some(epochs), ..choice(&[]) }, "rnn-mikolov", 0).unwrap();
            let folder = dir.path().join(&cell.folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("config.toml"), cell.config.to_toml().unwrap()).unwrap();
            std::fs::write(folder.join("events.jsonl"), "").unwrap();
            let summary = format!(
                r#"{{"model":"rnn-mikolov","size":"small","data":"ptb","data_sha256":["a","b","c"],"seed":1,
                "parameters":6180300,"epochs":{epochs},"steps":10,"ended":"done","best_epoch":1,"valid":130.5,"test":126.25,
                "tokens":[73759,82429],"weights_sha256":"d4","curve":[],
                "timing":{{"seconds":6.0,"words_per_second":4.5,"machine":"2 threads"}}}}"#
            );
            if over {
                std::fs::write(folder.join("summary.json"), summary).unwrap();
            }
            rows(dir.path(), "ptb").unwrap().into_iter().find(|row| row.name == "rnn-mikolov").unwrap()
        };
        assert_eq!(write(6, false).test, None);
        let row = write(5, true);
        assert_eq!((row.test, row.published, row.finished), (Some(126.25), Some(124.7), false));
        let row = write(6, true);
        assert!(row.finished);
        let csv = machine_table(&[row]).csv();
        assert_eq!(
            csv,
            "name,parameters,valid,test,published,epochs,finished\nrnn-mikolov,6180300,130.5,126.25,124.7,0,true\n"
        );
    }
}
