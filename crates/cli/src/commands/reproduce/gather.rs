//! What the cells of an experiment have brought: their records, and what is measured of the trained models.

use super::{ReproduceOptions, read};
use crate::terminal::note;
use bowline::corpus::{Split, SplitName, find_split};
use bowline::loaded_model::LoadedModel;
use bowline::{data, subspace};
use bowline_demo::{self as demo, Truth};
use bowline_kernels::{Isa, Team};
use bowline_reproduce::{self as reproduce, Cell, Distance, Experiment, Results};
use std::path::PathBuf;
use std::sync::Arc;

/// Words whose probability the paper speaks of.
const WATCHED: [&str; 4] = ["<unk>", "a", "an", "the"];

/// Reads what the cells have brought, and measures what is to be measured of them.
pub(super) fn gather(options: &ReproduceOptions, experiment: Experiment, cells: &[Cell]) -> anyhow::Result<Results> {
    let mut results = Results::default();
    let team = Arc::new(Team::new(options.threads.get()));
    let mut models = Vec::new();
    if experiment == Experiment::Figure1 {
        note(format_args!("measuring the distances between the subspaces"));
    }
    for cell in cells {
        let Some(record) = read(options, experiment, cell)? else { continue };
        let finished = record.summary.is_some();
        let dir = options.out.join(&cell.folder);
        match experiment {
            Experiment::Figure1 if finished => {
                let model = LoadedModel::load(&dir)?;
                let distance = subspace::of_model(model.require_network("word vectors")?).distance;
                let losses = [record.epochs.first(), record.epochs.last()].map(|end| end.map_or(f64::NAN, |e| e.loss));
                results.distances.push(Distance { cell: cell.clone(), distance, losses });
            }
            Experiment::Table4 if finished => {
                results.names.push(format!("{}, {}", cell.config.model.title(), cell.config.size.name()));
                models.push((cell, LoadedModel::load(&dir)?));
            }
            _ => {}
        }
        results.runs.push(record);
    }
    if experiment == Experiment::Ideal {
        let truth = Truth::new();
        let splits = truth.splits(demo::DEFAULT_SEED);
        results.floor = Some(truth.floor(&splits.test)?.perplexity());
    }
    if let Some((cell, last)) = models.last() {
        let all: Vec<&LoadedModel> = models.iter().map(|(_, model)| model).collect();
        results.predictions = reproduce::predictions(&all, &phrases(options), &team, Isa::detect())?;
        note(format_args!("measuring the models over the test split"));
        let test = test_split(cell, last)?;
        let near = reproduce::neighbours(last, &test.ids)?;
        for model in all {
            results.tendencies.push(reproduce::tendencies(model, &team, Isa::detect(), &test.ids, &WATCHED, &near)?);
        }
    }
    Ok(results)
}

fn phrases(options: &ReproduceOptions) -> Vec<(String, Option<String>)> {
    let papers = reproduce::PHRASES.iter().map(|&(phrase, next)| (phrase.to_owned(), Some(next.to_owned())));
    papers.chain(options.phrases.iter().map(|phrase| (phrase.clone(), None))).collect()
}

fn test_split(cell: &Cell, model: &LoadedModel) -> bowline::Result<Split> {
    let source = &cell.config.data.source;
    let path = match data::by_name(source) {
        Some(corpus) => data::locate(corpus, &data::Environment::current())?,
        None => PathBuf::from(source),
    };
    Split::read(&find_split(&path, SplitName::Test)?, &model.vocabulary, model.tokenize)
}
