//! What `eval --all` measured, kept beside the run as `predictors.json` for its report.

use crate::error::{Error, Result};
use crate::model_folder::BEST;
use crate::run::infinite_if_null;
use crate::storage::{atomic, files};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const FILE: &str = "predictors.json";
/// The file has not more bytes than this.
const LONGEST: u64 = 64 << 20;
const VERSION: u32 = 1;

/// One way of predicting: its perplexities and its cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictorRow {
    /// Its name.
    pub technique: String,
    /// What was found for it on the validation text.
    pub settings: String,
    /// How many models take part.
    pub models: usize,
    /// Perplexity on the validation text.
    #[serde(deserialize_with = "infinite_if_null")]
    pub valid: f64,
    /// Perplexity on the test text.
    #[serde(deserialize_with = "infinite_if_null")]
    pub test: f64,
    /// Cost of a token, measured.
    #[serde(deserialize_with = "infinite_if_null")]
    pub microseconds: f64,
    /// The same relative to the static evaluation.
    #[serde(deserialize_with = "infinite_if_null")]
    pub relative: f64,
}

/// All ways of predicting of a model, the static evaluation first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictorTable {
    /// Version of this file's format.
    pub version: u32,
    /// `re`, `real` and so on.
    pub model: String,
    /// What the weights are, see [`crate::loaded_model::LoadedModel::mark`].
    pub weights: String,
    /// The corpus, as it was asked for.
    pub data: String,
    /// SHA-256 of its validation and test text.
    pub data_sha256: [String; 2],
    /// Predictions made on each.
    pub tokens: [usize; 2],
    /// Threads the cost was measured with.
    pub threads: usize,
    /// The ways.
    pub rows: Vec<PredictorRow>,
}

impl PredictorTable {
    /// Where the table of a model belongs: the folder of its run, or the model's own where it has none.
    pub fn place(model: &Path) -> PathBuf {
        match model.parent() {
            Some(run) if model.ends_with(BEST) && run.join("config.toml").is_file() => run.to_path_buf(),
            _ => model.to_path_buf(),
        }
    }

    /// By how much a row's test perplexity is above that of the static evaluation, in percent.
    pub fn change(&self, row: &PredictorRow) -> Option<f64> {
        let first = self.rows.first()?;
        Some(100.0 * (row.test / first.test - 1.0)).filter(|change| change.is_finite())
    }

    /// The file in a folder; nothing if there is none.
    pub fn load(folder: &Path) -> Result<Option<PredictorTable>> {
        let path = folder.join(FILE);
        let Some(bytes) = files::read_if_there(&path, LONGEST)? else { return Ok(None) };
        let wrong = |problem: String| {
            Error::run(&path, problem, "remove the file, or write it again with `bowline eval RUN --data DIR --all`")
        };
        let table: PredictorTable =
            serde_json::from_slice(&bytes).map_err(|e| wrong(format!("line {}: {e}", e.line())))?;
        if table.version != VERSION {
            return Err(wrong(format!("it has version {}, and this program reads version {VERSION}", table.version)));
        }
        Ok(Some(table))
    }

    /// Writes it into a folder.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let table = PredictorTable { version: VERSION, ..self.clone() };
        let text = serde_json::to_string_pretty(&table)
            .map_err(|e| Error::run(&path, e.to_string(), "report this: it should not happen"))?;
        atomic::write(&path, |out| writeln!(out, "{text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_again_and_a_damaged_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(PredictorTable::load(folder.path()).unwrap(), None);
        let row = |technique: &str, test: f64| PredictorRow {
            technique: technique.into(),
            settings: String::new(),
            models: 1,
            valid: 101.5,
            test,
            microseconds: 10.0 / 3.0,
            relative: 1.0,
        };
        let rows = vec![row("static", 100.0), row("cache", 90.0), row("broken", f64::INFINITY)];
        let table = PredictorTable { version: VERSION, weights: "w".into(), rows, ..PredictorTable::default() };
        table.save(folder.path()).unwrap();
        assert_eq!(PredictorTable::load(folder.path()).unwrap().unwrap(), table);
        assert!((table.change(&table.rows[1]).unwrap() + 10.0).abs() < 1e-9);
        assert_eq!(table.change(&table.rows[2]), None);
        for (text, part) in [("{", "line 1: EOF"), ("{\"version\":1,\"x\":1}", "unknown field `x`")] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            let error = PredictorTable::load(folder.path()).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("predictors.json"), "{error}");
        }
    }

    #[test]
    fn the_table_of_a_run_s_model_is_the_run_s() {
        let folder = tempfile::tempdir().unwrap();
        let best = folder.path().join("run/best");
        std::fs::create_dir_all(&best).unwrap();
        assert_eq!(PredictorTable::place(&best), best);
        std::fs::write(folder.path().join("run/config.toml"), "").unwrap();
        assert_eq!(PredictorTable::place(&best), folder.path().join("run"));
        assert_eq!(PredictorTable::place(&folder.path().join("run")), folder.path().join("run"));
    }
}
