//! `bowline subspace`: how far a model's classifier is from its word vectors.

use super::print_json;
use crate::screen::stdout;
use bowline::loaded_model::LoadedModel;
use bowline::subspace::{self, Distance};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct SubspaceOptions {
    /// A model's folder, or a run's
    pub model: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct SubspaceAnswer<'a> {
    model: &'a str,
    tied: bool,
    vocab: usize,
    #[serde(flatten)]
    distance: Distance,
}

pub fn run(options: &SubspaceOptions) -> anyhow::Result<ExitCode> {
    let model = LoadedModel::load(&options.model)?;
    let params = model.require_network("word vectors")?;
    let spec = params.spec();
    let distance = subspace::of_model(params);
    if options.json {
        print_json(&SubspaceAnswer { model: &model.kind, tied: spec.output.tied, vocab: spec.vocab, distance })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout();
    writeln!(out, "distance between the spans of L^T and W: {:.6}", distance.distance)?;
    writeln!(
        out,
        "  {} and {} dimensions of {}; 0 is the same span, 1 orthogonal, {:.3} what chance gives",
        distance.rank_x, distance.rank_y, spec.vocab, distance.random
    )?;
    if spec.output.tied {
        writeln!(out, "  the classifier of this model is its word vectors, so the distance is 0 by construction")?;
    }
    Ok(ExitCode::SUCCESS)
}
